//! Sifting: the best of more entries than fit into memory. They are read one after another and not kept.

use std::cmp::Ordering;

use hivewright_actors::{
    ids::TeamKey,
    storage::{Storage, StorageError},
};

use super::{
    entry::Entry,
    rows,
    search::{Count, Hit},
};

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

    /// The best first.
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
    let Sieve { words, most, order } = sieve;
    let mut count = words.map(Count::new);
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
mod tests {
    use super::*;

    /// MV-09: however many there are, few are kept.
    #[test]
    fn only_the_best_are_kept() {
        let mut best = Best::new(3, |a: &u32, b: &u32| b.cmp(a));

        let mut kept = 0;
        for number in 0..10_000_u32 {
            best.push(number.wrapping_mul(7_919) % 10_000);
            kept = kept.max(best.kept.len());
        }

        assert_eq!(kept, 6);
        assert_eq!(best.sorted(), [9_999, 9_998, 9_997]);
    }
}
