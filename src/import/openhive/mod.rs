//! Import of an OpenHive installation: settings, teams and everything they keep.
//!
//! ```text
//! schema, source, installation   what is there, only read
//! plan                           all artifacts and the report on them, pure data
//! settings, rules, teams, …      a file for each kind: what its rows in the source become here
//! apply, files                   artifacts become files and rows
//! ```
//!
//! The plan is made whole before anything is written, so a dry run says exactly what a real one does.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    ids::Ids,
    storage::{Storage, StorageError},
};
use serde_json::json;

pub mod apply;
mod checks;
mod escalations;
mod file_draft;
mod files;
mod installation;
mod interactions;
mod log;
mod memories;
mod moment;
mod names;
pub mod plan;
mod plugins;
mod redact;
pub mod report;
mod rules;
mod schema;
mod settings;
pub mod source;
mod target;
mod tasks;
mod team_files;
mod team_tree;
mod teams;
#[cfg(test)]
mod tests;
mod topics;
mod triggers;
mod trust;
mod vault;
mod yaml;

use apply::{ApplyError, Site};
use checks::Checks;
use installation::Installation;
use plan::{Options, Plan, Planned, Planner};
use redact::Redactor;
use report::Kind;
use source::{Source, SourceError};
use target::Target;

use crate::settings::{home::Home, references::Environment};

/// Who made what was imported.
const IMPORT: &str = "import";

#[derive(Debug)]
pub struct Import {
    source: Source,
    options: Options,
    found: Installation,
}

/// The home that an import goes to, before it does.
pub struct Goal<'a> {
    pub home: &'a Home,
    /// The store of the home, if it has one.
    pub storage: Option<&'a dyn Storage>,
    /// Variables that settings may refer to.
    pub environment: &'a Environment,
    /// Topics are idle after this time.
    pub idle_after: Duration,
    /// The zone of the settings.
    pub zone: String,
    pub ids: Ids,
    pub now: Timestamp,
}

impl Import {
    /// Reads an installation, without changing anything of it. Blocks.
    pub fn read(source: Source, options: Options) -> Result<Self, SourceError> {
        let found = Installation::read(&source, options.with_logs)?;
        Ok(Self { source, options, found })
    }

    /// What an import into this home would do. Blocks.
    pub fn plan(&self, goal: &Goal<'_>) -> Result<Plan, StorageError> {
        Ok(make_plan(&self.found, &Target::read(goal)?, self.options, goal, &goal.ids))
    }

    /// Does it, and writes down what was done. Returns where. Blocks.
    pub fn apply(&self, plan: &Plan, site: &Site<'_>) -> Result<PathBuf, ApplyError> {
        apply::apply(plan, site)?;
        let path = site.beside("json");
        let note = json!({
            "source": {"data": self.source.data, "run": self.source.run},
            "at": site.now.date(),
            "totals": plan.report.totals(),
            "items": plan.report.items,
        });
        files::write_file(&path, format!("{note:#}\n"))?;
        Ok(path)
    }
}

/// Plans all that is there, a kind after the other.
fn make_plan(
    found: &Installation,
    target: &Target,
    options: Options,
    checks: &dyn Checks,
    ids: &Ids,
) -> Plan {
    let mut planner = Planner {
        found,
        target,
        options,
        checks,
        ids,
        plan: Plan::default(),
        redactor: Redactor::default(),
        profiles: BTreeMap::new(),
        topics: topics::references(found, target),
        teams: BTreeMap::new(),
        left: BTreeSet::new(),
    };
    settings::plan(&mut planner);
    rules::plan(&mut planner);
    teams::plan(&mut planner);
    for team in planner.teams.clone().values() {
        memories::plan(&mut planner, team);
        triggers::plan(&mut planner, team);
        tasks::plan(&mut planner, team);
        plugins::plan(&mut planner, team);
    }
    let tables = &found.tables;
    planner.strays(Kind::Vault, tables.vault.iter().map(|row| &row.team));
    planner.strays(Kind::Memory, tables.memories.iter().map(|row| &row.team));
    planner.strays(Kind::Trigger, tables.triggers.iter().map(|row| &row.team));
    planner.strays(Kind::Task, tables.tasks.iter().map(|row| &row.team));
    planner.strays(Kind::Plugin, tables.plugins.iter().map(|row| &row.team));
    topics::plan(&mut planner);
    interactions::plan(&mut planner);
    trust::plan(&mut planner);
    escalations::plan(&mut planner);
    log::plan(&mut planner);
    planner.leftovers();
    planner.plan.planned.sort_by_key(Planned::order);
    planner.plan
}
