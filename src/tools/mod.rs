//! The tools that teams can use: one file each, listed here.

use self::toolbox::Toolbox;

pub mod about;
pub mod agent;
pub mod answer;
pub mod ask_operator;
mod bash;
pub mod browser;
mod cap;
pub mod contract;
mod edit;
pub mod error;
pub mod filter;
mod glob;
pub mod grant;
mod grep;
mod hooked;
pub mod host;
mod hosted;
pub mod judge;
pub mod made;
pub mod mcp;
pub mod memory;
pub mod org;
mod outside;
mod pictures;
pub mod plugin;
pub mod plugin_tool;
pub mod pools;
pub mod propose_change;
mod provenance;
pub mod reach;
mod read;
mod secrets;
pub mod send_file;
#[cfg(test)]
mod tests;
mod told;
pub mod toolbox;
pub mod triggers;
pub mod trust;
pub mod use_skill;
pub mod vault;
pub mod web;
pub(crate) mod wire;
mod write;

pub fn all() -> Toolbox {
    Toolbox::default()
        .with(bash::Bash)
        .with(edit::Edit)
        .with(glob::Glob)
        .with(grep::Grep)
        .with(read::Read)
        .with(write::Write)
}
