//! Messages between the service and a host, one JSON object per line.
//!
//! The first line says what the host is for. A host of plain tools then speaks [`ToHost`] and [`FromHost`]; the host of
//! an installed plugin speaks the protocol of all plugins.

use std::{collections::BTreeMap, io::Write, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::engine::Fault;

/// The longest line that is read from a host, in bytes.
pub const LONGEST_LINE: usize = 8 << 20;

/// Where messages to the service go, a line each. Cheap to clone.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<dyn Write + Send>>);

impl Output {
    pub(super) fn new(to: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(to)))
    }

    pub(super) fn say(&self, message: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(message) {
            self.line(line);
        }
    }

    /// Writes a line. Without anybody to read it there is nothing left to do, and the input ends too.
    pub(super) fn line(&self, mut line: String) {
        line.push('\n');
        let mut to = self.0.lock();
        let _ = to.write_all(line.as_bytes()).and_then(|()| to.flush());
    }
}

/// What a host is for: its first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "host", rename_all = "snake_case")]
pub enum Opening {
    /// Tools that come with each call.
    Tools {
        /// Of one engine, in bytes.
        memory: usize,
    },
    Plugin(PluginOpening),
}

/// The plugin of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PluginOpening {
    pub key: String,
    pub version: String,
    /// The module that is run first.
    pub entry: String,
    /// All modules, by their paths in the plugin's folder.
    pub sources: BTreeMap<String, String>,
    /// Of one engine, in bytes.
    pub memory: usize,
    /// How long code runs that no call waits for.
    pub call_timeout_ms: u64,
}

/// What the service tells a host of tools.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ToHost {
    /// Loads a module and tells what it offers.
    Inspect { id: u64, source: String, limits: CallLimits },
    /// Calls the function of a module.
    Run { id: u64, source: String, input: Value, limits: CallLimits },
    /// Answers what the code of a call asked for.
    Answer { id: u64, ask: u32, result: Result<Value, String> },
    /// Stops a call that nobody waits for any more.
    Stop { id: u64 },
}

/// What one call may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLimits {
    pub time_ms: u64,
    pub cpu_ms: u64,
    /// How many requests it may make.
    pub fetches: u32,
}

/// What a host of tools tells the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum FromHost {
    Done {
        id: u64,
        outcome: Outcome,
        /// What it wrote to its console.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        console: String,
    },
    /// The code of a call asks for something.
    Ask { id: u64, ask: u32, method: String, params: Value },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Offers(Box<Offer>),
    /// What a function returned, as text.
    Returned(String),
    /// It is no JavaScript.
    Unreadable(Fault),
    /// Its code failed.
    Failed(Fault),
}

/// The exports of a module, as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// What JavaScript says each of them is.
    pub types: BTreeMap<String, String>,
    #[serde(default)]
    pub description: Value,
    #[serde(default)]
    pub input_schema: Value,
    #[serde(default)]
    pub effect: Value,
    #[serde(default)]
    pub hosts: Value,
    #[serde(default)]
    pub timeout_ms: Value,
}
