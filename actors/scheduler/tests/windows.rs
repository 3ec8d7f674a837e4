//! Windows, as they open and close.

use std::time::Duration;

use serde_json::json;

use super::stage::{HOUR, MINUTE, Stage};
use crate::{
    doubles::engine::{Play, seconds},
    engine::Message,
    scheduler::{
        trigger::{
            config::{Config, StopOn, Window},
            definition::Definition,
        },
        window::{Closed, Phase},
    },
};

/// A window that is open in the minutes of a pattern.
pub(super) fn window(watch: &str) -> Config {
    Config::Window(Window { watch: Some(watch.to_owned()), ..Window::default() })
}

fn definition(change: impl FnOnce(&mut Window)) -> Definition {
    let mut config = window("10-19");
    if let Config::Window(window) = &mut config {
        change(window);
    }
    Definition::new("watch", config, "do watch")
}

/// Works for so many seconds, with a sign of life now and then.
fn at_work(pauses: &[u64]) -> Vec<Play> {
    let works = pauses.iter().flat_map(|pause| [seconds(*pause), Play::Say("done ")]);
    works.chain([Play::Answer]).collect()
}

/// TR-76
#[actix::test]
async fn five_ticks_in_all_over_a_restart_and_each_sees_what_the_last_one_left() {
    let mut stage = Stage::new(|request| {
        let words = request.messages.iter().find_map(|message| match message {
            Message::User(text) => Some(text.clone()),
            _ => None,
        });
        let words = words.unwrap_or_default();
        let tick = (1..9).rev().find(|tick| words.contains(&format!("\"tick {tick}\"")));
        let next = format!("tick {}", tick.unwrap_or(0) + 1);
        let is_first = matches!(request.messages.last(), Some(Message::User(_)));
        let report = json!({
            "notify": false, "outcome": "noop", "reason": "", "cursors": {"last": next},
        });
        if is_first { vec![Play::CallWith("r1", "report_run", report)] } else { vec![Play::Answer] }
    });
    let trigger = stage.create(definition(|window| window.max_ticks = 5)).await;

    stage.until_minute(11).await;
    assert_eq!(stage.runs(&trigger.id).len(), 3);
    stage.restart_after(Duration::from_secs(10)).await;
    stage.until_minute(30).await;

    assert_eq!(stage.story(&trigger.id), ["window enqueued noop"; 5]);
    let trigger = stage.trigger(&trigger.id).await;
    assert_eq!(trigger.cursors["last"], "tick 5");
    let over = trigger.occurrence.unwrap();
    assert_eq!(
        (over.phase, over.reason, over.ticks, over.noops),
        (Phase::Closed, Some(Closed::Ticks), 5, 5)
    );
    let keys: Vec<String> = stage.runs(&trigger.id).into_iter().map(|run| run.key).collect();
    let opened = over.opened_at;
    let expected: Vec<String> = (1..=5).map(|tick| format!("{opened}/{tick}")).collect();
    assert_eq!(keys, expected);

    // The next opening begins anew.
    stage.until_minute(11).await;
    assert_eq!(stage.runs(&trigger.id).len(), 8);
}

/// TR-22, TR-23: a skipped tick counts and costs nothing; work in flight finishes.
#[actix::test]
async fn a_long_tick_is_finished_after_the_window_has_closed() {
    let stage = Stage::new(|_| at_work(&[280, 280, 25]));
    let trigger = stage.create(definition(|_| {})).await;

    stage.until_minute(20).await;

    let runs = stage.runs(&trigger.id);
    let made: Vec<_> = runs.iter().filter(|run| run.task_id.is_some()).collect();
    assert_eq!((runs.len(), made.len()), (20, 1));
    let over = stage.trigger(&trigger.id).await.occurrence.unwrap();
    assert_eq!((over.phase, over.ticks), (Phase::Closed, 20));
    assert_eq!(over.reason, Some(Closed::Time));
    assert_eq!(made[0].outcome.map(|outcome| outcome.as_str()), Some("ok"));
}

/// TR-23
#[actix::test]
async fn work_in_flight_goes_on_when_the_window_closes() {
    let stage = Stage::new(|_| at_work(&[240, 240, 240]));
    let trigger = stage.create(definition(|_| {})).await;

    stage.until_minute(20).await;
    let closing = stage.trigger(&trigger.id).await.occurrence.unwrap();
    stage.until_minute(23).await;
    let closed = stage.trigger(&trigger.id).await.occurrence.unwrap();

    assert_eq!(closing.phase, Phase::Closing);
    assert_eq!((closed.phase, closed.reason), (Phase::Closed, Some(Closed::Time)));
    assert!(stage.story(&trigger.id)[0].ends_with("ok"));
}

/// TR-88
#[actix::test]
async fn the_first_hit_closes_it() {
    let stage = Stage::calm();
    let trigger = stage.create(definition(|window| window.stop_on = Some(StopOn::FirstHit))).await;

    stage.pass(HOUR + 20 * MINUTE).await;

    let runs = stage.runs(&trigger.id);
    assert!(runs.len() <= 2, "{runs:?}");
    let over = stage.trigger(&trigger.id).await.occurrence.unwrap();
    assert_eq!(over.reason, Some(Closed::FirstHit));
}
