//! Audit: who did what to the service.

use clap::Args;
use hivewright_actors::audit::{Audit, CallAudit, Decision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};

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
    #[command(flatten)]
    #[serde(flatten)]
    pub period: Period,
    /// Only with this in who, what, on what or the outcome.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

row! {
    /// A line as answers show it.
    #[schemars(rename = "AuditLine")]
    pub struct AuditRow from audit: Audit {
        pub id: String = audit.id,
        pub at: Option<Moment> = date(audit.at),
        pub actor: String = audit.actor.to_string(),
        pub action: String = audit.action,
        pub target: String = audit.target,
        pub from: String = audit.from,
        pub outcome: String = audit.outcome,
        /// The tool call that it tells of, if it tells of one.
        pub call: Option<AuditCall> = audit.call.map(|call| AuditCall::from(*call)),
    }
}

row! {
    /// A tool call as a line shows it.
    pub struct AuditCall from call: CallAudit {
        pub team: String = call.team.to_string(),
        pub task_id: String = call.task.to_string(),
        pub turn: String = call.turn.to_string(),
        pub tool: String = call.tool,
        pub decision: Decision = call.decision,
        /// The operator's rule, or the check that refused.
        pub rule: Option<String> = call.rule,
        pub duration_ms: u64 = call.duration_ms,
        pub ok: bool = call.ok,
        /// The first 200 characters.
        pub arguments: String = call.arguments,
        /// The first 200 characters.
        pub result: String = call.result,
    }
}
