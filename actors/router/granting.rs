//! Changes of grants: who is trusted or kept out by name, changed while the service runs.

use actix::{Handler, Message, MessageResult, ResponseActFuture, WrapFuture};

use super::{
    Router,
    grants::{Grantee, Level, SenderGrant},
};
use crate::{
    ids::ChannelId,
    store::{StoreError, records::Writes},
};

pub const MOST_GRANTS: usize = 10_000;

/// Lets a sender in or keeps them out, from the next message on.
#[derive(Debug, Message)]
#[rtype(result = "Result<SenderGrant, GrantError>")]
pub struct Grant {
    pub grantee: Grantee,
    pub level: Level,
    pub by: String,
}

/// Takes a grant back, from the next message on.
///
/// Returns the grant, or nothing if there was none.
#[derive(Debug, Message)]
#[rtype(result = "Result<bool, GrantError>")]
pub struct Revoke(pub Which);

/// A grant, as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// By whom it is about.
    Of(Grantee),
    /// By its own name.
    Id(String),
}

/// All grants, oldest first.
#[derive(Debug, Message)]
#[rtype(result = "Result<Vec<SenderGrant>, GrantError>")]
pub struct ListGrants;

/// Why grants were not changed or shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    #[error("the grants cannot be read; the log says why")]
    Unreadable,
    #[error("there are {MOST_GRANTS} grants already; revoke some first")]
    TooMany,
    #[error("the grant could not be stored: {0}")]
    Store(#[from] StoreError),
}

impl Router {
    fn grant(
        &mut self,
        Grant { grantee, level, by }: Grant,
    ) -> Result<(SenderGrant, Writes), GrantError> {
        if self.grants.is_unreadable() {
            return Err(GrantError::Unreadable);
        }
        let former = self.grants.get(&grantee);
        if former.is_none() && self.grants.list().len() >= MOST_GRANTS {
            return Err(GrantError::TooMany);
        }
        if let Some(former) = former
            && (former.level, &former.granted_by) == (level, &by)
        {
            return Ok((former.clone(), Writes::new()));
        }
        let id = match former {
            Some(former) => former.id.clone(),
            None => format!("grant-{:016x}", self.to.ids.bits()),
        };
        let grant = SenderGrant { id, grantee, level, granted_by: by, at: self.to.clock.now() };
        let writes = Writes::new().put(&grant);
        // At once: a message that it lets in is stored after it, so never without it.
        self.grants.put(grant.clone());
        Ok((grant, writes))
    }

    fn revoke(&mut self, which: Which) -> Result<(bool, Writes), GrantError> {
        if self.grants.is_unreadable() {
            return Err(GrantError::Unreadable);
        }
        let grantee = match which {
            Which::Of(grantee) => Some(grantee),
            Which::Id(id) => {
                let mut grants = self.grants.list().into_iter();
                grants.find(|grant| grant.id == id).map(|grant| grant.grantee)
            }
        };
        match grantee {
            Some(grantee) if self.grants.remove(&grantee) => {
                let Grantee { channel_type, sender, channel } = &grantee;
                let channel = channel.as_ref().map(ChannelId::as_str);
                tracing::info!(%channel_type, sender, channel, "trust revoked");
                Ok((true, Writes::new().delete::<SenderGrant>(&grantee)))
            }
            _ => Ok((false, Writes::new())),
        }
    }

    fn once_stored<T: 'static>(
        &self,
        decided: Result<(T, Writes), GrantError>,
    ) -> ResponseActFuture<Self, Result<T, GrantError>> {
        let stored = decided.map(|(answer, writes)| {
            let stored = (!writes.is_empty()).then(|| self.to.store.commit(writes));
            (answer, stored)
        });
        let answer = async move {
            let (answer, stored) = stored?;
            if let Some(stored) = stored {
                stored.await?;
            }
            Ok(answer)
        };
        Box::pin(answer.into_actor(self))
    }
}

impl Handler<Grant> for Router {
    type Result = ResponseActFuture<Self, Result<SenderGrant, GrantError>>;

    fn handle(&mut self, grant: Grant, _: &mut Self::Context) -> Self::Result {
        let decided = self.grant(grant);
        if let Ok((grant, _)) = &decided {
            let Grantee { channel_type, sender, channel } = &grant.grantee;
            let (level, by) = (grant.level.as_str(), &grant.granted_by);
            let channel = channel.as_ref().map(ChannelId::as_str);
            tracing::info!(%channel_type, sender, channel, level, by, "trust granted");
        }
        self.once_stored(decided)
    }
}

impl Handler<Revoke> for Router {
    type Result = ResponseActFuture<Self, Result<bool, GrantError>>;

    fn handle(&mut self, Revoke(which): Revoke, _: &mut Self::Context) -> Self::Result {
        let decided = self.revoke(which);
        self.once_stored(decided)
    }
}

impl Handler<ListGrants> for Router {
    type Result = MessageResult<ListGrants>;

    fn handle(&mut self, _: ListGrants, _: &mut Self::Context) -> Self::Result {
        MessageResult(if self.grants.is_unreadable() {
            Err(GrantError::Unreadable)
        } else {
            Ok(self.grants.list())
        })
    }
}
