//! A whole spine, from message to response.
#![allow(clippy::unwrap_used)]

mod approvals;
mod conversation;
mod crash;
mod failure;
mod life;
mod modes;
mod stop;
