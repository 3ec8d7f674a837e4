//! Settings files of Codex: all it has of its own is off, our tools and our model API are in.

use std::path::{Path, PathBuf};

use hivewright_actors::thinking::Thinking;
use serde_json::{Value, json};

use super::{NAME, effort};
use crate::engines::harness::program::Order;

/// The variable from which it takes the key of the model API.
pub(super) const MODEL_TOKEN: &str = "HIVEWRIGHT_MODEL_TOKEN";
/// The variable that it hands on to our MCP server. The file has no token, so that turns at once can share it.
pub(super) const TURN_TOKEN: &str = "HIVEWRIGHT_TURN_TOKEN";

/// What would give it tools, content or errands of its own. Connections are retried a few times, not for ever.
const OFF: &[&str] = &[
    "apps",
    "auth_elicitation",
    "browser_use",
    "code_mode",
    "code_mode_host",
    "code_mode_only",
    "computer_use",
    "daemon_auto_start",
    "enable_request_compression",
    "goals",
    "guardian_approval",
    "hooks",
    "image_generation",
    "in_app_browser",
    "memories",
    "multi_agent",
    "multi_agent_v2",
    "plugins",
    "remote_plugin",
    "shell_snapshot",
    "shell_tool",
    "skill_mcp_dependency_install",
    "skill_search",
    "sleep_tool",
    "tool_suggest",
    "unbounded_connection_retries",
    "unified_exec",
    "view_image",
    "workspace_dependencies",
];

/// More than any model takes or any tool answers: both are bounded by us.
const UNBOUNDED: u32 = 1_000_000_000;

/// Its private folder, which may not be below the one for temporary files.
pub(super) fn home(order: &Order) -> PathBuf {
    order.home.join("codex")
}

pub(super) fn files(order: &Order) -> Vec<(PathBuf, String)> {
    let models = order.files.join("codex-models.json");
    let prompt = order.files.join("codex-system-prompt.md");
    let config = config(order, &models, &prompt);
    vec![
        (home(order).join("config.toml"), config),
        (models, catalog(order).to_string()),
        (prompt, order.system.clone()),
    ]
}

fn config(order: &Order, models: &Path, prompt: &Path) -> String {
    let off: String = OFF.iter().map(|feature| format!("{feature} = false\n")).collect();
    let (models, prompt) = (path(models), path(prompt));
    let (bridge, socket) = (path(&order.bridge), path(&order.socket));
    let (workspace, api) = (path(&order.workspace), quoted(&format!("{}/v1", order.relay)));
    // Calls come one after another, so that each can be a step of the turn.
    format!(
        r#"model_provider = "{NAME}"
model_catalog_json = {models}
model_instructions_file = {prompt}
check_for_update_on_startup = false
web_search = "disabled"
project_doc_max_bytes = 0
project_root_markers = []
include_apps_instructions = false
include_collaboration_mode_instructions = false
include_environment_context = false
include_permissions_instructions = false
tool_output_token_limit = {UNBOUNDED}
analytics.enabled = false
feedback.enabled = false
history.persistence = "none"
skills.include_instructions = false
skills.bundled.enabled = false

[features]
{off}
[model_providers.{NAME}]
name = "{NAME}"
base_url = {api}
env_key = "{MODEL_TOKEN}"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3
stream_idle_timeout_ms = 3600000

[mcp_servers.{NAME}]
command = {bridge}
args = ["mcp", "--socket", {socket}]
env_vars = ["{TURN_TOKEN}"]
required = true
default_tools_approval_mode = "approve"
supports_parallel_tool_calls = false
startup_timeout_sec = 20
tool_timeout_sec = 86400

[projects.{workspace}]
trust_level = "untrusted"
"#
    )
}

/// What it is to know of the model. Of one that it knows itself it has ideas of its own: the newer ones would get a
/// JavaScript interpreter and helpers in place of our tools.
fn catalog(Order { model, sees, .. }: &Order) -> Value {
    let modalities: &[&str] = if *sees { &["text", "image"] } else { &["text"] };
    let levels = Thinking::ALL
        .iter()
        .map(|level| json!({"effort": effort(*level), "description": level.as_str()}));
    json!({"models": [{
        "slug": model,
        "display_name": model,
        "base_instructions": "",
        "supported_reasoning_levels": levels.collect::<Vec<_>>(),
        "default_reasoning_summary": "auto",
        "shell_type": "disabled",
        "apply_patch_tool_type": null,
        "experimental_supported_tools": [],
        "input_modalities": modalities,
        "support_verbosity": false,
        "truncation_policy": {"mode": "bytes", "limit": UNBOUNDED},
        "context_window": UNBOUNDED,
        "visibility": "list",
        "supported_in_api": true,
        "priority": 1,
    }]})
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// A string of TOML, which takes those of JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
