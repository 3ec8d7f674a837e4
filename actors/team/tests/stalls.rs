//! Work that stands still, and what is done about it.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use actix::Arbiter;

use super::crash::settle;
use crate::{
    doubles::{disk, engine::Play, world::World},
    engine::EngineEvent,
    notice::{Notice, NoticeKind},
    supervisor::CountRestarts,
};

fn stalls(world: &World) -> Vec<String> {
    let storage = world.disk.mount(None);
    let notices = disk::notices(&*storage).unwrap();
    let stalls = notices.into_iter().filter(|notice| notice.kind == NoticeKind::Stall);
    let mut stalls: Vec<Notice> = stalls.collect();
    stalls.sort_by_key(|notice| notice.at);
    stalls.into_iter().map(|notice| notice.text).collect()
}

/// OR-83, SE-131: a warning at half of the time, then it is stopped and tried again.
#[actix::test]
async fn a_turn_that_stands_still_is_warned_of_then_stopped_and_tried_again() {
    let tries = AtomicUsize::new(0);
    let world = World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Play::Say("Hm."), Play::Hang],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "hello");
    let frames = client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
    assert_eq!(began.elapsed().as_secs(), 300 + 30 + 5);
    assert_eq!(
        stalls(&world),
        [
            "Nothing moved in a turn for 150 s: a warning. In 150 s it is stopped.",
            "Nothing moved in a turn for 300 s: it was stopped, and is tried again if it may be.",
        ]
    );
}

/// EN-64, EN-93, EN-120: what an engine says beside its answer is told at once and keeps no turn alive; the last of it
/// is why nothing moved.
#[actix::test]
async fn notes_are_no_signs_of_life_and_explain_a_stall() {
    let tries = AtomicUsize::new(0);
    let note = |text: &str| Play::Report(EngineEvent::Note(text.to_owned()));
    let world = World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => {
            let waits = |text| [Play::Wait(Duration::from_secs(200)), note(text)];
            [waits("Reconnecting 1"), waits("Reconnecting 2")].concat()
        }
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    let began = tokio::time::Instant::now();

    client.say("m1", "hello");
    tokio::time::sleep(Duration::from_secs(201)).await;
    let noted = spine.live.running().1[0].note.clone();
    let frames = client.hear_end_of("m1").await;

    assert_eq!(noted.as_deref(), Some("Reconnecting 1"));
    assert_eq!(began.elapsed().as_secs(), 300 + 30);
    let stopped = "nothing moved for too long; the last that was heard: Reconnecting 1. Trying again in 30 s.";
    assert!(frames.iter().any(|frame| frame.contains(stopped)), "{frames:?}");
}

/// OR-83: signs of life put the warning off; a tool may take its own time.
#[actix::test]
async fn a_turn_that_moves_is_not_warned_of() {
    let world = World::new(|request| match request.step {
        1 => {
            let moves = [Play::Say("Hm. "), Play::Wait(Duration::from_secs(140))];
            let mut plays: Vec<Play> = moves.into_iter().cycle().take(8).collect();
            plays.push(Play::Call(vec![("c1", "slow-look")]));
            plays
        }
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m1", "hello");
    client.hear_end_of("m1").await;
    settle().await;

    assert!(stalls(&world).is_empty(), "{:?}", stalls(&world));
}

/// OR-83: a disk that does not answer holds no lane for ever.
#[actix::test]
async fn a_preparation_that_hangs_is_tried_again_and_given_up() {
    let world = World::new(|_| vec![Play::Answer]);
    *world.briefing_takes.lock().unwrap() = Duration::from_secs(1_000_000);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "hello");
    let frames = client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(frames.last().unwrap(), "error m1: stalled");
    assert_eq!(began.elapsed().as_secs(), 60 + 30 + 60 + 120 + 60 + 5);
    let told = stalls(&world);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with("It is tried again in 30 s."), "{told:?}");
}

/// SE-132: whoever waits for a hanging preparation can be cancelled within three seconds.
#[actix::test]
async fn a_preparation_that_hangs_can_be_cancelled() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let client = world.connect(&world.start());
    client.say("m1", "hello");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    *world.briefing_takes.lock().unwrap() = Duration::from_secs(1_000_000);
    client.say_in(&topic, "m2", "hello");
    settle().await;
    let began = tokio::time::Instant::now();

    client.cancel(&topic, false);
    let frames = client.hear_end_of("m2").await;

    assert_eq!(frames.last().unwrap(), "cancelled m2: ");
    assert!(began.elapsed() <= Duration::from_secs(3));
}

/// OR-83: a team whose thread is blocked is replaced on another, and its task goes on there.
#[actix::test]
async fn a_team_that_does_not_answer_is_replaced() {
    let tries = AtomicUsize::new(0);
    let mut world = World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Play::Call(vec![("c1", "stuck")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    // Threads keep real time.
    tokio::time::resume();
    world.arbiters = vec![Arbiter::new().handle(), Arbiter::new().handle()];
    world.answers_within = Duration::from_secs(2);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "hello");
    let frames = tokio::time::timeout(Duration::from_secs(60), client.hear_end_of("m1")).await;
    world.tools.unstuck.store(true, Ordering::Relaxed);

    let frames = frames.unwrap();
    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
    let restarts = spine.supervisor.send(CountRestarts).await.unwrap();
    assert_eq!(restarts, [("main".into(), 1)]);
    let replaced = "Team main did not answer for 2 s: it was replaced, and its tasks wait again.";
    assert_eq!(stalls(&world), [replaced]);
    assert_eq!(world.runs(), Vec::<String>::new());
}

/// SE-110, SE-131: a turn that waits for a place at its provider is not stalled, however long that takes.
#[actix::test]
async fn a_turn_in_line_is_not_stalled() {
    let world = World::new(|_| {
        let waits = [Play::Wait(Duration::from_secs(140)), Play::Report(EngineEvent::InLine)];
        let mut plays: Vec<Play> = waits.into_iter().cycle().take(8).collect();
        plays.extend([Play::Say("Fine."), Play::Answer]);
        plays
    });
    let client = world.connect(&world.start());

    client.say("m1", "hello");
    let frames = client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(frames, ["ack m1: Working on it.", "delta m1: Fine.", "done m1: Fine."]);
    assert!(stalls(&world).is_empty(), "{:?}", stalls(&world));
}
