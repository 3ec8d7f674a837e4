//! Search: what was said, done and answered, by its words.

use clap::Args;
use hivewright_actors::{
    ids::{TaskId, TeamName},
    search::Part,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};

/// The longest query, in characters.
pub const LONGEST_QUERY: usize = 500;

pub const SEARCH_HISTORY: Endpoint<Matches<SearchHit>, Empty, SearchFilter> =
    get("/api/v1/search", Read, "Finds what was said, done and answered by its words.")
        .description(
            "All words have to occur in a record; case and accents do not count. `\"a phrase\"` are words that follow \
             one another, `inv*` is the beginning of a word; nothing else has a meaning. Found are tasks that have \
             ended, tool calls and their results, what a model said on the way, and notifications; of a \
             long record its first 64 KiB.",
        )
        .sorted(&["-at"])
        .scrubbed();

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct SearchFilter {
    /// What to find: words, "a phrase", the beginning of a word*.
    #[arg(value_name = "WORDS")]
    #[serde(rename = "q")]
    #[schemars(length(min = 1, max = LONGEST_QUERY))]
    pub words: String,
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub period: Period,
}

/// Something that was found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    /// What it is.
    pub part: Part,
    pub team: TeamName,
    pub at: Option<Moment>,
    /// The task that it belongs to, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The session whose transcript shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its event in that session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The words around what was found; `…` stands for what is left out.
    pub excerpt: String,
    /// Where in the excerpt they stand that were found.
    pub marks: Vec<SearchMark>,
}

/// A part of an excerpt, counted in characters (Unicode scalar values).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchMark {
    pub start: usize,
    /// The first character behind it.
    pub end: usize,
}
