//! The edges of Hivewright: what the spine needs from outside, and the service that it makes.

pub mod briefing;
pub mod channels;
pub mod engines;
pub mod http;
pub mod logging;
pub mod prompt;
pub mod providers;
pub mod sandbox;
pub mod scrub;
pub mod settings;
pub mod storage;
pub mod tools;
