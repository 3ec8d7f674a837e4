//! Index of the archived audit: the facet of a line, and the lists of lines.
//!
//! Actor, action, team, tool and decision are one number, the facet: there are few that differ. A list is the merge of one
//! range of the index for each facet that is wanted, so that however rare these are, no other line is looked at. Words alone
//! are looked for in each line that is wanted otherwise.

use std::{borrow::Cow, collections::HashSet};

use hivewright_actors::{
    audit::{
        Audit,
        query::{AuditFacet, AuditPage, AuditQuery, AuditWindow},
    },
    clock::Timestamp,
    storage::Order,
    store::{
        keys::{key_of, prefix_of, printable},
        reads::parse,
        records::{Record, decode},
    },
};
use rusqlite::{
    Connection, OptionalExtension, Row,
    functions::FunctionFlags,
    params,
    types::{Value, ValueRef},
};

use super::{
    columns::{Columns, Note, UNREADABLE},
    keys::Keys,
    merging::{
        Bound, Rank, Row as Place, Stream, count, count_up_to, directions, hex, json, merge, part,
    },
    packing::Unpacker,
    together::Beside,
};

/// What the table of the audit has beside key and value.
pub(super) const COLUMNS: Columns = Columns {
    kind: Audit::KIND,
    names: &["facet"],
    declared: "facet INTEGER",
    is_backfilled: true,
    indexes: r#"
        CREATE TABLE IF NOT EXISTS "audit.facet" (
            id INTEGER PRIMARY KEY, actor TEXT NOT NULL, action TEXT NOT NULL, team TEXT, tool TEXT, decision TEXT) STRICT;
        CREATE INDEX IF NOT EXISTS "audit.facet.by_name" ON "audit.facet" (actor, action, team, tool, decision);
        CREATE INDEX IF NOT EXISTS "audit.by_facet" ON audit (facet, key);
    "#,
    read,
    sweep,
};

fn read(
    connection: &Connection,
    _: Keys,
    key: &[u8],
    value: &[u8],
    _: &mut Beside<'_>,
) -> rusqlite::Result<Vec<Value>> {
    Ok(vec![facet_of(connection, key, value)?.into()])
}

fn facet_of(connection: &Connection, key: &[u8], value: &[u8]) -> rusqlite::Result<i64> {
    let Ok(line) = decode::<Audit>(key, value) else { return Ok(UNREADABLE) };
    let AuditFacet { actor, action, team, tool, decision } = line.facet();
    let facet = params![actor, action, team, tool, decision];
    let known = r#"SELECT id FROM "audit.facet"
        WHERE actor = ?1 AND action = ?2 AND team IS ?3 AND tool IS ?4 AND decision IS ?5"#;
    let new = r#"INSERT INTO "audit.facet" (actor, action, team, tool, decision)
        VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id"#;
    let id = connection.prepare_cached(known)?.query_row(facet, |row| row.get(0)).optional()?;
    id.map_or_else(|| connection.prepare_cached(new)?.query_row(facet, |row| row.get(0)), Ok)
}

/// Nothing is left of a line that was removed: also no name that was only in it.
fn sweep(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    let mut unused = connection.prepare_cached(
        r#"DELETE FROM "audit.facet" WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM audit WHERE facet = ?1)"#,
    )?;
    columns.iter().try_for_each(|facet| unused.execute(params![facet]).map(drop))
}

/// Compares what lists know of each line with the line.
pub(super) fn check(
    connection: &Connection,
    unpacker: &mut Unpacker,
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let prefix = prefix_of(Audit::KIND, &());
    let mut statement = connection.prepare(
        r#"SELECT audit.key, value, actor, action, team, tool, decision
        FROM audit LEFT JOIN "audit.facet" AS of ON of.id = facet"#,
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key = [&*prefix, row.get_ref(0)?.as_blob()?].concat();
        let value = unpacker.unpack(&key, row.get_ref(1)?.as_blob()?);
        let Ok(line) = value.and_then(|value| decode::<Audit>(&key, &value)) else { continue };
        if row.get_ref(2)? == ValueRef::Null || facet(row, 2)? != line.facet() {
            note(format!(
                "the index of the audit lacks `{}`, or has it as another",
                printable(&key)
            ));
        }
    }
    Ok(())
}

/// The facet in the columns of a row from one on.
fn facet<'a>(row: &'a Row<'_>, first: usize) -> rusqlite::Result<AuditFacet<'a>> {
    let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(first + column)?.as_str()?) };
    let of_call = |column| -> rusqlite::Result<Option<&str>> {
        Ok(row.get_ref(first + column)?.as_str_or_null()?)
    };
    Ok(AuditFacet {
        actor: text(0)?,
        action: text(1)?,
        team: of_call(2)?,
        tool: of_call(3)?,
        decision: of_call(4)?,
    })
}

/// Gives a connection what lists ask of it.
///
/// `line_has_words(key, value, words)`: the one place that looks for words in archived lines.
pub(super) fn equip(connection: &Connection) -> rusqlite::Result<()> {
    let prefix = prefix_of(Audit::KIND, &());
    let unpacker = parking_lot::Mutex::new(Unpacker::default());
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("line_has_words", 3, flags, move |call| {
        let key = [&*prefix, call.get_raw(0).as_blob()?].concat();
        let value = unpacker.lock().unpack(&key, call.get_raw(1).as_blob()?);
        let line = value.and_then(|value| decode::<Audit>(&key, &value));
        let words = call.get_raw(2).as_str()?;
        Ok(line.is_ok_and(|line| line.has_words(words)))
    })
}

/// The wanted part of the lines of an archive, by their stored keys.
pub(super) fn page(
    connection: &Connection,
    wanted: &AuditQuery,
    window: &AuditWindow,
    known: &HashSet<Vec<u8>>,
) -> rusqlite::Result<AuditPage> {
    let prefix = prefix_of(Audit::KIND, &());
    let rest = |key: &[u8]| key.strip_prefix(&*prefix).unwrap_or(key).to_vec();
    let list = List::new(connection, wanted, window.order)?;
    let found = list.count_known(&known.iter().map(|key| hex(&rest(key))).collect::<Vec<_>>())?;
    let total = list.count(window.counted + 1 + found)?.saturating_sub(found);
    let known = (found > 0).then_some(known);
    let after = window.after.as_ref().map(|place| rest(&key_of(Audit::KIND, place)));
    let after = list.start(after);
    part(window, total, |window| {
        let id = |rest: &[u8]| [&*prefix, rest].concat();
        let after = Some(after.clone());
        let rows = merge(connection, list.streams(), window, after, known, id)?;
        Ok(rows.iter().filter_map(|(_, key)| parse::<Audit>(key)).collect())
    })
}

struct List<'a> {
    connection: &'a Connection,
    order: Order,
    /// None if lines of all facets are wanted: then they are read by their keys.
    facets: Option<Vec<i64>>,
    /// The first key that may be wanted, and the first one behind all that may.
    since: Vec<u8>,
    until: Vec<u8>,
    words: Option<String>,
}

impl<'a> List<'a> {
    fn new(
        connection: &'a Connection,
        wanted: &AuditQuery,
        order: Order,
    ) -> rusqlite::Result<Self> {
        let facets = (!wanted.wants_all()).then(|| facets(connection, wanted)).transpose()?;
        let until = wanted.until.and_then(|Timestamp(at)| at.checked_add(1));
        Ok(Self {
            connection,
            order,
            facets,
            since: wanted.since.0.to_be_bytes().to_vec(),
            until: until.map_or(vec![0xff], |until| until.to_be_bytes().to_vec()),
            words: wanted.words.clone(),
        })
    }

    /// Where lines are read, and which are wanted of those.
    fn table(&self) -> String {
        let from = match self.facets {
            Some(_) => r#"audit INDEXED BY "audit.by_facet" WHERE facet = :facet"#.to_owned(),
            None => format!("audit WHERE +facet != {UNREADABLE}"),
        };
        let words =
            if self.words.is_some() { " AND line_has_words(key, value, :words)" } else { "" };
        format!("{from}{words}")
    }

    /// The parameters of each range.
    fn ranges(&self) -> Vec<Bound> {
        let all: Bound = vec![
            (":since", self.since.clone().into()),
            (":until", self.until.clone().into()),
            (":words", self.words.clone().into()),
        ];
        let of = |facet: &i64| all.iter().cloned().chain([(":facet", (*facet).into())]).collect();
        match &self.facets {
            Some(facets) => facets.iter().map(of).collect(),
            None => vec![all],
        }
    }

    /// How many there are, up to so many.
    fn count(&self, most: usize) -> rusqlite::Result<usize> {
        let select = format!(
            "SELECT count(*) FROM (SELECT 1 FROM {} AND key >= :since AND key < :until LIMIT :most)",
            self.table()
        );
        count_up_to(self.connection, &select, self.ranges(), most)
    }

    /// How many of those are known already.
    fn count_known(&self, known: &[String]) -> rusqlite::Result<usize> {
        if known.is_empty() {
            return Ok(0);
        }
        let facets: Cow<'_, str> = match self.facets {
            Some(_) => "+facet IN (SELECT value FROM json_each(:facets))".into(),
            None => format!("+facet != {UNREADABLE}").into(),
        };
        let words =
            if self.words.is_some() { " AND line_has_words(key, audit.value, :words)" } else { "" };
        let select = format!(
            "SELECT count(*) FROM (SELECT unhex(value) AS id FROM json_each(:known)) AS known
            CROSS JOIN audit ON key = known.id WHERE {facets} AND key >= :since AND key < :until{words}"
        );
        let bound = vec![
            (":since", self.since.clone().into()),
            (":until", self.until.clone().into()),
            (":words", self.words.clone().into()),
            (":known", json(&known)?),
            (":facets", json(&self.facets)?),
        ];
        count(self.connection, &select, &bound)
    }

    /// Where it begins: behind a place, and within its time. So each piece has one place that it is sought by.
    fn start(&self, after: Option<Vec<u8>>) -> Place {
        let key = match self.order {
            Order::Rising => after.into_iter().fold(self.since.clone(), Vec::max),
            Order::Falling => after.into_iter().fold(self.until.clone(), Vec::min),
        };
        (Rank(0.0), key)
    }

    /// Reads a piece of one range.
    fn piece(&self) -> String {
        let (is_behind, order) = directions(self.order);
        let end = match self.order {
            Order::Rising => "< :until",
            Order::Falling => ">= :since",
        };
        format!(
            "SELECT 0.0, key FROM {} AND key {end} AND key {is_behind} :key
            ORDER BY key {order} LIMIT :most OFFSET :skip",
            self.table()
        )
    }

    fn streams(&self) -> Vec<Stream> {
        let stream = |bound: Bound| Stream::new(self.piece(), bound).of_one_rank(0.0);
        self.ranges().into_iter().map(stream).collect()
    }
}

fn facets(connection: &Connection, wanted: &AuditQuery) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection
        .prepare_cached(r#"SELECT id, actor, action, team, tool, decision FROM "audit.facet""#)?;
    let mut rows = statement.query([])?;
    let mut facets = Vec::new();
    while let Some(row) = rows.next()? {
        if wanted.wants(facet(row, 1)?) {
            facets.push(row.get(0)?);
        }
    }
    Ok(facets)
}

#[cfg(test)]
pub(super) fn names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut names = connection.prepare(
        r#"SELECT concat_ws(' ', actor, action, team, tool, decision) FROM "audit.facet" ORDER BY 1"#,
    )?;
    names.query_map([], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::history::{FILE, History, Reader};

    /// OP-02: a list is read from its index, in its order, from the cursor on, however many lines there are and however few
    /// of them are wanted.
    #[test]
    fn lists_of_the_audit_are_ranges_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        drop(History::create(folder.path(), 1).unwrap());
        let reader = Reader::open(&folder.path().join(FILE)).unwrap();
        let of_ann = AuditQuery { actor: Some("ann".to_owned()), ..AuditQuery::default() };
        let by_facet = "SEARCH audit USING COVERING INDEX audit.by_facet (facet=? AND key";
        let wanted =
            [(of_ann, by_facet), (AuditQuery::default(), "SEARCH audit USING PRIMARY KEY (key")];

        for order in [Order::Rising, Order::Falling] {
            for (wanted, index) in &wanted {
                let list = List::new(&reader.connection, wanted, order).unwrap();
                let plan = format!("EXPLAIN QUERY PLAN {}", list.piece());
                let mut plan = reader.connection.prepare(&plan).unwrap();
                let mut rows = plan.raw_query();
                let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
                assert!(step.starts_with(index), "{step}");
                assert!(rows.next().unwrap().is_none());
            }
        }
        let lacking = "EXPLAIN QUERY PLAN SELECT key FROM audit WHERE facet IS NULL";
        let step: String = reader.connection.query_row(lacking, [], |row| row.get(3)).unwrap();
        assert_eq!(step, "SEARCH audit USING COVERING INDEX audit.by_facet (facet=?)");
    }
}
