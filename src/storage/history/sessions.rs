//! Index of archived sessions: when each was used last, and the lists of them.
//!
//! A session is no record: it is there as long as its journal has a piece, and its last piece says when it was used.
//! A list is the merge of one range of the index for each life of each team, so that no journal is looked at.

use std::collections::{BTreeSet, HashSet};

use hivewright_actors::{
    clock::Timestamp,
    journal::{
        query::{SessionPage, SessionQuery, SessionWindow},
        records::Piece,
        sessions::used_at,
    },
    order::{Order, Window},
    store::{
        keys::{after_prefix, prefix_of},
        reads::parse,
    },
    task::records::LaneKey,
};
use rusqlite::{Connection, OptionalExtension, params, types::Value};

use super::{
    columns::{Note, have, millis},
    listing::{self, directions, json},
    merging::{Bound, Rank, Row, Stream},
    packing::Unpacker,
    tables::Table,
};

/// `key` is the id of the session, `last` the number that its last piece begins with.
const CREATE: &str = r#"
    CREATE TABLE "hist.session" (
        key BLOB PRIMARY KEY, team TEXT NOT NULL, generation INTEGER NOT NULL, topic TEXT,
        last INTEGER NOT NULL, used_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX "hist.session.by_use" ON "hist.session" (team, generation, used_at, key);
    CREATE INDEX "hist.session.by_topic" ON "hist.session" (topic) WHERE topic IS NOT NULL;
"#;

/// Where the last piece of a session begins that can be read, and when it was used by that.
type LastUse = (u64, Timestamp);

/// What the pieces of a session say of it.
#[derive(Default)]
struct Told {
    /// None if none of them can be read.
    last_use: Option<LastUse>,
    /// A later one cannot be read.
    is_damaged: bool,
}

/// Is shown sessions.
type Show<'a> = dyn FnMut(&LaneKey, Told) -> rusqlite::Result<()> + 'a;

/// Makes the index, with the sessions that an archive of a former program holds.
pub(super) fn create(
    connection: &Connection,
    journal: &Table,
    unpacker: &mut Unpacker,
) -> rusqlite::Result<()> {
    if is_there(connection)? {
        return Ok(());
    }
    let whole = connection.unchecked_transaction()?;
    whole.execute_batch(CREATE)?;
    each(&whole, journal, unpacker, &mut |lane, told| {
        told.last_use.map_or(Ok(()), |(last, at)| put(&whole, lane, last, at))
    })?;
    whole.commit()
}

fn is_there(connection: &Connection) -> rusqlite::Result<bool> {
    connection.table_exists(None, "hist.session")
}

fn put(connection: &Connection, lane: &LaneKey, last: u64, at: Timestamp) -> rusqlite::Result<()> {
    let mut put = connection.prepare_cached(
        r#"INSERT INTO "hist.session" (key, last, used_at, team, generation, topic)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
        ON CONFLICT (key) DO UPDATE SET last = excluded.last, used_at = excluded.used_at
        WHERE excluded.last >= last"#,
    )?;
    let (team, topic) = (lane.lane.team.as_str(), lane.lane.topic.as_ref());
    let topic = topic.map(|topic| topic.as_str());
    let last = last.cast_signed();
    let id = lane.session_id().into_bytes();
    put.execute(params![id, last, millis(at), team, lane.generation, topic]).map(drop)
}

/// Notes what a piece of a journal says now; none if it is gone, or cannot be read any more.
pub(super) fn note(
    connection: &Connection,
    journal: &Table,
    unpacker: &mut Unpacker,
    key: &[u8],
    piece: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let Some((lane, first)) = parse::<Piece<'_>>(key) else { return Ok(()) };
    if let Some(at) = piece.and_then(used_at) {
        return put(connection, &lane, first, at);
    }
    let id = lane.session_id().into_bytes();
    let mut forget =
        connection.prepare_cached(r#"DELETE FROM "hist.session" WHERE key = ?1 AND last = ?2"#)?;
    if forget.execute(params![id, first.cast_signed()])? > 0
        && let Some((last, at)) = told(connection, journal, unpacker, &lane, key)?.last_use
    {
        put(connection, &lane, last, at)?;
    }
    Ok(())
}

/// What the pieces of a session before a key say of it.
fn told(
    connection: &Connection,
    journal: &Table,
    unpacker: &mut Unpacker,
    lane: &LaneKey,
    before: &[u8],
) -> rusqlite::Result<Told> {
    let start = prefix_of(journal.kind(), &(lane,));
    let (mut end, mut told) = (before.to_vec(), Told::default());
    loop {
        let mut found = None;
        let (from, to) = (journal.rest(&start), Some(journal.rest(&end)));
        journal.walk(connection, from, to, Order::Falling, 1, &mut |key, held| {
            let value = unpacker.unpack_from(held.row(key), key, &held.packed).ok();
            found = Some((key.to_vec(), value.as_deref().and_then(used_at)));
        })?;
        let Some((key, at)) = found else { return Ok(told) };
        told.last_use = parse::<Piece<'_>>(&key).map(|(_, first)| first).zip(at);
        if told.last_use.is_some() {
            return Ok(told);
        }
        told.is_damaged = true;
        end = key;
    }
}

/// Shows each session that has a journal. Journals are jumped over.
fn each(
    connection: &Connection,
    journal: &Table,
    unpacker: &mut Unpacker,
    show: &mut Show<'_>,
) -> rusqlite::Result<()> {
    let mut start = Vec::new();
    loop {
        let mut found = None;
        journal.walk(connection, &start, None, Order::Rising, 1, &mut |key, _| {
            found = Some(key.to_vec());
        })?;
        let Some(key) = found else { return Ok(()) };
        start = [journal.rest(&key), &[0]].concat();
        if let Some((lane, _)) = parse::<Piece<'_>>(&key) {
            let end = after_prefix(&prefix_of(journal.kind(), &(&lane,)));
            show(&lane, told(connection, journal, unpacker, &lane, &end)?)?;
            // A key that is not written as this program writes it may lie behind.
            start = start.max(journal.rest(&end).to_vec());
        }
    }
}

/// Compares what lists know of each session with its journal.
pub(super) fn check(
    connection: &Connection,
    journal: &Table,
    unpacker: &mut Unpacker,
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare(
        r#"SELECT last, used_at, team, generation, topic FROM "hist.session" WHERE key = ?1"#,
    )?;
    let mut count = 0;
    each(connection, journal, unpacker, &mut |lane, Told { last_use, is_damaged }| {
        let id = lane.session_id();
        // What cannot be read is no fault of an index.
        if is_damaged {
            count += i64::from(select.exists(params![id.as_bytes()])?);
            return Ok(());
        }
        let Some((last, at)) = last_use else { return Ok(()) };
        let text = |text: &str| Value::from(text.to_owned());
        let listed: [Value; 5] = [
            last.cast_signed().into(),
            millis(at).into(),
            text(lane.lane.team.as_str()),
            lane.generation.into(),
            lane.lane.topic.as_ref().map(|topic| text(topic.as_str())).into(),
        ];
        let has = select.query_row(params![id.as_bytes()], |row| have(row, 0, listed.into_iter()));
        count += 1;
        if has.optional()? != Some(true) {
            note(format!("the index of sessions lacks `{id}`, or has it as another"));
        }
        Ok(())
    })?;
    let listed: i64 =
        connection.query_row(r#"SELECT count(*) FROM "hist.session""#, [], |row| row.get(0))?;
    if listed > count {
        note(format!("the index of sessions names {listed}, and there are {count}"));
    }
    Ok(())
}

/// The wanted part of the sessions of an archive, but for those that are known, by their ids.
pub(super) fn page(
    connection: &Connection,
    wanted: &SessionQuery,
    window: &SessionWindow,
    known: &HashSet<String>,
) -> rusqlite::Result<SessionPage> {
    let list = List::new(connection, wanted, window.order)?;
    let known = known.iter().map(|id| id.as_bytes().to_vec()).collect();
    let window = window.map(|(at, id)| (Rank(millis(*at) as f64), id.as_bytes().to_vec()));
    let page = listing::page(connection, &list, &list.within(window), &known)?;
    Ok(page
        .filter_map(|(Rank(at), key)| Some((Timestamp(at as u64), String::from_utf8(key).ok()?))))
}

struct List<'a> {
    order: Order,
    wanted: &'a SessionQuery,
    /// The lives of teams that may have any.
    lives: Vec<Life>,
}

/// A team, and which life of that name it is.
type Life = (String, i64);

impl<'a> List<'a> {
    fn new(
        connection: &Connection,
        wanted: &'a SessionQuery,
        order: Order,
    ) -> rusqlite::Result<Self> {
        let mut lives = match &wanted.teams {
            Some(teams) => {
                let teams: BTreeSet<&str> = teams.iter().map(|team| team.as_str()).collect();
                let of_team = |team| lives(connection, Some(team));
                teams.into_iter().map(of_team).collect::<rusqlite::Result<Vec<_>>>()?.concat()
            }
            None => lives(connection, None)?,
        };
        lives.retain(|(_, life)| wanted.generation.is_none_or(|wanted| *life == i64::from(wanted)));
        Ok(Self { order, wanted, lives })
    }

    /// Where sessions are read, and which are wanted of those.
    fn table(&self) -> String {
        // Taken apart, so that a new field which nothing compares is an error.
        let SessionQuery { teams: _, generation: _, topic, since: _ } = self.wanted;
        let index = match topic {
            Some(_) => r#""hist.session.by_topic" WHERE topic = :topic AND"#,
            None => r#""hist.session.by_use" WHERE"#,
        };
        format!(r#""hist.session" INDEXED BY {index} team = :team AND generation = :generation"#)
    }

    /// The parameters of each range.
    fn ranges(&self) -> impl Iterator<Item = Bound> {
        self.lives.iter().map(|(team, life)| {
            let mut bound = self.bound();
            bound.extend([(":team", team.clone().into()), (":generation", (*life).into())]);
            bound
        })
    }

    /// The parameters that all ranges have.
    fn bound(&self) -> Bound {
        vec![
            (":topic", self.wanted.topic.as_ref().map(|topic| topic.to_string()).into()),
            (":since", millis(self.wanted.since).into()),
        ]
    }

    /// A window as far as it is within the list's time.
    fn within(&self, window: Window<Row>) -> Window<Row> {
        let first = (Rank(millis(self.wanted.since) as f64), Vec::new());
        let after = match self.order {
            Order::Rising => window.after.into_iter().fold(first, Row::max),
            Order::Falling => window.after.unwrap_or((Rank(f64::INFINITY), vec![0xff])),
        };
        Window { after: Some(after), ..window }
    }

    /// Reads a piece of one range.
    fn piece(&self) -> String {
        let (is_behind, order) = directions(self.order);
        let end = match self.order {
            Order::Rising => "",
            Order::Falling => " AND used_at >= :since",
        };
        format!(
            "SELECT used_at, key FROM {}{end} AND (used_at, key) {is_behind} (:rank, :key)
            ORDER BY used_at {order}, key {order} LIMIT :most OFFSET :skip",
            self.table()
        )
    }
}

impl listing::List for List<'_> {
    fn counted(&self) -> Vec<(String, Bound)> {
        let range = format!("{} AND used_at >= :since", self.table());
        self.ranges().map(|bound| (range.clone(), bound)).collect()
    }

    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)> {
        let wanted = "+team IN (SELECT value FROM json_each(:teams)) AND +used_at >= :since
            AND (:generation IS NULL OR generation = :generation) AND (:topic IS NULL OR +topic = :topic)";
        let teams: BTreeSet<&String> = self.lives.iter().map(|(team, _)| team).collect();
        let mut bound = self.bound();
        bound.extend([(":teams", json(&teams)?), (":generation", self.wanted.generation.into())]);
        Ok((r#""hist.session""#, wanted.to_owned(), bound))
    }

    fn streams(&self, _: bool) -> Vec<Stream> {
        let stream = |bound: Bound| {
            let stream = Stream::new(self.piece(), bound);
            if self.wanted.topic.is_some() { stream.sorted() } else { stream }
        };
        self.ranges().map(stream).collect()
    }
}

/// The lives of a team that have sessions; of all teams if none is named. Their sessions are jumped over.
fn lives(connection: &Connection, team: Option<&str>) -> rusqlite::Result<Vec<Life>> {
    let mut behind = connection.prepare_cached(
        r#"SELECT team, generation FROM "hist.session" INDEXED BY "hist.session.by_use"
        WHERE (team, generation) > (?1, ?2) ORDER BY team, generation LIMIT 1"#,
    )?;
    let (mut lives, mut last): (Vec<Life>, Life) =
        (Vec::new(), (team.unwrap_or("").to_owned(), -1));
    loop {
        let next = behind.query_row(params![last.0, last.1], |row| Ok((row.get(0)?, row.get(1)?)));
        match next.optional()? {
            Some(life) if team.is_none_or(|team| team == life.0) => last = life,
            _ => return Ok(lives),
        }
        lives.push(last.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::history::{FILE, History, Reader};

    /// OP-02: a list is read from its index, in its order, from the cursor on, however many sessions there are.
    #[test]
    fn lists_of_sessions_are_ranges_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        drop(History::create(folder.path(), 1).unwrap());
        let reader = Reader::open(&folder.path().join(FILE)).unwrap();
        let wanted = SessionQuery { since: Timestamp(1), ..SessionQuery::default() };
        let index = r#"SEARCH hist.session USING COVERING INDEX hist.session.by_use (team=? AND generation=? AND "#;

        for order in [Order::Rising, Order::Falling] {
            let list = List::new(&reader.connection, &wanted, order).unwrap();
            let plan = format!("EXPLAIN QUERY PLAN {}", list.piece());
            let mut plan = reader.connection.prepare(&plan).unwrap();
            let mut rows = plan.raw_query();
            let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
            assert!(step.starts_with(index), "{step}");
            assert!(rows.next().unwrap().is_none());
        }
    }
}
