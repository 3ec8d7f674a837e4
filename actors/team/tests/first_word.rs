//! When a person hears what the model says: the ack, and the text behind it.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::crash::{count, heard, settle};
use crate::{
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words, seconds},
        world::World,
    },
    engine::EngineEvent,
    storage::Batch,
    store::reads::{Range, scan},
    task::Task,
    team::{
        lease::SessionKey,
        speech::{Speech, Spoke},
    },
};

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn wait(number: u64) -> Play {
    Play::Wait(ms(number))
}

/// All frames about a message that is sent now, each with when it came: in milliseconds, in full tens, since each wait
/// takes up to one more.
async fn timed(client: &Client) -> Vec<(u128, String)> {
    let began = Instant::now();
    client.say("m1", "good morning");
    let mut heard = Vec::new();
    loop {
        let frame = client.hear().await;
        let is_end = frame.starts_with("done");
        heard.push((began.elapsed().as_millis() / 10 * 10, frame));
        if is_end {
            return heard;
        }
    }
}

fn expected<const N: usize>(frames: [(u128, &str); N]) -> Vec<(u128, String)> {
    frames.map(|(at, frame)| (at, frame.to_owned())).to_vec()
}

/// The text that a client shows at the end of these frames.
fn shown(frames: &[String]) -> String {
    let mut text = String::new();
    for frame in frames {
        if let Some(piece) = frame.strip_prefix("delta m1: ") {
            text.push_str(piece);
        } else if frame.starts_with("note m1: The answer broke off") {
            text.clear();
        }
    }
    text
}

/// CH-81: blocks of text are lines, as they are in the answer.
#[actix::test]
async fn the_ack_is_what_has_arrived_30_ms_after_text_began() {
    let world = World::new(|_| {
        vec![
            wait(200),
            Play::Say("I will look."),
            Play::EndText,
            wait(20),
            Play::Say("Then I wri"),
            wait(20),
            Play::Say("te."),
            seconds(1),
            Play::Answer,
        ]
    });
    let client = world.connect(&world.start());

    let heard = timed(&client).await;

    assert_eq!(
        heard,
        expected([
            (230, "ack m1: I will look.\nThen I wri"),
            (230, "delta m1: I will look.\nThen I wri"),
            (280, "delta m1: te."),
            (1_240, "done m1: I will look.\nThen I write."),
        ])
    );
}

/// CH-81: white space is no text yet.
#[actix::test]
async fn the_30_ms_begin_with_the_first_word() {
    let world = World::new(|_| {
        vec![Play::Say("\n\n"), wait(100), Play::Say("Hello."), seconds(1), Play::Answer]
    });
    let client = world.connect(&world.start());

    let heard = timed(&client).await;

    assert_eq!(
        heard,
        expected([
            (130, "ack m1: \n\nHello."),
            (130, "delta m1: \n\nHello."),
            (1_100, "done m1: \n\nHello."),
        ])
    );
}

/// CH-81: time that text spends in the mailbox of a busy team counts.
#[actix::test]
async fn the_30_ms_count_from_when_the_engine_had_the_text() {
    let world = World::new(|_| vec![Play::Hang]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "good morning");
    tokio::time::sleep(ms(100)).await;
    let open = spine.store.read(|storage| scan::<Task>(storage, Range::all())).await.unwrap();
    let Task { lane, lease, .. } = &open[0];
    let session = SessionKey { topic: lane.topic.clone(), lease: lease.clone().unwrap() };
    let team = spine.directory.get(&lane.team).unwrap().clone();

    let began = Instant::now();
    let speech = Arc::new(Speech::default());
    speech.add(EngineEvent::Text("Hello.".to_owned()), began - ms(20));
    team.do_send(Spoke { session, speech });
    let ack = client.hear().await;

    assert_eq!(ack, "ack m1: Hello.");
    assert!((9..=12).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

/// CH-81, CH-83
#[actix::test]
async fn a_short_answer_needs_no_commit_for_its_ack() {
    // What was said with the task; then ack and response, in one commit or in two.
    for (pause, commits) in [(20, 2), (40, 3)] {
        let world = World::new(move |_| {
            vec![Play::Say("Hello "), wait(pause), Play::Say("there."), Play::Answer]
        });
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));

        client.say("m1", "good morning");
        let heard = client.hear_end_of("m1").await;

        assert_eq!(heard.last().unwrap(), "done m1: Hello there.", "{pause}");
        assert_eq!(count(&heard, "ack m1: Hello "), 1, "{pause}: {heard:?}");
        let has_frames =
            |batch: &Batch| batch.changes.iter().any(|(key, _)| key.starts_with(b"out"));
        let with_frames = storage.batches().iter().filter(|batch| has_frames(batch)).count();
        assert_eq!(with_frames, commits, "{pause}");
    }
}

/// CH-61, SE-87
#[actix::test]
async fn text_behind_the_ack_is_sent_at_once_and_then_every_50_ms() {
    let world = World::new(|_| {
        vec![
            Play::Say("One, "),
            wait(200),
            Play::Say("two, "),
            wait(10),
            Play::Say("three, "),
            wait(10),
            Play::Say("four, "),
            wait(100),
            Play::Say("five."),
            seconds(1),
            Play::Answer,
        ]
    });
    let client = world.connect(&world.start());

    let heard = timed(&client).await;

    assert_eq!(
        heard,
        expected([
            (30, "ack m1: One, "),
            (30, "delta m1: One, "),
            (200, "delta m1: two, "),
            (250, "delta m1: three, four, "),
            (320, "delta m1: five."),
            (1_320, "done m1: One, two, three, four, five."),
        ])
    );
}

/// CH-61, CH-82
#[actix::test]
async fn the_first_piece_after_a_fixed_ack_does_not_wait() {
    let world = World::new(|_| {
        vec![
            seconds(2),
            Play::Say("Here. "),
            wait(10),
            Play::Say("And there."),
            seconds(1),
            Play::Answer,
        ]
    });
    let client = world.connect(&world.start());

    let heard = timed(&client).await;

    assert_eq!(
        heard,
        expected([
            (1_500, "ack m1: Working on it."),
            (2_000, "delta m1: Here. "),
            (2_050, "delta m1: And there."),
            (3_010, "done m1: Here. And there."),
        ])
    );
}

/// CH-65, CH-81: nor is the person told to forget what they have not heard.
#[actix::test]
async fn text_that_is_void_before_the_ack_makes_none() {
    let world = World::new(|_| {
        vec![
            Play::Say("Half an ans"),
            wait(10),
            Play::Report(EngineEvent::Reset),
            wait(100),
            Play::Say("All of it."),
            seconds(1),
            Play::Answer,
        ]
    });
    let client = world.connect(&world.start());

    let heard = timed(&client).await;

    assert_eq!(
        heard,
        expected([
            (140, "ack m1: All of it."),
            (140, "delta m1: All of it."),
            (1_110, "done m1: All of it."),
        ])
    );
}

/// CH-59, CH-61, CH-65: whether text is void just before the ack, with it or just behind it.
#[actix::test]
async fn a_reset_around_the_ack_leaves_no_void_text() {
    for moment in 26..=34 {
        let world = World::new(move |_| {
            vec![
                Play::Say("Half an ans"),
                wait(moment),
                Play::Report(EngineEvent::Reset),
                Play::Say("All of it."),
                seconds(1),
                Play::Answer,
            ]
        });
        let client = world.connect(&world.start());

        client.say("m1", "good morning");
        let frames = client.hear_end_of("m1").await;

        assert!(frames[0].starts_with("ack m1: "), "{moment}: {frames:#?}");
        assert_eq!(count(&frames, "ack"), 1, "{moment}: {frames:#?}");
        assert_eq!(shown(&frames), "All of it.", "{moment}: {frames:#?}");
    }
}

/// CH-59, CH-61, SE-132: whether a turn is stopped just before its ack, with it or just behind it.
#[actix::test]
async fn a_turn_that_is_stopped_around_its_ack_has_one() {
    let world = World::new(|request| match last_words(request) {
        "hello" => vec![Play::Say("Hello."), Play::Answer],
        _ => vec![Play::Say("On my way. "), Play::Hang],
    });
    let client = world.connect(&world.start());
    client.say("m", "hello");
    let topic = client.topic_of("m").await;
    client.hear_end_of("m").await;

    for moment in 26..=34 {
        let id = format!("m{moment}");
        client.say_in(&topic, &id, "go");
        tokio::time::sleep(ms(moment)).await;
        client.cancel(&topic, false);
        let frames = client.hear_end_of(&id).await;

        assert_eq!(frames[0], format!("ack {id}: On my way. "));
        assert_eq!(count(&frames, "ack"), 1, "{frames:#?}");
        assert_eq!(*frames.last().unwrap(), format!("cancelled {id}: On my way. "));
        client.hears_nothing_for(Duration::from_secs(60)).await;
    }
}

/// CH-61, CH-80, CH-81: the process dies at any commit of a turn whose ack has one of its own.
#[actix::test]
async fn a_crash_around_the_ack_leaves_one_before_all_text() {
    let world = || {
        World::new(|_| {
            vec![Play::Say("I begin. "), wait(40), Play::Say("I end."), wait(100), Play::Answer]
        })
    };
    let commits = {
        let world = world();
        let storage = world.disk.mount(None);
        let client = world.connect(&world.start_on(storage.clone()));
        client.say("m1", "good morning");
        client.hear_end_of("m1").await;
        settle().await;
        storage.commits()
    };
    for number in 1..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = world();
            let client = world.connect(&world.start_doomed(crash));
            client.say("m1", "good morning");
            settle().await;
            let mut frames = heard(&client).await;

            let next = world.connect(&world.start());
            next.resume(&client.channel, client.last_seq.get());
            next.last_seq.set(client.last_seq.get());
            settle().await;
            frames.extend(heard(&next).await);

            assert_eq!(count(&frames, "ack m1"), 1, "{crash:?}: {frames:#?}");
            assert_eq!(count(&frames, "done m1: I begin. I end."), 1, "{crash:?}: {frames:#?}");
            let place = |start: &str| frames.iter().position(|frame| frame.starts_with(start));
            let (ack, text) = (place("ack m1"), place("delta m1"));
            assert!(text.is_none() || ack < text, "{crash:?}: {frames:#?}");
        }
    }
}
