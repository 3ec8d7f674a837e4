//! Live event: the vocabulary of what watchers are told. Never a whole transcript, never a secret.

#![allow(missing_docs, reason = "the names of most fields say it")]

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    clock::Timestamp,
    ids::{CallId, ChannelId, FileId, MessageId, TaskId, TeamName, TopicId, TurnId},
    task::{
        Kind as TaskKind, Priority, TaskState, WaitReason,
        outcome::{Code, Ending},
    },
    text,
    text::{Text, Words, quoted},
    usage::Usage,
    words,
};

/// So much of what somebody said is shown, in characters.
pub const SAID: usize = 2_000;

words! {
    /// What an event is about.
    #[schemars(rename = "EventKind")]
    pub enum Kind {
        /// A turn: see [`Moment`].
        Turn = "turn",
        /// A team was made, changed or shut down.
        TeamChanged = "team.changed",
        /// A task was accepted, runs, waits or has ended.
        TaskChanged = "task.changed",
        /// Nothing moved in a task for too long.
        TaskStalled = "task.stalled",
        /// Something was said in a channel.
        Message = "message",
        /// A topic was opened, renamed or closed.
        TopicChanged = "topic.changed",
        /// Connections of a channel came or went.
        ChannelChanged = "channel.changed",
        /// An approval was asked for, decided or carried out.
        ApprovalChanged = "approval.changed",
        /// A question was asked or answered.
        QuestionChanged = "question.changed",
        /// The operator's inbox has something new, or something was read.
        InboxChanged = "inbox.changed",
        /// A trigger was made, changed or removed.
        TriggerChanged = "trigger.changed",
        /// A trigger fired, or a run of it ended.
        TriggerRun = "trigger.run",
        /// A team remembers something else.
        MemoryChanged = "memory.changed",
        /// The vault holds something else.
        VaultChanged = "vault.changed",
        /// An MCP server of a team started, ended or failed.
        McpChanged = "mcp.changed",
        /// A plugin of a team stands otherwise.
        PluginChanged = "plugin.changed",
        /// A team has spent something.
        UsageChanged = "usage.changed",
        /// Settings files were read again, or a file of a team is another one.
        ConfigReloaded = "config.reloaded",
        /// A settings file is wrong.
        ConfigInvalid = "config.invalid",
        /// Long work has come further.
        JobProgress = "job.progress",
        /// A line of the log.
        Log = "log",
        /// The service is about to stop.
        Drain = "drain",
        /// Events are missing here. Only the stream of one watcher has these.
        Gap = "gap",
    }
}

/// Some kinds, as a query names them: with commas between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub Vec<Kind>);

text!(Kinds);

impl Text for Kinds {
    const FORMAT: &'static str = "event-types";
    const PATTERN: &'static str = "^[a-z.]+( *, *[a-z.]+)*$";
    const EXAMPLES: &'static [&'static str] = &["turn,task.changed"];
}

/// A text in which something is no kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected some of {}, with commas between them", quoted(Kind::WORDS))]
pub struct NotKinds;

impl FromStr for Kinds {
    type Err = NotKinds;

    fn from_str(text: &str) -> Result<Self, NotKinds> {
        let kinds = text.split(',').map(|word| word.trim().parse::<Kind>());
        kinds.collect::<Result<_, _>>().map(Self).map_err(|_| NotKinds)
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.0.iter().map(|kind| kind.as_str()).collect();
        f.write_str(&words.join(","))
    }
}

/// Something that happened. Its number and time are given when it is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub kind: Kind,
    pub team: Option<TeamName>,
    pub topic: Option<TopicId>,
    pub task: Option<TaskId>,
    pub data: Data,
}

impl Event {
    /// Something for which there is no type of its own.
    pub fn new(kind: Kind, data: Value) -> Self {
        Self { kind, team: None, topic: None, task: None, data: Data::Json(data) }
    }

    pub fn of_team(mut self, team: &TeamName) -> Self {
        self.team = Some(team.clone());
        self
    }

    pub fn of_topic(mut self, topic: Option<&TopicId>) -> Self {
        self.topic = topic.cloned();
        self
    }

    pub fn of_task(mut self, task: Option<&TaskId>) -> Self {
        self.task = task.cloned();
        self
    }

    /// A turn of a lane.
    pub fn turn(
        team: &TeamName,
        topic: Option<&TopicId>,
        task: Option<&TaskId>,
        turn: &TurnId,
        moment: Moment,
    ) -> Self {
        Self {
            kind: Kind::Turn,
            team: Some(team.clone()),
            topic: topic.cloned(),
            task: task.cloned(),
            data: Data::Turn(Box::new(TurnEvent { turn: turn.clone(), moment })),
        }
    }

    /// It is the first that a watcher goes without: what it says can be read again elsewhere.
    pub fn is_passing(&self) -> bool {
        match &self.data {
            Data::Turn(event) => matches!(event.moment, Moment::Stream { .. }),
            _ => self.kind == Kind::Log,
        }
    }
}

/// What happened, by type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Data {
    Turn(Box<TurnEvent>),
    Task(Box<TaskChange>),
    Message(Box<Said>),
    /// Any other.
    Json(Value),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskChange {
    pub id: TaskId,
    #[serde(rename = "type")]
    pub kind: TaskKind,
    pub priority: Priority,
    pub state: TaskState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// The beginning of what is asked.
    pub body: String,
    pub created_by: String,
    #[serde(serialize_with = "date")]
    pub created_at: Timestamp,
    pub attempts: u32,
    /// The first task of the work that it is part of.
    pub root: TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<TaskId>,
    /// Where the result goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// Something said in a channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Said {
    /// `inbound` or `outbound`.
    pub direction: &'static str,
    pub channel_id: ChannelId,
    /// The message it is, or answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    pub from: String,
    /// `message`, `response`, `notification` or `error`.
    pub kind: &'static str,
    /// The beginning of the words.
    pub text: String,
    /// How long all of them are, in bytes.
    pub length: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnEvent {
    pub turn: TurnId,
    #[serde(flatten)]
    pub moment: Moment,
}

/// What happens in a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Moment {
    /// It began, or goes on.
    TurnStart {
        session_id: String,
        /// Whose words it works on.
        from: String,
        /// The beginning of the words; none if it goes on.
        body: String,
        sdk: String,
        provider: String,
        model: String,
        attempt: u32,
        redelivered: bool,
    },
    Stream {
        value: Stream,
    },
    Note {
        text: String,
        /// `info` or `warn`.
        level: &'static str,
    },
    State {
        /// `running`, `waiting` or `stopped`.
        state: &'static str,
        /// What it waits for, or why it stopped.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    TurnEnd {
        ok: bool,
        outcome: Ending,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
        usage: Usage,
        duration_ms: u64,
        steps: u32,
    },
}

/// What a turn says or does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Stream {
    /// The next piece of the answer.
    Text {
        data: String,
    },
    /// The next piece of reasoning.
    Thinking {
        data: String,
    },
    /// What was said in this step is void: it begins again.
    Reset,
    /// A tool is called. It may still wait for a person.
    ToolCall {
        id: CallId,
        name: String,
        /// Its arguments; text if they are too long to be shown.
        arguments: Value,
    },
    ToolStart {
        id: CallId,
        tool_name: String,
    },
    ToolResult {
        id: CallId,
        name: String,
        /// The beginning of what the model reads.
        content: String,
        is_error: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        duration_ms: u64,
    },
    /// A file that a tool gives to the person.
    FileOutput {
        file_id: FileId,
        filename: String,
        mime_type: String,
        size: u64,
    },
    ToolEnd {
        id: CallId,
        tool_name: String,
        is_error: bool,
    },
    /// The answer is whole.
    Done {
        meta: DoneMeta,
    },
    Error {
        message: String,
        code: Option<Code>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoneMeta {
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

/// Events that a watcher goes without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first number that may be missing.
    pub from: u64,
    pub to: u64,
    pub reason: Reason,
}

impl Gap {
    /// As streams show it.
    pub fn data(&self) -> Value {
        json!({ "seq": self.to, "from": self.from, "to": self.to, "reason": self.reason })
    }
}

words! {
    /// Why events are missing.
    pub enum Reason {
        /// They are too old to be kept.
        Overflow = "overflow",
        /// They are of an earlier process.
        Restart = "restart",
        /// The watcher was too slow.
        Slow = "slow",
    }
}

/// A moment as a date.
pub(super) fn date<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.date())
}
