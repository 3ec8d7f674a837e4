//! What is printed of triggers and runs.

use std::fmt::Write;

use serde_json::Value;

use crate::cli::{
    failure::Failure,
    screen::printable,
    table::{moment, table},
};

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn when(value: &Value) -> String {
    value.as_str().map(moment).unwrap_or_default()
}

fn rows(answer: &Value) -> Result<&Vec<Value>, Failure> {
    answer["data"].as_array().ok_or_else(|| Failure::failed("the service's answer holds no list"))
}

/// Triggers in columns.
pub(super) fn triggers(answer: &Value) -> Result<String, Failure> {
    let lines = rows(answer)?.iter().map(|row| {
        let last = &row["last_run"];
        let end = [&last["decision"], &last["outcome"]].map(text);
        [
            text(&row["id"]),
            format!("{}/{}", text(&row["team"]), text(&row["name"])),
            text(&row["type"]),
            text(&row["state"]),
            when(&row["next_due_at"]),
            end.join(" ").trim().to_owned(),
        ]
    });
    Ok(table(["ID", "TRIGGER", "TYPE", "STATE", "NEXT", "LAST RUN"], lines))
}

/// All fields of a trigger, one below the other.
pub(super) fn trigger(answer: &Value) -> String {
    let mut lines = String::new();
    for (name, value) in answer["data"].as_object().into_iter().flatten() {
        let is_empty = match value {
            Value::Null => true,
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if !is_empty {
            let _ = writeln!(lines, "{name:<22}{}", printable(&text(value)));
        }
    }
    lines
}

/// What has become of a trigger.
pub(super) fn state(answer: &Value) -> Vec<String> {
    let row = &answer["data"];
    let mut lines = vec![format!(
        "{}/{} ({}) is {}",
        text(&row["team"]),
        text(&row["name"]),
        text(&row["id"]),
        text(&row["state"])
    )];
    let next: Vec<String> = row["next_due"].as_array().into_iter().flatten().map(text).collect();
    if !next.is_empty() {
        lines.push(format!("next times: {}", next.join(", ")));
    }
    if let Some(path) = row["path"].as_str() {
        lines.push(format!("programs call it at {path}"));
    }
    lines
}

/// What a run by hand led to.
pub(super) fn started(answer: &Value) -> String {
    let row = &answer["data"];
    let task = match text(&row["task_id"]) {
        task if task.is_empty() => text(&row["reason"]),
        task => task,
    };
    format!("{} {} {task}\n", text(&row["id"]), text(&row["decision"]))
}

/// Runs in columns.
pub(super) fn runs(answer: &Value) -> Result<String, Failure> {
    let lines = rows(answer)?.iter().map(|row| {
        [
            when(&row["fired_at"]),
            text(&row["cause"]),
            text(&row["decision"]),
            text(&row["outcome"]),
            text(&row["task_id"]),
            text(&row["reason"]),
        ]
    });
    Ok(table(["FIRED", "CAUSE", "DECISION", "OUTCOME", "TASK", "REASON"], lines))
}

/// What a trigger would do.
pub(super) fn preview(answer: &Value) -> String {
    let row = &answer["data"];
    if let Some(due) = row["due"].as_array() {
        let times = due.iter().map(|time| format!("{}\n", text(&time["local"])));
        return times.collect();
    }
    match row["matches"].as_bool() {
        Some(true) => match row["captures"].as_object() {
            Some(captures) if !captures.is_empty() => {
                let found = captures
                    .iter()
                    .map(|(name, value)| format!("{name}: {}\n", printable(&text(value))));
                format!("it fits\n{}", found.collect::<String>())
            }
            _ => "it fits\n".to_owned(),
        },
        Some(false) => "it does not fit\n".to_owned(),
        None => "it is valid\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-80
    #[test]
    fn triggers_are_listed_in_columns() {
        let answer = json!({"data": [{
            "id": "trg-1", "team": "news", "name": "morning", "type": "schedule", "state": "active",
            "next_due_at": "2026-11-15T08:00:00.000Z",
            "last_run": {"decision": "enqueued", "outcome": "ok"},
        }]});

        let expected = "\
ID     TRIGGER       TYPE      STATE   NEXT                  LAST RUN
trg-1  news/morning  schedule  active  2026-11-15 08:00 UTC  enqueued ok
";
        assert_eq!(triggers(&answer).unwrap(), expected);
    }
}
