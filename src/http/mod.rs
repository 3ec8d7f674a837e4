//! The way in over HTTP: the state that handlers share, the kit of routes, the routes, logins, and the web page.

pub mod app;
pub mod auth;
pub mod jobs;
pub mod kit;
pub mod metrics;
pub mod ports;
pub(crate) mod routes;
pub mod state;
#[cfg(test)]
mod tests;
pub mod ui;
