//! Claude Code as an engine: its command line, environment and files.

use std::collections::BTreeMap;

use hivewright_actors::thinking::Thinking;
use serde_json::json;

use super::harness::program::{self, Launch, Order, Program};

mod dialogue;
mod failure;
#[cfg(test)]
mod tests;

/// The MCP server of our tools, as the settings of the program name it.
const SERVER: &str = "hivewright";
/// What the program puts before the names of our tools.
const PREFIX: &str = "mcp__hivewright__";

/// Claude Code, 2.1.197 or newer.
#[derive(Clone, Copy, Debug)]
pub struct Claude;

impl Program for Claude {
    fn launch(&self, order: &Order) -> Launch {
        let file = |name: &str| order.files.join(name);
        let (settings, prompt, servers) = (
            file("claude-settings.json"),
            file("claude-system-prompt.md"),
            file("claude-mcp-config.json"),
        );
        let mut args: Vec<String> = [
            "--print",
            "--verbose",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--include-partial-messages",
            "--replay-user-messages",
            "--no-session-persistence",
            // No settings, hooks, memory files, skills and agents of a person or of the workspace.
            "--bare",
            "--setting-sources=",
            "--disable-slash-commands",
            "--permission-mode=dontAsk",
            "--strict-mcp-config",
            // None of its own.
            "--tools=",
        ]
        .map(str::to_owned)
        .into();
        args.extend([
            format!("--model={}", order.model),
            format!("--settings={}", settings.display()),
            format!("--system-prompt-file={}", prompt.display()),
            format!("--mcp-config={}", servers.display()),
        ]);
        args.extend(order.thinking.map(|level| format!("--effort={}", effort(level))));
        // Takes all that follows it.
        if !order.tools.is_empty() {
            args.push("--allowedTools".into());
            args.extend(order.tools.iter().map(|tool| format!("{PREFIX}{tool}")));
        }

        let switches = json!({"autoCompactEnabled": false, "autoMemoryEnabled": false});
        let bridge = json!({"mcpServers": {SERVER: {
            "type": "stdio",
            "command": order.bridge,
            "args": ["mcp", "--socket", order.socket],
            "env": {"HIVEWRIGHT_TURN_TOKEN": order.token},
        }}});
        Launch {
            args,
            env: environment(order),
            files: vec![
                (settings, switches.to_string()),
                (prompt, order.system.clone()),
                (servers, bridge.to_string()),
            ],
        }
    }

    fn dialogue(&self, order: &Order) -> Box<dyn program::Dialogue> {
        Box::new(dialogue::Dialogue::new(order))
    }
}

/// What it is given, which is also what keeps it from doing errands of its own.
pub(super) fn environment(order: &Order) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = [
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_AUTO_COMPACT", "1"),
        ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
        ("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
        // Else `@path` in a message puts that file before the model.
        ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
        // Else there are fields and tools in its requests that only the vendor's API takes.
        ("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"),
        ("ENABLE_TOOL_SEARCH", "false"),
        // A message that does not stream shows no end.
        ("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
        // Our tools have limits of their own, and a call waits for the others of its message.
        ("MCP_TOOL_TIMEOUT", "86400000"),
        ("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT", "0"),
        // It asks git about the workspace, whose `.git/config` names programs to run.
        ("GIT_DIR", "/dev/null"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    env.insert("ANTHROPIC_BASE_URL".into(), order.relay.clone());
    env.insert("ANTHROPIC_API_KEY".into(), order.token.clone());
    env.insert("CLAUDE_CONFIG_DIR".into(), order.home.join(".claude").display().to_string());
    if order.thinking == Some(Thinking::Off) {
        env.insert("MAX_THINKING_TOKENS".into(), "0".into());
    }
    env
}

/// The nearest level that the program knows.
fn effort(level: Thinking) -> &'static str {
    match level {
        Thinking::Off | Thinking::Minimal | Thinking::Low => "low",
        Thinking::Medium => "medium",
        Thinking::High => "high",
        Thinking::Xhigh => "xhigh",
    }
}
