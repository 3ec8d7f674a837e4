//! Hivewright: teams of AI agents as actors.

pub mod settings;
