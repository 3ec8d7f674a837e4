//! Several acts in one request: each succeeds or fails alone.

use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;

/// The most acts of one request.
const MOST: usize = 100;

/// Why one of several acts failed.
#[derive(Serialize, ToSchema)]
#[schema(as = ItemError)]
pub(super) struct Fault {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

impl From<&ApiError> for Fault {
    fn from(error: &ApiError) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            field: error.field().map(str::to_owned),
        }
    }
}

/// Refuses none, and too many.
pub(super) fn check<T>(items: &[T]) -> Result<(), ApiError> {
    match items.len() {
        1..=MOST => Ok(()),
        _ => Err(ApiError::invalid_field("items", format!("expected 1 to {MOST} items"))),
    }
}

/// What a request for one act alone would have been answered with, and its parts.
pub(super) fn told<T>(outcome: Result<T, ApiError>) -> (u16, Option<T>, Option<Fault>) {
    match outcome {
        Ok(done) => (200, Some(done), None),
        Err(error) => (error.status().as_u16(), None, Some(Fault::from(&error))),
    }
}
