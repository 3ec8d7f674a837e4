//! `agent.<name>`: hands a task to a subagent, which works on it in a session of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    task::{Ending, Label},
    tool::{Caller, Effect},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    answer,
    contract::{LONGEST, Limits, Pool, Tool, ToolContext, ToolError},
};
use crate::{prompt::subagents::Subagent, sandbox::process::Sandbox};

pub mod session;

/// The longest task, in characters.
const LONGEST_TASK: usize = 65_536;

/// A task for a subagent.
#[derive(Clone, Debug)]
pub struct Order {
    /// On whose behalf.
    pub caller: Arc<Caller>,
    /// Who of the caller's team.
    pub subagent: String,
    /// What it is to do.
    pub task: String,
    /// How far the words of the task may be believed.
    pub label: Label,
    /// The same for every try: a try after a crash finds what the first began.
    pub key: String,
    /// There may have been an earlier try.
    pub rerun: bool,
    /// Asks for an early end.
    pub cancel: CancellationToken,
}

/// What a subagent hands back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReply {
    /// Its last message.
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
    /// For code.
    pub error: String,
    /// For the model.
    pub message: String,
    /// The outcome, if it had begun.
    pub ending: Option<Ending>,
    /// What there was of an answer.
    pub text: String,
    /// How far that may be believed.
    pub label: Label,
}

/// Runs sessions of subagents.
pub trait AgentRunner: Send + Sync + 'static {
    /// Runs one to its end. Dropping the future, or `cancel`, ends it early.
    fn run(&self, order: Order) -> BoxFuture<'static, Result<AgentReply, AgentFailure>>;
}

/// A subagent as a tool of its team.
pub struct Agent {
    subagent: Arc<Subagent>,
    runner: Arc<dyn AgentRunner>,
}

impl Agent {
    /// Hands tasks to this subagent.
    pub fn new(subagent: Arc<Subagent>, runner: Arc<dyn AgentRunner>) -> Self {
        Self { subagent, runner }
    }

    /// The key of a subagent's tool.
    pub fn key(subagent: &str) -> String {
        format!("agent.{subagent}")
    }
}

/// What the model writes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// What it is to do, with everything it needs to know: it sees nothing of this conversation.
    #[schemars(length(min = 1, max = 65536))]
    task: String,
}

impl Tool for Agent {
    const NAME: &'static str = "agent";
    const KEYS: &'static str = "agent.*";
    const GROUP: &'static str = "@subagents";
    const POOL: Pool = Pool::Unbounded;
    const DESCRIPTION: &'static str = "";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits { timeout: LONGEST, longest: LONGEST };
    const WHOLE_TURN: bool = true;
    const CLASS: &'static str = "agent";
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
        match args.task.chars().count() {
            _ if args.task.trim().is_empty() => Err("`task`: is empty".to_owned()),
            1..=LONGEST_TASK => Ok(()),
            length => {
                Err(format!("`task`: {length} characters; at most {LONGEST_TASK} are allowed"))
            }
        }
    }

    async fn call(&self, Args { task }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let order = Order {
            caller: cx.caller.clone(),
            subagent: self.subagent.name.clone(),
            task,
            label: cx.label,
            key: cx.key.clone(),
            rerun: cx.rerun,
            cancel: cx.cancel.clone(),
        };
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
    use super::*;

    #[test]
    fn a_task_may_not_be_empty_or_too_long() {
        let accept = |task: &str| Agent::accept(&Args { task: task.into() });

        assert_eq!(accept("look"), Ok(()));
        assert_eq!(accept(&"ä".repeat(LONGEST_TASK)), Ok(()));
        assert_eq!(accept(" \n"), Err("`task`: is empty".to_owned()));
        assert_eq!(
            accept(&"x".repeat(LONGEST_TASK + 1)),
            Err("`task`: 65537 characters; at most 65536 are allowed".to_owned())
        );
    }
}
