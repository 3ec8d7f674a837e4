//! The way in, with a whole spine behind it.

mod commands;
mod gate;
mod home;
mod intake;
mod reading;
mod room;
mod topic;
