//! Tasks: work that waits, and work that is over.

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    ids::{MAIN, TaskId, TeamKey},
    store::records::Writes,
    task::{
        Kind, Lane, Options, Priority, STEPS, Source, Task, TopicRef,
        cause::Cause,
        outcome::{Code, Ending, Outcome},
        records::FinishedTask,
    },
};
use serde::Deserialize;

use super::{
    IMPORT,
    moment::moment,
    plan::{Artifact, Planner, Refusal, Team},
    report,
    schema::row,
    settings::bare_channel,
};

pub(super) const KIND: report::Kind = report::Kind::listed("task");

row! {
    TaskRow in "task_queue" by "created_at, id" known by id of team {
        id: String,
        team: String as "team_id",
        task: String,
        priority: String,
        kind: String as "type" = "'delegate'",
        status: String,
        created_at: String,
        result: Option<String> = "NULL",
        duration_ms: Option<i64> = "NULL",
        options: Option<String> = "NULL",
        channel: Option<String> as "source_channel_id" = "NULL",
        topic: Option<String> as "topic_id" = "NULL",
    } unread ["correlation_id"]
}

pub(super) fn plan(planner: &mut Planner<'_>, team: &Team<'_>) {
    // Waiting tasks keep the order in which the source accepted them.
    let rows = planner.found.tables.of::<TaskRow>().iter().zip(planner.target.arrivals + 1..);
    for (row, arrival) in rows.filter(|(row, _)| row.team == team.former) {
        let mut changes = Vec::new();
        let task = convert(row, &team.key, &planner.topics, planner.target.now, &mut changes);
        let conversion = task.map_err(Refusal::from).map(|mut task| {
            planner.redactor.clean(&mut task.body, &mut changes);
            match &mut task.outcome {
                Some(outcome) => planner.redactor.clean(&mut outcome.text, &mut changes),
                None => task.arrival = arrival,
            }
            let writes = match task.outcome {
                Some(_) => Writes::new().put(&FinishedTask::of(&task)),
                None => Writes::new().put(&task),
            };
            (Artifact::row(&task.id, writes), changes)
        });
        planner.take(KIND, Some(team.former), &row.id, row.mark(), conversion);
    }
}

/// The first work of a team, if it waits.
pub(super) fn open_bootstrap(rows: &[TaskRow], team: &str) -> Option<TaskId> {
    let is_open =
        |row: &TaskRow| matches!(row.status.as_str(), "pending" | "running") && !row.is_empty();
    let mut rows = rows.iter().filter(|row| row.team == team && row.kind == "bootstrap");
    rows.find(|row| is_open(row)).map(|row| TaskId::from(row.id.as_str()))
}

/// Converts a task under its own id, or says why it cannot be one.
fn convert(
    row: &TaskRow,
    team: &TeamKey,
    topics: &BTreeMap<String, TopicRef>,
    now: Timestamp,
    changes: &mut Vec<String>,
) -> Result<Task, String> {
    let (redelivered, ending) = match row.status.as_str() {
        "pending" => (false, None),
        "running" => {
            changes.push("it was running, and is tried again".into());
            (true, None)
        }
        "done" | "completed" => (false, Some(Ending::Done)),
        "failed" => (false, Some(Ending::Failed)),
        "cancelled" => (false, Some(Ending::Cancelled)),
        other => return Err(format!("its state `{other}` is not known")),
    };
    if row.is_empty() {
        return Err("nothing is asked in it".into());
    }
    let kinds = [Kind::Delegate, Kind::Trigger, Kind::Escalation, Kind::Bootstrap];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == row.kind).unwrap_or_else(|| {
        changes.push(format!("its type `{}` is not known; it becomes `delegate`", row.kind));
        Kind::Delegate
    });
    let priority = row.priority.parse().unwrap_or_else(|_| {
        changes.push(format!("its priority `{}` is not known; it becomes `normal`", row.priority));
        Priority::Normal
    });
    let topic = row.topic.as_ref().and_then(|id| topics.get(id)).cloned();
    let lane_topic = topic.as_ref().filter(|_| team.name.as_str() == MAIN);
    let lane = Lane { team: team.name.clone(), topic: lane_topic.map(|topic| topic.id.clone()) };
    let channel = row.channel.as_deref().filter(|id| !id.is_empty());
    let created_at = moment(&row.created_at).unwrap_or(now);
    Ok(Task {
        generation: team.generation,
        kind,
        priority,
        options: options(row.options.as_deref(), changes),
        cause: Some(Cause::System),
        created_at,
        attempts: u32::from(redelivered),
        redelivered,
        acked: true,
        source: channel.map(|channel| Source {
            channel: bare_channel(channel).into(),
            message: None,
            topic,
            notify: None,
        }),
        outcome: ending.map(|ending| row.outcome(ending, created_at)),
        // The day it may take begins now: it could not be worked on before.
        ..Task::new(row.id.as_str().into(), lane, row.task.clone(), IMPORT.to_owned(), now)
    })
}

impl TaskRow {
    fn is_empty(&self) -> bool {
        self.task.trim().is_empty()
    }

    fn outcome(&self, ending: Ending, began: Timestamp) -> Outcome {
        let (code, message) = match ending {
            Ending::Failed => (Some(Code::Internal), Some("failed in OpenHive".to_owned())),
            Ending::Cancelled => (Some(Code::Cancelled), Some("cancelled in OpenHive".to_owned())),
            _ => (None, None),
        };
        let took = self.duration_ms.and_then(|ms| ms.try_into().ok()).unwrap_or(0);
        Outcome {
            code,
            message,
            text: self.result.clone().unwrap_or_default(),
            ..Outcome::new(ending, began + Duration::from_millis(took))
        }
    }
}

/// The options of a task, as they stand in the row.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct FormerOptions {
    #[serde(alias = "maxTurns", alias = "max_steps")]
    max_steps: Option<f64>,
    skill: Option<String>,
    subagent: Option<String>,
}

fn options(text: Option<&str>, changes: &mut Vec<String>) -> Options {
    let former = text.map(serde_json::from_str::<FormerOptions>).transpose();
    let FormerOptions { max_steps, skill, subagent } = former
        .unwrap_or_else(|_| {
            changes.push("its options cannot be read and are dropped".into());
            None
        })
        .unwrap_or_default();
    Options {
        max_steps: max_steps
            .map(|steps| steps.clamp(f64::from(*STEPS.start()), f64::from(*STEPS.end())) as u32),
        // A subagent chooses its skills itself.
        skill: skill.filter(|_| subagent.is_none()),
        subagent,
        ..Options::default()
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
            result: Some("Found.".into()),
            duration_ms: Some(1500),
            options: Some(r#"{"maxSteps":20,"skill":"dig","subagent":null}"#.into()),
            channel: Some("discord:5".into()),
            topic: Some("t-1".into()),
        }
    }

    fn converted(row: &TaskRow) -> Result<(Task, Vec<String>), String> {
        let topic = TopicRef { id: "t-1".into(), name: "News".into() };
        let topics = BTreeMap::from([("t-1".to_owned(), topic)]);
        let mut changes = Vec::new();
        let team = TeamKey::first(row.team.as_str());
        convert(row, &team, &topics, Timestamp(1), &mut changes).map(|task| (task, changes))
    }

    /// OR-29
    #[test]
    fn what_waited_waits_and_what_was_over_is_over() {
        let state = |status| {
            converted(&row(status)).map(|(task, _)| {
                let created_at = task.created_at;
                let ended = task.outcome.map(|outcome| {
                    let took = outcome.finished_at.since(created_at);
                    (outcome.ending, outcome.text, took)
                });
                (task.redelivered, ended)
            })
        };
        let ended =
            |ending| Ok((false, Some((ending, "Found.".into(), Duration::from_millis(1500)))));

        assert_eq!(state("pending"), Ok((false, None)));
        assert_eq!(state("running"), Ok((true, None)));
        assert_eq!(state("done"), ended(Ending::Done));
        assert_eq!(state("failed"), ended(Ending::Failed));
        assert_eq!(state("cancelled"), ended(Ending::Cancelled));
        assert!(state("stuck").unwrap_err().contains("`stuck`"));
    }

    /// OR-29
    #[test]
    fn type_priority_and_options_are_kept() {
        let (task, changes) = converted(&row("pending")).unwrap();

        assert_eq!((task.kind, task.priority), (Kind::Escalation, Priority::High));
        let expected =
            Options { max_steps: Some(20), skill: Some("dig".into()), ..Options::default() };
        assert_eq!(task.options, expected);
        assert_eq!(task.source.unwrap().channel.as_str(), "5");
        assert_eq!(changes, Vec::<String>::new());
    }

    #[test]
    fn a_topic_is_a_lane_of_the_main_team_alone() {
        let of_main = converted(&TaskRow { team: MAIN.into(), ..row("pending") }).unwrap().0;
        let of_other = converted(&row("pending")).unwrap().0;

        assert_eq!(of_main.lane.topic, Some("t-1".into()));
        assert_eq!(of_other.lane.topic, None);
        assert_eq!(of_other.source.unwrap().topic.unwrap().name, "News");
    }
}
