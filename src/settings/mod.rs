//! What the operator decides: directories, files, keys.
//!
//! Every file is checked whole, and everything that is wrong with it is reported at once. Files
//! that say how the service runs are read at start ([`load`]); files that say what a turn may
//! use are read again when they change ([`live`]).

pub mod assign;
pub mod channels;
pub mod config;
pub(crate) mod declare;
pub(crate) mod document;
pub mod effective;
pub mod egress;
pub mod erase;
pub mod error;
pub mod folder_access;
pub mod home;
pub mod live;
pub mod load;
pub mod mcp_servers;
pub mod migrate;
pub mod network;
pub mod plugins;
pub mod policy;
pub mod problem;
pub mod providers;
pub mod references;
pub mod replace;
pub mod scaffold;
pub mod search;
pub mod secret;
pub mod socket_path;
pub mod team;
pub mod trust;
pub(crate) mod watch;

pub(crate) mod field;
pub(crate) mod file_cache;
pub(crate) mod reader;
pub mod setting;
pub mod tool_groups;
pub(crate) mod yaml;
pub mod zone;

#[cfg(test)]
pub(crate) mod tests;
