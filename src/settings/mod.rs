//! What the operator configures.

pub mod providers;
pub mod secret;
