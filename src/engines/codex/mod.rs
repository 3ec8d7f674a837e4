//! Codex: OpenAI's command-line agent, driven as an app server or by single runs.

use hivewright_actors::thinking::Thinking;

use super::harness::program::{Dialogue, Launch, Order, Program};
use crate::settings::config::CodexMode;

mod app_server;
mod exec;
mod failure;
mod items;
mod settings;
#[cfg(test)]
mod tests;

/// The name of our MCP server and of our model provider in its settings.
const NAME: &str = "hivewright";

#[derive(Clone, Copy, Debug)]
pub struct Codex {
    pub mode: CodexMode,
}

impl Program for Codex {
    fn launch(&self, order: &Order) -> Launch {
        let args = match self.mode {
            CodexMode::AppServer => vec!["app-server".to_owned()],
            CodexMode::Exec => exec::args(order),
        };
        let env = [
            ("CODEX_HOME", settings::home(order).display().to_string()),
            (settings::MODEL_TOKEN, order.token.clone()),
            (settings::TURN_TOKEN, order.token.clone()),
            // It complains of what is not in its box. What concerns a turn it tells in its protocol.
            ("RUST_LOG", "off".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).into();
        Launch { args, env, files: settings::files(order) }
    }

    fn dialogue(&self, order: &Order) -> Box<dyn Dialogue> {
        match self.mode {
            CodexMode::AppServer => Box::new(app_server::AppServer::new(order)),
            CodexMode::Exec => Box::new(exec::Exec::new(order)),
        }
    }
}

/// The word for a level of thinking.
fn effort(thinking: Thinking) -> &'static str {
    match thinking {
        Thinking::Off => "none",
        level => level.as_str(),
    }
}
