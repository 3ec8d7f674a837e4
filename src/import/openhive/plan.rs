//! The plan of an import: everything that will be made, and what is said about it. Pure data.

use std::path::PathBuf;

use super::{
    found::Found,
    memories::Memory,
    org::Place,
    plugins::ImportedTool,
    report::Report,
    rows::{EscalationRow, LogRow},
    target::Target,
    tasks::Job,
    topics::{Saying, Thread},
    triggers::Trigger,
    trust::{Decision, Grant},
    vault::Entry,
};
use crate::settings::{problem::Problems, secret::Secret};

mod belongings;
mod channels;
mod files;
mod teams;
#[cfg(test)]
mod tests;

/// Something to be made, and what it is known by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Marked<T> {
    pub(super) mark: String,
    pub(super) thing: T,
}

/// All that an import makes.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What is said about it.
    pub report: Report,
    pub(super) files: Vec<Marked<NewFile>>,
    /// Rules, by file name.
    pub(super) rules: Vec<Marked<String>>,
    /// Secrets of the settings files.
    pub(super) system: Vec<Marked<Entry>>,
    /// All secrets of the source that are in a vault here, or will be, with their keys.
    pub(super) secrets: Vec<(Secret, String)>,
    /// Each team after the one above it.
    pub(super) teams: Vec<TeamPlan>,
    pub(super) topics: Vec<Marked<Thread>>,
    pub(super) sayings: Vec<Marked<Saying>>,
    pub(super) grants: Vec<Marked<Grant>>,
    pub(super) decisions: Vec<Marked<Decision>>,
    pub(super) escalations: Vec<Marked<EscalationRow>>,
    /// Lines of the log, cleaned; none if they are not taken.
    pub(super) logs: Option<Marked<Vec<LogRow>>>,
}

/// A settings file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewFile {
    pub(super) name: &'static str,
    pub(super) text: String,
}

/// A team with all that is its own.
#[derive(Clone, Debug)]
pub(super) struct TeamPlan {
    pub(super) place: Place,
    /// What its row is known by; none if an earlier import made it.
    pub(super) record: Option<String>,
    /// None if there is nothing to copy.
    pub(super) folder: Option<Marked<FolderPlan>>,
    pub(super) vault: Vec<Marked<Entry>>,
    pub(super) memories: Vec<Marked<Memory>>,
    pub(super) triggers: Vec<Marked<Trigger>>,
    pub(super) tasks: Vec<Marked<Job>>,
    pub(super) plugins: Vec<Marked<ImportedTool>>,
}

/// A folder to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderPlan {
    pub(super) from: PathBuf,
    /// What its file says here.
    pub(super) config: String,
}

/// What the operator wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `*` in `allowed_tools` stays.
    pub keep_wildcard: bool,
    /// The log is taken too.
    pub with_logs: bool,
}

/// What the readers here say to what was converted.
pub(super) trait Checks {
    /// A settings file.
    fn settings(&self, name: &str, text: &str) -> Result<(), Problems>;
    /// The file of a team.
    fn team(&self, name: &str, text: &str) -> Result<(), Problems>;
    /// A trigger, whose subagent is there. The error is what is wrong with it.
    fn trigger(&self, trigger: &Trigger) -> Result<(), String>;
}

/// Why something that was taken before is not taken again.
const BEFORE: &str = "imported before";

/// Puts a plan together.
pub(super) fn plan(found: &Found, target: &Target, options: Options, checks: &dyn Checks) -> Plan {
    let mut plan = Plan::default();
    let profiles = plan.settings(found, target, checks);
    plan.rules(found, target);
    let cast = plan.teams(found, target, options, &profiles, checks);
    plan.belongings(found, target, &cast, checks);
    plan.channels(found, target, &cast);
    plan.rest(found, target, options, &cast);
    plan
}
