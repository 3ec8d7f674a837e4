//! A command-line agent: how it is started, what it is told, and what the lines mean that it prints.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hivewright_actors::{
    engine::{Block, EngineFailure},
    thinking::Thinking,
};
use serde_json::Value;

use crate::engines::pictures::Picture;

/// What an agent is started for. All paths are as the agent sees them.
#[derive(Clone, Debug)]
pub struct Order {
    pub model: String,
    /// The model is shown pictures.
    pub sees: bool,
    /// How much the model thinks; none leaves it to the model.
    pub thinking: Option<Thinking>,
    /// The whole system prompt.
    pub system: String,
    /// Our tools, by their plain names.
    pub tools: Vec<String>,
    /// An empty folder, where it is started.
    pub workspace: PathBuf,
    /// Its private home. It is gone with the process.
    pub home: PathBuf,
    /// The folder of the files in [`Launch::files`], of this turn.
    pub files: PathBuf,
    /// Where the model API is, without a path: `http://127.0.0.1:4000`.
    pub relay: String,
    /// Stands for this turn, at the relay and at our tools.
    pub token: String,
    /// This program, which as `mcp --socket <socket>` is the MCP server of our tools.
    pub bridge: PathBuf,
    /// Where that finds the service.
    pub socket: PathBuf,
}

/// How an agent is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    pub args: Vec<String>,
    /// Variables beside `PATH`, `HOME`, `TMPDIR`, `LANG` and `TZ`. There are no others.
    pub env: BTreeMap<String, String>,
    /// Files that it reads, with what they hold.
    pub files: Vec<(PathBuf, String)>,
}

/// A kind of agent.
pub trait Program: Send + Sync + 'static {
    /// How it is started for an order.
    fn launch(&self, order: &Order) -> Launch;

    /// What is said to and by one process of it.
    fn dialogue(&self, order: &Order) -> Box<dyn Dialogue>;
}

/// What is said to and by one process. Decides only: no clock, no I/O.
pub trait Dialogue: Send {
    /// What is done first.
    fn open(&mut self) -> Vec<Act>;

    /// It has printed a line, which is JSON.
    fn hear(&mut self, line: Value) -> Vec<Act>;

    /// It is told something, after [`Act::Ready`]: the task of the turn, and later what a person adds.
    fn tell(&mut self, text: &str) -> Vec<Act> {
        self.show(text, &[])
    }

    /// The same with pictures. Who can be given none is told of them in the text.
    fn show(&mut self, text: &str, pictures: &[Picture]) -> Vec<Act>;

    /// Whether it can be told more now. Who is at work and cannot is started anew, with all that was done so far.
    fn takes_more(&self) -> bool {
        true
    }

    /// Its output has ended, before an [`Act::Done`].
    fn ended(&mut self) -> EngineFailure;
}

/// What follows from a line, or from an order.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// A line is written to its input.
    Write(String),
    /// A line is written to its input after a pause.
    WriteLater(Duration, String),
    /// Its input is closed.
    CloseInput,
    /// It can be told something now.
    Ready,
    /// The next piece of text.
    Text(String),
    /// The next piece of reasoning.
    Thinking(String),
    /// A whole block of the model's message. A call is one of our tools, by its plain name, and is not yet made.
    Block(Block),
    /// The model's message is complete, with why it stopped: no more calls of it follow.
    MessageEnd(Option<String>),
    /// What was said of the model's message is void: it is written again.
    Reset,
    /// Something that a person may want to know.
    Note(String),
    /// The model is asked again, with the reason.
    Retry(String),
    /// The turn is over.
    Done(Result<(), EngineFailure>),
}

impl Act {
    /// Writes a line of JSON.
    pub fn write(message: &Value) -> Self {
        Self::Write(message.to_string())
    }
}

/// What the words of a model are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    Text,
    Thinking,
}

impl Speech {
    /// The next piece of it.
    pub fn piece(self, piece: String) -> Act {
        match self {
            Self::Text => Act::Text(piece),
            Self::Thinking => Act::Thinking(piece),
        }
    }

    /// All of it.
    pub fn block(self, text: String) -> Block {
        match self {
            Self::Text => Block::Text { text },
            Self::Thinking => Block::Thinking { text, block: None },
        }
    }
}
