//! Migration of settings files: keys and shipped values of earlier versions are brought to their present form.

use std::{
    io,
    path::{Path, PathBuf},
};

use hivewright_actors::ids::MAIN;
use serde::Serialize;
use serde_json::json;

use super::{
    assign::{Unchangeable, assign},
    config::{Config, TEAM_TOOLS},
    document::{Cure, Document, Outdated},
    effective::{Changed, changed},
    erase::{remove, rename},
    error::StartError,
    home::{Home, create_private},
    load::{File, OTHER_NAME, ServiceFile, has_other_name, validate},
    problem::{Problem, Problems},
    reader::Group,
    replace::{create, replace, text},
    team::{MAIN_TOOLS, read_team},
    yaml::{self, Value},
};

/// What would be changed, and what cannot be.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub rewrites: Vec<Rewrite>,
    /// What is wrong in the files all the same.
    pub left: Vec<Problem>,
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub file: PathBuf,
    /// The setting as it is found, such as `store.jetstream`.
    pub path: String,
    /// What the file says otherwise then. Secrets are hidden.
    pub fields: Vec<Changed>,
    pub why: String,
}

/// A file with all its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewrite {
    file: File,
    before: String,
    after: String,
}

/// A list that shipped files once stated, since `init` writes defaults out, and what they state now.
struct Former {
    file: fn() -> File,
    path: &'static str,
    values: &'static [&'static [&'static str]],
    present: &'static [&'static str],
    why: &'static str,
}

const OF_TEAMS: &str = "as an earlier version shipped it; new teams are given these tools now";

/// What new teams were given.
const TEAM_TOOLS_BEFORE: &[&[&str]] = &[
    &[
        "@files",
        "@shell",
        "@web",
        "@org",
        "@triggers",
        "@memory",
        "@vault",
        "@skills",
        "@subagents",
        "@plugins",
    ],
    &["@files", "@shell", "@org", "@triggers", "@memory", "@vault", "@skills", "@subagents"],
];

const FORMER: [Former; 3] = [
    Former {
        file: || File::Service(ServiceFile::Config),
        path: "defaults.allowed_tools",
        values: TEAM_TOOLS_BEFORE,
        present: &TEAM_TOOLS,
        why: OF_TEAMS,
    },
    Former {
        file: || File::Service(ServiceFile::Config),
        path: "defaults.grantable_tools",
        values: TEAM_TOOLS_BEFORE,
        present: &TEAM_TOOLS,
        why: OF_TEAMS,
    },
    Former {
        file: || File::Team(MAIN.to_owned()),
        path: "allowed_tools",
        values: &[
            &["@files", "@shell"],
            &["@org", "@triggers", "@trust", "@topics", "@memory", "@vault"],
        ],
        present: &MAIN_TOOLS,
        why: "as an earlier version shipped it; the main team hands work to other teams now",
    },
];

/// What the shipped files have always stated, and what those with a [`Former`] value did not state yet. A file without the
/// one was written by hand, and one with the other by a later version: there the value was chosen.
const STATED: [&str; 2] = ["runtime", "queue_mode"];
const LATER: &str = "plugins";

/// Looks at all settings files. Blocks.
pub fn plan(home: &Home) -> Plan {
    let mut plan = Plan::default();
    for file in File::all(home) {
        let path = file.path(home);
        if matches!(file, File::Team(_)) && has_other_name(&path) {
            plan.left.push(Problem::of_file(&path, OTHER_NAME));
            continue;
        }
        match text(&path) {
            Ok(before) => plan.add(home, file, before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                plan.left.push(Problem::of_file(&path, format!("cannot be read: {error}")));
            }
        }
    }
    plan
}

impl Plan {
    fn add(&mut self, home: &Home, file: File, before: String) {
        let faults = faults(home, &file, &before);
        let mut after = before.clone();
        for (path, why, edit) in edits(home, &file, &before) {
            // One that cannot be made, or makes something wrong, is left to the operator.
            let Ok(next) = edit(&after) else { continue };
            let is_known = |problem: &Problem| faults.iter().any(|known| is_same(known, problem));
            if next == after || !self::faults(home, &file, &next).iter().all(is_known) {
                continue;
            }
            let fields = changed(&after, &next);
            self.steps.push(Step { file: file.path(home), path, fields, why });
            after = next;
        }
        let still = self::faults(home, &file, &after);
        let is_left = |problem: &Problem| still.iter().any(|other| is_same(other, problem));
        let shown = file.path(home).display().to_string();
        let left = faults.into_iter().filter(is_left);
        self.left.extend(left.map(|problem| Problem { file: shown.clone(), ..problem }));
        if after != before {
            self.rewrites.push(Rewrite { file, before, after });
        }
    }
}

fn faults(home: &Home, file: &File, text: &str) -> Vec<Problem> {
    validate(home, file, text).err().map(|Problems(faults)| faults).unwrap_or_default()
}

fn is_same(one: &Problem, other: &Problem) -> bool {
    (&one.path, &one.reason) == (&other.path, &other.reason)
}

type Edit = Box<dyn Fn(&str) -> Result<String, Unchangeable>>;

/// What could be changed in a text: the setting, why, and how.
fn edits(home: &Home, file: &File, text: &str) -> Vec<(String, String, Edit)> {
    let outdated = match file {
        File::Service(ServiceFile::Config) => Document::outdated(text, home, Config::read),
        File::Service(ServiceFile::Providers | ServiceFile::Channels) => Vec::new(),
        File::Team(name) => Document::outdated(text, home, |root| read_team(root, name)),
    };
    let cures = outdated.into_iter().filter_map(|Outdated { path, cure, reason }| {
        let at = path.clone();
        let edit: Edit = match cure {
            Cure::Remove => Box::new(move |text| remove(text, &at)),
            Cure::Rename(key) => Box::new(move |text| rename(text, &at, key)),
            Cure::ByHand => return None,
        };
        Some((path, reason, edit))
    });
    let said = changed("", text);
    let is_former = |former: &&Former| {
        let value = said.iter().find(|setting| setting.path == former.path);
        let is = |list: &&[&str]| value.is_some_and(|value| value.after == json!(list));
        (former.file)() == *file && former.values.iter().any(is) && is_as_shipped(text)
    };
    let values = FORMER.iter().filter(is_former).map(|former| {
        let present = json!(former.present).to_string().replace(',', ", ");
        let edit: Edit = Box::new(move |text| assign(text, former.path, &present));
        (former.path.to_owned(), former.why.to_owned(), edit)
    });
    cures.chain(values).collect()
}

fn is_as_shipped(text: &str) -> bool {
    let Value::Map(entries) = yaml::parse(text, "", &mut Vec::new()).value else { return false };
    let has = |key: &str| entries.iter().any(|entry| entry.key == key);
    STATED.into_iter().any(has) && !has(LATER)
}

/// Why files were not changed. All are as they were, but where it says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error(transparent)]
    Backup(#[from] StartError),
    #[error("`{}` was changed meanwhile, so nothing was done; run it again", .0.display())]
    Changed(PathBuf),
    #[error("`{}` cannot be written, so nothing was changed", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be put back; what it said is in `{}`", path.display(), backup.display())]
    PutBack { path: PathBuf, backup: PathBuf, source: io::Error },
}

impl Plan {
    /// Puts the new texts in place of the old ones, which are kept in `backup`, a folder that is made for them. Blocks.
    pub fn apply(&self, home: &Home, backup: &Path) -> Result<(), MigrateError> {
        for Rewrite { file, before, .. } in &self.rewrites {
            keep(&file.path(home), before, home, backup)?;
        }
        for (place, Rewrite { file, before, after }) in self.rewrites.iter().enumerate() {
            let path = file.path(home);
            let fault = match text(&path) {
                Ok(now) if now == *before => match replace(&path, &file.beside(home), after) {
                    Ok(()) => continue,
                    Err(source) => MigrateError::Write { path, source },
                },
                _ => MigrateError::Changed(path),
            };
            for Rewrite { file, before, .. } in &self.rewrites[..place] {
                let path = file.path(home);
                replace(&path, &file.beside(home), before).map_err(|source| {
                    MigrateError::PutBack { path, backup: backup.to_owned(), source }
                })?;
            }
            return Err(fault);
        }
        Ok(())
    }
}

/// Keeps a copy under the path that the file has in its home.
fn keep(path: &Path, text: &str, home: &Home, backup: &Path) -> Result<(), StartError> {
    let inside = path.strip_prefix(home.data()).or_else(|_| path.strip_prefix(home.run()));
    let copy = backup.join(inside.unwrap_or(path));
    let folder = copy.parent().unwrap_or(backup);
    create_private(folder)?;
    create(&copy, text.as_bytes()).map_err(|source| StartError::Unusable { path: copy, source })
}
