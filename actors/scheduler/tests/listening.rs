//! Triggers that listen to what people say.

use std::num::NonZeroUsize;

use super::stage::{MINUTE, Stage, keyword};
use crate::{
    scheduler::trigger::{
        config::{Config, Listen},
        definition::Definition,
    },
    task::Kind,
};

/// TR-14, TR-15, TR-19, TR-28
#[actix::test]
async fn a_word_in_a_message_starts_a_task_beside_the_answer() {
    let stage = Stage::calm();
    let trigger = stage.create(keyword("alarm", "fire")).await;
    let client = stage.world.connect_as("ann", &stage.spine);

    client.say("m1", "there is a FIRE in the hall");
    client.hear_end_of("m1").await;
    client.say("m2", "all is well");
    client.hear_end_of("m2").await;
    stage.pass(MINUTE).await;
    // TR-28: two equal texts are two events; the same message again is none.
    client.say("m3", "there is a FIRE in the hall");
    client.hear_end_of("m3").await;
    client.say("m3", "there is a FIRE in the hall");
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&trigger.id), ["keyword enqueued ok"; 2]);
    let tasks = stage.tasks(&trigger.id);
    let task = &tasks[0];
    assert_eq!(task.kind, Kind::Trigger);
    assert!(task.body.starts_with("do alarm\n"));
    assert!(task.body.contains("- sender: \"ann\""), "{}", task.body);
    assert!(task.body.contains("there is a FIRE in the hall"));
    let source = task.source.as_ref().unwrap();
    assert_eq!(source.channel, client.channel);
    assert_eq!(source.message, None);
    assert!(source.topic.is_some());
    assert_eq!(stage.world.disk.keys("edge/heard/"), [] as [String; 0]);
}

/// TR-47: the answer goes where the message came from.
#[actix::test]
async fn what_a_listening_trigger_has_to_say_goes_to_the_messages_channel() {
    let stage = Stage::calm();
    stage.create(keyword("alarm", "fire")).await;
    let client = stage.world.connect(&stage.spine);

    client.say("m1", "fire");
    let mut notification = None;
    for _ in 0..10 {
        let frame = client.frame().await;
        if frame["type"] == "notification" {
            notification = Some(frame);
            break;
        }
    }

    let notification = notification.unwrap();
    assert_eq!(notification["content"], "[news] done");
    assert!(notification["topic_id"].is_string());
}

/// CH-21, TR-14, TR-28: a message that was let in is heard also where no topic has room for it, and once,
/// however often it is sent.
#[actix::test]
async fn a_message_that_no_topic_has_room_for_is_heard() {
    let mut stage = Stage::calm();
    stage.world.settings.topics.max_active = NonZeroUsize::MIN;
    stage.restart_after(MINUTE).await;
    let trigger = stage.create(keyword("alarm", "fire")).await;
    let client = stage.world.connect_as("ann", &stage.spine);
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;

    let mut refused = Vec::new();
    for _ in 0..2 {
        client.say("m2", "/new there is a fire in the hall");
        refused.extend(client.hear_end_of("m2").await.pop());
        stage.pass(MINUTE).await;
    }
    client.say_in("t-unknown", "m3", "fire");
    client.hear_end_of("m3").await;
    stage.pass(MINUTE).await;

    assert_eq!(refused, ["error m2: too_many_topics"; 2]);
    assert_eq!(stage.story(&trigger.id), ["keyword enqueued ok", "keyword duplicate"]);
    let source = stage.tasks(&trigger.id)[0].source.clone().unwrap();
    assert_eq!((source.channel, source.topic), (client.channel, None));
    assert_eq!(stage.world.disk.keys("edge/heard/"), [] as [String; 0]);
}

/// TR-17
#[actix::test]
async fn it_listens_only_where_and_to_whom_it_is_told() {
    let stage = Stage::calm();
    let ann = stage.world.connect_as("ann", &stage.spine);
    let bob = stage.world.connect_as("bob", &stage.spine);
    let listening = |name: &str, listen: Listen| {
        let config = Config::Message(Listen { pattern: "fire".to_owned(), ..listen });
        Definition::new(name, config, &format!("do {name}"))
    };
    let only_bob = Listen { senders: vec!["bob".to_owned()], ..Listen::default() };
    let only_there = Listen { channels: vec![ann.channel.clone()], ..Listen::default() };
    let sender = stage.create(listening("sender", only_bob)).await;
    let channel = stage.create(listening("channel", only_there)).await;

    ann.say("m1", "fire");
    ann.hear_end_of("m1").await;
    stage.pass(MINUTE).await;

    assert_eq!(stage.story(&sender.id), [] as [String; 0]);
    assert_eq!(stage.story(&channel.id), ["message enqueued ok"]);
    bob.say("m2", "fire");
    stage.pass(MINUTE).await;
    assert_eq!(stage.story(&sender.id), ["message enqueued ok"]);
    assert_eq!(stage.runs(&channel.id).len(), 1);
}
