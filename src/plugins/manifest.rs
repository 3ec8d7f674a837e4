//! Plugin manifest: `plugin.toml`, what a plugin says of itself before anything of it runs.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hivewright_actors::{
    hook::HookEvent,
    ids::PluginKey,
    scheduler::trigger::webhook::Scheme,
    text::{Size, Span},
    tool::Effect,
    words,
};
use semver::Version;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

use super::fault::{Fault, FaultCode};

pub const MANIFEST: &str = "plugin.toml";
/// The version of manifests that this release reads.
const VERSION: i64 = 1;
/// The most tools of a plugin.
pub const MOST_TOOLS: usize = 64;

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub manifest_version: i64,
    pub key: PluginKey,
    pub version: Version,
    pub display_name: String,
    pub description: String,
    /// The oldest release that it works with.
    pub min_hivewright: Option<Version>,
    pub run: Run,
    pub tools: Option<Tools>,
    pub channel: Option<Channel>,
    pub hooks: Option<Hooks>,
    #[serde(default)]
    pub config: Config,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub sandbox: Sandbox,
}

/// How it runs. What belongs to another kind is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub kind: RunKind,
    /// A path in the folder, or the bare name of a program of the system. Of `process` alone.
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    /// The first module. Of `js` alone.
    pub entry: Option<String>,
    #[serde(default)]
    pub protocol: Protocol,
    /// Names of variables that it gets besides the usual ones.
    #[serde(default)]
    pub env_allow: Vec<String>,
}

words! {
    /// What runs a plugin.
    #[schemars(rename = "PluginRunKind")]
    pub enum RunKind {
        /// A program of its own.
        Process = "process",
        /// The JavaScript host of this program.
        Js = "js",
        /// The service itself: code of ours, which comes with the release.
        Builtin = "builtin",
    }
}

words! {
    /// What is spoken with a plugin.
    #[derive(Default)]
    pub enum Protocol {
        #[default]
        /// MCP with what plugins have besides.
        Hivewright = "hivewright",
        /// MCP alone.
        Mcp = "mcp",
    }
}

/// The tools that it brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// What stands before the names of its tools.
    pub namespace: String,
    #[serde(default = "most_tools")]
    pub max: usize,
    /// What running a tool again would do; a tool that is not named here is irreversible.
    #[serde(default)]
    pub effects: BTreeMap<String, Effect>,
}

fn most_tools() -> usize {
    MOST_TOOLS
}

impl Tools {
    /// What running a tool again would do.
    pub fn effect(&self, tool: &str) -> Effect {
        self.effects.get(tool).copied().unwrap_or(Effect::Irreversible)
    }
}

/// The channel that it brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Channel {
    /// It has a setup wizard.
    pub setup: bool,
    pub webhook: Option<ChannelWebhook>,
}

/// A way in for the network that the channel stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelWebhook {
    pub scheme: ChannelScheme,
    /// The field of `channel` in its settings that holds the secret.
    pub secret_field: Option<String>,
    #[serde(default = "five_minutes")]
    pub tolerance: Span,
    #[serde(default = "one_mebibyte")]
    pub max_body: Size,
}

/// How callers prove who they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ChannelScheme {
    /// The plugin looks for itself.
    Own(OwnScheme),
    /// As webhooks of triggers do.
    Verified(Scheme),
}

words! {
    /// The scheme of a plugin that looks for itself.
    pub enum OwnScheme {
        /// It looks for itself.
        Plugin = "plugin",
    }
}

fn five_minutes() -> Span {
    Span(Duration::from_secs(300))
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hooks {
    pub on: Vec<Hook>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    #[serde(deserialize_with = "event")]
    pub event: HookEvent,
    /// Those of a lower one come first.
    #[serde(default = "usual_priority")]
    pub priority: u32,
    /// How long it may take, if not as long as `limits.hook_timeout` says.
    pub timeout: Option<Span>,
    /// Patterns of canonical tool keys; none are all. For `tool.*` alone.
    #[serde(default)]
    pub tools: Vec<String>,
}

fn usual_priority() -> u32 {
    100
}

fn event<'de, D: Deserializer<'de>>(deserializer: D) -> Result<HookEvent, D::Error> {
    let name = String::deserialize(deserializer)?;
    let unknown = || D::Error::custom(format!("there is no event `{name}`"));
    HookEvent::named(&name).ok_or_else(unknown)
}

/// What a team may set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub schema: Option<SchemaSource>,
}

/// Where the schema of its settings is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SchemaSource {
    /// A JSON file in the folder.
    File(String),
    /// Here.
    Inline(Value),
}

/// What it may use. What is left out is usual for its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub start_timeout: Span,
    pub call_timeout: Span,
    pub hook_timeout: Span,
    pub memory: Option<Size>,
    pub processes: Option<u32>,
    /// The most restarts in ten minutes.
    pub restarts: u32,
}

const fn seconds(count: u64) -> Span {
    Span(Duration::from_secs(count))
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start_timeout: seconds(10),
            call_timeout: seconds(60),
            hook_timeout: seconds(2),
            memory: None,
            processes: None,
            restarts: 5,
        }
    }
}

/// What it reaches of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    pub network: Network,
    /// Hosts that it reaches through the service: a name, `*.suffix`, or `config:` and a pointer to a
    /// list in the team's settings.
    pub hosts: Vec<String>,
    /// Absolute paths that it sees besides its own folder.
    pub read: Vec<PathBuf>,
}

words! {
    /// Whom a plugin reaches.
    #[derive(Default)]
    pub enum Network {
        #[default]
        /// Nobody.
        None = "none",
        /// The hosts that it names, through the service.
        Broker = "broker",
    }
}

impl Manifest {
    /// Reads a manifest and checks all of it that can be checked without the folder.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let invalid = |field: &str, error: &toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map(|before| before.lines().count());
            let line = line.map(|line| format!(" (line {})", line.max(1))).unwrap_or_default();
            let code = code_of(field);
            Fault::new(code, MANIFEST, field, format!("{}{line}", error.message()))
        };
        let reader = || toml::Deserializer::parse(text).map_err(|error| invalid("", &error));
        // A manifest of another version may have other fields: it is told by its version alone.
        let versioned = Versioned::deserialize(reader()?).map_err(|error| invalid("", &error))?;
        match versioned.manifest_version {
            None => {}
            Some(Value::Number(version)) if version.as_i64() == Some(VERSION) => {}
            Some(_) => {
                return Err(Fault::new(
                    FaultCode::UnsupportedManifestVersion,
                    MANIFEST,
                    "manifest_version",
                    format!("this release reads version {VERSION}"),
                ));
            }
        }
        serde_path_to_error::deserialize(reader()?).map_err(|error| {
            let path = error.path().to_string();
            invalid(if path == "." { "" } else { &path }, error.inner())
        })
    }

    /// The most memory that it may use. A builtin has none of its own.
    pub fn memory(&self) -> Size {
        let usual = match self.run.kind {
            RunKind::Process => 256 << 20,
            RunKind::Js => 64 << 20,
            RunKind::Builtin => 0,
        };
        self.limits.memory.unwrap_or(Size(usual))
    }

    /// The most processes that it may have.
    pub fn processes(&self) -> u32 {
        let usual = match self.run.kind {
            RunKind::Process => 16,
            RunKind::Js => 1,
            RunKind::Builtin => 0,
        };
        self.limits.processes.unwrap_or(usual)
    }

    /// Whether what its tools say can only be its own word: it is code of ours, and hears of nobody else.
    pub fn speaks_for_us(&self) -> bool {
        self.run.kind == RunKind::Builtin
            && self.sandbox.network == Network::None
            && self.channel.is_none()
    }

    pub fn hooks(&self) -> &[Hook] {
        self.hooks.as_ref().map_or(&[], |hooks| &hooks.on)
    }
}

#[derive(Deserialize)]
struct Versioned {
    manifest_version: Option<Value>,
}

/// The fault that a field of a wrong form is.
fn code_of(field: &str) -> FaultCode {
    match field {
        "key" => FaultCode::KeyInvalid,
        "run.kind" => FaultCode::UnsupportedRunKind,
        _ if field.starts_with("hooks.on[") && field.ends_with(".event") => {
            FaultCode::HookEventUnknown
        }
        _ if field == "config.schema" => FaultCode::SchemaInvalid,
        _ => FaultCode::ManifestInvalid,
    }
}
