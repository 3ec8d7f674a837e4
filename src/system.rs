//! The system behind the ports of the spine: wall clock, random numbers, digests.

use std::{
    cell::RefCell,
    time::{SystemTime, UNIX_EPOCH},
};

use hivewright_actors::{
    clock::{Clock, Timestamp, millis},
    ids::Entropy,
};
use sha2::{Digest, Sha256};

#[derive(Clone, Copy, Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Timestamp(millis(since.unwrap_or_default()))
    }
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    hex_digits(bytes).collect()
}

/// The same digit by digit, for a text that is no `String`.
pub fn hex_digits(bytes: &[u8]) -> impl Iterator<Item = char> {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    halves.filter_map(|half| char::from_digit(u32::from(half), 16))
}

#[derive(Clone, Copy, Debug)]
pub struct Randomness;

impl Entropy for Randomness {
    fn bits(&self) -> u64 {
        DRAWN.with_borrow_mut(|drawn| match drawn.pop() {
            Some(bits) => bits,
            None => {
                *drawn = draw();
                drawn.pop().unwrap_or_default()
            }
        })
    }
}

/// So many numbers are drawn at once: the kernel takes as long for one.
const DRAW: usize = 32;

thread_local! {
    static DRAWN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn draw() -> Vec<u64> {
    let mut bytes = [0; DRAW * 8];
    // The source fails only where the kernel has none, and then no id could be trusted.
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "the machine has no randomness, so no id or key could be trusted; the service ends");
        std::process::abort();
    }
    let (numbers, _) = bytes.as_chunks();
    numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect()
}
