//! Middleware: what every request passes on its way in, and every answer on its way out.

use std::time::Instant;

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse,
    body::{BoxBody, EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    rt, web,
};
use tokio_util::sync::CancellationToken;

use super::{
    audit_log, connections,
    error::{ApiError, ApiResult},
    idempotency::KEY,
    json::LONGEST_BODY,
    origin::is_change,
};
use crate::{
    api::{
        files::UPLOAD_FILE,
        plugins::{CHECK_PLUGIN, INSTALL_PLUGIN},
    },
    http::{auth::access, state::State},
    logging::throttle::Throttle,
};

/// The longest header, in bytes.
const LONGEST_HEADER: usize = 16 * 1024;
/// The most fields of a header.
const MOST_HEADERS: usize = 100;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The name of a request, in its answer and in the log.
#[derive(Clone, Debug)]
struct RequestId(String);

impl RequestId {
    fn fresh() -> ApiResult<Self> {
        Ok(Self(format!("req-{:016x}", getrandom::u64()?)))
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

/// Wraps all routes.
pub(in crate::http) async fn pass<B: MessageBody + 'static>(
    state: web::Data<State>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let began = Instant::now();
    let id = RequestId::fresh()?;
    request.extensions_mut().insert(id.clone());
    if access::has_token(request.query_string()) {
        audit_log::exposed(&state, request.query_string()).await;
    }
    let response = match admit(&state, request.request()) {
        // A task of its own: what changes something is done to its end and recorded, also if its connection breaks.
        Ok(None) if is_change(request.method()) => {
            let left = CancellationToken::new();
            request.extensions_mut().insert(Listener(left.clone()));
            let _leaves = left.drop_guard();
            let recorded = rt::spawn(recorded(state.clone(), request, next));
            recorded.await.map_err(ApiError::internal)??
        }
        Ok(None) => recorded(state.clone(), request, next).await?,
        Ok(Some(answer)) => request.into_response(answer).map_into_right_body(),
        Err(refusal) => request.error_response(refusal).map_into_right_body(),
    };
    let (request, response) = response.into_parts();
    let response = explain(response, &id, &route(&request));
    let mut response = ServiceResponse::new(request, response);
    dress(&state, &mut response, &id);
    log(&response, &id, began);
    Ok(response)
}

/// Whoever waits for the answer to a change, which goes on without them.
#[derive(Clone)]
struct Listener(CancellationToken);

/// Ends when nobody waits for the answer any more, not even by asking again under the same key.
pub(in crate::http) async fn left(request: &HttpRequest) {
    let listener = request.extensions().get::<Listener>().cloned();
    match listener {
        Some(Listener(left)) if !request.headers().contains_key(KEY) => left.cancelled().await,
        _ => std::future::pending().await,
    }
}

/// Does what a request asks for, and writes down that it was asked.
async fn recorded<B: MessageBody + 'static>(
    state: web::Data<State>,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    // Before it may end what it came with.
    let who = audit_log::who(&state, request.request());
    let (request, response) = next.call(request).await?.into_parts();
    let status = response.status();
    Ok(match audit_log::write(&state, &request, who, status).await {
        Ok(()) => ServiceResponse::new(request, response).map_into_left_body(),
        Err(error) if status.is_success() => {
            ServiceResponse::from_err(error.after_the_act(), request).map_into_right_body()
        }
        Err(error) => ServiceResponse::from_err(error, request).map_into_right_body(),
    })
}

/// Lets a request in; or answers a browser that only asks whether it would be.
fn admit(state: &State, request: &HttpRequest) -> ApiResult<Option<HttpResponse>> {
    let headers = request.headers();
    let lengths = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    if headers.len() > MOST_HEADERS || lengths.sum::<usize>() > LONGEST_HEADER {
        return Err(ApiError::header_too_large());
    }
    // Each webhook has a limit of its own, which it checks once it knows its caller; so have files and plugins.
    let has_own = request.path().starts_with("/hooks/")
        || [UPLOAD_FILE.path, INSTALL_PLUGIN.path, CHECK_PLUGIN.path].contains(&request.path());
    if !has_own && declared_length(headers).is_some_and(|length| length > LONGEST_BODY as u64) {
        return Err(ApiError::too_large(LONGEST_BODY));
    }
    connections::check(request, &state.access.gate)?;
    if access::has_token(request.query_string()) {
        // Anybody can send one.
        static TOLD: Throttle = Throttle::new();
        if let Some(times) = TOLD.due() {
            tracing::warn!(
                times,
                "a token was sent in a URL, where others may have seen it; replace it"
            );
        }
        return Err(ApiError::token_in_url());
    }
    state.access.gate.check(request)?;
    let is_question = request.method() == Method::OPTIONS
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && state.access.gate.guest(request).is_some();
    Ok(is_question.then(|| {
        HttpResponse::NoContent()
            .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"))
            .insert_header((
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                "authorization, content-type, idempotency-key, x-csrf-token",
            ))
            .insert_header((header::ACCESS_CONTROL_MAX_AGE, "600"))
            .finish()
    }))
}

/// The length of a body as its request declares it.
pub(in crate::http) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Gives a refusal its body.
fn explain<B: MessageBody>(
    response: HttpResponse<EitherBody<B>>,
    id: &RequestId,
    route: &str,
) -> HttpResponse<EitherBody<B>> {
    let Some(error) = response.error() else {
        return response;
    };
    let refusal = match error.as_error::<ApiError>() {
        Some(refusal) => refusal.clone(),
        None => foreign(response.status(), error),
    };
    if let Some(cause) = refusal.cause() {
        tracing::error!(request_id = id.as_str(), route, error = cause, "request failed");
    }
    let body = refusal.body(id.as_str()).to_string();
    let mut response = response.map_body(|_, _| EitherBody::right(BoxBody::new(body)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A refusal that the framework made.
fn foreign(status: StatusCode, error: &Error) -> ApiError {
    match status {
        StatusCode::NOT_FOUND => ApiError::not_found("there is nothing here"),
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(LONGEST_BODY),
        status if status.is_client_error() => {
            ApiError::new(status, "invalid_input", "the request is malformed")
        }
        _ => ApiError::internal(error),
    }
}

fn dress<B>(state: &State, response: &mut ServiceResponse<B>, id: &RequestId) {
    let guest = state.access.gate.guest(response.request()).map(str::to_owned);
    let is_data = !response.headers().contains_key(header::CACHE_CONTROL);
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(REQUEST_ID, id.as_str());
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::CROSS_ORIGIN_RESOURCE_POLICY, "same-origin");
    if is_data {
        set(header::CACHE_CONTROL, "no-store");
    }
    if state.access.gate.has_tls() {
        set(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    if let Some(origin) = guest {
        set(header::ACCESS_CONTROL_ALLOW_ORIGIN, &origin);
        set(header::ACCESS_CONTROL_EXPOSE_HEADERS, "x-request-id, x-channel-id");
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
}

/// The route, never the path or query as sent: they may hold anything.
fn route(request: &HttpRequest) -> String {
    request.match_pattern().unwrap_or_else(|| "unknown".to_owned())
}

fn log<B>(response: &ServiceResponse<B>, id: &RequestId, began: Instant) {
    let request = response.request();
    tracing::debug!(
        request_id = id.as_str(),
        method = %request.method(),
        route = route(request),
        status = response.status().as_u16(),
        took = ?began.elapsed(),
        "request"
    );
}
