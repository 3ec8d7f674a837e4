//! Blocking work, on the threads that may wait for a disk.

use std::sync::Arc;

use parking_lot::Mutex;

/// Work that ended without a result: it panicked, or the service stopped before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was cut off")]
pub struct CutOff;

/// Begins work where it may block. Nobody waits for it.
///
/// The pool gets all work as one type: of its own for each closure, a task is a dozen functions in the program.
pub fn begin(work: impl FnOnce() + Send + 'static) {
    let boxed: Box<dyn FnOnce() + Send> = Box::new(work);
    drop(tokio::task::spawn_blocking(boxed));
}

/// Runs work where it may block, and waits for its result. Work that began goes on to its end, also when
/// nobody waits any more.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    let result = Arc::new(Mutex::new(None));
    let done = result.clone();
    let boxed: Box<dyn FnOnce() + Send> = Box::new(move || *done.lock() = Some(work()));
    tokio::task::spawn_blocking(boxed).await.map_err(|_| CutOff)?;
    let result = result.lock().take();
    result.ok_or(CutOff)
}

/// Does work that may block and that nobody waits for: on the threads for it, or here where there is no runtime.
pub fn clean_up(work: impl FnOnce() + Send + 'static) {
    if tokio::runtime::Handle::try_current().is_ok() { begin(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_panics_is_cut_off_and_harms_nothing_else() {
        let panicked = run::<()>(|| panic!("on purpose")).await;
        let after = run(|| 7).await;

        assert_eq!(panicked, Err(CutOff));
        assert_eq!(after, Ok(7));
    }
}
