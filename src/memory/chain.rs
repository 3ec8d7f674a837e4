//! The versions of one key: what each act makes of them. At most one of them is active.

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{MemoryId, TeamKey},
    task::Label,
    words,
};

use super::{
    entry::{Actor, Entry, Key, Kind, Remark, Review},
    error::{
        LONGEST_CONTENT, LONGEST_REASON, MOST_LESSONS, MOST_SOURCES, MOST_VERSIONS, MemoryError,
        Result,
    },
    provenance::Provenance,
};

/// How much of a content a conflict shows.
const SHOWN: usize = 200;

#[derive(Clone, Debug)]
pub struct Draft {
    pub team: TeamKey,
    pub key: Key,
    pub content: String,
    /// Of which type; that of the version it replaces, or context, if not said.
    pub kind: Option<Kind>,
    /// Why it replaces an active version. Without it, none is replaced.
    pub reason: Option<String>,
    /// Where the model says it is from.
    pub sources: Vec<String>,
    pub provenance: Provenance,
    pub by: Actor,
    pub call: Option<String>,
    /// When it ends; as the version it replaces, if not said.
    pub expires_at: Option<Timestamp>,
    /// It is saved while the team looks back at its work: lessons then name their sources, and are few.
    pub looks_back: bool,
}

impl Draft {
    /// Refuses what is too long or empty.
    pub(super) fn check(&self) -> Result<()> {
        check_content(&self.content)?;
        check_reason("supersede_reason", self.reason.as_deref())?;
        let too_long = |source: &String| source.chars().nth(LONGEST_REASON).is_some();
        if self.sources.len() > MOST_SOURCES || self.sources.iter().any(too_long) {
            return Err(MemoryError::Sources);
        }
        Ok(())
    }
}

/// What an operator changes of an active version.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    pub content: Option<String>,
    pub kind: Option<Kind>,
    pub reason: Option<String>,
    /// Another end, or none.
    pub expires_at: Option<Option<Timestamp>>,
}

impl Edit {
    pub(super) fn check(&self) -> Result<()> {
        if let Some(content) = &self.content {
            check_content(content)?;
        }
        check_reason("supersede_reason", self.reason.as_deref())
    }
}

pub(super) fn check_content(content: &str) -> Result<()> {
    match content.len() {
        1..=LONGEST_CONTENT => Ok(()),
        bytes => Err(MemoryError::Content(bytes)),
    }
}

pub(super) fn check_reason(field: &'static str, reason: Option<&str>) -> Result<()> {
    match reason {
        Some(reason) if reason.chars().nth(LONGEST_REASON).is_some() => {
            Err(MemoryError::Reason(field))
        }
        _ => Ok(()),
    }
}

words! {
    /// What a person says of a pending entry.
    #[schemars(rename = "MemoryVerdict")]
    pub enum Verdict {
        /// It is fine.
        Approve = "approve",
        /// It is not.
        Reject = "reject",
    }
}

/// Who acts when, and the id for what is made.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) now: Timestamp,
    pub(super) by: Actor,
    pub(super) id: MemoryId,
    /// The team may have one more active entry.
    pub(super) room: bool,
    /// So many lessons were saved in the same task.
    pub(super) lessons: usize,
}

/// Rows to write and rows to remove, together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// What the act was about, as it is now.
    pub(super) entry: Entry,
    /// All rows that changed, that one among them.
    pub(super) put: Vec<Entry>,
    /// Old versions that make room.
    pub(super) removed: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    pub entry: Entry,
    /// It said the same before; there is no new version.
    pub unchanged: bool,
}

/// The versions of one key, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain(pub(super) Vec<Entry>);

impl Chain {
    pub(super) fn active(&self) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.active)
    }

    pub(super) fn proposal(&self) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.is_proposal())
    }

    pub(super) fn get(&self, id: &MemoryId) -> Result<&Entry> {
        self.0.iter().find(|entry| entry.id == *id).ok_or_else(|| MemoryError::Unknown(id.clone()))
    }

    /// Saves. `raced`: another save under the key was under way when this one was asked for. Without a change, the
    /// same call was made before, or the entry says the same already.
    pub(super) fn save(
        &self,
        draft: Draft,
        act: Act,
        raced: bool,
    ) -> Result<(Saved, Option<Change>)> {
        let same_call = |entry: &&Entry| draft.call.is_some() && entry.call == draft.call;
        if let Some(entry) = self.0.iter().find(same_call) {
            return Ok((Saved { entry: entry.clone(), unchanged: false }, None));
        }
        let active = self.active();
        let says_the_same = |entry: &&Entry| {
            entry.content == draft.content && draft.kind.is_none_or(|kind| kind == entry.kind)
        };
        let is_untrusted = draft.provenance.label == Label::Untrusted;
        let proposed = self.proposal().filter(|_| is_untrusted);
        if let Some(entry) = active.into_iter().chain(proposed).find(says_the_same) {
            return Ok((Saved { entry: entry.clone(), unchanged: true }, None));
        }
        if let Some(active) = active {
            // What nobody has looked at is read by searching, where it is quoted as what it is.
            let current = if active.is_untrusted() {
                "(not reviewed yet; search for it to read it)"
            } else {
                &excerpt::line(&active.content, SHOWN)
            };
            let (key, current) = (active.key.to_string(), current.to_owned());
            if raced {
                return Err(MemoryError::Raced { key, current });
            }
            if draft.reason.is_none() {
                return Err(MemoryError::Exists { key, current });
            }
        }
        let mut entry = self.new_version(&act, active, &draft.key, &draft.team);
        entry.content = draft.content;
        entry.kind = draft.kind.unwrap_or(entry.kind);
        entry.supersede_reason = draft.reason.filter(|_| active.is_some());
        entry.provenance = draft.provenance;
        entry.sources = draft.sources;
        entry.call = draft.call;
        entry.expires_at = draft.expires_at.or(entry.expires_at);
        if draft.looks_back && entry.kind == Kind::Lesson {
            let named = |source: &String| !source.trim().is_empty();
            if !entry.sources.iter().any(named) {
                return Err(MemoryError::Unsourced);
            }
            if act.lessons >= MOST_LESSONS {
                return Err(MemoryError::Lessons);
            }
        }
        if is_untrusted {
            entry.review = Review::Pending;
        }
        let change = if is_untrusted && active.is_some_and(|active| !active.is_untrusted()) {
            self.propose(entry, &act)
        } else {
            self.replace(entry, &act)?
        };
        Ok((Saved { entry: change.entry.clone(), unchanged: false }, Some(change)))
    }

    /// Ends the active version, and what would take its place. False if none was active; true without a change if the
    /// same call did it before.
    pub(super) fn delete(
        &self,
        act: &Act,
        note: Option<String>,
        call: Option<&str>,
    ) -> (bool, Option<Change>) {
        let same_call = |entry: &Entry| call.is_some() && entry.deleted_by_call.as_deref() == call;
        if self.0.iter().any(same_call) {
            return (true, None);
        }
        let Some(active) = self.active() else { return (false, None) };
        let delete = |entry: &Entry| {
            let mut ended = end(entry, act, note.as_deref().unwrap_or("deleted"));
            ended.deleted_by_call = call.map(ToOwned::to_owned);
            ended
        };
        let entry = delete(active);
        let put = [entry.clone()].into_iter().chain(self.proposal().map(delete)).collect();
        (true, Some(Change { entry, put, removed: Vec::new() }))
    }

    /// Ends one version that is active or proposed.
    pub(super) fn deactivate(
        &self,
        id: &MemoryId,
        act: &Act,
        note: Option<&str>,
    ) -> Result<Change> {
        let entry = self.get(id)?;
        if !entry.active && !entry.is_proposal() {
            return Err(MemoryError::State(format!("`{id}` is not active any more")));
        }
        Ok(Change::of(end(entry, act, note.unwrap_or("deleted"))))
    }

    /// Makes a new version of the active one, or changes only when it ends.
    pub(super) fn edit(&self, id: &MemoryId, edit: Edit, act: &Act) -> Result<Change> {
        let active = self.current(id)?;
        let content = edit.content.filter(|content| *content != active.content);
        let kind = edit.kind.filter(|kind| *kind != active.kind);
        let expires_at = edit.expires_at.unwrap_or(active.expires_at);
        if content.is_none() && kind.is_none() {
            let mut entry = touch(active, act);
            entry.expires_at = expires_at;
            return Ok(Change::of(entry));
        }
        let mut entry = self.new_version(act, Some(active), &active.key, &active.team);
        entry.content = content.unwrap_or_else(|| active.content.clone());
        entry.kind = kind.unwrap_or(active.kind);
        entry.expires_at = expires_at;
        let reason = edit.reason.unwrap_or_else(|| "edited by operator".to_owned());
        entry.supersede_reason = Some(reason);
        self.replace(entry, act)
    }

    /// Makes a new version with the content of an old one.
    pub(super) fn rollback(&self, id: &MemoryId, act: &Act) -> Result<Change> {
        let target = self.get(id)?;
        if target.active {
            return Err(MemoryError::State(format!("`{id}` is the active version already")));
        }
        let active = self.active();
        let mut entry = self.new_version(act, active, &target.key, &target.team);
        entry.content.clone_from(&target.content);
        entry.kind = target.kind;
        entry.pinned = active.unwrap_or(target).pinned;
        entry.expires_at = None;
        entry.supersede_reason = Some(format!("rollback to {id}"));
        entry.rollback_to = Some(id.clone());
        self.replace(entry, act)
    }

    /// Says whether a pending version can be believed. Approved, a proposal takes its place.
    pub(super) fn review(
        &self,
        id: &MemoryId,
        verdict: Verdict,
        note: Option<String>,
        act: &Act,
    ) -> Result<Change> {
        let pending = self.get(id)?;
        if pending.review != Review::Pending {
            return Err(MemoryError::State(match &pending.reviewed {
                Some(Remark { by, .. }) => {
                    format!("`{id}` was {} already, by {by}", pending.review.as_str())
                }
                None => format!("`{id}` needs no review"),
            }));
        }
        if !pending.active && !pending.is_proposal() {
            return Err(MemoryError::State(format!(
                "`{id}` is not current any more; there is nothing to decide"
            )));
        }
        let mut entry = match verdict {
            Verdict::Reject => end(pending, act, "rejected"),
            Verdict::Approve => touch(pending, act),
        };
        entry.reviewed = Some(act.remark(note));
        entry.review = match verdict {
            Verdict::Reject => Review::Rejected,
            Verdict::Approve => Review::Approved,
        };
        if verdict == Verdict::Reject || pending.active {
            return Ok(Change::of(entry));
        }
        if let Some(active) = self.active() {
            entry.supersedes_id = Some(active.id.clone());
            entry.pinned = active.pinned;
        }
        self.replace(entry, act)
    }

    /// Approves a pending version in other words: those of the person are a version of their own, and what
    /// was written stays in the chain.
    pub(super) fn correct(
        &self,
        id: &MemoryId,
        content: String,
        note: Option<String>,
        act: &Act,
    ) -> Result<Change> {
        if self.get(id)?.content == content {
            return self.review(id, Verdict::Approve, note, act);
        }
        let rejected = self.review(id, Verdict::Reject, note.clone(), act)?.entry;
        let active = self.active();
        let mut entry = self.new_version(act, active, &rejected.key, &rejected.team);
        entry.content = content;
        entry.kind = rejected.kind;
        entry.expires_at = rejected.expires_at;
        entry.supersede_reason = Some(format!("review of {id} in other words"));
        entry.review = Review::Approved;
        entry.reviewed = Some(act.remark(note));
        let mut change = self.replace(entry, act)?;
        change.put.retain(|former| former.id != *id);
        change.put.insert(0, rejected);
        Ok(change)
    }

    /// Puts the active version before others in prompts, or no longer.
    pub(super) fn pin(&self, id: &MemoryId, pinned: bool, act: &Act) -> Result<Change> {
        let mut entry = touch(self.current(id)?, act);
        entry.pinned = pinned;
        Ok(Change::of(entry))
    }

    /// Ends the active version if its time is over.
    pub(super) fn expire(&self, act: &Act) -> Option<Change> {
        let over = |entry: &&Entry| entry.expires_at.is_some_and(|at| at <= act.now);
        let active = self.active().filter(over)?;
        Some(Change::of(end(active, act, "expired")))
    }

    /// The active version, if it is this one.
    fn current(&self, id: &MemoryId) -> Result<&Entry> {
        let entry = self.get(id)?;
        if entry.active {
            return Ok(entry);
        }
        Err(MemoryError::State(if entry.is_proposal() {
            format!("`{id}` is a proposal; approve or reject it first")
        } else {
            format!("`{id}` is not the active version; roll back to it instead")
        }))
    }

    /// A version after all others, of an operator unless something else is said.
    fn new_version(&self, act: &Act, active: Option<&Entry>, key: &Key, team: &TeamKey) -> Entry {
        Entry {
            id: act.id.clone(),
            team: team.clone(),
            key: key.clone(),
            version: self.0.last().map_or(1, |entry| entry.version + 1),
            content: String::new(),
            kind: active.map_or(Kind::Context, |active| active.kind),
            active: true,
            supersedes_id: active.map(|active| active.id.clone()),
            supersede_reason: None,
            rollback_to: None,
            provenance: act.by.provenance(),
            sources: Vec::new(),
            review: Review::NotNeeded,
            reviewed: None,
            pinned: active.is_some_and(|active| active.pinned),
            expires_at: active.and_then(|active| active.expires_at),
            ended: None,
            updated_by: act.by.clone(),
            created_at: act.now,
            updated_at: act.now,
            call: None,
            deleted_by_call: None,
        }
    }

    /// Puts a version in the place of the active one.
    fn replace(&self, mut entry: Entry, act: &Act) -> Result<Change> {
        entry.active = true;
        let former = self.active();
        if former.is_none() && !act.room {
            return Err(MemoryError::Full);
        }
        Ok(self.add(entry, former, act))
    }

    /// Puts a version beside the active one, in the place of an earlier proposal.
    fn propose(&self, mut entry: Entry, act: &Act) -> Change {
        entry.active = false;
        self.add(entry, self.proposal(), act)
    }

    fn add(&self, entry: Entry, former: Option<&Entry>, act: &Act) -> Change {
        let mut put: Vec<_> =
            former.map(|former| end(former, act, "superseded")).into_iter().collect();
        put.push(entry.clone());
        Change { removed: self.surplus(&entry, former), entry, put }
    }

    /// The oldest versions beyond the most there may be. What counts, waits or was brought back stays.
    fn surplus(&self, new: &Entry, former: Option<&Entry>) -> Vec<Entry> {
        let is_new = self.0.iter().all(|entry| entry.id != new.id);
        let surplus = (self.0.len() + usize::from(is_new)).saturating_sub(MOST_VERSIONS);
        let brought_back = |id: &MemoryId| {
            let versions = self.0.iter().chain([new]);
            versions.filter_map(|entry| entry.rollback_to.as_ref()).any(|target| target == id)
        };
        let may_go = |entry: &&Entry| {
            let is_former = former.is_some_and(|former| former.id == entry.id);
            !is_former
                && entry.id != new.id
                && !entry.active
                && !entry.is_proposal()
                && !brought_back(&entry.id)
        };
        self.0.iter().filter(may_go).take(surplus).cloned().collect()
    }
}

impl Change {
    fn of(entry: Entry) -> Self {
        Self { put: vec![entry.clone()], entry, removed: Vec::new() }
    }
}

impl Act {
    fn remark(&self, note: Option<String>) -> Remark {
        Remark { at: self.now, by: self.by.clone(), note }
    }
}

fn touch(entry: &Entry, act: &Act) -> Entry {
    Entry { updated_at: act.now, updated_by: act.by.clone(), ..entry.clone() }
}

fn end(entry: &Entry, act: &Act, note: &str) -> Entry {
    Entry { active: false, ended: Some(act.remark(Some(note.to_owned()))), ..touch(entry, act) }
}

#[cfg(test)]
mod tests;
