//! What teams remember, with the versions before.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::clock::Timestamp;

use super::{moment::moment, names, rows::MemoryRow};

/// The most that one entry holds.
const MOST_BYTES: usize = 65_536;
/// The longest reason why a version replaced another.
const LONGEST_REASON: usize = 500;

/// A version to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory {
    /// Its number in the source.
    pub(super) number: i64,
    pub(super) key: String,
    pub(super) content: String,
    /// One of the six types.
    pub(super) kind: &'static str,
    pub(super) active: bool,
    /// The number of the version it replaced.
    pub(super) supersedes: Option<i64>,
    pub(super) reason: Option<String>,
    /// It came of work on itself, and waits until someone looked at it.
    pub(super) pending: bool,
    pub(super) created_at: Option<Timestamp>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

/// The types, and the words that stand for them.
const TYPES: [(&str, &[&str]); 6] = [
    ("identity", &["core", "self"]),
    ("lesson", &["warning", "insight", "learning"]),
    ("decision", &["commitment", "choice", "note"]),
    ("context", &["active", "background", ""]),
    ("reference", &["pointer", "link"]),
    ("historical", &["archive", "past"]),
];

/// Converts the entries of one team, oldest first.
pub(super) fn convert(rows: &[&MemoryRow]) -> Vec<Memory> {
    let mut keys: BTreeMap<&str, String> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    let mut active = BTreeSet::new();
    // Of two that are active under one key the newer counts.
    let mut memories: Vec<Memory> = rows
        .iter()
        .rev()
        .map(|row| {
            let key = keys
                .entry(&row.key)
                .or_insert_with(|| {
                    let key = names::unique(&names::memory_key(&row.key), "-", &taken);
                    taken.insert(key.clone());
                    key
                })
                .clone();
            let mut memory = convert_one(row, key);
            if memory.active && !active.insert(memory.key.clone()) {
                memory.active = false;
                memory.changes.push("a newer entry of the key is active".into());
            }
            memory
        })
        .collect();
    memories.reverse();
    let numbers: BTreeSet<i64> = memories.iter().map(|memory| memory.number).collect();
    for memory in &mut memories {
        if memory.supersedes.is_some_and(|before| !numbers.contains(&before)) {
            memory.supersedes = None;
            memory.changes.push("the version before it is gone".into());
        }
    }
    memories
}

fn convert_one(row: &MemoryRow, key: String) -> Memory {
    let mut changes = Vec::new();
    if key != row.key {
        changes.push(format!("its key is `{key}`"));
    }
    let content = match row.content.len() {
        0 => {
            changes.push("it was empty".into());
            "(empty)".to_owned()
        }
        length if length > MOST_BYTES => {
            changes.push(format!("cut from {length} to {MOST_BYTES} bytes"));
            let end = row.content.floor_char_boundary(MOST_BYTES);
            row.content[..end].to_owned()
        }
        _ => row.content.clone(),
    };
    let word = row.kind.trim().to_lowercase();
    let kind = TYPES.iter().find(|(name, words)| *name == word || words.contains(&word.as_str()));
    let kind = match kind {
        Some((kind, _)) => *kind,
        None => {
            changes.push("its type is not known; it becomes `context`".into());
            "context"
        }
    };
    let pending = is_lesson_of_a_cycle(row);
    if pending {
        changes.push("of a learning cycle, so it waits for review".into());
    }
    Memory {
        number: row.id,
        key,
        content,
        kind,
        active: row.active,
        supersedes: row.supersedes,
        reason: row.reason.as_deref().map(|reason| reason.chars().take(LONGEST_REASON).collect()),
        pending,
        created_at: moment(&row.created_at),
        updated_at: moment(&row.updated_at),
        changes,
    }
}

/// The cycles of OpenHive write under these keys; no other mark is left of them.
fn is_lesson_of_a_cycle(row: &MemoryRow) -> bool {
    let by_key =
        ["lesson:", "learning:", "reflection:"].iter().any(|prefix| row.key.starts_with(prefix));
    let by_author = row
        .updated_by
        .as_deref()
        .is_some_and(|author| author.contains("learning") || author.contains("reflection"));
    by_key || by_author
}

/// A journal that a team kept in its vault.
pub(super) fn journal(key: &str, value: &str, at: (&str, &str)) -> Memory {
    let row = MemoryRow {
        id: 0,
        team: String::new(),
        key: key.to_owned(),
        content: value.to_owned(),
        kind: "historical".into(),
        active: true,
        supersedes: None,
        reason: None,
        updated_by: None,
        created_at: at.0.to_owned(),
        updated_at: at.1.to_owned(),
    };
    let mut memory = convert_one(&row, names::memory_key(key));
    memory.pending = false;
    memory.changes = vec!["a journal becomes `historical` memory".into()];
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: i64, key: &str, content: &str) -> MemoryRow {
        MemoryRow {
            id,
            team: "research".into(),
            key: key.into(),
            content: content.into(),
            kind: "context".into(),
            active: true,
            supersedes: None,
            reason: None,
            updated_by: None,
            created_at: "2026-01-01T00:00:00.000Z".into(),
            updated_at: "2026-01-02T00:00:00.000Z".into(),
        }
    }

    fn converted(rows: &[MemoryRow]) -> Vec<Memory> {
        convert(&rows.iter().collect::<Vec<_>>())
    }

    /// OR-29
    #[test]
    fn a_chain_stays_a_chain() {
        let old = MemoryRow { active: false, ..row(3, "goal", "one") };
        let new = MemoryRow {
            supersedes: Some(3),
            reason: Some("changed".into()),
            kind: "Insight".into(),
            ..row(9, "goal", "two")
        };
        let lost = MemoryRow { supersedes: Some(77), ..row(10, "other", "three") };

        let found = converted(&[old, new, lost]);

        let shape: Vec<_> = found
            .iter()
            .map(|memory| (memory.number, memory.active, memory.supersedes, memory.kind))
            .collect();
        assert_eq!(
            shape,
            [
                (3, false, None, "context"),
                (9, true, Some(3), "lesson"),
                (10, true, None, "context")
            ]
        );
        assert_eq!(found[2].changes, ["the version before it is gone"]);
    }

    /// OR-29, MV-15
    #[test]
    fn what_a_cycle_learnt_waits_for_review() {
        let found = converted(&[row(1, "lesson:retry", "wait"), row(2, "goal", "x")]);

        assert_eq!(found.iter().map(|memory| memory.pending).collect::<Vec<_>>(), [true, false]);
    }

    /// MV-01
    #[test]
    fn keys_and_contents_fit_the_limits_here() {
        let long = "ä".repeat(40_000);

        let found = converted(&[row(1, "a b", "x"), row(2, "a-b", &long), row(3, "a b", "y")]);

        assert_eq!(found[0].key, found[2].key);
        assert_ne!(found[0].key, found[1].key);
        assert_eq!(found[1].content.len(), 65_536);
        assert_eq!((found[0].active, found[2].active), (false, true));
    }
}
