//! The spine of Hivewright: its actors, their messages, and the ports to the outside.
//!
//! ```text
//! socket ──Receive──▶ Router ──Enqueue──▶ Queue ──Leased──▶ Team ──Deliver──▶ Channel ──▶ socket
//!                                                            │ model call, tool call: own tasks
//!                                                            └ commit ──▶ Store (leaf)
//! ```
//!
//! Messages go one way round and are told, never awaited; only leaves are asked. Decisions are pure
//! (`queue::schedule`, `team::turn`, `router::resolve`, `channel::outbox`), actors are shells around
//! them, and what they need from the world is a port: `storage`, `engine`, `tool`, `briefing`,
//! `classifier`, `clock`, `meter`. Nothing here does I/O.

#![warn(missing_docs)]

pub mod approvals;
pub mod audit;
pub mod briefing;
pub mod budget;
pub mod channel;
pub mod channel_type;
pub mod classifier;
pub mod clock;
mod closing;
#[cfg(test)]
mod doubles;
pub mod engine;
pub mod event;
pub mod excerpt;
pub mod history;
pub mod identities;
pub mod ids;
pub mod inbox;
pub mod live;
pub mod meter;
pub mod notice;
pub mod org;
pub mod policy;
mod quarantine;
pub mod queue;
pub mod room;
pub mod router;
pub mod scheduler;
pub mod spine;
pub mod storage;
pub mod store;
pub mod supervisor;
pub mod task;
pub mod team;
pub mod text;
pub mod tool;
pub mod usage;
