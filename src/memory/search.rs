//! Search by words: BM25 over the chunks of a team's own entries.
//!
//! The index is derived data. It is made from the rows when it is first asked for, kept in step with
//! each change, and never stored: a process that starts anew makes it anew, with the same result.

use std::{cmp::Ordering, collections::HashMap, ops::Range};

use hivewright_actors::{
    clock::Timestamp,
    ids::{MemoryId, TeamKey},
    storage::{Storage, StorageError},
    store::records::digest,
};

use super::{
    entry::{Entry, Key, Kind},
    rows,
    words::{Word, chunks, words},
};

/// How soon a word that is repeated in a chunk stops to count for more.
const K1: f64 = 1.2;
/// How much a long chunk has to say more often what a short one says once.
const B: f64 = 0.75;
/// A word of the key counts as if it stood twice in the content.
const KEY_WEIGHT: u32 = 2;
/// The longest snippet, in characters.
pub const SNIPPET: usize = 500;
/// How much of a snippet may stand before the first word that was asked for.
const BEFORE: usize = 120;

/// An entry that has some of the words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Hit {
    pub(super) team: TeamKey,
    pub(super) id: MemoryId,
    pub(super) key: Key,
    pub(super) version: u32,
    pub(super) kind: Kind,
    pub(super) updated_at: Timestamp,
    /// 1 for the best, less for the others.
    pub(super) score: f64,
    /// The bytes of the content that fit best.
    pub(super) chunk: Range<usize>,
}

/// The words of some entries, ready to be asked.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<MemoryId, Indexed>,
    /// In how many chunks a word stands, by its digest.
    spread: HashMap<u64, u32>,
    chunks: u64,
    /// The sum of the chunks' lengths.
    length: u64,
}

#[derive(Debug)]
struct Indexed {
    /// As it is without words.
    hit: Hit,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    at: Range<usize>,
    length: u32,
    /// The digests of its words, sorted, each with its weight.
    words: Box<[(u64, u32)]>,
}

impl Index {
    /// Takes an entry in, in place of what it said of it before.
    pub(super) fn put(&mut self, entry: &Entry) {
        self.remove(&entry.id);
        let chunks = cut(entry);
        for chunk in &chunks {
            self.chunks += 1;
            self.length += u64::from(chunk.length);
            for (word, _) in &*chunk.words {
                *self.spread.entry(*word).or_default() += 1;
            }
        }
        let indexed = Indexed { hit: Hit::unweighed(entry), chunks };
        self.entries.insert(entry.id.clone(), indexed);
    }

    pub(super) fn remove(&mut self, id: &MemoryId) {
        let Some(indexed) = self.entries.remove(id) else { return };
        for chunk in indexed.chunks {
            self.chunks -= 1;
            self.length -= u64::from(chunk.length);
            for (word, _) in chunk.words {
                if let Some(spread) = self.spread.get_mut(&word) {
                    *spread -= 1;
                    if *spread == 0 {
                        self.spread.remove(&word);
                    }
                }
            }
        }
    }

    /// The entries that fit a query, best first, equals newest first, then by key.
    ///
    /// The same entries give the same answer, in whatever order they were taken in.
    pub(super) fn search(&self, query: &str, kind: Option<Kind>, most: usize) -> Vec<Hit> {
        let asked = self.asked(&digests(query));
        let mut hits: Vec<Hit> = self
            .entries
            .values()
            .filter(|entry| kind.is_none_or(|kind| kind == entry.hit.kind))
            .filter_map(|entry| self.hit(entry, &asked))
            .collect();
        hits.sort_by(order);
        hits.truncate(most);
        let best = hits.first().map_or(1.0, |hit| hit.score);
        for hit in &mut hits {
            hit.score /= best;
        }
        hits
    }

    /// The words of a query, each with what it is worth: the rarer, the more.
    fn asked(&self, words: &[u64]) -> Vec<(u64, f64)> {
        let worth = |word: &u64| {
            let spread = f64::from(*self.spread.get(word)?);
            let others = self.chunks as f64 - spread;
            Some((*word, ((others + 0.5) / (spread + 0.5)).ln_1p()))
        };
        words.iter().filter_map(worth).collect()
    }

    /// An entry is as good as its best chunk.
    fn hit(&self, entry: &Indexed, asked: &[(u64, f64)]) -> Option<Hit> {
        let average = self.length as f64 / self.chunks as f64;
        let mut best: Option<(f64, &Chunk)> = None;
        for chunk in &entry.chunks {
            let score = chunk.score(asked, average);
            if score > best.map_or(0.0, |(score, _)| score) {
                best = Some((score, chunk));
            }
        }
        let (score, chunk) = best?;
        Some(Hit { score, chunk: chunk.at.clone(), ..entry.hit.clone() })
    }
}

impl Hit {
    /// An entry that was not looked for by words.
    pub(super) fn unweighed(entry: &Entry) -> Self {
        Self {
            team: entry.team.clone(),
            id: entry.id.clone(),
            key: entry.key.clone(),
            version: entry.version,
            kind: entry.kind,
            updated_at: entry.updated_at,
            score: 0.0,
            chunk: 0..0,
        }
    }
}

/// What an index would know of the words of a query, without the entries: these are added first,
/// then weighed, and not kept.
#[derive(Debug)]
pub(super) struct Count {
    words: Vec<u64>,
    /// Words that begin so are asked for too.
    beginning: Option<String>,
    counted: Index,
}

impl Count {
    fn new(query: &str, is_typed: bool) -> Self {
        let last = words(query).pop().filter(|_| is_typed);
        let beginning = last.map(|word| word.text);
        Self { words: digests(query), beginning, counted: Index::default() }
    }

    fn add(&mut self, entry: &Entry) {
        if let Some(beginning) = &self.beginning {
            let texts = [&*entry.content, entry.key.as_str(), entry.kind.as_str()];
            let begun = texts.into_iter().flat_map(words);
            let begun = begun.filter(|word| word.text.starts_with(beginning.as_str()));
            for word in begun.map(|word| digest(&word.text)) {
                // No entry before has this word, or it would be known.
                if !self.words.contains(&word) {
                    self.words.push(word);
                }
            }
        }
        for chunk in cut(entry) {
            self.counted.chunks += 1;
            self.counted.length += u64::from(chunk.length);
            for word in &self.words {
                if chunk.has(*word) {
                    *self.counted.spread.entry(*word).or_default() += 1;
                }
            }
        }
    }

    /// What an entry is worth, once all were added. None if it has none of the words.
    fn weigh(&self, entry: &Entry) -> Option<Hit> {
        let asked = self.counted.asked(&self.words);
        let indexed = Indexed { hit: Hit::unweighed(entry), chunks: cut(entry) };
        self.counted.hit(&indexed, &asked)
    }
}

/// The distinct words of a query.
fn digests(query: &str) -> Vec<u64> {
    let mut words: Vec<u64> = words(query).iter().map(|word| digest(&word.text)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

impl Chunk {
    fn has(&self, word: u64) -> bool {
        self.words.binary_search_by_key(&word, |(word, _)| *word).is_ok()
    }

    fn score(&self, asked: &[(u64, f64)], average: f64) -> f64 {
        let long = K1 * (1.0 - B + B * f64::from(self.length) / average);
        let parts = asked.iter().filter_map(|(word, worth)| {
            let place = self.words.binary_search_by_key(word, |(word, _)| *word);
            let weight = f64::from(self.words[place.ok()?].1);
            Some(worth * weight * (K1 + 1.0) / (weight + long))
        });
        parts.sum()
    }
}

/// Best first, equals newest first, then by team and key, then the newest version.
pub(super) fn order(a: &Hit, b: &Hit) -> Ordering {
    b.score
        .total_cmp(&a.score)
        .then_with(|| b.updated_at.cmp(&a.updated_at))
        .then_with(|| (&a.team, &a.key).cmp(&(&b.team, &b.key)))
        .then_with(|| b.version.cmp(&a.version))
}

fn cut(entry: &Entry) -> Vec<Chunk> {
    let all = words(&entry.content);
    let mut named: Vec<(u64, u32)> =
        words(entry.key.as_str()).iter().map(|word| (digest(&word.text), KEY_WEIGHT)).collect();
    named.push((digest(entry.kind.as_str()), 1));
    let mut pieces = Vec::new();
    for range in chunks(&all) {
        let piece = &all[range];
        let said = piece.iter().map(|word| (digest(&word.text), 1));
        // The name of an entry is known in its first chunk.
        let mut weighed: Vec<(u64, u32)> = said.chain(named.drain(..)).collect();
        weighed.sort_unstable();
        let length = weighed.iter().map(|(_, weight)| weight).sum();
        weighed.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        pieces.push(Chunk { at: bytes(piece), length, words: weighed.into_boxed_slice() });
    }
    pieces
}

fn bytes(words: &[Word]) -> Range<usize> {
    match (words.first(), words.last()) {
        (Some(first), Some(last)) => first.at.start..last.at.end,
        _ => 0..0,
    }
}

/// The part of a content that shows why it was found, at most `most` characters long.
pub(super) fn snippet(content: &str, chunk: &Range<usize>, query: &str, most: usize) -> String {
    let asked: Vec<String> = words(query).into_iter().map(|word| word.text).collect();
    let Some(part) = content.get(chunk.clone()) else { return String::new() };
    let first = words(part)
        .into_iter()
        .find(|word| asked.contains(&word.text))
        .map_or(0, |word| chunk.start + word.at.start);
    let length = content.chars().count();
    if length <= most {
        return content.trim().to_owned();
    }
    // Counted in characters, so that none is split; two are for the dots at the ends.
    let room = most - 2;
    let start = content[..first].chars().count().saturating_sub(BEFORE).min(length - room);
    let shown: String = content.chars().skip(start).take(room).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start + room < length { "…" } else { "" };
    format!("{before}{}{after}", shown.trim())
}

/// The best of many. Of the others nothing is kept.
#[derive(Debug)]
pub(super) struct Best<T> {
    most: usize,
    order: fn(&T, &T) -> Ordering,
    kept: Vec<T>,
}

impl<T> Best<T> {
    /// At most so many, by this order.
    pub(super) fn new(most: usize, order: fn(&T, &T) -> Ordering) -> Self {
        Self { most, order, kept: Vec::new() }
    }

    pub(super) fn push(&mut self, one: T) {
        self.kept.push(one);
        // Twice as many, so that sorting is rare.
        if self.kept.len() > self.most.saturating_mul(2) {
            self.sort();
        }
    }

    pub(super) fn sorted(mut self) -> Vec<T> {
        self.sort();
        self.kept
    }

    fn sort(&mut self) {
        self.kept.sort_by(self.order);
        self.kept.truncate(self.most);
    }
}

/// What is kept of a team's versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sieve<'a> {
    /// Without words each has the score 0.
    pub(super) words: Option<&'a str>,
    /// The last word is being typed: what begins so is found.
    pub(super) is_typed: bool,
    /// At most so many …
    pub(super) most: usize,
    /// … by this order.
    pub(super) order: fn(&Hit, &Hit) -> Ordering,
}

/// The first versions of a team among those `beyond` a place, and how many are wanted in all. `among`
/// are those that words are weighed against. Blocks.
pub(super) fn sift(
    storage: &dyn Storage,
    team: &TeamKey,
    sieve: Sieve<'_>,
    among: impl Fn(&Entry) -> bool,
    wanted: impl Fn(&Entry) -> bool,
    beyond: impl Fn(&Entry) -> bool,
) -> Result<(Vec<Hit>, usize), StorageError> {
    let Sieve { words, is_typed, most, order } = sieve;
    let mut count = words.map(|words| Count::new(words, is_typed));
    if let Some(count) = &mut count {
        rows::of_team(storage, team, &mut |entry| {
            if among(&entry) {
                count.add(&entry);
            }
        })?;
    }
    let (mut best, mut total, mut highest) = (Best::new(most, order), 0, 0.0_f64);
    rows::of_team(storage, team, &mut |entry| {
        if !wanted(&entry) {
            return;
        }
        let hit = match &count {
            None => Some(Hit::unweighed(&entry)),
            Some(count) if among(&entry) => count.weigh(&entry),
            Some(_) => None,
        };
        if let Some(hit) = hit {
            total += 1;
            highest = highest.max(hit.score);
            if beyond(&entry) {
                best.push(hit);
            }
        }
    })?;
    let mut hits = best.sorted();
    if highest > 0.0 {
        hits.iter_mut().for_each(|hit| hit.score /= highest);
    }
    Ok((hits, total))
}

#[cfg(test)]
mod tests;
