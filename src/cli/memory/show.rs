//! Entries as a person reads them.

use std::fmt::Write;

use hivewright_actors::excerpt;
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::{
        failure::Failure,
        service::data,
        table::{self, moment},
    },
    difference::difference,
};

/// How much of a content a table shows, in characters.
const SHOWN: usize = 60;

#[derive(Deserialize)]
struct Row {
    id: String,
    team: String,
    key: String,
    version: u32,
    r#type: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    snippet: String,
    active: bool,
    proposal: bool,
    review: String,
    reviewed: Option<Remark>,
    pinned: bool,
    expires_at: Option<String>,
    ended: Option<Remark>,
    supersede_reason: Option<String>,
    provenance: Provenance,
    sources: Vec<String>,
    updated_by: String,
    updated_at: Option<String>,
    current: Option<Current>,
    injection: Option<Injection>,
}

/// Whether the next prompt holds it.
#[derive(Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Injection {
    Whole,
    Cut {
        shown: u64,
        of: u64,
    },
    NoRoom,
    Type,
    Review,
    Inactive,
    #[serde(other)]
    Unknown,
}

impl Injection {
    fn words(&self) -> String {
        match self {
            Self::Whole => "yes".to_owned(),
            Self::Cut { shown, of } => format!("{shown} of its {of} characters"),
            Self::NoRoom => "no, others take the room".to_owned(),
            Self::Type => "no, entries of its type are only searched for".to_owned(),
            Self::Review => "no, it is not approved".to_owned(),
            Self::Inactive => "no, it is not in use".to_owned(),
            Self::Unknown => "not known to this version".to_owned(),
        }
    }
}

#[derive(Deserialize)]
struct Remark {
    by: String,
    note: Option<String>,
}

#[derive(Deserialize)]
struct Provenance {
    origin: String,
    r#ref: Option<String>,
    task_id: Option<String>,
    session_id: Option<String>,
    label: String,
}

#[derive(Deserialize)]
struct Current {
    id: String,
    content: String,
}

impl Row {
    /// What counts of its state, in a word or two.
    fn state(&self) -> String {
        let state = match (self.active, self.proposal, &self.ended) {
            (true, _, _) if self.review == "pending" => "pending",
            (true, _, _) if self.pinned => "pinned",
            (true, _, _) => "active",
            (false, true, _) => "proposal",
            (false, false, Some(ended)) => {
                let note = ended.note.as_deref().unwrap_or_default();
                let by_code = ["superseded", "expired", "rejected"];
                let known = by_code.into_iter().find(|known| *known == note);
                known.unwrap_or("deleted")
            }
            (false, false, None) => "ended",
        };
        state.to_owned()
    }

    fn updated(&self) -> String {
        self.updated_at.as_deref().map(moment).unwrap_or_default()
    }
}

fn rows(answer: &Value) -> Result<Vec<Row>, Failure> {
    data(answer)
}

/// A list in columns.
pub(super) fn table(answer: &Value) -> Result<String, Failure> {
    let heading = ["ID", "TEAM", "KEY", "TYPE", "STATE", "UPDATED", "CONTENT"];
    let lines = rows(answer)?.into_iter().map(|row| {
        let (state, updated) = (row.state(), row.updated());
        let content = one_line(&row.snippet);
        [row.id, row.team, row.key, row.r#type, state, updated, content]
    });
    Ok(table::table(heading, lines))
}

/// The versions of a key in columns.
pub(super) fn chain(answer: &Value) -> Result<String, Failure> {
    let heading = ["VERSION", "ID", "STATE", "UPDATED", "BY", "REASON", "CONTENT"];
    let lines = rows(answer)?.into_iter().map(|row| {
        let (state, updated) = (row.state(), row.updated());
        let content = one_line(&row.content);
        [
            row.version.to_string(),
            row.id,
            state,
            updated,
            row.updated_by,
            row.supersede_reason.unwrap_or_default(),
            content,
        ]
    });
    Ok(table::table(heading, lines))
}

/// One entry, with what it would change if it is a proposal.
pub(super) fn entry(answer: &Value) -> Result<String, Failure> {
    let row: Row = data(answer)?;
    let mut text = String::new();
    // Writing into a string cannot fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<10} {value}");
    };
    line("key", &row.key);
    line("id", &format!("{} (version {})", row.id, row.version));
    line("team", &row.team);
    line("type", &row.r#type);
    line("state", &row.state());
    let review = match &row.reviewed {
        Some(Remark { by, note }) => {
            let note = note.as_deref().map(|note| format!(": {note}"));
            format!("{} by {by}{}", row.review, note.unwrap_or_default())
        }
        None => row.review.clone(),
    };
    line("review", &review);
    if let Some(injection) = &row.injection {
        line("in prompt", &injection.words());
    }
    let Provenance { origin, r#ref, task_id, session_id, label } = &row.provenance;
    let parts = [Some(origin), r#ref.as_ref(), task_id.as_ref(), session_id.as_ref()];
    let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
    line("from", &format!("{} ({label})", parts.join(", ")));
    if !row.sources.is_empty() {
        line("it claims", &row.sources.join(", "));
    }
    if let Some(reason) = &row.supersede_reason {
        line("reason", reason);
    }
    if let Some(expires) = &row.expires_at {
        line("ends", &moment(expires));
    }
    line("updated", &format!("{} by {}", row.updated(), row.updated_by));
    let _ = match &row.current {
        Some(current) => write!(
            text,
            "\nagainst the active version {}:\n{}",
            current.id,
            difference(&current.content, &row.content)
        ),
        None => writeln!(text, "\n{}", row.content.trim_end()),
    };
    Ok(text)
}

fn one_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    excerpt::line(&words.join(" "), SHOWN)
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

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

        let text = table(&json!({"data": [found, deleted], "total": 2})).unwrap();

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

        let text = entry(&json!({ "data": row })).unwrap();

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
