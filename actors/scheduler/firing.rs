//! Firing: what it depends on, and the decision on it. No clock, no I/O.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use futures_util::future::BoxFuture;

use super::{
    body,
    run::{Cause, Decision, Known, Notified, Run, RunOutcome},
    schedule::Missed,
    trigger::{
        SystemKind, Trigger, config::Config, definition::OverlapPolicy, validation::Problem,
    },
};
use crate::{
    clock::{Timestamp, millis},
    ids::{Ids, RunId, TaskId, TeamKey},
    notice::{Notice, NoticeKind},
    org::roster::Availability,
    queue::causes::Giver,
    sliding_window::SlidingWindow,
    task::{self, Firing, Kind, Label, Lane, Lineage, OnResult, Options, Source, Task},
};

/// The operator hears so often that a trigger fires too often.
const NOTICE_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A team and subagent get so many tasks from triggers …
const MAX_FIRES_PER_WINDOW: usize = 10;
/// … within this time.
pub(super) const RATE_WINDOW: Duration = Duration::from_secs(60);
/// The longest turn of a learning cycle.
const LEARNING_TIME: Duration = Duration::from_secs(30 * 60);
/// The longest turn of a reflection cycle.
const REFLECTION_TIME: Duration = Duration::from_secs(15 * 60);

/// Looks after what a trigger depends on: files of its team, what happened lately.
pub trait Preconditions: Send + Sync + 'static {
    /// Looks, right before a firing; none if this trigger depends on nothing.
    fn look(&self, trigger: &Trigger) -> Option<BoxFuture<'static, Findings>>;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The trigger cannot be what it is told to be any more.
    pub problem: Option<Problem>,
    pub nothing_to_do: Option<String>,
    /// What the team is asked instead of the trigger's task.
    pub order: Option<String>,
    pub skill: Option<String>,
}

impl Findings {
    /// There is nothing to do.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { nothing_to_do: Some(why.into()), ..Self::default() }
    }
}

/// A turn that fires a trigger.
#[derive(Clone, Debug)]
pub struct ByTurn {
    /// How far what it has read may be believed.
    pub label: Label,
    /// The lineage of a task that it makes.
    pub lineage: Lineage,
    pub deadline_at: Timestamp,
    /// For the count of what one cause leads to.
    pub giver: Giver,
}

/// A firing that is about to be decided.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) cause: Cause,
    /// The reason, which tells it from other firings.
    pub(super) key: String,
    pub(super) due_at: Timestamp,
    pub(super) body: String,
    pub(super) label: Label,
    pub(super) source: Option<Source>,
    pub(super) principal: task::cause::Cause,
    /// In place of the trigger's own.
    pub(super) overlap: Option<OverlapPolicy>,
    pub(super) max_steps: Option<u32>,
    /// The same key must not make a second task.
    pub(super) remember: bool,
    pub(super) payload: Option<String>,
    /// The turn that wants it: a task becomes part of its work.
    pub(super) turn: Option<ByTurn>,
}

impl Pending {
    /// A firing at a time.
    pub(super) fn timed(cause: Cause, due_at: Timestamp, body: String) -> Self {
        Self {
            cause,
            key: due_at.to_string(),
            due_at,
            body,
            label: Label::Trusted,
            source: None,
            principal: task::cause::Cause::System,
            overlap: None,
            max_steps: None,
            remember: false,
            payload: None,
            turn: None,
        }
    }
}

/// What is the case when a trigger fires.
#[derive(Clone, Debug)]
pub(super) struct Present<'a> {
    pub(super) availability: Availability,
    /// The trigger's last task is unfinished.
    pub(super) unfinished: bool,
    /// Tasks from triggers of the same team and subagent lately.
    pub(super) fired_lately: usize,
    /// The run of the same reason.
    pub(super) known: Option<&'a RunId>,
    pub(super) found: &'a Findings,
}

/// What came of a firing. It is durable.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub run: Run,
    /// The firing that it repeats.
    pub first: Option<Known>,
}

/// A decision: the row, the work, and what the operator should know.
#[derive(Debug, PartialEq)]
pub(super) struct Fired {
    pub(super) run: Run,
    pub(super) task: Option<Task>,
    pub(super) notice: Option<Notice>,
}

/// Decides on a firing, and brings the trigger up to date with the decision.
pub(super) fn fire(
    trigger: &mut Trigger,
    pending: &Pending,
    present: &Present<'_>,
    now: Timestamp,
    ids: &Ids,
) -> Fired {
    let mut run = row(trigger, pending, now, ids.run());
    if !present.unfinished {
        // A reference to a task that has ended.
        trigger.active_task_id = None;
        trigger.overlap_count = 0;
    }
    if let Some((decision, reason)) = obstacle(trigger, pending.cause, present, now) {
        let notice = (decision == Decision::RateLimited)
            .then(|| rate_notice(trigger, &run.id, now, ids))
            .flatten();
        let outcome = (decision == Decision::Filtered).then_some(RunOutcome::Noop);
        return Fired { run: Run { decision, reason, outcome, ..run }, task: None, notice };
    }
    let by_hand = pending.cause.is_by_hand();
    let policy = pending.overlap.unwrap_or(trigger.definition.overlap_policy);
    let unfinished = trigger.active_task_id.as_ref();
    let (way, skipped) = overlap(policy, unfinished, trigger.overlap_count);
    if way == Overlap::Skip {
        run.decision = Decision::SkippedOverlap;
        run.reason = unfinished.map(|task| format!("{task} is unfinished"));
    }
    if !by_hand {
        trigger.overlap_count = skipped;
    }
    match way {
        Overlap::Skip => return Fired { run, task: None, notice: None },
        Overlap::Go => {}
        Overlap::Replace(old) => {
            run.decision = Decision::Replaced;
            run.replaces = Some(old);
        }
    }
    let task = work(trigger, pending, present.found, now, ids.task(), run.id.clone());
    run.task_id = Some(task.id.clone());
    if !by_hand {
        trigger.last_fired_at = Some(now);
        if policy != OverlapPolicy::Allow {
            trigger.active_task_id = Some(task.id.clone());
        }
    }
    Fired { run, task: Some(task), notice: None }
}

/// What keeps a firing from making a task, but for an unfinished one, and why.
fn obstacle(
    trigger: &Trigger,
    cause: Cause,
    present: &Present<'_>,
    now: Timestamp,
) -> Option<(Decision, Option<String>)> {
    if let Some(known) = present.known {
        return Some((Decision::Duplicate, Some(format!("the same as {known}"))));
    }
    if present.availability == Availability::Gone {
        return Some((Decision::NotActive, Some("the team is gone".to_owned())));
    }
    let by_hand = cause.is_by_hand();
    if !by_hand && !trigger.is_active() {
        return Some((Decision::NotActive, None));
    }
    if !by_hand && present.availability == Availability::Paused {
        return Some((Decision::TeamPaused, None));
    }
    if let Some(reason) = &present.found.nothing_to_do {
        return Some((Decision::Filtered, Some(reason.clone())));
    }
    let bounded_otherwise = matches!(trigger.definition.config, Config::Window(_));
    if !by_hand && !bounded_otherwise && present.fired_lately >= MAX_FIRES_PER_WINDOW {
        let within = RATE_WINDOW.as_secs();
        let reason =
            format!("{MAX_FIRES_PER_WINDOW} tasks from triggers of this team within {within} s");
        return Some((Decision::RateLimited, Some(reason)));
    }
    let rests = |last: Timestamp| now < last + trigger.definition.cooldown.0;
    (!by_hand && trigger.last_fired_at.is_some_and(rests)).then_some((Decision::Cooldown, None))
}

fn row(trigger: &Trigger, pending: &Pending, now: Timestamp, id: RunId) -> Run {
    Run {
        id,
        trigger: trigger.id.clone(),
        team: trigger.team.clone(),
        cause: pending.cause,
        key: pending.key.clone(),
        due_at: pending.due_at,
        fired_at: now,
        decision: Decision::Enqueued,
        count: None,
        task_id: None,
        replaces: None,
        outcome: None,
        reason: None,
        duration_ms: None,
        tokens: 0,
        cost_usd: None,
        notified: Notified::Nobody,
        cursors: BTreeMap::new(),
        payload_bytes: pending.payload.as_ref().map(|payload| payload.len() as u64),
    }
}

/// The row for times that are not served.
pub(super) fn skipped_row(trigger: &Trigger, missed: Missed, now: Timestamp, id: RunId) -> Run {
    let pending = Pending {
        key: format!("{}-{}", missed.since, missed.until),
        ..Pending::timed(Cause::Missed, missed.until, String::new())
    };
    Run {
        decision: Decision::MissedSkipped,
        count: Some(missed.count),
        reason: Some(format!("{} times passed unserved", missed.times())),
        ..row(trigger, &pending, now, id)
    }
}

fn work(
    trigger: &Trigger,
    pending: &Pending,
    found: &Findings,
    now: Timestamp,
    id: TaskId,
    run: RunId,
) -> Task {
    let definition = &trigger.definition;
    let lane = Lane { team: trigger.team.name.clone(), topic: None };
    let order = found.order.as_ref().unwrap_or(&pending.body).clone();
    let turn_timeout = match trigger.system {
        Some(SystemKind::Learning) => Some(LEARNING_TIME),
        Some(SystemKind::Reflection) => Some(REFLECTION_TIME),
        Some(SystemKind::Heartbeat) | None => None,
    };
    let mut task = Task {
        generation: trigger.team.generation,
        kind: Kind::Trigger,
        priority: definition.priority.into(),
        source: pending.source.clone(),
        on_result: OnResult::Silent,
        options: Options {
            max_steps: pending.max_steps.or(definition.max_steps),
            subagent: definition.subagent.clone(),
            skill: found.skill.clone(),
            turn_timeout_ms: turn_timeout.map(millis),
            cycle: trigger.system.and_then(SystemKind::cycle),
            ..Options::default()
        },
        label: pending.label.max(trigger.cursors_label),
        firing: Some(Firing { run, webhook: pending.cause == Cause::Webhook }),
        cause: Some(pending.principal.clone()),
        deadline_at: now + definition.deadline.0,
        ..Task::new(
            id,
            lane,
            body::with_report(order, definition.notify),
            format!("trigger {}", definition.name),
            now,
        )
    };
    if let Some(turn) = &pending.turn {
        task.label = task.label.max(turn.label);
        task.lineage = Some(turn.lineage.clone());
        task.deadline_at = task.deadline_at.min(turn.deadline_at);
    }
    task
}

fn rate_notice(trigger: &mut Trigger, run: &RunId, now: Timestamp, ids: &Ids) -> Option<Notice> {
    if trigger.rate_noticed_at.is_some_and(|last| now < last + NOTICE_INTERVAL) {
        return None;
    }
    trigger.rate_noticed_at = Some(now);
    let text = format!(
        "trigger `{}` of team `{}` fires too often: more than {MAX_FIRES_PER_WINDOW} tasks within {} s are not made; give it a `cooldown` or a rarer schedule",
        trigger.definition.name,
        trigger.team.name,
        RATE_WINDOW.as_secs()
    );
    Some(trigger.notice(ids, NoticeKind::RateLimited, text, [run], now))
}

/// What becomes of a firing beside an unfinished task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Overlap {
    Go,
    Skip,
    Replace(TaskId),
}

/// Decides, with the new count of firings that were skipped in a row.
fn overlap(policy: OverlapPolicy, unfinished: Option<&TaskId>, skipped: u32) -> (Overlap, u32) {
    let Some(task) = unfinished else { return (Overlap::Go, 0) };
    match policy {
        OverlapPolicy::Allow => (Overlap::Go, 0),
        OverlapPolicy::AlwaysSkip => (Overlap::Skip, skipped.saturating_add(1)),
        OverlapPolicy::SkipThenReplace if skipped == 0 => (Overlap::Skip, 1),
        OverlapPolicy::SkipThenReplace | OverlapPolicy::AlwaysReplace => {
            (Overlap::Replace(task.clone()), 0)
        }
    }
}

/// Times of firings, by team and subagent.
#[derive(Debug, Default)]
pub(super) struct Fires(HashMap<(TeamKey, Option<String>), SlidingWindow<Timestamp>>);

impl Fires {
    pub(super) fn count(&mut self, team: &TeamKey, subagent: Option<String>, at: Timestamp) {
        let fires = self.0.entry((team.clone(), subagent));
        fires.or_insert_with(|| SlidingWindow::new(RATE_WINDOW)).push(at);
    }

    /// How many there were within the time that counts.
    pub(super) fn lately(
        &mut self,
        team: &TeamKey,
        subagent: Option<String>,
        now: Timestamp,
    ) -> usize {
        let key = (team.clone(), subagent);
        let count = self.0.get_mut(&key).map_or(0, |fires| fires.count(now));
        if count == 0 {
            self.0.remove(&key);
        }
        count
    }
}

#[cfg(test)]
#[path = "tests/firing.rs"]
mod tests;
