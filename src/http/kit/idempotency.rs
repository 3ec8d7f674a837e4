//! `Idempotency-Key`: a request that is repeated under the same key is done once.
//!
//! A row is stored before a request is let through, and gets the answer after it. So a request whose
//! answer was lost is not done again, not even after a crash in the middle: it is then unknown what
//! came of it, and that is what a repeat is told. One whose connection breaks goes on, as all that change something do
//! (`middleware.rs`): whoever asks again is told what came of it.

use std::sync::atomic::Ordering;

use actix_http::h1;
use actix_web::{
    Error, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody, to_bytes},
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{
        StatusCode,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::{
    clock::{Timestamp, millis},
    repeats::{KNOWN_FOR, is_known},
    storage::{Storage, StorageError},
    store::{
        reads::{Range, get},
        records::Writes,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    call::{operation, within_limits},
    error::{ApiError, ApiResult},
    json::{self, LONGEST_BODY},
};
use crate::{
    http::{auth::authenticator::Principal, state::State},
    system::sha256,
};

pub(in crate::http) const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const LONGEST: usize = 128;

/// A request that had a key.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    at: Timestamp,
    /// Of method, path, query and body; none where a secret may be in them.
    digest: Option<String>,
    answer: Option<Stored>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    status: u16,
    content_type: Option<String>,
    /// In base64; none if it may be seen only once.
    body: Option<String>,
}

/// A request that goes on under its key, until this is dropped.
struct Keyed {
    state: web::Data<State>,
    name: String,
    row: Row,
}

impl Drop for Keyed {
    fn drop(&mut self) {
        self.state.repeats.running.remove(&self.name);
    }
}

/// How a request with a key goes on.
enum Turn {
    /// For the first time.
    First(Keyed),
    /// It was answered before.
    Again(HttpResponse),
}

/// Wraps every route that makes something.
pub(in crate::http) async fn pass<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let state = request.app_data::<web::Data<State>>().cloned();
    // A file that comes twice is kept twice, and goes by itself where no message names it.
    let is_streamed = operation(request.request()).is_some_and(|operation| operation.streamed);
    let is_keyed = request.headers().contains_key(KEY) && !is_streamed;
    let (Some(state), true) = (state, is_keyed) else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    // Whoever may not ask is told so by the route itself.
    let Ok(principal) = state.access.principal(request.request()) else {
        return Ok(next.call(request).await?.map_into_boxed_body());
    };
    if let Err(refusal) = within_limits(&state, request.request(), &principal) {
        return Ok(request.error_response(refusal));
    }
    let body = match read(&mut request).await {
        Ok(body) => body,
        Err(refusal) => return Ok(request.error_response(refusal)),
    };
    match begin(&state, &principal, request.request(), &body).await {
        Err(refusal) => Ok(request.error_response(refusal)),
        Ok(Turn::Again(answer)) => Ok(request.into_response(answer)),
        Ok(Turn::First(keyed)) => {
            let (_, mut payload) = h1::Payload::create(true);
            payload.unread_data(body.into());
            request.set_payload(Payload::from(payload));
            let (request, response) = next.call(request).await?.into_parts();
            Ok(match end(keyed, response).await {
                Ok(response) => ServiceResponse::new(request, response),
                Err(refusal) => ServiceResponse::from_err(refusal, request),
            })
        }
    }
}

/// A repeat has to be the same: the body is read here.
async fn read(request: &mut ServiceRequest) -> ApiResult<Vec<u8>> {
    let payload = request.extract::<web::Payload>().await.map_err(ApiError::internal)?;
    json::bytes(payload, LONGEST_BODY, json::SLOWEST_BODY).await
}

fn key(request: &HttpRequest) -> ApiResult<&str> {
    let key = request.headers().get(KEY).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && (1..=LONGEST).contains(&key.len()) {
        return Ok(key);
    }
    let reason = "a key has 1 to 128 printable characters without space";
    Err(ApiError::invalid_field("Idempotency-Key", reason))
}

/// Looks whether this was asked before, and notes that it is.
async fn begin(
    state: &web::Data<State>,
    principal: &Principal,
    request: &HttpRequest,
    body: &[u8],
) -> ApiResult<Turn> {
    let now = state.now();
    let name = name(principal, key(request)?);
    let is_secret = operation(request).is_some_and(|operation| operation.secret);
    if !state.repeats.running.insert(name.clone()) {
        return Err(ApiError::conflict(
            "a request with this `Idempotency-Key` is under way; wait for its answer",
        ));
    }
    let keyed = Keyed {
        state: state.clone(),
        name: name.clone(),
        row: Row { at: now, digest: (!is_secret).then(|| digest(request, body)), answer: None },
    };
    let of = name.clone();
    if let Some(known) = state.read(move |storage| find(storage, &of, now)).await? {
        return answer(&known, &keyed.row).map(Turn::Again);
    }
    let mut writes = Writes::new().put_at(&place(now, &name), &keyed.row);
    let day = day(now);
    if state.repeats.swept.swap(day, Ordering::AcqRel) < day {
        writes = writes.drop_keys(state.read(move |storage| old(storage, now)).await?);
    }
    state.spine.store.commit(writes).await?;
    Ok(Turn::First(keyed))
}

/// Nothing was done, so that a repeat may do it. Whoever only ran out of patience does not know.
fn is_refused<B>(response: &HttpResponse<B>) -> bool {
    let refusal = response.error().and_then(|error| error.as_error::<ApiError>());
    match refusal {
        Some(refusal) => refusal.changed_nothing(),
        None => response.status().is_client_error(),
    }
}

/// Keeps the answer for whoever asks again. What was refused is forgotten. Of what failed it stays
/// unknown what came of it.
async fn end(
    mut keyed: Keyed,
    response: HttpResponse<impl MessageBody + 'static>,
) -> ApiResult<HttpResponse<BoxBody>> {
    let refused = is_refused(&response);
    let (response, body) = response.into_parts();
    let status = response.status();
    let place = place(keyed.row.at, &keyed.name);
    let state = keyed.state.clone();
    if refused {
        state.spine.store.commit(Writes::new().delete::<Row>(&place)).await?;
    }
    if refused || !status.is_success() {
        return Ok(response.set_body(body.boxed()));
    }
    let bytes = to_bytes(body).await.map_err(|_| ApiError::internal("an answer broke off"))?;
    let kind = response.headers().get(header::CONTENT_TYPE);
    keyed.row.answer = Some(Stored {
        status: status.as_u16(),
        content_type: kind.and_then(|kind| kind.to_str().ok()).map(str::to_owned),
        body: keyed.row.digest.is_some().then(|| STANDARD.encode(&bytes)),
    });
    state.spine.store.commit(Writes::new().put_at(&place, &keyed.row)).await?;
    Ok(response.set_body(bytes.boxed()))
}

/// What a repeat is told.
fn answer(known: &Row, asked: &Row) -> ApiResult<HttpResponse> {
    if known.digest != asked.digest {
        return Err(ApiError::conflict(
            "this `Idempotency-Key` was used for another request; take a new one",
        ));
    }
    let Some(stored) = &known.answer else {
        return Err(ApiError::conflict(
            "a request with this `Idempotency-Key` was broken off, and what came of it is not known; look, then take a new key",
        ));
    };
    let Some(body) = &stored.body else {
        return Err(ApiError::conflict(
            "this was done before under the same `Idempotency-Key`, and its answer is shown only once",
        ));
    };
    let body = STANDARD.decode(body).map_err(ApiError::internal)?;
    let status = StatusCode::from_u16(stored.status).map_err(ApiError::internal)?;
    let mut response = HttpResponse::build(status);
    if let Some(kind) = &stored.content_type {
        response.insert_header((header::CONTENT_TYPE, kind.as_str()));
    }
    response.insert_header((REPLAYED, HeaderValue::from_static("true")));
    Ok(response.body(body))
}

/// Keys of different tokens have nothing to do with each other.
fn name(principal: &Principal, key: &str) -> String {
    sha256(format!("{}\0{key}", principal.grant).as_bytes())
}

fn digest(request: &HttpRequest, body: &[u8]) -> String {
    let asked = format!("{}\0{}\0", request.path(), request.query_string());
    sha256(&[asked.as_bytes(), body].concat())
}

fn day(at: Timestamp) -> u64 {
    at.0 / millis(KNOWN_FOR)
}

/// Rows of a day stand together, so that old ones are found without reading the others.
fn place(at: Timestamp, name: &str) -> String {
    format!("{:012}/{name}", day(at))
}

hivewright_actors::records! {
    Row: "edge\0repeat", String;
}

/// What was asked under this name within the time that it is kept.
fn find(storage: &dyn Storage, name: &str, now: Timestamp) -> Result<Option<Row>, StorageError> {
    for at in [now, now - KNOWN_FOR] {
        if let Some(row) = get::<Row>(storage, &place(at, name))?
            && is_known(row.at, now)
        {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// Keys of rows that nobody asks for any more.
fn old(storage: &dyn Storage, now: Timestamp) -> Result<Vec<Vec<u8>>, StorageError> {
    Range::<Row>::all().until(&place(now - KNOWN_FOR, "")).keys(storage)
}
