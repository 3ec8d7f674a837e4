//! The way in, with a whole spine behind it.
#![allow(clippy::unwrap_used)]

mod commands;
mod intake;
mod topic;
