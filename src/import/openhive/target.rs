//! What is there already where the import goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hivewright_actors::clock::Timestamp;

/// The state of the home before an import.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    /// The present moment.
    pub(super) now: Timestamp,
    /// What earlier imports made: what each thing of the source is called here.
    pub(super) marks: BTreeMap<String, String>,
    /// Teams that are there, whoever made them, but the main team.
    pub(super) teams: BTreeSet<String>,
    /// Teams that have a folder.
    pub(super) folders: BTreeSet<String>,
    /// The main team has done or kept something, or has a file that is not the shipped one.
    pub(super) main_in_use: bool,
    /// Settings files that say something of their own.
    pub(super) settings: BTreeSet<&'static str>,
    /// Rules that are there.
    pub(super) rules: BTreeSet<String>,
    /// Topics of the home are idle after this time.
    pub(super) idle_after: Duration,
}

/// What a thing of the source is known by, so that it is taken once.
///
/// Two installations may use the same numbers, so the moment it was made is part of it.
pub(super) fn mark(table: &str, id: impl std::fmt::Display, made: &str) -> String {
    format!("openhive/{table}/{id}@{made}")
}

impl Target {
    pub(super) fn has(&self, mark: &str) -> bool {
        self.marks.contains_key(mark)
    }
}
