//! Tasks of the runtime. It gets all futures with the same output as one type: of its own for each future, a task is a dozen
//! functions in the program.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Runs a future on this thread, beside what is running there.
pub fn local<T: 'static>(future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    let boxed: Pin<Box<dyn Future<Output = T>>> = Box::pin(future);
    actix::spawn(boxed)
}

/// Runs a future on any thread of the runtime.
pub fn anywhere<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let boxed: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(boxed)
}
