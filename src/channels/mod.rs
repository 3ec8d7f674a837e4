//! Where people talk to teams.

pub mod frames;
mod framing;
pub mod websocket;
