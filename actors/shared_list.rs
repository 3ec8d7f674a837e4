//! Persistent list: it is added to at its end, and its clones share what they hold.

use std::{iter, sync::Arc};

/// Of the elements of a list, a clone copies one in so many, and adding to one that has clones copies at most so many.
const CHUNK_LENGTH: usize = 64;

/// A list that is cheap to clone, however long.
#[derive(Clone, Debug)]
pub struct SharedList<T> {
    /// None is empty.
    chunks: Vec<Arc<Vec<T>>>,
    /// How many elements of the first chunk were removed.
    removed: usize,
}

impl<T> SharedList<T> {
    /// How many elements it has.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>() - self.removed
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All elements, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        let removed = |place: usize| if place == 0 { self.removed } else { 0 };
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(move |(place, chunk)| &chunk[removed(place)..])
    }

    /// Removes the oldest element.
    pub fn remove_first(&mut self) {
        self.removed += 1;
        if self.chunks.first().is_none_or(|first| first.len() <= self.removed) {
            self.removed = 0;
            self.chunks.drain(..self.chunks.len().min(1));
        }
    }
}

impl<T: Clone> SharedList<T> {
    pub fn push(&mut self, element: T) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK_LENGTH) {
            Some(last) => Arc::make_mut(last).push(element),
            None => self.chunks.push(Arc::new(vec![element])),
        }
    }

    /// The same behind some element.
    pub fn behind(&self, first: Option<T>) -> Self {
        let Some(first) = first else {
            return self.clone();
        };
        // A chunk that lacks its beginning can only be the first.
        let rest = self.chunks.first().map(|chunk| chunk[self.removed..].iter().cloned());
        let first = iter::once(first).chain(rest.into_iter().flatten()).collect();
        let rest = self.chunks.iter().skip(1).cloned();
        Self { chunks: iter::once(Arc::new(first)).chain(rest).collect(), removed: 0 }
    }
}

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), removed: 0 }
    }
}

impl<T: Clone> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut list = Self::default();
        elements.into_iter().for_each(|element| list.push(element));
        list
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_plain_list_does(acts in prop::collection::vec(0..4u8, 0..600)) {
            let (mut list, mut plain) = (SharedList::default(), VecDeque::new());
            let mut clones = Vec::new();
            for (number, act) in acts.into_iter().enumerate() {
                if act == 0 {
                    list.remove_first();
                    plain.pop_front();
                } else {
                    list.push(number);
                    plain.push_back(number);
                }
                if number % 50 == 0 {
                    clones.push((list.clone(), plain.clone()));
                }
            }
            clones.push((list, plain));

            for (list, plain) in clones {
                prop_assert!(list.iter().eq(plain.iter()));
                prop_assert!(list.iter().rev().eq(plain.iter().rev()));
                prop_assert_eq!((list.len(), list.is_empty()), (plain.len(), plain.is_empty()));
                let behind = list.behind(Some(7));
                prop_assert!(behind.iter().eq(iter::once(&7).chain(&plain)));
                prop_assert!(list.behind(None).iter().eq(&plain));
            }
        }
    }
}
