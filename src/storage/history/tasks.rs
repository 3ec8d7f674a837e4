//! Index of archived tasks: the columns that lists filter and sort by, and the lists.
//!
//! Team, kind, state, priority and whether the trust gate let it in are one number, the facet: there are few that differ.
//! A list is the merge of one range of an index for each facet that is wanted, so that whatever it filters by, no
//! task is looked at that is not on the page.

use std::collections::{HashMap, HashSet};

use hivewright_actors::{
    clock::Timestamp,
    ids::TaskId,
    order::{Order, Window},
    store::{
        keys::prefix_of,
        records::{Record, decode},
    },
    task::{
        Kind, Priority, Task, TaskState,
        query::{TaskCounts, TaskFacet, TaskPage, TaskQuery, TaskWindow},
        records::FinishedTask,
    },
};
use rusqlite::{Connection, OptionalExtension, functions::FunctionFlags, params, types::Value};

use super::{
    columns::{Columns, Held, Note, have, millis},
    facets,
    keys::Keys,
    listing::{self, directions, in_hex, json},
    merging::{Bound, Rank, Row, Stream},
    packing::Unpacker,
    together::{Beside, Together},
    usage,
};

/// What the table of ended tasks has beside key and value.
pub(super) const COLUMNS: Columns = Columns {
    kind: FinishedTask::KIND,
    names: &["created_at", "facet", "topic", "sender", "root", "day", "ended", "usd", "requests"],
    declared: "created_at INTEGER, facet INTEGER, topic INTEGER, sender INTEGER, root TEXT,
        day INTEGER, ended INTEGER, usd REAL, requests INTEGER",
    is_backfilled: false,
    indexes: r#"
        CREATE TABLE IF NOT EXISTS "done.facet" (
            id INTEGER PRIMARY KEY, team TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
            priority TEXT NOT NULL, admitted INTEGER NOT NULL,
            UNIQUE (team, kind, state, priority, admitted)) STRICT;
        CREATE TABLE IF NOT EXISTS "done.topic" (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE IF NOT EXISTS "done.sender" (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE INDEX IF NOT EXISTS "done.by_facet" ON done (facet, created_at) WHERE facet IS NOT NULL;
        CREATE INDEX IF NOT EXISTS "done.by_topic" ON done (topic, facet, created_at) WHERE topic IS NOT NULL;
        CREATE INDEX IF NOT EXISTS "done.by_sender" ON done (sender, facet, created_at) WHERE sender IS NOT NULL;
        CREATE INDEX IF NOT EXISTS "done.by_root" ON done (root, facet, created_at) WHERE root IS NOT NULL;
        CREATE INDEX IF NOT EXISTS "done.by_usd" ON done (day, usd, key, requests) WHERE usd IS NOT NULL;
        CREATE INDEX IF NOT EXISTS "done.by_requests" ON done (requests, key, ended) WHERE requests > 1;
    "#,
    read,
    sweep,
};

/// The columns of a task. One that cannot be read is in no list.
fn read(
    connection: &Connection,
    keys: Keys,
    key: &[u8],
    value: &[u8],
    beside: &mut Beside<'_>,
) -> rusqlite::Result<Vec<Value>> {
    let Ok(task) = decode::<Task>(key, value) else {
        return Ok(vec![Value::Null; COLUMNS.names.len()]);
    };
    let topic = task.topic().map(|topic| number_of(connection, "topic", topic.as_str()));
    let sender = task.sender().map(|sender| number_of(connection, "sender", sender));
    let root = Some(task.root()).filter(|root| **root != task.id);
    let usage = usage::columns(connection, keys, &task, beside)?;
    let root = root.map(|root| root.to_string());
    let listed: [Value; 5] = [
        millis(task.created_at).into(),
        facet_of(connection, &task)?.into(),
        topic.transpose()?.into(),
        sender.transpose()?.into(),
        root.into(),
    ];
    Ok(listed.into_iter().chain(usage).collect())
}

fn facet_of(connection: &Connection, task: &Task) -> rusqlite::Result<i64> {
    let (team, kind, state) = (task.lane.team.as_str(), task.kind.as_str(), task.state().as_str());
    let facet = params![team, kind, state, task.priority.as_str(), task.sender().is_some()];
    let known = r#"SELECT id FROM "done.facet"
        WHERE team = ?1 AND kind = ?2 AND state = ?3 AND priority = ?4 AND admitted = ?5"#;
    let new = r#"INSERT INTO "done.facet" (team, kind, state, priority, admitted)
        VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id"#;
    facets::number_of(connection, [known, new], facet)
}

/// The number that stands for a name.
fn number_of(connection: &Connection, of: &str, name: &str) -> rusqlite::Result<i64> {
    let new = format!(r#"INSERT INTO "done.{of}" (name) VALUES (?1) RETURNING id"#);
    facets::number_of(connection, [&known_number(of), &new], params![name])
}

/// Finds the number that stands for a name.
fn known_number(of: &str) -> String {
    format!(r#"SELECT id FROM "done.{of}" WHERE name = ?1"#)
}

fn sweep(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    for (of, number) in COLUMNS.names.iter().zip(columns) {
        if matches!(*of, "facet" | "topic" | "sender") && *number != Value::Null {
            facets::sweep(connection, FinishedTask::KIND, of, number)?;
        }
    }
    Ok(())
}

/// Compares what lists know of each task with the task.
pub(super) fn check(
    connection: &Connection,
    keys: Keys,
    unpacker: &mut Unpacker,
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let prefix = prefix_of(FinishedTask::KIND, &());
    let (together, mut ends) = (Together::default(), Unpacker::default());
    let mut statement = connection.prepare(
        r#"SELECT own.key, coalesce(hist.value, own.value), hist.key, created_at,
            team, kind, state, priority, admitted, topic.name, sender.name, root, day, ended, usd, requests
        FROM done AS own LEFT JOIN hist ON hist.rowid = own.piece
        LEFT JOIN "done.facet" AS facet ON facet.id = own.facet
        LEFT JOIN "done.topic" AS topic ON topic.id = own.topic
        LEFT JOIN "done.sender" AS sender ON sender.id = own.sender"#,
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key = [&*prefix, &keys.rest(FinishedTask::KIND, row.get_ref(0)?.as_blob()?)].concat();
        let held = Held::read(row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob_or_null()?);
        let value = unpacker.unpack_from(held.row(&key), &key, &held.packed);
        let Ok(task) = value.and_then(|value| decode::<Task>(&key, &value)) else { continue };
        let mut beside = Beside { unpacker: &mut ends, together: &together };
        let usage = usage::columns(connection, keys, &task, &mut beside)?;
        let text = |text: &str| Value::from(text.to_owned());
        let root = Some(task.root()).filter(|root| **root != task.id);
        let listed: [Value; 9] = [
            millis(task.created_at).into(),
            text(task.lane.team.as_str()),
            text(task.kind.as_str()),
            text(task.state().as_str()),
            text(task.priority.as_str()),
            task.sender().is_some().into(),
            task.topic().map(|topic| text(topic.as_str())).into(),
            task.sender().map(text).into(),
            root.map(|root| text(root.as_str())).into(),
        ];
        if !have(row, 3, listed.into_iter().chain(usage))? {
            note(format!("the index of tasks lacks `{}`, or has it as another", task.id));
        }
    }
    Ok(())
}

/// Gives a connection what lists ask of it.
///
/// `has_words(key, value, host, words)`: the one place that looks for words in archived tasks. It reads every task that the
/// list wants otherwise.
pub(super) fn equip(connection: &Connection, keys: Keys) -> rusqlite::Result<()> {
    let prefix = prefix_of(FinishedTask::KIND, &());
    let unpacker = parking_lot::Mutex::new(Unpacker::default());
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("has_words", 4, flags, move |call| {
        let rest = keys.rest(FinishedTask::KIND, call.get_raw(0).as_blob()?);
        let key = [&*prefix, &rest].concat();
        let mut unpacker = unpacker.lock();
        let held = Held::read(call.get_raw(1).as_blob()?, call.get_raw(2).as_blob_or_null()?);
        let value = unpacker.unpack_from(held.row(&key), &key, &held.packed);
        let task = value.and_then(|value| decode::<Task>(&key, &value));
        let words = call.get_raw(3).as_str()?;
        Ok(task.is_ok_and(|task| task.has_words(words)))
    })
}

/// The wanted part of the tasks of an archive.
pub(super) fn page(
    connection: &Connection,
    keys: Keys,
    wanted: &TaskQuery,
    window: &TaskWindow,
    known: &HashSet<TaskId>,
) -> rusqlite::Result<TaskPage> {
    let Some(list) = List::new(connection, wanted, window.order)? else {
        return Ok(TaskPage::default());
    };
    let known = known.iter().map(|id| keys.of_task(id)).collect();
    let window = window.map(|(at, id)| (Rank(millis(*at) as f64), keys.of_task(id)));
    let page = listing::page(connection, &list, &list.within(window), &known)?;
    Ok(page.filter_map(|(Rank(at), key)| Some((Timestamp(at as u64), keys.task(&key)))))
}

/// How many tasks there are of each facet. A facet whose words only another version knows is left out.
pub(super) fn count_all(
    connection: &Connection,
    keys: Keys,
    known: &HashSet<TaskId>,
) -> rusqlite::Result<TaskCounts> {
    let mut found: HashMap<i64, u32> = HashMap::new();
    if !known.is_empty() {
        let mut statement = connection.prepare_cached(
            "SELECT facet, count(*) FROM (SELECT unhex(value) AS id FROM json_each(?1)) AS known
            CROSS JOIN done ON key = known.id WHERE facet IS NOT NULL GROUP BY facet",
        )?;
        let counted = statement
            .query_map(params![in_hex(known.iter().map(|id| keys.of_task(id)))?], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        found = counted.collect::<rusqlite::Result<_>>()?;
    }
    let mut statement = connection.prepare_cached(
        r#"SELECT id, team, kind, state, priority,
            (SELECT count(*) FROM done INDEXED BY "done.by_facet" WHERE facet = own.id)
        FROM "done.facet" AS own"#,
    )?;
    let mut rows = statement.query([])?;
    let mut counts = TaskCounts::new();
    while let Some(row) = rows.next()? {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        let (team, words) = (text(1)?, (text(2)?.parse(), text(3)?.parse(), text(4)?.parse()));
        let count = row.get::<_, u32>(5)?;
        let known = found.get(&row.get(0)?).copied().unwrap_or_default();
        if let (Ok(kind), Ok(state), Ok(priority)) = words
            && count > known
        {
            let facet = TaskFacet { team: team.into(), kind, state, priority };
            *counts.entry(facet).or_default() += (count - known) as usize;
        }
    }
    Ok(counts)
}

struct List {
    order: Order,
    facets: Vec<i64>,
    since: i64,
    until: i64,
    /// The index, and what is wanted beside facet and time.
    index: &'static str,
    conditions: String,
    /// What the parameters of the conditions stand for.
    bound: Bound,
}

impl List {
    /// None if there can be nothing in it.
    fn new(
        connection: &Connection,
        wanted: &TaskQuery,
        order: Order,
    ) -> rusqlite::Result<Option<Self>> {
        // Taken apart, so that a new field which nothing compares is an error.
        let TaskQuery { topic, root, sender, since, until, words, .. } = wanted;
        let TaskQuery { state: _, teams: _, kind: _, priority: _, admitted: _, .. } = wanted;
        let since = millis(*since);
        let until = until.map_or(i64::MAX - 1, millis).min(i64::MAX - 1);
        let mut list = Self {
            order,
            facets: facets(connection, wanted)?,
            since,
            until,
            index: "done.by_facet",
            conditions: String::new(),
            bound: vec![(":since", since.into()), (":until", until.into())],
        };
        // The last one has the fewest tasks.
        for (of, name) in
            [("sender", sender.as_deref()), ("topic", topic.as_ref().map(|topic| topic.as_str()))]
        {
            let Some(name) = name else { continue };
            let mut known = connection.prepare_cached(&known_number(of))?;
            let number = known.query_row([name], |row| row.get::<_, i64>(0)).optional()?;
            let Some(number) = number else { return Ok(None) };
            match of {
                "sender" => list.narrow("done.by_sender", "sender = :sender", ":sender", number),
                _ => list.narrow("done.by_topic", "topic = :topic", ":topic", number),
            }
        }
        if let Some(root) = root {
            list.narrow("done.by_root", "root = :root", ":root", root.to_string());
        }
        if let Some(words) = words {
            let index = list.index;
            let has_words = "has_words(
                key, coalesce((SELECT value FROM hist WHERE rowid = piece), value),
                (SELECT key FROM hist WHERE rowid = piece), :words)";
            list.narrow(index, has_words, ":words", words.clone());
        }
        Ok(Some(list).filter(|list| !list.facets.is_empty()))
    }

    fn narrow(
        &mut self,
        index: &'static str,
        condition: &str,
        name: &'static str,
        value: impl Into<Value>,
    ) {
        self.index = index;
        self.conditions.push_str(" AND ");
        self.conditions.push_str(condition);
        self.bound.push((name, value.into()));
    }

    /// The parameters of one facet.
    fn of(&self, facet: i64) -> Bound {
        self.bound.iter().cloned().chain([(":facet", facet.into())]).collect()
    }

    /// A window as far as it is within the list's time. So each piece has one place that it is sought by.
    fn within(&self, window: Window<Row>) -> Window<Row> {
        let (first, end) = (Rank(self.since as f64), Rank((self.until + 1) as f64));
        let after = match self.order {
            Order::Rising => window.after.into_iter().fold((first, Vec::new()), Row::max),
            Order::Falling => window.after.into_iter().fold((end, Vec::new()), Row::min),
        };
        Window { after: Some(after), ..window }
    }

    /// Reads a piece of one facet.
    fn piece(&self) -> String {
        let Self { index, conditions, .. } = self;
        let (is_behind, order) = directions(self.order);
        let end = match self.order {
            Order::Rising => "<= :until",
            Order::Falling => ">= :since",
        };
        format!(
            r#"SELECT created_at, key FROM done INDEXED BY "{index}"
            WHERE facet = :facet AND created_at {end} AND (created_at, key) {is_behind} (:rank, :key){conditions}
            ORDER BY created_at {order}, key {order} LIMIT :most OFFSET :skip"#
        )
    }
}

impl listing::List for List {
    fn counted(&self) -> Vec<(String, Bound)> {
        let Self { index, conditions, .. } = self;
        let range = format!(
            r#"done INDEXED BY "{index}" WHERE facet = :facet AND created_at BETWEEN :since AND :until{conditions}"#
        );
        self.facets.iter().map(|facet| (range.clone(), self.of(*facet))).collect()
    }

    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)> {
        let conditions = &self.conditions;
        let wanted = format!(
            "+facet IN (SELECT value FROM json_each(:facets))
            AND created_at BETWEEN :since AND :until{conditions}"
        );
        let mut bound = self.bound.clone();
        bound.push((":facets", json(&self.facets)?));
        Ok((FinishedTask::KIND, wanted, bound))
    }

    fn streams(&self, _: bool) -> Vec<Stream> {
        let stream = |facet: &i64| Stream::new(self.piece(), self.of(*facet));
        self.facets.iter().map(stream).collect()
    }
}

fn facets(connection: &Connection, wanted: &TaskQuery) -> rusqlite::Result<Vec<i64>> {
    let TaskQuery { state, teams, kind, priority, admitted, sender, .. } = wanted;
    let select = r#"SELECT id, team, kind, state, priority, admitted FROM "done.facet""#;
    facets::wanted(connection, select, |row| {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        let (team, is_admitted) = (text(1)?, row.get::<_, bool>(5)?);
        Ok(teams.as_ref().is_none_or(|teams| teams.iter().any(|name| name.as_str() == team))
            && kind.map(Kind::as_str).is_none_or(|kind| text(2) == Ok(kind))
            && state.map(TaskState::as_str).is_none_or(|state| text(3) == Ok(state))
            && priority.map(Priority::as_str).is_none_or(|priority| text(4) == Ok(priority))
            && (is_admitted || !admitted && sender.is_none()))
    })
}

#[cfg(test)]
pub(super) fn names(connection: &Connection, of: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare(&format!(r#"SELECT name FROM "done.{of}" ORDER BY id"#))?;
    statement.query_map([], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{ids::TopicId, task::Lane};

    use super::*;
    use crate::storage::history::{FILE, History, Reader, Taken};

    /// OP-02: a list is read from its index, in its order, from the cursor on, however many tasks there are.
    #[test]
    fn lists_are_ranges_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::create(folder.path(), 1).unwrap();
        let (lane, now) = (Lane { team: "main".into(), topic: None }, Timestamp(1));
        let mut task = Task::new("task-1".into(), lane, String::new(), "ann".to_owned(), now);
        let topic = TopicId::from("t-1");
        task.source = serde_json::from_value(serde_json::json!({
            "channel": "ws:1", "message": null, "topic": {"id": topic, "name": "Garden"}
        }))
        .unwrap();
        let key = [prefix_of(FinishedTask::KIND, &()), b"task-1".to_vec()].concat();
        let value = serde_json::to_vec(&task).unwrap();
        history.take([(key, Taken::Value(&value))].into_iter()).unwrap();
        let reader = Reader::open(&folder.path().join(FILE)).unwrap();
        let of_topic = TaskQuery { topic: Some(topic), ..TaskQuery::default() };
        let of_root = TaskQuery { root: Some("task-1".into()), ..TaskQuery::default() };
        let wanted = [
            (TaskQuery::default(), "done.by_facet (facet=?"),
            (of_topic, "done.by_topic (topic=? AND facet=?"),
            (of_root, "done.by_root (root=? AND facet=?"),
        ];

        for (order, bound) in
            [(Order::Rising, "(created_at,key)>"), (Order::Falling, "(created_at,key)<")]
        {
            for (wanted, index) in &wanted {
                let list = List::new(&reader.connection, wanted, order).unwrap().unwrap();
                let plan = format!("EXPLAIN QUERY PLAN {}", list.piece());
                let mut plan = reader.connection.prepare(&plan).unwrap();
                let mut rows = plan.raw_query();
                let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
                assert!(
                    step.starts_with(&format!("SEARCH done USING COVERING INDEX {index}")),
                    "{step}"
                );
                assert!(step.contains(bound), "{step}");
                assert!(rows.next().unwrap().is_none());
            }
        }
    }
}
