//! Full-text index of the archive: which records hold which words.
//!
//! `said` has a row for each record that says something, `words` the words of these rows. The words themselves stay in
//! the records alone: `words` is contentless, and forgets a record by being told again what it held. It is not
//! `contentless_delete`, which would only mark the row as gone: its words, of which one may have become a secret, would
//! stay in the file.

use hivewright_actors::{
    clock::Timestamp,
    search::{Entry, Place, Query, Search},
    storage::Order,
};
use rusqlite::{Connection, OptionalExtension, named_params, params};

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
        "BEGIN;
         CREATE TABLE said (
             id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL, at INTEGER NOT NULL,
             team TEXT NOT NULL, UNIQUE (kind, key)
         ) STRICT;
         CREATE VIRTUAL TABLE words
             USING fts5(text, content='', columnsize=0, tokenize='{TOKENIZER}');
         INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
         COMMIT;"
    ))
}

/// Notes what a record says now, in place of what it said before.
pub(super) fn note(
    connection: &Connection,
    kind: &str,
    key: &[u8],
    before: Option<&Entry>,
    now: Option<&Entry>,
) -> rusqlite::Result<()> {
    if before == now {
        return Ok(());
    }
    forget(connection, kind, key, before)?;
    let Some(Entry { team, at, .. }) = now else { return Ok(()) };
    let mut insert = connection
        .prepare_cached("INSERT INTO said (kind, key, at, team) VALUES (?1, ?2, ?3, ?4)")?;
    let id = insert.insert(params![kind, key, at.0.cast_signed(), team.as_str()])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    insert.execute(params![id, now.map(Entry::text)]).map(drop)
}

/// A record that can no longer be read has a row all the same: its words are left in the index, where nothing finds them.
fn forget(
    connection: &Connection,
    kind: &str,
    key: &[u8],
    before: Option<&Entry>,
) -> rusqlite::Result<()> {
    let mut delete =
        connection.prepare_cached("DELETE FROM said WHERE kind = ?1 AND key = ?2 RETURNING id")?;
    let id: Option<i64> = delete.query_row(params![kind, key], |row| row.get(0)).optional()?;
    let Some((id, before)) = id.zip(before) else { return Ok(()) };
    let mut delete = connection
        .prepare_cached("INSERT INTO words (words, rowid, text) VALUES ('delete', ?1, ?2)")?;
    delete.execute(params![id, before.text()]).map(drop)
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
const FOUND: &str = "FROM words JOIN said ON said.id = words.rowid
    WHERE words MATCH :query
        AND (:teams IS NULL OR said.team IN (SELECT value FROM json_each(:teams)))
        AND (:since IS NULL OR said.at >= :since) AND (:until IS NULL OR said.at <= :until)";

/// The rows that are wanted, with one more if there are more, and how many there are, as far as they are counted.
pub(super) fn find(
    connection: &Connection,
    search: &Search,
) -> rusqlite::Result<(Vec<Row>, usize)> {
    let query = expression(&search.query, " AND ");
    let teams = search.teams.as_ref().map(|teams| serde_json::json!(teams).to_string());
    let moment = |at: Option<Timestamp>| at.map(|at| at.0.cast_signed());
    let (since, until) = (moment(search.since), moment(search.until));
    let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let mut count = connection
        .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 {FOUND} LIMIT :counted)"))?;
    let total: i64 = count.query_row(
        named_params! {
            ":query": query, ":teams": teams, ":since": since, ":until": until,
            ":counted": number(search.counted),
        },
        |row| row.get(0),
    )?;
    let (sign, order) = match search.order {
        Order::Rising => (">", "ASC"),
        Order::Falling => ("<", "DESC"),
    };
    let mut find = connection.prepare_cached(&format!(
        "SELECT said.kind, said.key, said.at, said.id {FOUND}
             AND (:at IS NULL OR (said.at, said.id) {sign} (:at, :id))
         ORDER BY said.at {order}, said.id {order} LIMIT :most OFFSET :skip"
    ))?;
    let rows = find.query_map(
        named_params! {
            ":query": query, ":teams": teams, ":since": since, ":until": until,
            ":at": moment(search.after.map(|after| after.at)),
            ":id": search.after.map(|after| after.id),
            ":most": number(search.most.saturating_add(1)), ":skip": number(search.skip),
        },
        |row| {
            let place =
                Place { at: Timestamp(row.get::<_, i64>(2)?.cast_unsigned()), id: row.get(3)? };
            Ok(Row { kind: row.get(0)?, key: row.get(1)?, place })
        },
    )?;
    Ok((rows.collect::<Result<_, _>>()?, usize::try_from(total).unwrap_or_default()))
}
