//! Any agent that speaks the Agent Client Protocol as an engine: its command line and environment.

use std::collections::BTreeMap;

use super::{
    claude,
    harness::program::{self, Launch, Order, Program},
};

mod calls;
mod dialogue;
mod failure;
#[cfg(test)]
mod tests;

/// The MCP server of our tools, as the agent is told of it.
const SERVER: &str = "hivewright";

/// An agent as the operator's settings describe it.
#[derive(Clone, Debug)]
pub struct Acp {
    /// What its program is started with.
    pub args: Vec<String>,
    /// Variables beside those that point at the relay.
    pub env: BTreeMap<String, String>,
}

impl Program for Acp {
    fn launch(&self, order: &Order) -> Launch {
        // The adapter of Claude Code, the widest spread of these agents, takes all that Claude Code takes.
        let mut env = claude::environment(order);
        let known = [
            ("ANTHROPIC_MODEL", "{model}"),
            // Else the model is asked what a person might say next.
            ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false"),
            ("OPENAI_BASE_URL", "{relay}/v1"),
            ("OPENAI_API_KEY", "{token}"),
            ("OPENAI_MODEL", "{model}"),
        ];
        let known = known.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let set = known.into_iter().chain(self.env.clone());
        env.extend(set.map(|(name, value)| (name, filled(&value, order))));
        let args = self.args.iter().map(|argument| filled(argument, order)).collect();
        Launch { args, env, files: Vec::new() }
    }

    fn dialogue(&self, order: &Order) -> Box<dyn program::Dialogue> {
        Box::new(dialogue::Dialogue::new(order))
    }
}

/// A text of the settings with what it stands for in this turn.
fn filled(text: &str, order: &Order) -> String {
    text.replace("{model}", &order.model)
        .replace("{relay}", &order.relay)
        .replace("{token}", &order.token)
}
