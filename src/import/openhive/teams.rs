//! Teams: for each its row, its folder and its file.

use std::collections::BTreeMap;

use hivewright_actors::{
    ids::{MAIN, TeamKey},
    org::record::{Phase, TeamRecord, TeamState},
};

use super::{
    IMPORT,
    file_draft::SETTINGS,
    files::{self, FolderCopy},
    installation::TeamFolder,
    plan::{Artifact, Planner, Team},
    plugins,
    report::{Item, Kind},
    schema::mark,
    tasks,
    team_files::{self, TeamFile},
    team_tree::{OrgRow, TeamDraft, arrange, scope},
    vault,
    yaml::Yaml,
};
use crate::settings::home::TEAM_FILE;

pub const KIND: Kind = Kind::listed("team");

pub(super) fn plan(planner: &mut Planner<'_>) {
    let (found, target) = (planner.found, planner.target);
    let given: BTreeMap<&str, &String> = found
        .tables
        .of::<OrgRow>()
        .iter()
        .filter_map(|row| Some((row.id.as_str(), target.marks.get(&row.mark())?)))
        .collect();
    let others = &target.teams - &given.values().map(|name| (*name).clone()).collect();
    let (drafts, left) = arrange(found.tables.of(), found.tables.of(), &given, &others);
    for (former, reason) in left {
        planner.report(Item::left(KIND, former, reason));
        planner.left.insert(former);
    }
    for draft in drafts {
        if draft.is_main() && target.main_in_use && !target.has(&draft.mark) {
            let reason = "it has worked here already, and teams are not merged; \
                          an import into a fresh home takes it";
            planner.report(Item::left(KIND, MAIN, reason));
            planner.left.insert(draft.former);
        } else {
            plan_team(planner, draft);
        }
    }
    for name in found.folders.keys().map(String::as_str) {
        if !planner.teams.contains_key(name) && !planner.left.contains(name) {
            let reason = "the tree has no team of this name";
            planner.report(Item::left(files::KIND, format!("teams/{name}"), reason));
        }
    }
}

fn plan_team<'a>(planner: &mut Planner<'a>, mut draft: TeamDraft<'a>) {
    let target = planner.target;
    let (former, is_known) = (draft.former, target.has(&draft.mark));
    let folder = planner.found.folders.get(former);
    let mut items = folder.map(folder_items).unwrap_or_default();
    let file = draft.read_file(folder, planner, &mut items);
    draft.fill_scope(&file.scope);
    draft.changes.extend(file.draft.changes.iter().cloned());
    let config = match file.draft.settled(|text| planner.checks.team(&draft.name, text)) {
        Ok((text, refused)) => {
            items.extend(refused);
            text
        }
        Err(problems) => {
            items.push(Item::faulty(SETTINGS, TEAM_FILE, problems.to_string()));
            Yaml::map([("name", Yaml::text(&draft.name))]).write()
        }
    };
    items.extend(file.draft.items);
    if !draft.is_main() && draft.degraded.is_none() {
        draft.changes.push(format!("paused until `hivewright teams resume {}`", draft.name));
    }
    let (artifact, key) = if draft.is_main() {
        (Artifact::MainTeam, TeamKey::first(MAIN))
    } else {
        let record = draft.record(planner);
        let key = if is_known { target.team_key(&draft.name) } else { record.key() };
        (Artifact::Team(Box::new(record)), key)
    };
    let conversion = Ok((artifact, draft.changes.clone()));
    planner.take(KIND, None, former, draft.mark.clone(), conversion);
    let copy_mark = mark("folder", former, &draft.mark);
    let is_copied = target.has(&copy_mark)
        || (is_known && !draft.is_main() && target.folders.contains(&draft.name));
    if is_known && is_copied {
        // What is said of a file that was copied before was said then.
        items.clear();
    }
    planner.plan.report.items.extend(items.into_iter().map(|item| item.of(former)));
    if let Some(folder) = folder.filter(|_| !is_copied) {
        let (is_main, from) = (draft.is_main(), folder.path.clone());
        let copy = FolderCopy { team: draft.name, is_main, from, config };
        planner.make(files::KIND, Some(former), copy_mark, Artifact::Folder(copy));
    }
    let broken_skills = plugins::broken_skills(planner.found, former);
    let team = Team { former, key, folder, broken_skills };
    vault::plan(planner, &team, &file.draft.secrets);
    planner.teams.insert(former, team);
}

/// What is said of a folder beside its file.
fn folder_items(folder: &TeamFolder) -> Vec<Item> {
    let links = folder.links.iter();
    let mut items: Vec<Item> =
        links.map(|link| Item::left(files::KIND, link, "links are not followed")).collect();
    if !folder.plugins.is_empty() {
        let item = Item::taken(files::KIND, "plugins", &[format!("moved to `{}`", files::SOURCES)]);
        items.push(item.times(folder.plugins.len() as u64));
    }
    items
}

impl TeamDraft<'_> {
    fn degrade(&mut self, reason: &str, change: &str) {
        self.changes.push(change.to_owned());
        self.degraded.get_or_insert(reason.to_owned());
    }

    fn read_file(
        &mut self,
        folder: Option<&TeamFolder>,
        planner: &Planner<'_>,
        items: &mut Vec<Item>,
    ) -> TeamFile {
        let tree = match folder.map(|folder| &folder.config) {
            Some(Ok(Some(tree))) => tree.clone(),
            Some(Ok(None)) => {
                self.changes.push("it has no `config.yaml`, so defaults hold".into());
                Yaml::Null
            }
            Some(Err(reason)) => {
                items.push(Item::faulty(SETTINGS, TEAM_FILE, reason));
                self.degrade(
                    "its `config.yaml` could not be read",
                    "its `config.yaml` cannot be read, and it is degraded",
                );
                return TeamFile::default();
            }
            None => {
                self.degrade("it has no folder", "it has no folder, and is degraded");
                return TeamFile::default();
            }
        };
        let (profiles, keep_wildcard) = (&planner.profiles, planner.options.keep_wildcard);
        team_files::convert(&self.name, self.is_main(), tree, profiles, keep_wildcard)
    }

    /// The words of its file are its scope if the tree has none, and else its name.
    fn fill_scope(&mut self, of_file: &[String]) {
        if self.scope.is_empty() {
            self.scope = scope(of_file.iter().map(String::as_str), &mut self.changes);
        }
        if self.scope.is_empty() && !self.is_main() {
            self.scope.insert(self.name.clone());
            self.changes.push("its name is its scope, since it had none".into());
        }
    }

    fn record(&self, planner: &Planner<'_>) -> TeamRecord {
        let (target, now) = (planner.target, planner.target.now);
        let bootstrap = tasks::open_bootstrap(planner.found.tables.of(), self.former);
        let is_degraded = self.degraded.is_some();
        TeamRecord {
            name: self.name.as_str().into(),
            generation: target.next_generation(&self.name),
            parent: self.parent.as_deref().map(Into::into),
            state: if is_degraded { TeamState::Degraded } else { TeamState::Paused },
            phase: match &bootstrap {
                _ if self.is_ready => Phase::Ready,
                Some(_) => Phase::Initializing,
                None => Phase::Failed,
            },
            bootstrap_task: bootstrap.filter(|_| !self.is_ready),
            scope: self.scope.clone(),
            created_at: self.created_at.unwrap_or(now),
            created_by: IMPORT.to_owned(),
            ..TeamRecord::main(now)
        }
    }
}
