//! Repeats: which requests with an `Idempotency-Key` are under way.

use std::sync::atomic::AtomicU64;

use dashmap::DashSet;

/// What is known of requests with a key.
#[derive(Debug, Default)]
pub struct Repeats {
    /// Under way in this process.
    pub(super) running: DashSet<String>,
    /// The day up to which old rows are gone.
    pub(super) swept: AtomicU64,
}
