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
    order::{Order, Window},
    store::{
        keys::{key_of, prefix_of, printable},
        reads::parse,
        records::{Record, decode},
    },
};
use rusqlite::{
    Connection, Row,
    functions::FunctionFlags,
    params,
    types::{Value, ValueRef},
};

use super::{
    columns::{Columns, Note, UNREADABLE},
    facets,
    keys::Keys,
    listing::{self, directions, json},
    merging::{Bound, Rank, Row as Place, Stream},
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
    facets::number_of(connection, [known, new], facet)
}

fn sweep(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    columns.first().map_or(Ok(()), |facet| facets::sweep(connection, Audit::KIND, "facet", facet))
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
    let known = known.iter().map(|key| rest(key)).collect();
    let window = window.map(|place| (Rank(0.0), rest(&key_of(Audit::KIND, place))));
    let page = listing::page(connection, &list, &list.within(window), &known)?;
    Ok(page.filter_map(|(_, key)| parse::<Audit>(&[&*prefix, &*key].concat())))
}

struct List {
    order: Order,
    /// None if lines of all facets are wanted: then they are read by their keys.
    facets: Option<Vec<i64>>,
    /// The first key that may be wanted, and the first one behind all that may.
    since: Vec<u8>,
    until: Vec<u8>,
    words: Option<String>,
}

impl List {
    fn new(connection: &Connection, wanted: &AuditQuery, order: Order) -> rusqlite::Result<Self> {
        let facets = (!wanted.wants_all()).then(|| facets(connection, wanted)).transpose()?;
        let until = wanted.until.and_then(|Timestamp(at)| at.checked_add(1));
        Ok(Self {
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
        format!("{from}{}", self.with_words())
    }

    fn with_words(&self) -> &'static str {
        if self.words.is_some() { " AND line_has_words(key, value, :words)" } else { "" }
    }

    /// The parameters that all ranges have.
    fn bound(&self) -> Bound {
        vec![
            (":since", self.since.clone().into()),
            (":until", self.until.clone().into()),
            (":words", self.words.clone().into()),
        ]
    }

    /// The parameters of each range.
    fn ranges(&self) -> Vec<Bound> {
        let of = |facet: &i64| {
            self.bound().into_iter().chain([(":facet", (*facet).into())]).collect::<Bound>()
        };
        self.facets.as_ref().map_or_else(|| vec![self.bound()], |all| all.iter().map(of).collect())
    }

    /// A window as far as it is within the list's time. So each piece has one place that it is sought by.
    fn within(&self, window: Window<Place>) -> Window<Place> {
        let after = window.after.map(|(_, key)| key).into_iter();
        let key = match self.order {
            Order::Rising => after.fold(self.since.clone(), Vec::max),
            Order::Falling => after.fold(self.until.clone(), Vec::min),
        };
        Window { after: Some((Rank(0.0), key)), ..window }
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
}

impl listing::List for List {
    fn counted(&self) -> Vec<(String, Bound)> {
        let range = format!("{} AND key >= :since AND key < :until", self.table());
        self.ranges().into_iter().map(|bound| (range.clone(), bound)).collect()
    }

    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)> {
        let facets: Cow<'_, str> = match self.facets {
            Some(_) => "+facet IN (SELECT value FROM json_each(:facets))".into(),
            None => format!("+facet != {UNREADABLE}").into(),
        };
        let wanted = format!("{facets} AND key >= :since AND key < :until{}", self.with_words());
        let mut bound = self.bound();
        bound.push((":facets", json(&self.facets)?));
        Ok((Audit::KIND, wanted, bound))
    }

    fn streams(&self, _: bool) -> Vec<Stream> {
        let stream = |bound: Bound| Stream::new(self.piece(), bound).of_one_rank(0.0);
        self.ranges().into_iter().map(stream).collect()
    }
}

fn facets(connection: &Connection, wanted: &AuditQuery) -> rusqlite::Result<Vec<i64>> {
    let select = r#"SELECT id, actor, action, team, tool, decision FROM "audit.facet""#;
    facets::wanted(connection, select, |row| Ok(wanted.wants(facet(row, 1)?)))
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
