//! Nothing that another person, channel or topic caused is part of a turn.

use super::crash::settle;
use crate::{
    doubles::{
        client::Client,
        engine::{Play, last_words},
        world::World,
    },
    ids::TaskId,
    queue::Enqueue,
    store::records::Writes,
    task::{Cause, Kind, Lane, Lineage, OnResult, Source, Task, TopicRef, records as tasks},
};

/// A team that says who asked it.
fn world() -> World {
    World::new(|request| {
        let words = last_words(request);
        let answer = match (words.contains("ann"), words.contains("bob")) {
            (true, false) => "A word for ann.",
            (false, true) => "A word for bob.",
            _ => "Fine.",
        };
        vec![Play::Say(answer), Play::Answer]
    })
}

/// All that the model was asked for the newest turn.
fn asked(world: &World) -> String {
    format!("{:?}", world.asked.lock().unwrap().last().unwrap())
}

fn lane(team: &str) -> Lane {
    Lane { team: team.into(), topic: None }
}

/// Work for a team without topics that comes of a message of a person.
fn errand(client: &Client, person: &str, topic: &str, root: &str, id: &str, team: &str) -> Task {
    let source = Source {
        channel: client.channel.clone(),
        message: None,
        topic: Some(TopicRef { id: topic.into(), name: topic.to_owned() }),
        notify: None,
    };
    Task {
        kind: Kind::Delegate,
        source: Some(source),
        cause: Some(Cause::sender("ws", person)),
        on_result: OnResult::Silent,
        lineage: Some(Lineage { root: root.into(), path: Vec::new() }),
        ..Task::new(
            TaskId::from(id.to_owned()),
            lane(team),
            format!("{id} for {person}"),
            "main".to_owned(),
            crate::clock::Timestamp(1_000_000_000),
        )
    }
}

async fn run(client: &Client, task: Task) {
    client.spine.queue.do_send(Enqueue { task, writes: Writes::new() });
    settle().await;
}

/// CH-151, SE-41: the one lane of a team shows a turn what the same message led to before, and nothing
/// else, before and after a restart.
#[actix::test]
async fn a_team_without_topics_is_shown_only_what_the_same_message_led_to() {
    let world = world();
    let spine = world.start();
    let (ann, bob) = (world.connect_as("ann", &spine), world.connect_as("bob", &spine));

    run(&ann, errand(&ann, "ann", "t-1", "task-a", "task-1", "left")).await;
    run(&bob, errand(&bob, "bob", "t-2", "task-b", "task-2", "left")).await;
    let of_bob = world.shown_before();
    run(&ann, errand(&ann, "ann", "t-1", "task-a", "task-3", "left")).await;
    let of_ann = world.shown_before();
    // The same person, in another topic.
    run(&ann, errand(&ann, "ann", "t-3", "task-c", "task-4", "left")).await;
    let elsewhere = world.shown_before();
    let spine = world.start();
    let (mut ann_again, mut bob_again) =
        (world.connect_as("ann", &spine), world.connect_as("bob", &spine));
    (ann_again.channel, bob_again.channel) = (ann.channel, bob.channel);
    let (ann, bob) = (ann_again, bob_again);
    run(&bob, errand(&bob, "bob", "t-2", "task-b", "task-5", "left")).await;
    let of_bob_later = world.shown_before();
    run(&ann, errand(&ann, "ann", "t-1", "task-a", "task-6", "left")).await;

    assert_eq!(of_bob, [""; 0]);
    assert_eq!(of_ann, ["task-1 for ann", "A word for ann."]);
    assert_eq!(elsewhere, [""; 0]);
    assert_eq!(of_bob_later, ["task-2 for bob", "A word for bob."]);
    let both = ["task-1 for ann", "A word for ann.", "task-3 for ann"];
    assert_eq!(world.shown_before(), [&both[..], &["A word for ann."]].concat());
}

/// CH-151, OR-67: what waits in the inbox of such a lane is for the person, channel and topic that caused it. It
/// is not lost meanwhile.
#[actix::test]
async fn an_inbox_event_waits_for_a_turn_of_the_person_who_caused_it() {
    let world = world();
    let spine = world.start();
    let (ann, bob) = (world.connect_as("ann", &spine), world.connect_as("bob", &spine));
    let told = Task {
        reply_to: Some(lane("main")),
        ..errand(&ann, "ann", "t-1", "task-a", "task-1", "right")
    };
    run(&ann, told).await;

    run(&bob, errand(&bob, "bob", "t-2", "task-b", "task-2", "main")).await;
    let of_bob = asked(&world);
    run(&ann, errand(&ann, "ann", "t-3", "task-c", "task-3", "main")).await;
    let elsewhere = asked(&world);
    let spine = world.start();
    let mut again = world.connect_as("ann", &spine);
    again.channel = ann.channel;
    run(&again, errand(&again, "ann", "t-1", "task-d", "task-4", "main")).await;
    let of_ann = asked(&world);
    run(&again, errand(&again, "ann", "t-1", "task-e", "task-5", "main")).await;

    let result = "Result of the task you gave (team right, task task-1";
    assert!(!of_bob.contains("task-1"), "{of_bob}");
    assert!(!elsewhere.contains("task-1"), "{elsewhere}");
    assert!(of_ann.contains(result), "{of_ann}");
    assert!(!asked(&world).contains(result), "{}", asked(&world));
    assert!(world.disk.keys("inbox").is_empty());
}

/// CH-151: a message without a topic is in no topic's conversation, also after a restart.
#[actix::test]
async fn what_was_said_outside_a_topic_is_not_part_of_it() {
    let world = world();
    let spine = world.start();
    let client = world.connect_as("ann", &spine);
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    let aside = Task {
        on_result: OnResult::Notify,
        source: Some(Source::channel(client.channel.clone())),
        lane: lane("main"),
        ..errand(&client, "ann", "t-1", "task-a", "task-1", "main")
    };
    run(&client, aside).await;

    let mut next = world.connect_as("ann", &world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    next.item().await;
    next.channel = client.channel.clone();
    next.say_in(&topic, "m2", "and now");
    next.hear_end_of("m2").await;

    assert_eq!(world.shown_before(), ["water the garden", "Fine."]);
}

/// CH-151, EN-36: what many people caused is never put into one summary.
#[actix::test]
async fn the_session_of_a_team_without_topics_is_not_summarised() {
    let world = world();
    let spine = world.start();
    let ann = world.connect_as("ann", &spine);
    for number in 0..10 {
        let id = format!("task-{number}");
        run(&ann, errand(&ann, "ann", "t-1", &id, &id, "left")).await;
    }
    let before = world.asked.lock().unwrap().len();

    let compact = Task {
        kind: Kind::Compact,
        source: None,
        lineage: None,
        cause: Some(Cause::Operator { name: "operator".to_owned() }),
        ..errand(&ann, "ann", "t-1", "", "task-compact", "left")
    };
    run(&ann, compact).await;

    assert_eq!(world.asked.lock().unwrap().len(), before);
    let storage = world.disk.mount(None);
    let task = tasks::find(&*storage, &"task-compact".into());
    let outcome = task.unwrap().unwrap().outcome.unwrap();
    let said = format!("{} {:?}", outcome.text, outcome.message);
    assert!(said.contains("nothing to compact"), "{said}");
}

/// CH-151: a message joins the turn that a team without topics works on only in the same channel: it is answered
/// there.
#[test]
fn a_message_from_another_channel_joins_no_turn_of_a_team_without_topics() {
    let said = |channel: &str| Task {
        kind: Kind::Chat,
        source: Some(Source::channel(channel.into())),
        cause: Some(Cause::sender("ws", "ann")),
        ..Task::new(
            "task-1".into(),
            lane("research"),
            "and quickly".to_owned(),
            "ann".to_owned(),
            crate::clock::Timestamp(1_000_000_000),
        )
    };

    let behind = said("ws:1").audience();

    assert!(said("ws:1").may_steer(&behind));
    assert!(!said("ws:2").may_steer(&behind));
}
