//! Compaction on every engine: a person wants a summary, and a model finds a turn too long.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    engines::{ENGINES, agents, home, provider, shape, team},
    fake_model::{FakeModel, Reply},
    service::{Client, Service},
};

const FILE: &str = "notes.txt";
/// How often it is read before the model finds the turn too long.
const LOOKS: usize = 6;

/// A model that is shown notes until they are too long.
fn reader() -> FakeModel {
    let model = FakeModel::start();
    let looks = AtomicUsize::new(0);
    model.answer_with(move |body| {
        let text = body.to_string();
        if text.contains("Summarise this conversation.") {
            return Reply::text("They spoke of tulips.");
        }
        if !text.contains("read the notes") {
            return Reply::text(&"Tulips are flowers. ".repeat(20));
        }
        let is_agent = text.contains("mcp__hivewright");
        let tool = if is_agent { "mcp__hivewright__read" } else { "read" };
        match looks.fetch_add(1, Ordering::SeqCst) {
            0..LOOKS => Reply::call(tool, json!({ "file_path": FILE })),
            LOOKS => Reply::status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
            _ => Reply::text("All done."),
        }
    });
    model
}

/// Says something nine times, which is more than a summary leaves as it is: the topic.
async fn talk(client: &mut Client) -> String {
    let topic = client.open_topic("tell me of tulips").await;
    for number in 1..9 {
        let id = format!("t{number}");
        client.say_in(&topic, &id, &format!("and of tulip {number}")).await;
        client.end_of(&id).await;
    }
    topic
}

/// What an engine has made of it: the answers, what the model was shown last, and the history.
struct Made {
    compacted: Value,
    end: Value,
    shown: String,
    shape: Vec<String>,
}

async fn compact(service: &Service, model: &FakeModel, sdk: &str) -> Made {
    let mut client = service.connect().await;
    let topic = talk(&mut client).await;
    service.write("run/teams/main/config.yaml", &team(sdk));
    client.say_in(&topic, "c1", "/compact").await;
    let compacted = client.end_of("c1").await;
    client.say_in(&topic, "m1", "read the notes").await;
    let end = client.end_of("m1").await;
    let requests = model.requests();
    let shown = requests.last().expect("a request").body.to_string();
    Made { compacted, end, shown, shape: shape(service).await }
}

/// EN-36, EN-55, EN-56, SE-95: the summary takes the place of what was said; a turn that is too long is made shorter and
/// goes on. The history is the same whatever ran the turn.
#[actix::test]
async fn conversations_and_turns_are_made_shorter_on_every_engine() {
    let Some(agents) = agents() else { return };
    let run = |(sdk, settings): (&'static str, &'static str)| {
        let agents = agents.clone();
        async move {
            let model = reader();
            // The turns before are of our own loop, which speaks as the agent does.
            let service = home(&agents, "native", settings)
                .with_file("data/config/providers.yaml", &provider(&model, sdk, settings))
                .with_file(&format!("run/teams/main/{FILE}"), &"notes notes notes\n".repeat(200))
                .started()
                .await;
            compact(&service, &model, sdk).await
        }
    };

    let made = join_all(ENGINES.map(run)).await;

    for ((sdk, settings), Made { compacted, end, shown, shape }) in ENGINES.iter().zip(&made) {
        let said = compacted["content"].as_str().unwrap_or_default();
        assert!(said.contains("were summarised: about "), "{sdk} {settings}: {compacted}");
        assert_eq!(end["content"], "All done.", "{sdk} {settings}: {end}");
        assert!(shown.contains("They spoke of tulips."), "{sdk} {settings}: {shown}");
        assert!(!shown.contains("tell me of tulips"), "{sdk} {settings}: {shown}");
        assert!(shown.contains("left out to save room"), "{sdk} {settings}: {shown}");
        assert_eq!(*shape, made[0].shape, "{sdk} {settings}");
    }
}
