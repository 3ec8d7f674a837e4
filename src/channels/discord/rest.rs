//! Discord's REST API: the few calls that a channel needs, and what became of each.
//!
//! The types of the wire are serenity's. Its client is not used: it polls, looks for the gateway at the public
//! address when the API does not answer, forgets another address once it limits its rate, and brings a second
//! version of TLS.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hivewright_actors::excerpt;
use reqwest::{Method, Response, StatusCode, header::HeaderMap};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use serenity::{
    builder::CreateMessage,
    model::{
        id::{ChannelId, InteractionId, MessageId},
        user::CurrentUser,
    },
};
use tokio::time::{Instant, timeout};

use crate::{
    providers::client::{self, ClientError},
    settings::secret::Secret,
};

const VERSION: &str = "/api/v10";
/// Discord wants bots to name themselves in this form.
const USER_AGENT: &str = concat!("DiscordBot (hivewright, ", env!("CARGO_PKG_VERSION"), ")");
/// One request, from its first byte to the last of its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;
/// So much of Discord's own words is passed on, in characters.
const LONGEST_SAYING: usize = 200;
/// A limit without a time is waited for this long, and none longer than the second.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Routes of which limits are known at one time.
const MOST_ROUTES: usize = 10_000;

/// Why Discord did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    #[error("Discord does not accept the bot's token")]
    Unauthorized,
    /// It may later: after this time if it says so.
    #[error("{1}")]
    Later(Option<Duration>, String),
    #[error("{0}")]
    Never(String),
}

/// A client with the token of one bot.
pub struct Rest {
    http: reqwest::Client,
    base: String,
    token: Secret,
    /// Until when each route is closed, and by the empty name all of them.
    closed: Mutex<HashMap<String, Instant>>,
}

/// Where the gateway is.
#[derive(Deserialize)]
struct Gateway {
    url: String,
}

#[derive(Deserialize)]
struct Posted {
    id: MessageId,
}

/// What Discord says is wrong.
#[derive(Default, Deserialize)]
struct Complaint {
    #[serde(default)]
    message: String,
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
}

impl Rest {
    pub fn new(api_url: &str, token: Secret) -> Result<Self, ClientError> {
        let base = format!("{}{VERSION}", api_url.trim_end_matches('/'));
        Ok(Self { http: client::build()?, base, token, closed: Mutex::default() })
    }

    /// The bot that the token is of.
    pub async fn me(&self) -> Result<CurrentUser, RestError> {
        self.fetch("/users/@me").await
    }

    pub(super) async fn gateway(&self) -> Result<String, RestError> {
        self.fetch::<Gateway>("/gateway").await.map(|gateway| gateway.url)
    }

    /// Posts a message, and returns its id. The same nonce within some minutes is the same message.
    pub(super) async fn post(
        &self,
        channel: ChannelId,
        message: &CreateMessage,
    ) -> Result<Option<MessageId>, RestError> {
        let path = format!("/channels/{channel}/messages");
        let body = serde_json::to_value(message).map_err(unreadable)?;
        let answer = self.call(Method::POST, &path, Some(&body)).await?;
        // It is there, whatever else Discord says of it.
        let posted: Result<Posted, _> = serde_json::from_slice(&answer);
        Ok(posted.ok().map(|posted| posted.id))
    }

    /// Takes the buttons of a message away.
    pub(super) async fn settle(
        &self,
        channel: ChannelId,
        message: MessageId,
    ) -> Result<(), RestError> {
        let path = format!("/channels/{channel}/messages/{message}");
        let body = json!({ "components": [] });
        self.call(Method::PATCH, &path, Some(&body)).await.map(drop)
    }

    pub(super) async fn type_in(&self, channel: ChannelId) -> Result<(), RestError> {
        self.call(Method::POST, &format!("/channels/{channel}/typing"), None).await.map(drop)
    }

    /// Answers whoever pressed a button, so that nobody else sees it.
    pub(super) async fn answer(
        &self,
        interaction: InteractionId,
        token: &str,
        text: &str,
    ) -> Result<(), RestError> {
        // Message, ephemeral.
        let body = json!({
            "type": 4,
            "data": { "content": text, "flags": 64, "allowed_mentions": { "parse": [] } },
        });
        let path = format!("/interactions/{interaction}/{token}/callback");
        self.call(Method::POST, &path, Some(&body)).await.map(drop)
    }

    async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, RestError> {
        let answer = self.call(Method::GET, path, None).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, RestError> {
        let route = format!("{method} {path}");
        if let Some(pause) = self.pause(&route) {
            return Err(RestError::Later(Some(pause), "Discord limits the rate".to_owned()));
        }
        let exchange = self.exchange(method, path, body, &route);
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(answered) => answered,
            Err(_) => {
                let seconds = REQUEST_TIMEOUT.as_secs();
                Err(RestError::Later(None, format!("Discord did not answer within {seconds} s")))
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        route: &str,
    ) -> Result<Vec<u8>, RestError> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("user-agent", USER_AGENT)
            .header("authorization", format!("Bot {}", self.token.expose()));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if let Some(pause) = spent(&headers) {
            self.close(route, pause);
        }
        let answer = whole(response).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let complaint: Complaint = serde_json::from_slice(&answer).unwrap_or_default();
        let said = excerpt::line(complaint.message.trim(), LONGEST_SAYING);
        let said = if said.is_empty() { status.to_string() } else { format!("{said} ({status})") };
        Err(match status {
            StatusCode::UNAUTHORIZED => RestError::Unauthorized,
            StatusCode::TOO_MANY_REQUESTS => {
                let pause = seconds(&headers, "retry-after")
                    .or(complaint.retry_after.and_then(span))
                    .unwrap_or(DEFAULT_PAUSE);
                let is_global = complaint.global || headers.contains_key("x-ratelimit-global");
                self.close(if is_global { "" } else { route }, pause);
                RestError::Later(Some(pause), "Discord limits the rate".to_owned())
            }
            status if status.is_server_error() => {
                RestError::Later(None, format!("Discord is in trouble: {said}"))
            }
            _ => RestError::Never(format!("Discord refuses it: {said}")),
        })
    }

    /// How long a route is closed.
    fn pause(&self, route: &str) -> Option<Duration> {
        let now = Instant::now();
        let closed = self.closed();
        let until = |name: &str| closed.get(name).map(|until| until.duration_since(now));
        let pause = until(route).into_iter().chain(until("")).max()?;
        (!pause.is_zero()).then_some(pause)
    }

    fn close(&self, route: &str, pause: Duration) {
        let now = Instant::now();
        let mut closed = self.closed();
        if closed.len() >= MOST_ROUTES {
            closed.retain(|_, until| *until > now);
        }
        closed.insert(route.to_owned(), now + pause);
    }

    fn closed(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn whole(mut response: Response) -> Result<Vec<u8>, RestError> {
    let mut answer = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        if answer.len() + piece.len() > LONGEST_ANSWER {
            return Err(RestError::Later(None, "Discord's answer is too long".to_owned()));
        }
        answer.extend_from_slice(&piece);
    }
    Ok(answer)
}

/// When the next request of a route is welcome, if it has none left.
fn spent(headers: &HeaderMap) -> Option<Duration> {
    let left = headers.get("x-ratelimit-remaining")?.to_str().ok()?;
    if left.trim() == "0" { seconds(headers, "x-ratelimit-reset-after") } else { None }
}

fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    span(headers.get(name)?.to_str().ok()?.trim().parse().ok()?)
}

fn span(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().map(|span| span.min(LONGEST_PAUSE))
}

/// The address may hold the token of an interaction, so it is not told.
fn unreachable(error: reqwest::Error) -> RestError {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    RestError::Later(None, format!("Discord cannot be reached: {cause}"))
}

fn unreadable(error: serde_json::Error) -> RestError {
    RestError::Later(None, format!("Discord's answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// CH-102
    #[test]
    fn a_route_closes_when_nothing_is_left_of_it() {
        let left = headers(&[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset-after", "2.5")]);
        let spent_now =
            headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "2.5")]);
        let nonsense =
            headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "-1e400")]);

        assert_eq!(spent(&left), None);
        assert_eq!(spent(&spent_now), Some(Duration::from_millis(2_500)));
        assert_eq!(spent(&nonsense), None);
    }

    #[test]
    fn a_limit_holds_for_its_route_or_for_all() {
        let rest = Rest::new("http://127.0.0.1:1/", Secret::new("t".to_owned())).unwrap();

        rest.close("POST /a", Duration::from_secs(60));
        assert!(rest.pause("POST /a").is_some());
        assert!(rest.pause("POST /b").is_none());
        rest.close("", Duration::from_secs(60));

        assert!(rest.pause("POST /b").is_some());
    }
}
