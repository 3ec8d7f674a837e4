//! Several connections of one channel, and how each of them ends.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    raw_socket::{Heard, RawSocket},
    service::{Client, PATIENCE, Service},
};

/// Nothing but pings for 60 s, looked at every 20 s.
const SILENCE: Duration = Duration::from_secs(60);

async fn join(service: &Service, client: &Client) -> Client {
    let mut next = service.connect().await;
    let channel = client.channel.clone().unwrap();
    next.resume(&channel, client.last_seq).await;
    next.send(json!({"type": "topic_list_request"})).await;
    next.until(|frame| frame["type"] == "topic_list" && frame["channel_id"] == channel.as_str())
        .await;
    next
}

/// CH-91: both hear everything with the same numbers, and what the other said.
#[actix::test]
async fn two_connections_share_a_channel() {
    let service = Service::start().await;
    let mut one = service.connect().await;
    one.ask("#reply Hello.").await;
    let mut other = join(&service, &one).await;

    other.say("m-2", "#reply Here too.").await;
    let told = one.until(|frame| frame["kind"] == "user_message").await;
    let ends = (one.end_of("m-2").await, other.end_of("m-2").await);
    one.say("m-3", "#reply And here.").await;
    let own = one.exchange().await;
    let back =
        other.until(|frame| frame["kind"] == "user_message" && frame["message_id"] == "m-3").await;
    other.end_of("m-3").await;

    assert_eq!([&told["message_id"], &told["content"]], ["m-2", "#reply Here too."]);
    assert_eq!(ends.0, ends.1);
    assert_eq!(ends.0["content"], "Here too.");
    assert!(own.iter().all(|frame| frame["kind"] != "user_message"));
    assert_eq!(back["content"], "#reply And here.");
}

/// A device of the operator, in the channel that all of them share.
async fn device(service: &Service) -> Client {
    let mut client = service.connect().await;
    client.send(json!({"type": "resume", "home": true})).await;
    client.send(json!({"type": "topic_list_request"})).await;
    client.until(|frame| frame["type"] == "topic_list").await;
    client
}

/// Frames until all of so many messages have ended.
async fn until_ended(client: &mut Client, count: usize) -> Vec<Value> {
    let mut frames = Vec::new();
    let mut ended = 0;
    while ended < count {
        let frame = client.frame().await;
        ended += usize::from(frame["type"] == "response");
        frames.push(frame);
    }
    frames
}

/// CH-91, CH-160: two devices of one account, both writing: each hears all, in order, once, and the store says the same;
/// also when the process is killed in the middle.
#[actix::test]
async fn devices_that_both_write_hear_all_in_order_once() {
    const EACH: usize = 20;
    let mut service = Service::start().await;
    let mut one = device(&service).await;
    let mut other = device(&service).await;
    assert_eq!(one.channel, other.channel);
    let topic = one.open_topic("#reply Begin.").await;
    other.until(|frame| frame["type"] == "response").await;

    for number in 0..EACH {
        one.say_in(&topic, &format!("one-{number}"), "#reply From one.").await;
        other.say_in(&topic, &format!("other-{number}"), "#reply From the other.").await;
    }
    let (here, there) =
        tokio::join!(until_ended(&mut one, 2 * EACH), until_ended(&mut other, 2 * EACH));

    let ends = |frames: &[Value]| -> Vec<(Value, Value)> {
        let ends = frames.iter().filter(|frame| frame["type"] == "response");
        ends.map(|frame| (frame["seq"].clone(), frame["message_id"].clone())).collect()
    };
    assert_eq!(ends(&here), ends(&there));
    let told = |frames: &[Value]| -> Vec<String> {
        let told = frames.iter().filter(|frame| frame["kind"] == "user_message");
        told.map(|frame| frame["message_id"].as_str().unwrap().to_owned()).collect()
    };
    let written = |by: &str| (0..EACH).map(|number| format!("{by}-{number}")).collect::<Vec<_>>();
    // Each is told what the other wrote, in the order in which it was written.
    assert_eq!((told(&here), told(&there)), (written("other"), written("one")));

    service.kill();
    service.launch().await;
    let path = format!("/api/v1/me/topics/{topic}/messages?limit=200&sort=at");
    let (status, stored) = service.api("GET", &path, None).await;
    assert_eq!((status, &stored["total"]), (200, &json!(2 * EACH + 1)), "{stored}");
    let rows = stored["data"].as_array().unwrap();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["message_id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2 * EACH + 1);
    assert!(rows.iter().all(|row| row["state"] == "done"), "{stored}");
    assert!(rows.is_sorted_by_key(|row| row["at"].as_u64()), "{stored}");
    assert_eq!(device(&service).await.channel, one.channel);
}

/// CH-37, CH-91: one more than may be is told to come later; the others stay.
#[actix::test]
async fn the_seventeenth_connection_is_closed() {
    let service = Service::start().await;
    let mut first = service.connect().await;
    first.ask("#reply Hello.").await;
    let channel = first.channel.clone().unwrap();
    let mut others = Vec::new();
    for _ in 1..16 {
        others.push(join(&service, &first).await);
    }

    let mut late = RawSocket::open(&service).await;
    let resume = json!({"type": "resume", "channel_id": channel, "last_seq": 0});
    late.text(&resume.to_string()).await;
    let closed = late.heard().await;
    late.close(1013).await;
    let end = late.heard().await;
    first.say("m", "#reply Still here.").await;

    assert_eq!((closed, end), (Heard::Close(1013), Heard::End));
    for client in &mut others {
        assert_eq!(client.end_of("m").await["content"], "Still here.");
    }
}

/// CH-34, CH-37: whoever closes, the other side answers once, and that is the end. A browser takes a
/// second close frame for a broken connection.
#[actix::test]
async fn a_close_is_answered_once() {
    let service = Service::start().await;
    let wish = json!({"name": "guest", "scopes": ["chat"]});
    let (_, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    let token = made["data"]["token"].as_str().unwrap();
    let id = made["data"]["id"].as_str().unwrap();

    let mut by_client = RawSocket::open(&service).await;
    by_client.close(1000).await;
    let answered = (by_client.heard().await, by_client.heard().await);
    let mut revoked = RawSocket::open_as(&service, token).await;
    service.api("DELETE", &format!("/api/v1/tokens/{id}"), None).await;
    let code = revoked.heard().await;
    revoked.close(4401).await;
    let end = revoked.heard().await;
    let mut large = RawSocket::open(&service).await;
    large.declare(10 * 1024 * 1024).await;
    let refusal = large.heard().await;
    let too_big = large.heard().await;
    large.close(1009).await;
    let over = large.heard().await;

    assert_eq!(answered, (Heard::Close(1000), Heard::End));
    assert_eq!((code, end), (Heard::Close(4401), Heard::End));
    assert!(matches!(refusal, Heard::Frame(_)), "{refusal:?}");
    assert_eq!((too_big, over), (Heard::Close(1009), Heard::End));
}

/// CH-36, CH-37: a client that answers no ping is given up, with the code for it.
#[actix::test]
async fn a_silent_client_is_closed() {
    let service = Service::start().await;
    let began = Instant::now();

    let mut silent = RawSocket::open(&service).await;
    let closed = tokio::time::timeout(SILENCE + PATIENCE, silent.heard_late()).await;

    assert_eq!(closed.expect("it is closed in time"), Heard::Close(4408));
    assert!(began.elapsed() >= SILENCE);
}
