//! A set that remembers its newest members.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
    sync::{Mutex, PoisonError},
};

const MOST: usize = 1_000;

pub(super) struct Recent<T>(Mutex<(VecDeque<T>, HashSet<T>)>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Eq + Hash> Recent<T> {
    /// Whether it is new.
    pub(super) fn insert(&self, member: T) -> bool {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (order, members) = &mut *guard;
        if !members.insert(member.clone()) {
            return false;
        }
        order.push_back(member);
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
        {
            members.remove(&oldest);
        }
        true
    }

    pub(super) fn contains(&self, member: &T) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.contains(member)
    }
}
