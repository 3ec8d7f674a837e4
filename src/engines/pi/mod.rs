//! Pi as an engine: its command line, environment and files.

use std::{collections::BTreeMap, path::PathBuf};

use hivewright_actors::thinking::Thinking;
use serde_json::{Value, json};

use super::harness::program::{self, Launch, Order, Program};
use crate::settings::config::PiMode;

mod dialogue;
mod failure;
#[cfg(test)]
mod tests;

/// What our extension puts before the names of our tools. None of Pi's own can have such a name, so
/// that the list of tools it gets lets in none of them.
const PREFIX: &str = "mcp__hivewright__";
/// The extension that offers our tools.
const EXTENSION: &str = include_str!("hivewright-pi.js");

/// How Pi speaks to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Anthropic,
    OpenAi,
}

/// Pi, 0.73.1 or newer.
#[derive(Clone, Copy, Debug)]
pub struct Pi {
    pub mode: PiMode,
    pub api: Api,
}

impl Program for Pi {
    fn launch(&self, order: &Order) -> Launch {
        let (extension, prompt) =
            (order.files.join("hivewright-pi.js"), order.files.join("pi-system-prompt.md"));
        let agent = order.home.join("pi");
        let files = vec![
            (extension.clone(), EXTENSION.to_owned()),
            (prompt.clone(), order.system.clone()),
            (agent.join("models.json"), self.models(order).to_string()),
            (agent.join("settings.json"), self.settings().to_string()),
        ];
        let mut args: Vec<String> = [
            "--no-session",
            // No extensions, skills, prompt templates, themes and instructions of the workspace, and
            // no settings. Versions that do not know the last two take them from our extension.
            "-ne",
            "-ns",
            "-np",
            "-nc",
            "--no-themes",
            "--no-approve",
            "--no-mcp",
            // Else old versions append a file of the workspace.
            "--append-system-prompt",
            "",
        ]
        .map(str::to_owned)
        .into();
        let mut set = |option: &str, value: String| args.extend([option.to_owned(), value]);
        set("--mode", self.mode.as_str().into());
        set("--provider", "hivewright".into());
        set("--model", order.model.clone());
        set("--thinking", order.thinking.unwrap_or(Thinking::Off).as_str().into());
        set("-e", extension.display().to_string());
        set("--system-prompt", prompt.display().to_string());
        if order.tools.is_empty() {
            args.push("--no-tools".into());
        } else {
            let tools = order.tools.iter().map(|tool| format!("{PREFIX}{tool}"));
            set("--tools", tools.collect::<Vec<_>>().join(","));
        }
        if self.mode == PiMode::Json {
            args.push("-p".into());
        }
        Launch { args, env: environment(order, agent), files }
    }

    fn dialogue(&self, order: &Order) -> Box<dyn program::Dialogue> {
        Box::new(dialogue::Dialogue::new(self.mode, &order.tools))
    }
}

impl Pi {
    /// The one provider and model that it knows.
    fn models(&self, order: &Order) -> Value {
        let mut provider = json!({
            "apiKey": order.token,
            "models": [{
                "id": order.model,
                "name": order.model,
                // Without it nothing about thinking is sent: the model decides.
                "reasoning": order.thinking.is_some(),
                "input": ["text", "image"],
                // It takes a fuller conversation for an overflow. What fits is for the provider to say.
                "contextWindow": 10_000_000,
                // The thinking at its highest level and as much again.
                "maxTokens": 32_000,
            }],
        });
        match self.api {
            Api::Anthropic => {
                provider["api"] = "anthropic-messages".into();
                provider["baseUrl"] = order.relay.as_str().into();
            }
            Api::OpenAi => {
                provider["api"] = "openai-completions".into();
                provider["baseUrl"] = format!("{}/v1", order.relay).into();
                // Other servers than the vendor's know neither.
                provider["compat"] =
                    json!({"supportsDeveloperRole": false, "supportsStore": false});
            }
        }
        json!({"providers": {"hivewright": provider}})
    }

    fn settings(&self) -> Value {
        json!({
            "compaction": {"enabled": false},
            "retry": {
                // In this mode a version that does not tell its end from a pause cannot be asked.
                "enabled": self.mode == PiMode::Rpc,
                "maxRetries": 3,
                "baseDelayMs": 2000,
                "provider": {"maxRetries": 0},
            },
            "cacheWarming": "off",
            "defaultProjectTrust": "never",
            "enableInstallTelemetry": false,
            "quietStartup": true,
        })
    }
}

fn environment(order: &Order, agent: PathBuf) -> BTreeMap<String, String> {
    [
        ("PI_CODING_AGENT_DIR", agent.display().to_string()),
        ("PI_OFFLINE", "1".into()),
        ("PI_TELEMETRY", "0".into()),
        ("PI_SKIP_VERSION_CHECK", "1".into()),
        ("HIVEWRIGHT_BRIDGE", order.bridge.display().to_string()),
        ("HIVEWRIGHT_SOCKET", order.socket.display().to_string()),
        ("HIVEWRIGHT_TURN_TOKEN", order.token.clone()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
