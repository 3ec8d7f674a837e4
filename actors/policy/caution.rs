//! Cautions: why a person is asked when no rule of theirs says so.

use super::{
    Request,
    resource::{Mode, Touch},
};
use crate::{tool::Effect, words};

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

/// Why a call asks a person although no rule says so; none: it may run.
pub(super) fn caution(request: &Request<'_>) -> Option<Caution> {
    let Request { class, effect, .. } = *request;
    if request.subject.untrusted
        && let Some(caution) = untrusted(request)
    {
        return Some(caution);
    }
    if let Some(own) = &request.caution {
        return Some(own.clone());
    }
    standing(class, effect)
}

/// The same for whatever the call says, in a turn that is trusted.
pub(super) fn standing(class: &str, effect: Effect) -> Option<Caution> {
    let ask = |kind, why: &str| Some(Caution::new(kind, Risk::Normal, why));
    match class {
        "org.shutdown_team" => ask(Kind::Shutdown, "a team and all its data end"),
        "org.propose_change" => ask(Kind::SelfChange, "what the team is changes"),
        "trust" if effect != Effect::Pure => ask(Kind::Tool, "who is trusted changes"),
        _ => None,
    }
}

/// A turn that has read what a stranger wrote does less without asking.
fn untrusted(request: &Request<'_>) -> Option<Caution> {
    let Request { class, effect, .. } = *request;
    let changes = effect != Effect::Pure;
    let ask = |kind, risk, what: &str| {
        let why = format!("{what}, and this turn has read untrusted content");
        Some(Caution::new(kind, risk, why))
    };
    match class {
        "net.write" => ask(Kind::Tool, Risk::Normal, "it sends data out"),
        "plugin" | "mcp" if effect == Effect::Irreversible => {
            ask(Kind::Tool, Risk::Normal, "it cannot be undone")
        }
        "org.spawn_team" => ask(Kind::Spawn, Risk::High, "a new team is made"),
        "org.shutdown_team" => ask(Kind::Shutdown, Risk::High, "a team and all its data end"),
        "org.update_team" => ask(Kind::Config, Risk::High, "a team's settings change"),
        "org.control_team" => ask(Kind::Config, Risk::Normal, "a team is stopped or started"),
        "trust" | "plugin.register" if changes => {
            ask(Kind::SelfChange, Risk::Normal, "what the team is changes")
        }
        // It could answer with it, in a form that nobody recognises.
        "exec" if request.uses_secret => {
            ask(Kind::Tool, Risk::Normal, "a command is given a secret")
        }
        // What is saved in such a turn waits for a review; what is deleted is out of prompts at once.
        "memory" if request.tool == "memory_delete" => {
            ask(Kind::SelfChange, Risk::Normal, "something remembered is deleted")
        }
        // A test changes nothing of the trigger, and its run is believed as far as this turn.
        "trigger.test_trigger" => None,
        _ if class.starts_with("trigger.") && changes => {
            ask(Kind::SelfChange, Risk::Normal, "a trigger changes")
        }
        _ if request.touches.iter().any(is_self_change) => {
            ask(Kind::SelfChange, Risk::Normal, "what the team is changes")
        }
        _ => None,
    }
}

fn is_self_change(touch: &Touch) -> bool {
    let Touch::File { inside: Some(inside), mode: Mode::Write | Mode::Both, .. } = touch else {
        return false;
    };
    let first = inside.split('/').next().unwrap_or_default();
    SELF_FOLDERS.contains(&first) || first == SELF_FILE
}
