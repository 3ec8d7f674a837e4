//! `teams/<name>/config.yaml`: what a team is and may do.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::{briefing::QueueMode, budget::Caps};

use super::{
    config::{LONGEST_TURN, SHORTEST, read_tools},
    field::Field,
    home::{Home, resolve},
    problem::{Problem, Problems},
    providers::{DEFAULT_PROFILE, Providers},
    reader::{Document, Section},
};

/// The whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Team {
    /// The folder's name.
    pub name: String,
    /// What it is for, in words for people and other teams.
    pub description: String,
    /// How its model is reached.
    pub provider_profile: String,
    /// `profile:model`, a profile or a model; none is the profile's model.
    pub model: Option<String>,
    /// What a message during a turn does.
    pub queue_mode: QueueMode,
    /// The most model calls of a turn.
    pub max_steps: u32,
    /// The longest turn; none is the setting for all.
    pub turn_timeout: Option<Duration>,
    /// Patterns of tools it may use.
    pub allowed_tools: Vec<String>,
    /// Folders beside its workspace.
    pub allowed_dirs: Vec<AllowedDir>,
    /// What it and all below it may spend.
    pub budgets: Caps,
    /// Whether it learns from its work on its own.
    pub learning: bool,
    /// How often it looks for something to do; none is never.
    pub heartbeat: Option<Duration>,
}

/// A folder that a team may use beside its workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedDir {
    /// The real path, without symbolic links.
    pub path: PathBuf,
    /// What it may do there.
    pub mode: DirMode,
}

/// What a team may do in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirMode {
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl Team {
    /// A team with nothing but defaults.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            provider_profile: DEFAULT_PROFILE.to_owned(),
            model: None,
            queue_mode: QueueMode::Queue,
            max_steps: 50,
            turn_timeout: None,
            allowed_tools: Vec::new(),
            allowed_dirs: Vec::new(),
            budgets: Caps::default(),
            learning: false,
            heartbeat: None,
        }
    }
}

/// The name is one that a team can have, and so safe as the name of a folder.
pub(crate) fn is_team_name(name: &str) -> bool {
    let word = |word: &str| {
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        !word.is_empty() && word.bytes().all(good)
    };
    (2..=48).contains(&name.len()) && name.split('-').all(word)
}

/// Keys of other times, and what takes their place.
const RETIRED: [(&str, &str); 6] = [
    (
        "credentials",
        "secrets don't belong in this file; `hivewright vault set` takes them, and the key of a model goes into `config/providers.yaml`",
    ),
    ("parent", "the service keeps the tree of teams; leave it out"),
    ("engine", "`provider_profile` and `model` choose what answers"),
    ("maxTurns", "use `max_steps`"),
    ("scope", "a team is given its scope when it is created; `description` says what it is for"),
    ("log_level", "use `log.level` in `config/config.yaml`"),
];

/// Reads the file of the team `name`: what it says, and what works and should not stay.
///
/// The profiles it names must be among `providers`, if those are known.
pub(crate) fn read(
    text: &str,
    document: Document,
    name: &str,
    home: &Home,
    providers: Option<&Providers>,
) -> Result<(Team, Vec<Problem>), Problems> {
    let team = document.read(text, |root| {
        let team = read_team(root, name, home);
        if let Some(providers) = providers {
            check_profile(root, &team, providers);
        }
        team
    });
    document.finish(team)
}

fn check_profile(root: &mut Section<'_>, team: &Team, providers: &Providers) {
    let own = providers.misnamed(&team.provider_profile, None);
    if let (Some(field), Some(reason)) = (root.field("provider_profile"), &own) {
        field.reject::<()>(reason);
        return;
    }
    let Some(reason) = providers.misnamed(&team.provider_profile, team.model.as_deref()) else {
        return;
    };
    match root.field("model") {
        Some(field) if own.is_none() => drop(field.reject::<()>(reason)),
        _ => root.reject(format!("`provider_profile`: {reason}")),
    }
}

fn read_team(root: &mut Section<'_>, name: &str, home: &Home) -> Team {
    let default = Team::new(name);
    for (key, reason) in RETIRED {
        root.retired(key, reason);
    }
    root.maybe("name", |field| {
        field.parse(|text| match text {
            _ if text == name => Ok(()),
            _ => Err(format!("must be `{name}`, like the folder")),
        })
    });
    Team {
        description: root.get("description", default.description, |field| {
            field.parse(|text| match text.chars().count() {
                0..=500 => Ok(text.to_owned()),
                _ => Err("has more than 500 characters"),
            })
        }),
        provider_profile: root
            .get("provider_profile", default.provider_profile, |field| field.text()),
        model: root.maybe("model", read_model),
        queue_mode: root.get("queue_mode", default.queue_mode, |field| {
            field.choice(&[
                ("queue", QueueMode::Queue),
                ("steer", QueueMode::Steer),
                ("interrupt", QueueMode::Interrupt),
            ])
        }),
        max_steps: read_max_steps(root).unwrap_or(default.max_steps),
        turn_timeout: root.maybe("turn_timeout", |field| field.duration(SHORTEST..=LONGEST_TURN)),
        allowed_tools: root.get("allowed_tools", Vec::new(), read_tools),
        allowed_dirs: root
            .get("allowed_dirs", Vec::new(), |field| field.list(|item| read_dir(&item, home))),
        budgets: root.section("budgets", |budgets| Caps {
            usd_per_day: budgets.maybe("usd_per_day", read_cap),
            tokens_per_day: budgets
                .maybe("tokens_per_day", |field| field.integer(1..=1_000_000_000_000)),
            usd_per_task: budgets.maybe("usd_per_task", read_cap),
        }),
        learning: root.get("learning", default.learning, |field| field.boolean()),
        heartbeat: root
            .maybe("heartbeat", |field| {
                match field.duration(Duration::ZERO..=LONGEST_HEARTBEAT)? {
                    short if !short.is_zero() && short < SHORTEST_HEARTBEAT => {
                        field.reject("expected 0s, which is never, or 1m to 7d")
                    }
                    pause => Some(pause),
                }
            })
            .filter(|pause| !pause.is_zero()),
        name: default.name,
    }
}

/// The shortest and the longest pause between two looks.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(60);
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn read_cap(field: Field<'_>) -> Option<f64> {
    let amount = field.amount()?;
    if amount > 0.0 {
        return Some(amount);
    }
    field.reject("expected a number above 0; leave it out for no cap")
}

fn read_max_steps(root: &mut Section<'_>) -> Option<u32> {
    let steps = root.field("max_steps");
    match (steps, root.field("maxSteps")) {
        (Some(_), Some(alias)) => alias.reject("`max_steps` is given as well; keep one"),
        (steps, alias) => steps.or(alias)?.integer(1..=500),
    }
}

/// A word, or `{provider, model}` with the name of a profile.
fn read_model(field: Field<'_>) -> Option<String> {
    if !field.is_map() {
        return field.text();
    }
    let (profile, model) = field.section(|map| {
        let profile = map.maybe("provider", |field| field.text());
        (profile, map.maybe("model", |field| field.text()))
    });
    match (profile, model) {
        (Some(profile), Some(model)) => Some(format!("{profile}:{model}")),
        (Some(profile), None) => Some(profile),
        (None, Some(model)) => Some(model),
        (None, None) => field.reject("expected `provider`, `model` or both"),
    }
}

fn read_dir(field: &Field<'_>, home: &Home) -> Option<AllowedDir> {
    field.section(|section| {
        let path =
            section.maybe("path", |field| field.parse(|text| check_dir(Path::new(text), home)));
        let mode = section.get("mode", DirMode::ReadOnly, |field| {
            field.choice(&[("ro", DirMode::ReadOnly), ("rw", DirMode::ReadWrite)])
        });
        if section.field("path").is_none() {
            section.reject("needs a `path`");
        }
        path.map(|path| AllowedDir { path, mode })
    })
}

/// A folder that holds the settings, the store or the teams, or lies in them, is never given away.
fn check_dir(path: &Path, home: &Home) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err("expected an absolute path".into());
    }
    let real = resolve(path);
    for (what, own) in [("data", home.data()), ("run", home.run())] {
        let own = resolve(own);
        if real.starts_with(&own) || own.starts_with(&real) {
            return Err(format!("overlaps the {what} dir, which no team may be given"));
        }
    }
    Ok(real)
}
