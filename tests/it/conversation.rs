//! A topic is a conversation: what was said and done before is part of each request, in the same bytes.

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply, Vendor, shared},
    service::{Client, Service, WORKS_ITSELF},
};

const BOTH: [Vendor; 2] = [Vendor::Anthropic, Vendor::OpenAi];
/// How a request for a summary begins.
const REQUEST: &str = "Summarise this conversation.";

/// A service whose only model is the fake one, which reads so much at once.
async fn service(vendor: Vendor, model: &FakeModel, window: u32) -> Service {
    started(vendor, model, &format!("context_window: {window}\n    max_output_tokens: 1000"), "")
        .await
}

/// The same with what else its profile and the file of its main team say.
async fn started(vendor: Vendor, model: &FakeModel, profile: &str, team: &str) -> Service {
    let (provider, path) = match vendor {
        Vendor::Anthropic => ("anthropic", ""),
        Vendor::OpenAi => ("openai", "/v1"),
    };
    let providers = format!(
        "profiles:\n  default:\n    provider: {provider}\n    api_url: {}{path}\n    \
         api_key: {KEY}\n    model: m\n    {profile}\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("run/teams/main/config.yaml", &format!("{WORKS_ITSELF}{team}"))
        .with_file("run/teams/main/notes.txt", "the number is 4711\n")
        .started()
        .await
}

/// What a message says from outside or from the model, and results of tools, whatever the vendor.
fn pieces(body: &Value) -> Vec<(String, String)> {
    let mut pieces = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        match &message["content"] {
            Value::String(text) => pieces.push((role, text.clone())),
            Value::Array(blocks) => pieces.extend(blocks.iter().map(|block| {
                let kind = match block["type"].as_str() {
                    Some("tool_result") => "tool".to_owned(),
                    _ => role.clone(),
                };
                let text = block["content"].as_str().or(block["text"].as_str());
                (kind, text.unwrap_or_default().to_owned())
            })),
            _ => {}
        }
    }
    pieces
}

/// What was said last.
fn asked(body: &Value) -> String {
    pieces(body).pop().map(|(_, text)| text).unwrap_or_default()
}

fn is_summary(body: &Value) -> bool {
    body.to_string().contains(REQUEST)
}

/// A model that reads the file when it is told to look, and says what it printed when it is asked: from what it is
/// shown, and from nothing else.
fn rememberer(body: &Value) -> Reply {
    if is_summary(body) {
        // A summary keeps what is in the record.
        let found = body.to_string().contains("4711");
        return Reply::text(if found { "The notes say 4711." } else { "Nothing." });
    }
    let pieces = pieces(body);
    match pieces.last() {
        Some((role, text)) if role == "user" && text.ends_with("look") => {
            Reply::call("read", json!({ "file_path": "notes.txt" }))
        }
        Some((role, text)) if role == "user" && text.ends_with("what did it print?") => {
            let result = pieces.iter().find(|(role, text)| role == "tool" && text.contains("4711"));
            let summary = pieces.iter().find(|(_, text)| text.contains("The notes say 4711."));
            let found = result.map(|_| "result: 4711").or(summary.map(|_| "summary: 4711"));
            Reply::text(found.unwrap_or("unknown"))
        }
        _ => Reply::text(&"Noted, and I have a lot to say about it. ".repeat(25)),
    }
}

async fn told(client: &mut Client, topic: &str, id: &str, words: &str) -> String {
    client.say_in(topic, id, words).await;
    client.end_of(id).await["content"].as_str().unwrap_or_default().to_owned()
}

/// SE-41: in the next turn, after a kill, and in a conversation that was begun anew not.
#[actix::test]
async fn what_a_command_printed_can_be_asked_for_in_later_turns_and_after_a_kill() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.answer_with(rememberer);
        let mut service = service(vendor, &model, 200_000).await;
        let mut client = service.connect().await;
        let channel = client.channel.clone().expect("a channel");
        let topic = client.open_topic("look").await;
        let living = told(&mut client, &topic, "m1", "what did it print?").await;
        service.kill();
        service.launch().await;
        let mut client = service.connect().await;
        client.resume(&channel, 0).await;
        let restarted = told(&mut client, &topic, "m2", "what did it print?").await;
        client.say("n1", "/new").await;
        client.end_of("n1").await;
        client.say("n2", "what did it print?").await;
        let anew = client.end_of("n2").await;

        assert_eq!(
            (living.as_str(), restarted.as_str()),
            ("result: 4711", "result: 4711"),
            "{vendor:?}"
        );
        assert_eq!(anew["content"], "unknown", "{vendor:?}: {anew:#}");
    }
}

/// SE-41, SE-92: also when the conversation has become too long: from the turn itself while that is kept, then from
/// the summary.
#[actix::test]
async fn what_a_command_printed_can_be_asked_for_after_a_compaction() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.answer_with(rememberer);
        let mut service = service(vendor, &model, 16_000).await;
        let mut client = service.connect().await;
        let channel = client.channel.clone().expect("a channel");
        let topic = client.open_topic("hello").await;
        let summaries = || model.requests().iter().filter(|r| is_summary(&r.body)).count();
        let mut number = 0;
        while summaries() == 0 {
            number += 1;
            // The look is among the newest when the first summary is made.
            let words = if number % 4 == 0 { "look" } else { "tell me more" };
            told(&mut client, &topic, &format!("m{number}"), words).await;
            assert!(number < 100, "{vendor:?}");
        }
        let kept = told(&mut client, &topic, "k1", "what did it print?").await;
        let made = summaries();
        while summaries() < made + 2 {
            number += 1;
            told(&mut client, &topic, &format!("m{number}"), "tell me more").await;
            assert!(number < 200, "{vendor:?}");
        }
        service.kill();
        service.launch().await;
        let mut client = service.connect().await;
        client.resume(&channel, 0).await;
        let summarised = told(&mut client, &topic, "k2", "what did it print?").await;

        assert_eq!(kept, "result: 4711", "{vendor:?}");
        assert_eq!(summarised, "summary: 4711", "{vendor:?}");
    }
}

/// EN-37: the model thinks as much as its team says, and in a topic as much as a person said there; a server that does not
/// know of it is asked without.
#[actix::test]
async fn the_level_of_thinking_reaches_the_model() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let field = match vendor {
            Vendor::Anthropic => "thinking",
            Vendor::OpenAi => "reasoning_effort",
        };
        model.answer_with(|_| Reply::text("Fine."));
        let profile = "max_output_tokens: 16000";
        let service = started(vendor, &model, profile, "thinking: low\n").await;
        let mut client = service.connect().await;
        let level = || model.requests().last().map(|request| request.body[field].clone());
        let topic = client.open_topic("hello").await;
        let of_team = level();
        told(&mut client, &topic, "m1", "/think high").await;
        told(&mut client, &topic, "m2", "hello again").await;
        let of_topic = level();
        model.answer_with(move |body| match body.get(field) {
            Some(_) => Reply::status(400, &format!("Unknown parameter: '{field}'.")),
            None => Reply::text("Without."),
        });
        let refused = told(&mut client, &topic, "m3", "and again").await;

        let expected = match vendor {
            Vendor::Anthropic => {
                [2_000, 8_000].map(|tokens| json!({"type": "enabled", "budget_tokens": tokens}))
            }
            Vendor::OpenAi => ["low", "high"].map(Value::from),
        };
        assert_eq!([of_team, of_topic], expected.map(Some), "{vendor:?}");
        assert_eq!(refused, "Without.", "{vendor:?}");
    }
}

/// The body of a request without what marks the end of something that the server is to keep.
fn unmarked(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let text = text.replace(r#","cache_control":{"type":"ephemeral"}"#, "");
    text.replace(r#""cache_control":{"type":"ephemeral"},"#, "").into_bytes()
}

/// SE-31, SE-41, SE-44, SE-139: of twenty turns each request begins with the bytes of the one before, also after a
/// restart; the view of usage shows how much of it came from the provider's cache.
#[actix::test]
async fn the_twentieth_request_begins_with_the_nineteenth() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.count();
        model.answer_with(|body| Reply::text(&format!("You said: {}. ", asked(body)).repeat(10)));
        let mut service = service(vendor, &model, 200_000).await;
        let mut client = service.connect().await;
        let channel = client.channel.clone().expect("a channel");
        let topic = client.open_topic("let us talk").await;
        for number in 2..=20 {
            if number == 15 {
                service.kill();
                service.launch().await;
                client = service.connect().await;
                client.resume(&channel, 0).await;
            }
            told(&mut client, &topic, &format!("m{number}"), &format!("turn {number}")).await;
        }

        let requests = model.requests();
        assert_eq!(requests.len(), 20, "{vendor:?}");
        for pair in requests.windows(2) {
            let (former, next) = (unmarked(&pair[0].bytes), unmarked(&pair[1].bytes));
            let end = former.len() - 2;
            assert_eq!(shared(&former, &next), end, "{vendor:?}: all but the end of the list");
        }
        let (nineteenth, twentieth) = (&requests[18].bytes, &requests[19].bytes);
        let share = shared(nineteenth, twentieth) * 100 / twentieth.len();
        assert!(share >= 80, "{vendor:?}: {share} %");
        if vendor == Vendor::Anthropic {
            let marks = requests[19].body.to_string().matches("cache_control").count();
            assert_eq!(marks, 4);
        }
        let (_, usage) = service.api("GET", "/api/v1/usage?group=team", None).await;
        let shown = usage["data"][0]["cached_share"].as_f64().expect("a share");
        assert!((0.5..1.0).contains(&shown), "{vendor:?}: {usage:#}");
    }
}
