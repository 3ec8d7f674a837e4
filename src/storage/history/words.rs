//! Full-text index of the archive: which records hold which words.
//!
//! `said` has a row for each record that says something, `words` the words of these rows. The words themselves stay in
//! the records alone: `words` is contentless, and forgets a record by being told again what it held. It is not
//! `contentless_delete`, which would only mark the row as gone: its words, of which one may have become a secret, would
//! stay in the file.

use std::{cmp::Reverse, collections::BinaryHeap};

use hivewright_actors::{
    clock::Timestamp,
    search::{Entry, Place, Query, Search},
    storage::Order,
};
use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::listing::directions;

/// How texts become words: without case and accents.
pub(super) const TOKENIZER: &str = "unicode61 remove_diacritics 2";

/// A row that was found: under which kind and rest of the key, and where it stands.
pub(super) struct Row {
    pub(super) kind: String,
    pub(super) key: Vec<u8>,
    pub(super) place: Place,
}

/// Makes the tables if they are not there yet.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    if connection.table_exists(None, "said")? {
        return Ok(());
    }
    connection.execute_batch(&format!(
        r#"BEGIN;
         CREATE TABLE said (
             id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL,
             team TEXT NOT NULL, UNIQUE (kind, key)
         ) STRICT;
         CREATE TABLE "said.span" (
             number INTEGER PRIMARY KEY, earliest INTEGER NOT NULL, latest INTEGER NOT NULL
         ) STRICT;
         CREATE VIRTUAL TABLE words
             USING fts5(text, content='', columnsize=0, tokenize='{TOKENIZER}');
         INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
         COMMIT;"#
    ))
}

/// What the index knew of a record.
pub(super) enum Before {
    /// Nothing: the record is new.
    Nothing,
    /// What it said; none if that cannot be read, or it said nothing.
    Said(Option<Entry>),
}

/// Notes what a record says now, in place of what it said before.
pub(super) fn note(
    connection: &Connection,
    kind: &str,
    key: &[u8],
    before: &Before,
    now: Option<&Entry>,
) -> rusqlite::Result<()> {
    let id = match before {
        Before::Nothing => None,
        Before::Said(before) if before.as_ref() == now => return Ok(()),
        Before::Said(before) => forget(connection, kind, key, before.as_ref())?,
    };
    let Some(Entry { team, at, .. }) = now else { return Ok(()) };
    let at = at.0.cast_signed();
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO said (id, kind, key, at, team) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let row = params![id, kind, key, at, team.as_str()];
    if insert.execute(row)? == 0 {
        // The record was lost, and what it was found by was not.
        forget(connection, kind, key, None)?;
        insert.execute(row)?;
    }
    let id = connection.last_insert_rowid();
    let mut span = connection.prepare_cached(
        r#"INSERT INTO "said.span" VALUES (?1, ?2, ?2) ON CONFLICT (number)
            DO UPDATE SET earliest = min(earliest, ?2), latest = max(latest, ?2)
            WHERE ?2 NOT BETWEEN earliest AND latest"#,
    )?;
    span.execute(params![id / SPAN, at])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    insert.execute(params![id, now.map(Entry::text)]).map(drop)
}

/// Returns the id that is free again, at its place in time.
///
/// A record that can no longer be read has a row all the same: its words are left in the index, where nothing finds them.
fn forget(
    connection: &Connection,
    kind: &str,
    key: &[u8],
    before: Option<&Entry>,
) -> rusqlite::Result<Option<i64>> {
    let mut delete =
        connection.prepare_cached("DELETE FROM said WHERE kind = ?1 AND key = ?2 RETURNING id")?;
    let id: Option<i64> = delete.query_row(params![kind, key], |row| row.get(0)).optional()?;
    let Some((id, before)) = id.zip(before) else { return Ok(None) };
    let mut delete = connection
        .prepare_cached("INSERT INTO words (words, rowid, text) VALUES ('delete', ?1, ?2)")?;
    delete.execute(params![id, before.text()])?;
    Ok(Some(id))
}

/// The keys of records of a kind that the index names and that are not there.
pub(super) fn left_over(connection: &Connection, kind: &str) -> rusqlite::Result<Vec<Vec<u8>>> {
    let table = kind.replace('\0', ".");
    let mut left = connection.prepare(&format!(
        r#"SELECT key FROM said WHERE kind = ?1 AND NOT EXISTS (SELECT 1 FROM "{table}" WHERE key = said.key)"#
    ))?;
    left.query_map(params![kind], |row| row.get(0))?.collect()
}

/// Whether the first plain word of a record is not found at its row: then none of its words may be.
pub(super) fn lacks_words(
    connection: &Connection,
    id: i64,
    entry: &Entry,
) -> rusqlite::Result<bool> {
    let text = entry.text();
    let is_plain = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some(word) = text.split_whitespace().find(is_plain) else { return Ok(false) };
    let mut find = connection
        .prepare_cached("SELECT count(*) FROM words WHERE words MATCH ?1 AND rowid = ?2")?;
    let found = find.query_row(params![format!("\"{word}\""), id], |row| row.get::<_, i64>(0))?;
    Ok(found == 0)
}

/// What is searched for in the language of FTS5: each term is a string of it, so that nothing in one has a meaning.
pub(super) fn expression(query: &Query, operator: &str) -> String {
    let terms = query.terms().iter().map(|term| {
        let beginning = if term.is_beginning { " *" } else { "" };
        format!("\"{}\"{beginning}", term.text.replace(['"', '\0'], " "))
    });
    terms.collect::<Vec<_>>().join(operator)
}

/// Rows that are found.
const FOUND: &str = "FROM words CROSS JOIN said ON said.id = words.rowid
    WHERE words MATCH :query AND words.rowid BETWEEN :first AND :last
        AND (:teams IS NULL OR said.team IN (SELECT value FROM json_each(:teams)))
        AND (:since IS NULL OR said.at >= :since) AND (:until IS NULL OR said.at <= :until)";

/// The rows that are wanted, with one more if there are more, and how many there are, as far as they are counted.
pub(super) fn find(
    connection: &Connection,
    search: &Search,
) -> rusqlite::Result<(Vec<Row>, usize)> {
    let spans = Spans::read(connection)?;
    let (first, last) = spans.ids(search.since, search.until);
    let teams = search.teams.as_ref().map(|teams| serde_json::json!(teams).to_string());
    let moment = |at: Option<Timestamp>| at.map(|at| at.0.cast_signed());
    let query = expression(&search.query, " AND ");
    let (since, until) = (moment(search.since), moment(search.until));
    let found = named_params! {
        ":query": query, ":first": first, ":last": last, ":teams": teams, ":since": since, ":until": until,
    };
    let counted = search.counted;
    let mut count = connection
        .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 {FOUND} LIMIT {counted})"))?;
    let total: i64 = count.query_row(found, |row| row.get(0))?;
    let (_, order) = directions(search.order);
    let mut find = connection
        .prepare_cached(&format!("SELECT said.at, said.id {FOUND} ORDER BY words.rowid {order}"))?;
    let mut best = Best::new(search);
    let mut found = find.query(found)?;
    while let Some(row) = found.next()? {
        let at = Timestamp(row.get::<_, i64>(0)?.cast_unsigned());
        let place = Place { at, id: row.get(1)? };
        if best.is_settled(spans.bound(place.id, search.order)) {
            break;
        }
        best.see(place);
    }
    let mut get = connection.prepare_cached("SELECT kind, key FROM said WHERE id = ?1")?;
    let rows = best.places().map(|place| {
        get.query_row(params![place.id], |row| {
            Ok(Row { kind: row.get(0)?, key: row.get(1)?, place })
        })
    });
    Ok((rows.collect::<Result<_, _>>()?, usize::try_from(total).unwrap_or_default()))
}

/// The first places of a list so far.
struct Best<'a> {
    search: &'a Search,
    most: usize,
    /// The last of them on top.
    heap: BinaryHeap<Ranked>,
}

/// What comes first in the order of a list is smaller.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Ranked {
    Rising(Place),
    Falling(Reverse<Place>),
}

impl Ranked {
    fn new(place: Place, order: Order) -> Self {
        match order {
            Order::Rising => Self::Rising(place),
            Order::Falling => Self::Falling(Reverse(place)),
        }
    }

    fn place(&self) -> Place {
        let (Self::Rising(place) | Self::Falling(Reverse(place))) = self;
        *place
    }
}

impl<'a> Best<'a> {
    fn new(search: &'a Search) -> Self {
        let most = search.skip.saturating_add(search.most).saturating_add(1);
        Self { search, most, heap: BinaryHeap::new() }
    }

    fn see(&mut self, place: Place) {
        let ranked = |place| Ranked::new(place, self.search.order);
        if self.search.after.is_none_or(|after| ranked(place) > ranked(after)) {
            self.heap.push(ranked(place));
        }
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// Nothing up to this moment, in the order of the list, changes it any more: what comes later has been seen later.
    fn is_settled(&self, bound: Timestamp) -> bool {
        let last = self.heap.peek().filter(|_| self.heap.len() == self.most);
        last.is_some_and(|last| match self.search.order {
            Order::Rising => last.place().at <= bound,
            Order::Falling => last.place().at >= bound,
        })
    }

    fn places(self) -> impl Iterator<Item = Place> {
        self.heap.into_sorted_vec().into_iter().skip(self.search.skip).map(|ranked| ranked.place())
    }
}

/// When the rows of a range of ids were said: ids rise with time, but for records that were long on their way. So a search
/// for the newest ends once nothing that is left can be newer.
struct Spans(Vec<Span>);

/// A range of [`SPAN`] ids, by its number: the first moment in it and the last, and the same of all that come behind it,
/// and before it.
struct Span {
    number: i64,
    earliest: Timestamp,
    latest: Timestamp,
    earliest_behind: Timestamp,
    latest_before: Timestamp,
}

const SPAN: i64 = 1024;

impl Spans {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut select = connection.prepare_cached(
            r#"SELECT number, earliest, latest FROM "said.span" ORDER BY number"#,
        )?;
        let spans = select.query_map([], |row| {
            let (earliest, latest): (i64, i64) = (row.get(1)?, row.get(2)?);
            let moment = |at: i64| Timestamp(at.cast_unsigned());
            Ok((row.get(0)?, moment(earliest), moment(latest)))
        })?;
        Ok(Self::new(spans.collect::<rusqlite::Result<_>>()?))
    }

    fn new(spans: Vec<(i64, Timestamp, Timestamp)>) -> Self {
        let mut latest_before = Timestamp(0);
        let mut spans: Vec<Span> = spans
            .into_iter()
            .map(|(number, earliest, latest)| {
                latest_before = latest_before.max(latest);
                Span { number, earliest, latest, earliest_behind: earliest, latest_before }
            })
            .collect();
        let mut earliest_behind = Timestamp(u64::MAX);
        for span in spans.iter_mut().rev() {
            earliest_behind = earliest_behind.min(span.earliest);
            span.earliest_behind = earliest_behind;
        }
        Self(spans)
    }

    /// The ids between which all rows of a time are.
    fn ids(&self, since: Option<Timestamp>, until: Option<Timestamp>) -> (i64, i64) {
        let is_within = |span: &&Span| {
            since.is_none_or(|since| span.latest >= since)
                && until.is_none_or(|until| span.earliest <= until)
        };
        let first = self.0.iter().find(is_within).map_or(0, |span| span.number * SPAN);
        let last = self.0.iter().rfind(is_within).map_or(0, |span| (span.number + 1) * SPAN);
        (first, last)
    }

    /// The moment up to which a walk by ids has yet to come, from the row of an id on.
    fn bound(&self, id: i64, order: Order) -> Timestamp {
        let place = self.0.binary_search_by_key(&(id / SPAN), |span| span.number);
        let span = place.ok().and_then(|place| self.0.get(place));
        match order {
            Order::Rising => span.map_or(Timestamp(0), |span| span.earliest_behind),
            Order::Falling => span.map_or(Timestamp(u64::MAX), |span| span.latest_before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_knows_what_it_has_yet_to_come_to() {
        let spans = [(0, 10, 20), (1, 15, 50), (2, 30, 40), (4, 60, 70)];
        let spans = spans.map(|(number, from, to)| (number, Timestamp(from), Timestamp(to)));
        let spans = Spans::new(spans.to_vec());
        let bounds =
            |order| [5, SPAN, 2 * SPAN + 7, 3 * SPAN, 4 * SPAN].map(|id| spans.bound(id, order).0);
        let ids = |since, until| {
            let (first, last) = spans.ids(Some(Timestamp(since)), Some(Timestamp(until)));
            (first / SPAN, last / SPAN)
        };

        assert_eq!(bounds(Order::Falling), [20, 50, 50, u64::MAX, 70]);
        assert_eq!(bounds(Order::Rising), [10, 15, 30, 0, 60]);
        assert_eq!(spans.ids(None, None), (0, 5 * SPAN));
        assert_eq!((ids(21, 29), ids(35, 60), ids(51, 59)), ((1, 2), (1, 5), (0, 0)));
    }
}
