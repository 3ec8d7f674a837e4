//! As whom a turn is run: the team itself, or one of its subagents; with or without a skill.

use std::{fmt::Write, io, sync::Arc};

use hivewright_actors::text::quoted;

use super::{
    library::{KnownSkill, Library},
    subagents::Subagent,
};

/// What a subagent is told behind its own text.
const DIRECTIVE: &str = "\
- Load the skill that fits the task before you begin, if one is not loaded yet, and follow it.
- Prefer the plugin tools of your team to doing the same by other means.
- Respect your boundaries. If the task asks for what lies beyond them, say so and stop there.
- Your last message is your report: whoever gave you the task sees nothing else.";

/// A task names a subagent or skill that the team does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} `{name}`; {}", known_names(.known))]
pub struct UnknownRole {
    /// `subagent` or `skill`.
    pub what: &'static str,
    pub name: String,
    pub known: Vec<String>,
}

fn known_names(names: &[String]) -> String {
    match names {
        [] => "this team has none".to_owned(),
        names => format!("known are {}", quoted(names)),
    }
}

/// As whom a turn is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The subagent, if it is not the team itself.
    pub subagent: Option<Arc<Subagent>>,
    /// The skill that is loaded from the beginning.
    pub active: Option<Arc<KnownSkill>>,
    /// The skills that can be loaded in the turn.
    pub loadable: Vec<Arc<KnownSkill>>,
    /// A session of a subagent, called by a turn of its team.
    pub inner: bool,
}

impl Role {
    /// A subagent wins over a skill.
    pub fn choose(
        library: &Library,
        subagent: Option<&str>,
        skill: Option<&str>,
        inner: bool,
    ) -> Result<Self, UnknownRole> {
        let mut role = Self { subagent: None, active: None, loadable: Vec::new(), inner };
        if let Some(name) = subagent {
            let subagent = library.subagent(name).ok_or_else(|| UnknownRole {
                what: "subagent",
                name: name.to_owned(),
                known: library.subagents().map(|known| known.name.clone()).collect(),
            })?;
            let skills = subagent.skills.iter().filter_map(|skill| library.skill(skill).cloned());
            role.loadable = skills.collect();
            if role.loadable.len() == 1 {
                role.active = role.loadable.pop();
            }
            role.subagent = Some(subagent.clone());
        } else if let Some(name) = skill {
            let skill = library.skill(name).ok_or_else(|| UnknownRole {
                what: "skill",
                name: name.to_owned(),
                known: library.catalogue().map(|known| known.name().to_owned()).collect(),
            })?;
            role.active = Some(skill.clone());
        } else {
            role.loadable = library.unowned();
        }
        Ok(role)
    }

    /// What the prompt says of it. `loads`: the turn can load skills. Blocks.
    pub(super) fn text(&self, library: &Library, loads: bool) -> io::Result<String> {
        let mut parts = Vec::new();
        if let Some(Subagent { name, text, .. }) = self.subagent.as_deref() {
            parts.push(format!("You work as the subagent `{name}`."));
            parts.push(text.clone());
            parts.push(DIRECTIVE.to_owned());
        }
        if let Some(skill) = &self.active {
            let mut intro = format!("The skill `{}` is loaded. Follow it.", skill.name());
            if let Some(folder) = skill.folder() {
                let _ = write!(intro, " Files that it mentions are in `{folder}/`.");
            }
            parts.push(intro);
            parts.push(library.body(skill)?.to_string());
        } else if loads {
            parts.push(self.catalogue());
        }
        parts.retain(|part| !part.is_empty());
        Ok(if parts.is_empty() {
            String::new()
        } else {
            format!("--- Skills ---\n\n{}", parts.join("\n\n"))
        })
    }

    fn catalogue(&self) -> String {
        if self.loadable.is_empty() {
            return String::new();
        }
        let mut text = String::from(
            "Procedures that you can load with `use_skill`. When one fits the task, load it first and follow it.\n",
        );
        for skill in &self.loadable {
            let description = skill.description();
            let colon = if description.is_empty() { "" } else { ": " };
            let _ = write!(text, "\n- `{}`{colon}{description}", skill.name());
        }
        text
    }
}
