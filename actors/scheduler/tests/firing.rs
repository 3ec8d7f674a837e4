//! What a firing leads to.

use super::*;
use crate::{
    doubles::entropy::Sequence,
    scheduler::trigger::{config::Schedule, definition::Definition},
    text::Span,
};

fn ids() -> Ids {
    Ids::new(std::sync::Arc::new(Sequence::constant(7)))
}

const NOW: Timestamp = Timestamp(1_000_000);

fn trigger() -> Trigger {
    let config = Config::Schedule(Schedule::cron("* * * * *"));
    let team = TeamKey { name: "news".into(), generation: 2 };
    let definition = Definition::new("scan", config, "Scan the news.");
    let mut trigger = Trigger::new("trg-1".into(), team, definition, "main", Timestamp(0));
    trigger.enable(Timestamp(0));
    trigger
}

fn pending(cause: Cause) -> Pending {
    Pending::timed(cause, Timestamp(999_000), "Scan the news.".to_owned())
}

const NOTHING: Findings = Findings { problem: None, nothing_to_do: None, order: None, skill: None };

const CALM: Present<'static> = Present {
    availability: Availability::Active,
    unfinished: false,
    fired_lately: 0,
    known: None,
    found: &NOTHING,
};

fn fire_with(trigger: &mut Trigger, cause: Cause, present: &Present<'_>) -> Fired {
    fire(trigger, &pending(cause), present, NOW, &ids())
}

/// TR-27, TR-44
#[test]
fn a_firing_makes_a_task_and_a_row_that_names_it() {
    let mut trigger = trigger();
    trigger.definition.subagent = Some("editor".to_owned());
    trigger.definition.max_steps = Some(7);

    let fired = fire_with(&mut trigger, Cause::Schedule, &CALM);

    let task = fired.task.as_ref();
    assert_eq!(fired.run.decision, Decision::Enqueued);
    assert_eq!(fired.run.task_id.as_ref(), task.map(|task| &task.id));
    assert_eq!(fired.run.due_at, Timestamp(999_000));
    assert_eq!(trigger.active_task_id, fired.run.task_id);
    assert_eq!(trigger.last_fired_at, Some(NOW));
    let shape = task.map(|task| {
        let options = &task.options;
        (
            task.kind,
            task.generation,
            task.deadline_at,
            options.max_steps,
            options.subagent.as_deref(),
        )
    });
    let six_hours = Timestamp(1_000_000 + 6 * 3_600_000);
    assert_eq!(shape, Some((Kind::Trigger, 2, six_hours, Some(7), Some("editor"))));
}

/// TR-05, TR-28, TR-34, TR-35
#[test]
fn what_keeps_a_firing_from_making_a_task() {
    let known = RunId::from("run-0");
    let quiet = Findings::nothing("quiet");
    let cases = [
        (Present { known: Some(&known), ..CALM }, Decision::Duplicate),
        (Present { availability: Availability::Gone, ..CALM }, Decision::NotActive),
        (Present { availability: Availability::Paused, ..CALM }, Decision::TeamPaused),
        (Present { fired_lately: 10, ..CALM }, Decision::RateLimited),
        (Present { found: &quiet, ..CALM }, Decision::Filtered),
    ];
    for (present, expected) in cases {
        let mut trigger = trigger();
        let fired = fire_with(&mut trigger, Cause::Schedule, &present);
        assert_eq!((fired.run.decision, fired.task), (expected, None));
        assert_eq!(trigger.last_fired_at, None);
    }
    let mut off = trigger();
    off.disable("by hand");
    let fired = fire_with(&mut off, Cause::Schedule, &CALM);
    assert_eq!(fired.run.decision, Decision::NotActive);

    let mut resting = trigger();
    resting.definition.cooldown = Span(Duration::from_secs(60));
    resting.last_fired_at = Some(NOW - Duration::from_secs(59));
    let fired = fire_with(&mut resting, Cause::Schedule, &CALM);
    assert_eq!(fired.run.decision, Decision::Cooldown);
}

/// TR-34: one notice per trigger in ten minutes.
#[test]
fn too_many_firings_are_told_once_in_ten_minutes() {
    let mut trigger = trigger();
    let busy = Present { fired_lately: 10, ..CALM };
    let mut told = |minute: u64| {
        let now = NOW + Duration::from_secs(60 * minute);
        let fired = fire(&mut trigger, &pending(Cause::Schedule), &busy, now, &ids());
        fired.notice.is_some()
    };

    assert_eq!([0, 1, 9, 10, 11].map(&mut told), [true, false, false, true, false]);
}

/// TR-37 to TR-40
#[test]
fn an_unfinished_task_is_skipped_once_and_then_replaced() {
    let mut trigger = trigger();
    trigger.active_task_id = Some("task-old".into());
    let busy = Present { unfinished: true, ..CALM };

    let first = fire_with(&mut trigger, Cause::Schedule, &busy);
    let second = fire_with(&mut trigger, Cause::Schedule, &busy);

    assert_eq!(first.run.decision, Decision::SkippedOverlap);
    assert_eq!(second.run.decision, Decision::Replaced);
    assert_eq!(second.run.replaces, Some("task-old".into()));
    assert_eq!(trigger.active_task_id, second.run.task_id);
    assert_eq!(trigger.overlap_count, 0);
}

/// A stale reference is cleared.
#[test]
fn a_task_that_has_ended_is_in_nobodys_way() {
    let mut trigger = trigger();
    trigger.active_task_id = Some("task-old".into());
    trigger.overlap_count = 1;

    let fired = fire_with(&mut trigger, Cause::Schedule, &CALM);

    assert_eq!((fired.run.decision, fired.run.replaces), (Decision::Enqueued, None));
}

/// TR-13, TR-54: any state, no limit, no trace in the trigger.
#[test]
fn a_run_by_hand_leaves_the_trigger_alone() {
    let mut trigger = trigger();
    trigger.disable("by hand");
    trigger.last_fired_at = Some(NOW);
    trigger.definition.cooldown = Span(Duration::from_secs(60));
    let before = trigger.clone();
    let busy = Present { fired_lately: 50, availability: Availability::Paused, ..CALM };

    let fired = fire_with(&mut trigger, Cause::Test, &busy);

    assert_eq!(fired.run.decision, Decision::Enqueued);
    assert_eq!(trigger, before);
}

/// TR-36 to TR-39
#[test]
fn each_policy_has_its_way_with_an_unfinished_task() {
    let task = TaskId::from("task-1");
    let of = |policy, skipped| overlap(policy, Some(&task), skipped);
    let replaces = (Overlap::Replace(task.clone()), 0);

    assert_eq!(of(OverlapPolicy::Allow, 0), (Overlap::Go, 0));
    assert_eq!(of(OverlapPolicy::AlwaysSkip, 4), (Overlap::Skip, 5));
    assert_eq!(of(OverlapPolicy::AlwaysReplace, 0), replaces);
    assert_eq!(of(OverlapPolicy::SkipThenReplace, 0), (Overlap::Skip, 1));
    assert_eq!(of(OverlapPolicy::SkipThenReplace, 1), replaces);
}

/// TR-39: a finished task begins the count anew.
#[test]
fn without_an_unfinished_task_it_goes_ahead() {
    assert_eq!(overlap(OverlapPolicy::SkipThenReplace, None, 1), (Overlap::Go, 0));
}

/// TR-34: in any 60 s, by team and subagent.
#[test]
fn firings_count_for_a_minute_by_team_and_subagent() {
    let mut fires = Fires::default();
    let team = TeamKey::first("news");
    let editor = || Some("editor".to_owned());
    for second in 0..10 {
        fires.count(&team, editor(), Timestamp(second * 1_000));
    }

    assert_eq!(fires.lately(&team, editor(), Timestamp(59_999)), 10);
    assert_eq!(fires.lately(&team, editor(), Timestamp(60_000)), 9);
    assert_eq!(fires.lately(&team, None, Timestamp(10_000)), 0);
    assert_eq!(fires.lately(&team, editor(), Timestamp(100_000)), 0);
}
