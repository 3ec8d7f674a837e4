//! Rows: what is stored of messages, channels and what was said in them.

use serde::{Deserialize, Serialize};

use crate::{
    briefing::{Line, Speaker},
    channel_type::ChannelType,
    clock::Timestamp,
    excerpt::{self, Part, Unit},
    identities::Owner,
    ids::{ChannelId, GrantId, MessageId, PrincipalId, TaskId, TopicId},
    router::{
        audit::{Admission, is_websocket},
        trust::Decision,
    },
    task::{Cause, Code, Ending, Label, Task},
};

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageRow {
    /// Tells a repeat from another message under the same id.
    pub digest: u64,
    /// When it was accepted.
    pub at: Timestamp,
    /// The work it became, once its topic was known.
    pub task: Option<TaskId>,
}

/// An accepted message whose topic is not yet known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// Where it came in.
    pub channel: ChannelId,
    /// Its id there.
    pub id: MessageId,
    /// Who wrote it.
    pub sender: String,
    /// What.
    pub content: String,
    /// The topic that its sender chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The ack frame has been stored.
    pub acked: bool,
    /// Other connections of the channel have been told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told: bool,
    /// Its sender named it, and may send it again.
    pub named: bool,
    /// How it got past the trust gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// How far it may be believed.
    #[serde(default)]
    pub label: Label,
    /// Who is behind it, if that is not simply its sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Another channel that hears of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<ChannelId>,
}

/// What went wrong last in a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamError {
    /// The task that ended so.
    pub task_id: TaskId,
    /// For programs.
    pub code: Option<Code>,
    /// For people.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

impl TeamError {
    /// What is wrong with a task that nobody meant to end so.
    pub(super) fn of(task: &Task) -> Option<Self> {
        let outcome = task.outcome.as_ref()?;
        match outcome.ending {
            Ending::Failed | Ending::Dead | Ending::Expired => Some(Self {
                task_id: task.id.clone(),
                code: outcome.code,
                message: outcome
                    .message
                    .clone()
                    .unwrap_or_else(|| format!("the task is {}", outcome.ending.as_str())),
                at: outcome.finished_at,
            }),
            Ending::Done | Ending::Cancelled => None,
        }
    }
}

/// A channel that has been used, and who may use it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRow {
    /// Who opened it.
    pub principal: PrincipalId,
    /// What they were let in by. Rows of former versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// When it was last connected, as far as that is known.
    pub last_seen: Timestamp,
    /// By which door they came in.
    #[serde(default, skip_serializing_if = "is_websocket")]
    pub channel_type: ChannelType,
    /// The next message opens a topic, whatever it is about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_anew: bool,
}

impl ChannelRow {
    /// A channel that somebody opens now.
    pub fn new(owner: Owner, now: Timestamp, channel_type: ChannelType) -> Self {
        Self {
            principal: owner.principal,
            grant: Some(owner.grant),
            last_seen: now,
            channel_type,
            begins_anew: false,
        }
    }

    /// They may use it again. A row that knows a name only is theirs if the name was when the channel
    /// was last seen.
    pub fn belongs_to(&self, owner: &Owner) -> bool {
        match &self.grant {
            Some(grant) => *grant == owner.grant,
            None => self.principal == owner.principal && owner.since <= self.last_seen,
        }
    }
}

/// A row of the interaction log: a message and its answer, or what a team said on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    /// The channel.
    pub channel: ChannelId,
    /// Its type, where the trust gate was told it. Former versions did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<ChannelType>,
    /// In which topic.
    pub topic: Option<TopicId>,
    /// The work it belongs to, if it became any.
    pub task: Option<TaskId>,
    /// When it was over.
    pub at: Timestamp,
    /// How long the work took, from being asked for to its end. Former versions did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// What was said, in order. The speaker is the direction: a person's words came in, a team's went out.
    pub said: Vec<Said>,
    /// What the trust gate decided, if it kept the words out: no model sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_decision: Option<Decision>,
}

/// One thing said in a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Who said what when; cut to [`SNIPPET`].
    pub line: Line,
    /// How long the whole text was, in bytes.
    pub length: u64,
}

impl Said {
    /// A text as the log keeps it.
    pub fn new(at: Timestamp, speaker: Speaker, text: &str, label: Label) -> Self {
        Self {
            line: Line { at, speaker, text: excerpt::split(text, SNIPPET).0.to_owned(), label },
            length: text.len() as u64,
        }
    }

    /// The line as a model is shown it, with the way to what the log did not keep.
    pub fn into_line(self, task: Option<&TaskId>) -> Line {
        let Self { mut line, length } = self;
        let missing = length.saturating_sub(line.text.len() as u64);
        if missing > 0 {
            let part = match line.speaker {
                Speaker::Person(_) => Part::Body,
                Speaker::Team(_) | Speaker::Summary => Part::Result,
            };
            let rest = match task {
                Some(task) => excerpt::to_read(task.as_str(), part, SNIPPET),
                None => "they were not kept".to_owned(),
            };
            let missing = usize::try_from(missing).unwrap_or(usize::MAX);
            line.text = excerpt::marked(&line.text, missing, Unit::Byte, &rest);
        }
        line
    }
}

/// The interaction log keeps this many characters of a text.
pub const SNIPPET: usize = 2_000;

/// Tells texts apart (FNV-1a): the same on every machine and in every version.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
