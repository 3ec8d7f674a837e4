//! A principal: someone who proved who they are.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use hivewright_actors::{clock::Timestamp, identities::Owner, ids::PrincipalId};
use tokio_util::sync::CancellationToken;

use super::{authenticator::Authenticator, registry::OPERATOR};
use crate::api::{
    scope::{Scope, Scopes},
    tokens::CredentialId,
};

/// The wall clock may be set, and a machine may sleep: an end that only time brings is looked at
/// this often.
const STEP: Duration = Duration::from_secs(30);

/// Someone who proved who they are. Only the authenticator makes one, from what is stored.
#[derive(Clone)]
pub struct Principal {
    pub(super) id: PrincipalId,
    pub(super) scopes: Scopes,
    pub(super) teams: Option<Arc<[String]>>,
    pub(super) credential: CredentialId,
    pub(super) grant: CredentialId,
    /// When that was made.
    pub(super) since: Timestamp,
    pub(super) end: CancellationToken,
    pub(super) authenticator: Authenticator,
}

impl Principal {
    /// Who: `operator`, or the name of an API token.
    pub fn id(&self) -> &PrincipalId {
        &self.id
    }

    /// What they may do.
    pub fn scopes(&self) -> Scopes {
        self.scopes
    }

    /// The teams that they may act on; none is all.
    pub fn teams(&self) -> Option<&[String]> {
        self.teams.as_deref()
    }

    /// They may do this.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    pub fn is_operator(&self) -> bool {
        self.id.as_str() == OPERATOR
    }

    /// They came with a token, not with the session of a browser.
    pub fn has_token(&self) -> bool {
        self.credential == self.grant
    }

    /// What they proved it with.
    pub fn credential(&self) -> &CredentialId {
        &self.credential
    }

    /// The token behind it: of a session, the one that opened it.
    pub fn grant(&self) -> &CredentialId {
        &self.grant
    }

    /// As whose the channels that they open are kept. The operator stays the same, whatever the
    /// token is replaced by.
    pub fn owner(&self) -> Owner {
        if self.is_operator() {
            Owner {
                principal: self.id.clone(),
                grant: OPERATOR.into(),
                since: Timestamp::default(),
            }
        } else {
            Owner {
                principal: self.id.clone(),
                grant: self.grant.as_str().into(),
                since: self.since,
            }
        }
    }

    /// A credential in use does not end for want of use: to be told of each message on a long
    /// connection. Cheap.
    pub fn used(&self) {
        self.authenticator.used(&self.credential);
    }

    /// Ends when the credential does: revoked, rotated, logged out, or run out.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let this = self.clone();
        async move {
            let by_time = async {
                while let Some(left) = this.authenticator.time_left(&this.credential) {
                    tokio::time::sleep(left.min(STEP)).await;
                }
            };
            tokio::select! {
                () = this.end.cancelled() => {}
                () = by_time => {}
            }
        }
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("id", &self.id)
            .field("scopes", &self.scopes)
            .field("credential", &self.credential)
            .finish()
    }
}
