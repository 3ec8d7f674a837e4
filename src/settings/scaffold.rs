//! Writes the first files of a new home.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
};

use hivewright_actors::ids::MAIN;

use super::{
    channels::Snowflake,
    error::StartError,
    home::{Home, create_private},
    providers::{DEFAULT_PROFILE, Provider},
    replace::create,
};

/// States the defaults.
pub const CONFIG: &str = include_str!("../../config/config.yaml");
const PROVIDERS: &str = include_str!("../../config/providers.yaml");
const CHANNELS: &str = include_str!("../../config/channels.yaml");
const MAIN_TEAM: &str = include_str!("../../config/main-team.yaml");

/// The entry of the vault with the token of a bot on Discord.
pub const DISCORD_TOKEN: &str = "discord.token";

/// The entry of the vault with a key that was typed, of the model that the main team uses.
pub const MODEL_KEY: &str = "model-default";

/// A model that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    pub provider: Provider,
    /// Where it is, if not where it always is.
    pub api_url: Option<String>,
    /// Which, if not the usual one.
    pub model: Option<String>,
    /// None needs no key.
    pub key: Option<KeySource>,
}

/// Where a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    Variable(&'static str),
    /// Its entry [`MODEL_KEY`].
    Vault,
}

impl From<Provider> for ModelSettings {
    fn from(provider: Provider) -> Self {
        let key = provider.key_variable().map(KeySource::Variable);
        Self { provider, api_url: None, model: None, key }
    }
}

impl ModelSettings {
    /// The profile that the main team uses.
    fn text(&self) -> String {
        let key = self.key.map(|key| match key {
            KeySource::Variable(name) => format!("${{env:{name}}}"),
            KeySource::Vault => format!("${{vault:{MODEL_KEY}}}"),
        });
        let quoted = |text: &String| format!("'{}'", text.replace('\'', "''"));
        let fields = [
            ("api_key", key),
            ("api_url", self.api_url.as_ref().map(quoted)),
            ("model", self.model.as_ref().map(quoted)),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let fields: String = fields.map(|(name, value)| format!("    {name}: {value}\n")).collect();
        format!("\nprofiles:\n  {DEFAULT_PROFILE}:\n    provider: {}\n{fields}", self.provider)
    }
}

/// A bot on Discord that listens to these channels, or to all, and answers these people.
#[derive(Debug, Default)]
pub struct DiscordSettings {
    pub channels: Vec<Snowflake>,
    pub users: Vec<Snowflake>,
    /// Where Discord's API is, if not where it always is.
    pub api_url: Option<String>,
}

impl DiscordSettings {
    /// The sections of `channels.yaml`.
    pub fn text(&self) -> String {
        let list = |ids: &[Snowflake]| {
            let ids: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
            format!("[{}]", ids.join(", "))
        };
        let api = self.api_url.as_ref().map(|url| format!("  api_url: '{url}'\n"));
        format!(
            "discord:\n  token: ${{vault:{DISCORD_TOKEN}}}\n  watched_channels: {}\n{}\n\
             trust:\n  channels:\n    ws: {{policy: allow}}\n    api: {{policy: allow}}\n    \
             discord:\n      policy: deny\n      sender_allowlist: {}\n",
            list(&self.channels),
            api.unwrap_or_default(),
            list(&self.users),
        )
    }

    fn file(&self) -> String {
        format!(
            "# How people reach the teams. docs/discord.md tells what more can stand here.\n\n\
             ws:\n  enabled: true\n\n{}",
            self.text()
        )
    }
}

/// Makes folders and commented example files. What is there stays as it is.
///
/// A model gets an active profile, and a bot its sections. Returns the files that were written. May block.
pub fn init(
    home: &Home,
    model: Option<&ModelSettings>,
    discord: Option<&DiscordSettings>,
) -> Result<Vec<PathBuf>, StartError> {
    home.prepare()?;
    let providers = format!("{PROVIDERS}{}", model.map(ModelSettings::text).unwrap_or_default());
    let channels = discord.map_or_else(|| CHANNELS.to_owned(), DiscordSettings::file);
    let mut written = Vec::new();
    for (path, text) in [
        (home.config_file(), CONFIG),
        (home.providers_file(), &providers),
        (home.channels_file(), &channels),
    ] {
        if write_new(&path, text)? {
            written.push(path);
        }
    }
    written.extend(ensure_main(home)?);
    Ok(written)
}

/// Makes the folder and the file of the main team, if they are missing. May block.
pub fn ensure_main(home: &Home) -> Result<Option<PathBuf>, StartError> {
    furnish(&home.team(MAIN))?;
    let path = home.team_file(MAIN);
    Ok(write_new(&path, MAIN_TEAM)?.then_some(path))
}

/// The text is that of a file as it is shipped.
pub(crate) fn is_shipped(name: &str, text: &str) -> bool {
    match name {
        "config.yaml" => text == CONFIG,
        "providers.yaml" => text == PROVIDERS,
        "channels.yaml" => text == CHANNELS,
        "main-team.yaml" => text == MAIN_TEAM,
        _ => false,
    }
}

/// The folders in the folder of every team.
const FOLDERS: [&str; 5] = ["org-rules", "team-rules", "skills", "subagents", "plugins"];

pub(crate) fn furnish(team: &Path) -> Result<(), StartError> {
    for folder in FOLDERS {
        create_private(&team.join(folder))?;
    }
    Ok(())
}

/// Whether the file was written; not if it was there.
fn write_new(path: &Path, text: &str) -> Result<bool, StartError> {
    match create(path, text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(StartError::Unusable { path: path.to_owned(), source }),
    }
}
