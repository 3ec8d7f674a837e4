//! The home that an import goes to, as it is before.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
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
use serde::{Deserialize, Serialize};

use super::{Goal, yaml};
use crate::{
    memory,
    settings::{load::team_names, scaffold},
    vault::{self, scope::Scope},
};

#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    pub(super) now: Timestamp,
    /// What earlier imports made: what each thing of the source is called here.
    pub(super) marks: BTreeMap<String, String>,
    /// Teams that are there, whoever made them, but the main team.
    pub(super) teams: BTreeSet<String>,
    /// Rows of teams, also of those that were removed.
    pub(super) records: Vec<TeamRecord>,
    /// Teams that have a folder.
    pub(super) folders: BTreeSet<String>,
    /// The main team has done or kept something, or has a file that is not the shipped one.
    pub(super) main_in_use: bool,
    /// Settings files that say something of their own.
    pub(super) settings: BTreeSet<&'static str>,
    pub(super) rules: BTreeSet<String>,
    /// Topics are idle after this time.
    pub(super) idle_after: Duration,
    /// The zone of the settings.
    pub(super) zone: String,
    /// The newest place in the order of accepted tasks.
    pub(super) arrivals: u64,
}

hivewright_actors::records! {
    MarkRow: "edge\0import", String;
}

/// What was taken, as it is stored under its mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarkRow {
    /// What it is called here.
    pub(super) name: String,
    pub(super) at: Timestamp,
}

/// What the file of the main team is called among those that are shipped.
pub(super) const MAIN_FILE: &str = "main-team.yaml";

/// The settings files that are imported.
const FILES: [&str; 3] = ["config.yaml", "providers.yaml", "channels.yaml"];

impl Target {
    /// Looks at a home, and at its store if it has one. Blocks.
    pub(super) fn read(goal: &Goal<'_>) -> Result<Self, StorageError> {
        let home = goal.home;
        let folders: BTreeSet<String> = team_names(home).into_iter().collect();
        let mut target = Self {
            now: goal.now,
            teams: folders.iter().filter(|name| *name != MAIN).cloned().collect(),
            folders,
            main_in_use: !is_free(&home.team_file(MAIN), MAIN_FILE),
            settings: FILES
                .into_iter()
                .filter(|name| !is_free(&home.data().join("config").join(name), name))
                .collect(),
            rules: names(&home.rules()),
            idle_after: goal.idle_after,
            zone: goal.zone.clone(),
            ..Self::default()
        };
        let Some(storage) = goal.storage else {
            return Ok(target);
        };
        let marks = scan_keyed::<MarkRow>(storage, Range::all())?;
        target.marks = marks.into_iter().map(|(mark, row)| (mark, row.name)).collect();
        target.records = scan::<TeamRecord>(storage, Range::all())?;
        let living = target.records.iter().filter(|team| team.state != TeamState::Removed);
        target.teams.extend(living.map(|team| team.name.to_string()).filter(|name| name != MAIN));
        let open = scan::<Task>(storage, Range::all())?;
        target.arrivals = open.iter().map(|task| task.arrival).max().unwrap_or(0);
        target.main_in_use |= !open.is_empty() || has_worked(storage)?;
        Ok(target)
    }

    pub(super) fn has(&self, mark: &str) -> bool {
        self.marks.contains_key(mark)
    }

    /// The team of this name that an earlier import made.
    pub(super) fn team_key(&self, name: &str) -> TeamKey {
        let mut records = self.records.iter().rev();
        let living =
            records.find(|team| team.name.as_str() == name && team.state != TeamState::Removed);
        living.map_or_else(|| TeamKey::first(name), TeamRecord::key)
    }

    /// How often the name was given, with the next time.
    pub(super) fn next_generation(&self, name: &str) -> u32 {
        let records = self.records.iter().filter(|team| team.name.as_str() == name);
        records.map(|team| team.generation).max().unwrap_or(0) + 1
    }
}

/// Nothing is lost if the file is written: it is not there, is as shipped, or says nothing.
pub(super) fn is_free(path: &Path, name: &str) -> bool {
    match fs::read_to_string(path) {
        Ok(text) => {
            scaffold::is_shipped(name, &text) || yaml::parse(&text, name) == Ok(yaml::Yaml::Null)
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// The main team has kept something, or someone has talked to it.
fn has_worked(storage: &dyn Storage) -> Result<bool, StorageError> {
    if !scan_keyed::<ChannelRow>(storage, Range::all())?.is_empty() {
        return Ok(true);
    }
    let main = TeamKey::first(MAIN);
    Ok(!memory::rows::keys(storage, &main)?.is_empty()
        || !triggers::of_team(storage, &main)?.is_empty()
        || !vault::rows::keys(storage, &Scope::Team(main))?.is_empty())
}
