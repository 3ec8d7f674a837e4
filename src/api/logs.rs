//! Logs: what the service wrote to its log.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};
use crate::{logging::tap::Line, settings::config::Level};

pub const LIST_LOGS: Endpoint<Rows<LogLine>, Empty, LogFilter> =
    get("/api/v1/logs", Read, "Lists what the service wrote to its log in the last 14 days.")
        .sorted(&["-at"])
        .scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct LogFilter {
    /// Only this, and worse.
    #[arg(long, value_parser = words::<Level>())]
    pub level: Option<Level>,
    /// Only about this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<When>,
    /// Only with this in it.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

row! {
    /// A line as answers show it.
    #[derive(Clone)]
    pub struct LogLine from (id, line): (String, Line) {
        /// An event about a line has none.
        #[serde(default)]
        pub id: String = id,
        pub at: Option<Moment> = date(line.at),
        pub level: String = line.level,
        pub target: String = line.target,
        pub message: String = line.message,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub team: Option<String> = text(&line.fields, "team"),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub task_id: Option<String> = text(&line.fields, "task").or(text(&line.fields, "task_id")),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub request_id: Option<String> = text(&line.fields, "request_id"),
        pub fields: Map<String, Value> = line.fields,
    }
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(str::to_owned)
}
