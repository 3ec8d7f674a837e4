//! Where people talk to teams.

pub mod frames;
pub mod websocket;
