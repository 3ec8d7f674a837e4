//! Work that waits, and work that is over.

use hivewright_actors::{
    clock::Timestamp,
    task::{Ending, Kind, Options, Priority},
};
use serde::Deserialize;

use super::{moment::moment, rows::TaskRow, settings::bare_channel};

/// A task to be made, under its own id.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) priority: Priority,
    pub(super) body: String,
    pub(super) state: State,
    pub(super) options: Options,
    pub(super) channel: Option<String>,
    pub(super) topic: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

impl Job {
    /// It has no end yet.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Accepted { .. })
    }
}

/// How far it has come.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// It waits; for the second time if it was cut off.
    Accepted { redelivered: bool },
    /// It is over.
    Ended { ending: Ending, result: String, took_ms: u64 },
}

/// The options of a task, as they stand in the row.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Given {
    #[serde(alias = "maxTurns", alias = "max_steps")]
    max_steps: Option<f64>,
    skill: Option<String>,
    subagent: Option<String>,
}

/// Converts a task, or says why it cannot be one.
pub(super) fn convert(row: &TaskRow) -> Result<Job, String> {
    let mut changes = Vec::new();
    let ended = |ending| State::Ended {
        ending,
        result: row.result.clone().unwrap_or_default(),
        took_ms: row.duration_ms.and_then(|ms| ms.try_into().ok()).unwrap_or(0),
    };
    let state = match row.status.as_str() {
        "pending" => State::Accepted { redelivered: false },
        "running" => {
            changes.push("it was running, and is tried again".into());
            State::Accepted { redelivered: true }
        }
        "done" | "completed" => ended(Ending::Done),
        "failed" => ended(Ending::Failed),
        "cancelled" => ended(Ending::Cancelled),
        other => return Err(format!("its state `{other}` is not known")),
    };
    if row.task.trim().is_empty() {
        return Err("nothing is asked in it".into());
    }
    let kind = match row.kind.as_str() {
        "delegate" => Kind::Delegate,
        "trigger" => Kind::Trigger,
        "escalation" => Kind::Escalation,
        "bootstrap" => Kind::Bootstrap,
        other => {
            changes.push(format!("its type `{other}` is not known; it becomes `delegate`"));
            Kind::Delegate
        }
    };
    let priority = match row.priority.as_str() {
        "critical" => Priority::Critical,
        "high" => Priority::High,
        "normal" => Priority::Normal,
        "low" => Priority::Low,
        other => {
            changes.push(format!("its priority `{other}` is not known; it becomes `normal`"));
            Priority::Normal
        }
    };
    Ok(Job {
        id: row.id.clone(),
        kind,
        priority,
        body: row.task.clone(),
        state,
        options: options(row.options.as_deref(), &mut changes),
        channel: row
            .channel
            .as_deref()
            .filter(|id| !id.is_empty())
            .map(|id| bare_channel(id).to_owned()),
        topic: row.topic.clone().filter(|id| !id.is_empty()),
        created_at: moment(&row.created_at),
        changes,
    })
}

fn options(text: Option<&str>, changes: &mut Vec<String>) -> Options {
    let given = match text.map(serde_json::from_str::<Given>) {
        Some(Ok(given)) => given,
        Some(Err(_)) => {
            changes.push("its options cannot be read and are dropped".into());
            Given::default()
        }
        None => Given::default(),
    };
    Options {
        cycle: None,
        max_steps: given.max_steps.map(|steps| steps.clamp(1.0, 500.0) as u32),
        // A subagent chooses its skills itself.
        skill: given.skill.filter(|_| given.subagent.is_none()),
        subagent: given.subagent,
        turn_timeout_ms: None,
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn row(status: &str) -> TaskRow {
        TaskRow {
            id: "task-00000000000000aa".into(),
            team: "research".into(),
            task: "Find it.".into(),
            priority: "high".into(),
            kind: "escalation".into(),
            status: status.into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            correlation: None,
            result: Some("Found.".into()),
            duration_ms: Some(1500),
            options: Some(r#"{"maxSteps":20,"skill":"dig","subagent":null}"#.into()),
            channel: Some("discord:5".into()),
            topic: None,
        }
    }

    /// OR-29
    #[test]
    fn what_waited_waits_and_what_was_over_is_over() {
        let state = |status| convert(&row(status)).map(|job| job.state);
        let ended = |ending| Ok(State::Ended { ending, result: "Found.".into(), took_ms: 1500 });

        assert_eq!(state("pending"), Ok(State::Accepted { redelivered: false }));
        assert_eq!(state("running"), Ok(State::Accepted { redelivered: true }));
        assert_eq!(state("done"), ended(Ending::Done));
        assert_eq!(state("failed"), ended(Ending::Failed));
        assert_eq!(state("cancelled"), ended(Ending::Cancelled));
        assert!(state("stuck").unwrap_err().contains("`stuck`"));
    }

    /// OR-29
    #[test]
    fn type_priority_and_options_are_kept() {
        let job = convert(&row("pending")).unwrap();

        assert_eq!((job.kind, job.priority), (Kind::Escalation, Priority::High));
        let expected =
            Options { max_steps: Some(20), skill: Some("dig".into()), ..Options::default() };
        assert_eq!(job.options, expected);
        assert_eq!(job.channel.as_deref(), Some("5"));
        assert_eq!(job.changes, Vec::<String>::new());
    }
}
