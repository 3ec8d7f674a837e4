//! Lists of ended tasks: they lie in the hot tier of the store first and in the archive later, and this is the one place
//! that asks both.

use std::{collections::HashSet, ops::ControlFlow};

use super::{
    Task,
    query::{TaskCounts, TaskFacet, TaskPage, TaskQuery, TaskWindow},
    records::{FinishedTask, find},
};
use crate::{
    ids::TaskId,
    storage::{Order, Storage, StorageError},
    store::{
        reads::{Range, get_readable, parse, report},
        records::decode,
    },
};

/// The wanted part of the list of ended tasks, but those that the caller has already. Blocks.
pub fn ended(
    storage: &dyn Storage,
    wanted: &TaskQuery,
    window: &TaskWindow,
    mut known: HashSet<TaskId>,
) -> Result<TaskPage, StorageError> {
    let mut page = TaskPage::default();
    if !wanted.wants_ended() {
        return Ok(page);
    }
    let mut see = |task: &Task| {
        if wanted.holds(task) {
            let place = (task.created_at, task.id.clone());
            page.total += 1;
            page.places.extend(Some(place).filter(|place| window.reaches(place)));
        }
    };
    let tiers = storage.tiers();
    // In this order: what moves meanwhile is found in both, and never in none.
    outside_archive(storage, &mut known, &mut see)?;
    // The first task of all is found by its id, not by what it comes of.
    if let (Some(root), Some(_)) = (&wanted.root, tiers)
        && known.insert(root.clone())
        && let Some(FinishedTask(task)) = get_readable::<FinishedTask<'_>>(storage, root)?
    {
        see(&task);
    }
    match tiers {
        None => Ok(page.within(window)),
        Some(tiers) => page.joined(window, |window| tiers.lists().tasks(wanted, window, &known)),
    }
}

/// Shows the ended tasks that are not in the archive, but those that are known; then they are known, too. What is
/// pending counts, also if it cannot be read or was removed.
fn outside_archive(
    storage: &dyn Storage,
    known: &mut HashSet<TaskId>,
    see: &mut dyn FnMut(&Task),
) -> Result<(), StorageError> {
    let all = Range::<FinishedTask<'_>>::all();
    let mut is_new = |key: &[u8]| parse::<FinishedTask<'_>>(key).is_some_and(|id| known.insert(id));
    let Some(tiers) = storage.tiers() else {
        return all.walk(storage, Order::Rising, &mut |key, task| {
            if let (true, Ok(FinishedTask(task))) = (is_new(key), task) {
                see(&task);
            }
            ControlFlow::Continue(())
        });
    };
    let (start, end) = all.bounds();
    tiers.pending(&start, &end, &mut |key, value| {
        let is_new = is_new(key);
        match value.filter(|_| is_new).map(|value| decode::<Task>(key, value)) {
            Some(Ok(task)) => see(&task),
            Some(Err(error)) => report(storage, key, &error),
            // It was seen before, or removed.
            None => {}
        }
    });
    Ok(())
}

/// How many tasks have ended, but those that the caller has already. Blocks.
pub fn count_ended(
    storage: &dyn Storage,
    mut known: HashSet<TaskId>,
) -> Result<TaskCounts, StorageError> {
    let mut counts = TaskCounts::new();
    outside_archive(storage, &mut known, &mut |task| {
        *counts.entry(TaskFacet::from(task)).or_default() += 1;
    })?;
    if let Some(tiers) = storage.tiers() {
        for (facet, count) in tiers.lists().count_tasks(&known)? {
            *counts.entry(facet).or_default() += count;
        }
    }
    Ok(counts)
}

/// The ended tasks themselves that are wanted, as far as they can be read. Blocks.
pub fn ended_tasks(
    storage: &dyn Storage,
    wanted: &TaskQuery,
    window: &TaskWindow,
) -> Result<Vec<Task>, StorageError> {
    let mut tasks = Vec::new();
    for (_, id) in ended(storage, wanted, window, HashSet::new())?.places {
        tasks.extend(find_readable(storage, &id)?);
    }
    Ok(tasks)
}

/// A task, open or finished; none also if it cannot be read, which is reported. Blocks.
pub fn find_readable(storage: &dyn Storage, id: &TaskId) -> Result<Option<Task>, StorageError> {
    match find(storage, id) {
        Err(StorageError::Damaged { .. }) => Ok(None),
        found => found,
    }
}
