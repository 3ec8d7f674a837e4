//! Who may spend how much.
#![allow(clippy::unwrap_used)]

use super::*;

const DAY: Day = Day {
    number: 20_261_115,
    ends_at: Timestamp(1_000),
};
const NEXT: Day = Day {
    number: 20_261_116,
    ends_at: Timestamp(2_000),
};

fn line(caps: &[(&str, Caps)]) -> Line {
    caps.iter()
        .map(|(team, caps)| ((*team).into(), *caps))
        .collect()
}

fn tokens(tokens: u64) -> Caps {
    Caps {
        tokens_per_day: Some(tokens),
        ..Caps::default()
    }
}

fn cost(tokens: u64) -> Spent {
    Spent {
        tokens,
        usd: tokens as f64 / 100.0,
    }
}

/// SE-141: what does not fit is not made, and what was set aside counts.
#[test]
fn a_call_is_refused_when_what_is_under_way_leaves_no_room() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);

    let first = ledger.reserve(&line, &[], cost(60), DAY).unwrap();
    let second = ledger.reserve(&line, &[], cost(60), DAY);

    let overdrawn = second.unwrap_err();
    assert_eq!(overdrawn.team, "main".into());
    assert_eq!(overdrawn.until, Some(DAY.ends_at));
    ledger.settle(first, cost(10));
    assert!(ledger.reserve(&line, &[], cost(60), DAY).is_ok());
}

/// OR-47, SE-140: the children together cannot outspend the root.
#[test]
fn children_draw_on_the_budget_of_the_root() {
    let ledger = Ledger::default();
    let root = ("main", tokens(100));
    let left = line(&[("left", tokens(90)), root]);
    let right = line(&[("right", Caps::default()), root]);

    let one = ledger.reserve(&left, &[], cost(80), DAY).unwrap();
    ledger.settle(one, cost(80));
    let other = ledger.reserve(&right, &[], cost(30), DAY).unwrap_err();

    assert_eq!(other.team, "main".into());
    assert_eq!(ledger.drawn(&"main".into(), DAY), cost(80));
    assert_eq!(ledger.drawn(&"right".into(), DAY), Spent::default());
}

/// SE-140, SE-143: the next day begins with nothing spent.
#[test]
fn a_new_day_opens_the_budget_again() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);
    let spent = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));

    assert!(ledger.reserve(&line, &[], cost(1), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(1), NEXT).is_ok());
}

/// SE-143: the operator agrees, and is asked once a day.
#[test]
fn an_operator_who_agrees_allows_the_cap_once_more() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);
    let spent = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));

    assert!(ledger.asks(&"main".into(), DAY));
    assert!(!ledger.asks(&"main".into(), DAY));
    ledger.raise(&"main".into(), DAY);

    let more = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(more, cost(100));
    assert!(ledger.reserve(&line, &[], cost(1), DAY).is_err());
    assert!(ledger.asks(&"main".into(), DAY));
}

/// SE-140: a task with all it led to.
#[test]
fn a_task_and_all_it_led_to_share_one_cap() {
    let ledger = Ledger::default();
    let caps = Caps {
        usd_per_task: Some(1.0),
        ..Caps::default()
    };
    let main = line(&[("main", caps)]);
    let child = line(&[("child", Caps::default()), ("main", caps)]);
    let below = ["task-1".into(), "task-2".into()];

    let spent = ledger.reserve(&child, &below, cost(80), DAY).unwrap();
    ledger.settle(spent, cost(80));

    assert!(
        ledger
            .reserve(&main, &["task-1".into()], cost(30), DAY)
            .is_err()
    );
    assert!(
        ledger
            .reserve(&main, &["task-9".into()], cost(30), DAY)
            .is_ok()
    );
}

/// SE-139: what was spent before a restart still counts.
#[test]
fn what_was_noted_before_counts_for_all_above() {
    let ledger = Ledger::default();
    ledger.recover(&["child".into(), "main".into()], cost(90), DAY);

    let line = line(&[("main", tokens(100))]);
    assert!(ledger.reserve(&line, &[], cost(20), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(10), DAY).is_ok());
}
