//! Settings files: the same things, as they are said here.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    file_draft::{FileDraft, SETTINGS},
    installation::SettingsFile,
    names,
    plan::{Artifact, BEFORE, Planner},
    report::Item,
    schema::mark,
    vault,
    yaml::Yaml,
};
use crate::settings::references::escaped;

const CONFIG: &str = "config.yaml";
const PROVIDERS: &str = "providers.yaml";
const CHANNELS: &str = "channels.yaml";

/// The model of a profile that names none, as OpenHive has it.
const FORMER_MODEL: &str = "claude-sonnet-4-20250514";

pub(super) fn plan(planner: &mut Planner<'_>) {
    let found = planner.found;
    let mut profiles = BTreeMap::new();
    plan_file(planner, CONFIG, &found.config, config);
    plan_file(planner, PROVIDERS, &found.providers, |tree| {
        let (draft, renamed) = providers(tree);
        profiles = renamed;
        draft
    });
    plan_file(planner, CHANNELS, &found.channels, channels);
    planner.profiles = profiles;
}

fn plan_file(
    planner: &mut Planner<'_>,
    name: &'static str,
    found: &SettingsFile,
    convert: impl FnOnce(Yaml) -> FileDraft,
) {
    let draft = match found {
        Ok(Some(tree)) => convert(tree.clone()),
        Ok(None) => return,
        Err(reason) => return planner.report(Item::faulty(SETTINGS, name, reason)),
    };
    let mark = mark("settings", name, "");
    if planner.target.has(&mark) {
        for (key, value) in &draft.secrets {
            planner.redactor.add(value, key);
        }
        return planner.report(Item::left(SETTINGS, name, BEFORE));
    }
    if planner.target.settings.contains(name) {
        let reason = "there is such a file with settings of its own, and it stays as it is";
        return planner.report(Item::left(SETTINGS, name, reason));
    }
    let (text, refused) = match draft.settled(|text| planner.checks.settings(name, text)) {
        Ok(settled) => settled,
        Err(problems) => {
            return planner.report(Item::faulty(SETTINGS, name, problems.to_string()));
        }
    };
    // What a secret was for may be gone.
    let is_used = |key: &str| text.contains(&format!("${{vault:{key}}}"));
    let secrets: Vec<_> = draft.secrets.iter().filter(|(key, _)| is_used(key)).collect();
    let file = Artifact::SettingsFile { name, text: text.clone() };
    planner.take(SETTINGS, None, name, mark, Ok((file, draft.changes)));
    planner.plan.report.items.extend(draft.items.into_iter().chain(refused));
    for (key, value) in secrets {
        vault::plan_setting(planner, key, value);
    }
}

fn config(tree: Yaml) -> FileDraft {
    let mut draft = FileDraft::new(CONFIG);
    for (key, value) in tree.into_entries() {
        match key.as_str() {
            "log_level" => {
                draft.put("log", Yaml::map([("level", value)]));
                draft.change("`log_level` becomes `log.level`");
            }
            key => draft.unknown(key),
        }
    }
    draft
}

/// The file, and what its profiles are called now, by their former names.
fn providers(tree: Yaml) -> (FileDraft, BTreeMap<String, String>) {
    let mut draft = FileDraft::new(PROVIDERS);
    let (mut profiles, mut renamed) = (Vec::new(), BTreeMap::new());
    let mut taken = BTreeSet::new();
    for (key, value) in tree.into_entries() {
        if key != "profiles" {
            draft.unknown(&key);
            continue;
        }
        for (former, profile) in value.into_entries() {
            let name = names::profile(&former, &taken);
            taken.insert(name.clone());
            if name != former {
                draft.change(format!("profile `{former}` is called `{name}`"));
            }
            profiles.push((name.clone(), convert_profile(&name, profile, &mut draft)));
            renamed.insert(former, name);
        }
    }
    if !profiles.is_empty() {
        draft.put("profiles", Yaml::Map(profiles));
    }
    (draft, renamed)
}

fn convert_profile(name: &str, profile: Yaml, draft: &mut FileDraft) -> Yaml {
    let mut entries = Vec::new();
    for (key, value) in profile.into_entries() {
        let path = format!("{name}.{key}");
        let value = match (key.as_str(), value.as_text()) {
            (_, None) if value == Yaml::Null => continue,
            ("api_key", Some(text)) => draft.hide(&path, &format!("provider.{name}.api_key"), text),
            ("type" | "provider" | "api_url" | "model" | "oauth_token_env", Some(text)) => {
                Yaml::text(escaped(text))
            }
            ("context_window", Some(_)) => value,
            _ => {
                draft.unknown(&path);
                continue;
            }
        };
        entries.push((key, value));
    }
    if entries.iter().all(|(key, _)| key != "model") {
        entries.push(("model".to_owned(), Yaml::text(FORMER_MODEL)));
        draft.change(format!("`{name}` names the model that was its default: `{FORMER_MODEL}`"));
    }
    Yaml::Map(entries)
}

fn channels(tree: Yaml) -> FileDraft {
    let mut draft = FileDraft::new(CHANNELS);
    let (mut discord, mut enabled, mut trust) = (None, Yaml::Plain("false".into()), None);
    for (key, value) in tree.into_entries() {
        match key.as_str() {
            "discord" => discord = Some(value),
            "trust" => trust = Some(value).filter(|value| *value != Yaml::Null),
            "ws" => {
                for (key, value) in value.into_entries() {
                    match key.as_str() {
                        "enabled" => enabled = value,
                        key => draft.unknown(&format!("ws.{key}")),
                    }
                }
            }
            key => draft.unknown(key),
        }
    }
    if enabled.as_text() != Some("true") {
        draft
            .note("ws", "WebSockets stay off, as they were; `ws.enabled: true` opens the web page");
    }
    draft.put("ws", Yaml::map([("enabled", enabled)]));
    if let Some(discord) = discord {
        let discord = convert_discord(discord, &mut draft);
        draft.put("discord", discord);
    }
    let trust = match trust {
        Some(trust) => convert_trust(trust, &mut draft),
        None => {
            draft.note(
                "trust",
                "there was no `trust`, so everybody was let in; now `trust.default_policy: deny` \
                 holds; `trust.channels.discord.policy: allow` or `trust.channels.ws.policy: allow` \
                 opens one, `sender_allowlist` beside it a few senders only",
            );
            Yaml::map([("default_policy", Yaml::text("deny"))])
        }
    };
    draft.put("trust", trust);
    draft
}

fn convert_discord(discord: Yaml, draft: &mut FileDraft) -> Yaml {
    let mut entries = Vec::new();
    for (key, value) in discord.into_entries() {
        let value = match (key.as_str(), value.as_text()) {
            ("token", Some(token)) => draft.hide("discord.token", "discord.token", token),
            ("watched_channels", _) => {
                Yaml::texts(value.items().iter().filter_map(Yaml::as_text).map(bare_channel))
            }
            (key, _) => {
                draft.unknown(&format!("discord.{key}"));
                continue;
            }
        };
        entries.push((key, value));
    }
    Yaml::Map(entries)
}

fn convert_trust(trust: Yaml, draft: &mut FileDraft) -> Yaml {
    let mut default_policy = None;
    let mut channels = Vec::new();
    for (key, value) in trust.into_entries() {
        match key.as_str() {
            "default_policy" => default_policy = Some(value),
            "channels" => channels.push((key, convert_channels(value, draft))),
            key => draft.unknown(&format!("trust.{key}")),
        }
    }
    let default_policy = default_policy.unwrap_or_else(|| {
        draft.change("`trust.default_policy: allow` was the default, and is written out");
        Yaml::text("allow")
    });
    Yaml::Map([("default_policy".to_owned(), default_policy)].into_iter().chain(channels).collect())
}

/// What OpenHive calls `other` is Discord: its channels have no prefix there.
fn convert_channels(channels: Yaml, draft: &mut FileDraft) -> Yaml {
    let channels = channels.into_entries();
    let has_discord = channels.iter().any(|(key, _)| key == "discord");
    let mut entries = Vec::new();
    for (key, channel) in channels {
        let channel = with_bare_overrides(channel);
        match key.as_str() {
            "other" if has_discord => {
                draft.leave("trust.channels.other", "`trust.channels.discord` says it for Discord");
            }
            "other" => {
                draft.change("`trust.channels.other` becomes `trust.channels.discord`");
                entries.push(("discord".to_owned(), channel));
            }
            _ => entries.push((key, channel)),
        }
    }
    Yaml::Map(entries)
}

fn with_bare_overrides(channel: Yaml) -> Yaml {
    let Yaml::Map(mut fields) = channel else {
        return channel;
    };
    for (key, field) in &mut fields {
        if let ("channel_overrides", Yaml::Map(overrides)) = (key.as_str(), field) {
            for (id, _) in overrides {
                *id = bare_channel(id).to_owned();
            }
        }
    }
    Yaml::Map(fields)
}

/// The id of a Discord channel stands for itself here.
pub(super) fn bare_channel(id: &str) -> &str {
    id.strip_prefix("discord:").unwrap_or(id)
}

#[cfg(test)]
mod tests;
