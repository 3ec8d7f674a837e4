//! The breaker: how a run counts, and when a trigger is switched off.

use super::{
    run::{Report, ReportedOutcome, Run, RunOutcome},
    trigger::Trigger,
};
use crate::task::{Code, Ending, Outcome};

/// Failed runs that a notice names.
const NAMED: usize = 3;

/// How a run went: by what it says of itself, unless its task says otherwise. With why, if badly.
pub fn judge(outcome: &Outcome, report: Option<&Report>) -> (RunOutcome, Option<String>) {
    let why = || {
        outcome.message.clone().unwrap_or_else(|| {
            let code = outcome.code.map_or("", |code| code.as_str());
            format!("the task ended as {} {code}", outcome.ending.as_str()).trim_end().to_owned()
        })
    };
    // A run that has reported need not say anything else.
    let ending = match (outcome.code, report) {
        (Some(Code::EmptyAnswer), Some(_)) => Ending::Done,
        _ => outcome.ending,
    };
    match (ending, report) {
        (Ending::Cancelled, _) => (RunOutcome::Cancelled, None),
        (Ending::Failed | Ending::Dead | Ending::Expired, _) => (RunOutcome::Failed, Some(why())),
        (Ending::Done, Some(report)) => match report.outcome {
            ReportedOutcome::Ok => (RunOutcome::Ok, said(report)),
            ReportedOutcome::Noop => (RunOutcome::Noop, said(report)),
            ReportedOutcome::Failed => (
                RunOutcome::Failed,
                said(report).or_else(|| Some("the run reported that it failed".to_owned())),
            ),
        },
        (Ending::Done, None) if outcome.text.trim().is_empty() => {
            (RunOutcome::Failed, Some("the answer is empty and nothing was reported".to_owned()))
        }
        (Ending::Done, None) => (RunOutcome::Ok, None),
    }
}

fn said(report: &Report) -> Option<String> {
    (!report.reason.trim().is_empty()).then(|| report.reason.clone())
}

/// Counts the end of a run. Returns why the trigger was switched off, if this run was one failure
/// too many.
pub fn count(trigger: &mut Trigger, run: &Run) -> Option<String> {
    match run.outcome {
        Some(RunOutcome::Ok | RunOutcome::Noop) => {
            trigger.consecutive_failures = 0;
            trigger.failed_runs.clear();
            None
        }
        Some(RunOutcome::Failed) => {
            trigger.consecutive_failures = trigger.consecutive_failures.saturating_add(1);
            trigger.failed_runs.push(run.id.clone());
            if trigger.failed_runs.len() > NAMED {
                trigger.failed_runs.remove(0);
            }
            let is_last_straw = trigger.is_active()
                && trigger.consecutive_failures >= trigger.definition.failure_threshold;
            is_last_straw.then(|| {
                let reason = format!(
                    "{} failures in a row: {}",
                    trigger.consecutive_failures,
                    run.reason.as_deref().unwrap_or("no reason known")
                );
                trigger.disable(reason.clone());
                reason
            })
        }
        Some(RunOutcome::Cancelled | RunOutcome::Missed) | None => None,
    }
}

#[cfg(test)]
#[path = "tests/breaker.rs"]
mod tests;
