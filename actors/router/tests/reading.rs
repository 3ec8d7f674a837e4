//! What is told to one connection, what to all, and what was read.

use std::time::Duration;

use crate::{
    channel_type::ChannelType,
    clock::{Clock, Timestamp},
    conversation_log::ConversationEntry,
    doubles::{
        client::Client,
        engine::{Play, seconds},
        world::{World, owner},
    },
    router::{
        Inbound,
        posted_messages::{PostMessage, TopicChoice},
        sender::Sender,
    },
    store::reads::{Range, scan_keyed},
};

fn world() -> World {
    World::new(|_| vec![seconds(1), Play::Say("Done."), Play::Answer])
}

/// Two connections of one channel, which have heard the same, and the topic of their first message.
async fn two(world: &World) -> (Client, Client, String) {
    let spine = world.start();
    let one = world.connect(&spine);
    one.say("m1", "water the garden");
    let topic = one.topic_of("m1").await;
    one.hear_end_of("m1").await;
    let other = world.connect(&spine);
    other.resume(&one.channel, one.last_seq.get());
    other.item().await;
    other.last_seq.set(one.last_seq.get());
    let other = Client { channel: one.channel.clone(), ..other };
    (one, other, topic)
}

/// CH-91: nobody else heard of a message that was refused, or that is known already.
#[actix::test]
async fn a_refusal_is_told_to_whoever_caused_it() {
    let world = world();
    let (one, other, _) = two(&world).await;

    other.say_in("t-0000000000000000", "m2", "pay the invoice");
    let refused = other.hear().await;
    other.say("m1", "water the garden");
    let known = other.hear().await;
    other.cancel("t-0000000000000000", false);
    let unknown = other.hear().await;

    assert_eq!(refused, "error m2: unknown_topic");
    assert_eq!(known, "ack m1 known done: This message is known already.");
    assert_eq!(unknown, "error -: unknown_topic");
    one.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-91, OP-33: a request that is refused is answered where it was made.
#[actix::test]
async fn a_refused_request_is_not_told_to_connections() {
    let world = world();
    let (one, _other, _) = two(&world).await;

    let refused = one.spine.router.send(PostMessage {
        channel: one.channel.clone(),
        may_open: false,
        owner: owner("someone"),
        sender: Sender::of(&"someone".into(), ChannelType::Api),
        content: "pay the invoice".to_owned(),
        team: None,
        topic: Some(TopicChoice::Id("t-0000000000000000".to_owned())),
        id: "m2".into(),
        notify: None,
        files: Vec::new(),
    });

    assert_eq!(refused.await.unwrap().unwrap_err().code, "unknown_topic");
    one.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-91: an ack says when its message was accepted, so that all show messages in the same order.
#[actix::test]
async fn an_ack_tells_when_its_message_was_accepted() {
    let world = world();
    let (one, other, topic) = two(&world).await;
    let at = world.clock.now();

    one.say_in(&topic, "m2", "pay the invoice");
    let told = other.frame().await;
    let ack = one.frame().await;

    assert_eq!((&told["kind"], &told["ts"]), (&"user_message".into(), &ack["accepted_at"]));
    let accepted = ack["accepted_at"].as_u64().unwrap();
    assert!(accepted >= at.0 && accepted < ack["ts"].as_u64().unwrap(), "{ack}");
}

/// CH-160: what was read on one device is read on all, and stays so.
#[actix::test]
async fn what_was_read_on_one_device_is_told_to_the_others() {
    let world = world();
    let (one, other, topic) = two(&world).await;
    let until = world.clock.now();

    one.send(Inbound::Read { topic: Some(topic.as_str().into()), until });
    let (own, told) = (one.frame().await, other.frame().await);
    let next = world.connect(&world.start());
    next.resume(&one.channel, other.last_seq.get());
    next.item().await;
    let next = Client { channel: one.channel.clone(), ..next };
    next.last_seq.set(0);
    next.send(Inbound::TopicList);
    let later = next.frame().await;

    for list in [own, told, later] {
        assert_eq!(list["topics"][0]["read_until"], until.0, "{list}");
    }
}

/// CH-160: a device whose clock is wrong, or that comes late, changes nothing for the worse.
#[actix::test]
async fn a_read_mark_goes_neither_back_nor_ahead_of_time() {
    let world = world();
    let (one, _other, topic) = two(&world).await;
    let read = |until| one.send(Inbound::Read { topic: Some(topic.as_str().into()), until });

    read(Timestamp(u64::MAX));
    let list = one.frame().await;
    let now = world.clock.now();
    read(Timestamp(5));
    one.hears_nothing_for(Duration::from_secs(60)).await;
    one.send(Inbound::Read { topic: Some("t-0000000000000000".into()), until: now });

    let marked = list["topics"][0]["read_until"].as_u64().unwrap();
    assert!(marked > 0 && marked <= now.0, "{list}");
    assert_eq!(one.hear().await, "error -: unknown_topic");
}

/// CH-160: each message of a topic is in its log, once, in the order in which they were accepted.
#[actix::test]
async fn messages_are_in_the_log_of_their_topic() {
    let world = world();
    let (one, other, topic) = two(&world).await;
    one.say_in(&topic, "m2", "pay the invoice");
    // Those of one millisecond stand in some order, the same for everyone.
    tokio::time::sleep(Duration::from_millis(2)).await;
    other.say_in(&topic, "m3", "and the other one");
    one.say("m4", "/help");
    one.hear_end_of("m3").await;

    let logged = one.spine.store.read(move |storage| {
        let rows = scan_keyed::<ConversationEntry>(storage, Range::under(&(&topic,)))?;
        let tasks = rows.iter().map(|((_, _, task), _)| task.as_str().into());
        tasks.map(|id| crate::task::records::find(storage, &id)).collect::<Result<Vec<_>, _>>()
    });
    let logged = logged.await.unwrap();

    let ids: Vec<_> = logged
        .iter()
        .map(|task| task.as_ref().unwrap().source.as_ref().unwrap().message.clone().unwrap())
        .collect();
    assert_eq!(ids, ["m1", "m2", "m3"].map(|id| id.into()));
}
