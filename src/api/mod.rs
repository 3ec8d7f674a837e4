//! What routes and commands speak: a file per resource with its rows, filters, bodies and endpoints.
//!
//! The server reads requests by these types, the client sends them and prints what comes back, and the
//! API document is made from their schemas.

pub mod approvals;
pub mod audit;
pub mod batch;
pub mod changes;
pub mod channels;
pub mod check;
pub mod config;
pub mod description;
pub mod doctor;
pub mod draft;
pub mod endpoint;
pub mod events;
pub mod flags;
pub mod grants;
pub mod identities;
pub mod inbox;
pub mod input;
pub mod logs;
pub mod messages;
pub mod monitoring;
pub mod overview;
pub mod page;
pub mod policies;
pub mod questions;
pub mod reply;
pub mod scope;
pub mod sessions;
pub mod tasks;
pub mod teams;
pub mod topics;
pub mod transcript;
pub mod trust;
pub mod usage;
pub mod when;
