//! Outcome of a run: how it went, what it leaves behind, and when a trigger is switched off for it.

use std::{collections::BTreeMap, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{
    Scheduler, maintain,
    notify::{self, End},
    records::OpenRun,
    run::{Report, ReportedOutcome, Run, RunOutcome},
    trigger::{SystemKind, Trigger, config::Config, validation::check_cursors},
};
use crate::{
    clock::millis,
    ids::TaskId,
    queue::Ended,
    store::records::Writes,
    task::{
        Label, Task,
        ended::find_readable,
        outcome::{Code, Ending, Outcome},
    },
};

/// How soon an end that cannot be read is looked at again.
const READ_RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Failed runs that a notice names.
const MAX_NAMED_RUNS: usize = 3;

/// How a run went: by what it says of itself, unless its task says otherwise. With why, if badly.
pub(super) fn judge(outcome: &Outcome, report: Option<&Report>) -> (RunOutcome, Option<String>) {
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
pub(super) fn count(trigger: &mut Trigger, run: &Run) -> Option<String> {
    match run.outcome {
        Some(RunOutcome::Ok | RunOutcome::Noop) => {
            trigger.consecutive_failures = 0;
            trigger.failed_runs.clear();
            None
        }
        Some(RunOutcome::Failed) => {
            trigger.consecutive_failures = trigger.consecutive_failures.saturating_add(1);
            trigger.failed_runs.push(run.id.clone());
            if trigger.failed_runs.len() > MAX_NAMED_RUNS {
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

/// What a run said of itself; none if it said nothing that makes sense.
fn report_of(outcome: &Outcome) -> Option<Report> {
    let report: Report = serde_json::from_value(outcome.report.clone()?).ok()?;
    let sound = report.cursors.as_ref().is_none_or(|cursors| check_cursors(cursors).is_ok());
    sound.then_some(report)
}

/// Notes on the row of a run how it went.
fn note(run: &mut Run, End { outcome, report, .. }: End<'_>, is_heartbeat: bool) {
    let (how, why) = judge(outcome, report);
    run.outcome = Some(how);
    run.reason = why;
    if is_heartbeat {
        let (how, why) = maintain::judge_heartbeat(how, outcome);
        run.outcome = Some(how);
        run.reason = Some(match (how, run.reason.take()) {
            (RunOutcome::Failed, Some(error)) => format!("{why}: {error}"),
            _ => why.to_owned(),
        });
    }
    if outcome.ending == Ending::Cancelled {
        run.reason.clone_from(&outcome.message);
    }
    run.duration_ms = Some(millis(outcome.finished_at.since(run.fired_at)));
    run.tokens = outcome.usage.input + outcome.usage.output;
    run.cost_usd = outcome.usage.cost_usd;
}

/// Brings the trigger up to date: its last task has ended.
fn settle(trigger: &mut Trigger, run: &mut Run, End { task, outcome, report }: End<'_>) {
    if trigger.active_task_id == run.task_id {
        trigger.active_task_id = None;
        trigger.overlap_count = 0;
    }
    let how = run.outcome.unwrap_or(RunOutcome::Cancelled);
    let went_well = matches!(how, RunOutcome::Ok | RunOutcome::Noop);
    if let Some(new) = report.and_then(|report| report.cursors.clone())
        && went_well
    {
        run.cursors = changes(&trigger.cursors, &new);
        trigger.cursors = new;
        trigger.cursors_label =
            if trigger.cursors.is_empty() { Label::Trusted } else { task.label };
    }
    let Config::Window(window) = &trigger.definition.config else { return };
    if let Some(occurrence) = &mut trigger.occurrence {
        occurrence.ended(window, how, run.tokens, outcome.usage.cost_usd.unwrap_or_default());
    }
}

/// What is new and, as none, what is gone.
fn changes(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), None));
    let changed = new
        .iter()
        .filter(|(name, value)| old.get(*name) != Some(value))
        .map(|(name, value)| (name.clone(), Some(value.clone())));
    gone.chain(changed).collect()
}

impl Scheduler {
    /// Goes on with the runs of a former process: some ended without being accounted for.
    pub(super) fn reconcile(&mut self, open: Vec<(Run, Option<Task>)>) {
        let mut ended = Vec::new();
        for (run, task) in open {
            let Some(id) = run.task_id.clone() else { continue };
            match task {
                Some(task) if task.outcome.is_some() => ended.push((run, Some(task))),
                Some(_) => {
                    // The old task may have been left alone by a crash right after this one was stored.
                    self.cancel_replaced(&run);
                    self.runs.insert(id, run);
                }
                None => ended.push((run, None)),
            }
        }
        for (run, task) in ended {
            self.account(run, task.as_ref());
        }
    }

    /// Counts the end of a run, and tells of it. One commit; a repeat finds no open run.
    pub(super) fn account(&mut self, mut run: Run, task: Option<&Task>) {
        let Some(task_id) = run.task_id.clone() else { return };
        self.runs.remove(&task_id);
        let outcome = task.and_then(|task| task.outcome.as_ref());
        let Some((task, outcome)) = task.zip(outcome) else {
            run.outcome = Some(RunOutcome::Cancelled);
            run.reason = Some("its task is no longer in the store".to_owned());
            return self.keep_quietly(Writes::new().put(&run).delete::<OpenRun<'_>>(&task_id));
        };
        let report = report_of(outcome);
        let end = End { task, outcome, report: report.as_ref() };
        let (ids, view) = (&self.to.ids, self.to.view(self.since));
        let id = run.trigger.clone();
        let mut writes = Writes::new();
        let trigger = self.triggers.get_mut(&id);
        let system = trigger.as_ref().and_then(|trigger| trigger.system);
        note(&mut run, end, system == Some(SystemKind::Heartbeat));
        if let Some(trigger) = trigger {
            let tripped = if run.cause.is_by_hand() {
                None
            } else {
                settle(trigger, &mut run, end);
                count(trigger, &run)
            };
            writes = notify::tell_run(trigger, &mut run, end, ids, view);
            if let Some(reason) = tripped {
                tracing::warn!(trigger = %id, team = %run.team.name, error = reason, "trigger disabled");
                let told = notify::tell_breaker(trigger, &run, &reason, task.label, ids, view.now);
                writes = writes.and(told);
            }
            self.message_triggers.attend(trigger, &*self.to.ports.expressions);
            self.to.ports.board.note_cost(trigger, &run);
        }
        self.plan_next(&id);
        let writes = writes.and(self.row_of(&id));
        if self.last.get(&id).is_some_and(|last| last.id == run.id) {
            self.last.insert(id, run.clone());
        }
        self.keep_quietly(writes.put(&run).delete::<OpenRun<'_>>(&task_id));
    }

    /// Accounts for the run of a task that has ended, if it is one.
    fn take_end(&mut self, task: TaskId, ctx: &mut Context<Self>) {
        if !self.runs.contains_key(&task) {
            return;
        }
        let store = self.to.store.clone();
        // The end may have been handed in only just now: it is written once this is.
        let barrier = store.commit(Writes::new());
        let id = task.clone();
        let read = async move {
            barrier.await.map_err(|error| error.to_string())?;
            let read = store.read(move |storage| find_readable(storage, &id)).await;
            read.map_err(|error| error.to_string())
        };
        ctx.spawn(read.into_actor(self).map(move |row, scheduler, ctx| {
            let Some(run) = scheduler.runs.get(&task).cloned() else { return };
            match row {
                Ok(Some(row)) if row.outcome.is_none() => {}
                Ok(row) => {
                    scheduler.account(run, row.as_ref());
                    scheduler.arm(ctx);
                }
                Err(error) => {
                    // Left open, it would be in the way of the next one until the service starts again.
                    tracing::warn!(%task, %error, "how a run of a trigger ended cannot be read; it is tried again");
                    ctx.run_later(READ_RETRY_PAUSE, move |scheduler, ctx| scheduler.take_end(task, ctx));
                }
            }
        }));
    }
}

impl Handler<Ended> for Scheduler {
    type Result = ();

    fn handle(&mut self, Ended { task, .. }: Ended, ctx: &mut Self::Context) {
        self.take_end(task, ctx);
    }
}

#[cfg(test)]
#[path = "tests/breaker.rs"]
mod tests;
