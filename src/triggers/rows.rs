//! Triggers and runs as the API and the tools show them.

use hivewright_actors::scheduler::{
    run::{Notified, Run},
    trigger::{Trigger, config::TriggerType},
    views::Listed,
    window::Occurrence,
};

use crate::{
    api::triggers::{RunNotice, RunRow, TriggerRow, WindowRow},
    time::date,
};

impl From<&Trigger> for TriggerRow {
    fn from(trigger: &Trigger) -> Self {
        let definition = &trigger.definition;
        let kind = definition.kind();
        let path = || format!("/hooks/{}/{}", trigger.team.name, definition.name);
        Self {
            id: trigger.id.clone(),
            team: trigger.team.name.clone(),
            definition: definition.clone(),
            state: trigger.state,
            disabled_reason: trigger.disabled_reason.clone(),
            consecutive_failures: trigger.consecutive_failures,
            overlap_count: trigger.overlap_count,
            active_task_id: trigger.active_task_id.clone(),
            cursor_at: trigger.cursor_at.and_then(date),
            next_due_at: trigger.next_due_at.and_then(date),
            last_fired_at: trigger.last_fired_at.and_then(date),
            cursors: trigger.cursors.clone(),
            revision: trigger.revision,
            created_by: trigger.created_by.clone(),
            created_at: date(trigger.created_at),
            updated_at: date(trigger.updated_at),
            window: (kind == TriggerType::Window)
                .then(|| trigger.occurrence.as_ref().map(WindowRow::from)),
            path: (kind == TriggerType::Webhook).then(path),
            last_run: None,
            next_due: None,
        }
    }
}

/// With its newest run.
impl From<&Listed> for TriggerRow {
    fn from(listed: &Listed) -> Self {
        let last_run = Some(listed.last_run.as_ref().map(RunRow::from));
        Self { last_run, ..Self::from(&listed.trigger) }
    }
}

impl From<&Occurrence> for WindowRow {
    fn from(window: &Occurrence) -> Self {
        Self {
            state: window.phase,
            opened_at: date(window.opened_at),
            closes_at: date(window.closes_at),
            ticks: window.ticks,
            noops: window.noops,
            tokens: window.tokens,
            cost_usd: window.usd,
            reason: window.reason,
        }
    }
}

impl From<&Run> for RunRow {
    fn from(run: &Run) -> Self {
        Self {
            id: run.id.clone(),
            trigger: run.trigger.clone(),
            cause: run.cause,
            due_at: date(run.due_at),
            fired_at: date(run.fired_at),
            decision: run.decision,
            task_id: run.task_id.clone(),
            outcome: run.outcome,
            reason: run.reason.clone(),
            duration_ms: run.duration_ms,
            tokens: run.tokens,
            cost_usd: run.cost_usd,
            notify: (&run.notified).into(),
            count: run.count,
            cursors: run.cursors.clone(),
            payload_bytes: run.payload_bytes,
            duplicate_of: None,
        }
    }
}

impl From<&Notified> for RunNotice {
    fn from(notified: &Notified) -> Self {
        let nobody = Self::default();
        match notified {
            Notified::Nobody => nobody,
            Notified::Channel { channel } => {
                Self { notified: true, channel: Some(Some(channel.clone())), ..nobody }
            }
            Notified::Inbox => {
                Self { notified: true, channel: Some(None), inbox: Some(true), ..nobody }
            }
            Notified::Later => Self { held: Some(true), ..nobody },
        }
    }
}
