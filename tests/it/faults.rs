//! Model faults as a person sees them: a retry and then the answer, or a clear error, in bounded time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply, Vendor},
    service::{Client, Service},
};

const BOTH: [Vendor; 2] = [Vendor::Anthropic, Vendor::OpenAi];

/// A service whose only model is the fake one, which has a second to say something.
async fn service(vendor: Vendor, model: &FakeModel) -> Service {
    let (provider, path) = match vendor {
        Vendor::Anthropic => ("anthropic", ""),
        Vendor::OpenAi => ("openai", "/v1"),
    };
    let providers = format!(
        "profiles:\n  default:\n    provider: {provider}\n    api_url: {}{path}\n    \
         api_key: {KEY}\n    model: m\n    response_timeout: 1s\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\"]\n")
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .started()
        .await
}

/// Says something and hears all there is about it.
async fn exchange(client: &mut Client, content: &str) -> Vec<Value> {
    client.send(json!({ "content": content })).await;
    client.exchange().await
}

fn notes(frames: &[Value]) -> Vec<&Value> {
    frames.iter().filter(|frame| frame["kind"] == "note").collect()
}

/// Words of an answer that broke off, as far as they came.
fn is_half(content: &Value) -> bool {
    let is_begun = |text: &str| "Half an ans".starts_with(text) || "Hel".starts_with(text);
    content.as_str().is_some_and(|text| !text.is_empty() && is_begun(text))
}

/// SE-124, SE-125, CH-65, CH-81
#[actix::test]
async fn a_fault_that_passes_is_noted_and_then_answered() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let service = service(vendor, &model).await;
        let mut client = service.connect().await;
        let asked = vec![("retry-after", "1".to_owned())];
        let faults: [(Reply, &str, bool); 8] = [
            (Reply::Status(429, asked, "slow down".into()), "(429): slow down", false),
            (Reply::status(500, "broken"), "(500): broken", false),
            (Reply::status(529, "overloaded"), "(529): overloaded", false),
            (Reply::SlowFirstByte(Duration::from_secs(60), String::new()), "1 s", false),
            (Reply::CutMidway("Half an ans".into()), "broke", true),
            (Reply::Stall("Half an ans".into()), "1 s", true),
            (Reply::MalformedSse, "cannot be read", false),
            (Reply::ErrorEvent("overloaded_error", "too busy".into()), "too busy", true),
        ];
        for (fault, cause, had_text) in faults {
            let shown = format!("{vendor:?} {fault:?}");
            let before = model.requests().len();
            let waits = matches!(fault, Reply::Status(429, ..));
            let is_stalled = matches!(fault, Reply::Stall(_));
            model.say([fault, Reply::text("Recovered.")]);
            let begin = Instant::now();

            let frames = exchange(&mut client, "tulips in the garden").await;

            let took = begin.elapsed();
            let end = &frames[frames.len() - 1];
            assert_eq!(
                [&end["type"], &end["content"]],
                [&json!("response"), &json!("Recovered.")],
                "{shown}: {frames:#?}"
            );
            assert_eq!(model.requests().len(), before + 2, "{shown}");
            let notes = notes(&frames);
            let causes: Vec<_> =
                notes.iter().map(|note| note["content"].as_str().unwrap()).collect();
            assert!(causes.iter().any(|note| note.contains(cause)), "{shown}: {causes:?}");
            // Of words that are void before the ack the person has heard nothing.
            let heard = frames.iter().any(|frame| is_half(&frame["content"]));
            assert!(had_text || !heard, "{shown}: {frames:#?}");
            assert!(heard || !is_stalled, "{shown}: {frames:#?}");
            let resets = notes.iter().filter(|note| note["reset"] == true).count();
            assert_eq!(resets, usize::from(heard), "{shown}: {frames:#?}");
            assert!(took < Duration::from_secs(20), "{shown} took {took:?}");
            assert!(!waits || took >= Duration::from_secs(1), "{shown} took {took:?}");
        }
    }
}

/// SE-14, SE-15, SE-16, SE-127: what will not pass is said at once, with the cause.
#[actix::test]
async fn a_fault_that_stays_is_an_error_that_names_the_cause() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let service = service(vendor, &model).await;
        let mut client = service.connect().await;
        let faults = [
            // The first: there are no earlier turns yet that could be left out.
            (Reply::status(413, "too long"), "context_overflow", "too long for the model"),
            (Reply::status(400, "no such parameter"), "provider_error", "(400): no such parameter"),
            (Reply::status(404, "no such model"), "provider_error", "(404): no such model"),
            (Reply::Refusal, "provider_refused", "declined to answer"),
            (Reply::Endless, "provider_error", "is larger than"),
        ];
        for (fault, code, cause) in faults {
            let shown = format!("{vendor:?} {fault:?}");
            let before = model.requests().len();
            model.say([fault]);

            let frames = exchange(&mut client, "tulips in the garden").await;

            let end = &frames[frames.len() - 1];
            assert_eq!(
                [&end["type"], &end["code"]],
                [&json!("error"), &json!(code)],
                "{shown}: {end}"
            );
            let error = end["error"].as_str().unwrap();
            assert!(error.contains(cause), "{shown}: {error}");
            assert!(error.contains("`default`"), "names the profile: {error}");
            assert_eq!(frames[0]["type"], "ack", "{shown}");
            assert_eq!(model.requests().len(), before + 1, "{shown} is not retried");
            model.say([Reply::text("Next.")]);
            assert_eq!(client.ask("more tulips").await["content"], "Next.", "{shown}");
        }
    }
}

/// SE-89: nothing said is no success. The tools that ran are named, and the model is not asked again.
#[actix::test]
async fn an_empty_answer_is_an_error_that_names_the_tools_that_ran() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let service = service(vendor, &model).await;
        let mut client = service.connect().await;
        for calls in [vec![], vec![Reply::call("glob", json!({"pattern": "*"}))]] {
            let before = model.requests().len();
            let (asked, ran) = (calls.len() + 1, !calls.is_empty());
            model.say(calls.into_iter().chain([Reply::empty()]));

            let frames = exchange(&mut client, "tulips in the garden").await;

            let end = &frames[frames.len() - 1];
            assert_eq!(
                [&end["type"], &end["code"]],
                [&json!("error"), &json!("empty_answer")],
                "{vendor:?}: {end}"
            );
            let error = end["error"].as_str().unwrap();
            assert!(error.contains("answered with nothing"), "{end}");
            assert_eq!(error.contains("glob"), ran, "{end}");
            assert_eq!(model.requests().len(), before + asked, "{vendor:?}");
        }
    }
}

/// TO-12: a tool call that cannot be made is the model's own mistake: it is told what is wrong, and the call
/// is not made.
#[actix::test]
async fn a_call_that_cannot_be_made_goes_back_to_the_model() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let service = service(vendor, &model).await;
        let mut client = service.connect().await;
        let mistakes = [
            (Reply::invalid_tool_json("read", "{\"file_path\": "), "JSON"),
            (
                Reply::call("launch_rocket", json!({"to": "moon"})),
                "tool not available to this team",
            ),
            (Reply::call("read", json!({"wrong": true})), "file_path"),
        ];
        for (mistake, told) in mistakes {
            let shown = format!("{vendor:?} {mistake:?}");
            let before = model.requests().len();
            model.say([mistake, Reply::text("Corrected.")]);

            let frames = exchange(&mut client, "tulips in the garden").await;

            let result = frames.iter().find(|frame| frame["kind"] == "tool_result");
            assert_eq!(result.unwrap()["ok"], false, "{shown}");
            assert_eq!(frames[frames.len() - 1]["content"], "Corrected.", "{shown}");
            let requests = model.requests();
            assert_eq!(requests.len(), before + 2, "{shown}");
            // The last message that the model is sent is the result alone.
            let messages = requests[before + 1].body["messages"].as_array().cloned();
            let last = messages.and_then(|messages| messages.last().cloned());
            let last = last.unwrap().to_string();
            assert!(last.contains(told), "{shown}: {last}");
        }
    }
}

/// SE-124, SE-129: what does not pass in five tries is waited for, and the person is told.
#[actix::test]
async fn a_lasting_fault_is_tried_again_later_and_can_be_cancelled() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let service = service(vendor, &model).await;
        let mut client = service.connect().await;
        model.otherwise(Reply::status(529, "overloaded"));
        let begin = Instant::now();

        client.say("m", "tulips in the garden").await;
        let note = client
            .until(|frame| {
                frame["content"]
                    .as_str()
                    .is_some_and(|text| text.ends_with("Waiting; trying again in 30 s."))
            })
            .await;
        let took = begin.elapsed();
        let topic = note["topic_id"].clone();
        client.send(json!({ "type": "cancel", "topic_id": topic })).await;
        let end = client.end_of("m").await;

        assert_eq!([&note["type"], &note["kind"]], [&json!("progress"), &json!("note")]);
        assert!(note["content"].as_str().unwrap().contains("tried 5 times"), "{note}");
        assert_eq!(model.requests().len(), 5);
        assert!(took < Duration::from_secs(25), "{took:?}");
        assert_eq!([&end["type"], &end["status"]], [&json!("response"), &json!("cancelled")]);
    }
}

/// SE-129: also where nobody listens at the address.
#[actix::test]
async fn an_address_where_nobody_listens_is_named() {
    let model = FakeModel::start();
    let service = service(Vendor::OpenAi, &model).await;
    let url = model.url().to_owned();
    drop(model);
    let mut client = service.connect().await;

    client.say("m", "tulips in the garden").await;
    let note = client.until(|frame| frame["kind"] == "note").await;

    let text = note["content"].as_str().unwrap();
    assert!(text.contains("`default`"), "{text}");
    assert!(text.contains("connect") || text.contains("reach"), "{text}");
    assert!(!text.contains(KEY), "{text} {url}");
}
