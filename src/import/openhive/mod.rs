//! Import of an OpenHive installation: settings, teams and everything they keep.
//!
//! ```text
//! schema, source, installation   what is there, only read
//! plan                           all artifacts and the report on them, pure data
//! kinds                          the list of all kinds, in their order
//! settings, rules, teams, …      a file for each kind: its rows in the source, and what they become here
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
mod kinds;
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
pub mod teams;
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
use plan::{Options, Plan, Planner};
use redact::Redactor;
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
        let mut found = Installation::read(&source, &kinds::readers(), options.with_logs)?;
        team_tree::ensure_main(&mut found.tables);
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
    kinds::plan_all(&mut planner);
    planner.plan.planned.sort_by_key(kinds::order);
    planner.plan
}
