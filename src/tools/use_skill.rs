//! `use_skill`: loads a procedure in the middle of a turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{text::quoted, tool::Effect};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    about::About,
    answer,
    contract::{Tool, ToolContext},
    error::ToolError,
    host::Asleep,
};
use crate::prompt::library::{KnownSkill, Library};

/// Loads what the turn may load, and remembers what it has loaded.
#[derive(Clone)]
pub struct UseSkill {
    library: Arc<Library>,
    loadable: Vec<Arc<KnownSkill>>,
    active: Arc<Mutex<BTreeSet<String>>>,
    /// What else the turn gets with a skill.
    gives: Gives,
}

/// Tools that come with skills: those that the turn gets, by wire name, and how a skill calls one.
#[derive(Clone, Default)]
pub struct Gives {
    pub asleep: Asleep,
    /// The wire names of the team's own tools, by the names that skills use.
    pub tools: Arc<BTreeMap<String, String>>,
}

impl UseSkill {
    /// For a turn that may load these.
    pub fn new(library: Arc<Library>, loadable: Vec<Arc<KnownSkill>>, gives: Gives) -> Self {
        Self { library, loadable, active: Arc::default(), gives }
    }

    fn load(&self, name: &str) -> Result<String, ToolError> {
        let Some(skill) = self.loadable.iter().find(|skill| skill.name() == name) else {
            let known = quoted(self.loadable.iter().map(|skill| skill.name()));
            let message = format!("there is no skill `{name}` to load; there are {known}");
            return Err(answer::refuse("not_found", message));
        };
        let first = self.active.lock().insert(name.to_owned());
        if !first {
            return Ok(answer::ok(json!({ "skill_name": name, "note": "already active" })));
        }
        let body = self.library.body(skill).map_err(|error| {
            self.active.lock().remove(name);
            answer::refuse("tool_failed", format!("the skill `{name}` cannot be read: {error}"))
        })?;
        let required = skill.required_tools().iter();
        let tools: Vec<_> =
            required.filter_map(|tool| self.gives.tools.get(tool).cloned()).collect();
        self.gives.asleep.wake(&tools);
        let mut fields = json!({ "skill_name": name, "body": &*body, "tools": tools });
        if let Some(folder) = skill.folder() {
            fields["folder"] = folder.into();
        }
        Ok(answer::ok(fields))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The name of the skill, as the list of skills shows it.
    skill_name: String,
}

impl Tool for UseSkill {
    const ABOUT: About = About::new("use_skill", "@skills", "skill", Effect::Idempotent)
        .unbounded()
        .within(Duration::from_secs(10), Duration::from_secs(10));
    const DESCRIPTION: &'static str = "Loads a skill: a procedure for a kind of work, with all its steps. Use it before you begin \
        when a listed skill fits the task, then follow what it says. Files it mentions are in `folder`, if it names one.";
    type Args = Args;

    async fn call(&self, Args { skill_name }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let this = self.clone();
        cx.blocking(move |_| this.load(skill_name.trim())).await
    }
}
