//! Bodies and answers in JSON.

use std::time::Duration;

use actix_web::{HttpRequest, http::header, web};
use futures_util::StreamExt;
use hivewright_actors::excerpt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::{
    ToSchema,
    openapi::{RefOr, schema::Schema},
};

use super::{LONGEST_BODY, error::ApiError};
use crate::json_size;
pub(super) use crate::time::date;

/// A body that does not arrive in this time is given up.
const SLOWEST_BODY: Duration = Duration::from_secs(30);
/// Names at this distance are taken for slips.
const SLIP: usize = 2;

/// A request that has to say nothing need not say so.
pub(super) fn nothing<T: DeserializeOwned>() -> Option<T> {
    serde_json::from_value(Value::Object(Map::new())).ok()
}

/// Reads the body of a request that is allowed to have one.
pub(super) async fn read<T: DeserializeOwned + ToSchema>(
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<T, ApiError> {
    if !request.headers().contains_key(header::CONTENT_TYPE) {
        return match nothing() {
            Some(nothing) if bytes(payload).await?.is_empty() => Ok(nothing),
            _ => Err(ApiError::media_type()),
        };
    }
    if !is_json(request) {
        return Err(ApiError::media_type());
    }
    parse(&bytes(payload).await?)
}

/// The whole body, if it comes in time and is not too long.
pub(super) async fn bytes(payload: web::Payload) -> Result<Vec<u8>, ApiError> {
    tokio::time::timeout(SLOWEST_BODY, collect(payload)).await.map_err(|_| ApiError::too_slow())?
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

/// The declared length was checked before; a body without one is cut off here.
async fn collect(mut payload: web::Payload) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| ApiError::invalid("the body broke off"))?;
        if bytes.len() + chunk.len() > LONGEST_BODY {
            return Err(ApiError::too_large(LONGEST_BODY));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned + ToSchema>(bytes: &[u8]) -> Result<T, ApiError> {
    json_size::check(bytes).map_err(|error| ApiError::invalid(format!("the body: {error}")))?;
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        ApiError::invalid(format!(
            "the body is not valid JSON (line {}, column {})",
            error.line(),
            error.column()
        ))
    })?;
    let Value::Object(fields) = value else {
        return Err(ApiError::invalid("the body must be a JSON object"));
    };
    let known = names(&T::schema());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    refuse_unknown(&fields, &known)?;
    serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let message = without_values(&error.inner().to_string());
        match error.path().to_string().as_str() {
            "." => ApiError::invalid(message),
            path => ApiError::invalid_field(path, message),
        }
    })
}

/// The fields that a schema has.
pub(super) fn names(schema: &RefOr<Schema>) -> Vec<String> {
    match schema {
        RefOr::T(Schema::Object(object)) => object.properties.keys().cloned().collect(),
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

fn refuse_unknown(fields: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(unknown_field(unknown, known)),
        None => Ok(()),
    }
}

pub(super) fn unknown_field(unknown: &str, known: &[&str]) -> ApiError {
    let near = known
        .iter()
        .map(|name| (strsim::levenshtein(name, unknown), name))
        .filter(|(distance, _)| *distance <= SLIP)
        .min_by_key(|(distance, _)| *distance);
    let hint = near.map(|(_, name)| format!("use `{name}`"));
    let message = match near {
        Some((_, name)) => format!("unknown field (did you mean `{name}`?)"),
        None if known.is_empty() => "unknown field; there are none here".to_owned(),
        None => format!("unknown field; there are `{}`", known.join("`, `")),
    };
    let refusal = ApiError::invalid_field(excerpt::line(unknown, 64), message);
    match hint {
        Some(hint) => refusal.hint(hint),
        None => refusal,
    }
}

/// An error of serde quotes what it found, which may be a secret in the wrong place.
fn without_values(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None if message.starts_with("missing field") => message.to_owned(),
        None => "not a usable value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_what_was_sent() {
        let found =
            without_values("invalid type: string \"hwt_x, expected y\", expected a sequence");

        assert_eq!(found, "expected a sequence");
        assert_eq!(without_values("hwt_x"), "not a usable value");
        assert_eq!(without_values("missing field `name`"), "missing field `name`");
    }
}
