//! The edges of Hivewright: settings, model providers and engines.

pub mod engines;
pub mod providers;
pub mod scrub;
pub mod settings;
