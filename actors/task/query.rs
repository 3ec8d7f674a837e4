//! Queries of tasks: a filter, and the part that is wanted of a list.

use std::collections::HashMap;

use super::{Kind, Priority, Task, TaskState};
use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamName, TopicId},
    order::{Order, Part, Window},
};

/// Which tasks are wanted. What is none excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    pub state: Option<TaskState>,
    pub teams: Option<Vec<TeamName>>,
    pub kind: Option<Kind>,
    pub priority: Option<Priority>,
    pub topic: Option<TopicId>,
    /// Only what came of this task, and the task itself.
    pub root: Option<TaskId>,
    /// Only messages that came past the trust gate.
    pub admitted: bool,
    /// Only such messages of this sender.
    pub sender: Option<String>,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// Only with these words, which are in lower case.
    pub words: Option<String>,
}

impl TaskQuery {
    // Taken apart, so that a new field which nothing compares is an error.
    pub fn holds(&self, task: &Task) -> bool {
        let Self {
            state,
            teams,
            kind,
            priority,
            topic,
            root,
            admitted,
            sender,
            since,
            until,
            words,
        } = self;
        state.is_none_or(|state| task.state() == state)
            && teams.as_ref().is_none_or(|teams| teams.contains(&task.lane.team))
            && kind.is_none_or(|kind| task.kind == kind)
            && priority.is_none_or(|priority| task.priority == priority)
            && topic.as_ref().is_none_or(|topic| task.topic() == Some(topic))
            && root.as_ref().is_none_or(|root| task.root() == root)
            && (!admitted || task.sender().is_some())
            && sender.as_ref().is_none_or(|sender| task.sender() == Some(sender))
            && task.created_at >= *since
            && until.is_none_or(|until| task.created_at <= until)
            && words.as_ref().is_none_or(|words| task.has_words(words))
    }

    /// Some that have ended may be wanted.
    pub fn wants_ended(&self) -> bool {
        self.state.is_none_or(|state| !state.is_open())
    }
}

impl Task {
    pub fn topic(&self) -> Option<&TopicId> {
        self.source.as_ref()?.topic.as_ref().map(|topic| &topic.id)
    }

    /// Who wrote the message that it was; none if it did not come past the trust gate.
    pub fn sender(&self) -> Option<&str> {
        (self.admission.is_some() && self.source.is_some()).then_some(&*self.from)
    }

    /// Words in lower case are in its id, in what was asked or in what came of it.
    pub fn has_words(&self, words: &str) -> bool {
        let said = self.outcome.as_ref().map_or("", |outcome| &outcome.text);
        format!("{}\n{}\n{said}", self.id, self.body).to_lowercase().contains(words)
    }
}

/// Where a task stands in lists: by when it was made, then by its id.
pub type TaskPlace = (Timestamp, TaskId);

/// The part of a list of tasks that is wanted. Rising is oldest first.
pub type TaskWindow = Window<TaskPlace>;

impl TaskWindow {
    pub fn newest(most: usize) -> Self {
        Self { order: Order::Falling, after: None, skip: 0, most, counted: 0 }
    }
}

/// The wanted part of a list of tasks.
pub type TaskPage = Part<TaskPlace>;

/// What tasks are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskFacet {
    pub team: TeamName,
    pub kind: Kind,
    pub state: TaskState,
    pub priority: Priority,
}

impl From<&Task> for TaskFacet {
    fn from(task: &Task) -> Self {
        let (team, state) = (task.lane.team.clone(), task.state());
        Self { team, kind: task.kind, state, priority: task.priority }
    }
}

pub type TaskCounts = HashMap<TaskFacet, usize>;
