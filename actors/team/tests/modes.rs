//! Messages that come while a turn runs.

use std::time::Duration;

use crate::{
    briefing::QueueMode,
    doubles::{
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::Message,
    task::Code,
};

/// SE-134, CH-84
#[actix::test]
async fn a_message_joins_the_running_turn_and_gets_the_same_answer() {
    let mut world = World::new(|request| match request.step {
        1 => vec![seconds(10), Play::Say("One."), Play::Answer],
        _ => vec![Play::Say("Both."), Play::Answer],
    });
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "and the roof");
    let heard = client.hear_end_of("m2").await;

    assert_eq!(
        heard,
        [
            "ack m2: Working on it.",
            "delta m1: One.",
            "delta m1: Both.",
            "done m1: Both.",
            "done m2: Both.",
        ]
        .into_iter()
        .filter(|frame| heard.contains(&(*frame).to_owned()) || !frame.starts_with("delta"))
        .collect::<Vec<_>>()
    );
    let asked = world.asked.lock().unwrap();
    let last = asked.last().unwrap().last().unwrap();
    assert_eq!(*last, Message::User("and the roof".to_owned()));
}

/// CH-82: also a message that joined hears within 1.5 s that it arrived.
#[actix::test]
async fn a_joined_message_is_acknowledged_in_time() {
    let mut world = World::new(|_| vec![seconds(60), Play::Say("Both."), Play::Answer]);
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    let began = tokio::time::Instant::now();
    client.say_in(&topic, "m2", "and the roof");
    let heard = client.hear().await;

    assert_eq!(heard, "ack m2: Working on it.");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
}

/// SE-134, CH-84: messages whose turn failed wait for their own, in order.
#[actix::test]
async fn messages_that_joined_a_failing_turn_get_their_own_in_order() {
    let mut world = World::new(|request| match last_words(request) {
        "water the garden" => vec![seconds(10), Play::Fail(Code::ProviderError)],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    for id in ["m2", "m3", "m4"] {
        client.say_in(&topic, id, "next");
    }
    let heard = client.hear_end_of("m4").await;

    let ends: Vec<_> = heard
        .iter()
        .filter(|frame| frame.starts_with("error") || frame.starts_with("done"))
        .collect();
    assert_eq!(
        ends,
        [
            "error m1: provider_error",
            "done m2: Fine.",
            "done m3: Fine.",
            "done m4: Fine.",
        ]
    );
}

/// SE-144: the team dies with a turn that a message joined; the turn goes on before the message.
#[actix::test]
async fn a_turn_that_was_joined_goes_on_first_after_its_team_died() {
    for _ in 0..20 {
        let mut world = World::new(|request| {
            let started = request.messages.len();
            match (last_words(request), started) {
                ("water the garden", 1) => vec![Play::Call(vec![("c1", "save")])],
                ("water the garden", _) => vec![seconds(10), Play::Call(vec![("c2", "mine")])],
                _ => vec![Play::Say("Fine."), Play::Answer],
            }
        });
        world.queue_mode = QueueMode::Steer;
        let client = world.connect(&world.start());

        client.say("m1", "water the garden");
        let topic = client.topic_of("m1").await;
        for id in ["m2", "m3", "m4"] {
            client.say_in(&topic, id, "next");
        }
        client.hear_end_of("m1").await;

        assert_eq!(world.runs(), ["c1"]);
    }
}

/// SE-134
#[actix::test]
async fn a_newer_message_ends_the_running_turn() {
    let mut world = World::new(|request| match last_words(request) {
        "water the garden" => vec![Play::Say("On my way. "), Play::Hang],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.queue_mode = QueueMode::Interrupt;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "no, the roof");
    let first = client.hear_end_of("m1").await;
    let second = client.hear_end_of("m2").await;

    assert_eq!(first.last().unwrap(), "cancelled m1: On my way. ");
    assert_eq!(second, ["ack m2: Fine.", "done m2: Fine."]);
}
