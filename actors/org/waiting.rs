//! What a team waits for people to decide or to answer: it ends with the team.

use actix::Addr;
use futures_util::future::BoxFuture;

use super::belongings::Belongings;
use crate::{
    approvals::{Approvals, Disbanded},
    ids::TeamKey,
    store::records::Writes,
};

/// Held calls and open questions. Their rows stay: they are kept for ever.
pub struct Waiting(pub Addr<Approvals>);

impl Belongings for Waiting {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (approvals, team) = (self.0.clone(), team.clone());
        Box::pin(async move {
            if let Err(error) = approvals.send(Disbanded { team }).await {
                tracing::error!(%error, "what a team that is gone waited for is not cancelled yet");
            }
            Vec::new()
        })
    }
}
