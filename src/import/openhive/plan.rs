//! Plan of an import: everything that will be made, and the report on it. Pure data.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::{
    history::HistoryEvent,
    ids::{ChannelId, Ids, MAIN, TeamKey},
    org::record::TeamRecord,
    router::topics::Topic,
    store::records::Writes,
    task::TopicRef,
};

use super::{
    checks::Checks,
    files::FolderCopy,
    installation::{Installation, TeamFolder},
    redact::Redactor,
    report::{Item, Kind, Report},
    schema::DERIVED,
    source::Extra,
    target::Target,
};
use crate::{
    memory::entry::Entry as Memory,
    settings::secret::Secret,
    vault::{entry::Put, scope::Scope},
};

#[cfg(test)]
mod tests;

/// A part of the database that is not taken.
pub(super) const TABLE: Kind = Kind::listed("table");

/// So many rows of what is counted rather than listed are committed at once.
const SLICE: usize = 1_000;

/// An entry to be made.
#[derive(Clone, Debug)]
pub(super) struct VaultEntry {
    pub(super) scope: Scope,
    pub(super) key: String,
    pub(super) value: Secret,
    pub(super) is_secret: bool,
}

impl VaultEntry {
    pub(super) fn put(&self) -> Put {
        let value = self.value.expose();
        let put = if self.is_secret { Put::secret(value) } else { Put::public(value) };
        Put { note: Some("imported from OpenHive".to_owned()), ..put }
    }
}

/// Something that an import makes, in the form in which it is kept here.
#[derive(Clone, Debug)]
pub(super) enum Artifact {
    SettingsFile {
        name: &'static str,
        text: String,
    },
    Rule {
        name: String,
        text: Vec<u8>,
    },
    /// The main team has a row from its first start on.
    MainTeam,
    Team(Box<TeamRecord>),
    Folder(FolderCopy),
    Secret(VaultEntry),
    Memory(Box<Memory>),
    /// With what was said in it, as turns of its session: both are there, or neither.
    Topic(ChannelId, Topic, Vec<HistoryEvent>),
    /// A row of any other kind, as it is stored.
    Row {
        name: String,
        writes: Writes,
    },
    /// Lines of JSON.
    Log(String),
}

impl Artifact {
    pub(super) fn row(name: impl ToString, writes: Writes) -> Self {
        Self::Row { name: name.to_string(), writes }
    }

    /// What it is called here.
    pub(super) fn name(&self) -> String {
        match self {
            Self::SettingsFile { name, .. } => (*name).to_owned(),
            Self::Rule { name, .. } | Self::Row { name, .. } => name.clone(),
            Self::MainTeam => MAIN.to_owned(),
            Self::Team(record) => record.name.to_string(),
            Self::Folder(folder) => folder.team.clone(),
            Self::Secret(entry) => entry.key.clone(),
            Self::Memory(memory) => memory.id.to_string(),
            Self::Topic(_, topic, _) => topic.id.to_string(),
            Self::Log(_) => "log".to_owned(),
        }
    }

    fn is_on_disk(&self) -> bool {
        matches!(
            self,
            Self::SettingsFile { .. } | Self::Rule { .. } | Self::Folder(_) | Self::Log(_)
        )
    }
}

/// Something to be made, and what it is known by in the source.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) kind: Kind,
    /// Its team in the source.
    pub(super) team: Option<String>,
    pub(super) mark: String,
    pub(super) artifact: Artifact,
}

impl Planned {
    /// A secret of a settings file.
    pub(super) fn is_of_settings(&self) -> bool {
        matches!(&self.artifact, Artifact::Secret(entry) if entry.scope == Scope::System)
    }

    /// It goes into one commit with the one before it.
    fn follows(before: &Self, this: &Self) -> bool {
        let is_row = !before.artifact.is_on_disk() && !this.artifact.is_on_disk();
        let is_alike = before.kind == this.kind && before.is_of_settings() == this.is_of_settings();
        is_row && is_alike && before.team == this.team
    }
}

#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub report: Report,
    /// In the order in which it is made.
    pub(super) planned: Vec<Planned>,
}

impl Plan {
    /// What is committed at once: one kind of one team, or one file.
    pub(super) fn batches(&self) -> impl Iterator<Item = &[Planned]> {
        self.planned.chunk_by(Planned::follows).flat_map(|batch| {
            let counted = batch.first().is_some_and(|planned| planned.kind.is_counted);
            batch.chunks(if counted { SLICE } else { batch.len() })
        })
    }
}

/// What the operator wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// `*` in `allowed_tools` stays.
    pub keep_wildcard: bool,
    pub with_logs: bool,
}

/// Why something that was taken before is not taken again.
pub(super) const BEFORE: &str = "imported before";

/// Why a thing of the source stays behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    /// Something is wrong with it.
    pub(super) error: bool,
}

impl Refusal {
    /// It stays behind, as it should.
    pub(super) fn intended(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), error: false }
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, error: true }
    }
}

/// What becomes of a thing of the source, and what was changed on the way.
pub(super) type Conversion = Result<(Artifact, Vec<String>), Refusal>;

/// A team that is taken, now or by an earlier import.
#[derive(Clone, Debug)]
pub(super) struct Team<'a> {
    /// Its name in the source.
    pub(super) former: &'a str,
    pub(super) key: TeamKey,
    pub(super) folder: Option<&'a TeamFolder>,
    /// Its skills that need tools which must be registered anew, with these tools.
    pub(super) broken_skills: BTreeMap<String, Vec<String>>,
}

/// A plan in the making, with all it is made from.
pub(super) struct Planner<'a> {
    pub(super) found: &'a Installation,
    pub(super) target: &'a Target,
    pub(super) options: Options,
    pub(super) checks: &'a dyn Checks,
    pub(super) ids: &'a Ids,
    pub(super) plan: Plan,
    pub(super) redactor: Redactor,
    /// What profiles of models are called here, by their former names.
    pub(super) profiles: BTreeMap<String, String>,
    /// Topics by their ids, also those of earlier imports.
    pub(super) topics: BTreeMap<String, TopicRef>,
    pub(super) teams: BTreeMap<&'a str, Team<'a>>,
    /// Teams that stay behind.
    pub(super) left: BTreeSet<&'a str>,
}

impl Planner<'_> {
    pub(super) fn report(&mut self, item: Item) {
        self.plan.report.push(item);
    }

    /// Plans one thing of the source unless an earlier import took it, and reports it.
    pub(super) fn take(
        &mut self,
        kind: Kind,
        team: Option<&str>,
        name: impl Into<String>,
        mark: String,
        conversion: Conversion,
    ) {
        let mut item = match conversion {
            _ if self.target.has(&mark) => Item::left(kind, name, BEFORE),
            Err(Refusal { reason, error: true }) => Item::faulty(kind, name, reason),
            Err(Refusal { reason, .. }) => Item::left(kind, name, reason),
            Ok((artifact, changes)) => {
                self.make(kind, team, mark, artifact);
                Item::taken(kind, name, &changes)
            }
        };
        item.team = team.map(str::to_owned);
        self.report(item);
    }

    /// Plans something that the report does not list.
    pub(super) fn make(
        &mut self,
        kind: Kind,
        team: Option<&str>,
        mark: String,
        artifact: Artifact,
    ) {
        let team = team.map(str::to_owned);
        self.plan.planned.push(Planned { kind, team, mark, artifact });
    }

    /// What a team of the source is called here.
    pub(super) fn called(&self, former: &str) -> String {
        self.teams.get(former).map_or(former, |team| team.key.name.as_str()).to_owned()
    }

    /// Reports rows of teams that are not taken, by the teams of all rows.
    pub(super) fn strays<'r>(&mut self, kind: Kind, teams: impl Iterator<Item = &'r str>) {
        let mut strays: BTreeMap<&str, u64> = BTreeMap::new();
        for team in teams.filter(|team| !self.teams.contains_key(*team)) {
            *strays.entry(team).or_default() += 1;
        }
        for (team, count) in strays {
            let is_left = self.left.contains(team);
            let reason = if is_left { "their team stays behind" } else { "there is no such team" };
            self.report(Item::left(kind, "(all)", reason).of(team).times(count));
        }
    }

    /// Reports what is in the database and is not taken.
    pub(super) fn leftovers(&mut self) {
        for table in DERIVED {
            let Some(rows) = self.found.tables.unread(table) else { continue };
            let reason = "it follows from the rest, and is made anew";
            self.report(Item::left(TABLE, table, reason).times(rows));
        }
        for Extra { table, column } in &self.found.extras {
            let name = match column {
                Some(column) => format!("{table}.{column}"),
                None => table.clone(),
            };
            self.report(Item::left(TABLE, name, "nobody here knows what it means"));
        }
    }
}
