//! `hivewright tasks`: what is done, and what was.

use clap::Subcommand;

use super::send::words;
use crate::{
    api::{endpoint::ById, tasks::*},
    cli::{
        answer::Listing,
        client::Service,
        context::Context,
        events::until_stopped,
        failure::Failure,
        screen::printable,
        table::{self, beginning, columns, date},
        watch::Watched,
    },
};

mod watch;

/// How much of what was asked a line shows, in characters.
const SHOWN: usize = 50;

/// See, give, follow, cancel and retry tasks
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright tasks list --team main --state running\n  \
    hivewright tasks create research \"Find out who was here first.\" --watch\n  \
    hivewright tasks cancel task-61c8864680b583eb --cascade")]
pub(super) enum Action {
    /// List tasks, open and ended, newest first
    #[command(after_help = "Example:\n  hivewright tasks list --state dead --since 24h")]
    List(Watched<Listing<TaskFilter>>),
    /// Show all of one task
    #[command(after_help = "Example:\n  hivewright tasks show task-61c8864680b583eb")]
    Show {
        /// The id of the task
        id: String,
    },
    /// Give work to a team and print the id of the task
    #[command(after_help = "Examples:\n  \
        hivewright tasks create research \"Find out who was here first.\" --deadline 2h\n  \
        hivewright tasks create research - --watch < brief.md\n\n\
        The main team works in topics: `hivewright send` is for it.")]
    Create {
        #[command(flatten)]
        new: NewTask,
        /// Follow it to its end
        #[arg(long)]
        watch: bool,
    },
    /// Follow a task to its end, or all tasks until Ctrl-C
    #[command(after_help = "Examples:\n  \
        hivewright tasks watch task-61c8864680b583eb\n  \
        hivewright tasks watch --team research --json\n\n\
        A task that does not end well is exit code 1.")]
    Watch {
        /// The task; all, if none is named
        #[arg(conflicts_with = "team")]
        id: Option<String>,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// End a task, also one that runs
    #[command(
        after_help = "Example:\n  hivewright tasks cancel task-61c8864680b583eb --reason \"no need\""
    )]
    Cancel {
        /// The id of the task
        id: String,
        #[command(flatten)]
        cancel: TaskCancel,
    },
    /// Try a task that did not end well again, as a new one
    #[command(after_help = "Example:\n  hivewright tasks retry task-61c8864680b583eb")]
    Retry {
        /// The id of the task
        id: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(list) => list.show(&LIST_TASKS, context).await,
        Action::Show { id } => {
            service.at(&SHOW_TASK, &ById { id }).await?.show(screen, |task| one(&task))
        }
        Action::Create { new, watch } => {
            let new = NewTask { task: words(new.task).await?, ..new };
            let given = service.give(&CREATE_TASK, &new).await?;
            if watch {
                return until_stopped(watch::one(given.data()?.id.as_str(), context)).await;
            }
            given.show(screen, |given| format!("{}\n", given.id))
        }
        Action::Watch { id: Some(id), .. } => until_stopped(watch::one(&id, context)).await,
        Action::Watch { id: None, team } => until_stopped(watch::all(team, context)).await,
        Action::Cancel { id, cancel } => {
            let path = ById { id };
            let cancelled = service.send(&CANCEL_TASK, &path, &cancel).await?;
            cancelled.tell(screen, |cancelled| format!("{} is {}", path.id, cancelled.state))
        }
        Action::Retry { id } => {
            let retried = service.at(&RETRY_TASK, &ById { id }).await?;
            retried.show(screen, |retried| format!("{}\n", retried.id))
        }
    }
}

columns!(TaskRow {
    "ID" => |row| row.id.to_string(),
    "TEAM" => |row| row.team.to_string(),
    "TYPE" => |row| row.kind.to_string(),
    "STATE" => TaskRow::standing,
    "SINCE" => |row| date(&row.created_at),
    "WHAT" => |row| beginning(&row.body, SHOWN),
});

fn one(OneTask { row, .. }: &OneTask) -> String {
    let mut lines = vec![
        ("id", row.id.to_string()),
        ("team", row.team.to_string()),
        ("type", format!("{}, {}", row.kind, row.priority)),
        ("state", row.standing()),
        ("from", format!("{}, {}", row.created_by, date(&row.created_at))),
        ("deadline", date(&row.deadline_at)),
        ("attempts", row.attempts.to_string()),
    ];
    if let Some(parent) = &row.lineage.parent {
        lines.push(("comes of", format!("{parent}, first {}", row.lineage.root)));
    }
    let mut text = table::fields(10, lines) + &format!("\n{}\n", row.body);
    if let Some(outcome) = &row.outcome {
        text += &format!("\nended     {}\n", date(&outcome.finished_at));
        if let Some(TaskFault { code, message }) = &outcome.error {
            text += &format!("because   {code}: {}\n", message.as_deref().unwrap_or_default());
        }
        if !outcome.result.is_empty() {
            text += &format!("\n{}\n", outcome.result);
        }
        if outcome.truncated {
            text += "\nThe model's output limit cut this; say `go on` where it was asked.\n";
        }
    }
    printable(&text)
}

#[cfg(test)]
mod tests {

    use hivewright_actors::usage::Usage;
    use serde_json::{Value, json};

    use super::*;

    fn row() -> Value {
        json!({
            "id": "task-1", "team": "main", "generation": 1, "type": "chat", "priority": "normal",
            "state": "waiting", "redelivered": false, "label": "trusted",
            "wait_reason": "approval", "body": "Dig\n a  hole.", "created_by": "ann", "attempts": 2,
            "created_at": "2026-11-14T23:46:40.000Z", "deadline_at": "2026-11-15T23:46:40.000Z",
            "lineage": {"root": "task-0", "parent": "task-0", "hops": 1}, "outcome": null,
        })
    }

    /// OP-79, OP-84
    #[test]
    fn tasks_are_listed_in_columns() {
        let expected = "\
ID      TEAM  TYPE  STATE               SINCE                 WHAT
task-1  main  chat  waiting (approval)  2026-11-14 23:46 UTC  Dig a hole.
";
        let rows: Vec<TaskRow> = serde_json::from_value(json!([row()])).unwrap();
        assert_eq!(table::rows(&rows), expected);
    }

    /// OP-79
    #[test]
    fn one_task_is_shown_whole() {
        let mut row = row();
        row["outcome"] = json!({
            "result": "Half a hole.", "finished_at": "2026-11-14T23:48:00.000Z",
            "error": {"code": "deadline", "message": "out of time"}, "notified": false,
            "duration_ms": 80_000, "usage": Usage::default(),
        });
        row["session_id"] = json!("main:t-1");
        row["children"] = json!([]);
        row["tree"] = json!({"ended": 0, "usage": Usage::default()});

        let expected = "\
id        task-1
team      main
type      chat, normal
state     waiting (approval)
from      ann, 2026-11-14 23:46 UTC
deadline  2026-11-15 23:46 UTC
attempts  2
comes of  task-0, first task-0

Dig
 a  hole.

ended     2026-11-14 23:48 UTC
because   deadline: out of time

Half a hole.
";
        assert_eq!(one(&serde_json::from_value(row).unwrap()), expected);
    }
}
