//! What is there already where the import goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    time::Duration,
};

use hivewright_actors::{
    channel::records::ChannelRow,
    clock::Timestamp,
    ids::{MAIN, TeamKey},
    org::record::{TeamRecord, TeamState},
    scheduler::records as triggers,
    storage::{Storage, StorageError},
    store::reads::{Range, scan, scan_keyed},
    task::Task,
};

use super::apply;
use crate::{
    memory,
    settings::{home::Home, load::team_names, scaffold},
    vault::{self, scope::Scope},
};

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
    // No key holds a zero byte.
    format!("openhive/{table}/{id}@{made}").replace('\0', "?")
}

/// The settings files that are imported.
const FILES: [&str; 3] = ["config.yaml", "providers.yaml", "channels.yaml"];

impl Target {
    /// Looks at a home, and at its store if it has one. Blocks.
    pub(super) fn read(
        home: &Home,
        storage: Option<&dyn Storage>,
        idle_after: Duration,
        now: Timestamp,
    ) -> Result<Self, StorageError> {
        let folders: BTreeSet<String> = team_names(home).into_iter().collect();
        let mut target = Self {
            now,
            teams: folders.iter().filter(|name| *name != MAIN).cloned().collect(),
            folders,
            main_in_use: !is_free(&home.team_file(MAIN), "main-team.yaml"),
            settings: FILES
                .into_iter()
                .filter(|name| !is_free(&home.data().join("config").join(name), name))
                .collect(),
            rules: names(&home.rules()),
            idle_after,
            ..Self::default()
        };
        let Some(storage) = storage else {
            return Ok(target);
        };
        let marks = apply::marks(storage)?.into_iter();
        target.marks = marks.map(|(mark, row)| (mark, row.name)).collect();
        for team in scan::<TeamRecord>(storage, Range::all())? {
            if team.state != TeamState::Removed && team.name.as_str() != MAIN {
                target.teams.insert(team.name.to_string());
            }
        }
        target.main_in_use |= has_worked(storage)?;
        Ok(target)
    }

    pub(super) fn has(&self, mark: &str) -> bool {
        self.marks.contains_key(mark)
    }
}

/// Nothing is lost if the file is written: it is not there, is as shipped, or says nothing.
fn is_free(path: &std::path::Path, name: &str) -> bool {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    let says_nothing = || super::yaml::parse(&text, name) == Ok(super::yaml::Yaml::Null);
    scaffold::is_shipped(name, &text) || says_nothing()
}

fn names(folder: &std::path::Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// The main team has kept something, or someone has talked to it.
fn has_worked(storage: &dyn Storage) -> Result<bool, StorageError> {
    if !scan_keyed::<ChannelRow>(storage, Range::all())?.is_empty()
        || !scan::<Task>(storage, Range::all())?.is_empty()
    {
        return Ok(true);
    }
    let main = TeamKey::first(MAIN);
    Ok(!memory::rows::keys(storage, &main)?.is_empty()
        || !triggers::of_team(storage, &main)?.is_empty()
        || !vault::rows::keys(storage, &Scope::Team(main))?.is_empty())
}
