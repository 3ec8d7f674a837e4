//! Approvals: calls that wait for a person, and what became of them.

use std::str::FromStr;

use clap::Args;
use hivewright_actors::{
    approvals::{
        grants::MOST_USES,
        record::{self, Approval, Choice, Execution, Resolution, Status},
    },
    policy::caution::{Kind, Risk},
    task::{Label, Lane, Lineage, cause::Cause},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{endpoint::*, flags::words, grants::GrantCovers, reply::*, scope::Scope::*, when::*};

pub const LIST_APPROVALS: Endpoint<Rows<ApprovalRow>, Empty, ApprovalFilter> =
    get("/api/v1/approvals", Read, "Lists calls that wait for a person, and what became of them.")
        .sorted(&["created_at", "expires_at"]);

pub const DECIDE_SEVERAL: Endpoint<Data<DecidedItems>, Empty, Empty, ApprovalDecisions> =
    post("/api/v1/approvals/batch", Approve, "Decides on several calls, each by itself.")
        .description("Each item succeeds or fails alone, and has its own answer.")
        .example(r#"{"items": [{"id": "bcdfgh", "decision": "deny", "digest": "…"}]}"#);

pub const SHOW_APPROVAL: Endpoint<Data<ApprovalRow>, ById> =
    get("/api/v1/approvals/{id}", Read, "Shows an approval, named by its id or its short id.");

pub const DECIDE: Endpoint<Data<ApprovalRow>, ById, Empty, ApprovalDecision> =
    post("/api/v1/approvals/{id}", Approve, "Approves a call, or denies it.")
        .description(
            "`digest` repeats what was shown: if the call has changed since, nothing is \
             decided. A note reaches the team. With `uses` the approval is good for more \
             calls than this one: those that equal the row's `grant` in everything. \
             `always` needs the scope `admin` too. At high risk whoever caused the call does not \
             decide, unless nobody else could: then `confirm` repeats its short id.",
        )
        .refuses(&[409, 422])
        .recorded()
        .example(r#"{"decision": "deny", "digest": "…", "note": "not on a Friday"}"#);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct ApprovalFilter {
    /// Only with this status.
    #[arg(long, default_value = "pending", value_parser = words::<Status>())]
    pub status: Option<Status>,
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only of this kind.
    #[arg(long, value_parser = words::<Kind>())]
    pub kind: Option<Kind>,
}

row! {
    /// An approval as answers show it.
    #[schemars(rename = "Approval")]
    pub struct ApprovalRow from approval: Approval {
        pub id: String = approval.id.to_string(),
        /// Six letters for people.
        pub short_id: String = approval.short_id,
        pub kind: Kind = approval.kind,
        pub team: String = approval.team.name.to_string(),
        pub generation: u32 = approval.team.generation,
        pub session: Option<String> = approval.lane.map(session_of),
        pub turn: Option<String> = approval.turn.map(|turn| turn.to_string()),
        pub task_id: Option<String> = approval.task.map(|task| task.to_string()),
        /// Who is behind it.
        pub requester: Cause = approval.requester,
        pub tool: Option<String> = approval.tool,
        /// The final arguments, without secrets.
        pub arguments: Value = approval.arguments,
        pub cwd: Option<String> = approval.cwd,
        /// Names of the secrets that it would use.
        pub secrets: Vec<String> = approval.secrets.into_keys().collect(),
        /// What would happen, in one sentence.
        pub summary: String = approval.summary,
        pub diff: Option<String> = approval.diff,
        /// The rule that asks.
        pub rule: Option<String> = approval.rule,
        pub risk: Risk = approval.risk,
        pub label: Label = approval.label,
        pub lineage: Option<Lineage> = approval.lineage,
        /// Stands for everything that is decided on.
        pub digest: String = approval.digest,
        pub status: Status = approval.status,
        pub resolution: Option<Resolution> = approval.resolution,
        pub votes: Vec<Vote> = approval.votes.into_iter().map(Vote::from).collect(),
        pub resolved_by: Option<String> = approval.resolved_by,
        pub resolved_via: Option<String> = approval.resolved_via,
        /// Whoever caused it decided, since nobody else could.
        pub alone: bool = approval.alone,
        pub note: Option<String> = approval.note,
        pub created_at: Option<Moment> = date(approval.created_at),
        pub expires_at: Option<Moment> = date(approval.expires_at),
        /// Milliseconds until nobody can decide any more.
        pub time_left_ms: Option<u64> = None,
        pub resolved_at: Option<Moment> = approval.resolved_at.and_then(date),
        /// What became of the call.
        pub execution: Execution = approval.execution,
        /// What would be granted beyond this one call by `uses` or `always`; null if nothing can be.
        pub grant: Option<GrantCovers> = None,
    }
}

impl ApprovalRow {
    /// The tool that would be used, or what else is asked for.
    pub fn what(&self) -> &str {
        self.tool.as_deref().unwrap_or(self.kind.as_str())
    }
}

fn session_of(lane: Lane) -> String {
    match lane.topic {
        Some(topic) => format!("{}/{topic}", lane.team),
        None => lane.team.to_string(),
    }
}

row! {
    /// One person's word.
    pub struct Vote from vote: record::Vote {
        pub by: String = vote.by,
        pub choice: Choice = vote.choice,
        pub at: Option<Moment> = date(vote.at),
    }
}

/// For how many calls an approval is good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ApprovalUses {
    /// So many, within 24 hours.
    Number(u32),
    /// `always`.
    Word(Always),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Always {
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("expected a number from 1 to {MOST_USES}, or `always`")]
pub struct NotUses;

impl FromStr for ApprovalUses {
    type Err = NotUses;

    fn from_str(text: &str) -> Result<Self, NotUses> {
        match text.parse::<u32>() {
            _ if text == "always" => Ok(Self::Word(Always::Always)),
            Ok(count) if (1..=MOST_USES).contains(&count) => Ok(Self::Number(count)),
            _ => Err(NotUses),
        }
    }
}

impl From<ApprovalUses> for Resolution {
    fn from(uses: ApprovalUses) -> Self {
        match uses {
            ApprovalUses::Number(1) => Self::Once,
            ApprovalUses::Number(number) => Self::Uses(number),
            ApprovalUses::Word(Always::Always) => Self::Always,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalDecision {
    pub decision: Choice,
    /// As it was shown.
    pub digest: String,
    /// For how many calls like this: one, if it is not given.
    #[serde(default)]
    pub uses: Option<ApprovalUses>,
    /// For the team.
    #[serde(default)]
    #[schemars(length(max = 2_000))]
    pub note: Option<String>,
    /// The short id, typed by whoever caused the call and decides since nobody else could.
    #[serde(default)]
    pub confirm: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ApprovalDecisions {
    /// One to a hundred decisions.
    #[schemars(length(min = 1, max = 100))]
    pub items: Vec<ApprovalDecisionItem>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ApprovalDecisionItem {
    /// The approval, by its id or its short id.
    pub id: String,
    #[serde(flatten)]
    pub decision: ApprovalDecision,
}

/// What came of several decisions.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DecidedItems {
    /// In the order in which they were sent.
    pub items: Vec<DecidedItem>,
}

/// What came of one of several decisions.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct DecidedItem {
    pub id: String,
    /// What a request for this alone would have been answered with.
    pub status: u16,
    pub approval: Option<ApprovalRow>,
    pub error: Option<ItemError>,
}
