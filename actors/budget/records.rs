//! Records of what was spent: by team, by kind of call, by task.

use std::{collections::HashSet, ops::ControlFlow};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Caller, Cost, Day, Spent, SpentRow, Tally, query::UsageQuery};
use crate::{
    ids::{TaskId, TeamKey, TeamName},
    live::event::{Event, Kind},
    storage::{Order, Storage, StorageError, Tiers},
    store::{
        keys::{Beginning, Key, KeyReader, KeyWriter, Life, Parts, PrefixOf, key_of},
        reads::{Range, get, parse, scan_keyed},
        records::{Keyed, Record, Writes, decode, digest, encode},
    },
    task::{
        Kind as TaskKind, Task,
        records::{EndedTask, FinishedTask, find},
    },
};

/// A day in a key, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayKey(pub u32);

impl Parts for DayKey {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&self.0.to_string());
    }
}

impl Key for DayKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        key.text()?.parse().ok().map(Self)
    }
}

crate::records! {
    /// What a team itself has spent on a day.
    SpentRow: "spend", (DayKey, Life);
    Raised: "raise", (DayKey, Life);
    Warned: "warned", (DayKey, TeamName);
    /// What the calls of one kind have come to on a day.
    Tally: "use", (DayKey, Life, String, String);
    TaskCalls: "use-task", (DayKey, TaskId);
    /// By what they were for.
    PurposeCalls: "use-for", (DayKey, String);
    /// What a task itself has cost, kept until all that its first task led to has ended.
    /// The first task, and the task.
    Cost: "cost", (TaskId, TaskId);
}

/// How often the operator has allowed a team's caps again on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raised(pub u32);

/// The operator was told on a day that a team's budget is nearly spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Warned(pub bool);

/// What the calls for a task that has not ended have come to, as of a day.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskCalls(pub Tally);

/// What calls beside the work of teams have come to on a day. They are also among those of their team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PurposeCalls(pub Tally);

impl Keyed for Cost {
    fn key(&self) -> Self::Key {
        let of = |task: Option<&TaskId>| task.cloned().unwrap_or_else(|| "".into());
        (of(self.tasks.first()), of(self.tasks.last()))
    }
}

/// What tasks of one first task have cost counts no more.
pub fn forget_costs(root: &TaskId, tasks: &[TaskId]) -> Writes {
    tasks.iter().fold(Writes::new(), |writes, task| writes.delete::<Cost>(&(root, task)))
}

/// What the calls of one kind have come to on a day. `own` is what their team itself has spent.
pub fn calls(day: Day, caller: &Caller, tally: &Tally, own: &Spent) -> Writes {
    let Caller { team, profile, model } = caller.clone();
    let data = json!({ "day": day.date(), "usd": own.usd, "tokens": own.tokens });
    let told = Event::new(Kind::UsageChanged, data).of_team(&team.name);
    Writes::new().put_at(&(DayKey(day.number), Life(team), profile, model), tally).tell(told)
}

/// What the calls for a task have come to, once it has ended: with the order of ends.
pub fn ended_calls(task: &Task, tally: &Tally) -> Writes {
    let (key, mark) = (EndedTask::key_of(task), EndedTask::mark(task.kind));
    match encode(tally) {
        Ok(tally) => Writes::new().put_bytes::<EndedTask>(&key, [mark, &tally].concat()),
        Err(error) => Writes::new().refused(&EndedTask::stored_key(task), &error),
    }
}

/// What the calls for an ended task came to, as its record says. Records of former versions don't.
pub fn ended_tally(value: &[u8]) -> Option<Tally> {
    let mark = EndedTask::mark(TaskKind::Chat);
    let tally = value.strip_prefix(mark).unwrap_or(value);
    serde_json::from_slice(tally).ok()
}

/// What each team has on a day.
pub fn of_day<R>(storage: &dyn Storage, day: Day) -> Result<Vec<(TeamKey, R)>, StorageError>
where
    R: Record<Key = (DayKey, Life)> + serde::de::DeserializeOwned,
{
    let rows = scan_keyed::<R>(storage, Range::under(&(&DayKey(day.number),)))?;
    Ok(rows.into_iter().map(|((_, Life(team)), row)| (team, row)).collect())
}

/// Teams of which was told on a day that their budget is nearly spent.
pub fn warned(storage: &dyn Storage, day: Day) -> Result<Vec<TeamName>, StorageError> {
    let rows = scan_keyed::<Warned>(storage, Range::under(&(&DayKey(day.number),)))?;
    Ok(rows.into_iter().map(|((_, team), _)| team).collect())
}

/// Rows from one day to another, as numbers of days.
fn days_of<R: Record>(from: u32, to: u32) -> Range<R>
where
    for<'a> (&'a DayKey,): PrefixOf<R::Key>,
{
    Range::all().since(&Beginning(&from.to_string())).through(&(&DayKey(to),))
}

/// What the calls of each kind have come to on each day from one to another, as numbers of days.
pub fn each_call(
    storage: &dyn Storage,
    from: u32,
    to: u32,
    visit: &mut dyn FnMut(u32, Caller, Tally),
) -> Result<(), StorageError> {
    let calls = days_of::<Tally>(from, to);
    calls.for_each_keyed(storage, &mut |(DayKey(day), Life(team), profile, model), tally| {
        visit(day, Caller { team, profile, model }, tally);
    })
}

/// Shows what calls beside the work of teams have come to on the days that are wanted, by what they were for. Blocks.
pub fn each_purpose(
    storage: &dyn Storage,
    from: u32,
    to: u32,
    visit: &mut dyn FnMut(String, Tally),
) -> Result<(), StorageError> {
    let calls = days_of::<PurposeCalls>(from, to);
    calls.for_each_keyed(storage, &mut |(_, purpose), PurposeCalls(tally)| visit(purpose, tally))
}

/// What the calls for tasks have come to on the days that are wanted, as far as the archive does not say it, or not as it
/// is now. A task is shown with what [`task_calls_at`] finds it by.
///
/// Returns the tasks whose ends were looked at here, which the archive need not show. Blocks.
pub fn each_task_calls(
    storage: &dyn Storage,
    UsageQuery { days: (from, to), moments: (since, until), .. }: &UsageQuery,
    visit: &mut dyn FnMut(&str, &TaskId, &Tally),
) -> Result<HashSet<TaskId>, StorageError> {
    let (mut known, mut shown) = (HashSet::new(), HashSet::new());
    let tiers = storage.tiers();
    let mut see_end = |key: &[u8], value: Option<&[u8]>| {
        let Some((at, _, id)) = parse::<EndedTask>(key) else { return };
        let tally = value.filter(|_| (since..=until).contains(&&at)).and_then(ended_tally);
        if let Some(tally) = tally.filter(|_| shown.insert(digest(id.as_str()))) {
            visit(AT_END, &id, &tally);
        }
        known.insert(id);
    };
    match tiers {
        Some(tiers) => pending_ends(storage, tiers)?
            .iter()
            .for_each(|(key, value)| see_end(key, value.as_deref())),
        None => Range::<EndedTask>::all().visit(storage, Order::Falling, &mut |key, value| {
            see_end(key, value.ok());
            ControlFlow::Continue(())
        })?,
    }
    days_of::<TaskCalls>(*from, *to).try_walk(storage, Order::Falling, &mut |key, tally| {
        let (Some((DayKey(day), id)), Ok(TaskCalls(tally))) = (parse::<TaskCalls>(key), tally)
        else {
            return Ok(ControlFlow::Continue(()));
        };
        // At its end, and else on its last day, a task says the whole.
        let ended =
            tiers.filter(|_| !known.contains(&id)).map(|tiers| tiers.lists().usage_known_at(&id));
        let ended = ended.transpose()?.flatten();
        let is_said = ended.is_some_and(|at| (since..=until).contains(&&at));
        if !is_said && shown.insert(digest(id.as_str())) {
            visit(&day.to_string(), &id, &tally);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(known)
}

/// The stored key of an end, and its value unless it was removed.
type StoredEnd = (Vec<u8>, Option<Vec<u8>>);

/// The ends of tasks that are not in the archive, with those whose tasks are not: the archive finds an end by its task.
fn pending_ends(storage: &dyn Storage, tiers: &dyn Tiers) -> Result<Vec<StoredEnd>, StorageError> {
    let (mut ends, mut ids, mut alone) = (Vec::new(), HashSet::new(), Vec::new());
    // In this order: a task whose end moves meanwhile is still there, or in the archive like its end.
    let (start, end) = Range::<EndedTask>::all().bounds();
    tiers.pending(&start, &end, &mut |key, value| {
        ids.extend(parse::<EndedTask>(key).map(|(_, _, id)| id));
        ends.push((key.to_vec(), value.map(<[u8]>::to_vec)));
    });
    let (start, end) = Range::<FinishedTask<'_>>::all().bounds();
    tiers.pending(&start, &end, &mut |key, value| {
        if parse::<FinishedTask<'_>>(key).is_some_and(|id| !ids.contains(&id)) {
            alone.extend(value.and_then(|value| decode::<Task>(key, value).ok()));
        }
    });
    for key in alone.iter().map(EndedTask::stored_key) {
        let value = storage.get(&key)?;
        ends.push((key, value));
    }
    Ok(ends)
}

/// What was noted at the end of a task, not on a day.
pub const AT_END: &str = "end";

/// What the calls for a task have come to on a day, or at its end.
pub fn task_calls_at(
    storage: &dyn Storage,
    place: &str,
    id: &str,
) -> Result<Option<Tally>, StorageError> {
    let id = TaskId::from(id);
    if place != AT_END {
        let Ok(day) = place.parse() else { return Ok(None) };
        return Ok(get::<TaskCalls>(storage, &(DayKey(day), id))?.map(|TaskCalls(tally)| tally));
    }
    let Some(task) = find(storage, &id)? else { return Ok(None) };
    let value = storage.get(&key_of(EndedTask::KIND, &EndedTask::key_of(&task)))?;
    Ok(value.and_then(|value| ended_tally(&value)))
}
