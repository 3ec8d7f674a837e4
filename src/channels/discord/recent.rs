//! A set that remembers its newest members.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
};

use parking_lot::Mutex;

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
        let mut guard = self.0.lock();
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
        self.0.lock().1.contains(member)
    }
}
