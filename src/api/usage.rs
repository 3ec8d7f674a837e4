//! Usage: what model calls have come to, and what teams may spend.

use clap::Args;
use hivewright_actors::{
    budget::{Caps, Spent, Tally},
    ids::TeamName,
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};

pub const LIST_USAGE: Endpoint<Rows<UsageRow>, Empty, UsageFilter> =
    get("/api/v1/usage", Read, "Says what model calls have come to.")
        .description("The most expensive come first, days in their order.")
        .sorted(&["-usd", "key", "requests"])
        .usually_sorted(|filter| (filter.group == UsageGroup::Day).then_some("key"));

pub const LIST_BUDGETS: Endpoint<Rows<BudgetRow>> =
    get("/api/v1/usage/budgets", Read, "Lists what teams may spend, and have spent today.")
        .sorted(&["team"]);

pub const EXPORT_USAGE: Endpoint<Csv, Empty, UsageFilter> =
    get("/api/v1/usage/export", Read, "Sends all rows of the list of usage, for spreadsheets.")
        .description(
            "In the usual order of the list, with the names of its fields above. A text that a \
             spreadsheet would take for a formula has an apostrophe before it.",
        );

words! {
    /// What calls are told apart by.
    #[derive(Default)]
    pub enum UsageGroup {
        #[default]
        Team = "team",
        Profile = "profile",
        Model = "model",
        Day = "day",
        Task = "task",
        /// What calls were for: turns, or questions about topics and their titles.
        Purpose = "purpose",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct UsageFilter {
    /// What calls are told apart by.
    #[arg(long = "by", value_name = "GROUP", default_value_t, value_parser = words::<UsageGroup>())]
    pub group: UsageGroup,
    /// The first day, such as 2026-01-31, or so long ago, such as 7d.
    #[arg(long, value_name = "DAY")]
    pub from: Option<OnDay>,
    /// The last day.
    #[arg(long, value_name = "DAY")]
    pub to: Option<OnDay>,
}

/// What calls of one kind have come to.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub struct UsageRow {
    /// The name of a team, a profile, a model or a task, a day, or `turns`, `topics`, `titles`.
    pub key: String,
    #[serde(flatten)]
    pub tally: Tally,
    /// Which part of what was read came from the cache.
    pub cached_share: f64,
}

/// What a team may spend, and has.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Budget")]
pub struct BudgetRow {
    pub team: TeamName,
    pub caps: Caps,
    /// By it and all teams below it, today.
    pub spent: Spent,
}
