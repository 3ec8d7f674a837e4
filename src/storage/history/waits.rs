//! Index of archived approvals and questions: the columns that lists filter and sort by, and the lists.
//!
//! Team, status and kind are one number, the facet, as those of tasks are.

use std::collections::HashSet;

use hivewright_actors::{
    approvals::{
        query::{WaitFacet, WaitPage, WaitQuery, WaitRank, WaitWindow},
        question::Question,
        record::Approval,
        records::Waits,
    },
    clock::Timestamp,
    storage::Order,
    store::{
        keys::{prefix_of, printable},
        records::{Record, decode},
    },
};
use rusqlite::{Connection, OptionalExtension, params, types::Value};

use super::{
    columns::{Columns, Note, UNREADABLE, have, millis},
    keys::Keys,
    merging::{Bound, Rank, Stream, count, count_up_to, directions, hex, json, merge, part},
    packing::Unpacker,
    together::Beside,
};

const NAMES: &[&str] = &["facet", "created_at", "expires_at"];
const DECLARED: &str = "facet INTEGER, created_at INTEGER, expires_at INTEGER";

const INDEXES: &str = r#"
    CREATE TABLE IF NOT EXISTS "{kind}.facet" (
        id INTEGER PRIMARY KEY, team TEXT NOT NULL, status TEXT NOT NULL, kind TEXT NOT NULL,
        UNIQUE (team, status, kind)) STRICT;
    CREATE INDEX IF NOT EXISTS "{kind}.by_created_at" ON "{kind}" (facet, created_at, key);
    CREATE INDEX IF NOT EXISTS "{kind}.by_expires_at" ON "{kind}" (facet, expires_at, key);
"#;

pub(super) const APPROVALS: Columns = Columns {
    kind: Approval::KIND,
    names: NAMES,
    declared: DECLARED,
    is_backfilled: true,
    indexes: INDEXES,
    read: read::<Approval>,
    sweep: sweep::<Approval>,
};

pub(super) const QUESTIONS: Columns = Columns {
    kind: Question::KIND,
    names: NAMES,
    declared: DECLARED,
    is_backfilled: true,
    indexes: INDEXES,
    read: read::<Question>,
    sweep: sweep::<Question>,
};

/// The columns of one. What cannot be read is in no list.
fn read<R: Waits>(
    connection: &Connection,
    _: Keys,
    key: &[u8],
    value: &[u8],
    _: &mut Beside<'_>,
) -> rusqlite::Result<Vec<Value>> {
    let Ok(row) = decode::<R>(key, value) else {
        return Ok(vec![UNREADABLE.into(), Value::Null, Value::Null]);
    };
    let moments = [row.created_at(), row.expires_at()].map(|at| millis(at).into());
    let facet = facet_of(connection, R::KIND, row.facet())?.into();
    Ok([facet].into_iter().chain(moments).collect())
}

fn facet_of(connection: &Connection, of: &str, facet: WaitFacet<'_>) -> rusqlite::Result<i64> {
    let WaitFacet { team, status, kind } = facet;
    let facet = params![team, status, kind];
    let known =
        format!(r#"SELECT id FROM "{of}.facet" WHERE team = ?1 AND status = ?2 AND kind = ?3"#);
    let new = format!(
        r#"INSERT INTO "{of}.facet" (team, status, kind) VALUES (?1, ?2, ?3) RETURNING id"#
    );
    let id = connection.prepare_cached(&known)?.query_row(facet, |row| row.get(0)).optional()?;
    id.map_or_else(|| connection.prepare_cached(&new)?.query_row(facet, |row| row.get(0)), Ok)
}

/// Nothing is left of one that was removed: also no name of a team that was only in it.
fn sweep<R: Record>(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    let of = R::KIND;
    let Some(facet) = columns.first() else { return Ok(()) };
    let unused = format!(
        r#"DELETE FROM "{of}.facet" WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM {of} WHERE facet = ?1)"#
    );
    connection.prepare_cached(&unused)?.execute(params![facet]).map(drop)
}

/// Compares what lists know of each one of a kind with itself.
pub(super) fn check<R: Waits>(
    connection: &Connection,
    unpacker: &mut Unpacker,
    note: &mut Note<'_>,
) -> rusqlite::Result<()> {
    let (of, prefix) = (R::KIND, prefix_of(R::KIND, &()));
    let mut statement = connection.prepare(&format!(
        r#"SELECT {of}.key, value, created_at, expires_at, team, status, kind
        FROM {of} LEFT JOIN "{of}.facet" AS of ON of.id = facet"#
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let key = [&*prefix, row.get_ref(0)?.as_blob()?].concat();
        let value = unpacker.unpack(&key, row.get_ref(1)?.as_blob()?);
        let Ok(found) = value.and_then(|value| decode::<R>(&key, &value)) else { continue };
        let WaitFacet { team, status, kind } = found.facet();
        let moments = [found.created_at(), found.expires_at()].map(|at| millis(at).into());
        let facet = [team, status, kind].map(|text| Value::from(text.to_owned()));
        if !have(row, 2, moments.into_iter().chain(facet))? {
            note(format!("the index of lists lacks `{}`, or has it as another", printable(&key)));
        }
    }
    Ok(())
}

/// The wanted part of the approvals or the questions of an archive, which their kind tells apart.
pub(super) fn page(
    connection: &Connection,
    of: &str,
    wanted: &WaitQuery,
    window: &WaitWindow,
    known: &HashSet<Vec<u8>>,
) -> rusqlite::Result<WaitPage> {
    let prefix = prefix_of(of, &());
    let rest = |key: &Vec<u8>| hex(key.strip_prefix(&*prefix).unwrap_or(key));
    let list = List::new(connection, of, wanted, window.order)?;
    let found = list.count_known(&known.iter().map(rest).collect::<Vec<_>>())?;
    let total = list.count(window.counted + 1 + found)?.saturating_sub(found);
    let known = (found > 0).then_some(known);
    let after = window.after.as_ref();
    let after = after.map(|(at, id)| (Rank(millis(*at) as f64), id.as_bytes().to_vec()));
    part(window, total, |window| {
        let id = |rest: &[u8]| [&*prefix, rest].concat();
        let rows = merge(connection, list.streams(), window, after.clone(), known, id)?;
        let place = |(at, key): (f64, Vec<u8>)| {
            let id = String::from_utf8_lossy(key.get(prefix.len()..).unwrap_or_default());
            (Timestamp(at as u64), id.into_owned())
        };
        Ok(rows.into_iter().map(place).collect())
    })
}

struct List<'a> {
    connection: &'a Connection,
    of: &'a str,
    rank: &'static str,
    order: Order,
    facets: Vec<i64>,
}

impl<'a> List<'a> {
    fn new(
        connection: &'a Connection,
        of: &'a str,
        wanted: &WaitQuery,
        order: Order,
    ) -> rusqlite::Result<Self> {
        let rank = match wanted.rank {
            WaitRank::Created => "created_at",
            WaitRank::Expires => "expires_at",
        };
        Ok(Self { connection, of, rank, order, facets: facets(connection, of, wanted)? })
    }

    /// How many there are, up to so many.
    fn count(&self, most: usize) -> rusqlite::Result<usize> {
        let Self { of, rank, .. } = self;
        let select = format!(
            r#"SELECT count(*) FROM (SELECT 1 FROM {of} INDEXED BY "{of}.by_{rank}" WHERE facet = :facet LIMIT :most)"#
        );
        count_up_to(self.connection, &select, self.ranges(), most)
    }

    /// How many of those are known already.
    fn count_known(&self, known: &[String]) -> rusqlite::Result<usize> {
        if known.is_empty() {
            return Ok(0);
        }
        let select = format!(
            "SELECT count(*) FROM (SELECT unhex(value) AS id FROM json_each(:known)) AS known
            CROSS JOIN {} ON key = known.id WHERE +facet IN (SELECT value FROM json_each(:facets))",
            self.of
        );
        let bound = vec![(":known", json(&known)?), (":facets", json(&self.facets)?)];
        count(self.connection, &select, &bound)
    }

    /// Reads a piece of one facet.
    fn piece(&self) -> String {
        let Self { of, rank, .. } = self;
        let (is_behind, order) = directions(self.order);
        format!(
            r#"SELECT {rank}, key FROM {of} INDEXED BY "{of}.by_{rank}"
            WHERE facet = :facet AND ({rank}, key) {is_behind} (:rank, :key)
            ORDER BY {rank} {order}, key {order} LIMIT :most OFFSET :skip"#
        )
    }

    /// The parameters of each range.
    fn ranges(&self) -> impl Iterator<Item = Bound> {
        self.facets.iter().map(|facet| vec![(":facet", (*facet).into())])
    }

    fn streams(&self) -> Vec<Stream> {
        self.ranges().map(|bound| Stream::new(self.piece(), bound)).collect()
    }
}

fn facets(connection: &Connection, of: &str, wanted: &WaitQuery) -> rusqlite::Result<Vec<i64>> {
    let select = format!(r#"SELECT id, team, status, kind FROM "{of}.facet""#);
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query([])?;
    let mut facets = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        if wanted.wants(WaitFacet { team: text(1)?, status: text(2)?, kind: text(3)? }) {
            facets.push(row.get(0)?);
        }
    }
    Ok(facets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::history::{FILE, History, Reader};

    /// OP-02: a list is read from its index, in its order, from the cursor on, however many have been decided.
    #[test]
    fn lists_of_approvals_are_ranges_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        drop(History::create(folder.path(), 1).unwrap());
        let reader = Reader::open(&folder.path().join(FILE)).unwrap();

        for of in [Approval::KIND, Question::KIND] {
            for (rank, column) in
                [(WaitRank::Created, "created_at"), (WaitRank::Expires, "expires_at")]
            {
                let wanted = WaitQuery { rank, ..WaitQuery::default() };
                for order in [Order::Rising, Order::Falling] {
                    let list = List::new(&reader.connection, of, &wanted, order).unwrap();
                    let plan = format!("EXPLAIN QUERY PLAN {}", list.piece());
                    let mut plan = reader.connection.prepare(&plan).unwrap();
                    let mut rows = plan.raw_query();
                    let step: String = rows.next().unwrap().unwrap().get(3).unwrap();
                    let index = format!(
                        "SEARCH {of} USING COVERING INDEX {of}.by_{column} (facet=? AND ({column},key)"
                    );
                    assert!(step.starts_with(&index), "{step}");
                    assert!(rows.next().unwrap().is_none());
                }
            }
        }
    }
}
