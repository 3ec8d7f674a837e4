//! Alongside: changes of another part that count with a commit.

use futures_util::future::BoxFuture;

use super::records::Writes;

/// Changes of another part that count with a commit.
pub struct Alongside {
    /// What belongs into it.
    pub writes: Writes,
    /// To be done once it is durable. Dropped if it never is.
    pub then: BoxFuture<'static, ()>,
}
