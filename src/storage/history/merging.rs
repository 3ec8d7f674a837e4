//! Merge of ranges of indexes into one list: its facets, or its days, each in the order of the list.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet, VecDeque},
    hash::Hash,
};

use hivewright_actors::{
    ids::TaskId,
    order::{Order, Part, Window},
};
use rusqlite::{Connection, Statement, ToSql, types::Value};
use serde::Serialize;

use super::keys::Keys;

/// A range is read in pieces of at most so many rows, and then of at least so many.
const LARGEST_PIECE: usize = 512;
const SMALLEST_PIECE: usize = 16;

/// Where a row stands: what the list is sorted by, and its key.
pub(super) type Row = (Rank, Vec<u8>);

/// What a list is sorted by: a moment, a sum, a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rank(pub(super) f64);

impl Eq for Rank {}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Values of named parameters.
pub(super) type Bound = Vec<(&'static str, Value)>;

/// A range of an index, read piece by piece.
pub(super) struct Stream {
    /// Selects rank and key of the rows behind `:rank` and `:key`: `:most` of them, behind the first `:skip`.
    pub(super) select: String,
    bound: Bound,
    /// The rank that all its rows have, of which `select` knows nothing.
    rank: Option<Rank>,
    /// It is sorted for each piece, and so read as one.
    is_sorted: bool,
    read: VecDeque<Row>,
    skip: usize,
    /// Where it goes on; none behind the last.
    from: Option<Row>,
}

impl Stream {
    pub(super) fn new(select: String, bound: Bound) -> Self {
        let read = VecDeque::new();
        Self { select, bound, rank: None, is_sorted: false, read, skip: 0, from: None }
    }

    pub(super) fn of_one_rank(self, rank: f64) -> Self {
        Self { rank: Some(Rank(rank)), ..self }
    }

    pub(super) fn sorted(self) -> Self {
        Self { is_sorted: true, ..self }
    }

    /// Begins behind a place.
    fn begin(&mut self, order: Order, after: Option<&Row>) {
        let first = match order {
            Order::Rising => (Rank(f64::NEG_INFINITY), Vec::new()),
            // No text has this byte.
            Order::Falling => (Rank(f64::INFINITY), vec![0xff]),
        };
        let (rank, key) = after.cloned().unwrap_or_else(|| first.clone());
        self.from = match (self.rank.map(|own| own.cmp(&rank)), order) {
            (None | Some(Ordering::Equal), _) => Some((rank, key)),
            (Some(Ordering::Greater), Order::Rising) | (Some(Ordering::Less), Order::Falling) => {
                Some(first)
            }
            _ => None,
        };
    }

    fn next(&mut self, connection: &Connection, piece: usize) -> rusqlite::Result<Option<Row>> {
        let piece = if self.is_sorted { usize::MAX } else { piece };
        if self.read.is_empty()
            && let Some((Rank(rank), key)) = self.from.take()
        {
            let mut statement = connection.prepare_cached(&self.select)?;
            bind_all(&mut statement, &self.bound)?;
            bind(&mut statement, ":rank", &rank)?;
            bind(&mut statement, ":key", &key)?;
            bind(&mut statement, ":most", &number(piece))?;
            bind(&mut statement, ":skip", &number(std::mem::take(&mut self.skip)))?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                self.read.push_back((Rank(row.get(0)?), row.get(1)?));
            }
            self.from = self.read.back().filter(|_| self.read.len() == piece).cloned();
        }
        Ok(self.read.pop_front())
    }
}

/// The rows of a window, each with what its key is the id of, but for those that are known.
pub(super) fn merge<Place, Id: Eq + Hash>(
    connection: &Connection,
    mut streams: Vec<Stream>,
    window: &Window<Place>,
    after: Option<Row>,
    known: Option<&HashSet<Id>>,
    id: impl Fn(&[u8]) -> Id,
) -> rusqlite::Result<Vec<(f64, Id)>> {
    let mut skip = window.skip;
    let wanted = window.most.saturating_sub(skip);
    if let ([only], None) = (&mut *streams, known) {
        only.skip = std::mem::take(&mut skip);
    }
    let mut piece = ((wanted + skip) / streams.len().max(1)).clamp(1, LARGEST_PIECE - 1) + 1;
    let mut heads = BTreeMap::new();
    for (place, stream) in streams.iter_mut().enumerate() {
        stream.begin(window.order, after.as_ref());
        heads.extend(stream.next(connection, piece)?.map(|row| (row, place)));
    }
    // Of many ranges most are read nearly far enough by now.
    piece = if streams.len() == 1 { LARGEST_PIECE } else { (piece / 4).max(SMALLEST_PIECE) };
    let mut rows = Vec::new();
    while rows.len() < wanted {
        let first = match window.order {
            Order::Rising => heads.pop_first(),
            Order::Falling => heads.pop_last(),
        };
        let Some(((Rank(rank), key), place)) = first else { break };
        heads.extend(streams[place].next(connection, piece)?.map(|row| (row, place)));
        if skip > 0 && known.is_none() {
            skip -= 1;
            continue;
        }
        let id = id(&key);
        match known {
            Some(known) if known.contains(&id) => {}
            _ if skip > 0 => skip -= 1,
            _ => rows.push((rank, id)),
        }
    }
    Ok(rows)
}

/// A part of a list whose rows are read by windows. A skip beyond its end, which nobody has counted, is taken back.
pub(super) fn part<Place: Clone>(
    window: &Window<Place>,
    total: usize,
    read: impl Fn(&Window<Place>) -> rusqlite::Result<Vec<Place>>,
) -> rusqlite::Result<Part<Place>> {
    let (mut places, mut skipped) = (read(window)?, window.skip);
    if places.is_empty() && skipped > 0 {
        skipped = 0;
        places = read(&Window { skip: 0, ..window.clone() })?;
    }
    Ok(Part { total: total.max(skipped + places.len()), places, skipped })
}

/// How SQL compares what is behind a place in an order, and what it calls the order.
pub(super) fn directions(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Rising => (">", "ASC"),
        Order::Falling => ("<", "DESC"),
    }
}

/// A list as a parameter.
pub(super) fn json(list: &impl Serialize) -> rusqlite::Result<Value> {
    let text = serde_json::to_string(list);
    text.map(Value::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// The keys of tasks as a parameter.
pub(super) fn in_hex(keys: Keys, tasks: &HashSet<TaskId>) -> rusqlite::Result<Value> {
    json(&tasks.iter().map(|task| hex(&keys.of_task(task))).collect::<Vec<String>>())
}

pub(super) fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a statement counts.
pub(super) fn count(
    connection: &Connection,
    select: &str,
    bound: &Bound,
) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(select)?;
    bind_all(&mut statement, bound)?;
    let mut rows = statement.raw_query();
    let count = rows.next()?.map_or(Ok(0), |row| row.get::<_, i64>(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// How many rows all ranges have, up to so many. The statement counts those of one, up to `:most`.
pub(super) fn count_up_to(
    connection: &Connection,
    select: &str,
    ranges: impl IntoIterator<Item = Bound>,
    most: usize,
) -> rusqlite::Result<usize> {
    let mut total = 0;
    for mut bound in ranges {
        if total >= most {
            break;
        }
        bound.push((":most", number(most - total).into()));
        total += count(connection, select, &bound)?;
    }
    Ok(total)
}

fn bind_all(statement: &mut Statement<'_>, bound: &Bound) -> rusqlite::Result<()> {
    bound.iter().try_for_each(|(name, value)| bind(statement, name, value))
}

fn bind(statement: &mut Statement<'_>, name: &str, value: &impl ToSql) -> rusqlite::Result<()> {
    match statement.parameter_index(name)? {
        Some(index) => statement.raw_bind_parameter(index, value),
        None => Ok(()),
    }
}

pub(super) fn number(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
