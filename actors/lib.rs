//! The spine of Hivewright: its actors, their messages, and the ports to the outside.

pub mod briefing;
pub mod clock;
pub mod engine;
pub mod event;
pub mod history;
pub mod ids;
pub mod router;
pub mod storage;
pub mod task;
pub mod tool;
pub mod usage;
