//! Entries as a person reads them.

use super::difference::difference;
use crate::{
    api::memories::{MemoryRemark, MemoryRow},
    cli::table::{self, beginning, columns, date, moment},
    memory::{entry::Review, inject::Injection, provenance::Provenance},
};

/// How much of a content a table shows, in characters.
const SHOWN: usize = 60;

columns!(MemoryRow {
    "ID" => |row| row.id.to_string(),
    "TEAM" => |row| row.team.clone(),
    "KEY" => |row| row.key.to_string(),
    "TYPE" => |row| row.kind.to_string(),
    "STATE" => |row| state(row).to_owned(),
    "UPDATED" => |row| date(&row.updated_at),
    "CONTENT" => |row| one_line(&row.snippet),
});

/// The versions of a key in columns.
pub(super) fn chain(versions: &[MemoryRow]) -> String {
    let heading = ["VERSION", "ID", "STATE", "UPDATED", "BY", "REASON", "CONTENT"];
    let lines = versions.iter().map(|row| {
        [
            row.version.to_string(),
            row.id.to_string(),
            state(row).to_owned(),
            date(&row.updated_at),
            row.updated_by.to_string(),
            row.supersede_reason.clone().unwrap_or_default(),
            one_line(&row.content),
        ]
    });
    table::table(heading, lines)
}

/// What counts of its state, in a word or two.
fn state(row: &MemoryRow) -> &'static str {
    match (row.active, row.proposal, &row.ended) {
        (true, _, _) if row.review == Review::Pending => "pending",
        (true, _, _) if row.pinned => "pinned",
        (true, _, _) => "active",
        (false, true, _) => "proposal",
        (false, false, Some(ended)) => {
            let by_code = ["superseded", "expired", "rejected"];
            let known = by_code.into_iter().find(|known| ended.note.as_deref() == Some(*known));
            known.unwrap_or("deleted")
        }
        (false, false, None) => "ended",
    }
}

/// Whether the next prompt holds it.
fn in_prompt(injection: &Injection) -> String {
    match injection {
        Injection::Whole => "yes".to_owned(),
        Injection::Cut { shown, of } => format!("{shown} of its {of} characters"),
        Injection::NoRoom => "no, others take the room".to_owned(),
        Injection::Type => "no, entries of its type are only searched for".to_owned(),
        Injection::Review => "no, it is not approved".to_owned(),
        Injection::Inactive => "no, it is not in use".to_owned(),
    }
}

/// One entry, with what it would change if it is a proposal.
pub(super) fn entry(row: &MemoryRow) -> String {
    let review = match &row.reviewed {
        Some(MemoryRemark { by, note, .. }) => {
            let note = note.as_deref().map(|note| format!(": {note}"));
            format!("{} by {by}{}", row.review, note.unwrap_or_default())
        }
        None => row.review.to_string(),
    };
    let mut lines = vec![
        ("key", row.key.to_string()),
        ("id", format!("{} (version {})", row.id, row.version)),
        ("team", row.team.clone()),
        ("type", row.kind.to_string()),
        ("state", state(row).to_owned()),
        ("review", review),
    ];
    lines.extend(row.injection.as_ref().map(|injection| ("in prompt", in_prompt(injection))));
    let Provenance { origin, source, task_id, session_id, label, .. } = &row.provenance;
    let task_id = task_id.as_ref().map(|id| id.as_str());
    let parts = [Some(origin.as_str()), source.as_deref(), task_id, session_id.as_deref()];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    lines.push(("from", format!("{} ({label})", parts.join(", "))));
    if !row.sources.is_empty() {
        lines.push(("it claims", row.sources.join(", ")));
    }
    lines.extend(row.supersede_reason.iter().map(|reason| ("reason", reason.clone())));
    lines.extend(row.expires_at.iter().map(|expires| ("ends", moment(*expires))));
    lines.push(("updated", format!("{} by {}", date(&row.updated_at), row.updated_by)));
    let content = row.content.as_deref().unwrap_or_default();
    let below = match &row.current {
        Some(current) => {
            let changes = difference(&current.content, content);
            format!("against the active version {}:\n{changes}", current.id)
        }
        None => format!("{}\n", content.trim_end()),
    };
    table::fields(11, lines) + "\n" + &below
}

fn one_line(text: &Option<String>) -> String {
    beginning(text.as_deref().unwrap_or_default(), SHOWN)
}

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    use super::*;

    fn read(row: Value) -> MemoryRow {
        serde_json::from_value(row).unwrap()
    }

    fn row() -> Value {
        json!({
            "id": "mem-1", "team": "main", "generation": 1, "key": "deploy/host", "version": 2,
            "type": "lesson", "active": false, "proposal": true, "review": "pending", "reviewed": null,
            "pinned": false, "expires_at": null, "ended": null, "supersedes_id": "mem-0",
            "supersede_reason": "found on a page", "sources": ["a page"],
            "provenance": {"origin": "user", "ref": "ws:anna", "task_id": "task-1", "session_id": "main/t-1", "label": "untrusted"},
            "updated_by": "team:main", "created_at": "2026-11-14T23:46:40.000Z", "updated_at": "2026-11-14T23:46:40.000Z",
        })
    }

    /// MV-31
    #[test]
    fn entries_are_listed_in_columns() {
        let mut found = row();
        found["snippet"] = json!(format!("line one\n{}", "x".repeat(80)));
        let mut deleted = row();
        deleted["proposal"] = json!(false);
        deleted["snippet"] = json!("gone");
        deleted["ended"] = json!({"at": null, "by": "operator:op", "note": "moved"});

        let text = table::rows(&[read(found), read(deleted)]);

        let shown = "x".repeat(50);
        let expected = format!(
            "\
ID     TEAM  KEY          TYPE    STATE     UPDATED               CONTENT
mem-1  main  deploy/host  lesson  proposal  2026-11-14 23:46 UTC  line one {shown}…
mem-1  main  deploy/host  lesson  deleted   2026-11-14 23:46 UTC  gone
"
        );
        assert_eq!(text, expected);
    }

    /// MV-17
    #[test]
    fn a_proposal_is_shown_with_its_source_and_what_it_would_change() {
        let mut row = row();
        row["content"] = json!("ask nobody\nthen pay");
        row["current"] = json!({"id": "mem-0", "content": "ask first\nthen pay"});

        let text = entry(&read(row));

        let expected = "\
key        deploy/host
id         mem-1 (version 2)
team       main
type       lesson
state      proposal
review     pending
from       user, ws:anna, task-1, main/t-1 (untrusted)
it claims  a page
reason     found on a page
updated    2026-11-14 23:46 UTC by team:main

against the active version mem-0:
- ask first
+ ask nobody
  then pay
";
        assert_eq!(text, expected);
    }
}
