//! Streamable HTTP: servers at an address, with bounds on what they send.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use reqwest::{
    Method, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::SseRetryPolicy,
        streamable_http_client::{
            HttpStatusError, SseError, StreamableHttpClient, StreamableHttpClientTransport,
            StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};

use super::{fault::Faults, lines::Meter};
use crate::{
    sandbox::egress::{
        EgressError, Guard,
        request::{Request, Terms},
    },
    settings::{
        egress::Egress,
        network::{HostPort, is_private_url},
    },
    text::root_cause,
};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const ACCEPTED: &str = "text/event-stream, application/json";
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
/// How often a stream that broke is asked for again, and how soon.
const RESUMES: usize = 3;
const RESUME_AFTER: Duration = Duration::from_secs(1);

/// Why a request came to nothing. It never names the address, which may hold a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("its answer broke off: {0}")]
    Request(String),
    #[error("it redirects to `{0}`, which gets nothing of what is for it; correct its `url`")]
    Elsewhere(String),
    #[error("it cannot be reached: {0}")]
    Guard(EgressError),
    #[error("it gave itself a name that cannot stand in a header")]
    Name,
    #[error("its answer cannot be read: {0}")]
    Body(#[from] io::Error),
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        Self::Request(root_cause(&error.without_url()).to_string())
    }
}

impl From<EgressError> for HttpError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::SecretRedirected(host) => Self::Elsewhere(host),
            error => Self::Guard(error),
        }
    }
}

type Failure = StreamableHttpError<HttpError>;

/// Whether a message that failed was sent: what it asked for may be done.
pub(super) fn was_sent(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(
        error.downcast_ref::<Failure>(),
        Some(Failure::Client(
            HttpError::Request(_)
                | HttpError::Body(_)
                | HttpError::Guard(EgressError::BrokenOff(..))
        ))
    )
}

/// The HTTP status that a message was answered with in place of a result.
pub(super) fn status(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Option<u16> {
    match error.downcast_ref::<Failure>() {
        Some(Failure::HttpStatus(error)) => Some(error.status),
        _ => None,
    }
}

/// Why a message failed, in our own words as far as they are ours.
pub(super) fn words(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<Failure>() {
        Some(Failure::Client(ours)) => ours.to_string(),
        _ => error.to_string(),
    }
}

/// The way to one server: through the egress guard, with each request and each redirect.
#[derive(Clone)]
pub(super) struct Door {
    guard: Guard,
    egress: Arc<Egress>,
}

/// A [`Door`] with what is wrong behind it.
#[derive(Clone)]
pub(super) struct Watched {
    door: Door,
    faults: Faults,
}

impl Door {
    /// The way to an address that the operator wrote down, and to nothing else of a private network. A name of the
    /// public internet that leads to a private address is not followed there, unless the team may reach that host.
    pub(super) fn new(guard: Guard, url: &str, private_hosts: &[HostPort]) -> Result<Self, String> {
        let endpoint = Url::parse(url).ok().and_then(|url| Egress::to_endpoint(&url));
        let mut egress = endpoint.ok_or("its `url` names no host")?;
        if !is_private_url(url) {
            egress.allow_private.clear();
        }
        egress.allow_private.extend_from_slice(private_hosts);
        Ok(Self { guard, egress: Arc::new(egress) })
    }

    /// A connection to a server; nothing is sent yet.
    pub(super) fn transport(
        self,
        url: &str,
        headers: HashMap<HeaderName, HeaderValue>,
        faults: Faults,
    ) -> StreamableHttpClientTransport<Watched> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers = headers;
        config.retry_config = Arc::new(Resumes);
        StreamableHttpClientTransport::with_client(Watched { door: self, faults }, config)
    }

    async fn send(&self, request: Request) -> Result<Response, HttpError> {
        // Whatever it carries is for this server: another one gets nothing of it.
        let terms = Terms::new(&self.egress, &|_| Ok(()), &|_| true);
        let (response, _) = self.guard.send(request, &terms).await?;
        Ok(response)
    }
}

impl Watched {
    /// Sends a request to the server.
    async fn admit(
        &self,
        method: Method,
        uri: &str,
        headers: HeaderMap,
        body: Option<String>,
    ) -> Result<Response, Failure> {
        let sending = async {
            let url = Url::parse(uri).map_err(|_| EgressError::InvalidUrl)?;
            self.door.send(Request { method, url, headers, body: body.map(Into::into) }).await
        };
        sending.await.map_err(StreamableHttpError::Client)
    }

    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let mut meter = Meter::of_events(self.faults.clone());
        let bytes = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
            meter.count(&chunk)?;
            Ok::<_, io::Error>(chunk)
        });
        SseStream::from_bytes_stream(bytes).boxed()
    }

    fn unexpected(&self, status: StatusCode) -> Failure {
        if status.is_success() {
            return Failure::UnexpectedServerResponse(format!("HTTP {status}").into());
        }
        self.faults.answered(status.as_u16());
        HttpStatusError::new(status.as_u16(), None).into()
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let (mut meter, mut body) = (Meter::of_body(self.faults.clone()), Vec::new());
        let reading = async {
            while let Some(chunk) = response.chunk().await? {
                meter.count(&chunk)?;
                body.extend_from_slice(&chunk);
            }
            Ok::<_, HttpError>(body)
        };
        reading.await.map_err(StreamableHttpError::Client)
    }
}

/// A stream that broke is asked for again a few times.
#[derive(Debug)]
struct Resumes;

impl SseRetryPolicy for Resumes {
    fn retry(&self, before: usize) -> Option<Duration> {
        (before < RESUMES).then_some(RESUME_AFTER)
    }
}

/// The headers of each request.
fn headers(
    session: Option<&str>,
    custom: HashMap<HeaderName, HeaderValue>,
) -> Result<HeaderMap, Failure> {
    let mut headers: HeaderMap = custom.into_iter().collect();
    headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
    if let Some(session) = session {
        headers.insert(SESSION, value(session)?);
    }
    Ok(headers)
}

fn value(text: &str) -> Result<HeaderValue, Failure> {
    let bad = |_| StreamableHttpError::Client(HttpError::Name);
    HeaderValue::from_str(text).map_err(bad)
}

fn is(response: &Response, kind: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE);
    found.is_some_and(|found| found.as_bytes().starts_with(kind.as_bytes()))
}

impl StreamableHttpClient for Watched {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        let has_session = session_id.is_some();
        let mut headers = headers(session_id.as_deref(), custom_headers)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let body = serde_json::to_string(&message).map_err(StreamableHttpError::Deserialize)?;
        let response = self.admit(Method::POST, &uri, headers, Some(body)).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let session = response.headers().get(SESSION).and_then(|value| value.to_str().ok());
        let session = session.map(str::to_owned);
        if status.is_success() && is(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if !is(&response, JSON) {
            if status.is_success() && !wants_answer {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            return Err(self.unexpected(status));
        }
        let body = self.body(response).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(answer @ JsonRpcMessage::Error(_)) if !is_closed_to_us(status) => {
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            Ok(answer) if status.is_success() => {
                Ok(StreamableHttpPostResponse::Json(answer, session))
            }
            Err(_) if status.is_success() && !wants_answer => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            _ => Err(self.unexpected(status)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let headers = headers(Some(&session_id), custom_headers)?;
        let status = self.admit(Method::DELETE, &uri, headers, None).await?.status();
        if status.is_success() || status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        Err(self.unexpected(status))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut headers = headers(session_id.as_deref(), custom_headers)?;
        if let Some(last) = last_event_id {
            headers.insert(LAST_EVENT, value(&last)?);
        }
        let response = self.admit(Method::GET, &uri, headers, None).await?;
        match response.status() {
            status if status.is_success() && is(&response, EVENTS) => Ok(self.events(response)),
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(self.unexpected(status)),
        }
    }
}

/// The server wants another key, or none at all from us.
fn is_closed_to_us(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::egress::tests::doubles::Answers;

    async fn reached(url: &str, resolved: &str, private_hosts: &[HostPort]) -> String {
        let guard = Guard::new(Answers::of(&[resolved]));
        let door = Door::new(guard, url, private_hosts).unwrap();
        let url = Url::parse(url).unwrap();
        let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
        door.send(request)
            .await
            .map(|_| "answered".to_owned())
            .unwrap_or_else(|error| error.to_string())
    }

    /// TO-137: what a library calls it says nothing to the operator.
    #[test]
    fn a_server_that_is_not_reached_is_said_to_be_so_and_no_more() {
        let unnamed = Failure::Client(HttpError::Name);
        let other = Failure::SessionExpired;

        assert_eq!(words(&unnamed), "it gave itself a name that cannot stand in a header");
        assert_eq!(words(&other), other.to_string());
    }

    /// TO-137, SC-11: a name of the public internet that is turned to a private address leads nowhere.
    #[actix::test]
    async fn a_public_name_does_not_lead_to_private_ground() {
        let far = "https://tools.example.org:9/mcp";
        let own = HostPort { host: "tools.example.org".to_owned(), port: 9 };

        let rebound = reached(far, "127.0.0.1", &[]).await;
        let allowed = reached(far, "127.0.0.1", &[own]).await;
        let local = reached("http://tools.internal:9/mcp", "127.0.0.1", &[]).await;
        let metadata = reached("http://tools.internal:9/mcp", "169.254.169.254", &[]).await;

        assert_eq!(rebound, "it cannot be reached: blocked: private or reserved address 127.0.0.1");
        assert!(allowed.contains("connection to `tools.example.org` failed"), "{allowed}");
        assert!(local.contains("connection to `tools.internal` failed"), "{local}");
        assert!(metadata.contains("private or reserved address 169.254.169.254"), "{metadata}");
    }
}
