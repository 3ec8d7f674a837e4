//! Index of archived tasks: the columns that lists filter and sort by, and the lists.
//!
//! Team, kind, state, priority and whether the trust gate let it in are one number, the facet: there are few that differ.
//! A list is the merge of one range of an index for each facet that is wanted, so that whatever it filters by, no
//! task is looked at that is not on the page.

use std::collections::{BTreeMap, HashSet, VecDeque};

use hivewright_actors::{
    clock::Timestamp,
    ids::TaskId,
    storage::Order,
    store::{
        keys::prefix_of,
        records::{Record, decode},
    },
    task::{
        Kind, Priority, Task, TaskState,
        query::{TaskPage, TaskQuery, TaskWindow},
        records::FinishedTask,
    },
};
use rusqlite::{
    Connection, OptionalExtension, Statement, ToSql, functions::FunctionFlags, params, types::Value,
};

use super::{packing::Unpacker, tables::Columns};

/// A range is read in pieces, ever larger ones, up to so many rows.
const LARGEST_PIECE: usize = 512;

/// What the table of ended tasks has beside key and value.
pub(super) const COLUMNS: Columns = Columns {
    kind: FinishedTask::KIND,
    names: &["created_at", "facet", "topic", "sender", "root"],
    declared: "created_at INTEGER, facet INTEGER, topic INTEGER, sender INTEGER, root TEXT",
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
    "#,
    read,
    sweep,
};

/// The columns of a task. One that cannot be read is in no list.
fn read(connection: &Connection, key: &[u8], value: &[u8]) -> rusqlite::Result<Vec<Value>> {
    let Ok(task) = decode::<Task>(key, value) else {
        return Ok(vec![Value::Null; COLUMNS.names.len()]);
    };
    let topic = task.topic().map(|topic| number_of(connection, "topic", topic.as_str()));
    let sender = task.sender().map(|sender| number_of(connection, "sender", sender));
    let root = Some(task.root()).filter(|root| **root != task.id);
    Ok(vec![
        millis(task.created_at).into(),
        facet_of(connection, &task)?.into(),
        topic.transpose()?.into(),
        sender.transpose()?.into(),
        root.map(|root| root.to_string()).into(),
    ])
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn facet_of(connection: &Connection, task: &Task) -> rusqlite::Result<i64> {
    let (team, kind, state) = (task.lane.team.as_str(), task.kind.as_str(), task.state().as_str());
    let facet = params![team, kind, state, task.priority.as_str(), task.sender().is_some()];
    let known = r#"SELECT id FROM "done.facet"
        WHERE team = ?1 AND kind = ?2 AND state = ?3 AND priority = ?4 AND admitted = ?5"#;
    let new = r#"INSERT INTO "done.facet" (team, kind, state, priority, admitted)
        VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id"#;
    let id = connection.prepare_cached(known)?.query_row(facet, |row| row.get(0)).optional()?;
    id.map_or_else(|| connection.prepare_cached(new)?.query_row(facet, |row| row.get(0)), Ok)
}

/// The number that stands for a name.
fn number_of(connection: &Connection, of: &str, name: &str) -> rusqlite::Result<i64> {
    let new = format!(r#"INSERT INTO "done.{of}" (name) VALUES (?1) RETURNING id"#);
    let new = || connection.prepare_cached(&new)?.query_row(params![name], |row| row.get(0));
    known_number(connection, of, name)?.map_or_else(new, Ok)
}

fn known_number(connection: &Connection, of: &str, name: &str) -> rusqlite::Result<Option<i64>> {
    let known = format!(r#"SELECT id FROM "done.{of}" WHERE name = ?1"#);
    connection.prepare_cached(&known)?.query_row(params![name], |row| row.get(0)).optional()
}

/// Nothing is left of a task that was removed: also no name that was only in it.
fn sweep(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    for (of, number) in COLUMNS.names.iter().zip(columns) {
        if matches!(*of, "facet" | "topic" | "sender") && *number != Value::Null {
            let unused = format!(
                r#"DELETE FROM "done.{of}" WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM done WHERE {of} = ?1)"#
            );
            connection.prepare_cached(&unused)?.execute(params![number])?;
        }
    }
    Ok(())
}

/// Gives a connection what lists ask of it.
///
/// `has_words(key, value, words)`: the one place that looks for words in archived tasks. It reads every task that the list
/// wants otherwise.
pub(super) fn equip(connection: &Connection) -> rusqlite::Result<()> {
    let prefix = prefix_of(FinishedTask::KIND, &());
    let unpacker = std::sync::Mutex::new(Unpacker::new());
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("has_words", 3, flags, move |call| {
        let key = [&*prefix, call.get_raw(0).as_blob()?].concat();
        let mut unpacker = unpacker.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let value = unpacker.unpack(&key, call.get_raw(1).as_blob()?);
        let task = value.and_then(|value| decode::<Task>(&key, &value));
        let words = call.get_raw(2).as_str()?;
        Ok(task.is_ok_and(|task| task.has_words(words)))
    })
}

/// The wanted part of the tasks of an archive.
pub(super) fn page(
    connection: &Connection,
    wanted: &TaskQuery,
    window: &TaskWindow,
    known: &HashSet<TaskId>,
) -> rusqlite::Result<TaskPage> {
    let Some(list) = List::new(connection, wanted, window)? else {
        return Ok(TaskPage::default());
    };
    let total = list.count(known)?;
    let places = list.places(known)?;
    Ok(TaskPage { total: total.max(places.len()), places })
}

/// A list of archived tasks.
struct List<'a> {
    connection: &'a Connection,
    window: &'a TaskWindow,
    facets: Vec<i64>,
    /// The index, and what is wanted beside facet and time.
    index: &'static str,
    conditions: String,
    /// What the parameters of the conditions stand for.
    bound: Vec<(&'static str, Value)>,
}

/// The part of a list that is of one facet, read piece by piece.
struct Stream {
    facet: i64,
    piece: usize,
    read: VecDeque<Row>,
    /// Where it goes on; none behind the last.
    from: Option<Row>,
}

/// When a task was made, and its key.
type Row = (i64, Vec<u8>);

impl<'a> List<'a> {
    /// None if there can be nothing in it.
    fn new(
        connection: &'a Connection,
        wanted: &TaskQuery,
        window: &'a TaskWindow,
    ) -> rusqlite::Result<Option<Self>> {
        // Taken apart, so that a new field which nothing compares is an error.
        let TaskQuery { topic, root, sender, since, until, words, .. } = wanted;
        let TaskQuery { state: _, teams: _, kind: _, priority: _, admitted: _, .. } = wanted;
        let mut list = Self {
            connection,
            window,
            facets: facets(connection, wanted)?,
            index: "done.by_facet",
            conditions: String::new(),
            bound: vec![
                (":since", millis(*since).into()),
                (":until", until.map_or(i64::MAX - 1, millis).min(i64::MAX - 1).into()),
            ],
        };
        // The last one has the fewest tasks.
        for (of, name) in
            [("sender", sender.as_deref()), ("topic", topic.as_ref().map(|topic| topic.as_str()))]
        {
            let Some(name) = name else { continue };
            let Some(number) = known_number(connection, of, name)? else { return Ok(None) };
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
            list.narrow(index, "has_words(key, value, :words)", ":words", words.clone());
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

    fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        self.bound.iter().try_for_each(|(name, value)| bind(statement, name, value))
    }

    /// How many there are, as far as they are to be counted.
    fn count(&self, known: &HashSet<TaskId>) -> rusqlite::Result<usize> {
        let known = self.count_known(known)?;
        let most = self.window.counted + 1 + known;
        let Self { index, conditions, .. } = self;
        let mut statement = self.connection.prepare_cached(&format!(
            r#"SELECT count(*) FROM (SELECT 1 FROM done INDEXED BY "{index}"
            WHERE facet = :facet AND created_at BETWEEN :since AND :until{conditions} LIMIT :most)"#
        ))?;
        let mut total = 0;
        for facet in &self.facets {
            if total >= most {
                break;
            }
            self.bind(&mut statement)?;
            bind(&mut statement, ":facet", facet)?;
            bind(&mut statement, ":most", &count_of(most - total))?;
            total += first_count(&mut statement)?;
        }
        Ok(total.saturating_sub(known))
    }

    /// How many of those are known already.
    fn count_known(&self, known: &HashSet<TaskId>) -> rusqlite::Result<usize> {
        if known.is_empty() {
            return Ok(0);
        }
        let conditions = &self.conditions;
        let mut statement = self.connection.prepare_cached(&format!(
            "SELECT count(*) FROM (SELECT CAST(value AS BLOB) AS id FROM json_each(:known)) AS known
            CROSS JOIN done ON key = known.id WHERE +facet IN (SELECT value FROM json_each(:facets))
            AND created_at BETWEEN :since AND :until{conditions}"
        ))?;
        self.bind(&mut statement)?;
        bind(&mut statement, ":known", &serde_json::to_string(known).map_err(unwritten)?)?;
        bind(&mut statement, ":facets", &serde_json::to_string(&self.facets).map_err(unwritten)?)?;
        first_count(&mut statement)
    }

    /// Reads a piece of one facet.
    fn piece(&self) -> String {
        let Self { index, conditions, .. } = self;
        let (is_behind, order) = match self.window.order {
            Order::Rising => (">", "ASC"),
            Order::Falling => ("<", "DESC"),
        };
        format!(
            r#"SELECT created_at, key FROM done INDEXED BY "{index}"
            WHERE facet = :facet AND created_at BETWEEN :since AND :until
            AND (created_at, key) {is_behind} (:at, :key){conditions}
            ORDER BY created_at {order}, key {order} LIMIT :most"#
        )
    }

    /// The first places of the list, merged from those of its facets.
    fn places(&self, known: &HashSet<TaskId>) -> rusqlite::Result<Vec<(Timestamp, TaskId)>> {
        let window = self.window;
        let mut statement = self.connection.prepare_cached(&self.piece())?;
        let start = match (&window.after, window.order) {
            (Some((at, id)), _) => (millis(*at), id.as_str().into()),
            (None, Order::Rising) => (-1, Vec::new()),
            (None, Order::Falling) => (i64::MAX, Vec::new()),
        };
        let piece = (window.most / self.facets.len()).clamp(1, LARGEST_PIECE / 2) + 1;
        let stream =
            |facet| Stream { facet, piece, read: VecDeque::new(), from: Some(start.clone()) };
        let mut streams: Vec<Stream> = self.facets.iter().copied().map(stream).collect();
        let mut heads = BTreeMap::new();
        for (number, stream) in streams.iter_mut().enumerate() {
            heads.extend(self.next(stream, &mut statement)?.map(|row| (row, number)));
        }
        let mut places = Vec::new();
        while places.len() < window.most {
            let first = match window.order {
                Order::Rising => heads.pop_first(),
                Order::Falling => heads.pop_last(),
            };
            let Some(((at, key), number)) = first else { break };
            let next = self.next(&mut streams[number], &mut statement)?;
            heads.extend(next.map(|row| (row, number)));
            let id = TaskId::from(&*String::from_utf8_lossy(&key));
            if !known.contains(&id) {
                places.push((Timestamp(at.cast_unsigned()), id));
            }
        }
        Ok(places)
    }

    fn next(
        &self,
        stream: &mut Stream,
        statement: &mut Statement<'_>,
    ) -> rusqlite::Result<Option<Row>> {
        if stream.read.is_empty()
            && let Some((at, key)) = stream.from.take()
        {
            self.bind(statement)?;
            bind(statement, ":facet", &stream.facet)?;
            bind(statement, ":at", &at)?;
            bind(statement, ":key", &key)?;
            bind(statement, ":most", &count_of(stream.piece))?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                stream.read.push_back((row.get(0)?, row.get(1)?));
            }
            stream.from = stream.read.back().filter(|_| stream.read.len() == stream.piece).cloned();
            stream.piece = (stream.piece * 4).min(LARGEST_PIECE);
        }
        Ok(stream.read.pop_front())
    }
}

/// The facets of tasks that are wanted.
fn facets(connection: &Connection, wanted: &TaskQuery) -> rusqlite::Result<Vec<i64>> {
    let TaskQuery { state, teams, kind, priority, admitted, sender, .. } = wanted;
    let mut statement = connection
        .prepare_cached(r#"SELECT id, team, kind, state, priority, admitted FROM "done.facet""#)?;
    let mut rows = statement.query([])?;
    let mut facets = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        let (team, is_admitted) = (text(1)?, row.get::<_, bool>(5)?);
        if teams.as_ref().is_none_or(|teams| teams.iter().any(|name| name.as_str() == team))
            && kind.map(Kind::as_str).is_none_or(|kind| text(2) == Ok(kind))
            && state.map(TaskState::as_str).is_none_or(|state| text(3) == Ok(state))
            && priority.map(Priority::as_str).is_none_or(|priority| text(4) == Ok(priority))
            && (is_admitted || !admitted && sender.is_none())
        {
            facets.push(row.get(0)?);
        }
    }
    Ok(facets)
}

fn bind(statement: &mut Statement<'_>, name: &str, value: &impl ToSql) -> rusqlite::Result<()> {
    match statement.parameter_index(name)? {
        Some(index) => statement.raw_bind_parameter(index, value),
        None => Ok(()),
    }
}

fn first_count(statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
    let mut rows = statement.raw_query();
    let count = rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn count_of(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn unwritten(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
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

        for (order, bound) in [(Order::Rising, "created_at>?"), (Order::Falling, "created_at<?")] {
            let window = TaskWindow { order, ..TaskWindow::newest(10) };
            for (wanted, index) in &wanted {
                let list = List::new(&reader.connection, wanted, &window).unwrap().unwrap();
                let plan = format!("EXPLAIN QUERY PLAN {}", list.piece());
                let mut plan = reader.connection.prepare(&plan).unwrap();
                let mut rows = plan.raw_query();
                let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
                assert!(
                    step.starts_with(&format!("SEARCH done USING COVERING INDEX {index}")),
                    "{step}"
                );
                assert!(step.contains(bound) || step.contains("(created_at,key)"), "{step}");
                assert!(rows.next().unwrap().is_none());
            }
        }
    }
}
