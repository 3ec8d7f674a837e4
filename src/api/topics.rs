//! Topics: conversations of all channels.

use clap::Args;
use hivewright_actors::{
    frame::TopicState,
    ids::{ChannelId, TopicId},
    live::turns::ActiveTurn,
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::*};

pub const LIST_TOPICS: Endpoint<Rows<TopicRow>, Empty, TopicFilter> =
    get("/api/v1/topics", Read, "Lists conversations of all channels.").sorted(&[
        "-last_activity",
        "-created_at",
        "name",
    ]);

pub const SHOW_TOPIC: Endpoint<Data<TopicRow>, ById> =
    get("/api/v1/topics/{id}", Read, "Shows a topic.");

pub const SHOW_RUNNING_TURN: Endpoint<Data<Option<RunningTurn>>, ById> = get(
    "/api/v1/topics/{id}/live",
    Read,
    "Shows the turn under way in a topic; null if there is none.",
)
.scrubbed();

pub const CHANGE_TOPIC: Endpoint<Data<TopicRow>, ById, Empty, TopicChange> = patch(
    "/api/v1/topics/{id}",
    Operate,
    "Renames a topic, pins it, chooses its model, closes it, or opens it again.",
)
.refuses(&[409])
.example(r#"{"name": "billing", "state": "done"}"#);

pub const DELETE_TOPIC: Endpoint<Done, ById> =
    delete("/api/v1/topics/{id}", Operate, "Deletes a topic for good, with what was said in it.")
        .description(
            "So are the topics that have a `branch` of it. Refused while there is work for it or a \
             question of it is open. What it cost stays, and who decided on what; so do files, \
             memories, and what other teams did for it.",
        )
        .refuses(&[409])
        .recorded();

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TopicFilter {
    /// Only of this channel, or of channels of this type.
    #[arg(long)]
    pub channel: Option<String>,
    /// Only in this state.
    #[arg(long, value_parser = flags::words::<TopicState>())]
    pub state: Option<TopicState>,
    /// Only with this in the name.
    #[serde(rename = "q")]
    #[arg(long = "query", alias = "words", value_name = "WORDS")]
    pub words: Option<String>,
}

/// A topic as answers show it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Topic")]
pub struct TopicRow {
    pub id: TopicId,
    pub channel_id: ChannelId,
    pub channel_type: String,
    pub name: String,
    pub state: TopicState,
    /// It stands before the others.
    pub pinned: bool,
    pub created_at: Option<Moment>,
    pub last_activity: Option<Moment>,
    /// Messages that wait in it.
    pub queued: usize,
    /// A turn runs in it.
    pub running: bool,
    /// The profile whose model answers in it, if not the team's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub session_id: String,
}

words! {
    /// The states that a topic can be given.
    #[schemars(rename = "TopicWish")]
    pub enum WantedState {
        Active = "active",
        Done = "done",
    }
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TopicChange {
    pub name: Option<String>,
    /// `done` closes it with what runs in it, which is to archive it; `active` opens it again.
    pub state: Option<WantedState>,
    /// Whether it stands before the others. Closing it ends that.
    pub pinned: Option<bool>,
    /// The profile whose model answers from the next message on; an empty one is the team's.
    pub profile: Option<String>,
}

/// A turn under way.
#[derive(Serialize, JsonSchema)]
pub struct RunningTurn {
    /// The process that `seq` is of.
    pub boot: u64,
    #[serde(flatten)]
    pub turn: ActiveTurn,
    /// Where in its text and thinking the present step begins, in units of UTF-16: what is taken
    /// back goes back to here.
    pub step_begins: StepBegins,
}

/// A place in the text and one in the thinking of a turn.
#[derive(Serialize, JsonSchema)]
pub struct StepBegins {
    pub text: usize,
    pub thinking: usize,
}

impl RunningTurn {
    pub fn new(boot: u64, turn: ActiveTurn) -> Self {
        let (text, thinking) = turn.step_begins();
        Self { boot, turn, step_begins: StepBegins { text, thinking } }
    }
}
