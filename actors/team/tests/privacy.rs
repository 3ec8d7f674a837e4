//! Nothing that another person, channel or topic caused is part of a turn.

use super::crash::settle;
use crate::{
    channel_type::ChannelType,
    doubles::{
        client::Client,
        engine::{Play, last_words},
        world::{World, owner},
    },
    ids::TaskId,
    inbox::InboxEvent,
    queue::Enqueue,
    router::{
        posted_messages::{PostMessage, TopicChoice},
        sender::Sender,
    },
    store::records::Writes,
    task::{
        Audience, Kind, Label, Lane, Lineage, OnResult, Source, Task, TopicRef, cause::Cause,
        records as tasks,
    },
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

/// Words over REST, in the channel of a connection.
fn posted(client: &Client, person: &str, id: &str, topic: TopicChoice) -> PostMessage {
    PostMessage {
        channel: client.channel.clone(),
        may_open: false,
        owner: owner(person),
        sender: Sender::of(&person.into(), ChannelType::Api),
        content: format!("{id} of {person}"),
        team: None,
        topic: Some(topic),
        id: id.into(),
        notify: None,
        files: Vec::new(),
    }
}

/// CH-151, SE-41: a topic is one conversation for a person, whichever way they say something in it.
#[actix::test]
async fn words_over_rest_and_over_a_connection_are_one_conversation() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let client = world.connect_as("ann", &world.start());

    let first = posted(&client, "ann", "m1", TopicChoice::Name("Garden".to_owned()));
    let first = client.spine.router.send(first).await.unwrap().unwrap();
    client.hear_end_of("m1").await;
    let topic = first.topic.unwrap();
    client.say_in(topic.as_str(), "m2", "m2 of ann");
    client.hear_end_of("m2").await;
    let over_connection = world.shown_before();
    let third = posted(&client, "ann", "m3", TopicChoice::Id(topic.to_string()));
    client.spine.router.send(third).await.unwrap().unwrap();
    client.hear_end_of("m3").await;

    assert_eq!(over_connection, ["m1 of ann", "Fine."]);
    assert_eq!(world.shown_before(), ["m1 of ann", "Fine.", "m2 of ann", "Fine."]);
}

/// CH-151, OR-67: where several people talk in a topic, each is shown what comes of their own work, and all what
/// nobody is behind.
#[test]
fn an_inbox_event_of_a_topic_is_for_the_person_who_caused_it() {
    let lane = Lane { team: "main".into(), topic: Some("t-1".into()) };
    let audience = |cause: Cause| {
        let source = Source::channel("discord:1".into());
        Audience::new(cause, Some(&source))
    };
    let event = |cause: Cause| InboxEvent {
        id: "e".to_owned(),
        text: String::new(),
        label: Label::Trusted,
        at: crate::clock::Timestamp(0),
        audience: Some(audience(cause)),
    };
    let (ann, bob) = (Cause::sender("discord", "ann"), Cause::sender("discord", "bob"));
    let known = Cause::Sender {
        channel_type: "discord".to_owned(),
        id: "ann".to_owned(),
        guest: false,
        principal: Some("ann@example.org".to_owned()),
    };

    assert!(event(ann.clone()).is_for(&lane, &audience(known)));
    assert!(!event(ann).is_for(&lane, &audience(bob.clone())));
    assert!(event(Cause::System).is_for(&lane, &audience(bob)));
}

/// SC-04: a turn that acts with the rights of somebody is joined by nobody with others, also under the same name.
#[test]
fn a_guest_joins_no_turn_of_somebody_known() {
    let said = |channel_type: &str, guest| Task {
        source: Some(Source::channel("ws:1".into())),
        cause: Some(Cause::Sender {
            channel_type: channel_type.to_owned(),
            id: "ann".to_owned(),
            guest,
            principal: None,
        }),
        ..errand_of("ann")
    };
    let behind = said("ws", false).audience();

    assert!(said("api", false).may_steer(&behind));
    assert!(!said("ws", true).may_steer(&behind));
    assert!(!said("discord", false).may_steer(&behind));
}

fn errand_of(person: &str) -> Task {
    let (words, now) = ("and quickly".to_owned(), crate::clock::Timestamp(1_000_000_000));
    Task::new("task-1".into(), lane("main"), words, person.to_owned(), now)
}
