//! Streamable HTTP: servers at an address, with bounds on what they send.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::BoxStream};
use reqwest::{
    RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::SseRetryPolicy,
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpClientTransport,
            StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};

use super::{fault::Faults, lines::Meter};
use crate::providers::client;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
/// How often a stream that broke is asked for again, and how soon.
const RESUMES: usize = 3;
const RESUME_AFTER: Duration = Duration::from_secs(1);

/// Why a request came to nothing. It never names the address, which may hold a key.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error("it cannot be reached: {0}")]
    Request(String),
    #[error("its answer cannot be read: {0}")]
    Body(#[from] io::Error),
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Self::Request(cause.to_string())
    }
}

type Failure = StreamableHttpError<HttpError>;

/// The way to the servers of all teams.
///
/// All requests to them go through [`Door::admit`]: what the operator has named is let through. A guard that looks at
/// addresses belongs there.
#[derive(Clone, Debug)]
pub(super) struct Door {
    client: reqwest::Client,
    faults: Faults,
}

impl Door {
    pub(super) fn client() -> Result<reqwest::Client, String> {
        client::build().map_err(|error| error.to_string())
    }

    pub(super) fn new(client: reqwest::Client, faults: Faults) -> Self {
        Self { client, faults }
    }

    /// A connection to a server; nothing is sent yet.
    pub(super) fn transport(
        self,
        url: &str,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> StreamableHttpClientTransport<Self> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.custom_headers = headers;
        config.retry_config = Arc::new(Resumes);
        StreamableHttpClientTransport::with_client(self, config)
    }

    /// Sends a request to where the operator said.
    async fn admit(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.send().await.map_err(|error| StreamableHttpError::Client(error.into()))
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

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut meter = Meter::of_body(self.faults.clone());
        let mut body = Vec::new();
        let failed = |error: HttpError| StreamableHttpError::Client(error);
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(error.into()))? {
            meter.count(&chunk).map_err(|error| failed(error.into()))?;
            body.extend_from_slice(&chunk);
        }
        Ok(body)
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

fn with_headers(
    request: RequestBuilder,
    session: Option<Arc<str>>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> RequestBuilder {
    let request =
        request.header(ACCEPT, format!("{EVENTS}, {JSON}")).headers(headers.into_iter().collect());
    match session {
        Some(session) => request.header(SESSION, &*session),
        None => request,
    }
}

fn unexpected(status: StatusCode) -> Failure {
    StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into())
}

fn is(response: &Response, kind: &str) -> bool {
    let found = response.headers().get(CONTENT_TYPE);
    found.is_some_and(|found| found.as_bytes().starts_with(kind.as_bytes()))
}

impl StreamableHttpClient for Door {
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
        let request = with_headers(self.client.post(&*uri), session_id, custom_headers);
        let response = self.admit(request.json(&message)).await?;
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
            return Err(unexpected(status));
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
            _ => Err(unexpected(status)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let request = with_headers(self.client.delete(&*uri), Some(session_id), custom_headers);
        let status = self.admit(request).await?.status();
        if status.is_success() || status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        Err(unexpected(status))
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let mut request = with_headers(self.client.get(&*uri), session_id, custom_headers);
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let response = self.admit(request).await?;
        match response.status() {
            status if status.is_success() && is(&response, EVENTS) => Ok(self.events(response)),
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(unexpected(status)),
        }
    }
}

/// The server wants another key, or none at all from us.
fn is_closed_to_us(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
