//! How runs count.

use super::*;
use crate::{
    clock::Timestamp,
    ids::{RunId, TeamKey},
    scheduler::{
        firing::skipped_row,
        run::Decision,
        schedule::Missed,
        trigger::{
            State,
            config::{Config, Schedule},
            definition::Definition,
        },
    },
    task::outcome::Code,
};

fn outcome(ending: Ending, text: &str) -> Outcome {
    Outcome {
        code: (ending != Ending::Done).then_some(Code::Network),
        text: text.to_owned(),
        ..Outcome::new(ending, Timestamp(0))
    }
}

fn report(outcome: ReportedOutcome) -> Report {
    Report { notify: true, outcome, reason: "so it is".to_owned(), cursors: None }
}

fn trigger() -> Trigger {
    let config = Config::Schedule(Schedule::cron("* * * * *"));
    let mut trigger = Trigger::new(
        "trg-1".into(),
        TeamKey::first("news"),
        Definition::new("scan", config, "scan"),
        "main",
        Timestamp(0),
    );
    trigger.enable(Timestamp(0));
    trigger
}

fn run(trigger: &Trigger, number: u64, outcome: RunOutcome) -> Run {
    let at = Timestamp(number);
    let missed = Missed { count: 1, since: at, until: at, more: false };
    let id = format!("run-{number}").into();
    Run {
        decision: Decision::Enqueued,
        outcome: Some(outcome),
        reason: (outcome == RunOutcome::Failed).then(|| format!("error {number}")),
        ..skipped_row(trigger, missed, at, id)
    }
}

/// TR-41
#[test]
fn what_counts_as_a_failure() {
    let judged = |ending, text, report: Option<&Report>| judge(&outcome(ending, text), report).0;
    let (fine, bad) = (report(ReportedOutcome::Ok), report(ReportedOutcome::Failed));

    for ending in [Ending::Failed, Ending::Dead, Ending::Expired] {
        assert_eq!(judged(ending, "text", Some(&fine)), RunOutcome::Failed);
    }
    assert_eq!(judged(Ending::Done, "text", Some(&bad)), RunOutcome::Failed);
    assert_eq!(judged(Ending::Done, " \n", None), RunOutcome::Failed);
    assert_eq!(judged(Ending::Done, "", Some(&fine)), RunOutcome::Ok);
    assert_eq!(judged(Ending::Done, "text", None), RunOutcome::Ok);
    assert_eq!(judged(Ending::Done, "", Some(&report(ReportedOutcome::Noop))), RunOutcome::Noop);
    let silent = Outcome { code: Some(Code::EmptyAnswer), ..outcome(Ending::Failed, "") };
    assert_eq!(judge(&silent, Some(&fine)).0, RunOutcome::Ok);
    assert_eq!(judge(&silent, None).0, RunOutcome::Failed);
    assert_eq!(judged(Ending::Cancelled, "", Some(&bad)), RunOutcome::Cancelled);
}

/// TR-42, TR-43, TR-78
#[test]
fn the_third_failure_switches_it_off_and_enabling_begins_anew() {
    let mut trigger = trigger();

    let off: Vec<Option<String>> = (1..=3)
        .map(|number| {
            let run = run(&trigger, number, RunOutcome::Failed);
            count(&mut trigger, &run)
        })
        .collect();

    let reason = "3 failures in a row: error 3";
    assert_eq!(off, [None, None, Some(reason.to_owned())]);
    assert_eq!(trigger.state, State::Disabled);
    assert_eq!(trigger.disabled_reason.as_deref(), Some(reason));
    assert_eq!(trigger.failed_runs, ["run-1", "run-2", "run-3"].map(RunId::from));

    trigger.enable(Timestamp(9));
    assert_eq!((trigger.state, trigger.consecutive_failures), (State::Active, 0));
    assert_eq!(trigger.cursor_at, Some(Timestamp(9)));
}

/// TR-40, TR-42
#[test]
fn success_begins_anew_and_a_cancelled_run_counts_as_nothing() {
    let mut trigger = trigger();
    let mut end = |outcome| {
        let run = run(&trigger, 1, outcome);
        count(&mut trigger, &run);
        trigger.consecutive_failures
    };

    let counts = [
        RunOutcome::Failed,
        RunOutcome::Failed,
        RunOutcome::Cancelled,
        RunOutcome::Noop,
        RunOutcome::Failed,
    ]
    .map(&mut end);

    assert_eq!(counts, [1, 2, 2, 0, 1]);
}
