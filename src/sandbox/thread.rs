//! Worker thread for talking to programs outside: what they send can keep no team waiting.

use std::{io, sync::OnceLock};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Threads for blocking work: files of programs that start and end.
const BLOCKING_THREADS: usize = 4;

/// A thread with a runtime of its own, which is there from the first use on. It ends with the last who could use it.
pub struct LazyThread {
    name: &'static str,
    started: OnceLock<Option<Thread>>,
}

impl LazyThread {
    pub const fn new(name: &'static str) -> Self {
        Self { name, started: OnceLock::new() }
    }

    /// Where tasks run; none if the machine has no thread for it, which is told once.
    pub fn runtime(&self) -> Option<&Handle> {
        let started = self.started.get_or_init(|| {
            let failed = |error: &io::Error| {
                tracing::error!(thread = self.name, %error, "no thread for programs outside can be started; tools of this kind fail until a restart");
            };
            Thread::start(self.name).inspect_err(failed).ok()
        });
        started.as_ref().map(|thread| &thread.runtime)
    }
}

struct Thread {
    runtime: Handle,
    _stop: DropGuard,
}

impl Thread {
    fn start(name: &str) -> io::Result<Self> {
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
