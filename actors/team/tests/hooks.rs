//! Plugins that look at calls before they are made, and at words.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;

use super::compaction::journal;
use crate::{
    doubles::{
        engine::{Play, last_words},
        world::World,
    },
    history::Fact,
};

/// A world whose model makes one call, to which plugins say this, and then repeats what it heard.
fn world(hook: &'static str) -> World {
    World::new(move |request| {
        if request.step == 1 {
            return vec![Play::CallWith("c1", "save", json!({ "hook": hook }))];
        }
        vec![Play::Say("Done."), Play::Answer]
    })
}

/// TO-10, PL-39, PL-40: what a plugin refuses does not run, also if it refuses by failing; what it rewrites runs as it
/// wrote it, and is journalled so.
#[actix::test]
async fn a_call_runs_as_plugins_leave_it() {
    for (hook, runs, args, result) in [
        ("pass", 1, json!({ "hook": "pass" }), None),
        ("rewrite", 1, json!({ "rewritten": true }), None),
        ("deny", 0, json!({ "hook": "deny" }), Some("blocked")),
        ("panic", 0, json!({ "hook": "panic" }), Some("plugin unavailable")),
    ] {
        let world = world(hook);
        let spine = world.start();
        let client = world.connect(&spine);

        client.say("m1", "water the garden");
        let topic = client.topic_of("m1").await;
        client.hear_end_of("m1").await;

        assert_eq!(world.tools.runs.lock().unwrap().len(), runs, "{hook}");
        let events = journal(&spine, &topic).await;
        let called = events.iter().find_map(|event| match &event.fact {
            Fact::ToolCall { args, .. } => Some(args.clone()),
            _ => None,
        });
        assert_eq!(called, Some(args), "{hook}");
        let told = events.iter().find_map(|event| match &event.fact {
            Fact::ToolResult { content, .. } => Some(content.clone()),
            _ => None,
        });
        if let Some(result) = result {
            assert_eq!(told.as_deref(), Some(result), "{hook}");
        }
    }
}

/// SE-132: a plugin that does not answer keeps nobody from stopping the turn.
#[actix::test]
async fn a_turn_whose_plugin_hangs_can_be_cancelled() {
    let world = world("hang");
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.cancel(&topic, false);
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "cancelled m1: ");
    assert_eq!(world.tools.runs.lock().unwrap().len(), 0);
}

/// PL-41: the model hears, and the person reads, what plugins make of the words.
#[actix::test]
async fn words_pass_as_plugins_put_them() {
    let world = World::new(|request| {
        assert_eq!(last_words(request), "answer kindly");
        vec![Play::Say("I answer rudely."), Play::Answer]
    });
    let client = world.connect(&world.start());

    client.say("m1", "answer rudely");
    let heard = client.hear_end_of("m1").await;

    assert!(heard.last().unwrap().contains("I answer gladly."), "{heard:?}");
}

/// PL-41, EN-64: an answer that plugins will reword is shown to nobody before they have, and moves all the same.
#[actix::test]
async fn a_long_answer_that_is_reworded_does_not_stall() {
    let world = World::new(|_| {
        let moves = [Play::Say("I answer rudely. "), Play::Wait(Duration::from_secs(200))];
        let mut plays: Vec<Play> = moves.into_iter().cycle().take(8).collect();
        plays.push(Play::Answer);
        plays
    });
    world.tools.rewords.store(true, Ordering::Relaxed);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "answer");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(began.elapsed().as_secs(), 4 * 200);
    assert!(heard.last().unwrap().starts_with("done m1: I answer gladly."), "{heard:?}");
    assert!(!heard.iter().any(|frame| frame.contains("rudely")), "{heard:?}");
}
