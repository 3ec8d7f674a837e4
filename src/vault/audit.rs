//! The audit: who did what with which entry. Rows are only ever added.

use std::sync::atomic::{AtomicU32, Ordering};

use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    store::reads::Range,
    words,
};
use serde::{Deserialize, Serialize};

use super::{error::VaultError, scope::Scope};

/// Stands for all scopes at once.
const ANYWHERE: &str = "*";

/// Who acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// A team, in a task.
    Team {
        /// Which.
        team: TeamKey,
        /// At work on what.
        task: TaskId,
    },
    /// A person or a program with a token.
    Operator {
        /// The name of the token.
        name: String,
        /// Its id.
        token: String,
    },
    /// The service itself.
    System,
}

impl Actor {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Team { team, .. } => format!("team:{}", team.name),
            Self::Operator { name, .. } => format!("operator:{name}"),
            Self::System => "system".to_owned(),
        }
    }

    /// A team's own doing.
    pub(super) fn is_team(&self) -> bool {
        matches!(self, Self::Team { .. })
    }
}

words! {
    /// What was done.
    pub enum Action {
        /// An entry was set.
        Set = "set",
        /// An entry was deleted.
        Delete = "delete",
        /// An entry was looked at.
        Get = "get",
        /// Entries were listed.
        List = "list",
        /// A reference was expanded.
        Expand = "expand",
        /// All entries of a team were deleted.
        Forget = "forget",
        /// The master key was replaced.
        Rotate = "rotate",
        /// The vault was found locked.
        Lock = "lock",
    }
}

/// One row. It holds neither a value nor anything made of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub at: Timestamp,
    /// Whose entry: `system`, or a team's name and generation.
    pub scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub action: Action,
    pub actor: Actor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `ok`, or the code of the refusal.
    pub outcome: String,
}

hivewright_actors::records! {
    AuditRow: "edge\0vault-audit", String;
}

impl AuditRow {
    pub(super) fn new(
        at: Timestamp,
        scope: &Scope,
        key: Option<&str>,
        action: Action,
        actor: &Actor,
    ) -> Self {
        Self {
            at,
            scope: scope.tag(),
            key: key.map(str::to_owned),
            action,
            actor: actor.clone(),
            tool: None,
            host: None,
            outcome: "ok".to_owned(),
        }
    }

    /// Whose entry, as people name it.
    pub fn shown_scope(&self) -> String {
        match Scope::of_tag(&self.scope) {
            Some(scope) => scope.to_string(),
            None => self.scope.clone(),
        }
    }

    /// Of all scopes.
    pub(super) fn everywhere(mut self) -> Self {
        ANYWHERE.clone_into(&mut self.scope);
        self
    }

    pub(super) fn with_tool(mut self, tool: &str) -> Self {
        self.tool = Some(tool.to_owned());
        self
    }

    pub(super) fn with_host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    pub(super) fn refused(mut self, error: &VaultError) -> Self {
        self.outcome = error.code().to_owned();
        self
    }
}

/// Names of rows rise with time, and no two are the same.
pub(super) fn name(at: Timestamp) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Two processes may write in the same millisecond, if the clock is set back between them.
    let chance = getrandom::u32().unwrap_or_default();
    format!("{}{count:08x}{chance:08x}", moment(at))
}

pub fn since(at: Timestamp) -> Range<AuditRow> {
    Range::all().since(&moment(at))
}

pub fn before(at: Timestamp) -> Range<AuditRow> {
    Range::all().until(&moment(at))
}

/// What the names of a moment's rows begin with.
fn moment(at: Timestamp) -> String {
    format!("{:016x}", at.0)
}
