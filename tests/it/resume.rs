//! Resume: a channel goes on over another connection, and over another process.

use serde_json::json;

use crate::service::{Client, Service};

/// CH-85, CH-86, CH-89, CH-92
#[actix::test]
async fn what_was_missed_is_delivered_in_order_after_a_kill() {
    let mut service = Service::start_working().await;
    let mut client = service.connect().await;
    client.ask("#reply Seen.").await;
    let (channel, seen) = (client.channel.clone().unwrap(), client.last_seq);
    client.ask("#call bash {\"command\": \"echo missed\"}\n#reply Missed: {result}").await;
    drop(client);

    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, seen).await;
    let replayed = client.exchange().await;
    let live = client.ask("#reply Live.").await;
    let mut again = service.connect().await;
    again.resume(&channel, 0).await;
    let all = [again.terminal().await, again.terminal().await, again.terminal().await];

    let kinds: Vec<_> = replayed
        .iter()
        .map(|frame| frame["kind"].as_str().or(frame["type"].as_str()).unwrap())
        .collect();
    let expected = ["user_message", "ack", "tool_call", "tool_result", "response"];
    assert_eq!(kinds, expected);
    assert!(replayed.iter().all(|frame| frame["channel_id"] == channel.as_str()));
    assert!(replayed[4]["content"].as_str().unwrap().contains("missed"));
    assert_eq!(live["content"], "Live.");
    assert!(live["seq"].as_u64() > replayed[4]["seq"].as_u64());
    assert_eq!(all[0]["content"], "Seen.");
    // Another device may not have had what this one confirmed.
    assert_eq!(all[1..], [replayed[4].clone(), live]);
}

/// CH-88
#[actix::test]
async fn an_unknown_channel_and_one_of_another_are_refused_with_the_same_words() {
    let service = Service::start().await;
    let mut owner = service.connect().await;
    owner.ask("#reply Mine.").await;
    let (_, token) = service
        .api("POST", "/api/v1/tokens", Some(json!({"name": "guest", "scopes": ["chat"]})))
        .await;
    let token = token["data"]["token"].as_str().unwrap();
    let mut guest = Client::connect(&service.url(), token).await;
    let own = guest.channel.clone().unwrap();

    let mut refusals = Vec::new();
    for channel in [owner.channel.clone().unwrap(), "ws:00000000000000000000000000000000".into()] {
        guest.send(json!({"type": "resume", "channel_id": channel, "last_seq": 0})).await;
        let refusal = guest.frame().await;
        refusals.push((refusal["code"].clone(), refusal["error"].clone()));
    }
    let end = guest.ask("#reply The fresh channel is of use.").await;

    assert_eq!(refusals[0].0, "cannot_resume");
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(end["channel_id"], json!(own));
}

/// CH-48, CH-90
#[actix::test]
async fn a_resume_must_be_well_formed_and_come_first() {
    let service = Service::start().await;
    let mut first = service.connect().await;
    first.ask("#reply Hello.").await;
    let (channel, newest) = (first.channel.clone().unwrap(), first.last_seq);
    let mut client = service.connect().await;

    for (channel, last_seq) in [
        (json!(channel), json!(-1)),
        (json!(channel), json!(1.5)),
        (json!(channel), json!("1")),
        (json!(channel), json!(newest << 32)),
        (json!(7), json!(0)),
        (json!(null), json!(0)),
    ] {
        let frame = json!({"type": "resume", "channel_id": channel, "last_seq": last_seq});
        client.send(frame.clone()).await;
        assert_eq!(client.frame().await["code"], "bad_resume", "{frame}");
    }
    client.ask("#reply Used.").await;
    client.send(json!({"type": "resume", "channel_id": channel, "last_seq": 0})).await;

    assert_eq!(client.frame().await["code"], "resume_too_late");
    assert_eq!(client.ask("#reply Still here.").await["content"], "Still here.");
}
