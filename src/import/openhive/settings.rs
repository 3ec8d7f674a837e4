//! The settings files: the same things, as they are said here.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    names,
    report::{Item, Kind},
    yaml::Yaml,
};
use crate::settings::{references::escaped, secret::Secret};

/// The model of a profile that names none, as OpenHive has it.
const FORMER_MODEL: &str = "claude-sonnet-4-20250514";

/// Shorter values could not be told from ordinary text, so the vault does not take them.
pub(super) const SHORTEST_SECRET: usize = 8;

/// A file that has become one of ours.
#[derive(Clone, Debug, Default)]
pub(super) struct Converted {
    /// Nothing is left to write without entries.
    pub(super) entries: Vec<(String, Yaml)>,
    /// What moves to the vault, by key.
    pub(super) secrets: Vec<(String, Secret)>,
    pub(super) changes: Vec<String>,
    /// What is told of a part of it.
    pub(super) items: Vec<Item>,
}

impl Converted {
    fn unknown(&mut self, file: &str, key: &str) {
        let reason = "nothing here corresponds to it";
        let name = format!("{file}: {key}");
        self.items.push(Item::left(Kind::Settings, name, reason));
    }

    /// Moves a literal value to the vault, and returns what stands in its place.
    fn hide(&mut self, file: &str, path: &str, key: &str, value: &str) -> Yaml {
        let name = format!("{file}: {path}");
        if value.len() < SHORTEST_SECRET {
            let change = "stays in the file: the vault takes no value shorter than 8 bytes";
            let item = Item::taken(Kind::Settings, name, &[change.to_owned()]);
            self.items.push(item);
            return Yaml::text(escaped(value));
        }
        let change = format!("moved to the vault `system` as `{key}`");
        self.items.push(Item::taken(Kind::Settings, name, &[change]));
        self.secrets.push((key.to_owned(), Secret::new(value.to_owned())));
        Yaml::text(format!("${{vault:{key}}}"))
    }
}

/// `config.yaml`.
pub(super) fn config(tree: Yaml) -> Converted {
    let mut converted = Converted::default();
    for (key, value) in tree.into_entries() {
        match key.as_str() {
            "log_level" => {
                let log = Yaml::map([("level", value)]);
                converted.entries.push(("log".into(), log));
                let change = "`log_level` becomes `log.level`";
                converted.changes.push(change.into());
            }
            key => converted.unknown("config.yaml", key),
        }
    }
    converted
}

/// `providers.yaml`, and what its profiles are called now, by their former names.
pub(super) fn providers(tree: Yaml) -> (Converted, BTreeMap<String, String>) {
    let mut converted = Converted::default();
    let (mut profiles, mut renamed) = (Vec::new(), BTreeMap::new());
    let mut taken = BTreeSet::new();
    for (key, value) in tree.into_entries() {
        if key != "profiles" {
            converted.unknown("providers.yaml", &key);
            continue;
        }
        for (former, profile) in value.into_entries() {
            let name = names::profile(&former, &taken);
            taken.insert(name.clone());
            if name != former {
                let change = format!("profile `{former}` is called `{name}`");
                converted.changes.push(change);
            }
            let profile = convert_profile(&name, profile, &mut converted);
            profiles.push((name.clone(), profile));
            renamed.insert(former, name);
        }
    }
    if !profiles.is_empty() {
        let profiles = ("profiles".into(), Yaml::Map(profiles));
        converted.entries.push(profiles);
    }
    (converted, renamed)
}

fn convert_profile(name: &str, profile: Yaml, converted: &mut Converted) -> Yaml {
    let mut entries = Vec::new();
    for (key, value) in profile.into_entries() {
        let path = format!("{name}.{key}");
        match (key.as_str(), value.as_text()) {
            (_, None) if value == Yaml::Null => continue,
            ("api_key", Some(text)) => {
                let vault = format!("provider.{name}.api_key");
                let value = converted.hide("providers.yaml", &path, &vault, text);
                entries.push((key, value));
            }
            ("type" | "provider" | "api_url" | "model" | "oauth_token_env", Some(text)) => {
                let value = Yaml::text(escaped(text));
                entries.push((key, value));
            }
            ("context_window", Some(_)) => entries.push((key, value)),
            _ => converted.unknown("providers.yaml", &path),
        }
    }
    let mut profile = Yaml::Map(entries);
    if profile.get("model").is_none() {
        profile.set("model", Yaml::text(FORMER_MODEL));
        let change = format!("`{name}` names the model that was its default: `{FORMER_MODEL}`");
        converted.changes.push(change);
    }
    profile
}

/// `channels.yaml`.
pub(super) fn channels(tree: Yaml) -> Converted {
    const FILE: &str = "channels.yaml";
    let mut converted = Converted::default();
    let (mut discord, mut enabled, mut trust) = (None, Yaml::Plain("false".into()), None);
    for (key, value) in tree.into_entries() {
        match key.as_str() {
            "discord" => discord = Some(value),
            "trust" => trust = Some(value).filter(|value| *value != Yaml::Null),
            "ws" => {
                for (key, value) in value.into_entries() {
                    match key.as_str() {
                        "enabled" => enabled = value,
                        key => converted.unknown(FILE, &format!("ws.{key}")),
                    }
                }
            }
            key => converted.unknown(FILE, key),
        }
    }
    if enabled.as_text() != Some("true") {
        let reason = "WebSockets stay off, as they were; `ws.enabled: true` opens the web page";
        let item = Item::taken(Kind::Settings, format!("{FILE}: ws"), &[reason.into()]);
        converted.items.push(item);
    }
    let ws = Yaml::map([("enabled", enabled)]);
    converted.entries.push(("ws".into(), ws));
    if let Some(discord) = discord {
        let discord = convert_discord(discord, &mut converted);
        converted.entries.push(("discord".into(), discord));
    }
    let trust = match trust {
        Some(trust) => convert_trust(trust, &mut converted),
        None => {
            let change = "there was no `trust`, so everybody was let in; now `trust.default_policy: \
                          deny` holds; `trust.channels.discord.policy: allow` or `trust.channels.ws.\
                          policy: allow` opens one, `sender_allowlist` beside it a few senders only";
            let name = format!("{FILE}: trust");
            converted.items.push(Item::taken(Kind::Settings, name, &[change.into()]));
            Yaml::map([("default_policy", Yaml::text("deny"))])
        }
    };
    converted.entries.push(("trust".into(), trust));
    converted
}

fn convert_discord(discord: Yaml, converted: &mut Converted) -> Yaml {
    let mut entries = Vec::new();
    for (key, value) in discord.into_entries() {
        match (key.as_str(), value.as_text()) {
            ("token", Some(token)) => {
                let path = "discord.token";
                let token = converted.hide("channels.yaml", path, path, token);
                entries.push((key, token));
            }
            ("watched_channels", _) => {
                let ids = value.items().iter().filter_map(Yaml::as_text);
                let ids = Yaml::texts(ids.map(bare_channel));
                entries.push((key, ids));
            }
            (key, _) => converted.unknown("channels.yaml", &format!("discord.{key}")),
        }
    }
    Yaml::Map(entries)
}

fn convert_trust(trust: Yaml, converted: &mut Converted) -> Yaml {
    let mut entries = vec![("default_policy".to_owned(), Yaml::text("allow"))];
    let mut said = false;
    for (key, value) in trust.into_entries() {
        match key.as_str() {
            "default_policy" => {
                entries[0].1 = value;
                said = true;
            }
            "channels" => {
                let channels = convert_channels(value, converted);
                entries.push((key, channels));
            }
            key => converted.unknown("channels.yaml", &format!("trust.{key}")),
        }
    }
    if !said {
        let change = "`trust.default_policy: allow` was the default, and is written out";
        converted.changes.push(change.into());
    }
    Yaml::Map(entries)
}

/// What OpenHive calls `other` is Discord: its channels have no prefix there.
fn convert_channels(channels: Yaml, converted: &mut Converted) -> Yaml {
    let channels = channels.into_entries();
    let has_discord = channels.iter().any(|(key, _)| key == "discord");
    let mut entries = Vec::new();
    for (key, mut channel) in channels {
        if let Yaml::Map(fields) = &mut channel {
            for (_, field) in fields.iter_mut().filter(|(key, _)| key == "channel_overrides") {
                if let Yaml::Map(overrides) = field {
                    for (id, _) in overrides {
                        *id = bare_channel(id).to_owned();
                    }
                }
            }
        }
        match key.as_str() {
            "other" if has_discord => {
                let name = "channels.yaml: trust.channels.other";
                let reason = "`trust.channels.discord` says it for Discord";
                converted.items.push(Item::left(Kind::Settings, name, reason));
            }
            "other" => {
                let change = "`trust.channels.other` becomes `trust.channels.discord`";
                converted.changes.push(change.into());
                entries.push(("discord".to_owned(), channel));
            }
            _ => entries.push((key, channel)),
        }
    }
    Yaml::Map(entries)
}

/// The id of a Discord channel stands for itself here.
pub(super) fn bare_channel(id: &str) -> &str {
    id.strip_prefix("discord:").unwrap_or(id)
}

#[cfg(test)]
mod tests;
