//! Thoughts of a model about a prompt, for an editor whose token may see them.

use futures_util::future::pending;
use hivewright_actors::live::event::Kind;
use serde_json::Value;

use crate::{
    api::events::EventFilter,
    cli::{
        context::Context,
        events::{Follower, Step},
    },
};

/// What is thought about the last prompt.
pub(super) struct Thoughts {
    /// None for whoever may not read events.
    follower: Option<Follower>,
    task: Task,
}

/// The task that the last prompt became.
enum Task {
    /// Nothing was said yet.
    None,
    /// It is not known yet: what was thought meanwhile, with its tasks.
    Unknown(Vec<(String, String)>),
    Known(String),
}

impl Thoughts {
    pub(super) async fn open(context: &Context, team: &str) -> Self {
        let filter = EventFilter { team: Some(team.to_owned()), ..EventFilter::of([Kind::Turn]) };
        Self { follower: Follower::open(context, filter).await.ok(), task: Task::None }
    }

    /// A prompt is said.
    pub(super) fn expect(&mut self) {
        self.task = Task::Unknown(Vec::new());
    }

    /// It became this task: what was thought about it so far.
    pub(super) fn of(&mut self, task: &str) -> Vec<String> {
        match std::mem::replace(&mut self.task, Task::Known(task.to_owned())) {
            Task::Unknown(early) => {
                let own = early.into_iter().filter(|(of, _)| of == task);
                own.map(|(_, thought)| thought).collect()
            }
            Task::None | Task::Known(_) => Vec::new(),
        }
    }

    /// What is thought next about the last prompt. Cancel-safe.
    pub(super) async fn next(&mut self) -> String {
        loop {
            let Some(follower) = &mut self.follower else { return pending().await };
            let data = match follower.next().await {
                Ok(Step::Event { data, .. }) => data,
                Ok(Step::Begin) => continue,
                Err(_) => {
                    self.follower = None;
                    continue;
                }
            };
            let Some((task, thought)) = thought(&data) else { continue };
            match &mut self.task {
                Task::Known(own) if own == task => return thought.to_owned(),
                Task::Unknown(early) => early.push((task.to_owned(), thought.to_owned())),
                Task::None | Task::Known(_) => {}
            }
        }
    }
}

/// The task and the words of an event that tells a thought.
fn thought(event: &Value) -> Option<(&str, &str)> {
    let value = Some(&event["value"]).filter(|value| value["type"] == "thinking")?;
    Some((event["task_id"].as_str()?, value["data"].as_str()?))
}
