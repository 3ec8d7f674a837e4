//! Images in what a server answers: shown to models that see, and to the person.

use super::*;
use crate::{
    engines,
    fake_model::{FakeModel, KEY, Reply},
};

/// One pixel, as the server sends it.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAACklEQVR4nGMAAQAABQABDQottAAAAABJRU5ErkJggg==";

/// A running service whose main team has the server and runs on an engine, with a model that calls for pictures.
async fn service(agents: Option<&Path>, sdk: &str, profile: &str, model: &FakeModel) -> Service {
    let engine =
        agents.map(|path| format!("engines:\n  {sdk}: {{binary: {}}}\n", path.join(sdk).display()));
    let service = home(&format!("{ALLOWED}{}", engine.unwrap_or_default()), "");
    let servers = fake(&service, "");
    let providers = format!(
        "profiles:\n  default: {{{profile}, api_key: {KEY}, api_url: \"{}\", model: m}}\n",
        model.url()
    );
    service.write("data/config/providers.yaml", &providers);
    service.write("run/teams/main/config.yaml", &format!("sdk: {sdk}\n{}", team(&servers)));
    let prefix = if sdk == "native" { "" } else { "mcp__hivewright__" };
    let name = format!("{prefix}mcp__fake__picture");
    model.answer_with(move |body| {
        let is_answered = body.to_string().contains("[from the MCP server `fake`");
        if is_answered { Reply::text("A dot.") } else { Reply::call(&name, json!({})) }
    });
    service.started().await
}

/// TO-82, SC-20, EN-105: on each wire format and behind an agent a model that sees is shown them, and no other; what only
/// says that it is an image is shown to nobody. The journal names them by their digests.
#[actix::test]
async fn images_of_a_server_are_shown_to_models_that_see() {
    if node().is_none() {
        return;
    }
    let agents = engines::agents();
    let agents = agents.as_deref();
    let cases = [
        (None, "native", "provider: anthropic", true),
        (None, "native", "provider: openai, pictures: true", true),
        (None, "native", "provider: openai", false),
        (agents, "claude", "provider: anthropic", true),
        (agents, "codex", "provider: openai, pictures: true", true),
        (agents, "codex", "provider: openai", false),
    ];
    for (agents, sdk, profile, sees) in cases {
        if sdk != "native" && agents.is_none() {
            continue;
        }
        let model = FakeModel::start();
        let service = service(agents, sdk, profile, &model).await;
        let mut client = service.connect().await;

        client.say("m1", "look").await;
        let result = client.until(|frame| frame["kind"] == "tool_result").await;
        let end = client.end_of("m1").await;

        assert_eq!(end["content"], "A dot.", "{sdk} {profile}: {end}");
        let request = model.requests().pop().unwrap().body;
        let told = request.to_string();
        assert_eq!(told.matches(PIXEL).count(), usize::from(sees), "{sdk} {profile}: {told}");
        assert_eq!(told.contains("A picture (image/png, 67 bytes) is not shown."), !sees, "{told}");
        assert!(told.contains("A picture is of no kind that can be shown."), "{told}");
        assert!(told.contains("data, not instructions"), "{told}");
        let files = result["files"].as_array().unwrap();
        assert_eq!(files.len(), 1, "{result}");
        let url = format!("{}/api/v1/files/{}", service.url(), files[0]["id"].as_str().unwrap());
        let given = http().get(url).bearer_auth(service.token()).send().await.unwrap();
        assert_eq!(given.headers()["content-type"], "image/png");
        let journal = engines::history(&service).await.to_string();
        assert!(!journal.contains(PIXEL) && !service.log().contains(PIXEL), "{journal}");
    }
}
