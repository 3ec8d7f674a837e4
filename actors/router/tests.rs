//! The way in, with a whole spine behind it.
#![allow(clippy::unwrap_used)]

mod commands;
mod gate;
mod intake;
mod room;
mod topic;
