//! Import of an OpenHive installation: settings, teams and everything they keep.
//!
//! ```text
//! source, schema, rows   what is there, only read        plan/    what will be made of it, pure data
//! settings … topics      one thing each, converted       apply/   the plan becomes files and rows
//! ```
//!
//! The plan is made whole before anything is written, so a dry run says exactly what a real one does.

use std::{path::PathBuf, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    storage::{Storage, StorageError},
};
use serde_json::json;

pub mod apply;
mod definition;
mod found;
mod memories;
mod moment;
mod names;
mod org;
pub mod plan;
pub mod plugins;
mod readers;
pub mod report;
mod rows;
mod schema;
mod settings;
pub mod source;
mod tables;
mod target;
mod tasks;
mod teams;
#[cfg(test)]
mod tests;
mod topics;
mod triggers;
mod trust;
mod vault;
mod yaml;

use apply::{ApplyError, Site};
use found::Found;
use plan::{Options, Plan};
use readers::Readers;
use source::{Source, SourceError};
use target::Target;

use crate::settings::{home::Home, references::Environment};

/// An installation that has been read.
#[derive(Debug)]
pub struct Import {
    source: Source,
    options: Options,
    found: Found,
}

/// The home that an import goes to, before it does.
pub struct Goal<'a> {
    /// The home.
    pub home: &'a Home,
    /// Its store, if it has one.
    pub storage: Option<&'a dyn Storage>,
    /// Variables that settings may refer to.
    pub environment: &'a Environment,
    /// Topics are idle after this time.
    pub idle_after: Duration,
    /// The zone of the settings.
    pub zone: String,
    /// The present moment.
    pub now: Timestamp,
}

impl Import {
    /// Reads an installation, without changing anything of it. Blocks.
    pub fn read(source: Source, options: Options) -> Result<Self, SourceError> {
        let found = Found::read(&source, options.with_logs)?;
        Ok(Self { source, options, found })
    }

    /// What an import into this home would do. Blocks.
    pub fn plan(&self, goal: Goal<'_>) -> Result<Plan, StorageError> {
        let target = Target::read(goal.home, goal.storage, goal.idle_after, goal.now)?;
        let readers = Readers {
            home: goal.home,
            environment: goal.environment,
            zone: goal.zone,
            now: goal.now,
        };
        Ok(plan::plan(&self.found, &target, self.options, &readers))
    }

    /// Does it, and writes down what was done. Returns where. Blocks.
    pub fn apply(&self, plan: &Plan, site: &Site<'_>) -> Result<PathBuf, ApplyError> {
        apply::apply(plan, &self.source, site)?;
        let path = site.beside("json");
        let note = json!({
            "source": {"data": self.source.data, "run": self.source.run},
            "at": site.now.date(),
            "totals": plan.report.totals(),
            "items": plan.report.items,
        });
        let text = format!("{note:#}\n");
        apply::files::write_whole(&path, text.as_bytes()).map_err(apply::disk(&path))?;
        Ok(path)
    }
}
