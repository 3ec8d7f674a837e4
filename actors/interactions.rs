//! Interaction log: what was said in channels, and what teams told there on their own.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{
    admission::Decision,
    briefing::{Line, Speaker},
    channel_type::ChannelType,
    clock::Timestamp,
    excerpt,
    frame::Notification,
    ids::{ChannelId, TaskId, TopicId},
    storage::{Order, Storage, StorageError},
    store::{
        reads::Range,
        records::Record,
        redact::{Owner, Texts},
    },
    task::Label,
};

pub const TEXTS: &[Texts] = &[Texts::of(Interaction::KIND, Owner::Main, &["said/*/line/text"])];

/// A row of the interaction log: what a team said on its own, or a message that was kept out. A message that became
/// work and its answer are with their task, which says all that a row would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interaction {
    pub channel: ChannelId,
    /// Its type, where the trust gate was told it. Former versions did not note it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<ChannelType>,
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

crate::records! {
    /// By the channel, the moment, and what tells rows of one moment apart: for one that became work, its task.
    Interaction: "log", (ChannelId, Timestamp, String), |row| {
        row.key_named(row.task.as_ref().map_or("", |task| task.as_str()))
    };
}

impl Interaction {
    /// What a team tells on its own.
    pub fn told(
        channel: &ChannelId,
        topic: Option<TopicId>,
        label: Label,
        at: Timestamp,
        told: &Notification,
    ) -> Self {
        let speaker = Speaker::Team(told.team.to_string());
        Self {
            channel: channel.clone(),
            channel_type: None,
            topic,
            task: told.task_id.clone(),
            at,
            duration_ms: None,
            said: vec![Said::new(at, speaker, &told.content, label)],
            trust_decision: None,
        }
    }

    /// Under a name of its own: not in the place of another row of this moment.
    pub fn key_named(&self, name: &str) -> (ChannelId, Timestamp, String) {
        (self.channel.clone(), self.at, name.to_owned())
    }
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
}

/// The interaction log keeps this many characters of a text.
pub const SNIPPET: usize = 2_000;

/// Stored keys of interactions older than a moment.
pub fn before(storage: &dyn Storage, moment: Timestamp) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = Vec::new();
    Range::<Interaction>::all().walk(storage, Order::Rising, &mut |key, row| {
        if row.is_ok_and(|row| row.at < moment) {
            keys.push(key.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}
