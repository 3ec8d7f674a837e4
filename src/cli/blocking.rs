//! Work that blocks, on a thread of its own.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hivewright_actors::blocking;

use super::failure::Failure;

/// Runs work that blocks beside what waits for it.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking::run(work)
        .await
        .unwrap_or_else(|error| Err(Failure::system("the work was cut off", error)))
}

/// The same for work that ends at a safe point when it is told that the person broke it off. Returns whether
/// they did.
pub(super) async fn interruptible<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, Failure> + Send + 'static,
) -> (Result<T, Failure>, bool) {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let mut working = pin!(blocking(move || work(&told)));
    tokio::select! {
        done = &mut working => (done, false),
        _ = tokio::signal::ctrl_c() => {
            stop.store(true, Ordering::Relaxed);
            (working.await, true)
        }
    }
}
