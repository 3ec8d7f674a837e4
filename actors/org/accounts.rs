//! What a team has spent, forgotten with the team. Those above it keep count of it.

use futures_util::future::BoxFuture;

use super::belongings::Belongings;
use crate::{budget::Ledger, ids::TeamKey, store::records::Writes};

impl Belongings for Ledger {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        Ledger::forget(self, &team.name);
        Box::pin(std::future::ready(Vec::new()))
    }
}
