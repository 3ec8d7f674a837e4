//! Merge of ranges of indexes into one list: its facets, days or teams, each in the order of the list.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet, VecDeque},
};

use hivewright_actors::order::{Order, Window};
use rusqlite::{Connection, Statement, ToSql, types::Value};

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

/// The rows of a window, but for those whose keys are known.
pub(super) fn merge(
    connection: &Connection,
    mut streams: Vec<Stream>,
    window: &Window<Row>,
    known: Option<&HashSet<Vec<u8>>>,
) -> rusqlite::Result<Vec<Row>> {
    let mut skip = window.skip;
    let wanted = window.most.saturating_sub(skip);
    if let ([only], None) = (&mut *streams, known) {
        only.skip = std::mem::take(&mut skip);
    }
    let mut piece = ((wanted + skip) / streams.len().max(1)).clamp(1, LARGEST_PIECE - 1) + 1;
    let mut heads = BTreeMap::new();
    for (place, stream) in streams.iter_mut().enumerate() {
        stream.begin(window.order, window.after.as_ref());
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
        let Some((row, place)) = first else { break };
        heads.extend(streams[place].next(connection, piece)?.map(|row| (row, place)));
        if known.is_some_and(|known| known.contains(&row.1)) {
            continue;
        }
        if skip > 0 { skip -= 1 } else { rows.push(row) }
    }
    Ok(rows)
}

pub(super) fn bind_all(statement: &mut Statement<'_>, bound: &Bound) -> rusqlite::Result<()> {
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
