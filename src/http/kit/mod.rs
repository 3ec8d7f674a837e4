//! What routes are made of: calls, replies, refusals, lists, limits, and their description.

pub(super) mod ask;
pub(super) mod audit_log;
pub(super) mod call;
pub mod connections;
pub(super) mod csv;
pub(super) mod docs_page;
pub mod error;
pub(super) mod idempotency;
pub(super) mod json;
pub mod limits;
pub(super) mod listing;
pub(super) mod middleware;
pub(super) mod openapi;
pub mod origin;
pub(super) mod query;
pub mod repeats;
pub(super) mod reply;
pub(super) mod resource;
pub(super) mod revocation;
pub(super) mod webhook_proof;
