//! Sessions: what was said and done, as transcripts.

use clap::{ArgAction::SetTrue, Args};
use hivewright_actors::{
    ids::{TaskId, TeamName, TopicId},
    journal::sessions::Session,
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    endpoint::*,
    flags::{switch, words},
    page::USUAL_LIMIT,
    reply::*,
    scope::Scope::*,
    transcript::Message,
    when::*,
};

pub const LIST_SESSIONS: Endpoint<Rows<SessionRow>, Empty, SessionFilter> =
    get("/api/v1/sessions", Read, "Lists journals, the one used last first.")
        .sorted(&["-updated_at"]);

pub const SHOW_HISTORY: Endpoint<Bare<Transcript>, ById, HistoryFilter> = get(
    "/api/v1/sessions/{id}/history",
    Read,
    "Shows a part of what was said and done, oldest first.",
)
.description(
    "Without a place these are the newest messages. `next_after` goes on with what \
     comes then, `prev_before` with what came before; that is null at the beginning. The \
     message of a turn that has only begun is `pending`: `next_after` does not count it.",
)
.scrubbed();

pub const EXPORT_SESSION: Endpoint<Lines, ById> =
    get("/api/v1/sessions/{id}/export", Read, "Sends a whole transcript, one JSON object a line.");

pub const RESET_SESSION: Endpoint<Data<SessionRow>, ById> = post(
    "/api/v1/sessions/{id}/reset",
    Operate,
    "Begins a conversation anew: the model is not shown what was said before.",
)
.description("The journal keeps everything. Not while a turn runs in the session.")
.refuses(&[409]);

pub const COMPACT_SESSION: Endpoint<Accepted<CompactionTask>, ById> = post(
    "/api/v1/sessions/{id}/compact",
    Operate,
    "Has a conversation summarised, for the model to be shown less of it.",
)
.description(
    "It is work of the team, after the turn that runs: the outcome of the task says how \
     many tokens there were and are. The last 16 messages stay as they are, and the \
     journal keeps everything.",
)
.refuses(&[409, 503]);

pub const SHOW_TEAM_HISTORY: Endpoint<Bare<Transcript>, ByName, TeamHistoryFilter> = get(
    "/api/v1/teams/{name}/history",
    Read,
    "Shows a part of what a team said and did, oldest first.",
)
.description("Without a session it is the one that was used last.")
.scrubbed();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct SessionFilter {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
    /// Only of this topic.
    #[arg(long, value_name = "ID")]
    pub topic: Option<String>,
    /// Only those used since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<When>,
}

words! {
    /// How much of a transcript is shown.
    #[derive(Default)]
    pub enum View {
        /// What was said.
        #[default]
        Simple = "simple",
        /// All.
        Full = "full",
    }
}

words! {
    /// In which order.
    #[derive(Default)]
    pub enum Layout {
        /// As it happened.
        #[default]
        Ordered = "ordered",
        /// One message of the model for each turn.
        Grouped = "grouped",
    }
}

/// The last event that can be named: beyond it, numbers in JSON are not exact.
const LAST_EVENT: u64 = (1 << 53) - 1;

// A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct HistoryFilter {
    /// Also tool calls, their results, and reasoning.
    #[arg(long = "full", action = SetTrue, value_parser = switch(View::Simple, View::Full))]
    #[schemars(description = "Only what was said, or all.")]
    pub view: View,
    /// As it happened, or one message of the model for each turn.
    #[arg(long, default_value_t, value_parser = words::<Layout>())]
    pub layout: Layout,
    /// Only what comes after this event.
    #[arg(long, value_name = "NUMBER")]
    #[schemars(range(max = LAST_EVENT))]
    pub after: Option<u64>,
    /// Only what came before this event.
    #[arg(long, value_name = "NUMBER", conflicts_with = "after")]
    #[schemars(range(max = LAST_EVENT))]
    pub before: Option<u64>,
    /// The most messages, 1 to 200.
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_LIMIT)]
    #[schemars(range(min = 1, max = 200))]
    pub limit: usize,
}

impl Default for HistoryFilter {
    fn default() -> Self {
        Self {
            view: View::default(),
            layout: Layout::default(),
            after: None,
            before: None,
            limit: USUAL_LIMIT,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TeamHistoryFilter {
    #[serde(flatten)]
    pub part: HistoryFilter,
    /// In this session.
    pub session_id: Option<String>,
    /// In the session `main` or `topic:<id>`.
    pub session_key: Option<String>,
}

row! {
    /// A session as answers show it.
    #[schemars(rename = "Journal")]
    pub struct SessionRow from session: Session {
        pub id: String = session.lane.session_id(session.generation),
        pub team: TeamName = session.lane.team,
        /// How often the name of the team was given.
        pub generation: u32 = session.generation,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub topic_id: Option<TopicId> = session.lane.topic,
        pub created_at: Moment = Moment(session.created_at),
        pub updated_at: Moment = Moment(session.updated_at),
        pub events: u64 = session.events,
    }
}

/// A part of a transcript.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Transcript {
    /// Oldest first.
    pub data: Vec<Message>,
    pub session: SessionRow,
    /// What comes next comes after this event.
    pub next_after: u64,
    /// What came before is before this event; null at the beginning.
    pub prev_before: Option<u64>,
}

/// The work of summarising a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CompactionTask {
    pub task_id: TaskId,
    pub session_id: String,
}
