//! What a team has to work with, for people.

use hivewright_actors::{
    ids::{TeamKey, TeamName},
    task::Options,
    tool::Toolset,
};

use super::Turns;
use crate::api::teams::{Equipment, PROGRAM, TeamItem};

impl Turns {
    /// What a team has to work with now. A team that cannot work has no tools. Blocks.
    pub fn equipment(&self, team: &TeamKey, ancestors: &[TeamName]) -> Equipment {
        let name = team.name.as_str();
        let library = self.0.prompts.library(&team.name);
        let skills = library.catalogue().map(|skill| TeamItem {
            name: skill.name().to_owned(),
            source: skill.source(name).to_owned(),
            description: skill.description().to_owned(),
        });
        let subagents = library.subagents().map(|subagent| TeamItem {
            name: subagent.name.clone(),
            source: name.to_owned(),
            description: subagent.description.clone(),
        });
        let kit = self.0.kit(&team.name);
        let part = kit.and_then(|kit| self.0.part(&team.name, &kit, &Options::default(), false));
        let specs = part.map_or_else(|_| [].into(), |part| part.tools.specs());
        let tools = specs.iter().map(|spec| TeamItem {
            name: spec.name.clone(),
            source: PROGRAM.to_owned(),
            description: spec.description.clone(),
        });
        Equipment {
            rules: self.0.prompts.rules(&team.name, ancestors),
            skills: skills.collect(),
            subagents: subagents.collect(),
            tools: tools.collect(),
        }
    }
}
