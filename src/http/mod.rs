//! The way in over HTTP.

pub mod auth;
pub mod ui;
