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
use rusqlite::{Connection, params, types::Value};

use super::{
    columns::{Columns, Note, UNREADABLE, have, millis},
    facets,
    keys::Keys,
    listing::{self, directions, json},
    merging::{Bound, Rank, Stream},
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
    facets::number_of(connection, [&known, &new], facet)
}

fn sweep<R: Record>(connection: &Connection, columns: &[Value]) -> rusqlite::Result<()> {
    columns.first().map_or(Ok(()), |facet| facets::sweep(connection, R::KIND, "facet", facet))
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
    let rest = |key: &Vec<u8>| key.strip_prefix(&*prefix).unwrap_or(key).to_vec();
    let list = List::new(connection, of, wanted, window.order)?;
    let window = window.map(|(at, id)| (Rank(millis(*at) as f64), id.as_bytes().to_vec()));
    let page = listing::page(connection, &list, &window, &known.iter().map(rest).collect())?;
    Ok(page
        .filter_map(|(Rank(at), key)| Some((Timestamp(at as u64), String::from_utf8(key).ok()?))))
}

struct List<'a> {
    of: &'a str,
    rank: &'static str,
    order: Order,
    facets: Vec<i64>,
}

impl<'a> List<'a> {
    fn new(
        connection: &Connection,
        of: &'a str,
        wanted: &WaitQuery,
        order: Order,
    ) -> rusqlite::Result<Self> {
        let rank = match wanted.rank {
            WaitRank::Created => "created_at",
            WaitRank::Expires => "expires_at",
        };
        Ok(Self { of, rank, order, facets: facets(connection, of, wanted)? })
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
}

impl listing::List for List<'_> {
    fn counted(&self) -> Vec<(String, Bound)> {
        let Self { of, rank, .. } = self;
        let range = format!(r#"{of} INDEXED BY "{of}.by_{rank}" WHERE facet = :facet"#);
        self.ranges().map(|bound| (range.clone(), bound)).collect()
    }

    fn by_key(&self) -> rusqlite::Result<(&str, String, Bound)> {
        let wanted = "+facet IN (SELECT value FROM json_each(:facets))".to_owned();
        Ok((self.of, wanted, vec![(":facets", json(&self.facets)?)]))
    }

    fn streams(&self, _: bool) -> Vec<Stream> {
        self.ranges().map(|bound| Stream::new(self.piece(), bound)).collect()
    }
}

fn facets(connection: &Connection, of: &str, wanted: &WaitQuery) -> rusqlite::Result<Vec<i64>> {
    let select = format!(r#"SELECT id, team, status, kind FROM "{of}.facet""#);
    facets::wanted(connection, &select, |row| {
        let text = |column| -> rusqlite::Result<&str> { Ok(row.get_ref(column)?.as_str()?) };
        Ok(wanted.wants(WaitFacet { team: text(1)?, status: text(2)?, kind: text(3)? }))
    })
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
