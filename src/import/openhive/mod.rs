//! Import of an OpenHive installation: settings, teams and everything they keep.
//!
//! ```text
//! source, schema, installation   what is there, only read
//! settings, rules, teams, …      a file for each kind: its row in the source and what it becomes here
//! plan                           all artifacts and the report on them, pure data
//! apply                          artifacts become files and rows
//! ```
//!
//! The plan is made whole before anything is written, so a dry run says exactly what a real one does.

use std::{path::PathBuf, time::Duration};

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
mod folders;
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
use installation::Installation;
use plan::{Options, Plan};
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
        Ok(plan::plan(&self.found, &Target::read(goal)?, self.options, goal, &goal.ids))
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
        apply::write_file(&path, format!("{note:#}\n"))?;
        Ok(path)
    }
}
