//! Secrets in the arguments of calls: refused where they may not stand, expanded where they may.

use std::collections::BTreeSet;

use hivewright_actors::tool::{CallContext, Caller, ToolFault};
use serde_json::Value;

use super::{about::About, error::ToolError, filter::ToolFilter, grant::Grant, registry::Registry};
use crate::{
    scrub::{Scrubber, json},
    vault::{
        audit::Actor,
        expand::{ALL, Use, keys_in},
        scope::Scope,
    },
};

/// The tool whose children get values only by the operator's word.
const BASH: &str = "bash";

/// Refuses arguments that hold the value of a secret, where that would be written down.
pub(super) fn refuse(of: &About, args: &Value, grant: &Grant) -> Result<(), ToolError> {
    if !of.refuses_secrets {
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
    let mut texts = json::texts_and_names(value).into_iter();
    texts.find_map(|text| scrubber.key_in(text).map(str::to_owned))
}

/// Arguments without the values of secrets; none if they hold none.
pub(super) fn clean(args: &Value, grant: &Grant) -> Option<Value> {
    let scrubber = grant.secrets.of(&grant.team);
    let clean = |text: &str| scrubber.scrub_known(text).into_owned();
    held(args, &scrubber).map(|_| json::replaced(args, &clean))
}

/// The keys that the arguments of a call refer to where references are expanded.
pub(super) fn referred(of: &About, args: &Value) -> BTreeSet<String> {
    let placed = of.expands.iter().filter_map(|place| match *place {
        ALL => Some(args),
        place => args.get(place),
    });
    placed.flat_map(json::texts).flat_map(keys_in).collect()
}

/// Why the references in the arguments of a call cannot be expanded now, though they may be later.
pub(super) fn lacking(of: &About, args: &Value, grant: &Grant) -> Option<String> {
    if referred(of, args).is_empty() {
        return None;
    }
    let locked = grant.secrets.vault().locked()?;
    Some(format!("`{}` needs a secret, and the vault is locked: {locked}", of.name))
}

/// Where the values of a call go, if they leave the machine.
pub(super) struct Destination {
    pub(super) host: String,
    /// A person let this call go there, whatever the entries say.
    pub(super) permitted: bool,
}

/// Expands the references in the arguments of a call that is about to run, of the tool with this key.
pub(super) async fn expand(
    of: &About,
    key: &str,
    mut args: Value,
    destination: Option<&Destination>,
    cx: &CallContext,
    grant: &Grant,
) -> Result<Value, ToolError> {
    if of.expands.is_empty() && of.paths.is_empty() {
        return Ok(args);
    }
    let (actor, scope) = (actor(&cx.caller), Scope::Team(cx.caller.team.clone()));
    if let (Some(Destination { host, permitted: true }), true, Some(by)) =
        (destination, cx.approved_always, &cx.approved_by)
    {
        let by = Actor::Operator { name: by.clone(), token: String::new() };
        for secret in referred(of, &args) {
            grant.secrets.vault().add_host(&scope, &secret, host, &by).await?;
        }
    }
    let request = Use {
        host: destination.map(|to| to.host.as_str()),
        permitted: destination.is_some_and(|to| to.permitted),
        scope: &scope,
        approved: cx.approved.as_ref(),
        actor: &actor,
        tool: key,
        places: of.expands,
        paths: of.paths,
        permits: &|patterns| permits(patterns, key, grant.allowed.registry()),
    };
    grant.secrets.vault().expand(&request, &mut args).await?;
    Ok(args)
}

/// Whether the patterns of an entry name a tool. `bash` has to be named itself.
pub(super) fn permits(patterns: &[String], tool: &str, registry: Registry) -> bool {
    let names_bash = |pattern: &String| [BASH, "@shell"].contains(&pattern.as_str());
    if tool == BASH && !patterns.iter().any(names_bash) {
        return false;
    }
    ToolFilter::parse(patterns, registry).is_ok_and(|filter| filter.allows(tool))
}

pub(super) fn actor(caller: &Caller) -> Actor {
    Actor::Team { team: caller.team.clone(), task: caller.task.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::REGISTRY;

    /// MV-35, MV-45
    #[test]
    fn bash_is_meant_only_if_it_is_named() {
        let permits = |patterns: &[&str], tool| {
            let patterns: Vec<_> = patterns.iter().map(|text| (*text).to_owned()).collect();
            permits(&patterns, tool, REGISTRY)
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
