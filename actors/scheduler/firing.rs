//! A firing: from what happened and what is the case to what is done. No clock, no I/O.

use std::{collections::BTreeMap, time::Duration};

use super::{
    limits::{self, FIRES_WITHIN, MOST_FIRES, Overlap},
    run::{Cause, Decision, Notified, Run, RunOutcome},
    schedule::Missed,
    trigger::{SystemKind, Trigger, config::Config, definition::OverlapPolicy},
};
use crate::{
    clock::Timestamp,
    ids::{Ids, RunId, TaskId},
    notice::{Notice, NoticeKind},
    task::{self, Firing, Kind, Label, Lane, OnResult, Options, Source, Task},
};

/// The operator hears so often that a trigger fires too often.
const NOTICE_EVERY: Duration = Duration::from_secs(10 * 60);

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What made the trigger fire.
    pub cause: Cause,
    /// The reason, for telling it from others.
    pub key: String,
    /// When it was due.
    pub due_at: Timestamp,
    /// What the team is asked.
    pub body: String,
    /// How far that may be believed.
    pub label: Label,
    /// Where it comes from.
    pub source: Option<Source>,
    /// Who is behind it.
    pub principal: task::Cause,
    /// Another policy than the trigger's.
    pub overlap: Option<OverlapPolicy>,
    /// Another limit than the trigger's.
    pub max_steps: Option<u32>,
    /// The skill that is active from the start.
    pub skill: Option<String>,
    /// The longest turn.
    pub turn_timeout: Option<Duration>,
    /// Bytes that came with it and are kept beside the row.
    pub payload_bytes: Option<u64>,
}

/// Whether a team works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Active,
    /// It rests.
    Paused,
    /// It is no more.
    Gone,
}

/// What is the case.
#[derive(Clone, Debug)]
pub struct Present<'a> {
    /// Of the trigger's team.
    pub standing: Standing,
    /// The trigger's last task is unfinished.
    pub unfinished: bool,
    /// Tasks from triggers of the same team and subagent lately.
    pub fired_lately: usize,
    /// It fired for the same reason before.
    pub known: Option<&'a RunId>,
    /// Nothing is to be done, and why.
    pub nothing_to_do: Option<&'a str>,
}

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Fired {
    /// The row.
    pub run: Run,
    /// The work.
    pub task: Option<Task>,
    /// The task that has to make way.
    pub cancel: Option<TaskId>,
    /// What the operator should know.
    pub notice: Option<Notice>,
}

/// Decides on a firing, and brings the trigger up to date with the decision.
pub fn fire(
    trigger: &mut Trigger,
    event: Event,
    present: &Present<'_>,
    now: Timestamp,
    ids: &Ids,
) -> Fired {
    let mut run = row(trigger, &event, now, ids.run());
    if !present.unfinished {
        // A reference to a task that has ended.
        trigger.active_task_id = None;
        trigger.overlap_count = 0;
    }
    let mut fired = |decision: Decision, reason: Option<String>| {
        run.decision = decision;
        run.reason = reason;
        Fired { run: run.clone(), task: None, cancel: None, notice: None }
    };
    let by_hand = event.cause.is_by_hand();
    if let Some(known) = present.known {
        return fired(Decision::Duplicate, Some(format!("the same as {known}")));
    }
    if present.standing == Standing::Gone {
        return fired(Decision::NotActive, Some("the team is gone".to_owned()));
    }
    if !by_hand && !trigger.is_active() {
        return fired(Decision::NotActive, None);
    }
    if !by_hand && present.standing == Standing::Paused {
        return fired(Decision::TeamPaused, None);
    }
    if let Some(reason) = present.nothing_to_do {
        let mut nothing = fired(Decision::Filtered, Some(reason.to_owned()));
        nothing.run.outcome = Some(RunOutcome::Noop);
        return nothing;
    }
    let bounded_otherwise = matches!(trigger.definition.config, Config::Window(_));
    if !by_hand && !bounded_otherwise && present.fired_lately >= MOST_FIRES {
        let mut limited = fired(
            Decision::RateLimited,
            Some(format!(
                "{MOST_FIRES} tasks from triggers of this team within {} s",
                FIRES_WITHIN.as_secs()
            )),
        );
        limited.notice = rate_notice(trigger, &limited.run, now, ids);
        return limited;
    }
    if !by_hand
        && let Some(last) = trigger.last_fired_at
        && now < last + trigger.definition.cooldown.0
    {
        return fired(Decision::Cooldown, None);
    }
    let policy = event.overlap.unwrap_or(trigger.definition.overlap_policy);
    let unfinished = trigger.active_task_id.as_ref();
    let (overlap, skipped) = limits::overlap(policy, unfinished, trigger.overlap_count);
    if !by_hand {
        trigger.overlap_count = skipped;
    }
    let cancel = match overlap {
        Overlap::Skip => {
            let reason = unfinished.map(|task| format!("{task} is unfinished"));
            return fired(Decision::SkippedOverlap, reason);
        }
        Overlap::Go => None,
        Overlap::Replace(old) => Some(old),
    };
    let task = work(trigger, event, now, ids.task(), run.id.clone());
    if !by_hand {
        trigger.last_fired_at = Some(now);
        if policy != OverlapPolicy::Allow {
            trigger.active_task_id = Some(task.id.clone());
        }
    }
    run.decision = match cancel {
        Some(_) => Decision::Replaced,
        None => Decision::Enqueued,
    };
    run.task_id = Some(task.id.clone());
    run.replaces.clone_from(&cancel);
    Fired { run, task: Some(task), cancel, notice: None }
}

fn row(trigger: &Trigger, event: &Event, now: Timestamp, id: RunId) -> Run {
    Run {
        id,
        trigger: trigger.id.clone(),
        team: trigger.team.clone(),
        cause: event.cause,
        key: event.key.clone(),
        due_at: event.due_at,
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
        payload_bytes: event.payload_bytes,
    }
}

/// The row for times that are not served.
pub fn skipped_row(trigger: &Trigger, missed: Missed, now: Timestamp, id: RunId) -> Run {
    let event = Event {
        cause: Cause::Missed,
        key: format!("{}-{}", missed.since, missed.until),
        due_at: missed.until,
        body: String::new(),
        label: Label::Trusted,
        source: None,
        principal: task::Cause::System,
        overlap: None,
        max_steps: None,
        skill: None,
        turn_timeout: None,
        payload_bytes: None,
    };
    Run {
        decision: Decision::MissedSkipped,
        count: Some(missed.count),
        reason: Some(format!("{} times passed unserved", missed.count)),
        ..row(trigger, &event, now, id)
    }
}

fn work(trigger: &Trigger, event: Event, now: Timestamp, id: TaskId, run: RunId) -> Task {
    let definition = &trigger.definition;
    let lane = Lane { team: trigger.team.name.clone(), topic: None };
    let from = format!("trigger {}", definition.name);
    Task {
        generation: trigger.team.generation,
        kind: Kind::Trigger,
        priority: definition.priority.into(),
        source: event.source,
        on_result: OnResult::Silent,
        options: Options {
            max_steps: event.max_steps.or(definition.max_steps),
            subagent: definition.subagent.clone(),
            skill: event.skill,
            turn_timeout_ms: event.turn_timeout.map(crate::clock::millis),
            cycle: trigger.system.and_then(SystemKind::cycle),
        },
        label: event.label.max(trigger.cursors_label),
        firing: Some(Firing { run, webhook: event.cause == Cause::Webhook }),
        cause: Some(event.principal),
        deadline_at: now + definition.deadline.0,
        ..Task::new(id, lane, event.body, from, now)
    }
}

fn rate_notice(trigger: &mut Trigger, run: &Run, now: Timestamp, ids: &Ids) -> Option<Notice> {
    if trigger.rate_noticed_at.is_some_and(|last| now < last + NOTICE_EVERY) {
        return None;
    }
    trigger.rate_noticed_at = Some(now);
    let text = format!(
        "trigger `{}` of team `{}` fires too often: more than {MOST_FIRES} tasks within {} s are not made; give it a `cooldown` or a rarer schedule",
        trigger.definition.name,
        trigger.team.name,
        FIRES_WITHIN.as_secs()
    );
    Some(trigger.notice(ids, NoticeKind::RateLimited, text, [&run.id], now))
}

#[cfg(test)]
#[path = "tests/firing.rs"]
mod tests;
