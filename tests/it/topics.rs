//! Topics: what runs side by side, what waits, what is stopped, and who decides where a message belongs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service},
};

async fn topics(client: &mut Client) -> Vec<Value> {
    client.send(json!({ "type": "topic_list_request" })).await;
    let list = client.until(|frame| frame["type"] == "topic_list").await;
    list["topics"].as_array().unwrap().clone()
}

async fn until_running(client: &mut Client, id: &str) {
    client.until(|frame| frame["type"] == "ack" && frame["message_id"] == id).await;
}

/// CH-82, CH-84, CH-56
#[actix::test]
async fn messages_of_one_topic_wait_for_each_other_and_are_told_so() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let topic = client.open_topic("tulips in the garden").await;

    client.say_in(&topic, "slow", "#say Slowly.\n#wait 3000\n#reply First.").await;
    client.say_in(&topic, "next", "#reply Second.").await;
    let ack = client.until(|frame| frame["type"] == "ack" && frame["message_id"] == "next").await;
    let rows = topics(&mut client).await;
    let first = client.terminal().await;
    let second = client.terminal().await;

    let sentence = "Queued behind 1 message in \"tulips garden\".";
    assert_eq!(
        [&ack["content"], &ack["generated"], &ack["position"]],
        [&json!(sentence), &json!(false), &json!(1)]
    );
    assert_eq!([&rows[0]["running"], &rows[0]["queued"]], [&json!(true), &json!(1)]);
    assert_eq!([&first["message_id"], &second["message_id"]], [&json!("slow"), &json!("next")]);
    assert_eq!(second["content"], "Second.");
}

/// CH-84
#[actix::test]
async fn topics_run_side_by_side() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let garden = client.open_topic("tulips in the garden").await;
    let taxes = client.open_topic("quarterly invoice payment").await;
    assert_ne!(garden, taxes);

    client.say_in(&garden, "slow", "#say Slowly.\n#wait 30000\n#reply Late.").await;
    until_running(&mut client, "slow").await;
    client.say_in(&taxes, "quick", "#reply Quick.").await;
    let quick = client.terminal().await;
    client.send(json!({ "type": "cancel", "topic_id": garden })).await;
    let slow = client.terminal().await;

    assert_eq!([&quick["message_id"], &quick["topic_id"]], [&json!("quick"), &json!(taxes)]);
    assert_eq!([&slow["message_id"], &slow["topic_id"]], [&json!("slow"), &json!(garden)]);
}

/// CH-49, SE-132
#[actix::test]
async fn a_cancel_ends_the_running_turn_and_on_request_what_waits() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let topic = client.open_topic("tulips in the garden").await;

    client.send(json!({ "type": "cancel", "topic_id": topic })).await;
    let nothing = client.frame().await;
    client.say_in(&topic, "a", "#say So far.\n#wait 30000\n#reply Late.").await;
    until_running(&mut client, "a").await;
    client.say_in(&topic, "b", "#say Also so far.\n#wait 30000\n#reply Late.").await;
    client.send(json!({ "type": "cancel", "topic_id": topic })).await;
    let first = client.terminal().await;
    until_running(&mut client, "b").await;
    client.say_in(&topic, "c", "#reply Never.").await;
    client.say_in(&topic, "d", "#reply Never.").await;
    client.send(json!({ "type": "cancel", "topic_id": topic, "queued": true })).await;
    let mut rest = Vec::new();
    for _ in 0..3 {
        rest.push(client.terminal().await);
    }
    client.send(json!({ "type": "cancel", "topic_id": "t-0123456789abcdef" })).await;
    let unknown = client.until(|frame| frame["type"] == "error").await;

    assert_eq!(
        [&nothing["type"], &nothing["code"]],
        [&json!("error"), &json!("nothing_to_cancel")]
    );
    assert_eq!(
        [&first["message_id"], &first["status"], &first["content"]],
        [&json!("a"), &json!("cancelled"), &json!("So far.")]
    );
    let mut ids: Vec<&str> = rest.iter().map(|end| end["message_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["b", "c", "d"]);
    assert!(
        rest.iter().all(|end| end["type"] == "response" && end["status"] == "cancelled"),
        "{rest:?}"
    );
    assert_eq!(unknown["code"], "unknown_topic");
}

/// CH-44, CH-75, CH-125, CH-140
#[actix::test]
async fn a_wrong_topic_is_refused_with_the_topics_to_choose_from() {
    let service = Service::start().await;
    let mut client = service.connect().await;
    let garden = client.open_topic("tulips in the garden").await;
    let over = client.open_topic("quarterly invoice payment").await;
    client.ask(&format!("/close {over}")).await;
    let mut other = service.connect().await;
    let foreign = other.open_topic("astronomy telescope").await;

    let wrong = [
        (json!(7), "bad_topic_id"),
        (json!("Garden"), "bad_topic_id"),
        (json!("t-0123456789abcdef"), "unknown_topic"),
        (json!(foreign), "unknown_topic"),
        (json!(over), "topic_done"),
    ];
    for (number, (topic, code)) in wrong.into_iter().enumerate() {
        let id = format!("m{number}");
        client.send(json!({ "content": "hello", "topic_id": topic, "message_id": id })).await;
        let error = client.frame().await;

        assert_eq!([&error["code"], &error["message_id"]], [&json!(code), &json!(id)], "{topic}");
        let open = error["details"]["topics"].as_array().unwrap();
        let ids: Vec<&Value> = open.iter().map(|topic| &topic["id"]).collect();
        assert_eq!(ids, [&json!(garden)], "{topic}");
    }
    client.say_in(&garden, "right", "#reply Here.").await;
    assert_eq!(client.terminal().await["topic_id"], json!(garden));
}

/// CH-121, CH-137, CH-24
#[actix::test]
async fn one_topic_too_many_is_refused_and_may_be_sent_again() {
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {max_active: 2}\n")
        .started()
        .await;
    let mut client = service.connect().await;
    let garden = client.open_topic("tulips in the garden").await;
    client.open_topic("quarterly invoice payment").await;

    client.say("third", "astronomy telescope").await;
    let refused = client.end_of("third").await;
    client.ask(&format!("/close {garden}")).await;
    client.say("third", "astronomy telescope").await;
    let heard = client.end_of("third").await;

    assert_eq!([&refused["type"], &refused["code"]], [&json!("error"), &json!("too_many_topics")]);
    let text = refused["error"].as_str().unwrap();
    assert!(text.starts_with("At most 2 active topics. Active: "), "{text}");
    assert!(text.contains(&garden), "{text}");
    assert_eq!(refused["details"]["topics"].as_array().unwrap().len(), 2);
    assert_eq!(heard["type"], "response");
    // The bound is for what is opened for a person: whoever names a topic gets it.
    for name in ["one", "two", "three"] {
        let wish = json!({"content": "#reply Here.", "topic": name, "wait_s": 30});
        let (status, answer) = service.api("POST", "/api/v1/messages", Some(wish)).await;
        assert_eq!((status, &answer["data"]["reply"]["text"]), (200, &json!("Here.")), "{answer}");
    }
}

/// CH-67, CH-24
#[actix::test]
async fn a_topic_takes_a_thousand_waiting_messages_and_no_more() {
    let service = Service::prepare()
        .with_file(
            "data/config/channels.yaml",
            "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
        )
        .with_file("data/config/config.yaml", "store: {durability: process}\n")
        .started()
        .await;
    let mut client = service.connect().await;
    let topic = client.open_topic("tulips in the garden").await;
    client.say_in(&topic, "blocker", "#say Blocked.\n#wait 60000\n#reply Late.").await;
    until_running(&mut client, "blocker").await;

    for number in 0..=1_000 {
        client.say_in(&topic, &format!("m{number}"), "#reply Yes.").await;
    }
    let full = client.terminal().await;
    let rows = topics(&mut client).await;
    client.send(json!({ "type": "cancel", "topic_id": topic, "queued": true })).await;
    let mut ended = std::collections::BTreeSet::new();
    while ended.len() < 1_001 {
        let end = client.terminal().await;
        assert_eq!(end["status"], "cancelled", "{end}");
        assert!(ended.insert(end["message_id"].as_str().unwrap().to_owned()), "{end}");
    }
    client.say_in(&topic, "m1000", "#reply Room again.").await;
    let heard = client.end_of("m1000").await;

    assert_eq!([&full["code"], &full["message_id"]], [&json!("topic_queue_full"), &json!("m1000")]);
    assert!(full["error"].as_str().unwrap().contains("1000"), "{full}");
    assert_eq!(rows[0]["queued"], 1_000);
    assert_eq!(heard["content"], "Room again.");
}

/// CH-138, CH-139
#[actix::test]
async fn topics_and_what_waits_in_them_survive_a_kill() {
    let mut service = Service::start().await;
    let mut client = service.connect().await;
    let garden = client.open_topic("tulips in the garden").await;
    let taxes = client.open_topic("quarterly invoice payment").await;
    client.ask(&format!("/close {taxes}")).await;
    client.say_in(&garden, "slow", "#say Begun.\n#wait 3000\n#reply Ended.").await;
    client.say_in(&garden, "next", "#reply After it.").await;
    client.until(|frame| frame["type"] == "ack" && frame["message_id"] == "next").await;
    let (channel, seen) = (client.channel.clone().unwrap(), client.last_seq);

    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seen).await;
    let slow = client.terminal().await;
    let next = client.terminal().await;
    let rows = topics(&mut client).await;

    assert_eq!([&slow["message_id"], &slow["content"]], [&json!("slow"), &json!("Begun.\nEnded.")]);
    assert_eq!([&next["message_id"], &next["topic_id"]], [&json!("next"), &json!(garden)]);
    let states: Vec<_> = rows.iter().map(|row| (&row["id"], &row["state"], &row["name"])).collect();
    assert_eq!(
        states,
        [
            (&json!(garden), &json!("active"), &json!("tulips garden")),
            (&json!(taxes), &json!("done"), &json!("quarterly invoice payment")),
        ]
    );
}

fn model_settings(model: &FakeModel) -> String {
    format!(
        "profiles:\n  default: {{provider: anthropic, api_url: \"{}\", api_key: {KEY}, model: m}}\n",
        model.url()
    )
}

/// CH-130 to CH-133
#[actix::test]
async fn a_model_is_asked_only_where_words_do_not_tell_the_topic() {
    let model = FakeModel::start();
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &model_settings(&model))
        .started()
        .await;
    let mut client = service.connect().await;

    model.say([Reply::text("One.")]);
    let garden = client.open_topic("tulips in the garden").await;
    model.say([Reply::text("Two.")]);
    let same = client.open_topic("more tulips for the garden").await;
    let before = model.requests().len();
    model
        .say([Reply::text(r#"{"topic_ids":["new"],"topic_name":"Taxes"}"#), Reply::text("Three.")]);
    let third = client.ask("quarterly invoice payment").await;
    let asked = model.requests().len();
    // An answer that is no choice, and an error, cost the message nothing.
    model.say([Reply::text("no idea"), Reply::text("Four.")]);
    let fourth = client.ask("astronomy telescope").await;
    model.say([Reply::status(400, "broken"), Reply::text("Five.")]);
    let fifth = client.ask("bicycle chain").await;

    assert_eq!((before, same), (2, garden.clone()));
    assert_eq!(asked, 4, "one question about the topic, one answer");
    let question = model.requests()[2].body.clone();
    assert!(question["max_tokens"].as_u64().unwrap() <= 200, "{question}");
    assert_eq!(question.get("tools"), None);
    assert!(question.to_string().contains(&garden), "{question}");
    assert_eq!([&third["topic_name"], &third["content"]], [&json!("Taxes"), &json!("Three.")]);
    assert_eq!([&fourth["content"], &fourth["topic_id"]], [&json!("Four."), &third["topic_id"]]);
    assert_eq!([&fifth["content"], &fifth["topic_id"]], [&json!("Five."), &third["topic_id"]]);
}

/// What questions for titles have come to, once there were so many.
async fn until_titles_asked(service: &Service, count: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, usage) = service.api("GET", "/api/v1/usage?group=purpose", None).await;
        let rows = usage["data"].as_array().unwrap();
        let titles = rows.iter().find(|row| row["key"] == "titles");
        if titles.is_some_and(|titles| titles["requests"] == count) {
            let turns = rows.iter().find(|row| row["key"] == "turns").unwrap();
            assert!(turns["requests"].as_u64() >= Some(1), "{usage}");
            return;
        }
        assert!(Instant::now() < deadline, "{usage}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// CH-135: a model is asked once for the title of a topic, after its first answer; what a person calls it stays.
#[actix::test]
async fn a_model_names_a_topic_once_and_a_person_for_good() {
    let model = FakeModel::start();
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &model_settings(&model))
        .started()
        .await;
    let mut client = service.connect().await;

    model.otherwise(Reply::text("Done."));
    model.title(Reply::text("{\"title\": \"\\u001b[1mSpring:\\n @flowers\"}"));
    let garden = client.open_topic("tulips in the garden").await;
    let list = client
        .until(|frame| {
            frame["type"] == "topic_list" && frame["topics"][0]["name"] != "tulips garden"
        })
        .await;
    until_titles_asked(&service, 1).await;
    model.title(Reply::text("{\"title\": \"Another\"}"));
    client.say_in(&garden, "more", "more tulips").await;
    client.end_of("more").await;
    // The title comes after a person has named the topic.
    let slow = Reply::SlowFirstByte(Duration::from_secs(2), "{\"title\": \"Late\"}".to_owned());
    model.title(slow);
    let mut other = service.connect().await;
    let own = other.open_topic("quarterly invoice payment").await;
    let path = format!("/api/v1/topics/{own}");
    let (status, _) = service.api("PATCH", &path, Some(json!({"name": "Mine"}))).await;
    until_titles_asked(&service, 2).await;
    other.ask("and the payment").await;

    assert_eq!(list["topics"][0]["name"], "[1mSpring flowers");
    let name = async |id: &str| {
        let (_, row) = service.api("GET", &format!("/api/v1/topics/{id}"), None).await;
        row["data"]["name"].clone()
    };
    assert_eq!(name(&garden).await, "[1mSpring flowers");
    assert_eq!((status, name(&own).await), (200, json!("Mine")));
}

/// CH-83, CH-133: a model that takes too long about the topic.
#[actix::test]
async fn a_slow_choice_of_a_topic_is_acknowledged_without_one_and_given_up() {
    let model = FakeModel::start();
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &model_settings(&model))
        .started()
        .await;
    let mut client = service.connect().await;
    model.say([Reply::text("One.")]);
    let garden = client.open_topic("tulips in the garden").await;
    model.say([Reply::SlowFirstByte(Duration::from_secs(60), String::new()), Reply::text("Two.")]);

    client.say("m", "quarterly invoice payment").await;
    let ack = client.frame().await;
    let end = client.end_of("m").await;

    assert_eq!(
        [&ack["type"], &ack["topic_id"], &ack["generated"]],
        [&json!("ack"), &Value::Null, &json!(false)]
    );
    assert_eq!([&end["content"], &end["topic_id"]], [&json!("Two."), &json!(garden)]);
}

/// CH-25, CH-125: the topic that the sender chose holds also if the process ends before its turn came.
#[actix::test]
async fn a_chosen_topic_is_kept_when_the_process_dies_before_the_message_is_sorted() {
    let model = FakeModel::start();
    let mut service = Service::prepare()
        .with_file("data/config/providers.yaml", &model_settings(&model))
        .started()
        .await;
    let mut client = service.connect().await;
    model.say([Reply::text("One.")]);
    let garden = client.open_topic("tulips in the garden").await;
    model.say([Reply::text(r#"{"topic_ids":["new"],"topic_name":"Taxes"}"#), Reply::text("Two.")]);
    client.ask("quarterly invoice payment").await;
    model.say([Reply::SlowFirstByte(Duration::from_secs(60), String::new())]);

    client.say("unsorted", "astronomy telescope").await;
    client.say_in(&garden, "chosen", "about the quarterly invoice payment").await;
    for _ in 0..2 {
        let ack = client.until(|frame| frame["type"] == "ack").await;
        assert_eq!(ack["topic_id"], Value::Null, "{ack}");
    }
    let (channel, seen) = (client.channel.clone().unwrap(), client.last_seq);
    service.kill();
    model.otherwise(Reply::text(r#"{"topic_ids":["new"],"topic_name":"Stars"}"#));
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seen).await;
    let chosen = client.end_of("chosen").await;

    assert_eq!(chosen["topic_id"], json!(garden));
}
