//! `vault_list`: what is kept.

use hivewright_actors::{excerpt, tool::Effect};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{LIMITS, own};
use crate::tools::contract::{Limits, Tool, ToolContext, ToolError};

/// So much of a value is shown, in characters.
const SHOWN: usize = 200;

pub(in crate::tools) struct VaultList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Args {
    /// Only keys that begin like this.
    #[serde(default)]
    prefix: String,
}

impl Tool for VaultList {
    const NAME: &'static str = "vault_list";
    const GROUP: &'static str = "@vault";
    const DESCRIPTION: &'static str = "Lists the keys of this team: which of them are secrets, what they are for, and the \
        first 200 characters of values that are none.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "vault";
    type Args = Args;

    async fn call(&self, Args { prefix }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let listed = cx.secrets.vault().list(&scope, &prefix, &actor).await?;
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
