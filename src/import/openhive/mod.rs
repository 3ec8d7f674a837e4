//! Import of an OpenHive installation: settings, teams and everything they keep.
//!
//! ```text
//! source, schema, rows   what is there, only read        plan/    what will be made of it, pure data
//! settings … topics      one thing each, converted       apply/   the plan becomes files and rows
//! ```
//!
//! The plan is made whole before anything is written, so a dry run says exactly what a real one does.

mod found;
mod memories;
mod moment;
mod names;
mod org;
pub mod plan;
pub mod plugins;
pub mod report;
mod rows;
mod schema;
mod settings;
pub mod source;
mod target;
mod tasks;
mod teams;
mod topics;
mod triggers;
mod trust;
mod vault;
mod yaml;
