//! Plugins: folders with a manifest that bring teams tools, a channel or hooks.
//!
//! A plugin is installed once and switched on for each team. Nothing of it runs in this process, but what is ours (`builtin`).

pub mod archive;
mod builtin;
pub mod capabilities;
pub mod catalogue;
pub mod check;
pub mod depot;
pub mod digest;
pub mod fault;
pub mod fetch;
pub mod hooks;
pub mod host;
pub mod instance;
pub mod listening;
pub mod loading;
pub mod lock;
pub mod manifest;
pub mod package;
pub mod schema;
mod shipped;
pub mod signature;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod updates;
pub mod written;
