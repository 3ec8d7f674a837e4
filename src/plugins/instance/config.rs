//! Settings of a plugin: the secrets in them are references to the team's vault, from what an operator sends to what a
//! child is told.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::ids::TeamKey;
use serde_json::Value;

use crate::{
    mcp::{arguments::escaped, opening::permits},
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

/// What stands for a secret that is not shown.
const MASK: &str = "***";

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
    let plain = plain_secrets(schema, &mut config, |_| true);
    if !plain.is_empty() {
        let message =
            "is a secret, and stands here in the clear: set it with `hivewright plugin config`";
        return Err(mismatches(plain, message));
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
    let masked = plain_secrets(schema, &mut config, |text| text == MASK);
    if !masked.is_empty() {
        let message = format!("`{MASK}` stands for a secret that is not shown: enter it again");
        return Err(mismatches(masked, &message));
    }
    let secrets = moved_secrets(key, schema, &mut config);
    // The values that are not in the vault yet are tried as they are.
    expand(vault, team, key, &mut trial).await?;
    let wrong = schema.check(&trial);
    crate::vault::expand::wipe(&mut trial);
    if !wrong.is_empty() {
        return Err(wrong);
    }
    for MovedSecret { pointer, vault_key, value } in secrets {
        let put = Put { tools: Some(vec![canonical(key)]), ..Put::secret(value) };
        let set = vault.set(&Scope::Team(team.clone()), &vault_key, put, by).await;
        set.map_err(|error| vec![Mismatch { pointer, message: error.to_string() }])?;
    }
    Ok(config)
}

/// A secret on its way from settings to the vault.
#[derive(Debug, PartialEq)]
struct MovedSecret {
    pointer: String,
    vault_key: String,
    value: String,
}

/// Puts references in the place of plain secrets. A key that another field refers to is left to it: items of a list move
/// up when one before them is removed, and keep the keys that they have.
fn moved_secrets(key: &str, schema: &Schema, config: &mut Value) -> Vec<MovedSecret> {
    let mut taken = BTreeSet::new();
    each_text(config, "", &mut |_, text| taken.extend(keys_in(text)));
    let mut moved = Vec::new();
    each_secret(schema, config, &mut |pointer, text| {
        if !is_plain(text) {
            return;
        }
        let first = vault_key(key, pointer);
        let others = (2_u32..).map(|number| format!("{first}-{number}"));
        let free = std::iter::once(first.clone()).chain(others).find(|key| !taken.contains(key));
        let vault_key = free.unwrap_or(first);
        taken.insert(vault_key.clone());
        let value = std::mem::replace(text, format!("{BEGIN}{vault_key}}}")).replace("$${", "${");
        moved.push(MovedSecret { pointer: pointer.to_owned(), vault_key, value });
    });
    moved
}

/// Settings that an operator sends back as they were shown, with the secrets that were not shown as the file has them. In a
/// list this holds only for an item that is as it was: another in its place must not get its secret.
pub fn unmasked(schema: &Schema, sent: &Value, file: &Value) -> Value {
    let (before, now) = (shown(schema, file), sent.clone());
    let mut unmasked = sent.clone();
    each_secret(schema, &mut unmasked, &mut |pointer, text| {
        if text == MASK
            && is_same_item(pointer, &before, &now)
            && let Some(Value::String(secret)) = file.pointer(pointer)
        {
            text.clone_from(secret);
        }
    });
    unmasked
}

/// Every list item on the way to a field is the same in both. Of a list of secrets that is the whole list: its items are
/// shown alike.
fn is_same_item(pointer: &str, before: &Value, now: &Value) -> bool {
    let ends = pointer.match_indices('/').skip(1).map(|(end, _)| end).chain([pointer.len()]);
    ends.map(|end| &pointer[..end]).all(|place| {
        let Some((around, _)) = place.rsplit_once('/') else { return true };
        let compared = if place == pointer { around } else { place };
        let is_item = now.pointer(around).is_some_and(Value::is_array);
        !is_item || before.pointer(compared) == now.pointer(compared)
    })
}

/// Settings as they may be shown: a secret that somebody wrote into the team file in the clear is not.
pub fn shown(schema: &Schema, config: &Value) -> Value {
    let mut config = config.clone();
    each_secret(schema, &mut config, &mut |_, text| {
        if is_plain(text) {
            *text = MASK.to_owned();
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
        let mut refers = !plain_secrets(schema, &mut config, |_| true).is_empty();
        each_text(&mut config, "", &mut |_, text| refers |= !keys_in(text).is_empty());
        refers
    })
}

/// Secret fields whose values stand there in the clear, and fit.
fn plain_secrets(schema: &Schema, config: &mut Value, fits: fn(&str) -> bool) -> Vec<String> {
    let mut plain = Vec::new();
    each_secret(schema, config, &mut |pointer, text| {
        if is_plain(text) && fits(text) {
            plain.push(pointer.to_owned());
        }
    });
    plain
}

/// The text of a secret field is the secret itself.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && keys_in(text).is_empty()
}

fn mismatches(pointers: Vec<String>, message: &str) -> Vec<Mismatch> {
    let wrong = |pointer| Mismatch { pointer, message: message.to_owned() };
    pointers.into_iter().map(wrong).collect()
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
                each_text(field, &format!("{pointer}/{}", escaped(name)), visit);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn each_secret(schema: &Schema, config: &mut Value, visit: &mut Visit<'_>) {
    each_text(config, "", &mut |pointer, text| {
        let is_meant = |pattern: &String| {
            let (parts, found) = (pattern.split('/'), pointer.split('/'));
            parts.clone().count() == found.clone().count()
                && parts.zip(found).all(|(part, name)| part == "*" || part == name)
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

    fn with_keys() -> Schema {
        let secret = json!({"type": "string", "x-secret": true});
        let item =
            json!({"type": "object", "properties": {"host": {"type": "string"}, "value": secret}});
        let fields = json!({"keys": {"type": "array", "items": item}, "a/b": secret, "token": secret,
            "tokens": {"type": "array", "items": secret}});
        let tools = json!({"type": "object", "properties": fields});
        Schema::new(json!({"type": "object", "properties": {"tools": tools}})).unwrap()
    }

    /// PL-27: items of a list that move up keep their secrets.
    #[test]
    fn a_secret_does_not_take_the_vault_key_of_another_field() {
        // The first of two items was removed, and one is added.
        let mut config = json!({"tools": {"a/b": "slash", "keys": [
            {"host": "b", "value": "${vault:plugin.http.tools.keys.1.value}"},
            {"host": "c", "value": "of-$${c}"},
        ]}});

        let moved = moved_secrets("http", &with_keys(), &mut config);
        config["tools"]["keys"][1]["value"] = "other".into();
        let again = moved_secrets("http", &with_keys(), &mut config);

        let secret = |pointer: &str, vault_key: &str, value: &str| MovedSecret {
            pointer: pointer.to_owned(),
            vault_key: vault_key.to_owned(),
            value: value.to_owned(),
        };
        let (place, key) = ("/tools/keys/1/value", "plugin.http.tools.keys.1.value-2");
        assert_eq!(
            moved,
            [
                secret("/tools/a~1b", "plugin.http.tools.a-1b", "slash"),
                secret(place, key, "of-${c}")
            ]
        );
        assert_eq!(again, [secret(place, key, "other")]);
        assert_eq!(
            config,
            json!({"tools": {"a/b": "${vault:plugin.http.tools.a-1b}", "keys": [
                {"host": "b", "value": "${vault:plugin.http.tools.keys.1.value}"},
                {"host": "c", "value": "${vault:plugin.http.tools.keys.1.value-2}"},
            ]}})
        );
    }

    /// PL-27: what was not shown comes back as it stands in the file, and goes to nobody else.
    #[test]
    fn a_secret_that_was_not_shown_is_kept() {
        let schema = with_keys();
        let file = json!({"tools": {"token": "hunter22", "tokens": ["one", "two"], "keys": [
            {"host": "a", "value": "of-a"}, {"host": "b", "value": "of-b"}]}});

        let mut sent = shown(&schema, &file);
        let unchanged = unmasked(&schema, &sent, &file);
        for list in ["keys", "tokens"] {
            sent["tools"][list].as_array_mut().unwrap().remove(0);
        }
        let shortened = unmasked(&schema, &sent, &file);

        assert_eq!(unchanged, file);
        assert_eq!(
            shortened,
            json!({"tools": {"token": "hunter22", "tokens": ["***"], "keys": [{"host": "b", "value": "***"}]}})
        );
    }

    /// PL-27: the mark is no secret.
    #[tokio::test]
    async fn the_mark_of_a_secret_is_not_stored() {
        let config = json!({"tools": {"token": "***"}});
        let (vault, team) = (Vault::absent(), TeamKey::first("ops"));

        let received = received(&vault, &team, "http", &with_keys(), &config, &Actor::System).await;

        let wrong = received.unwrap_err();
        assert_eq!(wrong[0].pointer, "/tools/token");
        assert!(wrong[0].message.contains("enter it again"), "{wrong:?}");
    }
}
