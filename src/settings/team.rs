//! `teams/<name>/config.yaml`: what a team is and may do.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::{
    briefing::QueueMode, budget::Caps, task, text::is_slug, thinking::Thinking,
};

use super::{
    config::{DAY, LONGEST_TURN, Sdk, read_tools},
    declare::settings,
    document::{Cure, Document},
    egress::{Buckets, Egress},
    field::Field,
    folder_access::{Access, check_dir},
    home::Home,
    mcp_servers::McpServers,
    plugins::Plugins,
    problem::{Problem, Problems},
    providers::{DEFAULT_PROFILE, Providers},
    reader::{Group, Section},
    setting::{Interval, SHORTEST, Setting, choices},
};

pub(crate) const LONGEST_DESCRIPTION: usize = 500;

settings! {
    /// What this team is and may do. Only the operator writes this file; a change counts from the next turn.
    #[retired(RETIRED)]
    pub struct Team {
        #[skip = "its folder's"]
        name: String = String::new(),
        /// Shown to people and to other teams, at most 500 characters.
        #[read(read_description)]
        description: String = String::new(),
        /// The profile in config/providers.yaml.
        provider_profile: String = DEFAULT_PROFILE.to_owned(),
        /// The model: `profile:model`, a profile or a model; otherwise that of `provider_profile`.
        #[read(read_model)]
        #[example("default:claude-sonnet-5-5")]
        model: Option<String> = None,
        /// What runs its turns: our own loop, or a command-line agent, which is to be installed.
        sdk: Sdk = Sdk::Native,
        /// How much the model thinks, where it can. Absent: as the model does by itself. `/think` in a topic comes first.
        #[example("medium")]
        thinking: Option<Thinking> = None,
        /// What another message of the same person does during a turn: wait, join the turn, or end it.
        queue_mode: QueueMode = QueueMode::Queue,
        /// The most model calls of a turn.
        #[range(STEPS)]
        max_steps: u32 = 50,
        /// The longest turn; otherwise `tasks.turn_timeout` of config/config.yaml.
        #[range(SHORTEST..=LONGEST_TURN)]
        #[example("30m")]
        turn_timeout: Option<Duration> = None,
        /// Tools by name, pattern (`*`, `?`) or group; `!` in front takes away.
        #[read(read_tools)]
        allowed_tools: Vec<String> = Vec::new(),
        /// Folders beside the workspace, to read (`ro`) or also to write (`rw`).
        #[example("\n - path: /srv/documents\n   mode: ro")]
        allowed_dirs: Vec<AllowedDir> = Vec::new(),
        egress: Egress,
        /// How often web tools call: by host, `*.` and a domain, `*` for all other hosts, or a name that calls give.
        #[example("\n  api.example.org: {rps: 2, burst: 5}")]
        rate_limit_buckets: Buckets = Buckets::default(),
        /// Servers that offer it tools over MCP, by name; docs/mcp.md says what each can have.
        #[example("\n files:\n   command: /usr/local/bin/mcp-server-filesystem\n   args: [.]\n   workspace: ro")]
        mcp_servers: McpServers = McpServers::default(),
        /// Installed plugins that it has switched on, by key, with their settings.
        #[example("\n weather:\n   enabled: true\n   config: {tools: {token: \"${vault:WEATHER}\"}}")]
        plugins: Plugins = Plugins::default(),
        /// What this team and all teams below it may spend. Absent: no cap.
        budgets: Caps,
        /// Whether it looks back on its work once a day and learns from it.
        learning: bool = false,
        /// How often it looks for something to do on its own.
        #[range(Duration::from_secs(60)..=7 * DAY)]
        heartbeat: Interval = Interval(None),
    }
}

settings! {
    for Caps {
        /// US dollars a day.
        #[read(read_cap)]
        #[example("20")]
        usd_per_day: Option<f64> = None,
        /// Tokens a day.
        #[range(1..=1_000_000_000_000)]
        #[example("10000000")]
        tokens_per_day: Option<u64> = None,
        /// US dollars for a task with all that it leads to.
        #[read(read_cap)]
        #[example("2")]
        usd_per_task: Option<f64> = None,
    }
}

/// The tools of the main team, unless its file says otherwise: it passes work on.
pub(crate) const MAIN_TOOLS: [&str; 5] = ["@org", "@triggers", "@trust", "@memory", "@vault"];

/// How many model calls a task may be given, as settings have numbers.
pub(crate) const STEPS: RangeInclusive<u64> =
    *task::STEPS.start() as u64..=*task::STEPS.end() as u64;

/// A folder that a team may use beside its workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedDir {
    /// The real path, without symbolic links.
    pub path: PathBuf,
    pub access: Access,
}

choices!(QueueMode);
choices!(Thinking);

impl Team {
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// The name is one that a team can have, and so safe as the name of a folder.
pub(crate) fn is_team_name(name: &str) -> bool {
    name.len() >= 2 && is_slug(name, 48)
}

/// Keys of other times, and what takes their place.
const RETIRED: [(&str, Cure, &str); 6] = [
    (
        "credentials",
        Cure::ByHand,
        "secrets don't belong in this file; `hivewright vault set` takes them, and the key of a model goes into `config/providers.yaml`",
    ),
    ("parent", Cure::Remove, "the service keeps the tree of teams; leave it out"),
    ("engine", Cure::ByHand, "use `sdk`; `provider_profile` and `model` choose the model"),
    ("maxTurns", Cure::Rename("max_steps"), "use `max_steps`"),
    (
        "scope",
        Cure::ByHand,
        "a team is given its scope when it is created; `description` says what it is for",
    ),
    ("log_level", Cure::ByHand, "use `log.level` in `config/config.yaml`"),
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
    let document = document.of(home);
    let team = document.read(text, |root| {
        let team = read_team(root, name);
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

pub(super) fn read_team(root: &mut Section<'_>, name: &str) -> Team {
    root.maybe("name", |field| {
        field.parse(|text| match text {
            _ if text == name => Ok(()),
            _ => Err(format!("must be `{name}`, like the folder")),
        })
    });
    let mut team = Team { name: name.to_owned(), ..Team::read(root) };
    // The spelling of other times.
    let given_twice = root.field("max_steps").is_some();
    if root.field("maxSteps").is_some() {
        root.outdate("maxSteps", Cure::Rename("max_steps"), "use `max_steps`");
    }
    let steps = root.maybe("maxSteps", |field| {
        if given_twice {
            return field.reject("`max_steps` is given as well; keep one");
        }
        field.integer(STEPS)
    });
    team.max_steps = steps.unwrap_or(team.max_steps);
    team
}

fn read_description(field: &Field<'_>) -> Option<String> {
    field.parse(|text| match text.chars().count() {
        0..=LONGEST_DESCRIPTION => Ok(text.to_owned()),
        _ => Err(format!("has more than {LONGEST_DESCRIPTION} characters")),
    })
}

fn read_cap(field: &Field<'_>) -> Option<f64> {
    let amount = field.amount()?;
    if amount > 0.0 {
        return Some(amount);
    }
    field.reject("expected a number above 0; leave it out for no cap")
}

/// A word, or `{provider, model}` with the name of a profile.
fn read_model(field: &Field<'_>) -> Option<String> {
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

impl Setting for AllowedDir {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let home = field.home();
        field.section(|section| {
            let check = |text: &str| check_dir(Path::new(text), home);
            let path = section.required("path", |field| field.parse(check));
            let access = section.get("mode", Access::ReadOnly, |field| field.choice());
            path.map(|path| Self { path, access })
        })
    }
}
