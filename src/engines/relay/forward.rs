//! Forwarding: a request goes on to the provider with the real key, and the answer comes back as it is said.

use std::{io, sync::Arc, time::Duration};

use futures_util::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Bytes, Frame},
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    http::request::Parts,
};
use tokio::time::timeout;

use super::{Asked, Body, Refusal, Relay, Route, meter::Meter};
use crate::{
    providers::{Access, access, http::because},
    scrub::Scrubber,
    settings::providers::Profile,
};

/// The headers of a request that the provider gets to see. The rest says who and where the agent is.
const REQUEST_HEADERS: [&str; 4] =
    ["content-type", "accept", "anthropic-version", "anthropic-beta"];
/// The longest wait for an answer that comes in one piece.
const WHOLE_ANSWER: Duration = Duration::from_secs(600);
/// How long a connection is read behind the last event of its answer.
const LINGER: Duration = Duration::from_millis(50);
const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
const LONGEST_ERROR: usize = 64 * 1024;

pub(super) async fn forward(
    relay: &Relay,
    profile: &Arc<Profile>,
    route: Route,
    asked: Asked,
    head: &Parts,
    body: Bytes,
) -> Result<Response<Body>, Refusal> {
    let size = body.len();
    let pause = if asked.stream == Some(true) { profile.response_timeout } else { WHOLE_ANSWER };
    let request = request(relay, profile, route, head, body)?;
    let failed = |what: &str| {
        tracing::warn!(profile = profile.name, what, "the model relay got no answer");
        Refusal::new(StatusCode::BAD_GATEWAY, format!("profile `{}`: {what}", profile.name))
    };
    let response = timeout(pause, relay.http.execute(request))
        .await
        .map_err(|_| failed(&format!("nothing came for {} s", pause.as_secs_f64())))?
        .map_err(|error| {
            let what = if error.is_connect() { "no connection" } else { "the connection broke" };
            failed(&format!("{what}: {}", because(&error)))
        })?;
    let status = response.status();
    if status.is_redirection() || status.is_informational() {
        return Err(failed(&format!("it answers with status {status}, which is not followed")));
    }
    let headers = response.headers();
    let headers = [CONTENT_TYPE, RETRY_AFTER].map(|name| Some((headers.get(&name)?.clone(), name)));
    let body = if status.is_success() {
        let meter = matches!(route, Route::Ask(_))
            .then(|| Meter::new(size, profile.context_window, relay.bill(profile, asked.model)));
        Answer { response, meter, size: 0, pause }.into_body()
    } else {
        error_body(response, profile, pause).await
    };
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    for (value, name) in headers.into_iter().flatten() {
        answer.headers_mut().insert(name, value);
    }
    Ok(answer)
}

fn request(
    relay: &Relay,
    profile: &Profile,
    route: Route,
    head: &Parts,
    body: Bytes,
) -> Result<reqwest::Request, Refusal> {
    let Access { mut url, credential } = access(profile, route.path()).map_err(|fault| {
        let words = format!("profile `{}`: {}", profile.name, fault.message);
        Refusal::new(StatusCode::UNAUTHORIZED, words)
    })?;
    if head.uri.query() == Some("beta=true") {
        url.push_str("?beta=true");
    }
    let mut request = relay.http.post(url).body(body);
    for name in REQUEST_HEADERS {
        if let Some(value) = head.headers.get(name) {
            request = request.header(name, value);
        }
    }
    if let Some((name, key)) = credential {
        let mut key = HeaderValue::try_from(key).map_err(|_| {
            let words = format!("profile `{}`: its key does not fit a header", profile.name);
            Refusal::new(StatusCode::UNAUTHORIZED, words)
        })?;
        key.set_sensitive(true);
        request = request.header(name, key);
    }
    request.build().map_err(|error| {
        let words = format!("profile `{}`: check its address: {}", profile.name, because(&error));
        Refusal::new(StatusCode::BAD_GATEWAY, words)
    })
}

/// An error of the provider, which may repeat the key that it does not like.
async fn error_body(mut response: reqwest::Response, profile: &Profile, pause: Duration) -> Body {
    let mut body = Vec::new();
    // If not all of it comes, the status has to do.
    while let Ok(Ok(Some(piece))) = timeout(pause, response.chunk()).await {
        body.extend_from_slice(&piece);
        if body.len() > LONGEST_ERROR {
            break;
        }
    }
    let scrubber = Scrubber::new(profile.api_key.iter().map(|key| key.expose()));
    let words = scrubber.scrub_known(&String::from_utf8_lossy(&body)).into_owned();
    Full::new(Bytes::from(words)).map_err(|never| match never {}).boxed_unsync()
}

/// An answer on its way. Dropping it closes the connection to the provider, and tells what it has cost so far.
struct Answer {
    response: reqwest::Response,
    meter: Option<Meter>,
    size: usize,
    pause: Duration,
}

impl Answer {
    /// An answer that breaks also breaks for the agent: it must not take it for a whole one.
    fn into_body(self) -> Body {
        let pieces = stream::unfold(Some(self), async |answer| {
            let mut answer = answer?;
            match answer.next().await {
                Ok(piece) => piece.map(|piece| (Ok(Frame::data(piece)), Some(answer))),
                Err(what) => Some((Err(io::Error::other(what)), None)),
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, &'static str> {
        let complete = self.meter.as_ref().is_some_and(Meter::is_complete);
        let pause = if complete { LINGER } else { self.pause };
        let piece = match timeout(pause, self.response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            Ok(Ok(None)) => return Ok(None),
            _ if complete => return Ok(None),
            Ok(Err(_)) => return Err("the answer broke off"),
            Err(_) => return Err("nothing came for too long"),
        };
        self.size += piece.len();
        if self.size > LONGEST_ANSWER {
            return Err("the answer is too large");
        }
        if let Some(meter) = &mut self.meter {
            meter.read(&piece);
        }
        Ok(Some(piece))
    }
}
