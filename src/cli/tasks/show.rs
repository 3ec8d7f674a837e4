//! What is printed of tasks.

use crate::{
    api::tasks::{OneTask, TaskFault, TaskRow},
    cli::{
        screen::printable,
        table::{beginning, columns, date},
    },
};

columns!(TaskRow {
    "ID" => |row| row.id.to_string(),
    "TEAM" => |row| row.team.to_string(),
    "TYPE" => |row| row.kind.to_string(),
    "STATE" => TaskRow::standing,
    "SINCE" => |row| date(&row.created_at),
    "WHAT" => |row| beginning(&row.body),
});

pub(super) fn one(OneTask { row, .. }: &OneTask) -> String {
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
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:<9} {value}\n")).collect();
    text += &format!("\n{}\n", row.body);
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
    use crate::cli::table;

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
