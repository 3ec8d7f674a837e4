//! Records of tool calls: what they were answered, for when the same call is made again.

use serde::{Deserialize, Serialize};

use crate::store::records::Record;

/// The answer to a tool call, by its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answer<T>(pub T);

impl<T> Record for Answer<T> {
    const KIND: &'static str = "call";
    type Key = String;
}
