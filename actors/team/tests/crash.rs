//! The process dies at every commit point, before and after the commit.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    channel::socket::Item,
    doubles::{
        client::{Client, short},
        disk::Crash,
        engine::{Play, last_words, seconds},
        world::World,
    },
};

fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("short", _) => vec![Play::Say("Fine."), Play::Answer],
        (_, 1) => vec![
            Play::Say("Let me see."),
            Play::EndText,
            Play::Call(vec![("c1", "save"), ("c2", "pay"), ("c3", "look")]),
        ],
        (_, 2) => vec![Play::Call(vec![("c4", "pay")])],
        _ => vec![Play::Say("All done."), Play::Answer],
    })
}

/// Lets everything happen that still can.
pub(super) async fn settle() {
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
}

/// All frames that a client has, each once.
pub(super) async fn heard(client: &Client) -> Vec<String> {
    let mut heard = Vec::new();
    while let Ok(item) =
        tokio::time::timeout(std::time::Duration::from_millis(1), client.socket.next()).await
    {
        heard.push(client.note(item));
    }
    heard
}

pub(super) fn count(frames: &[String], start: &str) -> usize {
    frames.iter().filter(|frame| frame.starts_with(start)).count()
}

/// CH-80, SC-104, OR-90, SE-144 to SE-150
#[actix::test]
async fn a_crash_at_any_commit_loses_nothing_and_repeats_nothing() {
    let commits = {
        let world = world();
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));
        client.say("m1", "long");
        client.hear_end_of("m1").await;
        settle().await;
        storage.commits()
    };
    assert!(commits > 6, "{commits}");
    for number in 1..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = world();
            let client = world.connect(&world.start_doomed(crash));
            client.say("m1", "long");
            settle().await;
            let mut frames = heard(&client).await;

            let next = world.connect(&world.start());
            next.resume(&client.channel, client.last_seq.get());
            next.last_seq.set(client.last_seq.get());
            settle().await;
            frames.extend(heard(&next).await);

            assert_eq!(count(&frames, "ack m1"), 1, "{crash:?}: {frames:#?}");
            assert_eq!(count(&frames, "done m1"), 1, "{crash:?}: {frames:#?}");
            assert_eq!(count(&frames, "error"), 0, "{crash:?}: {frames:#?}");
            let runs = world.tools.runs.lock().unwrap().clone();
            for id in ["c2", "c4"] {
                let times = runs.iter().filter(|run| run.id == id).count();
                assert!(times <= 1, "{crash:?}: {runs:?}");
            }
            for run in &runs {
                let mut tries = runs.iter().filter(|other| other.id == run.id);
                assert!(tries.all(|other| other.key == run.key), "{crash:?}: {runs:?}");
            }
        }
    }
}

/// SE-145, CH-65: the process dies in the first model call, whose words were heard and of which nothing is
/// in the journal: whoever heard them is told to forget them before they hear anything else.
#[actix::test]
async fn words_of_a_call_that_was_cut_off_are_void_before_it_is_made_again() {
    let calls = AtomicUsize::new(0);
    let world = World::new(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Play::Say("Half an ans"), Play::Hang],
        _ => vec![Play::Say("All of it."), seconds(1), Play::Answer],
    });
    let client = world.connect(&world.start());
    client.say("m1", "good morning");
    settle().await;
    let before = heard(&client).await;

    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    let note = next.frame().await;
    let rest = next.hear_end_of("m1").await;

    assert_eq!(before, ["ack m1: Half an ans", "delta m1: Half an ans"]);
    assert_eq!(short(&note), "note m1: Going on after an interruption.");
    assert_eq!(note["reset"], true);
    assert_eq!(rest, ["delta m1: All of it.", "done m1: All of it."]);
}

/// CH-65: nor is anybody told to forget what they cannot have heard: the model was not called.
#[actix::test]
async fn a_message_that_waited_for_its_turn_when_the_process_died_has_no_note() {
    let world = World::new(|request| match last_words(request) {
        "long" => vec![Play::Hang],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());
    client.say("m1", "long");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "short");
    settle().await;
    let before = heard(&client).await;

    let mut next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.last_seq.set(client.last_seq.get());
    assert_eq!(next.item().await, Item::Adopted(client.channel.clone()));
    next.channel = client.channel.clone();
    settle().await;
    next.cancel(&topic, false);
    let rest = next.hear_end_of("m2").await;

    assert_eq!(count(&before, "ack m2: Queued behind 1"), 1, "{before:#?}");
    assert_eq!(count(&rest, "note m2"), 0, "{rest:#?}");
    assert_eq!(rest.last().unwrap(), "done m2: Fine.");
}

/// CH-80: what was not stored was not acknowledged, and may be sent again.
#[actix::test]
async fn a_crash_before_the_first_commit_leaves_a_message_that_can_be_sent_again() {
    let world = world();
    let client = world.connect(&world.start_doomed(Crash::Before(0)));
    client.say("m1", "short");
    settle().await;

    let frames = heard(&client).await;
    let again = world.connect(&world.start());
    again.say("m1", "short");
    let after = again.hear_end_of("m1").await;

    assert_eq!(frames, Vec::<String>::new());
    assert_eq!(after, ["ack m1: Fine.", "done m1: Fine."]);
}

/// CH-84, OR-78: the next process goes on with the messages of a topic in the order in which they
/// came, also those of one millisecond.
#[actix::test]
async fn the_next_process_keeps_the_order_within_a_topic() {
    let world = world();
    let spine = world.start();
    spine.queue.do_send(crate::queue::Drain);
    let client = world.connect(&spine);
    let ids: Vec<String> = (10..30).map(|number| format!("m{number}")).collect();
    for id in &ids {
        client.say(id, "short");
    }
    settle().await;

    let next = world.connect(&world.start());
    next.resume(&client.channel, 0);
    settle().await;

    let done = heard(&next).await.into_iter().filter_map(|frame| {
        let rest = frame.strip_prefix("done ")?;
        Some(rest.split(':').next()?.to_owned())
    });
    assert_eq!(done.collect::<Vec<_>>(), ids);
}
