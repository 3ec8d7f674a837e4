//! The settings that count, field by field, and where each comes from.

use serde::Serialize;
use serde_json::{Value as Json, json};
use utoipa::ToSchema;

use super::{
    home::Home,
    yaml::{self, Node, Value},
};
use crate::vocabulary;

/// What ends the path of a field that holds a secret, unless it is a reference.
const SECRETS: [&str; 5] = ["api_key", "token", "secret", "password", "key"];
/// Stands for a secret that is written out.
const HIDDEN: &str = "(hidden)";

/// Where the value of a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = SettingSource)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody wrote it.
    Default,
    /// The file.
    File,
}

/// A field with its value. References stand as they were written.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Setting)]
pub struct Field {
    /// `config`, `providers` or `channels`.
    pub file: &'static str,
    /// The way to it, such as `server.port`.
    pub path: String,
    /// What it is.
    #[schema(schema_with = vocabulary::of::<Json>)]
    pub value: Json,
    /// Where that comes from.
    pub source: Source,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// All fields of all files. What is wrong in a file is left out. Blocks.
pub fn fields(home: &Home) -> Vec<Field> {
    let files = [
        (
            "config",
            home.config_file(),
            include_str!("../../config/config.yaml"),
        ),
        ("providers", home.providers_file(), ""),
        (
            "channels",
            home.channels_file(),
            include_str!("../../config/channels.yaml"),
        ),
    ];
    let mut fields = Vec::new();
    for (file, path, shipped) in files {
        let name = path.display().to_string();
        let text = yaml::read_file(&path, &name).ok().flatten();
        fields.extend(overlaid(file, shipped, text.as_deref().unwrap_or("")));
    }
    fields
}

/// The fields of a file over those that are shipped, which are the defaults.
fn overlaid(file: &'static str, shipped: &str, text: &str) -> Vec<Field> {
    let leaves = |text: &str, source| {
        let root = yaml::parse(text, file, &mut Vec::new());
        let mut fields = Vec::new();
        collect(file, String::new(), &root, source, &mut fields);
        fields
    };
    let own = leaves(text, Source::File);
    let is_below = |path: &str, above: &str| {
        let rest = path.strip_prefix(above);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut fields = leaves(shipped, Source::Default);
    fields.retain(|field| {
        !own.iter()
            .any(|own| is_below(&own.path, &field.path) || is_below(&field.path, &own.path))
    });
    fields.extend(own);
    fields.sort_by(|one, other| one.path.cmp(&other.path));
    fields
}

fn collect(file: &'static str, path: String, node: &Node, source: Source, fields: &mut Vec<Field>) {
    match &node.value {
        Value::Null => {}
        Value::Map(entries) => {
            for entry in entries {
                let path = match path.is_empty() {
                    true => entry.key.clone(),
                    false => format!("{path}.{}", entry.key),
                };
                collect(file, path, &entry.value, source, fields);
            }
        }
        Value::List(_) | Value::Scalar { .. } => fields.push(Field {
            file,
            value: shown(&path, node),
            path,
            source,
            line: (source == Source::File).then_some(node.at.line),
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
        Value::Scalar { text, quoted } => {
            let last = path.rsplit('.').next().unwrap_or_default();
            if SECRETS.contains(&last) && !text.contains("${") {
                return json!(HIDDEN);
            }
            let plain = serde_json::from_str(text)
                .ok()
                .filter(|value: &Json| !quoted && (value.is_number() || value.is_boolean()));
            plain.unwrap_or_else(|| json!(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Json, Source)> {
        let shipped = "server:\n  port: 8080\n  bind: here\nlist: []\n";
        let fields = overlaid("config", shipped, text);
        let row = |field: Field| (field.path, field.value, field.source);
        fields.into_iter().map(row).collect()
    }

    /// OP-103
    #[test]
    fn what_is_written_goes_before_what_is_shipped() {
        let fields = found("server:\n  port: 9\nlist:\n  - a: 1\n");

        assert_eq!(
            fields,
            [
                ("list".to_owned(), json!([{"a": 1}]), Source::File),
                ("server.bind".to_owned(), json!("here"), Source::Default),
                ("server.port".to_owned(), json!(9), Source::File),
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
}
