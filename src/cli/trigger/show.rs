//! What is printed of triggers and runs.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    api::triggers::{RunRow, TriggerPreview, TriggerRow},
    cli::{
        screen::printable,
        table::{columns, date},
    },
};

columns!(TriggerRow {
    "ID" => |row| row.id.to_string(),
    "TRIGGER" => |row| format!("{}/{}", row.team, row.definition.name),
    "TYPE" => |row| row.definition.kind().to_string(),
    "STATE" => |row| row.state.to_string(),
    "NEXT" => |row| date(&row.next_due_at),
    "LAST RUN" => |row| row.last_run.iter().flatten().map(end).collect(),
});

columns!(RunRow {
    "FIRED" => |row| date(&row.fired_at),
    "CAUSE" => |row| row.cause.to_string(),
    "DECISION" => |row| row.decision.to_string(),
    "OUTCOME" => |row| row.outcome.map(|outcome| outcome.to_string()).unwrap_or_default(),
    "TASK" => |row| row.task_id.as_ref().map(ToString::to_string).unwrap_or_default(),
    "REASON" => |row| row.reason.clone().unwrap_or_default(),
});

/// What a run came to.
fn end(run: &RunRow) -> String {
    match run.outcome {
        Some(outcome) => format!("{} {outcome}", run.decision),
        None => run.decision.to_string(),
    }
}

/// All fields of a trigger, one below the other.
pub(super) fn fields(row: &Value) -> String {
    let mut lines = String::new();
    for (name, value) in row.as_object().into_iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::Array(list) if list.is_empty() => continue,
            Value::Object(map) if map.is_empty() => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = writeln!(lines, "{name:<22}{}", printable(&text));
    }
    lines
}

/// What has become of a trigger.
pub(super) fn state(row: &TriggerRow) -> String {
    let mut text = format!("{}/{} ({}) is {}", row.team, row.definition.name, row.id, row.state);
    if let Some(next) = row.next_due.as_ref().filter(|next| !next.is_empty()) {
        text += &format!("\nnext times: {}", next.join(", "));
    }
    if let Some(path) = &row.path {
        text += &format!("\nprograms call it at {path}");
    }
    text
}

/// What a run by hand led to.
pub(super) fn started(run: &RunRow) -> String {
    let task = run.task_id.as_ref().map(ToString::to_string);
    let led_to = task.or_else(|| run.reason.clone()).unwrap_or_default();
    format!("{} {} {led_to}\n", run.id, run.decision)
}

/// What a trigger would do.
pub(super) fn preview(preview: &TriggerPreview) -> String {
    if let Some(due) = &preview.due {
        return due.iter().map(|time| format!("{}\n", time.local)).collect();
    }
    match preview.matches {
        Some(true) => {
            let captures = preview.captures.iter().flatten();
            let found = captures.map(|(name, value)| format!("{name}: {}\n", printable(value)));
            format!("it fits\n{}", found.collect::<String>())
        }
        Some(false) => "it does not fit\n".to_owned(),
        None => "it is valid\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-80
    #[test]
    fn triggers_are_listed_in_columns() {
        let row = json!({
            "id": "trg-1", "team": "news", "name": "morning", "type": "schedule", "state": "active",
            "config": {"cron": "0 8 * * *"}, "task": "Sum up.", "next_due_at": "2026-11-15T08:00:00.000Z",
            "consecutive_failures": 0, "overlap_count": 0, "cursors": {}, "revision": 1, "created_by": "main",
            "last_run": {
                "id": "run-1", "trigger": "trg-1", "cause": "schedule", "decision": "enqueued",
                "outcome": "ok", "tokens": 0, "notify": {"notified": false},
            },
        });
        let rows: Vec<TriggerRow> = serde_json::from_value(json!([row])).unwrap();

        let expected = "\
ID     TRIGGER       TYPE      STATE   NEXT                  LAST RUN
trg-1  news/morning  schedule  active  2026-11-15 08:00 UTC  enqueued ok
";
        assert_eq!(table::rows(&rows), expected);
    }
}
