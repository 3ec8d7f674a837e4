//! Teams as they lie on the disk and as operators see them.

pub mod creation;
pub mod credentials;
pub mod file;
pub mod folders;
pub mod last_caps;
pub mod self_changes;
pub mod service;
pub mod templates;
