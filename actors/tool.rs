//! Port: the tools of a turn.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ids::{CallId, TeamName, TurnId};

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSpec {
    /// The name on the wire.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's name for this call, unique in its turn.
    pub id: CallId,
    /// The tool, as the model wrote it.
    pub name: String,
    /// Its arguments.
    pub args: Args,
}

/// Arguments as the model wrote them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Args {
    /// Text that is not JSON, with what is wrong where.
    Unreadable {
        /// The text.
        unreadable: String,
        /// The reason, with its position.
        reason: String,
    },
    /// JSON, not yet checked against the tool's schema.
    Json(Value),
}

/// What running a tool again would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing: it only looks.
    Pure,
    /// The same as running it once, given the same key.
    Idempotent,
    /// Harm.
    Irreversible,
}

/// What is known of a call before it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// What running it again would do.
    pub effect: Effect,
    /// It must not run beside another call of the same step.
    pub exclusive: bool,
    /// The longest it may take.
    pub limit: Duration,
}

/// Why a call failed, for the model and for code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolFault {
    /// The arguments don't fit the schema.
    InvalidArguments,
    /// There is no such tool for this team.
    NotAvailable,
    /// It took too long.
    Timeout,
    /// The turn was stopped.
    Cancelled,
    /// What was named is not there.
    NotFound,
    /// The state of things does not allow it.
    Conflict,
    /// The path leads out of the team's folders.
    OutsideWorkspace,
    /// The path is not the team's to write.
    Governance,
    /// The machine cannot confine the tool.
    SandboxUnavailable,
    /// The tool itself failed.
    ToolFailed,
    /// The process stopped during the call.
    UnknownOutcome,
}

impl ToolFault {
    /// As the model and the journal read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArguments => "invalid_arguments",
            Self::NotAvailable => "not_available",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::OutsideWorkspace => "outside_workspace",
            Self::Governance => "governance",
            Self::SandboxUnavailable => "sandbox_unavailable",
            Self::ToolFailed => "tool_failed",
            Self::UnknownOutcome => "unknown_outcome",
        }
    }
}

/// What a tool answers, ready for the model: scrubbed and cut to size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// The text.
    pub content: String,
    /// Why it failed, if it did.
    pub fault: Option<ToolFault>,
    /// The text was cut.
    pub truncated: bool,
}

impl ToolReply {
    /// A failure in words.
    pub fn failed(fault: ToolFault, message: impl Into<String>) -> Self {
        Self {
            content: message.into(),
            fault: Some(fault),
            truncated: false,
        }
    }
}

/// Who calls, for a tool. Nothing in it comes from the model.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The calling team.
    pub team: TeamName,
    /// The calling turn.
    pub turn: TurnId,
    /// The same for every try of this call.
    pub idempotency_key: String,
    /// An earlier try may have taken effect.
    pub rerun: bool,
    /// Asks the tool to stop. Children it started end within two seconds of it.
    pub cancel: CancellationToken,
}

/// The tools of one turn: filtered for the team, bound to its folders, fixed when the turn starts.
pub trait Toolset: Send + Sync + 'static {
    /// What the model is told, in a fixed order.
    fn specs(&self) -> Arc<[ToolSpec]>;

    /// Looks at a call without running it. A refusal is the call's result.
    fn check(&self, call: &ToolCall) -> Result<Checked, ToolReply>;

    /// Runs a call that passed [`Toolset::check`].
    ///
    /// Dropping the future is the hard stop: a tool that holds a child process kills it on drop.
    fn run(&self, call: ToolCall, cx: CallContext) -> BoxFuture<'static, ToolReply>;
}
