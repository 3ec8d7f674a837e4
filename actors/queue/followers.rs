//! Followers: tasks whose words the turn of another task has taken in. They wait with that task and are leased with it, so
//! that nobody acts on the words twice.

use super::{Placement, Queue, entries::Entry, schedule::Ticket};
use crate::{
    ids::{LeaseId, TaskId},
    store::records::Writes,
    task::Task,
};

impl Queue {
    /// Whether a task waits with another one, which is noted then. One whose leader has ended waits for a turn of its own.
    pub(super) fn follows(&mut self, task: &mut Task) -> bool {
        let Some(leader) = task.joined_to.clone() else { return false };
        if !self.tasks.contains(&leader) {
            leave_leader(task);
            return false;
        }
        self.followers.entry(leader).or_default().insert((task.arrival, task.id.clone()));
        true
    }

    /// Those that wait with a task, or are leased with it, first come first.
    pub(super) fn followers_of(&self, leader: &TaskId) -> Vec<TaskId> {
        let followers = self.followers.get(leader).into_iter().flatten();
        followers.map(|(_, id)| id.clone()).filter(|id| self.tasks.contains(id)).collect()
    }

    /// Leases what waits with a task into the turn that goes on.
    pub(super) fn lease_followers(&mut self, leader: &TaskId, mut writes: Writes) -> Writes {
        let now = self.clock.now();
        for id in self.followers_of(leader) {
            let lease = self.ids.lease();
            let Some(entry) = self.tasks.get_mut(&id).filter(|entry| entry.task.lease.is_none())
            else {
                continue;
            };
            entry.joined = true;
            entry.leased_at = Some(now);
            entry.leased = self.moment;
            entry.task.lease = Some(lease);
            entry.task.attempts += 1;
            writes = writes.put(&*entry.task);
            let task = Task::clone(&entry.task);
            self.expect_no_more(&task);
            self.placed(&id, Placement::CurrentTurn);
        }
        writes
    }

    /// What is leased with a task.
    pub(super) fn company_of(&self, leader: &TaskId) -> Vec<(Task, LeaseId)> {
        let followers = self.followers_of(leader).into_iter();
        let leased = followers.filter_map(|id| {
            let task = &self.tasks.get(&id)?.task;
            Some((Task::clone(task), task.lease.clone()?))
        });
        leased.collect()
    }

    /// The lease of a task was not stored, nor were those with it.
    pub(super) fn unlease_followers(&mut self, leader: &TaskId) {
        for (task, _) in self.company_of(leader) {
            let task = Task { lease: None, ..task };
            self.expect(&task);
            self.tasks.insert(Entry::new(task));
        }
    }

    /// A task has ended: it follows nobody any more, and what waits with it waits for turns of its own, before others of the
    /// lane.
    pub(super) fn unfollow(&mut self, ended: &Task) {
        if let Some(leader) = &ended.joined_to
            && let Some(followers) = self.followers.get_mut(leader)
        {
            followers.remove(&(ended.arrival, ended.id.clone()));
        }
        let mut writes = Writes::new();
        // Each goes to the front: the first of them last.
        for (_, id) in self.followers.remove(&ended.id).into_iter().flatten().rev() {
            let waits = |entry: &&mut Entry| entry.task.lease.is_none();
            let Some(entry) = self.tasks.get_mut(&id).filter(waits) else { continue };
            leave_leader(&mut entry.task);
            self.schedule.put_back(&entry.task.lane, Ticket::from(&*entry.task), None);
            writes = writes.put(&*entry.task);
        }
        if !writes.is_empty() {
            drop(self.store.commit(writes));
        }
    }
}

/// A task is to have a turn of its own. The attempts so far were those of the task that it followed.
fn leave_leader(task: &mut Task) {
    task.joined_to = None;
    task.attempts = 0;
}
