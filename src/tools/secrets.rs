//! Secrets in the arguments of calls: refused where they may not stand, expanded where they may.

use hivewright_actors::tool::{CallContext, Caller, ToolFault};
use serde_json::Value;

use super::{contract::ToolError, filter::ToolFilter, host::Grant};
use crate::{
    scrub::Scrubber,
    vault::{
        audit::Actor,
        expand::{Use, keys_in},
        scope::Scope,
    },
};

/// The tool whose children get values only by the operator's word.
const BASH: &str = "bash";

/// How a tool stands to secrets.
pub(super) struct SecretUse {
    /// Its key.
    pub(super) tool: &'static str,
    /// Arguments in which references are expanded.
    pub(super) places: &'static [&'static str],
    /// Arguments that are paths.
    pub(super) paths: &'static [&'static str],
    /// Values in the clear are refused.
    pub(super) refused: bool,
}

/// Refuses arguments that hold the value of a secret, where that would be written down.
pub(super) fn refuse(of: &SecretUse, args: &Value, grant: &Grant) -> Result<(), ToolError> {
    if !of.refused {
        return Ok(());
    }
    let scrubber = grant.secrets.of(&grant.team);
    match held(args, &scrubber) {
        Some(key) => {
            let message = format!(
                "contains the value of vault secret {key}; use its reference `${{vault:{key}}}`"
            );
            Err(ToolError::new(ToolFault::SecretNotAllowed, message))
        }
        None => Ok(()),
    }
}

/// The key of a secret whose value is somewhere in the arguments.
fn held(value: &Value, scrubber: &Scrubber) -> Option<String> {
    match value {
        Value::String(text) => scrubber.key_in(text).map(str::to_owned),
        Value::Array(items) => items.iter().find_map(|item| held(item, scrubber)),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            let in_name = scrubber.key_in(name).map(str::to_owned);
            in_name.or_else(|| held(field, scrubber))
        }),
        _ => None,
    }
}

/// Arguments without the values of secrets; none if they hold none.
pub(super) fn clean(args: &Value, grant: &Grant) -> Option<Value> {
    let scrubber = grant.secrets.of(&grant.team);
    held(args, &scrubber).map(|_| cleaned(args, &scrubber))
}

fn cleaned(value: &Value, scrubber: &Scrubber) -> Value {
    match value {
        Value::String(text) => scrubber.scrub_known(text).into(),
        Value::Array(items) => items.iter().map(|item| cleaned(item, scrubber)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| {
                let name = scrubber.scrub_known(name).into_owned();
                (name, cleaned(field, scrubber))
            })
            .collect(),
        other => other.clone(),
    }
}

/// Why the references in the arguments of a call cannot be expanded now, though they may be later.
pub(super) fn lacking(of: &SecretUse, args: &Value, grant: &Grant) -> Option<String> {
    let refers = |place: &&str| args.get(place).is_some_and(refers);
    if !of.places.iter().any(refers) {
        return None;
    }
    let locked = grant.secrets.vault().locked()?;
    Some(format!("`{}` needs a secret, and the vault is locked: {locked}", of.tool))
}

/// A reference stands somewhere in a value.
fn refers(value: &Value) -> bool {
    match value {
        Value::String(text) => !keys_in(text).is_empty(),
        Value::Array(items) => items.iter().any(refers),
        Value::Object(fields) => fields.values().any(refers),
        _ => false,
    }
}

/// Expands the references in the arguments of a call that is about to run.
pub(super) async fn expand(
    of: &SecretUse,
    mut args: Value,
    cx: &CallContext,
    grant: &Grant,
) -> Result<Value, ToolError> {
    if of.places.is_empty() && of.paths.is_empty() {
        return Ok(args);
    }
    let actor = actor(&cx.caller);
    let request = Use {
        scope: &Scope::Team(cx.caller.team.clone()),
        approved: cx.approved.as_ref(),
        actor: &actor,
        tool: of.tool,
        places: of.places,
        paths: of.paths,
        permits: &|patterns| permits(patterns, of.tool),
    };
    grant.secrets.vault().expand(&request, &mut args).await?;
    Ok(args)
}

/// Whether the patterns of an entry name a tool. `bash` has to be named itself.
fn permits(patterns: &[String], tool: &str) -> bool {
    let names_bash = |pattern: &String| [BASH, "@shell"].contains(&pattern.as_str());
    if tool == BASH && !patterns.iter().any(names_bash) {
        return false;
    }
    ToolFilter::parse(patterns).is_ok_and(|filter| filter.allows(tool))
}

/// Who calls, for the audit.
pub(super) fn actor(caller: &Caller) -> Actor {
    Actor::Team { team: caller.team.clone(), task: caller.task.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MV-35, MV-45
    #[test]
    fn bash_is_meant_only_if_it_is_named() {
        let permits = |patterns: &[&str], tool| {
            let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
            permits(&patterns, tool)
        };

        assert!(permits(&["*"], "web_fetch"));
        assert!(!permits(&["*"], "bash"));
        assert!(!permits(&["b*"], "bash"));
        assert!(permits(&["bash"], "bash"));
        assert!(permits(&["@shell"], "bash"));
        assert!(!permits(&["bash", "!bash"], "bash"));
        assert!(!permits(&["web_fetch"], "browser_type"));
        assert!(!permits(&["@unknown"], "web_fetch"));
    }
}
