//! Forwarding: a request goes on to the provider with the real key, and the answer comes back as it is said.

use std::{io, time::Duration};

use futures_util::stream;
use hivewright_actors::{blocking, engine::EngineFailure, task::outcome::Code};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Bytes, Frame},
    header::{CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};

use super::{Asked, Body, Refusal, Relay, Route, Told, Wire, meter::Meter, offline};
use crate::{
    engines::native::{Link, gate::Permit, verdict},
    providers::{
        Access, access,
        fault::{Fault, Remedy},
        http::{self, LINGER, LONGEST_ANSWER, Limits, Rejection},
    },
    scrub::Scrubber,
    settings::providers::{Profile, Provider},
};

/// The headers of a request that the provider gets to see. The rest says who and where the agent is.
const REQUEST_HEADERS: [&str; 4] =
    ["content-type", "accept", "anthropic-version", "anthropic-beta"];
/// The longest wait for an answer that comes in one piece.
const WHOLE_ANSWER: Duration = Duration::from_secs(600);

/// A request on its way to the provider.
pub(super) struct Forward<'a> {
    pub(super) relay: &'a Relay,
    /// The profile that is asked, and those that take over if it fails.
    pub(super) links: Vec<&'a Link>,
    pub(super) route: Route,
    pub(super) asked: Asked,
    pub(super) head: &'a Parts,
    pub(super) body: Bytes,
}

/// Why a profile did not bring an answer.
struct Failed {
    fault: Fault,
    /// What the provider answered instead, if it did.
    rejection: Option<Rejection>,
    tries: u32,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, rejection: None, tries: 1 }
    }
}

impl Forward<'_> {
    /// Asks one profile after the other until one answers.
    pub(super) async fn send(mut self) -> Result<Response<Body>, Refusal> {
        let mut failures = Vec::new();
        let mut links = std::mem::take(&mut self.links).into_iter().peekable();
        while let Some(link) = links.next() {
            if self.asked.model != link.model {
                self.ask_for(link).await?;
            }
            if link.profile.provider == Provider::Offline {
                return offline::answer(self.relay, link, self.route, self.asked, &self.body).await;
            }
            let Failed { fault, rejection, tries } = match self.ask(link).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let failure = link.failure(&fault, tries);
            let words = clean(&link.profile, &failure.message);
            failures.push(EngineFailure { message: words.clone(), ..failure });
            // A request that is refused for what it is would be by all, and the agent may make another.
            let may_help = matches!(fault.remedy, Remedy::Retry(_) | Remedy::Fallback);
            if let Some(next) = links.peek().filter(|_| may_help) {
                let notice = format!("profile `{}` takes over: {words}", next.profile.name);
                self.relay.tell(Told::Fallback(notice));
                continue;
            }
            return self.refused(link, rejection, may_help, verdict(failures));
        }
        let words = "no profile of this turn can be asked";
        Err(Refusal::new(StatusCode::FORBIDDEN, words))
    }

    /// Asks one profile until it answers or its retries are used up.
    async fn ask(&self, link: &Link) -> Result<Response<Body>, Failed> {
        let mut retries = 0;
        let retry = &self.relay.pass.retry;
        // What is counted is not asked: the agent can do without.
        let counts = self.route == Route::CountTokens;
        loop {
            if !counts && let Err(limited) = link.wait_out_limit(retry).await {
                return Err(Failed { tries: retries + 1, ..Failed::from(limited) });
            }
            let permit = self.relay.enter(link, self.route).await;
            let failed = match self.attempt(link, permit).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            if counts {
                return Err(failed);
            }
            let Some(pause) = link.again(retry, retries, &failed.fault) else {
                return Err(Failed { tries: retries + 1, ..failed });
            };
            retries += 1;
            self.relay.tell(Told::Retry(link.describe(&failed.fault, 1)));
            tokio::time::sleep(pause).await;
        }
    }

    /// Makes the request one for the model of a profile that takes over.
    async fn ask_for(&mut self, link: &Link) -> Result<(), Refusal> {
        let (body, model, most) = (self.body.clone(), link.model.clone(), link.max_output_tokens);
        let rewritten = blocking::run(move || rewrite(&body, &model, most)).await;
        let broken = |reason: String| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, reason);
        self.body = rewritten
            .map_err(|cut_off| broken(cut_off.to_string()))?
            .map_err(|error| broken(error.to_string()))?;
        self.asked.model.clone_from(&link.model);
        Ok(())
    }

    /// What the agent hears of a request that failed, and before it the turn.
    fn refused(
        &self,
        link: &Link,
        rejection: Option<Rejection>,
        is_final: bool,
        failure: EngineFailure,
    ) -> Result<Response<Body>, Refusal> {
        let words = failure.message.clone();
        if self.route != Route::CountTokens {
            tracing::warn!(
                profile = link.profile.name,
                error = words,
                "the model gave a command-line agent no answer"
            );
            let told = if is_final { Told::Failed(failure) } else { Told::Rejected(failure) };
            self.relay.tell(told);
        }
        let is_error = |status: &StatusCode| status.is_client_error() || status.is_server_error();
        let rejected = rejection.and_then(|Rejection { status, body, .. }| {
            Some((StatusCode::from_u16(status).ok().filter(is_error)?, body))
        });
        let Some((status, body)) = rejected else {
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, words));
        };
        let body = clean(&link.profile, &String::from_utf8_lossy(&body));
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
        let mut response = super::response(status, "application/json", body.boxed_unsync());
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        Ok(response)
    }

    async fn attempt(&self, link: &Link, permit: Option<Permit>) -> Result<Response<Body>, Failed> {
        let profile = &link.profile;
        let streams = self.asked.stream == Some(true);
        let pause = if streams { profile.response_timeout } else { WHOLE_ANSWER };
        let limits = Limits::new(pause);
        let response = http::send(self.request(profile)?, &limits).await?;
        if !response.status().is_success() {
            let rejection = Rejection::read(response, &limits).await;
            return Err(Failed { fault: rejection.fault(), rejection: Some(rejection), tries: 1 });
        }
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let wire = match self.route {
            Route::Ask(wire) => Some(wire),
            Route::Models | Route::CountTokens => None,
        };
        let body = Answer {
            meter: wire.map(|_| Meter::new(self.body.len(), profile, self.relay.bill(link))),
            response,
            size: 0,
            pause,
            wire: wire.filter(|_| streams),
            link: link.clone(),
            told: self.relay.pass.told.clone(),
            _permit: permit,
        };
        let mut answer = Response::new(body.into_body());
        if let Some(content_type) = content_type {
            answer.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Ok(answer)
    }

    fn request(&self, profile: &Profile) -> Result<reqwest::RequestBuilder, Fault> {
        let Access { mut url, credential } = access(profile, self.route.path())?;
        if self.head.uri.query() == Some("beta=true") {
            url.push_str("?beta=true");
        }
        let mut request = self.relay.http.post(url).body(self.body.clone());
        for name in REQUEST_HEADERS {
            if let Some(value) = self.head.headers.get(name) {
                request = request.header(name, value);
            }
        }
        if let Some((name, key)) = credential {
            let mut key = HeaderValue::try_from(key).map_err(|_| {
                let words = "its key does not fit a header";
                Fault::new(Code::ProviderAuth, Remedy::Fallback, words)
            })?;
            key.set_sensitive(true);
            request = request.header(name, key);
        }
        Ok(request)
    }
}

/// An answer on its way. Dropping it closes the connection to the provider, and tells what it has cost so far.
struct Answer {
    response: reqwest::Response,
    meter: Option<Meter>,
    size: usize,
    pause: Duration,
    /// The format of the answer, if it is a stream.
    wire: Option<Wire>,
    link: Link,
    told: mpsc::UnboundedSender<Told>,
    /// The place of the request, until the answer is over.
    _permit: Option<Permit>,
}

impl Answer {
    /// An answer that breaks also breaks for the agent: it must not take it for a whole one.
    fn into_body(self) -> Body {
        let pieces = stream::unfold(Some(self), async |answer| {
            let mut answer = answer?;
            match answer.next().await {
                Ok(piece) => piece.map(|piece| (Ok(Frame::data(piece)), Some(answer))),
                Err(fault) => Some((answer.broke(fault).map(Frame::data), None)),
            }
        });
        StreamBody::new(pieces).boxed_unsync()
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let complete = self.meter.as_ref().is_some_and(Meter::is_complete);
        let pause = if complete { LINGER } else { self.pause };
        let piece = match timeout(pause, self.response.chunk()).await {
            Ok(Ok(Some(piece))) => piece,
            _ if complete => return Ok(None),
            Ok(Ok(None)) if self.meter.as_ref().is_some_and(Meter::is_midway) => {
                return Err(Fault::network("the answer ended in the middle"));
            }
            Ok(Ok(None)) => {
                let _ = self.told.send(Told::Answered);
                return Ok(None);
            }
            Ok(Err(error)) => return Err(http::broke_off(&error)),
            Err(_) => return Err(Fault::stalled(pause)),
        };
        self.size += piece.len();
        if self.size > LONGEST_ANSWER {
            return Err(Fault::too_large("the answer", LONGEST_ANSWER));
        }
        if let Some(meter) = &mut self.meter {
            meter.read(&piece);
            if let Some(fault) = meter.take_fault() {
                return Err(fault);
            }
            if meter.is_complete() {
                let _ = self.told.send(Told::Answered);
            }
        }
        Ok(Some(piece))
    }

    /// Tells the turn, and what the agent reads last.
    fn broke(self, fault: Fault) -> io::Result<Bytes> {
        let answered = self.meter.as_ref().is_some_and(Meter::has_heard);
        let fault = Fault { answered, ..fault };
        let failure = self.link.failure(&fault, 1);
        let words = clean(&self.link.profile, &failure.message);
        let failure = EngineFailure { message: words.clone(), ..failure };
        tracing::warn!(
            profile = self.link.profile.name,
            error = words,
            "an answer of the model to a command-line agent broke off"
        );
        let told =
            if matches!(fault.remedy, Remedy::Retry(_)) { Told::Broke } else { Told::Failed };
        let (sender, wire) = (self.told.clone(), self.wire);
        // What it has cost is told first.
        drop(self);
        let _ = sender.send(told(failure));
        match wire {
            Some(wire) => Ok(Bytes::from(error_event(wire, &words))),
            None => Err(io::Error::other(words)),
        }
    }
}

/// The same request for another model, which may say less at once.
fn rewrite(body: &[u8], model: &str, most: u32) -> serde_json::Result<Bytes> {
    let mut body: Value = serde_json::from_slice(body)?;
    body["model"] = model.into();
    for field in ["max_tokens", "max_output_tokens", "max_completion_tokens"] {
        if body[field].as_u64().is_some_and(|wanted| wanted > u64::from(most)) {
            body[field] = most.into();
        }
    }
    serde_json::to_vec(&body).map(Bytes::from)
}

/// Words without the key, which the provider may have repeated.
fn clean(profile: &Profile, words: &str) -> String {
    let key = profile.api_key.iter().map(|key| key.expose());
    Scrubber::new(key).scrub_known(words).into_owned()
}

/// The last event of a stream that broke. Some agents wait for ever if there is none.
fn error_event(wire: Wire, words: &str) -> String {
    let error = json!({ "type": "api_error", "code": "server_error", "message": words });
    let event = match wire {
        Wire::Messages => json!({ "type": "error", "error": error }),
        Wire::Responses => {
            let response = json!({ "id": "resp_broken", "object": "response", "status": "failed", "error": error });
            json!({ "type": "response.failed", "response": response })
        }
        Wire::Chat => json!({ "error": error }),
    };
    let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
    // It may have broken within an event.
    format!("\n\n{}data: {event}\n\n", name.unwrap_or_default())
}
