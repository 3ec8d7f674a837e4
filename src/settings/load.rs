//! Reads the settings files: at start, when they change, and before a text takes the place of one.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use hivewright_actors::words;

use super::{
    channels::{self, Read},
    config::{self, Config},
    document::Document,
    error::StartError,
    home::Home,
    problem::{Problem, Problems},
    providers::{self, Providers},
    references::{Environment, References},
    team::{self, AllowedDir, Team, is_team_name},
    yaml,
};

/// Reads `config.yaml`: how the service runs, and what works and should not stay. May block.
///
/// If it is wrong, the error holds the problems of all files.
pub fn load_config(
    home: &Home,
    environment: &Environment,
) -> Result<(Config, Vec<Problem>), StartError> {
    read_config(home, environment).map_err(|_| check(home, environment).problems.into())
}

/// What is to be said about all settings files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub problems: Problems,
    /// What works and should not stay.
    pub warnings: Vec<Problem>,
}

pub fn check(home: &Home, environment: &Environment) -> Report {
    let mut report = Report::default();
    let mut take = |outcome: Result<Vec<Problem>, Problems>| match outcome {
        Ok(warnings) => report.warnings.extend(warnings),
        Err(problems) => report.problems.0.extend(problems.0),
    };
    take(read_config(home, environment).map(|(_, warnings)| warnings));
    take(read_channels(home, environment).and_then(Read::whole).and_then(Read::in_use));
    let providers = read_providers(home, environment).0;
    take(providers.as_ref().map_err(Clone::clone).and_then(|providers| {
        let disabled: Vec<_> = providers.disabled.values().cloned().collect();
        if disabled.is_empty() { Ok(providers.warnings.clone()) } else { Err(Problems(disabled)) }
    }));
    for name in team_names(home) {
        let read = read_team_with(home, &name, providers.as_ref().ok());
        take(read.map(|(_, warnings)| warnings));
    }
    report
}

words! {
    /// A settings file of the service.
    pub enum ServiceFile {
        Config = "config",
        Providers = "providers",
        Channels = "channels",
    }
}

impl ServiceFile {
    pub fn path(self, home: &Home) -> PathBuf {
        match self {
            Self::Config => home.config_file(),
            Self::Providers => home.providers_file(),
            Self::Channels => home.channels_file(),
        }
    }
}

/// Any settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    Service(ServiceFile),
    Team(String),
}

impl File {
    /// Those that a home can have.
    pub(crate) fn all(home: &Home) -> impl Iterator<Item = Self> {
        let of_service = ServiceFile::ALL.iter().copied().map(Self::Service);
        of_service.chain(team_names(home).into_iter().map(Self::Team))
    }

    pub(crate) fn path(&self, home: &Home) -> PathBuf {
        match self {
            Self::Service(file) => file.path(home),
            Self::Team(name) => home.team_file(name),
        }
    }

    /// Where a new text of it is until it is whole: no command of a team can write there.
    pub(crate) fn beside(&self, home: &Home) -> PathBuf {
        match self {
            Self::Service(_) => home.data().join("config"),
            Self::Team(_) => home.teams(),
        }
    }
}

/// What would be wrong with a file if it held this text, which somebody sent: its references are checked
/// for their form and never followed. May block.
pub fn validate(home: &Home, file: &File, text: &str) -> Result<(), Problems> {
    let document = |name: &str| Document::with_references(name, References::unfollowed());
    match file {
        File::Service(ServiceFile::Config) => {
            config::read(text, document("config.yaml"), home)?;
        }
        File::Service(ServiceFile::Channels) => {
            channels::read(text, document("channels.yaml"))?.whole()?.in_use()?;
        }
        File::Service(ServiceFile::Providers) => {
            let nothing = Environment::fixed([]);
            providers::read(text, document("providers.yaml"), &nothing).0?;
        }
        File::Team(name) => {
            // Only which profiles there are matters here.
            let providers = read_providers(home, &Environment::fixed([])).0.ok();
            let document = Document::plain("config.yaml");
            team::read(text, document, name, home, providers.as_ref())?;
        }
    }
    Ok(())
}

/// A team would be given something of the machine that it does not have: folders or more rights in them, hosts of private
/// networks, an MCP server, which is a program or an address, or a plugin. May block.
pub fn gains_of_machine(home: &Home, name: &str, before: &str, after: &str) -> bool {
    let read = |text: &str| team_of(home, name, text).unwrap_or_default();
    let (before, after) = (read(before), read(after));
    let has = |dir: &AllowedDir| {
        let mut known = before.allowed_dirs.iter();
        known.any(|known| known.path == dir.path && known.access >= dir.access)
    };
    let mut servers = after.mcp_servers.0.iter();
    let has_servers = servers.all(|(name, server)| before.mcp_servers.0.get(name) == Some(server));
    let mut hosts = after.egress.allow_private.iter();
    let has_hosts = hosts.all(|host| before.egress.allow_private.contains(host));
    let mut plugins = after.plugins.0.iter();
    let has_plugins =
        plugins.all(|(key, plugin)| !plugin.enabled || before.plugins.0.get(key) == Some(plugin));
    !(has_servers && has_hosts && has_plugins && after.allowed_dirs.iter().all(has))
}

/// Secrets of a team would go elsewhere: an MCP server or a plugin that refers to one is another than it was. May block.
pub fn moves_secrets(home: &Home, name: &str, before: &str, after: &str) -> bool {
    let read = |text: &str| team_of(home, name, text).unwrap_or_default();
    let (before, after) = (read(before), read(after));
    let refers = |text: &str| text.contains("${");
    let mut servers = after.mcp_servers.0.iter();
    let mut plugins = after.plugins.0.iter();
    servers.any(|(name, server)| {
        before.mcp_servers.0.get(name) != Some(server)
            && server.headers.values().chain(server.env.values()).any(|value| refers(value))
    }) || plugins.any(|(key, plugin)| {
        let known = before.plugins.0.get(key).map(|known| &known.config);
        known != Some(&plugin.config) && refers(&plugin.config.to_string())
    })
}

/// The team that a text describes, by itself: the profiles it names are not looked for. May block.
pub(crate) fn team_of(home: &Home, name: &str, text: &str) -> Result<Team, Problems> {
    let read = team::read(text, Document::plain("config.yaml"), name, home, None);
    read.map(|(team, _)| team)
}

pub(crate) fn team_names(home: &Home) -> Vec<String> {
    let Ok(folders) = fs::read_dir(home.teams()) else {
        return Vec::new();
    };
    let mut names: Vec<_> = folders
        .filter_map(|folder| folder.ok()?.file_name().into_string().ok())
        .filter(|name| is_team_name(name))
        .collect();
    names.sort();
    names
}

pub(crate) fn read_config(
    home: &Home,
    environment: &Environment,
) -> Result<(Config, Vec<Problem>), Problems> {
    match open(&home.config_file())? {
        Some((text, name)) => {
            // It says where the store is that the vault is in.
            let references = References::new(&environment.without_vault(), home.data());
            let document = Document::with_references(&name, references);
            config::read(&text, document, home)
        }
        None => Ok(Default::default()),
    }
}

/// `channels.yaml` refers to the vault. May block.
pub(crate) fn channels_use_vault(home: &Home) -> bool {
    let file = open(&home.channels_file());
    matches!(file, Ok(Some((text, _))) if text.contains("${vault:"))
}

/// Reads `channels.yaml`, as far as it can be used. May block.
pub(crate) fn read_channels(home: &Home, environment: &Environment) -> Result<Read, Problems> {
    let mut read = match open(&home.channels_file())? {
        Some((text, name)) => {
            let references = References::new(environment, home.data());
            channels::read(&text, Document::with_references(&name, references))?
        }
        None => Read::default(),
    };
    read.channels.discord = read.channels.discord.or_from(environment);
    Ok(read)
}

/// Reads `providers.yaml`, and tells which other files that took.
pub(crate) fn read_providers(
    home: &Home,
    environment: &Environment,
) -> (Result<Providers, Problems>, Vec<PathBuf>) {
    match open(&home.providers_file()) {
        Ok(Some((text, name))) => {
            let references = References::new(environment, home.data());
            let document = Document::with_references(&name, references);
            providers::read(&text, document, environment)
        }
        Ok(None) => (Ok(Providers::from_environment(environment)), Vec::new()),
        Err(problems) => (Err(problems), Vec::new()),
    }
}

/// Reads the file of a team, which must be there, by itself: the profiles it names are not looked for.
pub(crate) fn read_team(home: &Home, name: &str) -> Result<Team, Problems> {
    read_team_with(home, name, None).map(|(team, _)| team)
}

/// The same, with what works and should not stay. The profiles it names must be among these.
pub(crate) fn read_team_with(
    home: &Home,
    name: &str,
    providers: Option<&Providers>,
) -> Result<(Team, Vec<Problem>), Problems> {
    let path = home.team_file(name);
    let refused = |reason: &str| Err(Problem::of_file(&path, reason).into());
    if !is_team_name(name) {
        return refused("not the name of a team");
    }
    if has_other_name(&path) {
        return refused(OTHER_NAME);
    }
    match open(&path)? {
        Some((text, file)) => team::read(&text, Document::plain(&file), name, home, providers),
        None => refused("there is no such file"),
    }
}

pub(super) const OTHER_NAME: &str =
    "has more than one hard link; copy it, and put the copy in its place";

/// Whoever has the other name of a team's file can change it, and a command may have it.
pub(super) fn has_other_name(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.nlink() > 1)
}

/// The text of a file, and its name for reports. None if there is no such file.
fn open(path: &Path) -> Result<Option<(String, String)>, Problems> {
    Ok(yaml::read_file(path)?.map(|text| (text, path.display().to_string())))
}
