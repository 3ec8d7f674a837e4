//! Anthropic's Messages API.

pub(super) mod reader;
pub(super) mod request;
