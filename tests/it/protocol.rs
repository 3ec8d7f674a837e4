//! The frames of a conversation: their fields, their order, and what happens to one that comes twice.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::service::{Client, PATIENCE, Service, WORKS_ITSELF};

const WS_CHANNEL: &str = "ws:";

/// The names of a frame's fields, sorted.
fn fields(frame: &Value) -> Vec<&str> {
    let fields = frame.as_object().expect("an object");
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// The fields of all frames and these, sorted.
fn with_common<'a>(own: &[&'a str]) -> Vec<&'a str> {
    let common = ["type", "topic_id", "topic_name", "channel_id", "seq", "ts"];
    let mut names = [&common[..], own].concat();
    names.sort_unstable();
    names
}

fn kind(frame: &Value) -> String {
    let name = |field: &str| frame[field].as_str().unwrap_or_default().to_owned();
    match name("type").as_str() {
        "progress" => format!("progress {}", name("kind")),
        other => other.to_owned(),
    }
}

/// CH-51 to CH-53, CH-58, CH-59, CH-63, CH-64, CH-81
#[actix::test]
async fn a_message_is_acknowledged_then_worked_on_then_answered() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;

    client
        .say(
            "m-1",
            "#say I look into it.\n#call bash {\"command\": \"echo found-it\"}\n#reply Result: {result}",
        )
        .await;
    let frames = client.exchange().await;

    let mut kinds: Vec<String> = frames.iter().map(kind).collect();
    assert_eq!(kinds[1], "progress text_delta", "the words of the ack follow it");
    assert_eq!(frames[1]["content"], "I look into it.");
    kinds.retain(|kind| kind != "progress text_delta");
    let order = ["ack", "progress tool_call", "progress tool_result", "response"];
    assert_eq!(kinds, order, "{frames:#?}");
    let [ack, call, result, response] =
        order.map(|wanted| frames.iter().find(|frame| kind(frame) == wanted).unwrap());
    assert_eq!(
        fields(ack),
        with_common(&["content", "message_id", "task_id", "generated", "position", "accepted_at"])
    );
    assert_eq!(
        [&ack["content"], &ack["generated"], &ack["position"]],
        [&json!("I look into it."), &json!(true), &json!(0)]
    );
    let about_calls = ["content", "kind", "message_id", "task_id", "tool", "call_id"];
    assert_eq!(fields(call), with_common(&[&about_calls[..], &["preview"]].concat()));
    assert_eq!(call["content"], "Using bash");
    assert_eq!(call["preview"], r#"{"command":"echo found-it"}"#);
    assert_eq!(
        fields(result),
        with_common(&[&about_calls[..], &["preview", "ok", "duration_ms"]].concat())
    );
    assert_eq!([&result["content"], &result["ok"]], [&json!("Used bash"), &json!(true)]);
    assert!(result["preview"].as_str().unwrap().contains("found-it"));
    assert_eq!(result["call_id"], call["call_id"]);
    assert_eq!(
        fields(response),
        with_common(&["content", "message_id", "task_id", "status", "usage"])
    );
    assert_eq!(response["status"], "done");
    assert!(response["content"].as_str().unwrap().contains("found-it"));
    assert_eq!(fields(&response["usage"]), ["cost_usd", "input", "output"]);
    for frame in &frames {
        assert_eq!(frame["message_id"], "m-1", "{frame}");
        assert_eq!(frame["topic_id"], ack["topic_id"], "{frame}");
        assert_eq!(frame["topic_name"], ack["topic_name"], "{frame}");
        assert_eq!(frame["task_id"], ack["task_id"], "{frame}");
        let channel = frame["channel_id"].as_str().unwrap();
        assert!(channel.starts_with(WS_CHANNEL) && channel.len() == 35, "{channel}");
        assert!(frame["ts"].is_u64(), "{frame}");
    }
}

/// CH-55 to CH-58
#[actix::test]
async fn a_refusal_and_a_topic_list_have_their_fields_and_no_topic() {
    let service = Service::start().await;
    let mut client = service.connect().await;

    client.send(json!({ "content": " " })).await;
    let error = client.frame().await;
    client.open_topic("tulips in the garden").await;
    client.send(json!({ "type": "topic_list_request" })).await;
    let list = client.until(|frame| frame["type"] == "topic_list").await;

    assert_eq!(fields(&error), with_common(&["error", "code"]));
    assert_eq!([&error["topic_id"], &error["topic_name"]], [&Value::Null; 2]);
    assert_eq!(fields(&list), with_common(&["topics"]));
    assert_eq!(list["topic_id"], Value::Null);
    assert_eq!(
        fields(&list["topics"][0]),
        ["id", "last_activity", "name", "queued", "read_until", "running", "state"]
    );
}

/// CH-35
#[actix::test]
async fn the_channel_is_named_at_the_upgrade_and_nothing_comes_unasked() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let channel = client.channel.clone().unwrap();

    let unasked = tokio::time::timeout(Duration::from_millis(300), client.try_frame()).await;
    client.send(json!({ "type": "topic_list_request" })).await;
    let list = client.frame().await;

    assert!(unasked.is_err(), "{unasked:?}");
    assert_eq!(list["channel_id"], channel);
    assert_eq!(list["topics"], json!([]));
}

/// CH-61, CH-81: text is merged, comes in order, and only after the ack.
#[actix::test]
async fn an_answer_comes_in_pieces_that_make_the_whole() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let words = (1..=40).map(|number| format!("word{number}"));
    let words = words.collect::<Vec<_>>().join(" ");
    let begin = Instant::now();

    client
        .say("m", &format!("#say {words}.\n#wait 300\n#say Half way.\n#wait 300\n#reply The end."))
        .await;
    let frames = client.exchange().await;

    let took = begin.elapsed();
    let pieces: Vec<&str> = frames
        .iter()
        .filter(|frame| frame["kind"] == "text_delta")
        .map(|frame| frame["content"].as_str().unwrap())
        .collect();
    let said: String = pieces.concat().split_whitespace().collect();
    let whole = format!("{words}.Half way.The end.");
    let whole: String = whole.split_whitespace().collect();
    assert_eq!(frames[0]["type"], "ack");
    assert_eq!(frames[0]["content"], format!("{words}."));
    assert!(whole.starts_with(&said), "{said}");
    assert!(pieces.len() >= 2, "{pieces:?}");
    assert!(
        pieces.len() as u128 <= took.as_millis() / 50 + 2,
        "{} frames in {took:?}",
        pieces.len()
    );
}

/// CH-82
#[actix::test]
async fn a_silent_model_is_acknowledged_with_a_fixed_sentence() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    let begin = Instant::now();

    client.say("m", "#wait 3000\n#reply At last.").await;
    let ack = client.frame().await;
    let after = begin.elapsed();
    let end = client.end_of("m").await;

    assert_eq!(
        [&ack["type"], &ack["content"], &ack["generated"], &ack["position"]],
        [&json!("ack"), &json!("Working on it."), &json!(false), &json!(0)]
    );
    assert!(
        after >= Duration::from_millis(1_450) && after < Duration::from_millis(2_900),
        "{after:?}"
    );
    assert_eq!(end["content"], "At last.");
}

/// CH-46, CH-47, CH-51
#[actix::test]
async fn a_message_that_is_sent_again_is_not_run_again() {
    let service = Service::prepare()
        .with_file("run/teams/main/count", "")
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .started()
        .await;
    let mut client = service.connect().await;
    let slow = "#call bash {\"command\": \"echo x >> count\"}\n#wait 1000\n#reply Counted.";

    client.say("once", slow).await;
    client.say("once", slow).await;
    client.until(|frame| frame["kind"] == "tool_result").await;
    client.say("once", slow).await;
    let running = client.until(|frame| frame["duplicate"] == true).await;
    let end = client.end_of("once").await;
    client.say("once", slow).await;
    let done = client.until(|frame| frame["duplicate"] == true).await;
    client.say("once", "#reply Something else.").await;
    let conflict = client.frame().await;

    assert_eq!(
        [&running["type"], &running["status"], &running["response_seq"]],
        [&json!("ack"), &json!("running"), &Value::Null]
    );
    assert_eq!(
        [&done["status"], &done["response_seq"], &done["task_id"]],
        [&json!("done"), &end["seq"], &end["task_id"]]
    );
    assert_eq!(
        [&conflict["type"], &conflict["code"], &conflict["message_id"]],
        [&json!("error"), &json!("message_id_conflict"), &json!("once")]
    );
    let count = std::fs::read_to_string(service.path("run/teams/main/count")).unwrap();
    assert_eq!(count, "x\n");
}

/// CH-47: also a repetition that comes before the first one is stored.
#[actix::test]
async fn a_repetition_in_the_same_instant_is_not_told_that_all_is_done() {
    let service = Service::start().await;
    let mut client = service.connect().await;

    for number in 0..50 {
        let id = format!("m{number}");
        client.say(&id, "#reply Here.").await;
        client.say(&id, "#reply Here.").await;
    }
    let mut repeated = Vec::new();
    let mut ended = 0;
    while ended < 50 || repeated.len() < 50 {
        let frame = client.frame().await;
        ended += usize::from(frame["type"] == "response");
        if frame["duplicate"] == true {
            repeated.push(frame);
        }
    }

    for frame in repeated {
        let is_done = frame["status"] == "done";
        assert_eq!(is_done, frame["response_seq"].is_u64(), "{frame}");
    }
}

/// CH-36
#[actix::test]
async fn a_quiet_connection_is_pinged_and_stays() {
    let service = Service::start().await;
    let mut client = service.connect().await;

    let ping = tokio::time::timeout(PATIENCE, client.ping()).await;
    let end = client.ask("#reply Still here.").await;

    assert!(ping.is_ok(), "no ping within {PATIENCE:?}");
    assert_eq!(end["content"], "Still here.");
}

/// CH-20, CH-106, EN-34: commands are answered by code, without an ack.
#[actix::test]
async fn text_commands_are_answered_without_a_turn() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let topic = client.open_topic("tulips in the garden").await;

    client.say("c1", "/help").await;
    let help = client.frame().await;
    client.say("c2", "/topics").await;
    let topics = client.frame().await;
    client.say("c3", "/stop").await;
    let stop = client.frame().await;
    client.say("c4", &format!("/close {topic}")).await;
    let close = client.frame().await;
    client.say("c5", "/close nonsense").await;
    let unknown = client.frame().await;
    client.say("c6", "/other words").await;
    let other = client.frame().await;
    client.say("c7", "/etc/hosts is wrong").await;
    let ordinary = client.frame().await;

    assert_eq!([&help["type"], &help["status"]], [&json!("response"), &json!("done")]);
    assert!(help["content"].as_str().unwrap().contains("/close [topic]"));
    assert!(topics["content"].as_str().unwrap().contains(&topic));
    assert_eq!(stop["content"], "Nothing is running.");
    assert!(close["content"].as_str().unwrap().starts_with("Archived \""));
    assert!(unknown["content"].as_str().unwrap().starts_with("There is no topic \"nonsense\"."));
    let other = other["content"].as_str().unwrap();
    assert!(other.starts_with("There is no command `/other`"), "{other}");
    assert_eq!(ordinary["type"], "ack");
}

/// CH-69
#[actix::test]
async fn too_many_messages_are_refused_with_the_time_to_wait() {
    let service = Service::prepare()
        .with_file(
            "data/config/channels.yaml",
            "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 60, burst: 2}}}\n",
        )
        .started()
        .await;
    let mut client = service.connect().await;

    for number in 0..3 {
        client.say(&format!("m{number}"), "#reply Yes.").await;
    }
    let refused = client.end_of("m2").await;
    let pause = refused["retry_after_ms"].as_u64().unwrap();
    tokio::time::sleep(Duration::from_millis(pause)).await;
    client.say("m2", "#reply Yes.").await;
    let heard = client.end_of("m2").await;

    assert_eq!(refused["code"], "rate_limited");
    assert!((1..=1_000).contains(&pause), "{pause}");
    assert_eq!(heard["content"], "Yes.");
}

/// CH-29: who names another channel at the upgrade gets the answer, and that channel hears of the work.
#[actix::test]
async fn another_channel_hears_of_the_work_of_a_connection() {
    let service = Service::start().await;
    let team = json!({"name": "research", "scope_accepts": ["research"]});
    let (made, _) = service.api("POST", "/api/v1/teams", Some(team)).await;
    assert_eq!(made, 201);
    let wish = json!({"name": "eve", "scopes": ["chat"]});
    let (_, eve) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    let eve = eve["data"]["token"].as_str().unwrap();
    let mut told = service.connect().await;
    told.ask("#reply here").await;
    let named = told.channel.clone().unwrap();
    let header = [("x-source-channel", named.as_str())];

    let foreign = Client::connect_with(&service.url(), eve, &header).await;
    let unknown = [("x-source-channel", "ws:nobody")];
    let unknown = Client::connect_with(&service.url(), &service.token(), &unknown).await;
    let asking = Client::connect_with(&service.url(), &service.token(), &header).await;
    let mut asking = asking.unwrap();
    let answer = asking.ask("delegate research: #reply found").await;
    let notice =
        told.until(|frame| frame["type"] == "notification" && frame["team"] == "research").await;

    for refused in [foreign, unknown] {
        let Err(tokio_tungstenite::tungstenite::Error::Http(refusal)) = refused else {
            panic!("it was let in");
        };
        assert_eq!(refusal.status(), 403);
        let body = String::from_utf8_lossy(refusal.body().as_ref().unwrap()).into_owned();
        assert!(body.contains("source_channel_not_allowed"), "{body}");
    }
    assert_eq!(answer["type"], "response", "{answer}");
    assert_eq!(notice["channel_id"], named, "{notice}");
}
