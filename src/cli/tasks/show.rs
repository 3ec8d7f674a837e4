//! What is printed of tasks.

use hivewright_actors::excerpt;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::{
    failure::Failure,
    screen::printable,
    service::data,
    table::{moment, table},
};

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
    #[serde(default)]
    truncated: bool,
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

/// Tasks in columns.
pub(super) fn list(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let state = state(&row);
        let words = row.body.split_whitespace().collect::<Vec<_>>().join(" ");
        [
            row.id,
            row.team,
            row.kind,
            state,
            row.created_at.as_deref().map(moment).unwrap_or_default(),
            excerpt::line(&words, 50),
        ]
    });
    Ok(table(["ID", "TEAM", "TYPE", "STATE", "SINCE", "WHAT"], rows))
}

/// All of one task.
pub(super) fn one(answer: &Value) -> Result<String, Failure> {
    let row: Row = data(answer)?;
    let date = |date: &Option<String>| date.as_deref().map(moment).unwrap_or_default();
    let mut lines = vec![
        ("id", row.id.clone()),
        ("team", row.team.clone()),
        ("type", format!("{}, {}", row.kind, row.priority)),
        ("state", state(&row)),
        ("from", format!("{}, {}", row.created_by, date(&row.created_at))),
        ("deadline", date(&row.deadline_at)),
        ("attempts", row.attempts.to_string()),
    ];
    if let Some(parent) = &row.lineage.parent {
        lines.push(("comes of", format!("{parent}, first {}", row.lineage.root)));
    }
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:<9} {value}\n")).collect();
    text += &format!("\n{}\n", row.body);
    if let Some(outcome) = row.outcome {
        text += &format!("\nended     {}\n", date(&outcome.finished_at));
        if let Some(Fault { code, message }) = outcome.error {
            text += &format!("because   {code}: {}\n", message.unwrap_or_default());
        }
        if !outcome.result.is_empty() {
            text += &format!("\n{}\n", outcome.result);
        }
        if outcome.truncated {
            text += "\nThe model's output limit cut this; say `go on` where it was asked.\n";
        }
    }
    Ok(printable(&text))
}

#[cfg(test)]
mod tests {

    use serde_json::json;

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
}
