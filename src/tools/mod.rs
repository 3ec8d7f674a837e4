//! The tools that teams can use: one file each, listed here or in the `mod.rs` of its folder.

use self::{contract::Tool, made::tools, registry::Registry, toolbox::Toolbox};

pub mod about;
pub mod agent;
pub mod answer;
pub mod ask_operator;
mod bash;
pub mod browser;
mod cap;
mod compact_schema;
pub mod concurrency;
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
pub mod propose_change;
mod provenance;
pub mod reach;
mod read;
pub mod registry;
mod secrets;
pub mod send_file;
#[cfg(test)]
mod tests;
pub mod toolbox;
pub mod triggers;
pub mod trust;
pub mod use_skill;
pub mod vault;
pub mod web;
pub(crate) mod wire;
mod write;

tools! {
    fn built_in() {
        bash::Bash,
        edit::Edit,
        glob::Glob,
        grep::Grep,
        read::Read,
        write::Write,
    }
}

/// All tools that settings can name.
pub const REGISTRY: Registry = Registry::new(
    TOOLS,
    &[
        ask_operator::TOOLS,
        browser::TOOLS,
        memory::TOOLS,
        org::TOOLS,
        plugin_tool::manage::TOOLS,
        send_file::TOOLS,
        triggers::TOOLS,
        trust::TOOLS,
        vault::TOOLS,
        web::TOOLS,
        // Those of which each role of a team has its own.
        &[
            agent::Agent::ABOUT,
            mcp::ABOUT,
            plugin::ABOUT,
            use_skill::UseSkill::ABOUT,
            web::repository::SearchSkillRepository::ABOUT,
            web::search::WebSearch::ABOUT,
        ],
    ],
);

/// The tools that every service has.
pub fn all() -> Toolbox {
    Toolbox::default().with(built_in())
}
