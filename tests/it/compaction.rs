//! Conversations that are too long for the model: what is left out, what is kept, and what is said of it.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{
    fake_model::{FakeModel, KEY, Part, Received, Reply, Vendor},
    service::{Client, PATIENCE, Service, WORKS_ITSELF},
};

const BOTH: [Vendor; 2] = [Vendor::Anthropic, Vendor::OpenAi];
/// How a request for a summary begins, and how a summary does where it is shown.
const REQUEST: &str = "Summarise this conversation.";
const SUMMARY: &str = "[COMPACTED CONTEXT SUMMARY]";
/// In the workspace of the main team: 3,000 characters.
const FILE: &str = "notes.txt";

/// A service whose only model is the fake one, which reads so much at once.
async fn service(vendor: Vendor, model: &FakeModel, window: u32) -> Service {
    let (provider, path) = match vendor {
        Vendor::Anthropic => ("anthropic", ""),
        Vendor::OpenAi => ("openai", "/v1"),
    };
    let providers = format!(
        "profiles:\n  default:\n    provider: {provider}\n    api_url: {}{path}\n    \
         api_key: {KEY}\n    model: m\n    context_window: {window}\n    max_output_tokens: 1000\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file(
            &format!("run/teams/main/{FILE}"),
            &"notes notes notes notes notes\n".repeat(100),
        )
        .started()
        .await
}

fn text_of(body: &Value) -> String {
    body.to_string()
}

fn is_summary(body: &Value) -> bool {
    text_of(&body["messages"]).contains(REQUEST)
}

fn look() -> Reply {
    Reply::call("read", json!({ "file_path": FILE }))
}

/// Says much, and looks at the file.
fn talk_and_look() -> Reply {
    let args = json!({ "file_path": FILE }).to_string();
    Reply::Blocks(vec![
        Part::Text("I think aloud. ".repeat(400)),
        Part::Call("call-1".to_owned(), "read".to_owned(), args),
    ])
}

fn notes(frames: &[Value]) -> Vec<&str> {
    let notes = frames.iter().filter(|frame| frame["kind"] == "note");
    notes.filter_map(|note| note["content"].as_str()).collect()
}

/// All calls in what a model is shown have their results right behind them, and the other way round.
fn is_paired(vendor: Vendor, body: &Value) -> bool {
    let list = body["messages"].as_array().expect("messages");
    let count = |message: &Value| match vendor {
        Vendor::Anthropic => {
            let of = |kind: &str| {
                let blocks = message["content"].as_array();
                let fitting = blocks.map(|blocks| blocks.iter().filter(|b| b["type"] == kind));
                fitting.map_or(0, Iterator::count)
            };
            (of("tool_use"), of("tool_result"))
        }
        Vendor::OpenAi => (
            message["tool_calls"].as_array().map_or(0, Vec::len),
            usize::from(message["role"] == "tool"),
        ),
    };
    let mut open = 0;
    for message in list {
        let (calls, results) = count(message);
        if results > open || (calls > 0 && open > 0) {
            return false;
        }
        open = open - results + calls;
    }
    open == 0
}

async fn session(service: &Service) -> String {
    let (_, sessions) = service.api("GET", "/api/v1/sessions", None).await;
    sessions["data"][0]["id"].as_str().expect("a session").to_owned()
}

/// The transcript as it is exported, a line each.
async fn export(service: &Service) -> Vec<Value> {
    let path = format!("{}/api/v1/sessions/{}/export", service.url(), session(service).await);
    let client = crate::service::http();
    let sent = client.get(path).bearer_auth(service.token()).send().await;
    let lines = sent.expect("an answer").text().await.expect("text");
    let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.collect()
}

fn role<'a>(lines: &'a [Value], role: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["role"] == role).collect()
}

/// SE-91 to SE-94, SE-139, CH-65, EN-49: a turn that grows is summarised and goes on; a kill while the
/// summary is written loses nothing and does nothing twice.
#[actix::test]
async fn a_long_turn_is_summarised_and_survives_a_kill_meanwhile() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    static SUMMARIES: AtomicUsize = AtomicUsize::new(0);
    static ASKED: Notify = Notify::const_new();
    const LAST: usize = 12;
    let model = FakeModel::start();
    model.count();
    model.answer_with(|body| match is_summary(body) {
        true if SUMMARIES.fetch_add(1, Ordering::SeqCst) == 0 => {
            ASKED.notify_one();
            Reply::SlowFirstByte(Duration::from_secs(60), "too late".to_owned())
        }
        true => Reply::text("The notes were read, and say nothing."),
        false if STEPS.fetch_add(1, Ordering::SeqCst) < LAST => talk_and_look(),
        false => Reply::text("All done."),
    });
    let mut service = service(Vendor::Anthropic, &model, 25_000).await;
    let mut client = service.connect().await;
    let channel = client.channel.clone().expect("a channel");
    client.say("m1", "read the notes, often").await;
    tokio::time::timeout(PATIENCE, ASKED.notified()).await.expect("a summary is asked for");

    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, 0).await;
    let end = client.end_of("m1").await;

    assert_eq!(end["content"], "All done.", "{end:#}");
    let requests = model.requests();
    let summaries: Vec<&Received> = requests.iter().filter(|r| is_summary(&r.body)).collect();
    assert!(summaries.len() >= 2);
    for summary in &summaries {
        assert!(summary.body.get("tools").is_none_or(|tools| tools == &json!([])));
        assert_eq!(summary.body["model"], "m");
        assert!(text_of(&summary.body).contains("read the notes, often"));
    }
    // The same each time: nothing was done between the kill and the second try.
    assert_eq!(summaries[0].body, summaries[1].body);
    let steps: Vec<&Received> = requests.iter().filter(|r| !is_summary(&r.body)).collect();
    assert_eq!(steps.len(), LAST + 1, "no step is asked twice");
    for step in &steps {
        assert!(is_paired(Vendor::Anthropic, &step.body));
        assert!(text_of(&step.body["messages"]).contains("read the notes, often"));
        // What came since the last count is estimated.
        let size = step.bytes.len() / 4;
        assert!(size < 25_000, "{size}");
    }
    let last = text_of(&steps[LAST].body);
    assert!(last.contains(SUMMARY) && last.contains("say nothing"));
    let lines = export(&service).await;
    assert_eq!(role(&lines, "toolResult").len(), LAST, "the journal keeps all");
    for result in role(&lines, "toolResult") {
        assert!(result["content"][0]["text"].as_str().unwrap().len() > 3_000);
    }
    let is_told = |line: &&Value| {
        let text = line["content"][0]["text"].as_str().unwrap_or_default();
        text.starts_with(SUMMARY) && text.contains("say nothing")
    };
    let told = role(&lines, "system").into_iter().filter(is_told).count();
    assert_eq!(told, summaries.len() - 1);
    // Each call counts, those for summaries too; the one that was killed told no figures.
    let (_, usage) = service.api("GET", "/api/v1/usage?group=team", None).await;
    assert_eq!(usage["data"][0]["requests"], json!(steps.len() + summaries.len() - 1), "{usage:#}");
}

/// SE-92: stage 1 alone needs no model.
#[actix::test]
async fn old_results_are_left_out_first() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let model = FakeModel::start();
    model.count();
    model.answer_with(|_| match STEPS.fetch_add(1, Ordering::SeqCst) {
        0..8 => Reply::calls((0..3).map(|_| ("read", json!({ "file_path": FILE })))),
        _ => Reply::text("All done."),
    });
    let service = service(Vendor::OpenAi, &model, 25_000).await;
    let mut client = service.connect().await;
    client.say("m1", "read the notes").await;

    let frames = client.exchange().await;

    let end = &frames[frames.len() - 1];
    assert_eq!(end["content"], "All done.", "{end:#}");
    let notes = notes(&frames);
    assert!(
        notes.iter().any(|note| note.starts_with("Long results of earlier steps were left out")),
        "{notes:?}"
    );
    let requests = model.requests();
    assert!(!requests.iter().any(|request| is_summary(&request.body)));
    let last = &requests[requests.len() - 1];
    assert!(text_of(&last.body).contains("characters left out to save room; result of call"));
    assert!(is_paired(Vendor::OpenAi, &last.body));
}

/// SE-95: in the words of both vendors; the step is tried once more with less, and once only.
#[actix::test]
async fn a_request_that_the_provider_finds_too_long_is_tried_once_more() {
    for vendor in BOTH {
        let said = match vendor {
            Vendor::Anthropic => "prompt is too long: 210000 tokens > 200000 maximum",
            Vendor::OpenAi => {
                "This model's maximum context length is 128000 tokens. However, your messages \
                 resulted in 130000 tokens. Please reduce the length of the messages."
            }
        };
        let full = match vendor {
            Vendor::Anthropic => Reply::WindowFull("Half an ans".to_owned()),
            Vendor::OpenAi => Reply::status(413, "request too large"),
        };
        for (first, second, helped) in [
            (Reply::status(400, said), Reply::text("All done."), true),
            (full, Reply::text("All done."), true),
            (Reply::status(400, said), Reply::status(400, said), false),
        ] {
            let model = FakeModel::start();
            let service = service(vendor, &model, 200_000).await;
            let mut client = service.connect().await;
            let shown = format!("{vendor:?} {first:?} {second:?}");
            model.say((0..6).map(|_| look()));
            model.say([first, second]);
            client.say("m1", "read the notes").await;

            let frames = client.exchange().await;

            let end = &frames[frames.len() - 1];
            let requests = model.requests();
            assert_eq!(requests.len(), 8, "{shown}: {frames:#?}");
            let shorter = requests[7].bytes.len() + 5_000 < requests[6].bytes.len();
            assert!(shorter, "{shown}");
            assert!(is_paired(vendor, &requests[7].body), "{shown}");
            if helped {
                assert_eq!(end["content"], "All done.", "{shown}: {frames:#?}");
            } else {
                assert_eq!(end["code"], "context_overflow", "{shown}: {frames:#?}");
                // What is left is what every conversation of the team has: a new one would not help.
                assert!(
                    end["error"].as_str().unwrap().contains("instructions and tools"),
                    "{end:#}"
                );
            }
        }
    }
}

/// SE-94: a summary that cannot be had does not end a turn that fits.
#[actix::test]
async fn without_a_summary_the_turn_goes_on() {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
    let model = FakeModel::start();
    model.count();
    model.answer_with(|body| match is_summary(body) {
        true => Reply::status(400, "no summaries today"),
        false if STEPS.fetch_add(1, Ordering::SeqCst) < 10 => talk_and_look(),
        false => Reply::text("All done."),
    });
    let service = service(Vendor::Anthropic, &model, 28_000).await;
    let mut client = service.connect().await;
    client.say("m1", "read the notes").await;

    let frames = client.exchange().await;

    let requests = model.requests();
    assert!(requests.iter().any(|request| is_summary(&request.body)));
    let end = &frames[frames.len() - 1];
    assert_eq!(end["content"], "All done.", "{end:#}");
}

/// Says something nine times, which is eighteen messages: the topic.
async fn talk(client: &mut Client) -> String {
    let topic = client.open_topic("tell me of tulips").await;
    for number in 1..9 {
        let id = format!("t{number}");
        client.say_in(&topic, &id, &format!("and of tulip {number}")).await;
        client.end_of(&id).await;
    }
    topic
}

/// The first message that the last step was shown.
fn first_of(model: &FakeModel) -> String {
    let requests = model.requests();
    text_of(&requests[requests.len() - 1].body["messages"][0])
}

fn answer(body: &Value) -> Reply {
    if is_summary(body) {
        Reply::text("They spoke of tulips.")
    } else {
        Reply::text(&"Tulips are flowers. ".repeat(20))
    }
}

/// EN-36, OP-26: a person has a conversation summarised; later turns are shown the summary, also after a
/// restart; the transcript keeps what was said.
#[actix::test]
async fn a_conversation_is_summarised_when_a_person_wants_it() {
    let model = FakeModel::start();
    model.answer_with(answer);
    let mut service = service(Vendor::Anthropic, &model, 200_000).await;
    let mut client = service.connect().await;
    let channel = client.channel.clone().expect("a channel");
    let topic = talk(&mut client).await;
    let before = role(&export(&service).await, "user").len();

    client.say_in(&topic, "c1", "/compact").await;
    let first = client.end_of("c1").await;
    client.say_in(&topic, "c2", "/compact").await;
    let second = client.end_of("c2").await;
    client.say_in(&topic, "m1", "go on").await;
    client.end_of("m1").await;
    let living = first_of(&model);
    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, 0).await;
    client.say_in(&topic, "m2", "and on").await;
    client.end_of("m2").await;

    let told = first["content"].as_str().unwrap();
    assert!(told.contains("were summarised: about "), "{first:#}");
    assert!(second["content"].as_str().unwrap().contains("less than a minute ago"));
    for first in [living, first_of(&model)] {
        assert!(first.contains("They spoke of tulips."), "{first}");
    }
    let lines = export(&service).await;
    assert_eq!(role(&lines, "user").len(), before + 2);
    let told = role(&lines, "system");
    let text = told[0]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, format!("{SUMMARY}\nThey spoke of tulips."));
}

/// OP-26, OP-84: an operator has it done over REST and on the command line, after which it is in the audit.
#[actix::test]
async fn an_operator_has_a_session_summarised() {
    let model = FakeModel::start();
    model.answer_with(answer);
    let service = service(Vendor::Anthropic, &model, 200_000).await;
    let mut client = service.connect().await;
    talk(&mut client).await;
    let id = session(&service).await;
    let path = format!("/api/v1/sessions/{id}/compact");

    let (status, accepted) = service.api("POST", &path, Some(json!({}))).await;
    let task = accepted["data"]["task_id"].as_str().expect("a task").to_owned();
    let watched = service.run(&["tasks", "watch", &task], "").await;
    let again = service.run(&["history", "compact", &id, "--json"], "").await;
    let (unknown, _) = service
        .api("POST", "/api/v1/sessions/main:t-0000000000000000/compact", Some(json!({})))
        .await;

    assert_eq!((status, unknown), (202, 404), "{accepted:#}");
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let (_, row) = service.api("GET", &format!("/api/v1/tasks/{task}"), None).await;
    assert_eq!(row["data"]["type"], "compact", "{row:#}");
    let said = row["data"]["outcome"]["result"].as_str().unwrap_or_default();
    assert!(said.contains("were summarised: about "), "{row:#}");
    assert_eq!(again.code, Some(0), "{again:?}");
    let (_, audit) = service.api("GET", "/api/v1/audit", None).await;
    assert!(text_of(&audit).contains("sessions.compact"), "{audit:#}");
    client.say("m1", "go on about tulips").await;
    client.end_of("m1").await;
    assert!(first_of(&model).contains("They spoke of tulips."));
}
