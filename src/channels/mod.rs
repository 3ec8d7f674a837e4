//! Where people talk to teams.

pub mod discord;
pub mod frames;
mod framing;
pub mod websocket;
