//! `hivewright tasks`: what is done, and what was.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    screen::printable,
    service::Service,
    table::{moment, table},
};

/// See, cancel and retry tasks
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright tasks list --team main --state running\n  \
    hivewright tasks cancel task-61c8864680b583eb --cascade")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with tasks.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List tasks, those that are open first, each newest first
    #[command(after_help = "Example:\n  hivewright tasks list --state dead --since 24h")]
    List {
        /// Only in this state: accepted, running, waiting, done, failed, cancelled, expired or dead
        #[arg(long)]
        state: Option<String>,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only of this type: chat, delegate, query, trigger, escalation, bootstrap, message, handoff, result or agent
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
        #[arg(long)]
        since: Option<String>,
        /// Only those with these words in them
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show all of one task
    #[command(after_help = "Example:\n  hivewright tasks show task-61c8864680b583eb")]
    Show {
        /// The task
        id: String,
    },
    /// End a task, also one that runs
    #[command(
        after_help = "Example:\n  hivewright tasks cancel task-61c8864680b583eb --reason \"no need\""
    )]
    Cancel {
        /// The task
        id: String,
        /// Why, for whoever asked for it
        #[arg(long)]
        reason: Option<String>,
        /// Also all open tasks that came of it
        #[arg(long)]
        cascade: bool,
    },
    /// Try a task that did not end well again, as a new one
    #[command(after_help = "Example:\n  hivewright tasks retry task-61c8864680b583eb")]
    Retry {
        /// The task
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List {
            state,
            team,
            kind,
            since,
            query,
            limit,
        } => {
            let fields = [
                ("state", state),
                ("team", team),
                ("type", kind),
                ("since", since),
                ("q", query),
                ("limit", Some(limit.to_string())),
            ];
            let fields = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)));
            let answer = service.search("/api/v1/tasks", fields).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&list(&answer)?);
        }
        Action::Show { id } => {
            let answer = service.get(&path(&id, "")?).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&one(&answer)?);
        }
        Action::Cancel {
            id,
            reason,
            cascade,
        } => {
            let body = json!({ "reason": reason, "cascade": cascade });
            let answer = service.post(&path(&id, "/cancel")?, &body).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let state = answer["data"]["state"].as_str().unwrap_or("cancelled");
            screen.remark(&format!("{id} is {state}"));
        }
        Action::Retry { id } => {
            let answer = service.post(&path(&id, "/retry")?, &json!({})).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let new = answer["data"]["id"].as_str().unwrap_or_default();
            screen.say(new);
        }
    }
    Ok(())
}

/// The way to a task. An id that is none would lead elsewhere.
fn path(id: &str, rest: &str) -> Result<String, Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~".contains(&byte);
    if id.is_empty() || id.starts_with('.') || !id.bytes().all(plain) {
        let message = format!("`{id}` is no id of a task");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(format!("/api/v1/tasks/{id}{rest}"))
}

fn read<T: serde::de::DeserializeOwned>(answer: &Value) -> Result<T, Failure> {
    serde_json::from_value(answer["data"].clone())
        .map_err(|error| Failure::system("the service's answer cannot be read", error))
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    team: String,
    #[serde(rename = "type")]
    kind: String,
    priority: String,
    state: String,
    wait_reason: Option<String>,
    body: String,
    created_by: String,
    created_at: Option<String>,
    deadline_at: Option<String>,
    attempts: u32,
    lineage: Lineage,
    outcome: Option<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Lineage {
    root: String,
    parent: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    result: String,
    error: Option<Fault>,
    finished_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Fault {
    code: String,
    message: Option<String>,
}

fn state(row: &Row) -> String {
    match &row.wait_reason {
        Some(reason) => format!("{} ({reason})", row.state),
        None => row.state.clone(),
    }
}

fn list(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = read(answer)?;
    let rows = rows.into_iter().map(|row| {
        let state = state(&row);
        let words = row.body.split_whitespace().collect::<Vec<_>>().join(" ");
        [
            row.id,
            row.team,
            row.kind,
            state,
            row.created_at.as_deref().map(moment).unwrap_or_default(),
            words.chars().take(50).collect(),
        ]
    });
    Ok(table(
        ["ID", "TEAM", "TYPE", "STATE", "SINCE", "WHAT"],
        rows,
    ))
}

fn one(answer: &Value) -> Result<String, Failure> {
    let row: Row = read(answer)?;
    let date = |date: &Option<String>| date.as_deref().map(moment).unwrap_or_default();
    let mut lines = vec![
        ("id", row.id.clone()),
        ("team", row.team.clone()),
        ("type", format!("{}, {}", row.kind, row.priority)),
        ("state", state(&row)),
        (
            "from",
            format!("{}, {}", row.created_by, date(&row.created_at)),
        ),
        ("deadline", date(&row.deadline_at)),
        ("attempts", row.attempts.to_string()),
    ];
    if let Some(parent) = &row.lineage.parent {
        lines.push(("comes of", format!("{parent}, first {}", row.lineage.root)));
    }
    let mut text: String = lines
        .iter()
        .map(|(name, value)| format!("{name:<9} {value}\n"))
        .collect();
    text += &format!("\n{}\n", row.body);
    if let Some(outcome) = row.outcome {
        text += &format!("\nended     {}\n", date(&outcome.finished_at));
        if let Some(Fault { code, message }) = outcome.error {
            text += &format!("because   {code}: {}\n", message.unwrap_or_default());
        }
        if !outcome.result.is_empty() {
            text += &format!("\n{}\n", outcome.result);
        }
    }
    Ok(printable(&text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn row() -> Value {
        json!({
            "id": "task-1", "team": "main", "type": "chat", "priority": "normal", "state": "waiting",
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
        assert_eq!(list(&json!({"data": [row()]})).unwrap(), expected);
    }

    /// OP-79
    #[test]
    fn one_task_is_shown_whole() {
        let mut row = row();
        row["outcome"] = json!({
            "result": "Half a hole.", "finished_at": "2026-11-14T23:48:00.000Z",
            "error": {"code": "deadline", "message": "out of time"},
        });

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
        assert_eq!(one(&json!({"data": row})).unwrap(), expected);
    }

    #[test]
    fn an_id_that_leads_elsewhere_is_none() {
        assert_eq!(
            path("task-1~r", "/cancel").unwrap(),
            "/api/v1/tasks/task-1~r/cancel"
        );
        for id in ["", "..", "a/b", "a?b", "a b"] {
            assert_eq!(path(id, "").unwrap_err().exit, Exit::Usage, "{id}");
        }
    }
}
