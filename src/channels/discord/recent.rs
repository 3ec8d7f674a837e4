//! Messages that were taken in lately, by id.

use std::collections::{HashSet, VecDeque};

use hivewright_actors::ids::MessageId;
use parking_lot::Mutex;

const MOST: usize = 1_000;

/// The newest ones, in order.
#[derive(Default)]
pub(super) struct Recent(Mutex<(VecDeque<MessageId>, HashSet<MessageId>)>);

impl Recent {
    /// Whether it is new.
    pub(super) fn insert(&self, message: MessageId) -> bool {
        let mut guard = self.0.lock();
        let (order, messages) = &mut *guard;
        if !messages.insert(message.clone()) {
            return false;
        }
        order.push_back(message);
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
        {
            messages.remove(&oldest);
        }
        true
    }

    pub(super) fn contains(&self, message: &MessageId) -> bool {
        self.0.lock().1.contains(message)
    }
}
