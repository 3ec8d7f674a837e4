//! The vault tools: what a team keeps for itself, and references to its secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::{
    excerpt,
    tool::{Effect, Stow},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    about::About,
    answer,
    contract::{Redaction, Tool, ToolContext},
    error::ToolError,
    grant::Grant,
    made::tools,
    org::credentials::emptied,
    secrets,
};
use crate::{
    scrub::REDACTED,
    teams::credentials::stow,
    vault::{
        audit::Actor,
        entry::Put,
        escrow::{Origin, SecretValues},
        scope::Scope,
        seal::Plain,
    },
};

/// The field whose text is kept out of what is written of a call.
const VALUE: &str = "value";
/// So much of a value is shown in a list, in characters.
const SHOWN: usize = 200;

tools! {
    pub fn made() {
        VaultDelete,
        VaultGet,
        VaultList,
        VaultSet,
    }
}

/// The calling team's own entries, and the team as their user.
fn own(cx: &ToolContext) -> (Scope, Actor) {
    (Scope::Team(cx.caller.team.clone()), secrets::actor(&cx.caller))
}

pub(super) struct VaultDelete;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct OneKey {
    key: String,
}

impl Tool for VaultDelete {
    const ABOUT: About = About::new("vault_delete", "@vault", "vault", Effect::Idempotent);
    const DESCRIPTION: &'static str = "Forgets a key that is no secret.";
    type Args = OneKey;

    async fn call(&self, OneKey { key }: OneKey, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let deleted = cx.grant.secrets.vault().delete(&scope, &key, &actor).await?;
        Ok(answer::ok(json!({ "deleted": deleted })))
    }
}

pub(super) struct VaultGet;

impl Tool for VaultGet {
    const ABOUT: About = About::new("vault_get", "@vault", "vault", Effect::Pure);
    const DESCRIPTION: &'static str =
        "Reads a key. Of a secret you get the reference `${vault:KEY}`, and which tools take it.";
    type Args = OneKey;

    async fn call(&self, OneKey { key }: OneKey, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let seen = cx.grant.secrets.vault().get(&scope, &key, &actor).await?;
        let fields = match &seen.value {
            None => json!({
                "secret": true,
                "reference": format!("${{vault:{key}}}"),
                "tools": seen.entry.tools,
                "hosts": seen.entry.hosts,
            }),
            Some(value) => match value.text() {
                Some(text) => json!({ "value": text }),
                None => json!({ "value_base64": STANDARD.encode(value.bytes()) }),
            },
        };
        Ok(answer::ok(fields))
    }
}

pub(super) struct VaultList;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Listing {
    #[serde(default)]
    prefix: String,
}

impl Tool for VaultList {
    const ABOUT: About = About::new("vault_list", "@vault", "vault", Effect::Pure);
    const DESCRIPTION: &'static str =
        "Lists the keys, what they are for, and the beginning of values that are no secrets.";
    type Args = Listing;

    async fn call(&self, args: Listing, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let listed = cx.grant.secrets.vault().list(&scope, &args.prefix, &actor).await?;
        let rows = listed.into_iter().map(|seen| {
            let mut row = json!({ "key": seen.entry.key, "secret": seen.entry.secret, "note": seen.entry.note });
            if let Some(text) = seen.value.as_ref().and_then(|value| value.text()) {
                let rest = format!(r#"vault_get {{"key":"{}"}}"#, seen.entry.key);
                row["value"] = excerpt::excerpt(text, SHOWN, &rest).into();
            }
            row
        });
        Ok(rows.collect::<Value>().to_string())
    }
}

pub(super) struct VaultSet;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Setting {
    /// 1 to 128 letters, digits, `_ . : -`.
    key: String,
    value: String,
}

impl Tool for VaultSet {
    const ABOUT: About = About::new("vault_set", "@vault", "vault", Effect::Idempotent);
    const DESCRIPTION: &'static str =
        "Keeps a small fact under a key: cursors, ids. Secrets are set by the operator.";
    type Args = Setting;

    /// It may be a secret all the same, and is on its way to where nobody reads it by chance.
    fn redact(args: &Value) -> Option<Redaction> {
        let mut args = args.clone();
        if !args.is_object() {
            // Nobody knows what is in it.
            return Some(Redaction::of(json!({})));
        }
        let value = args.get_mut(VALUE).filter(|value| **value != REDACTED)?;
        let values = match value {
            Value::String(text) => [(VALUE.to_owned(), std::mem::take(text))].into(),
            _ => SecretValues::new(),
        };
        *value = if values.is_empty() { emptied(value) } else { REDACTED.into() };
        Some(Redaction { args, values })
    }

    fn stow(&self, values: &SecretValues, of: &Origin, grant: &Grant) -> Result<Stow, ToolError> {
        Ok(stow(grant.secrets.vault().escrow_facts(of, values)?))
    }

    fn settled(&self, of: &Origin, grant: &Grant) {
        grant.secrets.vault().release_call(of);
    }

    async fn call(&self, args: Setting, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let vault = cx.grant.secrets.vault();
        // The value was taken out before the call was written down.
        let value = match args.value.as_str() {
            REDACTED => vault.escrowed_fact(&cx.origin(), VALUE).await?.ok_or_else(|| {
                let message = format!(
                    "`{VALUE}`: {REDACTED} stands for what was taken out of a call; say it itself"
                );
                answer::refuse("invalid_input", message)
            })?,
            _ => Plain::new(args.value),
        };
        let put = Put { value: Some(value), secret: Some(false), ..Put::default() };
        let entry = vault.set(&scope, &args.key, put, &actor).await?;
        Ok(answer::ok(json!({ "key": args.key, "version": entry.version })))
    }
}
