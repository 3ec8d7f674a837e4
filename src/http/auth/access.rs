//! Authentication of requests: from a request to the principal behind it.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderMap},
};
use hivewright_actors::{
    channel_type::ChannelType,
    ids::{MAIN, PrincipalId},
    router::sender::Sender,
};

use super::authenticator::{Authenticator, Principal};
use crate::{
    api::scope::Scope,
    http::kit::{
        connections::is_local,
        error::{ApiError, ApiResult},
        origin::{Gate, is_change},
    },
};

/// The cookie of a browser session.
pub(in crate::http) const COOKIE: &str = "hw_session";
const CSRF: &str = "x-csrf-token";
const SENDER: &str = "x-sender-id";
const CLIENT: &str = "x-client";
const LONGEST_SENDER: usize = 128;

/// Lets requests in, or not.
#[derive(Clone, Debug)]
pub struct Access {
    pub auth: Authenticator,
    /// From where requests may come.
    pub gate: Gate,
}

/// A request for a WebSocket that may go ahead.
#[derive(Debug)]
pub struct Upgrade {
    pub principal: Principal,
    /// In whose name they speak.
    pub sender: String,
    /// Who claims that name for them, without proof. None: it is the principal's own.
    pub asserted_by: Option<PrincipalId>,
    /// By which door they come in.
    pub channel_type: ChannelType,
    pub listener: String,
}

impl Upgrade {
    /// Who writes, for the trust gate.
    pub fn sender(&self) -> Sender {
        Sender {
            channel_type: self.channel_type.clone(),
            id: self.sender.clone(),
            asserted_by: self.asserted_by.clone(),
            listener: Some(self.listener.clone()),
            is_operator: self.principal.is_operator() && self.asserted_by.is_none(),
            // Whoever decides in a chat may be asked about any team.
            may_approve: self.principal.may(Scope::Approve)
                && self.principal.teams.is_none()
                && self.asserted_by.is_none(),
        }
    }
}

/// The listener that a request came in on, for the audit.
fn listener(request: &HttpRequest) -> String {
    let is_unix = is_local(request);
    if is_unix { "unix".to_owned() } else { request.app_config().local_addr().to_string() }
}

/// What a request proves itself with.
enum Credential<'a> {
    Token(&'a str),
    Cookie(&'a str),
}

impl Access {
    /// Who is asking. A browser that wants to change something has to show that its page does.
    pub fn principal(&self, request: &HttpRequest) -> ApiResult<Principal> {
        let principal = self.holder(request).ok_or_else(ApiError::unauthenticated)?;
        match credential(request.headers()) {
            Some(Credential::Cookie(cookie))
                if is_change(request.method()) && !self.repeats_csrf(request, cookie) =>
            {
                Err(ApiError::csrf())
            }
            _ => Ok(principal),
        }
    }

    /// Whose credential a request has, whether or not it may do what it asks for.
    pub(in crate::http) fn holder(&self, request: &HttpRequest) -> Option<Principal> {
        match credential(request.headers())? {
            Credential::Token(token) => self.auth.token(token),
            Credential::Cookie(cookie) => self.auth.session(cookie),
        }
    }

    /// Who is asking, if they may do this.
    pub fn require(&self, request: &HttpRequest, scope: Scope) -> ApiResult<Principal> {
        let principal = self.principal(request)?;
        if principal.may(scope) { Ok(principal) } else { Err(ApiError::forbidden(scope)) }
    }

    /// Everything that is asked of a request before it becomes a WebSocket, which talks to the main team.
    pub fn upgrade(&self, request: &HttpRequest) -> ApiResult<Upgrade> {
        let upgrade = self.speaker(request)?;
        if upgrade.principal.reaches(MAIN) { Ok(upgrade) } else { Err(ApiError::other_team()) }
    }

    /// Whoever speaks by a request, over REST or a WebSocket.
    pub(in crate::http) fn speaker(&self, request: &HttpRequest) -> ApiResult<Upgrade> {
        if has_token(request.query_string()) {
            return Err(ApiError::token_in_url());
        }
        self.gate.check(request)?;
        let has_origin = request.headers().contains_key(header::ORIGIN);
        if let Some(Credential::Cookie(_)) = credential(request.headers())
            && !has_origin
        {
            return Err(ApiError::origin("a connection of a browser session needs an `Origin`"));
        }
        let principal = self.require(request, Scope::Chat)?;
        let claimed = claimed_sender(request.headers())?;
        if claimed.is_some() && !principal.may(Scope::AssertSender) {
            return Err(ApiError::sender());
        }
        let is_cli = claimed.is_none() && is_command_line(&principal, request.headers());
        Ok(Upgrade {
            asserted_by: claimed.as_ref().map(|_| principal.id.clone()),
            sender: claimed.unwrap_or_else(|| principal.id.to_string()),
            channel_type: if is_cli { ChannelType::Cli } else { ChannelType::Ws },
            principal,
            listener: listener(request),
        })
    }

    /// What the pages of the session in this request must repeat; none without a session.
    pub(in crate::http) fn csrf(&self, request: &HttpRequest) -> Option<String> {
        match credential(request.headers())? {
            Credential::Cookie(cookie) => Some(self.auth.csrf(cookie)),
            Credential::Token(_) => None,
        }
    }

    fn repeats_csrf(&self, request: &HttpRequest, cookie: &str) -> bool {
        let value = request.headers().get(CSRF).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| self.auth.is_csrf(cookie, value))
    }
}

/// A credential in a header counts even if it is no good: a cookie does not make up for it.
fn credential(headers: &HeaderMap) -> Option<Credential<'_>> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        return is_bearer.then(|| Credential::Token(token.trim()));
    }
    let cookies = headers.get_all(header::COOKIE);
    let mut pairs = cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, session) = pairs.find(|(name, _)| *name == COOKIE)?;
    Some(Credential::Cookie(session))
}

/// Only the operator's own token makes a command line of a client, however it calls itself.
pub(in crate::http) fn is_command_line(principal: &Principal, headers: &HeaderMap) -> bool {
    let names_itself =
        headers.get(CLIENT).is_some_and(|client| client.as_bytes().eq_ignore_ascii_case(b"cli"));
    names_itself && principal.is_operator() && principal.has_token()
}

fn claimed_sender(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut values = headers.get_all(SENDER);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let sender = value.to_str().unwrap_or_default().trim();
    let is_plain = sender.bytes().all(|byte| byte.is_ascii_graphic());
    if values.next().is_none() && is_plain && (1..=LONGEST_SENDER).contains(&sender.len()) {
        return Ok(Some(sender.to_owned()));
    }
    let reason = "a sender has 1 to 128 printable characters without space";
    Err(ApiError::invalid_field("X-Sender-Id", reason))
}

/// The text holds one of our tokens, by its look.
pub(in crate::http) fn is_token(text: &str) -> bool {
    text.contains("hwo_") || text.contains("hwt_")
}

/// The most times that a query is decoded to find a token in it.
const MOST_LAYERS: usize = 4;

/// A text without its percent encoding, however often it was encoded.
pub(in crate::http) fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MOST_LAYERS {
        let plain = decoded_once(&text);
        if plain == text {
            break;
        }
        text = plain;
    }
    text
}

fn decoded_once(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let code = piece.get(..2).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A query that holds a credential, by the name of a field or by its look.
pub(in crate::http) fn has_token(query: &str) -> bool {
    const NAMES: [&str; 4] = ["token", "access_token", "api_key", "authorization"];
    let fields = query.split('&').filter(|field| !field.is_empty());
    fields.into_iter().any(|field| {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let (name, value) = (decoded(name), decoded(value));
        NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
            || [name, value].iter().any(|text| is_token(text))
    })
}
