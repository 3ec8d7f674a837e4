//! What a person hears about one message.

use std::time::Duration;

use crate::doubles::{
    engine::{Play, seconds},
    world::World,
};

/// CH-81, CH-83
#[actix::test]
async fn a_fast_turn_sends_ack_and_response_in_one_commit() {
    let world = World::new(|_| vec![Play::Say("Hello."), Play::Answer]);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);

    client.say("m1", "good morning");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard, ["ack m1: Hello.", "done m1: Hello."]);
    let frames = storage.batches().into_iter().map(|batch| {
        let keys = batch.changes.iter();
        keys.filter(|(key, _)| key.starts_with(b"out")).count()
    });
    assert_eq!(frames.filter(|count| *count > 0).collect::<Vec<_>>(), [2]);
    client.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-82
#[actix::test]
async fn a_slow_turn_is_acknowledged_with_a_fixed_sentence() {
    let world = World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "good morning");
    let ack = client.hear().await;
    let acked_after = began.elapsed();
    let rest = client.hear_end_of("m1").await;

    assert_eq!(ack, "ack m1: Working on it.");
    assert!(
        (1_500..1_600).contains(&acked_after.as_millis()),
        "{acked_after:?}"
    );
    assert_eq!(rest.last().unwrap(), "done m1: Done.");
}
