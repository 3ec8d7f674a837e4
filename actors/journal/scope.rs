//! Scope of a conversation: which turns of a session are shown to one another.

use crate::{
    history::Fact,
    ids::{ChannelId, TaskId},
    storage::{Storage, StorageError},
    task::{Kind, Task, cause::Cause, records as tasks},
};

/// Whose turns are one conversation, within a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a topic: those of one person in one channel.
    Person {
        /// The person, as far as they stay the same.
        cause: Cause,
        channel: Option<ChannelId>,
    },
    /// In the one lane of a team without topics, which serves everyone: those that the same message led to.
    Root(TaskId),
}

impl Scope {
    /// The conversation that a turn on a task belongs to. A subagent's session knows its task alone.
    pub fn of(task: &Task) -> Option<Self> {
        if task.kind == Kind::Agent {
            return None;
        }
        Some(match task.lane.topic {
            Some(_) => Self::Person {
                cause: task.caused_by().identity(),
                channel: task.source.as_ref().map(|source| source.channel.clone()),
            },
            None => Self::Root(task.root().clone()),
        })
    }

    /// The conversation of a turn that began so, where its task is not at hand.
    pub(super) fn of_start(start: &Fact) -> Option<Self> {
        let Fact::TurnStart { topic, source_channel, cause, root, .. } = start else { return None };
        match topic {
            Some(_) => {
                let cause = cause.as_ref()?.identity();
                Some(Self::Person { cause, channel: source_channel.clone() })
            }
            None => root.clone().map(Self::Root),
        }
    }

    /// Whether a turn that began so belongs to it.
    pub(super) fn holds(&self, storage: &dyn Storage, start: &Fact) -> Result<bool, StorageError> {
        if let Some(scope) = Self::of_start(start) {
            return Ok(scope == *self);
        }
        let Fact::TurnStart { task_ids, source_channel, .. } = start else { return Ok(false) };
        match (task_ids.first(), self) {
            // A former version wrote it, whose task says the rest.
            (Some(task), _) => {
                let task = tasks::find(storage, task)?;
                Ok(task.as_ref().and_then(Self::of).as_ref() == Some(self))
            }
            // It was taken over from elsewhere: then the channel is one person's.
            (None, Self::Person { channel, .. }) => Ok(channel == source_channel),
            (None, Self::Root(_)) => Ok(false),
        }
    }
}
