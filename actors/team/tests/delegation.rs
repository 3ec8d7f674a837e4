//! Work between teams: one end for each task, whatever happens to the process.

use std::time::Duration;

use super::{
    compaction::journal,
    crash::{count, heard, settle},
};
use crate::{
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words},
        world::World,
    },
    history::{Fact, Origin},
};

/// `main` gives work to `left` as it is told to; `left` gives some to `right`.
fn world() -> World {
    World::new(|request| {
        let words = last_words(request);
        match (request.team.as_str(), request.step) {
            ("main", 1) if words.ends_with("give") => vec![Play::Call(vec![("c1", "give-left")])],
            ("main", 1) if words.ends_with("wake") => vec![Play::Call(vec![("c1", "wake-left")])],
            ("main", 1) if words.ends_with("ask") => vec![Play::Call(vec![("c1", "ask-left")])],
            ("main", 1) if words.ends_with("too much") => {
                vec![Play::CallWith("c1", "look", "x".repeat(17 << 20).into())]
            }
            ("main", _) if words.contains("Result of the task") => {
                vec![Play::Say("Left is done."), Play::Answer]
            }
            ("left", 1) => vec![Play::Call(vec![("c2", "ask-right")])],
            ("left", _) => vec![Play::Say("Left says so."), Play::Answer],
            ("right", _) => vec![Play::Say("Right says so."), Play::Answer],
            _ => vec![Play::Say("Fine."), Play::Answer],
        }
    })
}

async fn again(world: &World, former: &Client) -> (Client, Vec<String>) {
    let next = world.connect(&world.start());
    next.resume(&former.channel, former.last_seq.get());
    next.last_seq.set(former.last_seq.get());
    settle().await;
    let frames = heard(&next).await;
    (next, frames)
}

/// OR-66, OR-84, CH-152, CH-156: the person is told once, in the topic that asked.
#[actix::test]
async fn the_end_of_given_work_is_one_notification_in_the_topic_that_asked() {
    let world = world();
    let client = world.connect(&world.start());

    client.say("m1", "give");
    let mut topic = None;
    let told = loop {
        let frame = client.frame().await;
        match frame["type"].as_str() {
            Some("response") => topic = Some(frame["topic_id"].clone()),
            Some("notification") => break frame,
            _ => {}
        }
    };

    assert_eq!(told["content"], "[left] Left says so.");
    assert_eq!(told["status"], "done");
    assert_eq!(Some(told["topic_id"].clone()), topic);
    client.hears_nothing_for(Duration::from_secs(60)).await;
}

/// OR-67: the lane that asked finds it in its inbox, once.
#[actix::test]
async fn the_lane_that_asked_is_shown_the_result_in_its_next_turn_and_not_again() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "give");
    let topic = client.topic_of("m1").await;
    settle().await;

    client.say_in(&topic, "m2", "hello");
    client.hear_end_of("m2").await;
    client.say_in(&topic, "m3", "hello again");
    client.hear_end_of("m3").await;

    let asked = world.asked.lock().unwrap().clone();
    let shown = |words: &str| {
        let said = asked.iter().filter(|messages| {
            let first = format!("{:?}", messages.first());
            first.contains(words) && first.contains("Result of the task you gave")
        });
        said.count()
    };
    assert_eq!((shown("hello"), shown("hello again")), (1, 0));
    assert!(world.disk.keys("inbox").is_empty());
}

/// OR-67, SC-104: what a turn began with is stored with its end if the store does not take its first step, and
/// what it was shown is not shown again.
#[actix::test]
async fn a_turn_whose_first_step_is_refused_keeps_what_it_began_with() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "give");
    let topic = client.topic_of("m1").await;
    settle().await;
    let before = journal(&spine, &topic).await.len();

    client.say_in(&topic, "m2", "too much");
    let heard = client.hear_end_of("m2").await;

    assert_eq!(heard.last().unwrap(), "error m2: internal");
    let events = journal(&spine, &topic).await;
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq), "{events:?}");
    let facts: Vec<Fact> = events.into_iter().skip(before).map(|event| event.fact).collect();
    let [
        Fact::TurnStart { .. },
        Fact::User { origin: Origin::System, text: result, .. },
        Fact::User { origin: Origin::Person, text: words, .. },
        Fact::TurnEnd { .. },
    ] = facts.as_slice()
    else {
        panic!("{facts:?}");
    };
    assert!(result.contains("Left says so."), "{result}");
    assert_eq!(words, "too much");
    assert!(world.disk.keys("inbox").is_empty());
}

/// OR-66, OR-84
#[actix::test]
async fn a_lane_that_wants_to_be_woken_gets_a_turn_with_the_result() {
    let world = world();
    let client = world.connect(&world.start());

    client.say("m1", "wake");
    settle().await;

    let frames = heard(&client).await;
    assert_eq!(count(&frames, "done m1"), 1, "{frames:#?}");
    assert_eq!(count(&frames, "told task: [main] Left is done."), 1, "{frames:#?}");
    assert_eq!(count(&frames, "told"), 1, "{frames:#?}");
}

/// OR-68: the answer of the other team is the result of the call.
#[actix::test]
async fn a_query_waits_for_the_other_team() {
    let world = world();
    let client = world.connect(&world.start());

    client.say("m1", "ask");
    settle().await;

    let frames = heard(&client).await;
    assert_eq!(count(&frames, "done m1"), 1, "{frames:#?}");
    assert_eq!(count(&frames, "told"), 0, "{frames:#?}");
    let asked = world.asked.lock().unwrap().clone();
    let answered = asked.iter().any(|messages| format!("{messages:?}").contains("Left says so."));
    assert!(answered);
}

/// OR-68, OR-79: a turn that waits for another holds no slot, so a single slot is enough for a chain.
#[actix::test]
async fn turns_that_wait_for_each_other_share_one_slot() {
    let mut world = world();
    world.limits.running = 1;
    let client = world.connect(&world.start());

    client.say("m1", "ask");
    settle().await;

    let frames = heard(&client).await;
    assert_eq!(count(&frames, "done m1"), 1, "{frames:#?}");
}

/// OR-76, OR-84, OR-90, CH-155, SC-123: whatever the moment, each message and each given task has one
/// end, and it is told once.
#[actix::test]
async fn a_crash_at_any_commit_leaves_one_end_for_each_task() {
    for way in ["give", "wake", "ask"] {
        let commits = {
            let world = world();
            let storage = world.disk.mount(None);
            let client = world.connect(&world.start_on(storage.clone()));
            client.say("m1", way);
            settle().await;
            storage.commits()
        };
        assert!(commits > 8, "{commits}");
        let told = match way {
            "give" => "told task: [left] Left says so.",
            "wake" => "told task: [main] Left is done.",
            _ => "done m1",
        };
        for number in 1..commits {
            for crash in [Crash::Before(number), Crash::After(number)] {
                let world = world();
                let client = world.connect(&world.start_doomed(crash));
                client.say("m1", way);
                settle().await;
                let mut frames = heard(&client).await;

                let (_, more) = again(&world, &client).await;
                frames.extend(more);

                assert_eq!(count(&frames, "done m1"), 1, "{way} {crash:?}: {frames:#?}");
                assert_eq!(count(&frames, told), 1, "{way} {crash:?}: {frames:#?}");
                let all = if way == "ask" { 0 } else { 1 };
                assert_eq!(count(&frames, "told"), all, "{way} {crash:?}: {frames:#?}");
                assert_eq!(count(&frames, "error"), 0, "{way} {crash:?}: {frames:#?}");
                assert!(world.disk.keys("task/").is_empty(), "{way} {crash:?}");
                assert!(world.disk.keys("cause").is_empty(), "{way} {crash:?}");
            }
        }
    }
}
