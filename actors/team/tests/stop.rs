//! Cancel, deadline, stall.

use std::time::Duration;

use super::{compaction::journal, crash::settle};
use crate::{
    clock::Clock,
    doubles::{
        engine::{Play, last_words, seconds},
        world::World,
    },
    history::Fact,
    queue::{Enqueue, submit::CancelTask},
    spine::GRACE,
    store::records::Writes,
    task::{Kind, Lane, Task, outcome::Ending, records as tasks},
};

/// SE-132, CH-49
#[actix::test]
async fn a_cancelled_turn_keeps_what_was_said() {
    let world = World::new(|_| vec![Play::Say("One moment. "), Play::Hang]);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "cancelled m1: One moment. ");
    client.hears_nothing_for(Duration::from_secs(600)).await;
}

/// SE-132: the words of a finished step are not said twice.
#[actix::test]
async fn a_turn_cancelled_during_a_tool_repeats_nothing() {
    let world = World::new(|_| {
        vec![Play::Say("Let me look."), Play::EndText, Play::Call(vec![("c1", "slow-look")])]
    });
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "cancelled m1: Let me look.");
    assert_eq!(*world.tools.ended.lock().unwrap(), ["c1"]);
}

/// SE-132: a tool is asked to stop. What it says then is in the journal, and nobody waits out the grace.
#[actix::test]
async fn a_tool_that_hears_of_a_cancel_ends_by_itself() {
    let world = World::new(|_| vec![Play::Call(vec![("c1", "slow-look")])]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    settle().await;
    let began = tokio::time::Instant::now();
    client.cancel(&topic, false);
    client.hear_end_of("m1").await;

    // The clock stands unless something waits.
    assert!(began.elapsed() < GRACE, "{:?}", began.elapsed());
    let events = journal(&spine, &topic).await;
    let replies = events.iter().filter_map(|event| match &event.fact {
        Fact::ToolResult { content, .. } => Some(content.as_str()),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), ["put down half-way"]);
}

/// SE-132
#[actix::test]
async fn a_tool_that_does_not_stop_is_aborted_after_the_grace_period() {
    let world = World::new(|_| vec![Play::Call(vec![("c1", "deaf")])]);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    let began = tokio::time::Instant::now();
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "cancelled m1: ");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(*world.tools.ended.lock().unwrap(), ["c1"]);
}

/// SE-132: a cancel that comes while the lease is being stored is heard too.
#[actix::test]
async fn a_cancel_on_the_heels_of_its_message_is_heard() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;

    client.say_in(&topic, "m2", "again");
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m2").await;

    assert_eq!(heard, ["ack m2: Working on it.", "cancelled m2: "]);
}

/// SE-132: a cancelled task is never run again, whatever else happens to its turn.
#[actix::test]
async fn a_cancel_during_a_setback_ends_the_task() {
    for pause in [0, 1] {
        let world = World::new(|_| {
            vec![
                Play::Report(crate::engine::EngineEvent::Retry("again".to_owned())),
                Play::Fail(crate::task::outcome::Code::Network),
            ]
        });
        let client = world.connect(&world.start());

        client.say("m1", "water the garden");
        let topic = client.topic_of("m1").await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        client.cancel(&topic, false);
        let heard = client.hear_end_of("m1").await;

        assert_eq!(heard.last().unwrap(), "cancelled m1: ");
        client.hears_nothing_for(Duration::from_secs(600)).await;
        assert_eq!(world.asked.lock().unwrap().len(), 1);
    }
}

/// CH-79, SE-132
#[actix::test]
async fn waiting_messages_end_at_once_and_an_empty_topic_has_nothing_to_cancel() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "again");
    client.say_in(&topic, "m3", "and again");
    client.topic_of("m3").await;

    client.cancel(&topic, true);
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.push(client.hear().await);
    }
    client.cancel(&topic, true);
    let nothing = client.hear().await;

    ends.sort();
    assert_eq!(ends, ["cancelled m1: ", "cancelled m2: ", "cancelled m3: "]);
    assert_eq!(nothing, "error -: nothing_to_cancel");
}

/// SE-130, OR-82
#[actix::test]
async fn a_turn_out_of_time_expires_with_what_was_said() {
    let world = World::new(|_| {
        let mut plays = vec![Play::Say("Still at it. ")];
        for _ in 0..100 {
            plays.extend([seconds(60), Play::Say("x")]);
        }
        plays
    });
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "error m1: deadline");
    assert_eq!(began.elapsed().as_secs(), 30 * 60);
}

/// SE-131, SE-20, OR-74
#[actix::test]
async fn a_turn_that_stands_still_is_tried_three_times() {
    let world = World::new(|_| vec![Play::Hang]);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(
        heard,
        [
            "ack m1: Working on it.",
            "note m1: nothing moved for too long. Trying again in 30 s.",
            "note m1: Going on after an interruption.",
            "note m1: nothing moved for too long. Trying again in 120 s.",
            "note m1: Going on after an interruption.",
            "error m1: stalled",
        ]
    );
    assert_eq!(began.elapsed().as_secs(), 3 * 300 + 30 + 120);
}

/// SE-132, SE-135: wherever in the life of a turn that fails a cancel comes, it ends the task.
#[actix::test]
async fn a_cancel_is_heard_at_any_moment_of_a_failing_turn() {
    let world = World::new(|request| match last_words(request) {
        "water the garden" => vec![Play::Say("Done."), Play::Answer],
        _ => vec![
            Play::Report(crate::engine::EngineEvent::Retry("again".to_owned())),
            Play::Fail(crate::task::outcome::Code::Network),
        ],
    });
    let client = world.connect(&world.start());
    client.say("m", "water the garden");
    let topic = client.topic_of("m").await;
    client.hear_end_of("m").await;

    for moment in 0..60 {
        let id = format!("m{moment}");
        client.say_in(&topic, &id, "fail");
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        client.cancel(&topic, false);
        let heard = client.hear_end_of(&id).await;

        assert_eq!(heard.last().unwrap(), &format!("cancelled {id}: "));
        let acks = heard.iter().filter(|frame| frame.starts_with("ack"));
        assert_eq!(acks.count(), 1, "{heard:?}");
    }
}

/// SE-131, SE-132: a cancel while a stalled turn waits for its tools is not lost.
#[actix::test]
async fn a_cancel_of_a_stalled_turn_ends_the_task() {
    let world = World::new(|_| vec![Play::Call(vec![("c1", "deaf")])]);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    // The tool may take two minutes, and one more passes before it counts as stalled.
    tokio::time::sleep(Duration::from_secs(181)).await;
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "cancelled m1: ");
    client.hears_nothing_for(Duration::from_secs(600)).await;
}

/// TR-40: at whatever moment a task is replaced, it says by what, and it has not failed.
#[actix::test]
async fn a_task_says_why_it_was_stopped_also_if_its_turn_had_not_begun() {
    for broken in [false, true] {
        let world = World::new(|_| vec![Play::Hang]);
        if broken {
            world.brief_errors.lock().unwrap().insert("*", "broken");
        }
        let spine = world.start();
        for wait in 0..40 {
            let lane = Lane { team: format!("team-{wait}").as_str().into(), topic: None };
            let task = Task {
                kind: Kind::Trigger,
                ..Task::new(
                    format!("task-{wait}").into(),
                    lane,
                    "work".to_owned(),
                    "trigger".to_owned(),
                    world.clock.now(),
                )
            };
            let id = task.id.clone();
            spine.queue.do_send(Enqueue { task, writes: Writes::new() });
            for _ in 0..wait {
                tokio::task::yield_now().await;
            }
            let cancel = CancelTask { task: id.clone(), reason: "replaced by run-2".to_owned() };
            let was_open = spine.queue.send(cancel).await.unwrap();
            settle().await;

            let row = spine.store.read(move |storage| tasks::find(storage, &id));
            let outcome = row.await.unwrap().unwrap().outcome.unwrap();
            let expected = (Ending::Cancelled, Some("replaced by run-2".to_owned()));
            assert!(was_open);
            assert_eq!((outcome.ending, outcome.message), expected, "{wait}");
        }
    }
}
