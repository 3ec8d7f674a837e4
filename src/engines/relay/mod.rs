//! Model relay: the one address that a command-line agent reaches. There the token of its turn stands for the key of
//! the provider, which no agent gets to see.
//!
//! What becomes of a failed request is decided here and not by the agent: it waits its turn, is made again and is told
//! to the turn as one of our own loop.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hivewright_actors::{
    blocking,
    engine::{EngineFailure, Paid},
    ids::TeamName,
    task::outcome::Code,
    usage::Usage,
};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

mod admission;
mod forward;
mod meter;
mod offline;
#[cfg(test)]
mod tests;

use self::admission::Once;
use super::native::{Link, gate::Permit, retry::RetryPolicy};
use crate::{logging::throttle::Throttle, settings::providers::Provider};

const LARGEST_REQUEST: usize = 32 * 1024 * 1024;
/// Each may hold a whole request. One agent has a few.
const MOST_CONNECTIONS: usize = 16;
/// The pause after a connection that could not be taken, which is when the machine is short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What an agent may do here, until its turn ends.
pub struct Pass {
    /// What it has instead of a key: 256 bits in hex.
    pub token: String,
    /// Whose turn it is: it has its place in the line of a profile.
    pub team: TeamName,
    /// The profile of the turn and its fallbacks, with the models that may be asked for.
    pub(super) links: Arc<[Link]>,
    pub retry: Arc<RetryPolicy>,
    /// Told once for each request that cost something.
    pub spent: Arc<dyn Fn(Paid) + Send + Sync>,
    /// Whether one more request can be paid for, and why not.
    pub affords: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Hears what becomes of requests, before the agent does.
    pub told: mpsc::UnboundedSender<Told>,
}

/// What became of a request of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// It still waits for a place at the provider.
    InLine,
    /// It is made again, for this reason.
    Retry(String),
    /// Another profile is asked, for this reason.
    Fallback(String),
    /// It was answered.
    Answered,
    /// It was refused for what it is. The agent hears that too, and may ask for something else.
    Rejected(EngineFailure),
    /// There is no answer, and trying again has not helped or will not.
    Failed(EngineFailure),
    /// The answer broke in the middle. Who asks again may get a whole one.
    Broke(EngineFailure),
}

/// Serves an agent until its turn ends. Then its connections are closed, and all that was spent has been told.
pub async fn serve(
    listener: TcpListener,
    pass: Pass,
    http: reqwest::Client,
    ends: CancellationToken,
) {
    let relay = Arc::new(Relay { pass, http });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = ends.cancelled() => break,
            Some(_) = connections.join_next() => {}
            taken = listener.accept(), if connections.len() < MOST_CONNECTIONS => match taken {
                Ok((stream, _)) => drop(connections.spawn(attend(Arc::clone(&relay), stream))),
                Err(error) => {
                    static TOLD: Throttle = Throttle::new();
                    if let Some(times) = TOLD.due() {
                        tracing::warn!(%error, times, "a command-line agent cannot connect to its model, and is tried again");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn attend(relay: Arc<Relay>, stream: TcpStream) {
    // Words are few bytes, and somebody waits for each.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| async {
        Ok::<_, Infallible>(relay.answer(request).await.unwrap_or_else(Refusal::into_response))
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "the connection of a command-line agent to its model broke");
    }
}

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A wire format, named by its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Messages,
    Responses,
    Chat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Models,
    CountTokens,
    Ask(Wire),
}

impl Route {
    fn of(head: &Parts) -> Option<Self> {
        Some(match (&head.method, head.uri.path()) {
            (&Method::GET, "/v1/models") => Self::Models,
            (&Method::POST, "/v1/messages/count_tokens") => Self::CountTokens,
            (&Method::POST, "/v1/messages") => Self::Ask(Wire::Messages),
            (&Method::POST, "/v1/responses") => Self::Ask(Wire::Responses),
            (&Method::POST, "/v1/chat/completions") => Self::Ask(Wire::Chat),
            _ => return None,
        })
    }

    /// As providers have it, behind the version.
    fn path(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::CountTokens => "messages/count_tokens",
            Self::Ask(Wire::Messages) => "messages",
            Self::Ask(Wire::Responses) => "responses",
            Self::Ask(Wire::Chat) => "chat/completions",
        }
    }

    fn fits(self, provider: Provider) -> bool {
        match provider {
            Provider::Offline => true,
            Provider::Anthropic => {
                matches!(self, Self::Models | Self::CountTokens | Self::Ask(Wire::Messages))
            }
            Provider::OpenAi => {
                matches!(self, Self::Models | Self::Ask(Wire::Responses | Wire::Chat))
            }
        }
    }
}

/// What of a body decides.
#[derive(Deserialize)]
struct Asked {
    model: String,
    #[serde(default)]
    stream: Option<bool>,
}

struct Relay {
    pass: Pass,
    http: reqwest::Client,
}

impl Relay {
    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        let known = self.knows(&head.headers);
        let body = read(body, if known { LARGEST_REQUEST } else { 0 }).await;
        if !known {
            let words = "the token is not, or no longer, that of a turn";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, words));
        }
        let Some(route) = Route::of(&head) else {
            let words = format!("there is no `{} {}` here", head.method, head.uri.path());
            return Err(Refusal::new(StatusCode::NOT_FOUND, words));
        };
        if route == Route::Models {
            return Ok(json_response(StatusCode::OK, &self.models()));
        }
        let body = body?;
        // It may be long to read.
        let words = body.clone();
        let asked = blocking::run(move || admitted(&words)).await.map_err(|cut_off| {
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, cut_off.to_string())
        })??;
        let links = self.chain(&asked.model, route).inspect_err(|refusal| {
            let failure = EngineFailure::new(Code::ConfigError, &*refusal.words);
            self.tell(Told::Rejected(failure));
        })?;
        if matches!(route, Route::Ask(_)) {
            self.afford()?;
        }
        forward::Forward { relay: self, links, route, asked, head: &head, body }.send().await
    }

    /// Refuses a request that no budget has anything left for. The step ends, and the turn waits for its budget when it
    /// goes on.
    fn afford(&self) -> Result<(), Refusal> {
        (self.pass.affords)().map_err(|words| {
            let failure = EngineFailure::new(Code::RateLimited, &*words);
            self.tell(Told::Failed(EngineFailure { retry_after: Some(Duration::ZERO), ..failure }));
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, words)
        })
    }

    fn tell(&self, told: Told) {
        // A turn that is over hears nothing any more.
        let _ = self.pass.told.send(told);
    }

    /// Waits for the turn of this team, as each of its own model calls does. Counting tokens is no model call.
    async fn enter(&self, link: &Link, route: Route) -> Option<Permit> {
        match route {
            Route::Ask(_) => {
                let in_line = || self.tell(Told::InLine);
                Some(link.state.gate.enter_telling(&self.pass.team, in_line).await)
            }
            Route::Models | Route::CountTokens => None,
        }
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let text = |name| headers.get(name).map(|value| value.as_bytes());
        let bearer = text(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix(b"Bearer "));
        let given = text("x-api-key").or(bearer).unwrap_or_default();
        given.ct_eq(self.pass.token.as_bytes()).into()
    }

    /// The first profile with this model that can be asked here, and those behind it.
    fn chain(&self, model: &str, route: Route) -> Result<Vec<&Link>, Refusal> {
        let all = self.pass.links.iter();
        let mut named = all.clone().filter(|link| link.model == model).peekable();
        let Some(first) = named.peek().map(|link| &link.profile) else {
            let words = format!("this turn may not ask the model `{model}`");
            return Err(Refusal::new(StatusCode::FORBIDDEN, words));
        };
        let mut fitting = all
            .filter(|link| route.fits(link.profile.provider))
            .skip_while(|link| link.model != model)
            .peekable();
        if fitting.peek().is_some() {
            return Ok(fitting.collect());
        }
        let words = format!(
            "profile `{}` is of the provider `{}`, which does not speak `/v1/{}`",
            first.name,
            first.provider.as_str(),
            route.path(),
        );
        Err(Refusal::new(StatusCode::BAD_REQUEST, words))
    }

    /// The models of the turn, with what both vendors say of one.
    fn models(&self) -> Value {
        let models = self.pass.links.iter().map(|Link { model, profile, .. }| {
            json!({
                "id": model,
                "type": "model",
                "display_name": model,
                "created_at": "1970-01-01T00:00:00Z",
                "object": "model",
                "created": 0,
                "owned_by": profile.name,
            })
        });
        json!({ "object": "list", "data": models.collect::<Vec<_>>(), "has_more": false })
    }

    /// Tells what a request has cost.
    fn bill(&self, link: &Link) -> impl FnOnce(Usage) + Send + use<> {
        let (spent, link) = (Arc::clone(&self.pass.spent), link.clone());
        move |usage| {
            if let Some(paid) = link.paid(usage) {
                spent(paid);
            }
        }
    }
}

/// What is asked for, if an agent may ask it.
fn admitted(body: &[u8]) -> Result<Asked, Refusal> {
    let unreadable = |error| {
        Refusal::new(StatusCode::BAD_REQUEST, format!("the request cannot be read: {error}"))
    };
    let Once(body) = serde_json::from_slice(body).map_err(unreadable)?;
    admission::check(&body).map_err(|words| Refusal::new(StatusCode::BAD_REQUEST, words))?;
    Asked::deserialize(body).map_err(unreadable)
}

/// Reads a body of at most so many bytes. More is read too, within reason, and forgotten: who is still sending does not
/// hear what is wrong.
async fn read(mut body: Incoming, most: usize) -> Result<Bytes, Refusal> {
    let mut kept = Vec::new();
    let mut size = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Refusal::new(StatusCode::BAD_REQUEST, "the request broke off".to_owned())
        })?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size <= most {
            kept.extend_from_slice(&data);
        } else if size > 2 * LARGEST_REQUEST {
            break;
        } else {
            kept = Vec::new();
        }
    }
    if size > most {
        let words = format!("the request is larger than {} MiB", most / (1024 * 1024));
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, words));
    }
    Ok(kept.into())
}

/// A request that is not forwarded, or could not be.
#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    words: String,
}

impl Refusal {
    fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    /// An error that clients of both vendors can read. What was worth another try has been tried.
    fn into_response(self) -> Response<Body> {
        let kind = match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            400..=499 => "invalid_request_error",
            _ => "api_error",
        };
        let error = json!({ "type": kind, "message": self.words, "param": null, "code": null });
        let mut response = json_response(self.status, &json!({ "type": "error", "error": error }));
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        response
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()));
    response(status, "application/json", body.map_err(|never| match never {}).boxed_unsync())
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
