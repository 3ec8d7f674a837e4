//! Audit: who did what to the service.

use clap::Args;
use hivewright_actors::audit::Decision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::When};

pub const LIST_AUDIT: Endpoint<Rows<AuditRow>, Empty, AuditFilter> =
    get("/api/v1/audit", Admin, "Lists who did what to the service.").sorted(&["-at"]).scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct AuditFilter {
    /// Only what they did: the name of a token, or `operator`.
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Only this, such as `tokens.create`, or all of a kind, such as `tokens`.
    #[arg(long)]
    pub action: Option<String>,
    /// Only tool calls of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only calls of this tool.
    #[arg(long)]
    pub tool: Option<String>,
    /// Only tool calls on which this was decided.
    #[arg(long, value_parser = words::<Decision>())]
    pub decision: Option<Decision>,
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long)]
    pub since: Option<When>,
    /// Only until such a moment.
    #[arg(long)]
    pub until: Option<When>,
    /// Only with this in who, what, on what or the outcome.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

/// A line as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditLine")]
pub struct AuditRow {
    pub id: String,
    pub at: Option<String>,
    pub actor: String,
    pub action: String,
    pub target: String,
    pub from: String,
    pub outcome: String,
    /// The tool call that it tells of, if it tells of one.
    pub call: Option<AuditCall>,
}

/// A tool call as a line shows it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AuditCall {
    pub team: String,
    pub task_id: String,
    pub turn: String,
    pub tool: String,
    pub decision: Decision,
    /// The operator's rule, or the check that refused.
    pub rule: Option<String>,
    pub duration_ms: u64,
    pub ok: bool,
    /// The first 200 characters.
    pub arguments: String,
    /// The first 200 characters.
    pub result: String,
}
