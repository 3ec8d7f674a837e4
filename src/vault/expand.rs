//! References: `${vault:KEY}` in arguments, replaced by the value as the last act before a call.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zeroize::Zeroize;

use super::{
    Vault,
    audit::{Action, Actor},
    change::Change,
    entry::is_key,
    error::{Result, VaultError},
    scope::Scope,
    seal::Plain,
    state::Content,
};

pub const BEGIN: &str = "${vault:";

/// In place of the names of arguments: all of them.
pub const ALL: &str = "*";

/// A tool call whose references are to be expanded.
pub struct Use<'a> {
    pub scope: &'a Scope,
    pub actor: &'a Actor,
    pub tool: &'a str,
    /// Arguments in which references are expanded. In all others they are plain text.
    pub places: &'a [&'a str],
    /// Arguments in which none may stand.
    pub paths: &'a [&'a str],
    /// Where the values go, if they leave the machine.
    pub host: Option<&'a str>,
    /// A person let them go there, whether or not their entries name the host.
    pub permitted: bool,
    /// The versions that a person approved, if one did.
    pub approved: Option<&'a BTreeMap<String, u64>>,
    /// Whether the patterns of an entry name the tool.
    pub permits: &'a (dyn Fn(&[String]) -> bool + Sync),
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(&'t str),
    Reference(&'t str),
}

impl Vault {
    /// Replaces the references in the arguments of a call. Returns whether there were any: then the
    /// arguments hold values, and are to be wiped after use.
    pub async fn expand(&self, of: &Use<'_>, args: &mut Value) -> Result<bool> {
        let mut keys = BTreeSet::new();
        let found = find(of, args, &mut keys);
        if keys.is_empty() && found.is_ok() {
            // What is escaped still has to become what it stands for.
            return replace(of.places, args, &|_| None).map(|()| false);
        }
        let row = |key: Option<&str>| {
            self.row(of.scope, key, Action::Expand, of.actor).with_tool(of.tool).with_host(of.host)
        };
        self.or_record(found, &row(None)).await?;
        let turn = self.turn().await;
        let mut values = Vec::new();
        for key in &keys {
            let value = self.usable(of, key).await;
            values.push(self.or_record(value, &row(Some(key))).await?);
        }
        let now = self.now();
        let mut change = Change::default();
        for key in &keys {
            change.used(of.scope, key, now);
            change.audit(&row(Some(key)));
        }
        self.commit(turn, change).await?;
        let value = |key: &str| {
            let at = keys.iter().position(|known| known == key)?;
            values.get(at)?.text()
        };
        replace(of.places, args, &value)?;
        Ok(true)
    }

    /// The value of a key, if the call may have it.
    async fn usable(&self, of: &Use<'_>, key: &str) -> Result<Plain> {
        let content = {
            let state = self.state();
            state.unlocked()?;
            let item = state.get(of.scope, key)?;
            let approved = of.approved.and_then(|versions| versions.get(key));
            if approved.is_some_and(|version| *version != item.entry.version) {
                return Err(VaultError::Changed { key: key.to_owned() });
            }
            if !(of.permits)(&item.entry.tools) {
                return Err(VaultError::ToolDenied {
                    key: key.to_owned(),
                    scope: of.scope.clone(),
                    tool: of.tool.to_owned(),
                    tools: item.entry.tools.clone(),
                });
            }
            if let Some(host) = of.host
                && !of.permitted
                && !item.entry.may_go_to(host)
            {
                return Err(VaultError::HostDenied {
                    key: key.to_owned(),
                    scope: of.scope.clone(),
                    host: host.to_owned(),
                    hosts: item.entry.hosts.clone(),
                });
            }
            item.content.clone()
        };
        let value = match content {
            Content::Secret(value) => Some(value),
            Content::Public => self.stored_value(of.scope, key).await?,
            Content::Corrupt => None,
        };
        match value {
            Some(value) if value.text().is_some() => Ok(value),
            Some(_) => Err(VaultError::NotText { key: key.to_owned() }),
            None => Err(VaultError::corrupt(of.scope, key)),
        }
    }
}

/// Collects the keys that the arguments refer to.
fn find(of: &Use<'_>, args: &mut Value, keys: &mut BTreeSet<String>) -> Result<()> {
    each_text(of.paths, args, &mut |name, text| {
        if text.contains(BEGIN) {
            return Err(VaultError::Misplaced(format!(
                "references to the vault are not expanded in `{name}`"
            )));
        }
        Ok(())
    })?;
    each_text(of.places, args, &mut |name, text| {
        if !of.paths.contains(&name) {
            keys.extend(references(&pieces(text)?));
        }
        Ok(())
    })
}

/// One pass: a value that looks like a reference stays as it is.
fn replace<'v>(
    places: &[&str],
    args: &mut Value,
    value: &dyn Fn(&str) -> Option<&'v str>,
) -> Result<()> {
    each_text(places, args, &mut |_, text| {
        if text.contains("${") {
            let pieces = pieces(text)?.into_iter().map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::Reference(key) => value(key).unwrap_or_default(),
            });
            *text = pieces.collect();
        }
        Ok(())
    })
}

type Visit<'a> = dyn FnMut(&str, &mut String) -> Result<()> + 'a;

/// Shows the texts in these arguments, each with the name of its argument.
fn each_text(names: &[&str], args: &mut Value, visit: &mut Visit<'_>) -> Result<()> {
    let Value::Object(fields) = args else { return Ok(()) };
    let is_named = |name: &str| names.contains(&name) || names.contains(&ALL);
    let mut named = fields.iter_mut().filter(|(name, _)| is_named(name));
    named.try_for_each(|(name, field)| leaves(name, field, visit))
}

fn leaves(name: &str, value: &mut Value, visit: &mut Visit<'_>) -> Result<()> {
    match value {
        Value::String(text) => visit(name, text),
        Value::Array(items) => items.iter_mut().try_for_each(|item| leaves(name, item, visit)),
        Value::Object(fields) => {
            fields.values_mut().try_for_each(|field| leaves(name, field, visit))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The keys that a text refers to. One that cannot be read refers to nothing.
pub fn keys_in(text: &str) -> Vec<String> {
    references(&pieces(text).unwrap_or_default()).collect()
}

fn references<'a>(pieces: &'a [Piece<'_>]) -> impl Iterator<Item = String> + 'a {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Reference(key) => Some((*key).to_owned()),
        Piece::Text(_) => None,
    })
}

/// Takes a text apart. `$${` stands for `${`; what begins like a reference must be one.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.push(Piece::Text(&rest[..at - 1]));
            pieces.push(Piece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        let Some(reference) = rest[at..].strip_prefix(BEGIN) else {
            pieces.push(Piece::Text(&rest[..at + 2]));
            rest = &rest[at + 2..];
            continue;
        };
        let key = reference.split_once('}').filter(|(key, _)| is_key(key));
        let Some((key, after)) = key else {
            return Err(VaultError::Misplaced(
                "a reference is `${vault:KEY}` with a key of letters, digits, `_`, `.`, `:` and `-`; write `$${vault:` for plain text".to_owned(),
            ));
        };
        pieces.push(Piece::Text(&rest[..at]));
        pieces.push(Piece::Reference(key));
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

pub fn wipe(args: &mut Value) {
    // Wiping does not fail.
    let _ = leaves("", args, &mut |_, text| {
        text.zeroize();
        Ok(())
    });
}

#[cfg(test)]
mod tests {

    use super::*;

    /// MV-43
    #[test]
    fn a_reference_is_taken_for_one_only_if_it_is_exactly_that() {
        use Piece::{Reference, Text};

        let taken = |text| pieces(text).unwrap();

        assert_eq!(taken("a ${vault:K.1} b"), [Text("a "), Reference("K.1"), Text(" b")]);
        assert_eq!(
            taken("$${vault:K} ${HOME} $5"),
            [Text(""), Text("${"), Text("vault:K} ${"), Text("HOME} $5")]
        );
        for text in ["${vault:}", "${vault:a b}", "${vault:K", "x${vault:"] {
            assert!(pieces(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wiped_arguments_hold_nothing() {
        let mut args = serde_json::json!({ "env": { "A": "hunter22" }, "list": ["hunter22"] });

        wipe(&mut args);

        assert_eq!(args, serde_json::json!({ "env": { "A": "" }, "list": [""] }));
    }
}
