//! Bodies and answers in JSON.

use std::time::Duration;

use actix_web::{HttpRequest, http::header, web};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::error::{ApiError, ApiResult};
pub(in crate::http) use crate::api::when::date;
use crate::{api::input::InputSchema, json_limits};

/// The longest body, in bytes.
pub(in crate::http) const LONGEST_BODY: usize = 1024 * 1024;
/// A body that does not arrive in this time is given up.
pub(in crate::http) const SLOWEST_BODY: Duration = Duration::from_secs(30);

/// Reads the body of a request that is allowed to have one, and checks it. What has nothing to say may be
/// left out.
pub(in crate::http) async fn read(
    schema: &InputSchema,
    request: &HttpRequest,
    payload: web::Payload,
) -> ApiResult<Value> {
    let body = bytes(payload, LONGEST_BODY, SLOWEST_BODY);
    if !request.headers().contains_key(header::CONTENT_TYPE) {
        let nothing = json!({});
        let may_be_absent = schema.check(&nothing).is_ok() && body.await?.is_empty();
        return if may_be_absent { Ok(nothing) } else { Err(ApiError::media_type()) };
    }
    if !is_json(request) {
        return Err(ApiError::media_type());
    }
    parse(schema, &body.await?)
}

/// The whole body, if it comes in time and is not too long. The declared length was checked before; a
/// body without one is cut off here.
pub(in crate::http) async fn bytes(
    mut payload: web::Payload,
    most: usize,
    within: Duration,
) -> ApiResult<Vec<u8>> {
    let collected = async {
        let mut bytes = Vec::new();
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|_| ApiError::invalid("the body broke off"))?;
            if bytes.len() + chunk.len() > most {
                return Err(ApiError::too_large(most));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    };
    tokio::time::timeout(within, collected).await.map_err(|_| ApiError::too_slow())?
}

fn is_json(request: &HttpRequest) -> bool {
    let value = request.headers().get(header::CONTENT_TYPE);
    let Some(text) = value.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json
        && parts.all(|part| {
            let charset =
                part.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("charset"));
            charset.is_none_or(|(_, set)| set.trim_matches('"').eq_ignore_ascii_case("utf-8"))
        })
}

fn parse(schema: &InputSchema, bytes: &[u8]) -> ApiResult<Value> {
    json_limits::check(bytes).map_err(|error| ApiError::invalid(format!("the body: {error}")))?;
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::invalid(format!(
            "the body is not valid JSON (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    if !value.is_object() {
        return Err(ApiError::invalid("the body must be a JSON object"));
    }
    schema.check(&value)?;
    Ok(value)
}
