//! Port: what a turn needs to begin: the team's file, its rules, its tools and its model.
#![warn(missing_docs)]

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    budget,
    clock::Timestamp,
    engine::{Engine, SystemPrompt},
    file::FileRef,
    ids::{TaskId, TeamName},
    task::{Label, Lane, Options, TopicRef, outcome::Code},
    thinking::Thinking,
    tool::Toolset,
    words,
};

/// A line of a conversation, as the interaction log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When it was said.
    pub at: Timestamp,
    /// By whom.
    pub speaker: Speaker,
    /// What, cut to the length that the interaction log keeps.
    pub text: String,
    /// How far it may be believed. Rows of earlier versions don't say, so that they aren't.
    #[serde(default = "unknown")]
    pub label: Label,
}

fn unknown() -> Label {
    Label::Untrusted
}

/// Who said a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person, by sender id.
    Person(String),
    /// A team, by name.
    Team(String),
}

/// A text without what must not be seen; none if it may be seen as it is. The same one is handed out until
/// something else must not be seen.
pub type Clean = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The turn to prepare.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Where it runs.
    pub lane: Lane,
    /// Which life of the team it is for.
    pub generation: u32,
    /// The topic it is about.
    pub topic: Option<TopicRef>,
    /// The teams above, root first.
    pub ancestors: Vec<TeamName>,
    /// How the turn differs from others of its team.
    pub options: Options,
    /// The session of a subagent, called by a turn of its team: it sees nothing of that.
    pub inner: bool,
    /// It is a run of a trigger, which says at its end how it went.
    pub reports: bool,
    /// Files to be put into the workspace.
    pub handed: Handed,
}

/// Files that come with a task.
#[derive(Clone, Debug, Default)]
pub struct Handed {
    /// The files.
    pub files: Vec<FileRef>,
    /// The task; none if there are no files.
    pub task: Option<TaskId>,
    /// How far they may be believed.
    pub label: Label,
}

words! {
    /// What happens to a message that arrives while a turn runs.
    #[derive(Default)]
    pub enum QueueMode {
        /// It waits for a turn of its own.
        #[default]
        Queue = "queue",
        /// It joins the running turn before the next model call.
        Steer = "steer",
        /// It ends the running turn and gets the next one.
        Interrupt = "interrupt",
    }
}

/// A prepared turn. All of it stays as it is until the turn ends.
#[derive(Clone)]
pub struct Brief {
    /// What the model is told first.
    pub system: Arc<SystemPrompt>,
    /// What it may call.
    pub tools: Arc<dyn Toolset>,
    /// How far what it is told of its tools may be believed.
    pub label: Label,
    /// What answers.
    pub engine: Arc<dyn Engine>,
    /// The kind of engine, for the journal.
    pub sdk: String,
    /// The model API, for the journal.
    pub provider: String,
    /// The model, for the journal.
    pub model: String,
    /// Names the prompt.
    pub prompt_hash: String,
    /// Names the tool set.
    pub toolset_hash: String,
    /// The most model calls of a turn.
    pub max_steps: u32,
    /// The longest a turn may take.
    pub turn_timeout: Duration,
    /// The longest a turn may stand still.
    pub idle_timeout: Duration,
    /// A conversation of a person in which nothing was said for longer than this begins anew; none if it never does.
    pub conversation_idle: Option<Duration>,
    /// How much the model thinks; none leaves it to the model.
    pub thinking: Option<Thinking>,
    /// What a message during the turn does.
    pub queue_mode: QueueMode,
    /// The budgets that its calls draw on.
    pub budget: budget::Line,
    /// What a call costs.
    pub price: Price,
    /// The most tokens that the model reads at once, with its answer left aside.
    pub room: u64,
    /// What earlier turns are cleaned with before they are shown.
    pub clean: Clean,
    /// The files that come with the task, where they are now.
    pub files: Vec<FileRef>,
}

/// What a call of a model costs, for an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// The most tokens that it writes.
    pub max_output: u64,
    /// USD for a token that it reads.
    pub input_usd: f64,
    /// USD for a token that it writes.
    pub output_usd: f64,
}

/// Why a turn cannot be prepared: names file and field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BriefError {
    /// [`Code::ConfigError`] or [`Code::NoProvider`].
    pub code: Code,
    /// What is wrong where.
    pub message: String,
}

/// Something that the operator has to put right: work waits until then.
#[derive(Clone, Debug)]
pub enum Hindrance {
    /// A turn cannot be prepared; this one, for tasks until then.
    Brief(Box<Assignment>, Timestamp),
    /// No provider takes the credential it is given.
    Login,
}

/// Told of what hinders turns, to find out when it is put right. Cheap, never blocks.
pub type OnHindrance = Arc<dyn Fn(Hindrance) + Send + Sync>;

/// Prepares turns.
pub trait Briefing: Send + Sync + 'static {
    /// Prepares one.
    fn brief(&self, assignment: Assignment) -> BoxFuture<'static, Result<Brief, BriefError>>;
}
