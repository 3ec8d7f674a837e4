//! Memories: what teams remember, with the versions before.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{Ids, MemoryId, TeamKey},
};

use super::{
    moment::moment,
    names,
    plan::{Artifact, Planner, Refusal, Team},
    report::Kind,
    schema::row,
    vault::VaultRow,
};
use crate::memory::{
    entry::{Actor, Entry, Key, Kind as MemoryKind, Remark, Review},
    error::{LONGEST_CONTENT, LONGEST_REASON},
};

pub(super) const KIND: Kind = Kind::listed("memory");

row! {
    /// A version of something a team remembers.
    MemoryRow in "memories" by "id" known by id of team {
        id: i64,
        team: String as "team_name",
        key: String,
        content: String,
        kind: String as "type",
        active: bool as "is_active",
        supersedes: Option<i64> as "supersedes_id",
        reason: Option<String> as "supersede_reason",
        updated_by: Option<String>,
        created_at: String,
        updated_at: String,
    }
}

/// A version to be made.
struct Draft {
    key: String,
    mark: String,
    /// With what was changed; or why it cannot be one.
    entry: Result<(Entry, Vec<String>), String>,
}

pub(super) fn plan(planner: &mut Planner<'_>, team: &Team<'_>) {
    let (target, tables) = (planner.target, &planner.found.tables);
    let rows: Vec<_> =
        tables.of::<MemoryRow>().iter().filter(|row| row.team == team.former).collect();
    let journals =
        tables.of::<VaultRow>().iter().filter(|row| row.team == team.former && row.is_journal());
    let mut converter = Converter::new(&team.key, planner.ids, target.now);
    let mut drafts = converter.versions(&rows);
    drafts.extend(journals.map(|row| converter.journal(row)));
    // A key that an earlier import brought has a life of its own by now.
    let before = drafts.iter().filter(|draft| target.has(&draft.mark));
    let lived: BTreeSet<String> = before.map(|draft| draft.key.clone()).collect();
    for Draft { key, mark, entry } in drafts {
        let conversion = match entry {
            _ if lived.contains(&key) => Err(Refusal::intended(
                "an earlier version was imported before, and is kept as it is now",
            )),
            Ok((mut entry, mut changes)) => {
                planner.redactor.clean(&mut entry.content, &mut changes);
                if let Some(reason) = &mut entry.supersede_reason {
                    planner.redactor.clean(reason, &mut changes);
                }
                Ok((Artifact::Memory(Box::new(entry)), changes))
            }
            Err(reason) => Err(reason.into()),
        };
        planner.take(KIND, Some(team.former), key, mark, conversion);
    }
}

struct Converter<'a> {
    team: &'a TeamKey,
    ids: &'a Ids,
    now: Timestamp,
    /// How many versions there are of each key so far.
    versions: BTreeMap<String, u32>,
}

impl<'a> Converter<'a> {
    fn new(team: &'a TeamKey, ids: &'a Ids, now: Timestamp) -> Self {
        Self { team, ids, now, versions: BTreeMap::new() }
    }

    /// Converts rows, oldest first. Of two that are active under one key the newer counts.
    fn versions(&mut self, rows: &[&MemoryRow]) -> Vec<Draft> {
        let active: BTreeMap<&str, i64> =
            rows.iter().filter(|row| row.active).map(|row| (row.key.as_str(), row.id)).collect();
        let keys = keys(rows);
        let mut drafts = Vec::new();
        for row in rows {
            let key = keys.get(row.key.as_str()).cloned().unwrap_or_default();
            let mut changes = Vec::new();
            let entry = self.entry(row, &key, &mut changes).map(|mut entry| {
                if row.active && active.get(row.key.as_str()) != Some(&row.id) {
                    retire(&mut entry);
                    changes.push("a newer entry of the key is active".into());
                }
                (entry, changes)
            });
            drafts.push(Draft { key, mark: row.mark(), entry });
        }
        link(rows, &mut drafts);
        drafts
    }

    /// Converts a journal that the team kept in its vault.
    fn journal(&mut self, row: &VaultRow) -> Draft {
        let memory = MemoryRow {
            id: row.id,
            team: row.team.clone(),
            key: row.key.clone(),
            content: row.value.clone(),
            kind: MemoryKind::Historical.to_string(),
            active: true,
            supersedes: None,
            reason: None,
            updated_by: None,
            created_at: row.created_at.clone(),
            updated_at: row.updated_at.clone(),
        };
        let key = names::memory_key(&row.key);
        let entry = self.entry(&memory, &key, &mut Vec::new()).map(|entry| {
            let changes = vec!["a journal becomes `historical` memory".into()];
            (Entry { review: Review::NotNeeded, ..entry }, changes)
        });
        Draft { key, mark: row.mark(), entry }
    }

    fn entry(
        &mut self,
        row: &MemoryRow,
        key: &str,
        changes: &mut Vec<String>,
    ) -> Result<Entry, String> {
        if key != row.key {
            changes.push(format!("its key is `{key}`"));
        }
        let content = content(&row.content, changes);
        let kind = MemoryKind::named(&row.kind).unwrap_or_else(|_| {
            changes.push("its type is not known; it becomes `context`".into());
            MemoryKind::Context
        });
        let is_pending = row.is_of_a_cycle();
        if is_pending {
            changes.push("of a learning cycle, so it waits for review".into());
        }
        let reason = row.reason.as_deref();
        let version = self.versions.entry(key.to_owned()).or_default();
        *version += 1;
        let mut entry = Entry {
            id: self.ids.memory(),
            team: self.team.clone(),
            key: Key::parse(key).map_err(|error| error.to_string())?,
            version: *version,
            content,
            kind,
            active: true,
            supersedes_id: None,
            supersede_reason: reason
                .map(|reason| excerpt::split(reason, LONGEST_REASON).0.to_owned()),
            rollback_to: None,
            provenance: Actor::Import.provenance(),
            sources: Vec::new(),
            review: if is_pending { Review::Pending } else { Review::NotNeeded },
            reviewed: None,
            pinned: false,
            expires_at: None,
            ended: None,
            updated_by: Actor::Import,
            created_at: moment(&row.created_at).unwrap_or(self.now),
            updated_at: moment(&row.updated_at).unwrap_or(self.now),
            call: None,
            deleted_by_call: None,
        };
        if !row.active {
            retire(&mut entry);
        }
        Ok(entry)
    }
}

fn retire(entry: &mut Entry) {
    entry.active = false;
    entry.ended = Some(Remark {
        at: entry.updated_at,
        by: Actor::Import,
        note: Some("not active in OpenHive any more".to_owned()),
    });
}

/// Chains versions to those that they replaced.
fn link(rows: &[&MemoryRow], drafts: &mut [Draft]) {
    let id_of = |draft: &Draft| Some(draft.entry.as_ref().ok()?.0.id.clone());
    let ids: BTreeMap<i64, MemoryId> = rows
        .iter()
        .zip(drafts.iter())
        .filter_map(|(row, draft)| Some((row.id, id_of(draft)?)))
        .collect();
    for (row, draft) in rows.iter().zip(drafts) {
        if let (Some(before), Ok((entry, changes))) = (row.supersedes, &mut draft.entry) {
            entry.supersedes_id = ids.get(&before).cloned();
            if entry.supersedes_id.is_none() {
                changes.push("the version before it is gone".into());
            }
        }
    }
}

/// What the keys of rows are here. Of two that become alike the newer has the plain one.
fn keys<'a>(rows: &[&'a MemoryRow]) -> BTreeMap<&'a str, String> {
    let (mut keys, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for row in rows.iter().rev() {
        keys.entry(row.key.as_str()).or_insert_with(|| {
            let key = names::unique(&names::memory_key(&row.key), "-", &taken);
            taken.insert(key.clone());
            key
        });
    }
    keys
}

fn content(text: &str, changes: &mut Vec<String>) -> String {
    match text.len() {
        0 => {
            changes.push("it was empty".into());
            "(empty)".to_owned()
        }
        length if length > LONGEST_CONTENT => {
            changes.push(format!("cut from {length} to {LONGEST_CONTENT} bytes"));
            text[..text.floor_char_boundary(LONGEST_CONTENT)].to_owned()
        }
        _ => text.to_owned(),
    }
}

impl MemoryRow {
    /// The cycles of OpenHive write under these keys; no other mark is left of them.
    fn is_of_a_cycle(&self) -> bool {
        let by_key = ["lesson:", "learning:", "reflection:"]
            .iter()
            .any(|prefix| self.key.starts_with(prefix));
        let by_author = self
            .updated_by
            .as_deref()
            .is_some_and(|author| author.contains("learning") || author.contains("reflection"));
        by_key || by_author
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::system::Randomness;

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

    fn converted(rows: &[MemoryRow]) -> Vec<(Entry, Vec<String>)> {
        let (team, ids) = (TeamKey::first("research"), Ids::new(Arc::new(Randomness)));
        let drafts =
            Converter::new(&team, &ids, Timestamp(1)).versions(&rows.iter().collect::<Vec<_>>());
        drafts.into_iter().map(|draft| draft.entry.unwrap()).collect()
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
            .map(|(entry, _)| (entry.version, entry.active, &entry.supersedes_id, entry.kind))
            .collect();
        assert_eq!(
            shape,
            [
                (1, false, &None, MemoryKind::Context),
                (2, true, &Some(found[0].0.id.clone()), MemoryKind::Lesson),
                (1, true, &None, MemoryKind::Context)
            ]
        );
        assert_eq!(found[2].1, ["the version before it is gone"]);
    }

    /// OR-29, MV-15
    #[test]
    fn what_a_cycle_learnt_waits_for_review() {
        let found = converted(&[row(1, "lesson:retry", "wait"), row(2, "goal", "x")]);

        let reviews: Vec<_> = found.iter().map(|(entry, _)| entry.review).collect();
        assert_eq!(reviews, [Review::Pending, Review::NotNeeded]);
    }

    /// MV-01
    #[test]
    fn keys_and_contents_fit_the_limits_here() {
        let long = "ä".repeat(40_000);

        let found = converted(&[row(1, "a b", "x"), row(2, "a-b", &long), row(3, "a b", "y")]);

        let [first, second, third] = [0, 1, 2].map(|at: usize| &found[at].0);
        assert_eq!(first.key, third.key);
        assert_ne!(first.key, second.key);
        assert_eq!(second.content.len(), 65_536);
        assert_eq!((first.active, third.active), (false, true));
    }
}
