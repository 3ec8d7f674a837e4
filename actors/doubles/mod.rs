//! Doubles of all ports, and a world in which a whole spine runs in one process on paused time.

pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod folders;
pub(crate) mod log;
pub(crate) mod tools;
pub(crate) mod triggers;
pub(crate) mod world;
