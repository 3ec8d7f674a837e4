//! Usage of archived tasks: columns of theirs that come from their ends, and the lists by cost.
//!
//! What a task came to stands in the record of its end, and is listed by the task: its key is the shorter one, and the order
//! of those that cost the same. A day here is one of UTC. A list is the merge of one range of an index for each day; of the
//! first and the last one, which are not wanted whole, tasks are looked at.

use std::collections::HashSet;

use hivewright_actors::{
    budget::{
        query::{UsagePlace, UsageQuery, UsageRank},
        records::ended_tally,
    },
    clock::Timestamp,
    ids::TaskId,
    order::{Order, Part, Window},
    store::{reads::parse, records::Record},
    task::{
        Task,
        records::{EndedTask, FinishedTask},
    },
};
use rusqlite::{Connection, OptionalExtension, params, types::Value};

use super::{
    keys::Keys,
    listing::{self, directions},
    merging::{Bound, Rank, Stream},
    together::{Beside, Together},
};

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// The columns of a task: its day, when it ended, and what it came to, if its end is there.
pub(super) fn columns(
    connection: &Connection,
    keys: Keys,
    task: &Task,
    beside: &mut Beside<'_>,
) -> rusqlite::Result<[Value; 4]> {
    let Some(outcome) = &task.outcome else { return Ok([const { Value::Null }; 4]) };
    let ended = outcome.finished_at.0.cast_signed();
    let key = EndedTask::stored_key(task);
    let [usd, requests] = match beside.together.end(&key) {
        Some(end) => tally(Some(end)),
        None => tally(end(connection, keys, &key, beside)?.as_deref()),
    };
    Ok([(ended / DAY).into(), ended.into(), usd, requests])
}

/// The end of a task that is there already.
fn end(
    connection: &Connection,
    keys: Keys,
    key: &[u8],
    beside: &mut Beside<'_>,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let rest = key.get(EndedTask::KIND.len() + 1..).unwrap_or_default();
    let rest = keys.stored(EndedTask::KIND, rest);
    let mut select = connection.prepare_cached(r#"SELECT value FROM "end" WHERE key = ?1"#)?;
    let packed: Option<Vec<u8>> = select.query_row(params![rest], |row| row.get(0)).optional()?;
    Ok(packed.and_then(|packed| beside.unpacker.unpack(key, &packed).ok()))
}

fn tally(end: Option<&[u8]>) -> [Value; 2] {
    end.and_then(ended_tally).map_or([const { Value::Null }; 2], |tally| {
        [tally.usd.into(), tally.requests.cast_signed().into()]
    })
}

/// Notes what the end of a task says now. A task that is taken in at once has it from there.
pub(super) fn note(
    connection: &Connection,
    keys: Keys,
    key: &[u8],
    value: Option<&[u8]>,
    together: &Together<'_>,
) -> rusqlite::Result<()> {
    let Some((at, _, id)) = parse::<EndedTask>(key) else { return Ok(()) };
    if together.has_task(&id) {
        return Ok(());
    }
    let [usd, requests] = tally(value);
    let mut update = connection
        .prepare_cached("UPDATE done SET usd = ?3, requests = ?4 WHERE key = ?1 AND ended = ?2")?;
    update.execute(params![keys.of_task(&id), at.0.cast_signed(), usd, requests]).map(drop)
}

/// When a task has ended, if it is known what it came to.
pub(super) fn known_at(
    connection: &Connection,
    keys: Keys,
    task: &TaskId,
) -> rusqlite::Result<Option<Timestamp>> {
    let mut select =
        connection.prepare_cached("SELECT ended FROM done WHERE key = ?1 AND +usd IS NOT NULL")?;
    let ended = select.query_row(params![keys.of_task(task)], |row| row.get::<_, i64>(0));
    Ok(ended.optional()?.map(|at| Timestamp(at.cast_unsigned())))
}

/// The wanted part of what the tasks of an archive have come to.
pub(super) fn page(
    connection: &Connection,
    keys: Keys,
    wanted: &UsageQuery,
    window: &Window<UsagePlace>,
    known: &HashSet<TaskId>,
) -> rusqlite::Result<Part<UsagePlace>> {
    let list = List::new(connection, wanted, window.order)?;
    let known = known.iter().map(|id| keys.of_task(id)).collect();
    let window = window.map(|(rank, id)| (Rank(*rank), keys.of_task(id)));
    let page = listing::page(connection, &list, &window, &known)?;
    Ok(page.filter_map(|(Rank(rank), key)| Some((rank, keys.task(&key)))))
}

/// A list of what archived tasks have come to.
struct List {
    rank: UsageRank,
    order: Order,
    /// The days of UTC on which wanted tasks may have ended.
    days: Vec<i64>,
    since: i64,
    until: i64,
}

impl List {
    fn new(connection: &Connection, wanted: &UsageQuery, order: Order) -> rusqlite::Result<Self> {
        let UsageQuery { moments: (since, until), rank, days: _ } = *wanted;
        let (since, until) = (since.0.cast_signed(), until.0.cast_signed());
        let mut days = Vec::new();
        let mut first = connection.prepare_cached(
            r#"SELECT day FROM done INDEXED BY "done.by_usd"
            WHERE usd IS NOT NULL AND day BETWEEN ?1 AND ?2 ORDER BY day LIMIT 1"#,
        )?;
        let mut from = since / DAY;
        while let Some(day) =
            first.query_row(params![from, until / DAY], |row| row.get(0)).optional()?
        {
            days.push(day);
            from = day + 1;
        }
        Ok(Self { rank, order, days, since, until })
    }

    fn is_whole(&self, day: i64) -> bool {
        self.since <= day * DAY && self.until >= (day + 1) * DAY - 1
    }

    fn bound(&self, first: i64, last: i64) -> Bound {
        vec![
            (":first", first.into()),
            (":last", last.into()),
            (":since", self.since.into()),
            (":until", self.until.into()),
        ]
    }

    /// What is asked of tasks from one day to another, all of which are wanted whole or none.
    fn within(&self, first: i64, last: i64) -> String {
        let days = if first == last { "day = :first" } else { "day BETWEEN :first AND :last" };
        let moments =
            if self.is_whole(first) { "" } else { " AND ended BETWEEN :since AND :until" };
        format!("{days} AND usd IS NOT NULL{moments}")
    }
}

impl listing::List for List {
    fn counted(&self) -> Vec<(String, Bound)> {
        let range = |day: i64| {
            let within = self.within(day, day);
            format!(r#"done INDEXED BY "done.by_usd" WHERE {within}"#)
        };
        self.days.iter().map(|day| (range(*day), self.bound(*day, *day))).collect()
    }

    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)> {
        let wanted = "+usd IS NOT NULL AND ended BETWEEN :since AND :until".to_owned();
        Ok((FinishedTask::KIND, wanted, self.bound(0, 0)))
    }

    /// The ranges that it is merged from. One that is short is sorted, where no index has its order.
    fn streams(&self, is_short: bool) -> Vec<Stream> {
        let (is_behind, order) = directions(self.order);
        let (since, until) = (self.since, self.until);
        let rank = match self.rank {
            UsageRank::Usd => "usd",
            UsageRank::Requests => "requests",
            UsageRank::Task => "0.0",
        };
        // The place first: by it a range is sought.
        let behind = |index: &str, which: &str| {
            format!(
                r#"SELECT {rank}, key FROM done INDEXED BY "{index}"
                WHERE ({rank}, key) {is_behind} (:rank, :key) AND {which}
                ORDER BY {rank} {order}, key {order} LIMIT :most OFFSET :skip"#
            )
        };
        // By its key: of all tasks, or of those with one request.
        let by_key = |rank: f64, which: &str| {
            let select = format!(
                "SELECT {rank}, key FROM done WHERE {which} AND ended BETWEEN :since AND :until
                AND key {is_behind} :key ORDER BY key {order} LIMIT :most OFFSET :skip"
            );
            Stream::new(select, self.bound(since, until)).of_one_rank(rank)
        };
        match (self.rank, is_short) {
            (UsageRank::Usd, _) => {
                let of_day = |day: &i64| {
                    let select = behind("done.by_usd", &self.within(*day, *day));
                    Stream::new(select, self.bound(*day, *day))
                };
                self.days.iter().map(of_day).collect()
            }
            (_, true) => {
                let parts = self.days.chunk_by(|a, b| self.is_whole(*a) && self.is_whole(*b));
                let of_days = |days: &[i64]| {
                    let (first, last) = (days[0], days[days.len() - 1]);
                    let select = behind("done.by_usd", &self.within(first, last));
                    Stream::new(select, self.bound(first, last)).sorted()
                };
                parts.map(of_days).collect()
            }
            (UsageRank::Task, false) => vec![by_key(0.0, "+usd IS NOT NULL")],
            (UsageRank::Requests, false) => {
                let which = "requests > 1 AND ended BETWEEN :since AND :until";
                let several = behind("done.by_requests", which);
                let several = Stream::new(several, self.bound(since, until));
                vec![several, by_key(1.0, "+requests = 1")]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{listing::List as _, *};
    use crate::storage::history::{FILE, History, Reader};

    /// OP-02: the most expensive are read from the index alone, in its order, however many tasks there are.
    #[test]
    fn lists_of_usage_are_ranges_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        drop(History::create(folder.path(), 1).unwrap());
        let connection = &Reader::open(&folder.path().join(FILE)).unwrap().connection;
        let list = |rank, order| List { rank, order, days: vec![1, 2], since: 0, until: 3 * DAY };
        let plan = |stream: &Stream| {
            let plan = format!("EXPLAIN QUERY PLAN {}", stream.select);
            let mut plan = connection.prepare(&plan).unwrap();
            let mut rows = plan.raw_query();
            let mut steps = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                steps.push(row.get::<_, String>(3).unwrap());
            }
            steps.join("; ")
        };

        for order in [Order::Rising, Order::Falling] {
            let plans =
                |rank| list(rank, order).streams(false).iter().map(plan).collect::<Vec<_>>();
            let begin = |plans: &[String], begins: &[&str]| {
                assert_eq!(plans.len(), begins.len());
                for (plan, begin) in plans.iter().zip(begins) {
                    assert!(plan.starts_with(begin) && !plan.contains("TEMP B-TREE"), "{plan}");
                }
            };
            let of_day = "SEARCH done USING COVERING INDEX done.by_usd (day=?";
            let several = "SEARCH done USING COVERING INDEX done.by_requests (";
            let by_key = "SEARCH done USING PRIMARY KEY (key";
            let all = [plans(UsageRank::Usd), plans(UsageRank::Requests)].concat();
            assert_eq!(all.iter().filter(|plan| plan.contains(",key)")).count(), 3, "{all:?}");
            begin(&plans(UsageRank::Usd), &[of_day, of_day]);
            begin(&plans(UsageRank::Requests), &[several, by_key]);
            begin(&plans(UsageRank::Task), &[by_key]);
        }
    }
}
