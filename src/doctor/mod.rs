//! What could be wrong with an installation: each finding says what to do.

pub mod browser;
pub mod engines;
pub mod machine;
pub mod models;
pub mod settings;
pub mod store;
