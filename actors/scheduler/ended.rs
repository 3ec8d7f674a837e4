//! The end of a run: what it counts for, and what it leaves behind.

use std::collections::BTreeMap;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{
    Scheduler, breaker,
    config::Config,
    fire::replaced_by,
    maintain,
    manage::check_cursors,
    notify,
    records::OpenRun,
    run::{Report, Run, RunOutcome},
    tell::Telling,
    trigger::{SystemKind, Trigger},
};
use crate::{
    clock::millis,
    queue::{Ended, submit::CancelTask},
    store::records::Writes,
    task::{Ending, Kind, Label, Outcome, Task, records::find},
};

impl Scheduler {
    /// Goes on with the runs of a former process: some ended without being accounted for.
    pub(super) fn reconcile(&mut self, open: Vec<(Run, Option<Task>)>, _: &mut Context<Self>) {
        let mut ended = Vec::new();
        for (run, task) in open {
            let Some(id) = run.task_id.clone() else {
                continue;
            };
            match task {
                Some(task) if task.outcome.is_some() => ended.push((run, Some(task))),
                Some(_) => {
                    // The old task may have been left alone by a crash right after this one was stored.
                    if let Some(old) = &run.replaces {
                        self.to
                            .queue
                            .do_send(CancelTask { task: old.clone(), reason: replaced_by(&run) });
                    }
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
        let Some(task_id) = run.task_id.clone() else {
            return;
        };
        self.runs.remove(&task_id);
        let outcome = task.and_then(|task| task.outcome.as_ref());
        let Some((task, outcome)) = task.zip(outcome) else {
            run.outcome = Some(RunOutcome::Cancelled);
            run.reason = Some("its task is no longer in the store".to_owned());
            return self.keep_quietly(Writes::new().put(&run).delete::<OpenRun<'_>>(&task_id));
        };
        let report = report_of(outcome);
        let trigger = self.triggers.get(&run.trigger);
        let is_heartbeat =
            trigger.is_some_and(|trigger| trigger.system == Some(SystemKind::Heartbeat));
        judge(&mut run, outcome, report.as_ref(), is_heartbeat);
        let mut writes = Writes::new();
        let mut tripped = None;
        if let Some(trigger) = self.triggers.get_mut(&run.trigger)
            && !run.cause.is_by_hand()
        {
            settle(trigger, &mut run, outcome, report.as_ref(), task.label);
            tripped = breaker::count(trigger, &run);
        }
        if let Some(reason) = &tripped {
            tracing::warn!(trigger = %run.trigger, team = %run.team, reason, "trigger disabled");
        }
        let telling = self.triggers.get(&run.trigger).map(|trigger| {
            let place = super::tell::place(trigger, task);
            let policy = trigger.definition.notify;
            let decided = run.outcome.is_some_and(|outcome| {
                notify::decide(policy, outcome, report.as_ref(), place.is_some())
            });
            Telling { wanted: decided, place, label: task.label }
        });
        if let Some(telling) = telling {
            writes = self.tell_run(writes, &mut run, outcome, &telling);
            if let Some(reason) = tripped {
                writes = self.tell_breaker(writes, &run, &reason, &telling);
            }
        }
        let id = run.trigger.clone();
        if let Some(trigger) = self.triggers.get(&id) {
            self.ears.attend(&trigger.clone(), &*self.to.ports.expressions);
            self.to.ports.board.note_cost(trigger, &run);
        }
        self.plan_next(&id);
        if let Some(trigger) = self.triggers.get(&id) {
            writes = writes.put(trigger);
        }
        if self.last.get(&id).is_some_and(|last| last.id == run.id) {
            self.last.insert(id, run.clone());
        }
        self.keep_quietly(writes.put(&run).delete::<OpenRun<'_>>(&task_id));
    }
}

/// What a run said of itself; none if it said nothing that makes sense.
fn report_of(outcome: &Outcome) -> Option<Report> {
    let report: Report = serde_json::from_value(outcome.report.clone()?).ok()?;
    let sound = report.cursors.as_ref().is_none_or(|cursors| check_cursors(cursors).is_ok());
    sound.then_some(report)
}

fn judge(run: &mut Run, outcome: &Outcome, report: Option<&Report>, is_heartbeat: bool) {
    let (how, why) = breaker::judge(outcome, report);
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
fn settle(
    trigger: &mut Trigger,
    run: &mut Run,
    outcome: &Outcome,
    report: Option<&Report>,
    label: Label,
) {
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
        trigger.cursors_label = if trigger.cursors.is_empty() { Label::Trusted } else { label };
    }
    let Config::Window(window) = &trigger.definition.config else {
        return;
    };
    if let Some(occurrence) = &mut trigger.occurrence {
        let usd = outcome.usage.cost_usd.unwrap_or_default();
        occurrence.ended(window, how, run.tokens, usd);
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

impl Handler<Ended> for Scheduler {
    type Result = ();

    fn handle(&mut self, Ended { task, kind, .. }: Ended, ctx: &mut Self::Context) {
        if kind != Kind::Trigger || !self.runs.contains_key(&task) {
            return;
        }
        let store = self.to.store.clone();
        // The end may have been handed in only just now: it is written once this is.
        let barrier = store.commit(Writes::new());
        let id = task.clone();
        let read = async move {
            barrier.await.ok()?;
            let row = store.read(move |storage| find(storage, &id)).await;
            row.ok().flatten()
        };
        ctx.spawn(read.into_actor(self).map(move |row, scheduler, ctx| {
            let Some(run) = scheduler.runs.get(&task).cloned() else {
                return;
            };
            if row.as_ref().is_some_and(|row| row.outcome.is_some()) {
                scheduler.account(run, row.as_ref());
                scheduler.arm(ctx);
            }
        }));
    }
}
