//! Reads of what was spent: by team, by kind of call, by task.

use std::ops::ControlFlow;

use serde::de::DeserializeOwned;

use super::{
    damage::{one, row},
    reads::task,
    records, scan_prefix,
};
use crate::{
    budget::{Caller, Cost, Day, SpentRow, Tally},
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    storage::{Order, Storage, StorageError},
};

/// What each team itself has spent on a day.
pub fn spent(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, SpentRow)>, StorageError> {
    of_day(storage, "spend", day)
}

/// How often the operator has allowed each team's caps again on a day.
pub fn raised(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, u32)>, StorageError> {
    of_day(storage, "raise", day)
}

/// What the calls of each kind have come to on each day from one to another, as numbers of days.
pub fn calls(
    storage: &dyn Storage,
    from: u32,
    to: u32,
    visit: &mut dyn FnMut(u32, Caller, Tally),
) -> Result<(), StorageError> {
    let order = Order::Rising;
    tallies(storage, "use", (from, to), order, &mut |day, rest, tally| {
        let mut parts = rest.splitn(3, '\0');
        if let (Some(team), Some(profile), Some(model)) = (parts.next(), parts.next(), parts.next())
        {
            let caller =
                Caller { team: team.into(), profile: profile.to_owned(), model: model.to_owned() };
            visit(day, caller, tally);
        }
    })
}

/// What the calls for each task have come to on the days from one to another, the newest first.
///
/// A task may come more than once: the first time tells the whole. What it is shown with is what
/// [`task_calls_at`] finds it by.
pub fn task_calls(
    storage: &dyn Storage,
    (from, to): (u32, u32),
    day_of: &dyn Fn(Timestamp) -> u32,
    visit: &mut dyn FnMut(&str, TaskId, Tally),
) -> Result<(), StorageError> {
    let prefix = records::ended_prefix();
    scan_prefix(storage, &prefix, Order::Falling, &mut |key, value| {
        let value = value.unwrap_or_default();
        let Some(ended) = records::ended_task(key, value) else {
            return ControlFlow::Continue(());
        };
        let day = day_of(ended.at);
        if day < from {
            return ControlFlow::Break(());
        }
        if day <= to
            && let Some(tally) = records::ended_tally(value)
        {
            visit(AT_END, ended.id, tally);
        }
        ControlFlow::Continue(())
    })?;
    let order = Order::Falling;
    tallies(storage, "use-task", (from, to), order, &mut |day, task, tally| {
        visit(&day.to_string(), task.into(), tally)
    })
}

/// What was noted at the end of a task, not on a day.
const AT_END: &str = "end";

/// What the calls for a task have come to on a day, or at its end.
pub fn task_calls_at(
    storage: &dyn Storage,
    place: &str,
    id: &str,
) -> Result<Option<Tally>, StorageError> {
    if place != AT_END {
        return one(storage, &records::join(&["use-task", place, id]));
    }
    let Some(task) = task(storage, &id.into())? else {
        return Ok(None);
    };
    let value = storage.get(&records::ended_key(&task))?;
    Ok(value.and_then(|value| records::ended_tally(&value)))
}

fn tallies(
    storage: &dyn Storage,
    kind: &str,
    (from, to): (u32, u32),
    order: Order,
    visit: &mut dyn FnMut(u32, &str, Tally),
) -> Result<(), StorageError> {
    let start = records::join(&[kind, &from.to_string()]);
    let end = records::after_prefix(&records::prefix(&[kind, &to.to_string()]));
    let skip = records::prefix(&[kind]).len();
    if start >= end {
        return Ok(());
    }
    storage.scan(&start, &end, order, &mut |key, value| {
        let named = std::str::from_utf8(&key[skip..]).ok();
        let parts = named.and_then(|name| name.split_once('\0'));
        if let Some((day, rest)) = parts
            && let Ok(day) = day.parse()
            && let Some(tally) = row(storage, key, value)
        {
            visit(day, rest, tally);
        }
        ControlFlow::Continue(())
    })
}

/// Teams of which was told on a day that their budget is nearly spent.
pub fn warned(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, bool)>, StorageError> {
    of_day(storage, "warned", day)
}

/// What tasks have cost where that is limited.
pub fn costs(storage: &dyn Storage) -> Result<Vec<Cost>, StorageError> {
    let mut costs = Vec::new();
    let prefix = records::costs_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        costs.extend(row::<Cost>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    Ok(costs)
}

fn of_day<T: DeserializeOwned>(
    storage: &dyn Storage,
    kind: &str,
    day: Day,
) -> Result<Vec<(TeamKey, T)>, StorageError> {
    let prefix = records::day_prefix(kind, day);
    let mut rows = Vec::new();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let team = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        if let Some(row) = row(storage, key, value) {
            rows.push((records::team_of(&team), row));
        }
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}
