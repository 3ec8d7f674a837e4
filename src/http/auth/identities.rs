//! Identities: senders of channels that an operator linked to a principal.
//!
//! A link names the grant of a token, not its name: a token that is made later under the same name
//! inherits nothing. The operator token is one for all time, whatever it is replaced by.

use std::sync::Arc;

use hivewright_actors::{
    channel_type::ChannelType,
    clock::{Clock, Timestamp},
    identities::{self, Linked},
    ids::{CredentialId, PrincipalId},
    router::grants::Grantee,
    storage::StorageError,
    store::{
        StoreError, StoreHandle,
        reads::{Range, scan},
        records::Writes,
    },
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{
    authenticator::{Authenticator, Principal},
    rows::Grant,
    token,
};
use crate::api::{scope::Scope, tokens::TokenKind};

/// So many links there can be.
const MOST: usize = 1_000;

/// A sender who is a principal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub id: String,
    pub channel_type: ChannelType,
    pub sender: String,
    /// The token's name, for people.
    pub token: String,
    /// The token; none is the operator's.
    pub grant: Option<CredentialId>,
    pub by: PrincipalId,
    /// The token that it was made with, without which it is good for nothing; none is the operator's. Links of former versions
    /// do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_grant: Option<CredentialId>,
    pub at: Timestamp,
}

/// Why a link was not made or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    #[error("there is no token `{0}`; `hivewright token list` shows those there are")]
    NoToken(String),
    /// The sender is somebody else already.
    #[error("`{channel_type}:{sender}` is linked to `{token}` already; unlink it first")]
    Taken { channel_type: ChannelType, sender: String, token: String },
    #[error("there are {0} links already; unlink some first")]
    TooMany(usize),
    #[error("there is no link `{0}`")]
    Unknown(String),
    #[error("the system gives no random numbers")]
    Randomness,
    #[error("the link could not be stored: {0}")]
    Store(#[from] StoreError),
}

/// All links. Cheap to clone.
#[derive(Clone)]
pub struct Identities(Arc<Inner>);

struct Inner {
    auth: Authenticator,
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    links: Mutex<Vec<Link>>,
}

impl Identities {
    /// Those that are stored. A damaged link links nobody.
    pub async fn open(
        auth: Authenticator,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StorageError> {
        let links = store.read(|storage| scan::<Link>(storage, Range::all())).await?;
        Ok(Self(Arc::new(Inner { auth, store, clock, links: Mutex::new(links) })))
    }

    /// All links, oldest first, each with whether it is good for anything.
    pub fn list(&self) -> Vec<(Link, bool)> {
        let (grants, now) = (self.0.auth.grants(), self.0.clock.now());
        let links = self.0.links.lock().clone().into_iter();
        let mut links: Vec<_> = links
            .map(|link| {
                let live = live_grant(&link, &grants, now).is_some();
                (link, live)
            })
            .collect();
        links.sort_by(|(a, _), (b, _)| (a.at, &a.id).cmp(&(b.at, &b.id)));
        links
    }

    /// Makes a sender a principal, from now on.
    pub async fn link(&self, who: Grantee, token: &str, by: &Principal) -> Result<Link, LinkError> {
        let grants = self.0.auth.grants();
        let grant = grants
            .iter()
            .find(|grant| grant.name == token || grant.id.as_str() == token)
            .ok_or_else(|| LinkError::NoToken(token.to_owned()))?;
        let link = Link {
            id: token::fresh_id("identity").map_err(|_| LinkError::Randomness)?,
            channel_type: who.channel_type,
            sender: who.sender,
            token: grant.name.clone(),
            grant: (grant.kind == TokenKind::Api).then(|| grant.id.clone()),
            by: by.id.clone(),
            by_grant: (!by.is_operator()).then(|| by.grant.clone()),
            at: self.0.clock.now(),
        };
        let stored = {
            let mut links = self.0.links.lock();
            let mut writes = Writes::new().put(&link);
            let same = |known: &&Link| {
                known.channel_type == link.channel_type && known.sender == link.sender
            };
            if let Some(known) = links.iter().find(same) {
                if known.grant != link.grant {
                    return Err(LinkError::Taken {
                        channel_type: link.channel_type,
                        sender: link.sender,
                        token: known.token.clone(),
                    });
                }
                if has_live_maker(known, &grants, link.at) {
                    return Ok(known.clone());
                }
                // It has ended with the token that made it: this one takes its place.
                writes = writes.delete::<Link>(&known.id);
                let ended = known.id.clone();
                links.retain(|known| known.id != ended);
            }
            if links.len() >= MOST {
                return Err(LinkError::TooMany(links.len()));
            }
            links.push(link.clone());
            self.0.store.commit(writes)
        };
        stored.await?;
        let Link { channel_type, sender, token, .. } = &link;
        tracing::info!(by = %by.id, %channel_type, sender, token, "identity linked");
        Ok(link)
    }

    /// Ends a link at once.
    pub async fn unlink(&self, id: &str, by: &Principal) -> Result<(), LinkError> {
        let stored = {
            let mut links = self.0.links.lock();
            let before = links.len();
            links.retain(|link| link.id != id);
            if links.len() == before {
                return Err(LinkError::Unknown(id.to_owned()));
            }
            self.0.store.commit(Writes::new().delete::<Link>(id))
        };
        stored.await?;
        tracing::info!(by = %by.id, link = id, "identity unlinked");
        Ok(())
    }
}

impl identities::Identities for Identities {
    fn linked(&self, channel_type: &ChannelType, sender: &str) -> Option<Linked> {
        let links = self.0.links.lock();
        let link = links
            .iter()
            .find(|link| link.channel_type == *channel_type && link.sender == sender)?
            .clone();
        drop(links);
        let grants = self.0.auth.grants();
        let grant = live_grant(&link, &grants, self.0.clock.now())?;
        Some(Linked {
            principal: PrincipalId::from(grant.name.as_str()),
            chat: grant.scopes.has(Scope::Chat),
            // Whoever decides in a chat may be asked about any team.
            approve: grant.scopes.has(Scope::Approve) && grant.teams.is_none(),
        })
    }
}

/// What a link gives, while both the token that it names and the one that made it are good.
fn live_grant<'a>(link: &Link, grants: &'a [Grant], now: Timestamp) -> Option<&'a Grant> {
    let named = grants.iter().find(|grant| match &link.grant {
        Some(id) => grant.id == *id,
        None => grant.kind == TokenKind::Operator,
    });
    named.filter(|grant| grant.is_live(now) && has_live_maker(link, grants, now))
}

fn has_live_maker(link: &Link, grants: &[Grant], now: Timestamp) -> bool {
    let is_maker =
        |maker: &CredentialId| grants.iter().any(|grant| grant.id == *maker && grant.is_live(now));
    link.by_grant.as_ref().is_none_or(is_maker)
}

hivewright_actors::records! {
    Link: "edge\0identity", String, |row| row.id.clone();
}
