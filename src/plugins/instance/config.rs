//! Settings of a plugin: the secrets in them are references to the team's vault, from what an operator sends to what a
//! child is told.

use std::collections::BTreeMap;

use hivewright_actors::ids::TeamKey;
use serde_json::Value;

use crate::{
    mcp::opening::permits,
    plugins::schema::{Mismatch, Schema},
    scrub::Scrubber,
    vault::{
        Vault,
        audit::Actor,
        entry::{Put, is_key},
        expand::{BEGIN, Use, keys_in},
        scope::Scope,
    },
};

/// The parts of settings, in which references are expanded.
const PARTS: [&str; 3] = ["tools", "channel", "hooks"];

/// What rules and vault entries name a plugin by.
pub fn canonical(key: &str) -> String {
    format!("plugin.{key}")
}

/// The settings with every reference in its one form, `${vault:KEY}`. What looks like a reference and is none is named.
pub(super) fn normalised(config: &Value) -> Result<Value, Vec<Mismatch>> {
    let (mut config, mut wrong) = (config.clone(), Vec::new());
    each_text(&mut config, "", &mut |pointer, text| match references_in_one_form(text) {
        Ok(same) => *text = same,
        Err(message) => wrong.push(Mismatch { pointer: pointer.to_owned(), message }),
    });
    if wrong.is_empty() { Ok(config) } else { Err(wrong) }
}

fn references_in_one_form(text: &str) -> Result<String, String> {
    let (mut same, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            same.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        }
        same.push_str(&rest[..at]);
        let inside = &rest[at + 2..];
        let (inside, end) = match inside.strip_prefix('{') {
            Some(inside) => (inside, "}}"),
            None => (inside, "}"),
        };
        let found = inside.split_once(end);
        let key = found.map(|(key, after)| (key.strip_prefix("vault:").unwrap_or(key), after));
        let Some((key, after)) = key.filter(|(key, _)| is_key(key)) else {
            return Err("a reference is `${vault:KEY}`; write `$${` for plain text".to_owned());
        };
        same.push_str(&format!("{BEGIN}{key}}}"));
        rest = after;
    }
    same.push_str(rest);
    Ok(same)
}

/// The secrets that settings refer to, with their versions now.
pub(super) fn versions(
    config: &Value,
    vault: &Vault,
    team: &TeamKey,
) -> BTreeMap<String, Option<u64>> {
    let scope = Scope::Team(team.clone());
    let mut found = BTreeMap::new();
    each_text(&mut config.clone(), "", &mut |_, text| {
        for key in keys_in(text) {
            let version = vault.version_of(&scope, &key);
            found.insert(key, version);
        }
    });
    found
}

/// The settings with the values of secrets in them, checked against the schema. They are to be wiped after use.
pub(super) async fn expanded(
    vault: &Vault,
    team: &TeamKey,
    key: &str,
    schema: &Schema,
    config: &Value,
) -> Result<Value, Vec<Mismatch>> {
    let mut config = normalised(config)?;
    let plain = plain_secrets(schema, &mut config);
    if !plain.is_empty() {
        let message =
            "is a secret, and stands here in the clear: set it with `hivewright plugin config`";
        let wrong =
            plain.into_iter().map(|pointer| Mismatch { pointer, message: message.to_owned() });
        return Err(wrong.collect());
    }
    expand(vault, team, key, &mut config).await?;
    let wrong = schema.check(&config);
    if wrong.is_empty() { Ok(config) } else { Err(wrong) }
}

/// Puts the values of secrets in. A key that the team does not have is named with its place.
async fn expand(
    vault: &Vault,
    team: &TeamKey,
    key: &str,
    config: &mut Value,
) -> Result<(), Vec<Mismatch>> {
    let scope = Scope::Team(team.clone());
    let mut unknown = Vec::new();
    each_text(config, "", &mut |pointer, text| {
        for key in keys_in(text) {
            if vault.version_of(&scope, &key).is_none() {
                let message = format!("the vault of team `{}` has no `{key}`", team.name);
                unknown.push(Mismatch { pointer: pointer.to_owned(), message });
            }
        }
    });
    if !unknown.is_empty() {
        return Err(unknown);
    }
    let tool = canonical(key);
    let request = Use {
        scope: &scope,
        actor: &Actor::System,
        tool: &tool,
        places: &PARTS,
        paths: &[],
        host: None,
        // The operator wrote the reference into the settings of this plugin.
        permitted: true,
        approved: None,
        permits: &|patterns| permits(patterns, &tool, "@plugins"),
    };
    let refused = |error: &dyn ToString| {
        vec![Mismatch { pointer: String::new(), message: error.to_string() }]
    };
    vault.expand(&request, config).await.map(drop).map_err(|error| refused(&error))
}

/// Checks settings that an operator sends, and moves the plain values of secret fields to the vault. What is returned
/// holds references alone. Nothing is stored if anything is wrong.
pub(super) async fn received(
    vault: &Vault,
    team: &TeamKey,
    key: &str,
    schema: &Schema,
    config: &Value,
    by: &Actor,
) -> Result<Value, Vec<Mismatch>> {
    let mut config = normalised(config)?;
    let mut trial = config.clone();
    let secrets: BTreeMap<String, String> = {
        let mut found = BTreeMap::new();
        each_secret(schema, &mut config, &mut |pointer, text| {
            if keys_in(text).is_empty() && !text.is_empty() {
                found.insert(pointer.to_owned(), text.replace("$${", "${"));
                *text = format!("{BEGIN}{}}}", vault_key(key, pointer));
            }
        });
        found
    };
    // The values that are not in the vault yet are tried as they are.
    expand(vault, team, key, &mut trial).await?;
    let wrong = schema.check(&trial);
    crate::vault::expand::wipe(&mut trial);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    for (pointer, value) in secrets {
        let put = Put { tools: Some(vec![canonical(key)]), ..Put::secret(value) };
        let set = vault.set(&Scope::Team(team.clone()), &vault_key(key, &pointer), put, by).await;
        set.map_err(|error| vec![Mismatch { pointer, message: error.to_string() }])?;
    }
    Ok(config)
}

/// Settings as they may be shown: a secret that somebody wrote into the team file in the clear is not.
pub fn shown(schema: &Schema, config: &Value) -> Value {
    let mut config = config.clone();
    each_secret(schema, &mut config, &mut |_, text| {
        if keys_in(text).is_empty() {
            *text = "***".to_owned();
        }
    });
    config
}

/// Places of settings that hold what is known to be secret, and are no secret fields.
pub(super) fn in_the_clear(schema: &Schema, config: &Value, known: &Scrubber) -> Vec<String> {
    let (mut found, mut secrets) = (Vec::new(), Vec::new());
    let mut config = config.clone();
    each_secret(schema, &mut config, &mut |pointer, _| secrets.push(pointer.to_owned()));
    each_text(&mut config, "", &mut |pointer, text| {
        if known.knows(text) && !secrets.iter().any(|secret| secret == pointer) {
            found.push(pointer.to_owned());
        }
    });
    found
}

/// Settings that an operator sends have to do with secrets: one in the clear would go to the vault, and one that is
/// referred to goes wherever the settings say.
pub fn uses_secrets(schema: &Schema, config: &Value) -> bool {
    normalised(config).is_ok_and(|mut config| {
        let mut refers = !plain_secrets(schema, &mut config).is_empty();
        each_text(&mut config, "", &mut |_, text| refers |= !keys_in(text).is_empty());
        refers
    })
}

/// Secret fields whose values stand there in the clear.
fn plain_secrets(schema: &Schema, config: &mut Value) -> Vec<String> {
    let mut plain = Vec::new();
    each_secret(schema, config, &mut |pointer, text| {
        if keys_in(text).is_empty() && !text.is_empty() {
            plain.push(pointer.to_owned());
        }
    });
    plain
}

/// The key of the vault for a field.
fn vault_key(key: &str, pointer: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let path: Vec<String> =
        pointer.split('/').skip(1).map(|part| part.chars().map(clean).collect()).collect();
    format!("plugin.{key}.{}", path.join("."))
}

type Visit<'a> = dyn FnMut(&str, &mut String) + 'a;

fn each_text(value: &mut Value, pointer: &str, visit: &mut Visit<'_>) {
    match value {
        Value::String(text) => visit(pointer, text),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                each_text(item, &format!("{pointer}/{index}"), visit);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                each_text(field, &format!("{pointer}/{name}"), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn each_secret(schema: &Schema, config: &mut Value, visit: &mut Visit<'_>) {
    each_text(config, "", &mut |pointer, text| {
        let is_meant = |pattern: &String| {
            let (mut parts, mut found) = (pattern.split('/'), pointer.split('/'));
            loop {
                match (parts.next(), found.next()) {
                    (None, None) => return true,
                    (Some(part), Some(name)) if part == "*" || part == name => {}
                    _ => return false,
                }
            }
        };
        if schema.secrets().iter().any(is_meant) {
            visit(pointer, text);
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// PL-26
    #[test]
    fn the_three_forms_of_a_reference_are_one() {
        let config = json!({"tools": {"a": "x ${vault:K} ${K.1} ${{K-2}}", "b": ["$${K} $5"]}});

        let same = normalised(&config).unwrap();

        assert_eq!(
            same,
            json!({"tools": {"a": "x ${vault:K} ${vault:K.1} ${vault:K-2}", "b": ["$${K} $5"]}})
        );
        for text in ["${", "${}", "${a b}", "${{K}", "${vault:"] {
            let wrong = normalised(&json!({"tools": {"a": [text]}})).unwrap_err();
            assert_eq!(wrong[0].pointer, "/tools/a/0", "{text}");
        }
    }

    /// PL-27
    #[test]
    fn a_secret_in_the_clear_is_never_shown() {
        let schema = Schema::new(json!({"type": "object", "properties": {"tools": {
            "type": "object", "properties": {
                "open": {"type": "string"},
                "keys": {"type": "array", "items": {"type": "object", "properties": {
                    "value": {"type": "string", "x-secret": true}}}}}}}}));
        let config = json!({"tools": {"open": "seen", "keys": [{"value": "hunter22"}, {"value": "${vault:K}"}]}});

        let schema = schema.unwrap();
        let shown = shown(&schema, &config);

        assert_eq!(
            shown,
            json!({"tools": {"open": "seen", "keys": [{"value": "***"}, {"value": "${vault:K}"}]}})
        );
        let known = Scrubber::new(["hunter22", "seen-and-known"]);
        let open =
            json!({"tools": {"open": "it is seen-and-known", "keys": [{"value": "hunter22"}]}});
        assert_eq!(in_the_clear(&schema, &open, &known), ["/tools/open"]);
        assert_eq!(vault_key("http", "/tools/keys/0/value"), "plugin.http.tools.keys.0.value");
    }
}
