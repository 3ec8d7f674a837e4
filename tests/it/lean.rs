//! The fixed part of a request: what a model is told besides the conversation, and pays for each time.

use serde_json::Value;

use crate::{
    fake_model::{FakeModel, KEY, Reply, Vendor},
    service::Service,
};

/// The most tokens of the fixed part; a token is four characters.
const MOST: usize = 5_000;

/// A service as it is shipped, whose only model is the fake one.
async fn service(vendor: Vendor, model: &FakeModel) -> Service {
    let (provider, path) = match vendor {
        Vendor::Anthropic => ("anthropic", ""),
        Vendor::OpenAi => ("openai", "/v1"),
    };
    let providers = format!(
        "profiles:\n  default: {{provider: {provider}, api_url: \"{}{path}\", api_key: {KEY}, model: m}}\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .started()
        .await
}

/// The first request of a turn of the main team, as if the service lived where it usually does.
async fn first_request(vendor: Vendor) -> Value {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Hello."));
    let service = service(vendor, &model).await;
    let mut client = service.connect().await;
    client.say("m1", "hello there").await;
    client.end_of("m1").await;
    let text = String::from_utf8(model.requests()[0].bytes.clone()).unwrap();
    let home = service.home().to_str().expect("UTF-8");
    serde_json::from_str(&text.replace(home, "/var/lib/hivewright")).unwrap()
}

/// The system prompt: its texts, and how they are sent.
fn system(vendor: Vendor, body: &Value) -> (String, &Value) {
    match vendor {
        Vendor::Anthropic => {
            let parts = body["system"].as_array().unwrap().iter();
            (parts.map(|part| part["text"].as_str().unwrap()).collect(), &body["system"])
        }
        Vendor::OpenAi => {
            let message = &body["messages"][0];
            assert_eq!(message["role"], "system");
            (message["content"].as_str().unwrap().to_owned(), message)
        }
    }
}

/// The tools, and what their schemas are called. What OpenAI wants around a function is not ours to shorten.
fn tools(vendor: Vendor, body: &Value) -> (Vec<&Value>, &'static str) {
    let tools = body["tools"].as_array().unwrap().iter();
    match vendor {
        Vendor::Anthropic => (tools.collect(), "input_schema"),
        Vendor::OpenAi => (tools.map(|tool| &tool["function"]).collect(), "parameters"),
    }
}

/// SE-46: counted as turns count it, and as the bytes that are sent.
#[actix::test]
async fn the_fixed_part_of_a_request_of_the_shipped_main_team_is_small() {
    for vendor in [Vendor::Anthropic, Vendor::OpenAi] {
        let body = first_request(vendor).await;

        let (text, sent) = system(vendor, &body);
        let (tools, schema) = tools(vendor, &body);
        let characters = |tool: &&Value| {
            let words = ["name", "description"].map(|field| tool[field].as_str().unwrap());
            words.concat().chars().count() + tool[schema].to_string().chars().count()
        };
        let told = text.chars().count() + tools.iter().map(characters).sum::<usize>();
        let sent =
            sent.to_string().len() + tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();

        println!("{vendor:?}: {} tools, {told} characters, {sent} bytes", tools.len());
        assert!(tools.len() >= 30, "{vendor:?}: {} tools", tools.len());
        assert!(told / 4 <= MOST, "{vendor:?}: {} tokens", told / 4);
        assert!(sent / 4 <= MOST, "{vendor:?}: {} tokens as sent", sent / 4);
    }
}
