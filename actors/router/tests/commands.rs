//! Words behind a slash.

use crate::doubles::{
    engine::{Play, seconds},
    world::World,
};

fn slow() -> World {
    World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer])
}

#[actix::test]
async fn commands_are_answered_by_code_at_once() {
    let world = slow();
    let client = world.connect(&world.start());

    client.say("m1", "/topics");
    let none = client.hear().await;
    client.say("m2", "water the garden");
    let topic = client.topic_of("m2").await;
    client.say("m3", "/topics");
    let one = client.hear().await;
    client.say("m4", "/help");
    let help = client.hear().await;

    assert_eq!(none, "done m1: There are no open topics.");
    assert_eq!(
        one,
        format!("done m3: water garden ({topic}): running, 0 waiting")
    );
    assert!(help.starts_with("done m4: Commands:"), "{help}");
}

/// SE-132
#[actix::test]
async fn stop_ends_the_running_turn() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "/stop");
    let nothing = client.hear().await;
    client.say("m2", "water the garden");
    client.topic_of("m2").await;

    client.say("m3", "/stop");
    let mut heard = [client.hear().await, client.hear().await];

    heard.sort();
    assert_eq!(nothing, "done m1: There are no open topics.");
    assert_eq!(heard, ["cancelled m2: ", "done m3: Stopped."]);
}

/// CH-140, CH-75
#[actix::test]
async fn close_ends_a_topic_and_all_its_work() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "again");
    client.topic_of("m2").await;

    client.say("m3", "/close Water Garden");
    let mut heard = [
        client.hear().await,
        client.hear().await,
        client.hear().await,
    ];
    client.say_in(&topic, "m4", "once more");
    let refused = client.hear().await;
    client.say("m5", &format!("/close {topic}"));
    let twice = client.hear().await;

    heard.sort();
    assert_eq!(
        heard,
        [
            "cancelled m1: ",
            "cancelled m2: ",
            "done m3: Closed \"water garden\"."
        ]
    );
    assert_eq!(refused, "error m4: topic_done");
    assert_eq!(twice, "done m5: Closed \"water garden\".");
}

/// EN-35: also where the message would belong to a topic that there is.
#[actix::test]
async fn new_begins_a_topic_with_the_rest_of_the_message() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let first = client.topic_of("m1").await;

    client.say("m2", "/new");
    let how = client.hear().await;
    client.say("m3", "/New  water the garden");
    let second = client.topic_of("m3").await;
    client.say("m3", "/New  water the garden");
    let same = client.topic_of("m3").await;
    client.say("m4", "/topics");
    let topics = client.hear().await;

    assert!(how.starts_with("done m2: Say what it is about"), "{how}");
    assert_ne!(first, second);
    assert_eq!(same, second);
    assert!(
        topics.contains(&second) && !topics.to_lowercase().contains("new"),
        "{topics}"
    );
}
