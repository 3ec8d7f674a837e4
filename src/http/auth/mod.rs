//! Authentication: who is asking, and what they may do.
//!
//! A credential is a grant (the operator token, an API token) or a browser session that a grant
//! opened. The [`registry`] holds them and decides; the [`authenticator`] is its running form, and
//! the only maker of principals; [`offline`] does the same while the service is stopped.

pub mod access;
pub mod authenticator;
pub mod error;
pub mod identities;
mod links;
pub mod offline;
pub mod operator;
pub mod registry;
pub mod rows;
pub mod token;

#[cfg(test)]
mod tests;
