//! The way in over HTTP.

pub mod ui;
