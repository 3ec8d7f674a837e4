//! Teams, their files and their vaults.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::ids::MAIN;

use super::{
    super::{
        found::{Folder, Found},
        memories,
        org::{self, Place, Planned},
        plugins,
        report::{Item, Kind},
        rows::{OrgRow, VaultRow},
        target::{Target, mark},
        teams::{self, TeamFile, Wishes},
        vault::{self, Redactor},
        yaml::{Yaml, settle},
    },
    BEFORE, Checks, FolderPlan, Marked, Options, Plan, TeamPlan,
    files::refusal,
};
use crate::settings::secret::Secret;

/// The most entries of a team's vault.
const MOST_ENTRIES: usize = 500;

/// Who the teams of the source are here.
#[derive(Debug, Default)]
pub(super) struct Cast {
    /// The index of its plan, by its former name.
    pub(super) plans: BTreeMap<String, usize>,
    /// Teams that stay behind.
    pub(super) left: BTreeSet<String>,
    /// Takes secrets out of all texts.
    pub(super) redactor: Redactor,
}

impl Plan {
    pub(super) fn teams(
        &mut self,
        found: &Found,
        target: &Target,
        options: Options,
        profiles: &BTreeMap<String, String>,
        checks: &dyn Checks,
    ) -> Cast {
        let rows = with_main(&found.tables.teams);
        let mark_of = |row: &OrgRow| mark("org_tree", &row.id, &row.created_at);
        let marks: BTreeMap<&str, String> =
            rows.iter().map(|row| (row.id.as_str(), mark_of(row))).collect();
        let given = marks
            .iter()
            .filter_map(|(id, mark)| Some(((*id).to_owned(), target.marks.get(mark)?.clone())))
            .collect();
        let wishes = Wishes { profiles, keep_wildcard: options.keep_wildcard };
        let others = &target.teams - &BTreeSet::from_iter(BTreeMap::values(&given).cloned());
        let mut cast = Cast::default();
        for planned in org::plan(&rows, &found.tables.keywords, &given, &others) {
            let place = match planned {
                Planned::Place(place) => place,
                Planned::Left(former, reason) => {
                    self.report.push(Item::left(Kind::Team, &former, reason));
                    cast.left.insert(former);
                    continue;
                }
            };
            let mark = marks.get(place.former.as_str()).cloned().unwrap_or_default();
            if place.is_root() && target.main_in_use && !target.has(&mark) {
                let reason = "it has worked here already, and teams are not merged; \
                              an import into a fresh home takes it";
                self.report.push(Item::left(Kind::Team, MAIN, reason));
                cast.left.insert(place.former);
                continue;
            }
            cast.plans.insert(place.former.clone(), self.teams.len());
            let folder = found.folders.get(&place.former);
            self.team(place, folder, mark, target, wishes, checks, &found.tables.vault);
        }
        for name in found.folders.keys() {
            if !cast.plans.contains_key(name) && !cast.left.contains(name) {
                let reason = "the tree has no team of this name";
                let item = Item::left(Kind::File, format!("teams/{name}"), reason);
                self.report.push(item);
            }
        }
        cast.redactor = self.redactor();
        cast
    }

    #[expect(clippy::too_many_arguments, reason = "one call, and a struct would only repeat it")]
    fn team(
        &mut self,
        mut place: Place,
        folder: Option<&Folder>,
        mark: String,
        target: &Target,
        wishes: Wishes<'_>,
        checks: &dyn Checks,
        vault: &[VaultRow],
    ) {
        let known = target.has(&mark);
        let (file, mut items) = match folder {
            Some(folder) => read_file(&mut place, folder, wishes),
            None => {
                place.changes.push("it has no folder, and is degraded".into());
                place.degraded.get_or_insert("it has no folder".into());
                (TeamFile::default(), Vec::new())
            }
        };
        if place.scope.is_empty() {
            place.scope = org::scope(file.scope.iter().map(String::as_str), &mut place.changes);
        }
        if place.scope.is_empty() && !place.is_root() {
            place.scope.insert(place.name.clone());
            place.changes.push("its name is its scope, since it had none".into());
        }
        place.changes.extend(file.changes);
        let mut tree = Yaml::Map(file.tree);
        match settle(&mut tree, |text| checks.team(&place.name, text)) {
            Ok(gone) => items.extend(gone.into_iter().map(|problem| {
                let name = format!("config.yaml: {}", problem.path);
                Item::faulty(Kind::Settings, name, refusal(problem.reason)).of(&place.former)
            })),
            Err(problems) => {
                let reason = problems.to_string();
                items.push(Item::faulty(Kind::Settings, "config.yaml", reason).of(&place.former));
                tree = Yaml::map([("name", Yaml::text(&place.name))]);
            }
        }
        let team = &place.former;
        items.extend(file.items);
        let rows: Vec<&VaultRow> = vault.iter().filter(|row| row.team == *team).collect();
        let (entries, journals) =
            secrets(team, &rows, &file.secrets, target, &mut items, &mut self.secrets);
        let copy_mark = super::super::target::mark("folder", team, &mark);
        let copied = target.has(&copy_mark)
            || (known && !place.is_root() && target.folders.contains(&place.name));
        self.report.push(match known {
            true => Item::left(Kind::Team, team, BEFORE),
            false if place.is_root() || place.degraded.is_some() => {
                Item::taken(Kind::Team, team, &place.changes)
            }
            false => {
                place
                    .changes
                    .push(format!("paused until `hivewright teams resume {}`", place.name));
                Item::taken(Kind::Team, team, &place.changes)
            }
        });
        if known && copied {
            // What is said of a file that was copied before was said then.
            items.retain(|item| !matches!(item.kind, Kind::Settings | Kind::File));
        }
        self.report.items.extend(items);
        self.teams.push(TeamPlan {
            record: (!known).then(|| mark.clone()),
            folder: folder.filter(|_| !copied).map(|folder| Marked {
                mark: copy_mark,
                thing: FolderPlan { from: folder.path.clone(), config: tree.write() },
            }),
            vault: entries,
            memories: journals,
            triggers: Vec::new(),
            tasks: Vec::new(),
            plugins: Vec::new(),
            place,
        });
    }

    fn redactor(&self) -> Redactor {
        let secrets = self.secrets.iter();
        Redactor::new(secrets.map(|(value, key)| (value, key.as_str())))
    }
}

/// The main team is always there, also if nobody wrote it down.
fn with_main(rows: &[OrgRow]) -> Vec<OrgRow> {
    let mut rows = rows.to_vec();
    if rows.iter().all(|row| row.id != MAIN) {
        let main = OrgRow {
            id: MAIN.into(),
            name: MAIN.into(),
            parent: None,
            status: "active".into(),
            created_at: String::new(),
            bootstrapped: true,
        };
        rows.insert(0, main);
    }
    rows
}

fn read_file(place: &mut Place, folder: &Folder, wishes: Wishes<'_>) -> (TeamFile, Vec<Item>) {
    let mut items: Vec<Item> = folder
        .links
        .iter()
        .map(|link| Item::left(Kind::File, link, "links are not followed").of(&place.former))
        .collect();
    let moved = folder.plugins.len() as u64;
    if moved > 0 {
        let change = format!("moved to `{}`", plugins::FOLDER);
        let item = Item::taken(Kind::File, "plugins", &[change]);
        items.push(item.of(&place.former).times(moved));
    }
    let file = match &folder.config {
        Ok(Some(tree)) => teams::convert(&place.name, place.is_root(), tree.clone(), wishes),
        Ok(None) => {
            place.changes.push("it has no `config.yaml`, so defaults hold".into());
            teams::convert(&place.name, place.is_root(), Yaml::Null, wishes)
        }
        Err(reason) => {
            let item = Item::faulty(Kind::Settings, "config.yaml", reason);
            items.push(item.of(&place.former));
            place.changes.push("its `config.yaml` cannot be read, and it is degraded".into());
            place.degraded.get_or_insert("its `config.yaml` could not be read".into());
            TeamFile::default()
        }
    };
    (file, items)
}

/// Entries of a team's vault, and the journals in it, which are memories.
fn secrets(
    team: &str,
    rows: &[&VaultRow],
    credentials: &[(String, Secret)],
    target: &Target,
    items: &mut Vec<Item>,
    known: &mut Vec<(Secret, String)>,
) -> (Vec<Marked<vault::Entry>>, Vec<Marked<memories::Memory>>) {
    let (mut entries, mut journals) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    let in_file = |key: &str| credentials.iter().any(|(other, _)| other == key);
    let mut take = |key: &str, value: &Secret, secret, mark: String, said: &[String]| {
        let item = match vault::convert(key, value, secret) {
            Ok(entry) if taken.contains(&entry.key) => {
                let reason = format!("the key `{}` is used already", entry.key);
                Item::faulty(Kind::Vault, key, reason)
            }
            Ok(_) if taken.len() >= MOST_ENTRIES => {
                let reason = format!("a vault has at most {MOST_ENTRIES} entries");
                Item::faulty(Kind::Vault, key, reason)
            }
            Ok(thing) => {
                taken.insert(thing.key.clone());
                if thing.secret {
                    known.push((thing.value.clone(), thing.key.clone()));
                }
                if target.has(&mark) {
                    Item::left(Kind::Vault, key, BEFORE)
                } else {
                    let changes = [&thing.changes, said].concat();
                    entries.push(Marked { mark, thing });
                    Item::taken(Kind::Vault, key, &changes)
                }
            }
            Err(_) if target.has(&mark) => Item::left(Kind::Vault, key, BEFORE),
            Err(reason) => Item::faulty(Kind::Vault, key, reason),
        };
        items.push(item.of(team));
    };
    for (key, value) in credentials {
        let said = "from `credentials` in `config.yaml`".to_owned();
        let mark = mark("credentials", format!("{team}/{key}"), "");
        take(key, value, true, mark, &[said]);
    }
    for row in rows {
        let mark = mark("team_vault", row.id, &row.created_at);
        if vault::is_journal(&row.key) {
            journals.push(Marked {
                mark,
                thing: memories::journal(&row.key, &row.value, (&row.created_at, &row.updated_at)),
            });
        } else if !in_file(&row.key) {
            let value = Secret::new(row.value.clone());
            // What nobody said to be harmless is not shown to models.
            take(&row.key, &value, row.secret.unwrap_or(true), mark, &[]);
        }
    }
    (entries, journals)
}
