//! A whole spine, from message to response.
#![allow(clippy::unwrap_used)]

mod conversation;
