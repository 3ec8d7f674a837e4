//! This machine, behind the ports of time and chance.

use std::time::{SystemTime, UNIX_EPOCH};

use hivewright_actors::{
    clock::{Clock, Timestamp, millis},
    ids::Entropy,
};
use sha2::{Digest, Sha256};

/// The wall clock of the machine.
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
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The machine's own source of randomness.
#[derive(Clone, Copy, Debug)]
pub struct Randomness;

impl Entropy for Randomness {
    fn bits(&self) -> u64 {
        // The source fails only where the kernel has none, and then no id could be trusted.
        getrandom::u64().unwrap_or_else(|error| {
            tracing::error!(%error, "the machine has no randomness");
            std::process::abort()
        })
    }
}
