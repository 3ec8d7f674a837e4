//! Several acts in one request: each succeeds or fails alone.

use super::error::ApiError;
use crate::api::batch::ItemError;

impl From<&ApiError> for ItemError {
    fn from(error: &ApiError) -> Self {
        Self {
            code: error.code().to_owned(),
            message: error.to_string(),
            field: error.field().map(str::to_owned),
        }
    }
}

/// What a request for one act alone would have been answered with, and its parts.
pub(super) fn told<T>(outcome: Result<T, ApiError>) -> (u16, Option<T>, Option<ItemError>) {
    match outcome {
        Ok(done) => (200, Some(done), None),
        Err(error) => (error.status().as_u16(), None, Some(ItemError::from(&error))),
    }
}
