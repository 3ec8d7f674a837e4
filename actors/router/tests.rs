//! The way in, with a whole spine behind it.

mod commands;
mod gate;
mod intake;
mod room;
mod topic;
