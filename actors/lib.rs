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
//!
//! # The life of a message
//!
//! | step | file | what happens |
//! |---|---|---|
//! | received | `router/mod.rs` | a frame of a connection that is open |
//! | let in | `router/gate.rs`, `router/trust.rs` | the first rule that matches decides, and is audited |
//! | understood | `router/intake.rs` | a repeat, a command, or words; a topic, by `router/resolve.rs` or a model |
//! | accepted | `queue/mod.rs` | the task is stored, with its lease if it can start at once |
//! | chosen | `queue/schedule.rs` | fair between teams and people, serial within a lane |
//! | leased | `queue/leases.rs` | told to the supervisor, and again if the team does not take it |
//! | handed over | `supervisor.rs` | the team is started if it does not live |
//! | taken | `team/mod.rs` | a lane is free, the task joins a running turn, or it goes back |
//! | prepared | `team/preparation.rs` | history, journal, inbox and brief become a session |
//! | run | `team/effects.rs` | the session does what `team/turn.rs` wants, in order |
//! | answered | `team/calls.rs` | models and tools, on tasks of their own; `team/stream.rs` says what comes |
//! | recorded | `team/commit.rs` | each step durable before the next, as `team/journal.rs` writes it |
//! | ended | `team/outcome.rs` | outcome, answer and conversation in one commit |
//! | settled | `queue/mod.rs` | the lane's next task, the work that follows |
//! | delivered | `channel/mod.rs` | frames in the order of `channel/outbox.rs`, again to who comes back |
//! | carried | `channel/adapter.rs` | one frame after the other, until its connection or network has it |

pub mod admission;
pub mod approvals;
pub mod archive;
pub mod archivist;
pub mod audit;
pub mod blocking;
pub mod briefing;
pub mod budget;
pub mod channel;
pub mod channel_type;
pub mod classifier;
pub mod clock;
pub mod consistency;
mod continuations;
pub mod conversation_log;
#[cfg(any(test, feature = "doubles"))]
pub mod doubles;
pub mod engine;
pub mod excerpt;
pub mod file;
pub mod frame;
pub mod history;
pub mod hook;
pub mod identities;
pub mod ids;
pub mod inbox;
pub mod interactions;
pub mod journal;
pub mod live;
pub mod meter;
pub mod notice;
pub mod order;
pub mod org;
pub mod plugin;
pub mod policy;
pub mod quarantine;
pub mod queue;
pub mod rendered;
pub mod repeats;
pub mod retention;
pub mod room;
pub mod router;
pub mod scheduler;
pub mod search;
pub mod shared_list;
pub mod sliding_window;
pub mod spawn;
pub mod spine;
pub mod storage;
pub mod store;
#[cfg(test)]
mod stored_form;
pub mod supervisor;
pub mod task;
pub mod team;
pub mod text;
pub mod thinking;
pub mod tool;
pub mod usage;
pub mod wildcard;

/// Builtin plugins that only tests have, by key.
#[cfg(any(test, feature = "doubles"))]
pub const BUILTIN_DOUBLES: &[(&str, plugin::builtin::MakeBuiltin)] =
    &[("probe", doubles::builtin::Probe::make)];
/// Builtin plugins that only tests have, by key.
#[cfg(not(any(test, feature = "doubles")))]
pub const BUILTIN_DOUBLES: &[(&str, plugin::builtin::MakeBuiltin)] = &[];
