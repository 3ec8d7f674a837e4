//! Memories: what teams remember, version by version.

use clap::Args;
use hivewright_actors::ids::{MAIN, MemoryId};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};
use crate::memory::{
    chain::Verdict,
    entry::{Actor, Entry, Key, Kind, Remark, Review},
    inject::Injection,
    provenance::Provenance,
};

pub const LIST_MEMORIES: Endpoint<Rows<MemoryRow>, Empty, MemoryFilter> =
    get("/api/v1/memories", Read, "Lists or searches what teams remember.")
        .description("With `q` the best match is first.")
        .sorted(&["-updated_at", "score"])
        .usually_sorted(|filter| filter.words.is_some().then_some("-score"));

pub const SAVE_MEMORY: Endpoint<Saved<MemoryRow>, Empty, Empty, NewMemory> =
    post("/api/v1/memories", Operate, "Saves a memory for a team.").refuses(&[409]).example(
        r#"{"team": "main", "key": "office", "content": "We are in Berlin.", "type": "context"}"#,
    );

pub const REVIEW_MEMORIES: Endpoint<Data<ReviewedItems>, Empty, Empty, MemoryReviews> = post(
    "/api/v1/memories/review",
    Operate,
    "Approves or rejects several memories, each by itself.",
)
.example(r#"{"items": [{"id": "mem-1", "decision": "reject", "note": "hearsay"}]}"#);

pub const LIST_MEMORY_VERSIONS: Endpoint<Rows<MemoryRow>, ById> =
    get("/api/v1/memories/{id}/chain", Read, "Lists all versions of a memory.")
        .sorted(&["-version"]);

pub const ROLL_BACK_MEMORY: Endpoint<Created<MemoryRow>, ById> = post(
    "/api/v1/memories/{id}/rollback",
    Operate,
    "Brings an earlier version back, as a new one.",
)
.refuses(&[409]);

pub const REVIEW_MEMORY: Endpoint<Data<MemoryRow>, ById, Empty, MemoryReview> = post(
    "/api/v1/memories/{id}/review",
    Operate,
    "Approves a memory that waits for a person, in other words if need be, or rejects it.",
)
.refuses(&[409])
.example(r#"{"decision": "approve", "content": "We are in Hamburg."}"#);

pub const PIN_MEMORY: Endpoint<Data<MemoryRow>, ById, Empty, MemoryPin> = post(
    "/api/v1/memories/{id}/pin",
    Operate,
    "Puts a memory before others of its type in prompts, or no longer.",
)
.refuses(&[409])
.example(r#"{"pinned": true}"#);

pub const SHOW_MEMORY: Endpoint<Data<MemoryRow>, ById> =
    get("/api/v1/memories/{id}", Read, "Shows a version of a memory, whole.");

pub const CORRECT_MEMORY: Endpoint<Data<MemoryRow>, ById, Empty, MemoryCorrection> =
    patch("/api/v1/memories/{id}", Operate, "Corrects a memory, as a new version.")
        .refuses(&[409])
        .example(r#"{"content": "We are in Hamburg.", "supersede_reason": "moved"}"#);

pub const END_MEMORY: Endpoint<Done, ById, MemoryEnd> =
    delete("/api/v1/memories/{id}", Operate, "Ends a memory: it is kept, and no longer counts.")
        .refuses(&[409]);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct MemoryFilter {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only under this key.
    #[arg(skip)]
    pub key: Option<String>,
    /// Only of this type.
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<Kind>())]
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Only in this state of review.
    #[arg(long, value_parser = words::<Review>())]
    pub review: Option<Review>,
    /// Only versions that count, or others.
    #[arg(skip)]
    pub active: Option<bool>,
    /// Only with some of these words.
    #[arg(long = "query", alias = "search", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

row! {
    /// A version as answers show it.
    #[schemars(rename = "Memory")]
    pub struct MemoryRow from entry: &Entry {
        pub id: MemoryId = entry.id.clone(),
        pub team: String = entry.team.name.to_string(),
        pub generation: u32 = entry.team.generation,
        #[schemars(with = "String")]
        pub key: Key = entry.key.clone(),
        pub version: u32 = entry.version,
        #[serde(rename = "type")]
        pub kind: Kind = entry.kind,
        /// Whole where one version is shown.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub content: Option<String> = None,
        /// The beginning, or the part that was found, in lists.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub snippet: Option<String> = None,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub score: Option<f64> = None,
        pub active: bool = entry.active,
        /// It waits to take the place of the active version.
        pub proposal: bool = entry.is_proposal(),
        pub review: Review = entry.review,
        pub reviewed: Option<MemoryRemark> = entry.reviewed.as_ref().map(MemoryRemark::from),
        pub pinned: bool = entry.pinned,
        pub expires_at: Option<Moment> = entry.expires_at.and_then(date),
        pub ended: Option<MemoryRemark> = entry.ended.as_ref().map(MemoryRemark::from),
        pub supersedes_id: Option<MemoryId> = entry.supersedes_id.clone(),
        pub supersede_reason: Option<String> = entry.supersede_reason.clone(),
        pub provenance: Provenance = entry.provenance.clone(),
        pub sources: Vec<String> = entry.sources.clone(),
        #[schemars(with = "String")]
        pub updated_by: Actor = entry.updated_by.clone(),
        pub created_at: Option<Moment> = date(entry.created_at),
        pub updated_at: Option<Moment> = date(entry.updated_at),
        /// Whether the next prompt holds it, and if not, why.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub injection: Option<Injection> = None,
        /// The version that a proposal would replace.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub current: Option<MemoryCurrent> = None,
        /// It was so already.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub unchanged: bool = false,
    }
}

row! {
    /// Who did something, when and why.
    pub struct MemoryRemark from remark: &Remark {
        pub at: Option<Moment> = date(remark.at),
        #[schemars(with = "String")]
        pub by: Actor = remark.by.clone(),
        pub note: Option<String> = remark.note.clone(),
    }
}

/// The version that counts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryCurrent {
    pub id: MemoryId,
    pub content: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct NewMemory {
    /// What to remember it under.
    pub key: String,
    /// What to remember; `-` reads it from standard input.
    #[schemars(description = "What to remember.")]
    pub content: String,
    /// For which team.
    #[arg(long, default_value = MAIN)]
    pub team: String,
    /// Its type.
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<Kind>())]
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Why it replaces what is there; needed if there is something.
    #[arg(long = "reason", value_name = "REASON")]
    pub supersede_reason: Option<String>,
    /// When it ends, such as 2026-01-31T12:00:00Z.
    #[arg(long = "expires", value_name = "DATE")]
    pub expires_at: Option<Moment>,
    #[arg(skip)]
    #[serde(default)]
    pub sources: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct MemoryCorrection {
    /// Another content; `-` reads it from standard input.
    #[arg(long)]
    #[schemars(description = "Another content.")]
    pub content: Option<String>,
    /// Another type.
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<Kind>())]
    #[serde(rename = "type")]
    pub kind: Option<Kind>,
    /// Why.
    #[arg(long = "reason", value_name = "REASON")]
    pub supersede_reason: Option<String>,
    /// Null takes the end away.
    #[arg(skip)]
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Option<Moment>>,
}

/// Tells null from nothing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<Moment>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct MemoryEnd {
    /// Why.
    #[arg(long)]
    pub note: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReview {
    pub decision: Verdict,
    /// Approves it in these words instead of its own.
    pub content: Option<String>,
    pub note: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReviews {
    /// One to a hundred decisions.
    #[schemars(length(min = 1, max = 100))]
    pub items: Vec<MemoryReviewItem>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MemoryReviewItem {
    pub id: String,
    #[serde(flatten)]
    pub review: MemoryReview,
}

/// What came of several decisions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReviewedItems {
    /// In the order in which they were sent.
    pub items: Vec<ReviewedItem>,
}

/// What came of one of several decisions.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReviewedItem {
    pub id: String,
    /// What a request for this alone would have been answered with.
    pub status: u16,
    pub memory: Option<MemoryRow>,
    pub error: Option<ItemError>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPin {
    pub pinned: bool,
}
