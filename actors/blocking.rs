//! Blocking work, on the threads that may wait for a disk.

use tokio::sync::oneshot;

/// Work that ended without a result: it panicked, or the service stopped before it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was cut off")]
pub struct CutOff;

/// Runs work where it may block, and waits for its result. Work that began goes on to its end, also when
/// nobody waits any more.
///
/// The pool gets all work as one type: of its own for each closure, a task is a dozen functions in the program.
pub async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CutOff> {
    let (done, result) = oneshot::channel();
    // Whoever asked may have gone.
    let boxed: Box<dyn FnOnce() + Send> = Box::new(move || drop(done.send(work())));
    drop(tokio::task::spawn_blocking(boxed));
    result.await.map_err(|_| CutOff)
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
