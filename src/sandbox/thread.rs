//! Worker thread for talking to programs outside: what they send can keep no team waiting.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Threads for blocking work: files of programs that start and end.
const BLOCKING_THREADS: usize = 4;

/// A thread with a runtime of its own. It ends with the last who could use it.
pub struct Thread {
    pub runtime: Handle,
    _stop: DropGuard,
}

impl Thread {
    pub fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()?;
        let (handle, stop) = (runtime.handle().clone(), CancellationToken::new());
        let stopped = stop.clone();
        let run = move || {
            runtime.block_on(stopped.cancelled());
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { runtime: handle, _stop: stop.drop_guard() })
    }
}
