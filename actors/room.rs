//! Disk space: whether there is room for new work.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use crate::words;

/// What a person is told whose work is not taken in.
pub const DISK_FULL: &str = "the disk is nearly full, so no new work is taken in; nothing is lost, \
                             and it can be sent again as soon as there is room";

words! {
    /// How much room there is.
    #[derive(Default)]
    #[repr(u8)]
    pub enum Space {
        /// Enough.
        #[default]
        Enough = "ok",
        /// Still enough, but the operator should see to it.
        Low = "low",
        /// Too little for anything new. What was accepted goes on.
        Full = "full",
    }
}

/// The present space, known to whoever takes in work. Looking costs nothing; the edges measure it.
#[derive(Clone, Debug, Default)]
pub struct Room(Arc<AtomicU8>);

impl Room {
    pub fn space(&self) -> Space {
        match self.0.load(Ordering::Relaxed) {
            0 => Space::Enough,
            1 => Space::Low,
            _ => Space::Full,
        }
    }

    /// No new work is taken in.
    pub fn is_full(&self) -> bool {
        self.space() == Space::Full
    }

    pub fn set(&self, space: Space) {
        self.0.store(space as u8, Ordering::Relaxed);
    }
}
