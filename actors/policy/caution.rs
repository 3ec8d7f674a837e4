//! Cautions: why a person is asked when no rule of theirs says so.

use crate::words;

/// Folders at the top of a workspace whose files tell a team what it is.
pub const SELF_FOLDERS: [&str; 4] = ["org-rules", "team-rules", "skills", "subagents"];
/// The same for a file: what a heartbeat does on its own.
pub const SELF_FILE: &str = "HEARTBEAT.md";

words! {
    /// How much harm a mistake does.
    #[derive(Default)]
    pub enum Risk {
        /// As usual.
        #[default]
        Normal = "normal",
        /// So much that whoever caused the task does not decide it.
        High = "high",
    }
}

words! {
    /// What an approval is about.
    #[derive(Default)]
    #[schemars(rename = "ApprovalKind")]
    pub enum Kind {
        /// A tool call.
        #[default]
        Tool = "tool",
        /// A new team.
        Spawn = "spawn",
        /// The end of a team.
        Shutdown = "shutdown",
        /// A change of settings.
        Config = "config",
        /// A trigger.
        Trigger = "trigger",
        /// Money.
        Budget = "budget",
        /// A team changes what it is.
        SelfChange = "self_change",
        /// A secret for a host that it was not used with before.
        SecretHost = "secret_host",
        /// A plugin.
        Plugin = "plugin",
    }
}

/// Why a person is asked, when no rule of theirs says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    pub kind: Kind,
    pub risk: Risk,
    pub why: String,
}

impl Caution {
    pub fn new(kind: Kind, risk: Risk, why: impl Into<String>) -> Self {
        Self { kind, risk, why: why.into() }
    }
}
