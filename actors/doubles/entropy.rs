//! Numbers in the place of random ones: the same in each run.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::Entropy;

/// A sequence of numbers.
pub struct Sequence {
    next: AtomicU64,
    bits: Box<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Sequence {
    /// One number after the other.
    pub fn from(first: u64) -> Self {
        Self::of(first, |number| number)
    }

    /// The same number again and again.
    pub fn constant(bits: u64) -> Self {
        Self::of(0, move |_| bits)
    }

    /// Each number so many times in a row.
    pub fn repeating(times: u64) -> Self {
        Self::of(0, move |number| number / times)
    }

    /// Numbers in no order.
    pub fn scattered() -> Self {
        Self::of(1, |number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn of(first: u64, bits: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self { next: first.into(), bits: Box::new(bits) }
    }
}

impl Entropy for Sequence {
    fn bits(&self) -> u64 {
        (self.bits)(self.next.fetch_add(1, Ordering::SeqCst))
    }
}
