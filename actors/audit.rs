//! Audit: who did what to the service, and what came of it.

use serde::{Deserialize, Serialize};

use self::query::{AuditFacet, AuditQuery};
use crate::{
    clock::Timestamp,
    ids::{Ids, PrincipalId, TaskId, TeamName, TurnId},
    store::{
        records::Record,
        redact::{Owner, Texts},
    },
    tool::ToolFault,
    words,
};

pub mod lines;
pub mod query;

pub const TEXTS: &[Texts] =
    &[Texts::of(Audit::KIND, Owner::At("/call/team"), &["call/arguments", "call/result"])];

/// The action of a line that tells of a tool call.
pub const TOOL_CALL: &str = "tool.call";
/// The most characters of arguments and of a result that a line holds.
const MAX_CHARACTERS: usize = 200;

/// A line of the audit. No secret stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Tells lines of one moment apart.
    pub id: String,
    pub at: Timestamp,
    pub actor: PrincipalId,
    /// What, such as `approval.decide`.
    pub action: String,
    pub target: String,
    /// From where: a channel, or `api`.
    pub from: String,
    pub outcome: String,
    /// The tool call that it tells of, if it tells of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<CallAudit>>,
}

crate::records! {
    Audit: "audit", (Timestamp, String), |row| (row.at, row.id.clone());
}

/// A tool call: who made it, what was decided on it, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAudit {
    pub team: TeamName,
    pub task: TaskId,
    pub turn: TurnId,
    /// The tool, as the model named it.
    pub tool: String,
    pub decision: Decision,
    /// What decided that: the operator's rule, or the check that refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub duration_ms: u64,
    /// It did what it was called for.
    pub ok: bool,
    /// The beginning of its arguments, without secrets.
    pub arguments: String,
    /// The beginning of what the model read.
    pub result: String,
}

words! {
    /// Whether a tool call might run.
    pub enum Decision {
        /// By rules, or for want of one.
        Allow = "allow",
        /// A person let it.
        Approve = "approve",
        /// A rule forbids it.
        Deny = "deny",
        /// A person decided against it.
        ApprovalDenied = "approval_denied",
        /// Nobody decided in time.
        ApprovalExpired = "approval_expired",
        /// It does not fit the tool's schema, the team's tools or the sandbox.
        Refuse = "refuse",
    }
}

impl Decision {
    /// What a call's end says of whether it might run; `by_rule` if a rule decided on it.
    pub fn of(fault: Option<ToolFault>, approved: bool, by_rule: bool) -> Self {
        match fault {
            Some(ToolFault::Denied) => Self::Deny,
            // The rule hides the tool from the team.
            Some(ToolFault::NotAvailable) if by_rule => Self::Deny,
            Some(ToolFault::ApprovalDenied) => Self::ApprovalDenied,
            Some(ToolFault::ApprovalExpired) => Self::ApprovalExpired,
            Some(
                ToolFault::InvalidArguments
                | ToolFault::NotAvailable
                | ToolFault::OutsideWorkspace
                | ToolFault::Governance
                | ToolFault::SandboxUnavailable
                | ToolFault::SecretNotAllowed
                | ToolFault::BlockedAddress,
            ) => Self::Refuse,
            _ if approved => Self::Approve,
            _ => Self::Allow,
        }
    }
}

pub(crate) fn beginning(text: &str) -> String {
    text.chars().take(MAX_CHARACTERS).collect()
}

impl Audit {
    pub fn new(
        ids: &Ids,
        at: Timestamp,
        actor: &PrincipalId,
        action: &str,
        target: impl Into<String>,
        from: impl Into<String>,
        outcome: impl Into<String>,
    ) -> Self {
        Self {
            id: format!("{:016x}", ids.bits()),
            at,
            actor: actor.clone(),
            action: action.to_owned(),
            target: target.into(),
            from: from.into(),
            outcome: outcome.into(),
            call: None,
        }
    }

    /// What it has in common with other lines.
    pub fn facet(&self) -> AuditFacet<'_> {
        let call = self.call.as_deref();
        AuditFacet {
            actor: self.actor.as_str(),
            action: &self.action,
            team: call.map(|call| call.team.as_str()),
            tool: call.map(|call| &*call.tool),
            decision: call.map(|call| call.decision.as_str()),
        }
    }

    /// Words in lower case are in who, what, on what, from where or the outcome.
    pub fn has_words(&self, words: &str) -> bool {
        let Self { action, target, from, outcome, actor, .. } = self;
        let mut parts = [actor.as_str(), action, target, from, outcome].into_iter();
        parts.any(|part| part.to_lowercase().contains(words))
    }

    fn is_wanted(&self, wanted: &AuditQuery) -> bool {
        wanted.wants(self.facet())
            && self.at >= wanted.since
            && wanted.until.is_none_or(|until| self.at <= until)
            && wanted.words.as_ref().is_none_or(|words| self.has_words(words))
    }
}
