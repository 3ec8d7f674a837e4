//! Inspection of a team by people: what it has to work with, and policy dry runs.

use std::sync::Arc;

use hivewright_actors::{
    briefing::BriefError,
    clock::Timestamp,
    ids::{TeamKey, TeamName},
    policy::Subject,
    task::{Lane, Options, Task},
    tool::{Caller, Toolset},
};
use serde_json::Value;

use super::{Gathered, Turns, part::Part};
use crate::{
    api::teams::{Equipment, PROGRAM, TeamItem},
    mcp::Servers,
    plugins::instance::Instances,
    tools::judge::Judgement,
};

impl Turns {
    /// What a team works with as itself.
    fn part_of(&self, team: &TeamKey) -> Result<Arc<Part>, BriefError> {
        let kit = self.0.kit(&team.name, self.0.team_file(&team.name)?)?;
        let servers = Servers::offers(&self.0.servers(team, &kit));
        let plugins = Instances::offers(&self.0.plugins.settle(team, &kit.team.plugins));
        let offers = Gathered { servers, plugins };
        self.0.part(&team.name, &kit, &Options::default(), false, offers)
    }

    /// What a team has to work with now. A team that cannot work has no tools. Blocks.
    pub fn equipment(&self, team: &TeamKey, ancestors: &[TeamName]) -> Equipment {
        let item = |name: &str, source: &str, description: &str| TeamItem {
            name: name.to_owned(),
            source: source.to_owned(),
            description: description.to_owned(),
        };
        let name = team.name.as_str();
        let library = self.0.prompts.library(&team.name);
        let skills = library.catalogue();
        let skills =
            skills.map(|known| item(known.name(), known.source(name), known.description()));
        let subagents = library.subagents();
        let subagents = subagents.map(|known| item(&known.name, name, &known.description));
        let specs = self.part_of(team).map_or_else(|_| Arc::default(), |part| part.tools.specs());
        let tools = specs.iter().map(|spec| item(&spec.name, PROGRAM, &spec.description));
        Equipment {
            rules: self.0.prompts.rules(&team.name, ancestors),
            skills: skills.collect(),
            subagents: subagents.collect(),
            tools: tools.collect(),
        }
    }

    /// Judges a call of a team that is not made. Looks at files, so it blocks. An error is in words for
    /// a person.
    pub fn explain(
        &self,
        team: &TeamKey,
        tool: &str,
        args: &Value,
        subject: &Subject,
    ) -> Result<Judgement, String> {
        let part = self.part_of(team).map_err(|error| error.message)?;
        let lane = Lane { team: team.name.clone(), topic: None };
        let task = Task {
            generation: team.generation,
            ..Task::new("explain".into(), lane, String::new(), String::new(), Timestamp(0))
        };
        let judged = part.tools.explain(tool, args, subject, &Caller::of(&task));
        judged.map_err(|error| error.message)
    }
}
