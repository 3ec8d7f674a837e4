//! Port: what other parts keep for a team.

use futures_util::future::BoxFuture;

use crate::{ids::TeamKey, store::records::Writes};

/// A kind of thing that teams have: memory, secrets, triggers, an inbox.
pub trait Belongings: Send + Sync + 'static {
    /// Stops what runs for a team that is being shut down, and says what is to be deleted of it.
    /// May be asked again after a restart.
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>>;

    /// Whether the team has something that it made itself and that will help it.
    fn has_any(&self, _: &TeamKey) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}
