//! `plugins` of a team file: which installed plugins a team has switched on, and what it sets for them.

use std::collections::BTreeMap;

use hivewright_actors::channel_type::is_plugin_key;
use serde_json::{Map, Value as Json, json};

use super::{field::Field, setting::Setting};

/// The most plugins of a team.
const MOST: usize = 64;
/// The largest settings of a plugin, in bytes of JSON.
pub const LARGEST_CONFIG: usize = 64 << 10;
/// The parts that the settings of a plugin have.
pub const PARTS: [&str; 3] = ["tools", "channel", "hooks"];

/// A plugin as a team has it.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSwitch {
    pub enabled: bool,
    /// An object with `tools`, `channel` and `hooks` at most. Secrets are references.
    pub config: Json,
}

impl Default for PluginSwitch {
    fn default() -> Self {
        Self { enabled: false, config: json!({}) }
    }
}

/// The plugins of a team, by key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins(pub BTreeMap<String, PluginSwitch>);

impl Setting for Plugins {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let members = field.members()?;
        if members.len() > MOST {
            return field.reject(format!("a team has at most {MOST} plugins"));
        }
        let plugins = members.into_iter().filter_map(|(key, field)| {
            if !is_plugin_key(key) {
                return field.reject(
                    "a key has 2 to 40 letters from a to z, digits and `-`, and begins with a letter",
                );
            }
            let switch = field.section(|section| PluginSwitch {
                enabled: section.get("enabled", false, |field| field.boolean()),
                config: section.get("config", json!({}), |field| read_config(&field)),
            });
            Some((key.to_owned(), switch))
        });
        Some(Self(plugins.collect()))
    }

    fn shown(&self) -> Json {
        // There are none by default, and a file shows its own.
        json!({})
    }
}

fn read_config(field: &Field<'_>) -> Option<Json> {
    let config = match field.json()? {
        Json::Null => Json::Object(Map::new()),
        config => config,
    };
    let Json::Object(parts) = &config else { return field.reject("expected a map") };
    if let Some(other) = parts.keys().find(|part| !PARTS.contains(&part.as_str())) {
        return field.reject(format!("`{other}` is none of `tools`, `channel`, `hooks`"));
    }
    if config.to_string().len() > LARGEST_CONFIG {
        return field.reject("is larger than 64 KiB");
    }
    Some(config)
}
