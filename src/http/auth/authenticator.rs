//! The authenticator: the registry of credentials, running, and the only maker of principals.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    blocking,
    clock::{Clock, Timestamp},
    identities::Owner,
    ids::{CredentialId, PrincipalId},
    store::{StoreError, StoreHandle},
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    error::AuthError,
    links::{self, Links},
    operator,
    registry::{Minted, OPERATOR, Registry},
    rows::{Change, Grant, Session},
    token,
};
use crate::{
    api::{
        scope::{Scope, Scopes},
        tokens::NewToken,
    },
    settings::secret::Secret,
};

/// How long a code for logging in is good.
pub const LINK_VALID: Duration = links::VALID;
/// The wall clock may be set, and a machine may sleep: an end that only time brings is looked at
/// this often.
const STEP: Duration = Duration::from_secs(30);

/// Someone who proved who they are. Only the authenticator makes one, from what is stored.
#[derive(Clone)]
pub struct Principal {
    /// `operator`, or the name of an API token.
    pub id: PrincipalId,
    pub scopes: Scopes,
    /// The teams that they may act on; none is all.
    pub teams: Option<Arc<[String]>>,
    /// What they proved it with.
    pub credential: CredentialId,
    /// The token behind it: of a session, the one that opened it.
    pub grant: CredentialId,
    /// When that was made.
    since: Timestamp,
    end: CancellationToken,
    authenticator: Authenticator,
}

impl Principal {
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

    /// They may act on this team.
    pub fn reaches(&self, team: &str) -> bool {
        self.teams.as_ref().is_none_or(|teams| teams.iter().any(|name| name == team))
    }

    /// As whose the channels that they open are kept. The operator stays the same, whatever the
    /// token is replaced by.
    pub fn owner(&self) -> Owner {
        let (grant, since) = if self.is_operator() {
            (OPERATOR, Timestamp::default())
        } else {
            (self.grant.as_str(), self.since)
        };
        Owner { principal: self.id.clone(), grant: grant.into(), since }
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

/// A browser that just logged in.
#[derive(Debug)]
pub struct LoggedIn {
    pub principal: Principal,
    pub cookie: Secret,
    /// For the page.
    pub csrf: String,
}

/// Tells who is asking. Cloning it is cheap.
#[derive(Clone)]
pub struct Authenticator(Arc<Inner>);

struct Inner {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    secrets: PathBuf,
    links: Links,
    live: Mutex<Live>,
    /// The file and the registry change one after the other: one rotation at a time.
    rotation: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Live {
    registry: Registry,
    /// Of the credentials that someone was let in with.
    ends: HashMap<CredentialId, CancellationToken>,
}

impl Authenticator {
    /// Opens what is stored, and makes the operator token if there is none.
    pub async fn open(
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        secrets: &Path,
    ) -> Result<Self, AuthError> {
        let token = on_file(secrets, operator::read_or_create).await?;
        let registry = store.read(Registry::load).await?;
        let this = Self(Arc::new(Inner {
            store,
            clock,
            secrets: secrets.to_owned(),
            links: Links::default(),
            live: Mutex::new(Live { registry, ends: HashMap::new() }),
            rotation: tokio::sync::Mutex::new(()),
        }));
        let now = this.now();
        this.change(|registry| Ok(((), registry.adopt_operator(&token, now)?))).await?;
        this.change(|registry| Ok(((), registry.sweep(now)))).await?;
        Ok(this)
    }

    /// The present moment, by the clock that credentials end by.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Who holds this token.
    pub fn token(&self, text: &str) -> Option<Principal> {
        let mut live = self.0.live.lock();
        let grant = live.registry.token(text, self.now())?.clone();
        Some(self.admit(&mut live, &grant, grant.id.clone()))
    }

    /// Whose browser holds this cookie.
    pub fn session(&self, cookie: &str) -> Option<Principal> {
        let mut live = self.0.live.lock();
        let (session, grant) = live.registry.session(cookie, self.now())?;
        let (id, grant) = (session.id.clone(), grant.clone());
        Some(self.admit(&mut live, &grant, id))
    }

    /// What requests of this session must repeat.
    pub fn csrf(&self, cookie: &str) -> String {
        token::csrf(cookie)
    }

    /// The request repeats what its session was told.
    pub fn is_csrf(&self, cookie: &str, value: &str) -> bool {
        token::same(&token::csrf(cookie), value)
    }

    /// All tokens, oldest first.
    pub fn grants(&self) -> Vec<Grant> {
        self.0.live.lock().registry.grants()
    }

    /// Somebody else than this principal may do this for a team.
    pub fn others_may(&self, scope: Scope, who: &PrincipalId, team: &str) -> bool {
        let now = self.now();
        self.0.live.lock().registry.grants().iter().any(|grant| {
            let reaches = |teams: &Vec<String>| teams.iter().any(|name| name == team);
            grant.name != who.as_str()
                && grant.is_live(now)
                && grant.scopes.has(scope)
                && grant.teams.as_ref().is_none_or(reaches)
        })
    }

    /// The browsers that are logged in, oldest first, with what they may do.
    pub fn sessions(&self) -> Vec<(Session, Grant)> {
        self.0.live.lock().registry.sessions(self.now())
    }

    /// Ends a session, whosever it is.
    pub async fn end_session(&self, id: &CredentialId, by: &Principal) -> Result<(), AuthError> {
        self.change(|registry| Ok(((), registry.close_session(id)))).await?;
        tracing::info!(by = %by.id, session = %id, "logged out");
        Ok(())
    }

    /// Makes a token with some of the scopes of whoever asks.
    pub async fn mint(&self, new: NewToken, by: &Principal) -> Result<Minted<Grant>, AuthError> {
        let now = self.now();
        let minted = self.change(|registry| {
            let own = registry.grant(&by.grant).ok_or(AuthError::Ended)?;
            registry.mint(new, Some(own), now)
        });
        let minted = minted.await?;
        tracing::info!(by = %by.id, token = %minted.row.name, scopes = ?minted.row.scopes, "token made");
        Ok(minted)
    }

    /// Ends a token and all that it opened; if wanted also those that it made. Returns the ended ones.
    pub async fn revoke(
        &self,
        id_or_name: &str,
        with_minted: bool,
        by: &Principal,
    ) -> Result<Vec<CredentialId>, AuthError> {
        let ended = self.change(|registry| {
            let change = registry.revoke(id_or_name, with_minted)?;
            Ok((change.ended_grants.clone(), change))
        });
        let ended = ended.await?;
        tracing::info!(by = %by.id, token = id_or_name, ?ended, "token revoked");
        Ok(ended)
    }

    /// Replaces the operator token. The new one is in its file, and nowhere else.
    pub async fn rotate_operator(&self, by: &Principal) -> Result<(), AuthError> {
        let _one = self.0.rotation.lock().await;
        let token = on_file(&self.0.secrets, operator::replace).await?;
        let now = self.now();
        self.change(|registry| Ok(((), registry.adopt_operator(&token, now)?))).await?;
        tracing::info!(by = %by.id, "operator token rotated");
        Ok(())
    }

    /// A code that logs one browser in as this principal.
    pub fn link(&self, by: &Principal) -> Result<Secret, AuthError> {
        self.0.links.make(by.grant.clone(), self.now())
    }

    /// A code that logs one browser in as the operator: for whoever starts the service.
    pub fn operator_link(&self) -> Result<Secret, AuthError> {
        let operator = self.0.live.lock().registry.operator().map(|grant| grant.id.clone());
        self.0.links.make(operator.ok_or(AuthError::Ended)?, self.now())
    }

    /// Logs a browser in with a token.
    pub async fn log_in(&self, token: &str) -> Result<LoggedIn, AuthError> {
        let holder = self.token(token).ok_or(AuthError::Ended)?;
        self.open_session(holder.grant).await
    }

    /// Logs a browser in with a code.
    pub async fn log_in_by_link(&self, code: &str) -> Result<LoggedIn, AuthError> {
        let grant = self.0.links.take(code, self.now());
        self.open_session(grant.ok_or(AuthError::Ended)?).await
    }

    /// Ends the session of a principal. One that came with a token has none.
    pub async fn log_out(&self, principal: &Principal) -> Result<(), AuthError> {
        if principal.has_token() {
            return Err(AuthError::Ended);
        }
        self.change(|registry| Ok(((), registry.close_session(&principal.credential)))).await?;
        tracing::info!(by = %principal.id, session = %principal.credential, "logged out");
        Ok(())
    }

    async fn open_session(&self, grant: CredentialId) -> Result<LoggedIn, AuthError> {
        let now = self.now();
        let Minted { text, row } =
            self.change(|registry| registry.open_session(&grant, now)).await?;
        let principal = self.session(text.expose()).ok_or(AuthError::Ended)?;
        tracing::info!(by = %principal.id, session = %row.id, "logged in");
        Ok(LoggedIn { principal, csrf: token::csrf(text.expose()), cookie: text })
    }

    /// A credential was used: a session stays, and the operator sees when.
    fn used(&self, id: &CredentialId) {
        self.note_use(&mut self.0.live.lock(), id);
    }

    fn note_use(&self, live: &mut Live, id: &CredentialId) {
        let change = live.registry.used(id, self.now());
        if !change.is_empty() {
            // The store takes it in now; nobody needs to wait until it is safe.
            drop(self.commit(live, &change));
        }
    }

    /// How long a credential is still good if nothing happens; none is not any more.
    fn time_left(&self, id: &CredentialId) -> Option<Duration> {
        let end = self.0.live.lock().registry.end_of(id).ok()?;
        let left = end.map_or(Duration::MAX, |end| end.since(self.now()));
        (!left.is_zero()).then_some(left)
    }

    fn admit(&self, live: &mut Live, grant: &Grant, credential: CredentialId) -> Principal {
        self.note_use(live, &credential);
        Principal {
            id: PrincipalId::from(grant.name.as_str()),
            scopes: grant.scopes,
            teams: grant.teams.clone().map(Into::into),
            end: live.ends.entry(credential.clone()).or_default().clone(),
            credential,
            grant: grant.id.clone(),
            since: grant.created_at,
            authenticator: self.clone(),
        }
    }

    /// Decides and changes; ends once the change is durable.
    async fn change<T>(
        &self,
        decide: impl FnOnce(&Registry) -> Result<(T, Change), AuthError>,
    ) -> Result<T, AuthError> {
        let (outcome, durable) = {
            let mut live = self.0.live.lock();
            let (outcome, change) = decide(&live.registry)?;
            let durable = (!change.is_empty()).then(|| self.commit(&mut live, &change));
            (outcome, durable)
        };
        if let Some(durable) = durable {
            durable.await?;
        }
        Ok(outcome)
    }

    /// Under one lock the store takes changes in the order in which they are made here. So a late
    /// note of a token's use cannot bring back its row after it was revoked.
    fn commit(
        &self,
        live: &mut Live,
        change: &Change,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        live.registry.apply(change);
        for id in change.ended_grants.iter().chain(&change.ended_sessions) {
            if let Some(end) = live.ends.remove(id) {
                end.cancel();
            }
        }
        let durable = self.0.store.commit(change.writes());
        async move { durable.await.map(drop) }
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator")
    }
}

/// The file is read and written on a thread that may block.
async fn on_file(
    secrets: &Path,
    work: fn(&Path) -> Result<Secret, AuthError>,
) -> Result<Secret, AuthError> {
    let folder = secrets.to_owned();
    match blocking::run(move || work(&folder)).await {
        Ok(outcome) => outcome,
        Err(error) => {
            Err(AuthError::File { path: secrets.to_owned(), source: io::Error::other(error) })
        }
    }
}
