//! Port: what other parts keep for a team, and what the spine itself does.
#![warn(missing_docs)]

use std::fmt::Display;

use actix::Addr;
use futures_util::future::BoxFuture;

use crate::{
    approvals::{Approvals, Disbanded},
    budget::Ledger,
    ids::{TeamKey, TeamName},
    inbox,
    store::{StoreHandle, records::Writes},
};

/// A kind of thing that teams have: memory, secrets, triggers, an inbox.
pub trait Belongings: Send + Sync + 'static {
    /// Stops what runs for a team that is being shut down, and says what is to be deleted of it.
    /// May be asked again after a restart.
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>>;

    /// Ends what runs for a team that is paused; its next work starts it again. `now`: what the team does is being stopped,
    /// else it is left to finish.
    fn rest(&self, _: &TeamName, _now: bool) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether the team has something that it made itself and that will help it.
    fn has_any(&self, _: &TeamKey) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// What is to be deleted of a team: the rows with these keys. If the keys cannot be read the rows stay, and the log says so in
/// these words.
pub fn deletion_of(
    team: &TeamKey,
    keys: impl Future<Output = Result<Vec<Vec<u8>>, impl Display>> + Send + 'static,
    stay: &'static str,
) -> BoxFuture<'static, Vec<Writes>> {
    let team = team.name.clone();
    Box::pin(async move {
        match keys.await {
            Ok(keys) if keys.is_empty() => Vec::new(),
            Ok(keys) => vec![Writes::new().drop_keys(keys)],
            Err(error) => {
                tracing::error!(%team, %error, "{stay}");
                Vec::new()
            }
        }
    })
}

/// What a team has spent. Those above it keep count of it.
impl Belongings for Ledger {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        Ledger::forget(self, &team.name);
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// What waits in the inboxes of a team's lanes.
#[derive(Clone, Debug)]
pub struct Inboxes(pub StoreHandle);

impl Belongings for Inboxes {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let of = team.clone();
        let keys = self.0.read(move |storage| inbox::keys_of(storage, &of));
        deletion_of(team, keys, "the inbox of a team that is gone stays in the store")
    }
}

/// Held calls and open questions. Their rows stay as long as those of other teams.
pub struct Waiting(pub Addr<Approvals>);

impl Belongings for Waiting {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (approvals, team) = (self.0.clone(), team.clone());
        Box::pin(async move {
            if let Err(error) = approvals.send(Disbanded { team: team.clone() }).await {
                tracing::error!(team = %team.name, %error, "what a team that is gone waited for is cancelled only at the next start");
            }
            Vec::new()
        })
    }
}
