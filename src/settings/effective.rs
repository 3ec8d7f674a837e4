//! The settings that count, field by field, and where each comes from.

use std::{borrow::Cow, collections::BTreeMap};

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    channels::Channels,
    config::Config,
    document::{Counts, Document, is_within, join},
    field,
    home::Home,
    reader::Group,
    references::Environment,
    yaml::{self, Node, Value},
    zone::Zone,
};

/// What ends the path of a field that holds a secret, unless it is a reference.
const SECRETS: [&str; 5] = ["api_key", "token", "secret", "password", "key"];
const HIDDEN: &str = "(hidden)";

words! {
    /// Where the value of a setting comes from.
    pub enum SettingSource {
        /// Nobody wrote it.
        Default = "default",
        /// The file.
        File = "file",
    }
}

/// A setting with its value. References stand as they were written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// `config`, `providers` or `channels`.
    pub file: Cow<'static, str>,
    /// The way to it, such as `server.port`.
    pub path: String,
    pub value: Json,
    pub source: SettingSource,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// All fields of all files, as they are in force where a file says nothing. What is wrong in a file is left
/// out. Blocks.
pub fn fields(home: &Home, environment: &Environment) -> Vec<Setting> {
    let [config, providers, channels] =
        [home.config_file(), home.providers_file(), home.channels_file()]
            .map(|path| yaml::read_file(&path).ok().flatten());
    let mut of_config = defaults::<Config>(config.as_deref(), home);
    of_config.insert("timezone".to_owned(), json!(Zone::of_machine(environment).0.name()));
    let mut of_channels = defaults::<Channels>(channels.as_deref(), home);
    if channels.is_none() {
        of_channels.insert("ws.enabled".to_owned(), json!("on this machine only"));
    }
    let found = [
        overlaid("config", of_config, config),
        overlaid("providers", BTreeMap::new(), providers),
        overlaid("channels", of_channels, channels),
    ];
    found.concat()
}

/// A setting that two texts of a file say otherwise. Secrets are hidden in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    pub path: String,
    /// Null says nothing about it.
    pub before: Json,
    pub after: Json,
}

/// What another text of a file says otherwise.
pub fn changed(before: &str, after: &str) -> Vec<Changed> {
    let own = |text: &str| {
        let mut own = Vec::new();
        collect("", String::new(), &yaml::parse(text, "", &mut Vec::new()), &mut own);
        own.into_iter().map(|setting| (setting.path, setting.value)).collect::<BTreeMap<_, _>>()
    };
    let (before, mut after) = (own(before), own(after));
    let mut changed: Vec<Changed> = before
        .into_iter()
        .map(|(path, before)| {
            let after = after.remove(&path).unwrap_or_default();
            Changed { path, before, after }
        })
        .filter(|changed| changed.before != changed.after)
        .collect();
    let added = after.into_iter();
    changed.extend(added.map(|(path, after)| Changed { path, before: Json::Null, after }));
    changed
}

/// Whether a setting says what counts without it, as the shipped files do of all.
pub fn is_default(setting: &Setting, home: &Home) -> bool {
    let defaults = match &*setting.file {
        "config" => defaults::<Config>(None, home),
        "channels" => defaults::<Channels>(None, home),
        _ => return false,
    };
    defaults.get(&setting.path) == Some(&setting.value)
}

/// Whether another value of a setting counts no earlier than at the next start.
pub fn needs_restart(path: &str, home: &Home) -> bool {
    let all =
        [Document::describe::<Config>("", home), Document::describe::<Channels>("", home)].concat();
    all.iter().any(|setting| {
        setting.declared.counts == Counts::NextStart && is_within(path, &setting.path)
    })
}

/// Whether a file of these settings has one there, or some below it.
pub(crate) fn is_declared<T: Group>(path: &str, home: &Home) -> bool {
    let mut described = Document::describe::<T>("", home).into_iter();
    described.any(|setting| is_within(path, &setting.path) || is_within(&setting.path, path))
}

/// What counts where the file says nothing, by the way to it.
fn defaults<T: Group>(text: Option<&str>, home: &Home) -> BTreeMap<String, Json> {
    let described = Document::describe::<T>(text.unwrap_or_default(), home).into_iter();
    let defaults = described.filter_map(|setting| Some((setting.path, setting.default?)));
    defaults.filter(|(_, default)| !default.is_null()).collect()
}

fn overlaid(
    file: &'static str,
    defaults: BTreeMap<String, Json>,
    text: Option<String>,
) -> Vec<Setting> {
    let mut own = Vec::new();
    let root = yaml::parse(&text.unwrap_or_default(), file, &mut Vec::new());
    collect(file, String::new(), &root, &mut own);
    let mut fields: Vec<Setting> = defaults
        .into_iter()
        .map(|(path, value)| Setting {
            file: file.into(),
            path,
            value,
            source: SettingSource::Default,
            line: None,
        })
        .collect();
    fields.retain(|field| {
        let (path, mut own) = (&field.path, own.iter());
        !own.any(|own| is_within(&own.path, path) || is_within(path, &own.path))
    });
    fields.extend(own);
    fields.sort_by(|one, other| one.path.cmp(&other.path));
    fields
}

fn collect(file: &'static str, path: String, node: &Node, fields: &mut Vec<Setting>) {
    match &node.value {
        Value::Null => {}
        Value::Map(entries) => {
            for entry in entries {
                collect(file, join(&path, &entry.key), &entry.value, fields);
            }
        }
        Value::List(_) | Value::Scalar { .. } => fields.push(Setting {
            file: file.into(),
            value: shown(&path, node),
            path,
            source: SettingSource::File,
            line: Some(node.at.line),
        }),
    }
}

fn shown(path: &str, node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::List(nodes) => nodes.iter().map(|node| shown(path, node)).collect(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|entry| {
                let path = format!("{path}.{}", entry.key);
                (entry.key.clone(), shown(&path, &entry.value))
            });
            Json::Object(entries.collect())
        }
        Value::Scalar { text, .. } => {
            let last = path.rsplit('.').next().unwrap_or_default();
            if SECRETS.contains(&last) && !text.contains("${") {
                return json!(HIDDEN);
            }
            field::json(node).unwrap_or_else(|| json!(text))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::settings::tests::place;

    fn found(text: &str) -> Vec<(String, Json, SettingSource)> {
        let defaults =
            [("server.port", json!(8080)), ("server.bind", json!("here")), ("list", json!([]))];
        let defaults = defaults.map(|(path, value)| (path.to_owned(), value));
        let fields = overlaid("config", defaults.into(), Some(text.to_owned()));
        let row = |field: Setting| (field.path, field.value, field.source);
        fields.into_iter().map(row).collect()
    }

    /// OP-82: the shipped files state all defaults, which changes nothing.
    #[test]
    fn a_default_that_a_file_states_is_no_change() {
        let place = place();
        let is_default = |value: Json| {
            let (path, source) = ("server.port".to_owned(), SettingSource::File);
            let setting = Setting { file: "config".into(), path, value, source, line: Some(1) };
            is_default(&setting, &place.home)
        };

        assert_eq!([is_default(json!(8080)), is_default(json!(9000))], [true, false]);
        assert!(needs_restart("server.port", &place.home));
        assert!(!needs_restart("approvals.ttl", &place.home));
    }

    /// OP-103
    #[test]
    fn what_is_written_goes_before_the_defaults() {
        let fields = found("server:\n  port: 9\nlist:\n  - a: 1\n");

        assert_eq!(
            fields,
            [
                ("list".to_owned(), json!([{"a": 1}]), SettingSource::File),
                ("server.bind".to_owned(), json!("here"), SettingSource::Default),
                ("server.port".to_owned(), json!(9), SettingSource::File),
            ]
        );
    }

    /// OP-103
    #[test]
    fn references_stay_and_secrets_are_hidden() {
        let fields = found("a:\n  api_key: sk-abc\nb:\n  api_key: ${env:KEY}\n");

        assert_eq!(fields[0].1, json!(HIDDEN));
        assert_eq!(fields[1].1, json!("${env:KEY}"));
    }

    /// OR-14, OP-103: a default is what counts where the file says nothing, not what the shipped file says.
    #[test]
    fn a_default_is_what_is_in_force() {
        let place = place();
        let value = |path: &str| {
            let fields = fields(&place.home, &Environment::fixed([("TZ", "Asia/Tokyo")]));
            let mut found = fields.into_iter().filter(|field| field.path == path);
            let field = found.next().unwrap_or_else(|| panic!("{path} is not shown"));
            assert_eq!(field.source, SettingSource::Default);
            field.value
        };

        assert_eq!(value("ws.enabled"), json!("on this machine only"));
        place.write(&place.home.channels_file(), "topics: {max_active: 7}\n");
        assert_eq!(value("ws.enabled"), json!(false));
        assert_eq!(value("topics.model"), json!("ambiguous"));
        assert_eq!(value("limits.rate.ws.burst"), json!(1000));
        place.write(&place.home.config_file(), "defaults: {allowed_tools: ['@files']}\n");
        assert_eq!(value("defaults.grantable_tools"), json!(["@files"]));
        assert_eq!(value("backup.every"), json!("1d"));
        assert_eq!(value("sandbox.memory"), json!("1GiB"));
        assert_eq!(value("server.bind"), json!("127.0.0.1"));
        assert_eq!(value("log.level"), json!("info"));
        assert_eq!(value("timezone"), json!("Asia/Tokyo"));
        assert_eq!(value("policy"), json!([]));
    }
}
