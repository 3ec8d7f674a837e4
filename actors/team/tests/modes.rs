//! Messages that come while a turn runs.

use std::time::Duration;

use super::crash::settle;
use crate::{
    briefing::QueueMode,
    clock::Timestamp,
    doubles::{
        client::Client,
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::{JoinedWords, Message},
    queue::{
        Enqueue, Placement,
        parking::SetState,
        placement::FindPlacement,
        submit::{CancelTask, OpenTasks},
    },
    store::records::Writes,
    task::{Kind, Lane, OnResult, Task, WaitReason, cause::Cause, outcome::Code},
};

/// Work for the lane of a topic that no message brought.
fn enqueue(client: &Client, topic: &str, task: Task) {
    let lane = Lane { team: "main".into(), topic: Some(topic.into()) };
    client.spine.queue.do_send(Enqueue { task: Task { lane, ..task }, writes: Writes::new() });
}

fn work(id: &str, kind: Kind, from: &str) -> Task {
    let lane = Lane { team: "main".into(), topic: None };
    Task {
        kind,
        cause: Some(Cause::sender("ws", from)),
        ..Task::new(
            id.into(),
            lane,
            format!("words of {id}"),
            from.to_owned(),
            Timestamp(1_000_000_000),
        )
    }
}

/// What the model was asked in a step: the last words of each request.
fn last_asked(world: &World) -> Vec<String> {
    let asked = world.asked.lock().unwrap();
    let last = |messages: &Vec<Message>| match messages.last() {
        Some(Message::User(text) | Message::Joined(JoinedWords { text, .. })) => text.clone(),
        other => format!("{other:?}"),
    };
    asked.iter().map(last).collect()
}

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

    // What was said before is whole, and apart from the answer, which may come before its pieces do.
    let heard: Vec<_> = heard.iter().filter(|frame| *frame != "delta m1: Both.").collect();
    assert_eq!(
        heard,
        [
            "ack m2: Working on it.",
            "delta m1: One.",
            "note m1: A message has joined: the turn goes on with it.",
            "done m1: Both.",
            "done m2: Both.",
        ]
    );
    let asked = world.asked.lock().unwrap();
    let last = asked.last().unwrap().last().unwrap();
    let Message::Joined(words) = last else { panic!("{last:?}") };
    assert_eq!((&*words.text, &*words.from), ("and the roof", "someone"));
}

/// CH-84, EN-21: a message that is meant for the running turn joins it, before one that waits, also where messages
/// wait by themselves; without a turn it begins one.
#[actix::test]
async fn a_steering_message_joins_the_turn_of_a_team_that_queues() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("water the garden", 1) => vec![seconds(10), Play::Say("One."), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m0", "/steer");
    let alone = client.hear().await;
    client.say("m1", "/steer water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "then the roof");
    client.say_in(&topic, "m3", "/steer not the tulips");
    let heard = client.hear_end_of("m2").await;

    assert!(alone.starts_with("done m0: Say what"), "{alone}");
    assert_eq!(last_asked(&world), ["water the garden", "not the tulips", "then the roof"]);
    let ends = heard.iter().filter(|frame| frame.starts_with("done")).collect::<Vec<_>>();
    assert_eq!(ends, ["done m1: Fine.", "done m3: Fine.", "done m2: Fine."]);
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
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
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
        ["error m1: provider_error", "done m2: Fine.", "done m3: Fine.", "done m4: Fine.",]
    );
}

/// SE-134, OP-34: a message that joined a turn is taken back at once, and the turn goes on without it.
#[actix::test]
async fn a_message_that_joined_can_be_cancelled_alone() {
    let mut world = World::new(|_| vec![seconds(60), Play::Say("Done."), Play::Answer]);
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "and the roof");
    assert_eq!(client.hear().await, "ack m2: Working on it.");
    let open = client.spine.queue.send(OpenTasks { team: None });
    let joined = open.await.unwrap().pop().unwrap().task_id;

    let cancel = CancelTask { task: joined, reason: "changed my mind".to_owned() };
    assert!(client.spine.queue.send(cancel).await.unwrap());

    let heard = client.hear_end_of("m2").await;
    assert_eq!(heard, ["cancelled m2: "]);
    let heard = client.hear_end_of("m1").await;
    assert_eq!(heard.last().unwrap(), "done m1: Done.");
    assert_eq!(last_asked(&world), ["water the garden"]);
}

/// CH-49, CH-140: what joined a turn ends with it if what waits is cancelled too; else it gets a turn of its own.
#[actix::test]
async fn a_message_that_joined_is_cancelled_with_what_waits() {
    for queued in [true, false] {
        let mut world = World::new(|request| match last_words(request) {
            "water the garden" => vec![seconds(60), Play::Say("Done."), Play::Answer],
            _ => vec![Play::Say("Fine."), Play::Answer],
        });
        world.queue_mode = QueueMode::Steer;
        let client = world.connect(&world.start());
        client.say("m1", "water the garden");
        let topic = client.topic_of("m1").await;
        client.say_in(&topic, "m2", "and the roof");
        assert_eq!(client.hear().await, "ack m2: Working on it.");

        client.cancel(&topic, queued);
        let heard = client.hear_end_of("m2").await;

        let last = if queued { "cancelled m2: " } else { "done m2: Fine." };
        assert_eq!(heard.last().unwrap(), last);
        assert!(heard.contains(&"cancelled m1: ".to_owned()), "{heard:?}");
    }
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

/// EN-21, EN-23, SE-134: what comes while a turn is being prepared enters it, or ends it, once it begins.
#[actix::test]
async fn a_message_that_comes_while_a_turn_is_prepared_is_not_forgotten() {
    for (mode, first) in
        [(QueueMode::Steer, "done m1: Fine."), (QueueMode::Interrupt, "cancelled m1: ")]
    {
        let mut world = World::new(|request| match last_words(request) {
            "water the garden" => vec![seconds(10), Play::Say("One."), Play::Answer],
            _ => vec![Play::Say("Fine."), Play::Answer],
        });
        world.queue_mode = mode;
        let client = world.connect(&world.start());
        client.say("m0", "hello");
        let topic = client.topic_of("m0").await;
        client.hear_end_of("m0").await;
        *world.briefing_takes.lock().unwrap() = Duration::from_secs(5);

        client.say_in(&topic, "m1", "water the garden");
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.say_in(&topic, "m2", "and the roof");
        let heard = client.hear_end_of("m2").await;

        let is_end = |frame: &&String| frame.starts_with("done") || frame.starts_with("cancelled");
        let ends: Vec<_> = heard.iter().filter(is_end).collect();
        assert_eq!(ends, [first, "done m2: Fine."], "{mode:?}");
    }
}

/// EN-23: the message that ends a turn gets the next one, before what waits longer.
#[actix::test]
async fn an_interrupting_message_goes_before_older_ones() {
    let mut world = World::new(|request| match last_words(request) {
        "water the garden" => vec![Play::Say("On my way. "), Play::Hang],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.queue_mode = QueueMode::Interrupt;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    enqueue(&client, &topic, work("stranger", Kind::Chat, "bob"));
    client.say_in(&topic, "m2", "no, the roof");
    client.hear_end_of("m2").await;
    settle().await;

    assert_eq!(last_asked(&world), ["water the garden", "no, the roof", "words of stranger"]);
}

/// SE-134, PL-68, MV-13: a turn acts with the rights of whoever is behind it. So only a message of the
/// same person enters it; what a trigger, another team or someone else brings gets its own turn,
/// and is no reason for a message behind it to wait.
#[actix::test]
async fn only_messages_of_the_same_person_join_a_running_turn() {
    let mut world = World::new(|request| match request.step {
        1 => vec![seconds(10), Play::Say("One."), Play::Answer],
        _ => vec![Play::Say("Both."), Play::Answer],
    });
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    enqueue(&client, &topic, work("webhook", Kind::Trigger, "someone"));
    enqueue(&client, &topic, work("result", Kind::Result, "someone"));
    enqueue(&client, &topic, work("stranger", Kind::Chat, "bob"));
    client.say_in(&topic, "m2", "and the roof");
    client.hear_end_of("m2").await;
    tokio::time::sleep(Duration::from_secs(60)).await;

    assert_eq!(
        last_asked(&world),
        [
            "water the garden",
            "and the roof",
            "words of webhook",
            "words of result",
            "words of stranger",
        ]
    );
}

/// SE-134
#[actix::test]
async fn only_messages_of_the_same_person_end_a_running_turn() {
    let mut world = World::new(|request| match last_words(request) {
        "water the garden" => vec![seconds(10), Play::Say("One."), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.queue_mode = QueueMode::Interrupt;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    enqueue(&client, &topic, work("escalation", Kind::Escalation, "someone"));
    enqueue(&client, &topic, work("stranger", Kind::Chat, "bob"));
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "done m1: One.");
}

/// OR-66, OR-84: whoever asked hears of the end of work that joined a turn.
#[actix::test]
async fn the_result_of_work_that_joined_wakes_the_lane_that_asked() {
    let mut world = World::new(|request| match (request.team.as_str(), request.step) {
        ("main", 1) => vec![seconds(2), Play::Say("One."), Play::Answer],
        _ => vec![Play::Say("Both."), Play::Answer],
    });
    world.queue_mode = QueueMode::Steer;
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    let lane = |topic: &str| Lane { team: "main".into(), topic: Some(topic.into()) };
    for (id, team, on_result) in
        [("waking", "left", OnResult::Wake), ("quiet", "right", OnResult::Silent)]
    {
        let task =
            Task { reply_to: Some(lane(team)), on_result, ..work(id, Kind::Chat, "someone") };
        enqueue(&client, &topic, task);
    }
    client.hear_end_of("m1").await;
    settle().await;
    let next = Task { lane: lane("right"), ..work("next", Kind::Delegate, "someone") };
    client.spine.queue.do_send(Enqueue { task: next, writes: Writes::new() });
    settle().await;

    let asked = last_asked(&world);
    let told = |words: &str| asked.iter().filter(|text| text.contains(words)).count();
    assert_eq!((told("task waking, done"), told("task quiet, done")), (1, 1), "{asked:#?}");
}

/// Where a message of somebody stands that comes while a turn of `someone` runs.
async fn placed(mode: QueueMode, from: &str) -> Option<Placement> {
    let mut world = World::new(|_| vec![seconds(60), Play::Say("Fine."), Play::Answer]);
    world.queue_mode = mode;
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    enqueue(&client, &topic, work("a", Kind::Chat, from));
    place(&client, "a").await
}

async fn place(client: &Client, task: &str) -> Option<Placement> {
    let place = FindPlacement { task: task.into() };
    client.spine.queue.send(place).await.unwrap()
}

/// OP-33, EN-21, EN-22, EN-23: the team at work says what becomes of a message.
#[actix::test]
async fn a_message_to_a_working_team_is_placed_by_its_mode() {
    use Placement::{CurrentTurn, NextTurn, Started};
    for (mode, from, placement) in [
        (QueueMode::Queue, "someone", NextTurn),
        (QueueMode::Steer, "someone", CurrentTurn),
        (QueueMode::Interrupt, "someone", Started),
        // Nobody else gets into the turn, or ends it.
        (QueueMode::Steer, "another", NextTurn),
        (QueueMode::Interrupt, "another", NextTurn),
    ] {
        assert_eq!(placed(mode, from).await, Some(placement), "{mode:?} {from}");
    }
}

/// OP-33, EN-20, EN-25
#[actix::test]
async fn a_message_to_an_idle_team_starts_a_turn_unless_the_team_is_paused() {
    let world = World::new(|_| vec![seconds(60), Play::Say("Fine."), Play::Answer]);
    let client = world.connect(&world.start());

    enqueue(&client, "t-1", work("a", Kind::Chat, "someone"));
    let idle = place(&client, "a").await;
    client.spine.queue.do_send(SetState { team: "main".into(), paused: true, draining: false });
    enqueue(&client, "t-2", work("b", Kind::Chat, "someone"));
    let paused = place(&client, "b").await;

    assert_eq!(idle, Some(Placement::Started));
    assert_eq!(paused, Some(Placement::Waiting(WaitReason::Paused)));
    assert_eq!(place(&client, "never").await, None);
}
