//! Discord's REST API: the few calls that a channel needs, and what became of each.
//!
//! The types of the wire are serenity's. Its client is not used: it polls, looks for the gateway at the public
//! address when the API does not answer, forgets another address once it limits its rate, and brings a second
//! version of TLS.

use std::{collections::HashMap, time::Duration};

use hivewright_actors::excerpt;
use parking_lot::Mutex;
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use serenity::{
    builder::CreateMessage,
    model::{
        channel::Message,
        id::{ChannelId, GuildId, InteractionId, MessageId, UserId},
        user::CurrentUser,
    },
};
use tokio::time::{Instant, timeout};

use super::uploads::{Form, Upload};
use crate::{
    providers::client::{self, ClientError},
    settings::secret::Secret,
    text::root_cause,
};

const VERSION: &str = "/api/v10";
/// Discord wants bots to name themselves in this form.
const USER_AGENT: &str = concat!("DiscordBot (hivewright, ", env!("CARGO_PKG_VERSION"), ")");
/// One request, from its first byte to the last of its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The same with a file in it.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(2 * 60);
const LONGEST_ANSWER: usize = 4 * 1024 * 1024;
/// Discord tells so many messages at once.
const PAGE: usize = 100;
/// Where Discord keeps the files of messages.
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
/// So much of Discord's own words is passed on, in characters.
const LONGEST_SAYING: usize = 200;
/// A limit without a time is waited for this long, and none longer than the second.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Routes of which limits are known at one time.
const MOST_ROUTES: usize = 10_000;

/// View channels, send messages, attach files, read message history.
const PERMISSIONS: u64 = 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16;

/// Where a bot is invited to a server.
pub fn invite(bot: UserId) -> String {
    format!(
        "https://discord.com/oauth2/authorize?client_id={bot}&scope=bot&permissions={PERMISSIONS}"
    )
}

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

#[derive(Deserialize)]
struct Gateway {
    url: String,
}

#[derive(Deserialize)]
struct Posted {
    id: MessageId,
}

/// A channel, as far as it concerns us.
#[derive(Deserialize)]
struct Place {
    guild_id: Option<GuildId>,
}

enum Content {
    Nothing,
    Json(Value),
    Form(Form),
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

    /// Whether a channel is one of a server, not of a person.
    pub(super) async fn is_of_server(&self, channel: ChannelId) -> Result<bool, RestError> {
        let place: Place = self.fetch(&format!("/channels/{channel}")).await?;
        Ok(place.guild_id.is_some())
    }

    /// The messages of a channel next behind another one, oldest first, and whether there may be more. What cannot be
    /// read is left out.
    pub(super) async fn messages_after(
        &self,
        channel: ChannelId,
        after: u64,
    ) -> Result<(Vec<Message>, bool), RestError> {
        let path = format!("/channels/{channel}/messages?after={after}&limit={PAGE}");
        let found: Vec<Box<RawValue>> = self.fetch(&path).await?;
        let read = found.iter().filter_map(|raw| {
            let message = serde_json::from_str::<Message>(raw.get());
            // The error itself may repeat what somebody wrote.
            message
                .inspect_err(|_| {
                    tracing::warn!("a message of Discord cannot be read, and is left out")
                })
                .ok()
        });
        let mut messages: Vec<Message> = read.collect();
        messages.sort_by_key(|message| message.id);
        Ok((messages, found.len() >= PAGE))
    }

    /// The newest message of a channel.
    pub(super) async fn newest(&self, channel: ChannelId) -> Result<Option<u64>, RestError> {
        let path = format!("/channels/{channel}/messages?limit=1");
        let found: Vec<Posted> = self.fetch(&path).await?;
        Ok(found.first().map(|newest| newest.id.get()))
    }

    /// The content of a file that came with a message. The token is not sent there, and no other host is asked than
    /// those of Discord, whatever the message says.
    pub(super) async fn file(&self, url: &str) -> Result<Response, RestError> {
        let elsewhere = || RestError::Never("it is not where Discord keeps files".to_owned());
        let url = Url::parse(url).map_err(|_| elsewhere())?;
        let is_public = url.scheme() == "https"
            && url.port().is_none()
            && url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        let is_of_api = Url::parse(&self.base).is_ok_and(|base| base.origin() == url.origin());
        if !is_public && !is_of_api {
            return Err(elsewhere());
        }
        let request = self.http.get(url).header("user-agent", USER_AGENT);
        let response = timeout(REQUEST_TIMEOUT, request.send()).await.map_err(|_| late())?;
        let response = response.map_err(unreachable)?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(RestError::Later(None, format!("Discord is in trouble: {status}")))
            }
            status => Err(RestError::Never(format!("Discord does not give it: {status}"))),
        }
    }

    /// Posts a message, and returns its id. The same nonce within some minutes is the same message.
    pub(super) async fn post(
        &self,
        channel: ChannelId,
        message: &CreateMessage,
        upload: Option<Upload>,
    ) -> Result<Option<MessageId>, RestError> {
        let path = format!("/channels/{channel}/messages");
        let body = serde_json::to_value(message).map_err(unreadable)?;
        let content = match upload {
            Some(upload) => Content::Form(upload.form(body)),
            None => Content::Json(body),
        };
        let answer = self.call(Method::POST, &path, content).await?;
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
        self.call(Method::PATCH, &path, Content::Json(body)).await.map(drop)
    }

    pub(super) async fn type_in(&self, channel: ChannelId) -> Result<(), RestError> {
        let path = format!("/channels/{channel}/typing");
        self.call(Method::POST, &path, Content::Nothing).await.map(drop)
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
        self.call(Method::POST, &path, Content::Json(body)).await.map(drop)
    }

    async fn fetch<T: DeserializeOwned>(&self, path: &str) -> Result<T, RestError> {
        let answer = self.call(Method::GET, path, Content::Nothing).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        content: Content,
    ) -> Result<Vec<u8>, RestError> {
        let route = format!("{method} {}", path.split('?').next().unwrap_or_default());
        if let Some(pause) = self.pause(&route) {
            return Err(RestError::Later(Some(pause), "Discord limits the rate".to_owned()));
        }
        let limit =
            if matches!(content, Content::Form(_)) { UPLOAD_TIMEOUT } else { REQUEST_TIMEOUT };
        let exchange = self.exchange(method, path, content, &route);
        timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content: Content,
        route: &str,
    ) -> Result<Vec<u8>, RestError> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("user-agent", USER_AGENT)
            .header("authorization", format!("Bot {}", self.token.expose()));
        match content {
            Content::Nothing => {}
            Content::Json(body) => request = request.json(&body),
            Content::Form(Form { kind, body }) => {
                request = request.header(CONTENT_TYPE, kind).body(body);
            }
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
        let closed = self.closed.lock();
        let until = |name: &str| closed.get(name).map(|until| until.duration_since(now));
        let pause = until(route).into_iter().chain(until("")).max()?;
        (!pause.is_zero()).then_some(pause)
    }

    fn close(&self, route: &str, pause: Duration) {
        let now = Instant::now();
        let mut closed = self.closed.lock();
        if closed.len() >= MOST_ROUTES {
            closed.retain(|_, until| *until > now);
        }
        closed.insert(route.to_owned(), now + pause);
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

fn late() -> RestError {
    RestError::Later(None, "Discord did not answer in time".to_owned())
}

/// The address may hold the token of an interaction, so it is not told.
fn unreachable(error: reqwest::Error) -> RestError {
    let error = error.without_url();
    RestError::Later(None, format!("Discord cannot be reached: {}", root_cause(&error)))
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

    /// CH-12: a message cannot make the service ask another host, nor one inside the network.
    #[actix::test]
    async fn files_are_fetched_from_discord_alone() {
        let rest = Rest::new("https://discord.com", Secret::new("t".to_owned())).unwrap();

        for url in [
            "http://cdn.discordapp.com/a",
            "https://cdn.discordapp.com:8443/a",
            "https://cdn.discordapp.com.example.org/a",
            "https://cdn.discordapp.com@example.org/a",
            "http://169.254.169.254/latest/meta-data",
            "http://127.0.0.1:8080/a",
            "file:///etc/passwd",
            "no address",
        ] {
            let refused = rest.file(url).await.map(drop);
            assert!(matches!(refused, Err(RestError::Never(_))), "{url}: {refused:?}");
        }
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
