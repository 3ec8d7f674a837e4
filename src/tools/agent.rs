//! `agent.<name>`: hands a task to a subagent, which works on it in a session of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    task::{Label, outcome::Ending},
    tool::{CallContext, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    about::About,
    answer,
    contract::{Tool, ToolContext, not_blank},
    error::ToolError,
};
use crate::{prompt::subagents::Subagent, sandbox::process::Sandbox};

pub mod session;

#[derive(Clone, Debug)]
pub struct Order {
    /// Who of the caller's team.
    pub subagent: String,
    pub task: String,
    /// The call. A try after a crash finds by its key what the first began.
    pub call: CallContext,
}

/// What a subagent hands back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReply {
    pub text: String,
    /// How many model calls it took, where that is known.
    pub steps: Option<u32>,
    /// How far the text may be believed.
    pub label: Label,
}

/// The session of a subagent did not end well, or could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AgentFailure {
    pub error: String,
    pub message: String,
    /// The outcome, if it had begun.
    pub ending: Option<Ending>,
    /// What there was of an answer.
    pub text: String,
    /// How far that may be believed.
    pub label: Label,
}

pub trait AgentRunner: Send + Sync + 'static {
    /// Runs one to its end. Dropping the future, or `cancel`, ends it early.
    fn run(&self, order: Order) -> BoxFuture<'static, Result<AgentReply, AgentFailure>>;
}

pub struct Agent {
    subagent: Arc<Subagent>,
    runner: Arc<dyn AgentRunner>,
}

impl Agent {
    pub fn new(subagent: Arc<Subagent>, runner: Arc<dyn AgentRunner>) -> Self {
        Self { subagent, runner }
    }

    pub fn key(subagent: &str) -> String {
        format!("agent.{subagent}")
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What it is to do, with everything it needs to know: it sees nothing of this conversation.
    #[schemars(length(min = 1, max = 65_536))]
    task: String,
}

impl Tool for Agent {
    const ABOUT: About = About::new("agent", "@subagents", "agent", Effect::Idempotent)
        .keys("agent.*")
        .unbounded()
        .whole_turn();
    const DESCRIPTION: &'static str = "";
    type Args = Args;

    fn description(&self, _: &Sandbox) -> String {
        let Subagent { name, description, .. } = &*self.subagent;
        let description = match description.as_str() {
            "" => String::new(),
            text => format!(" {text}"),
        };
        format!("Hands a task to the subagent `{name}` and waits for its report.{description}")
    }

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("task", &args.task)
    }

    async fn call(&self, Args { task }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let order = Order { subagent: self.subagent.name.clone(), task, call: cx.call.clone() };
        let subagent = &*self.subagent.name;
        match self.runner.run(order).await {
            Ok(AgentReply { text, steps, label }) => {
                cx.believe(label);
                let fields = json!({ "subagent": subagent, "text": text, "steps": steps });
                Ok(answer::ok(fields))
            }
            Err(failure) => {
                cx.believe(failure.label);
                let fields = json!({
                    "subagent": subagent,
                    "outcome": failure.ending.map(Ending::as_str),
                    "text": failure.text,
                });
                Err(answer::refuse_with(&failure.error, failure.message, fields))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::hosted, *};
    use crate::api::input::Reader;

    #[test]
    fn a_task_may_not_be_empty_or_too_long() {
        let longest = 65_536;
        let read = |task: &str| {
            let read = hosted::read::<Agent>(&Reader::default(), &json!({ "task": task }));
            read.map(drop).map_err(|error| error.message)
        };

        assert_eq!(read("look"), Ok(()));
        assert_eq!(read(&"ä".repeat(longest)), Ok(()));
        let refused = |reason: &str| Err(format!("invalid arguments: `task`: {reason}"));
        assert_eq!(read(" \n"), refused("is empty"));
        assert_eq!(read(&"x".repeat(longest + 1)), refused("expected 1 to 65536 characters"));
    }
}
