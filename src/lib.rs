//! Hivewright: teams of AI agents as actors.

pub mod prompt;
pub mod settings;
