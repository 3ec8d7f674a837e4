//! Errors of tools.

use hivewright_actors::tool::ToolFault;
use serde_json::{Value, json};

use crate::{
    sandbox::{process::SandboxError, quota::Excess, workspace::WorkspaceError},
    vault::error::VaultError,
};

/// Why a call has no answer, as the model reads it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    pub fault: ToolFault,
    pub message: String,
    /// The operator's rule that forbids it.
    pub rule: Option<String>,
    /// The message as JSON, where the model reads it so.
    pub refusal: Value,
}

impl ToolError {
    pub fn new(fault: ToolFault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into(), rule: None, refusal: Value::Null }
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolFault::ToolFailed, message)
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ToolFault::InvalidArguments, message)
    }

    /// The call was told to stop; the text is what it has so far. The host says why it stopped.
    pub fn stopped(so_far: impl Into<String>) -> Self {
        Self::new(ToolFault::Cancelled, so_far)
    }

    /// `{"success":false,"error":code,"message":…}`, with further fields.
    pub(super) fn refused(code: &str, message: impl Into<String>, fields: Value) -> Self {
        let mut answer = json!({ "success": false, "error": code, "message": message.into() });
        if let (Value::Object(answer), Value::Object(fields)) = (&mut answer, fields) {
            answer.extend(fields);
        }
        Self { refusal: answer.clone(), ..Self::new(ToolFault::Refused, answer.to_string()) }
    }
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        let fault = match &error {
            WorkspaceError::Outside(_) => ToolFault::OutsideWorkspace,
            WorkspaceError::Governed { .. } | WorkspaceError::ReadOnly(_) => ToolFault::Governance,
            WorkspaceError::NotFound(_) => ToolFault::NotFound,
            WorkspaceError::Invalid { .. } => ToolFault::InvalidArguments,
            WorkspaceError::Denied(_) => ToolFault::Denied,
            WorkspaceError::NotAFile { .. }
            | WorkspaceError::Elsewhere { .. }
            | WorkspaceError::NotAFolder(_)
            | WorkspaceError::Unsettled(_) => ToolFault::Conflict,
            _ => ToolFault::ToolFailed,
        };
        Self::new(fault, error.to_string())
    }
}

impl From<Excess> for ToolError {
    fn from(excess: Excess) -> Self {
        let code = match excess {
            Excess::Quota(_) | Excess::Hidden => "workspace_full",
            Excess::Disk => "disk_full",
        };
        Self::refused(code, excess.to_string(), Value::Null)
    }
}

impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        match &error {
            SandboxError::Unavailable { .. } => {
                Self::new(ToolFault::SandboxUnavailable, error.to_string())
            }
            SandboxError::Start(cause) => Self::failed(format!("{error}: {cause}")),
        }
    }
}

impl From<VaultError> for ToolError {
    fn from(error: VaultError) -> Self {
        match error.code() {
            "internal" => {
                tracing::error!(%error, "the vault failed; the call is refused");
                let message = "the vault cannot be used now; the log says why";
                Self::refused("internal", message, Value::Null)
            }
            code => Self::refused(code, error.to_string(), Value::Null),
        }
    }
}
