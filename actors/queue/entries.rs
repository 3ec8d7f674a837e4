//! Entries: the open tasks of the queue, by name and by team.

use std::collections::{BTreeSet, HashMap};

use tokio::sync::oneshot;

use super::messages::Placement;
use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamName},
    store::{StoreError, records::Writes},
    task::Task,
};

/// Tells that a task is stored, or why it cannot be.
pub(super) type Stored = oneshot::Sender<Result<(), StoreError>>;

/// Whoever waits for a task to be stored may have gone.
pub(super) fn tell_stored(stored: Option<Stored>, result: Result<(), StoreError>) {
    if let Some(stored) = stored {
        let _ = stored.send(result);
    }
}

/// A task without an outcome.
pub(super) struct Entry {
    pub(super) task: Box<Task>,
    /// What is to be stored with it, until it is.
    pub(super) unwritten: Option<Writes>,
    /// It was leased into a turn that was running already.
    pub(super) joined: bool,
    /// Someone wants it to end: whatever becomes of its turn, it is not run again.
    pub(super) cancelled: bool,
    pub(super) reason: Option<String>,
    /// What its turn is about to wait for has happened already.
    pub(super) unparked: bool,
    /// When it was leased, by the count of leases and cures.
    pub(super) leased: u64,
    /// Its team is signalled again then, unless it takes the lease before.
    pub(super) signal: Option<Timestamp>,
    /// Told when it is stored.
    pub(super) stored: Option<Stored>,
    /// When it was leased last, by this process.
    pub(super) leased_at: Option<Timestamp>,
    /// Where it stands, once that is decided.
    pub(super) placement: Option<Placement>,
    /// Told when it is.
    pub(super) asker: Option<oneshot::Sender<Placement>>,
}

impl Entry {
    pub(super) fn new(task: impl Into<Box<Task>>) -> Self {
        Self {
            task: task.into(),
            unwritten: None,
            joined: false,
            cancelled: false,
            reason: None,
            unparked: false,
            leased: 0,
            signal: None,
            stored: None,
            leased_at: None,
            placement: None,
            asker: None,
        }
    }
}

/// All of them. What one team has is found without a look at what the others have.
#[derive(Default)]
pub(super) struct Entries {
    all: HashMap<TaskId, Entry>,
    /// By when they arrived.
    of_teams: HashMap<TeamName, BTreeSet<(u64, TaskId)>>,
}

impl Entries {
    pub(super) fn get(&self, id: &TaskId) -> Option<&Entry> {
        self.all.get(id)
    }

    /// For changes that leave team and arrival as they are.
    pub(super) fn get_mut(&mut self, id: &TaskId) -> Option<&mut Entry> {
        self.all.get_mut(id)
    }

    pub(super) fn contains(&self, id: &TaskId) -> bool {
        self.all.contains_key(id)
    }

    /// Takes one in, in place of the one of the same name.
    pub(super) fn insert(&mut self, entry: Entry) {
        self.remove(&entry.task.id);
        let task = &entry.task;
        let team = self.of_teams.entry(task.lane.team.clone()).or_default();
        team.insert((task.arrival, task.id.clone()));
        self.all.insert(task.id.clone(), entry);
    }

    pub(super) fn remove(&mut self, id: &TaskId) -> Option<Entry> {
        let entry = self.all.remove(id)?;
        let task = &entry.task;
        if let Some(team) = self.of_teams.get_mut(&task.lane.team) {
            team.remove(&(task.arrival, task.id.clone()));
            if team.is_empty() {
                self.of_teams.remove(&task.lane.team);
            }
        }
        Some(entry)
    }

    /// In no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.all.values()
    }

    /// First come first.
    pub(super) fn of_team(&self, team: &TeamName) -> impl Iterator<Item = &Entry> {
        let ids = self.of_teams.get(team).into_iter().flatten();
        ids.filter_map(|(_, id)| self.all.get(id))
    }

    pub(super) fn ids_of_team(&self, team: &TeamName) -> Vec<TaskId> {
        self.of_team(team).map(|entry| entry.task.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Lane;

    fn task(id: &str, team: &str, arrival: u64) -> Task {
        let lane = Lane { team: team.into(), topic: None };
        let task = Task::new(id.into(), lane, String::new(), String::new(), Timestamp(0));
        Task { arrival, ..task }
    }

    #[test]
    fn what_a_team_has_is_found_in_the_order_in_which_it_came() {
        let mut entries = Entries::default();
        for (id, team, arrival) in
            [("a", "one", 3), ("b", "two", 2), ("c", "one", 1), ("a", "one", 4)]
        {
            entries.insert(Entry::new(task(id, team, arrival)));
        }

        let before = entries.ids_of_team(&"one".into());
        let removed = entries.remove(&"b".into()).map(|entry| entry.task.id);

        assert_eq!(before, ["c", "a"].map(TaskId::from));
        assert_eq!(removed, Some("b".into()));
        assert!(entries.ids_of_team(&"two".into()).is_empty());
        assert_eq!((entries.all().count(), entries.of_teams.len()), (2, 1));
    }
}
