//! The registry of credentials: who may enter, and what each change of it means.
//!
//! It decides and does no I/O: a decision is a [`Change`], which is made durable elsewhere.

use std::time::Duration;

use hivewright_actors::{
    clock::Timestamp,
    ids::CredentialId,
    router::trust::NOBODY,
    storage::{Storage, StorageError},
    store::reads::{Range, scan},
};

use super::{
    error::AuthError,
    rows::{Change, Grant, Session},
    token::{self, Hash},
};
use crate::{
    api::{
        scope::Scopes,
        tokens::{MintedBy, NewToken, TokenKind},
    },
    settings::secret::Secret,
};

/// A token that has ended is shown this long.
const SHOWN: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The principal that the operator token speaks for.
pub const OPERATOR: &str = "operator";
/// Names that audits, rules and the trust gate give to somebody else.
const RESERVED: [&str; 16] = [
    OPERATOR,
    NOBODY,
    "nobody",
    "any",
    "anyone",
    "api",
    "cli",
    "everybody",
    "hivewright",
    "model",
    "plugin",
    "service",
    "system",
    "team",
    "trigger",
    "webhook",
];
const MOST_TOKENS: usize = 1_000;
/// A token names no more teams than this.
const MOST_TEAMS: usize = 100;
const MOST_SESSIONS: usize = 1_000;
/// The last use is written down no more often than this.
const USE_STEP: Duration = Duration::from_secs(5 * 60);
const SHORTEST_EXPIRY: Duration = Duration::from_secs(60);
const LONGEST_EXPIRY: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// A credential that was just made: the only moment at which its text is known.
#[derive(Debug)]
pub struct Minted<T> {
    pub row: T,
    pub text: Secret,
}

#[derive(Debug, Default)]
pub struct Registry {
    grants: Vec<Grant>,
    sessions: Vec<Session>,
}

impl Registry {
    /// As it was left. A damaged row lets nobody in.
    pub fn load(storage: &dyn Storage) -> Result<Self, StorageError> {
        let mut grants: Vec<Grant> = scan(storage, Range::all())?;
        // Scopes that are new in this version are the operator's too.
        for grant in &mut grants {
            if grant.kind == TokenKind::Operator {
                grant.scopes = Scopes::all();
            }
        }
        Ok(Self { grants, sessions: scan(storage, Range::all())? })
    }

    /// All tokens, oldest first, ended ones included.
    pub fn grants(&self) -> Vec<Grant> {
        let mut grants = self.grants.clone();
        grants.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        grants
    }

    /// The browsers that are logged in, oldest first, with what they may do.
    pub fn sessions(&self, now: Timestamp) -> Vec<(Session, Grant)> {
        let live = self.sessions.iter().filter(|session| now < session.ends_at());
        let mut live: Vec<_> = live
            .filter_map(|session| {
                let grant = self.grant(&session.grant)?;
                grant.is_live(now).then(|| (session.clone(), grant.clone()))
            })
            .collect();
        live.sort_by(|(a, _), (b, _)| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        live
    }

    /// The grant of the operator token.
    pub fn operator(&self) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.kind == TokenKind::Operator)
    }

    /// The grant of a token, while it is good.
    pub fn token(&self, text: &str, now: Timestamp) -> Option<&Grant> {
        let kind = [(token::OPERATOR, TokenKind::Operator), (token::API, TokenKind::Api)]
            .into_iter()
            .find_map(|(prefix, kind)| token::is_formed(text, prefix).then_some(kind))?;
        let hash = Hash::of(text);
        self.grants
            .iter()
            .find(|grant| grant.hash == hash)
            .filter(|grant| grant.kind == kind && grant.is_live(now))
    }

    /// The session of a cookie with its grant, while both are good.
    pub fn session(&self, text: &str, now: Timestamp) -> Option<(&Session, &Grant)> {
        if !token::is_formed(text, "") {
            return None;
        }
        let hash = Hash::of(text);
        let session = self.sessions.iter().find(|session| session.hash == hash)?;
        let grant = self.grant(&session.grant)?;
        (now < session.ends_at() && grant.is_live(now)).then_some((session, grant))
    }

    pub fn grant(&self, id: &CredentialId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.id == *id)
    }

    /// When a credential ends if nothing happens, or that it has. For ever is none.
    pub fn end_of(&self, id: &CredentialId) -> Result<Option<Timestamp>, AuthError> {
        let session = self.sessions.iter().find(|session| session.id == *id);
        let grant = match session {
            Some(session) => self.grant(&session.grant),
            None => self.grant(id),
        };
        let grant = grant.ok_or(AuthError::Ended)?;
        let ends = [grant.expires_at, session.map(Session::ends_at)];
        Ok(ends.into_iter().flatten().min())
    }

    /// A token. Nobody gives more than they have, or for longer; without a maker it is made by whoever has
    /// the store in their hands, and needs no token.
    pub fn mint(
        &self,
        new: NewToken,
        maker: Option<&Grant>,
        now: Timestamp,
    ) -> Result<(Minted<Grant>, Change), AuthError> {
        if !is_name(&new.name) {
            return Err(AuthError::Name);
        }
        if self.grants.iter().any(|grant| grant.name == new.name) {
            return Err(AuthError::NameTaken(new.name));
        }
        let scopes = Scopes::from(new.scopes);
        if scopes.is_empty() {
            return Err(AuthError::NoScopes);
        }
        if let Some(scope) = scopes.beyond(maker.map_or_else(Scopes::all, |maker| maker.scopes)) {
            return Err(AuthError::BeyondOwn(scope));
        }
        let teams = match (new.teams, maker.and_then(|maker| maker.teams.as_ref())) {
            (Some(teams), _) if teams.is_empty() || teams.len() > MOST_TEAMS => {
                return Err(AuthError::NoTeams);
            }
            (Some(teams), Some(own)) => match teams.iter().find(|team| !own.contains(team)) {
                Some(team) => return Err(AuthError::BeyondOwnTeams(team.clone())),
                None => Some(teams),
            },
            // Whoever has some teams gives no more than those.
            (None, Some(own)) => Some(own.clone()),
            (teams, None) => teams,
        };
        let in_range = |span| (SHORTEST_EXPIRY..=LONGEST_EXPIRY).contains(&span);
        let expires_in = new.expires.unwrap_or_default().span();
        if !expires_in.is_none_or(in_range) {
            return Err(AuthError::Expiry);
        }
        if self.grants.len() >= MOST_TOKENS {
            return Err(AuthError::TooMany(self.grants.len()));
        }
        let text = token::fresh(token::API)?;
        let ends = [expires_in.map(|span| now + span), maker.and_then(|maker| maker.expires_at)];
        let grant = Grant {
            id: CredentialId::from(token::fresh_id("token")?),
            kind: TokenKind::Api,
            name: new.name,
            hash: Hash::of(text.expose()),
            scopes,
            teams,
            created_at: now,
            expires_at: ends.into_iter().flatten().min(),
            last_used_at: None,
            minted_by: maker
                .map(|maker| MintedBy { id: maker.id.clone(), name: maker.name.clone() }),
        };
        let change = Change { grants: vec![grant.clone()], ..Change::default() };
        Ok((Minted { row: grant, text }, change))
    }

    /// Ends a token, named by its id or name, with all sessions that it opened; if wanted also all tokens
    /// that it made, and those that they made.
    pub fn revoke(&self, id_or_name: &str, with_minted: bool) -> Result<Change, AuthError> {
        let grant = self
            .grants
            .iter()
            .find(|grant| grant.id.as_str() == id_or_name || grant.name == id_or_name)
            .ok_or_else(|| AuthError::Unknown(id_or_name.to_owned()))?;
        if grant.kind == TokenKind::Operator {
            return Err(AuthError::Operator);
        }
        let mut gone = vec![grant.id.clone()];
        let mut next = 0;
        while let Some(maker) = gone.get(next).filter(|_| with_minted).cloned() {
            let made = self.grants.iter().filter(|grant| {
                let by = grant.minted_by.as_ref().map(|by| &by.id);
                by == Some(&maker) && !gone.contains(&grant.id)
            });
            let made: Vec<_> = made.map(|grant| grant.id.clone()).collect();
            gone.extend(made);
            next += 1;
        }
        Ok(self.without(&gone))
    }

    /// Makes this the operator token; the former one ends with all sessions that it opened.
    pub fn adopt_operator(&self, text: &Secret, now: Timestamp) -> Result<Change, AuthError> {
        let hash = Hash::of(text.expose());
        let former = self.operator();
        if let Some(former) = former.filter(|former| former.hash == hash) {
            // A newer version may know more scopes.
            let grants = if former.scopes == Scopes::all() {
                Vec::new()
            } else {
                vec![Grant { scopes: Scopes::all(), ..former.clone() }]
            };
            return Ok(Change { grants, ..Change::default() });
        }
        let mut change = former
            .map_or_else(Change::default, |former| self.without(std::slice::from_ref(&former.id)));
        change.grants.push(Grant {
            id: CredentialId::from(token::fresh_id("operator")?),
            kind: TokenKind::Operator,
            name: OPERATOR.to_owned(),
            hash,
            scopes: Scopes::all(),
            teams: None,
            created_at: now,
            expires_at: None,
            last_used_at: None,
            minted_by: None,
        });
        Ok(change)
    }

    /// A session under a grant. Ended sessions go, and the one unused for longest if there are
    /// too many.
    pub fn open_session(
        &self,
        grant: &CredentialId,
        now: Timestamp,
    ) -> Result<(Minted<Session>, Change), AuthError> {
        self.grant(grant).filter(|grant| grant.is_live(now)).ok_or(AuthError::Ended)?;
        let text = token::fresh("")?;
        let session = Session {
            id: CredentialId::from(token::fresh_id("session")?),
            hash: Hash::of(text.expose()),
            grant: grant.clone(),
            created_at: now,
            last_used_at: now,
            written_at: now,
        };
        let mut change = self.sweep(now);
        if self.sessions.len() - change.ended_sessions.len() >= MOST_SESSIONS {
            let live =
                self.sessions.iter().filter(|session| !change.ended_sessions.contains(&session.id));
            let oldest = live.min_by_key(|session| session.last_used_at);
            let oldest = oldest.map(|session| session.id.clone());
            change.ended_sessions.extend(oldest);
        }
        change.sessions.push(session.clone());
        Ok((Minted { row: session, text }, change))
    }

    pub fn close_session(&self, id: &CredentialId) -> Change {
        Change { ended_sessions: vec![id.clone()], ..Change::default() }
    }

    /// Drops sessions that have ended by themselves, and tokens that have long ago: others that ended stay, to be seen.
    pub fn sweep(&self, now: Timestamp) -> Change {
        let is_over = |session: &&Session| {
            let grant = self.grant(&session.grant);
            now >= session.ends_at() || !grant.is_some_and(|grant| grant.is_live(now))
        };
        let ended = self.sessions.iter().filter(is_over);
        let is_old = |grant: &&Grant| grant.expires_at.is_some_and(|end| end + SHOWN < now);
        let old = self.grants.iter().filter(is_old);
        Change {
            ended_sessions: ended.map(|session| session.id.clone()).collect(),
            ended_grants: old.map(|grant| grant.id.clone()).collect(),
            ..Change::default()
        }
    }

    /// A credential was used. Returns what is worth writing down.
    pub fn used(&mut self, id: &CredentialId, now: Timestamp) -> Change {
        let is_due = |last: Timestamp| now.since(last) >= USE_STEP;
        let mut change = Change::default();
        let mut grant = id.clone();
        if let Some(session) = self.sessions.iter_mut().find(|session| session.id == *id) {
            session.last_used_at = now;
            grant = session.grant.clone();
            if is_due(session.written_at) {
                session.written_at = now;
                change.sessions.push(session.clone());
            }
        }
        let grant = self.grants.iter_mut().find(|row| row.id == grant);
        if let Some(grant) = grant.filter(|grant| grant.last_used_at.is_none_or(is_due)) {
            grant.last_used_at = Some(now);
            change.grants.push(grant.clone());
        }
        change
    }

    /// Makes a change one's own.
    pub fn apply(&mut self, change: &Change) {
        let is_gone = |id: &CredentialId| {
            change.ended_grants.contains(id)
                || change.ended_sessions.contains(id)
                || change.grants.iter().any(|grant| grant.id == *id)
                || change.sessions.iter().any(|session| session.id == *id)
        };
        self.grants.retain(|grant| !is_gone(&grant.id));
        self.sessions.retain(|session| !is_gone(&session.id));
        self.grants.extend(change.grants.iter().cloned());
        self.sessions.extend(change.sessions.iter().cloned());
    }

    fn without(&self, ids: &[CredentialId]) -> Change {
        let sessions = self.sessions.iter();
        Change {
            ended_grants: ids.to_vec(),
            ended_sessions: sessions
                .filter(|session| ids.contains(&session.grant))
                .map(|session| session.id.clone())
                .collect(),
            ..Change::default()
        }
    }
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&name.len())
        && name.bytes().next().is_some_and(plain)
        && name
            .bytes()
            .all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
        && !RESERVED.contains(&name)
        // A name is shown and logged: a token does not belong there.
        && !name.starts_with(token::OPERATOR)
        && !name.starts_with(token::API)
}
