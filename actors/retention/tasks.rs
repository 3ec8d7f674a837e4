//! Retention of ended tasks: they go with their places in the order of ends and in the log of conversations.

use super::{
    journals::Journals,
    slice::{Needed, Slice},
    terms::Cut,
    walk::Walk,
};
use crate::{
    clock::Timestamp,
    conversation_log::ConversationEntry,
    router::audit::AuditRow,
    storage::{Storage, StorageError},
    store::{
        keys::key_of,
        reads::{Range, contains, get, parse},
        records::Record as _,
    },
    task::{
        Task,
        records::{EndedTask, FinishedTask},
    },
};

/// Removes those whose time has come, and has their journals looked at.
pub(super) fn due(
    walk: &mut Walk<'_, '_>,
    cut: Cut,
    needed: &Needed,
    removed: &mut u64,
    journals: &mut Journals,
) -> Result<bool, StorageError> {
    let storage = walk.storage;
    let due = Range::<EndedTask>::all().until(&cut.tasks);
    walk.all(due.bounds(), &mut |key, _, slice| {
        let due = parse::<EndedTask>(key).map(|(_, _, id)| id);
        let Some(id) = due.filter(|id| !needed.tasks.contains(id)) else { return };
        match get::<FinishedTask<'_>>(storage, &id) {
            Ok(Some(FinishedTask(task))) if has_ended_before(&task, cut.tasks) => {
                *removed += 1;
                journals.add_lane(task.lane_key());
                forget(&task, cut, slice, journals);
            }
            // Only its place in the order of ends was left.
            Ok(None) => slice.drop_keys([key.to_vec()]),
            // A damaged one was reported, and is left alone.
            Ok(Some(_)) | Err(_) => {}
        }
    })
}

/// The same by looking at all tasks.
pub(super) fn all(
    walk: &mut Walk<'_, '_>,
    cut: Cut,
    needed: &Needed,
    removed: &mut u64,
    journals: &mut Journals,
) -> Result<bool, StorageError> {
    let storage = walk.storage;
    walk.rows(Range::all(), &mut |_, FinishedTask(task), slice| {
        if has_ended_before(&task, cut.tasks) && !needed.tasks.contains(&task.id) {
            *removed += 1;
            forget(&task, cut, slice, journals);
        } else {
            log_message(storage, needed, &task, slice);
        }
    })
}

fn has_ended_before(task: &Task, cut: Timestamp) -> bool {
    let outcome = task.outcome.as_ref();
    outcome.is_some_and(|outcome| outcome.finished_at < cut)
}

/// That a task was let in is known for longer than the task.
fn forget(task: &Task, cut: Cut, slice: &mut Slice, journals: &mut Journals) {
    journals.note_removed(task, cut);
    let keys = [key_of(FinishedTask::KIND, &task.id), EndedTask::stored_key(task)].into_iter();
    slice.drop_keys(keys.chain(ConversationEntry::stored_key(task)));
    if let Some(row) = AuditRow::of_task(task)
        && row.at >= cut.audit
    {
        slice.writes = std::mem::take(&mut slice.writes).put(&row);
    }
}

/// A message of a former version, which kept no log of conversations, gets its entry while its topic is there.
fn log_message(storage: &dyn Storage, needed: &Needed, task: &Task, slice: &mut Slice) {
    if let Some(key) = ConversationEntry::key_of(task)
        && needed.topics.contains(key.0.as_str())
        && let Ok(false) = contains::<ConversationEntry>(storage, &key)
    {
        slice.put_at(&key, &ConversationEntry::Message);
    }
}
