//! `vault_set`: keeps a value that is no secret.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{LIMITS, own};
use crate::{
    tools::{
        answer,
        contract::{Limits, Tool, ToolContext, ToolError},
    },
    vault::entry::Put,
};

pub(in crate::tools) struct VaultSet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Args {
    /// The name: 1 to 128 of letters, digits, `_`, `.`, `:` and `-`.
    key: String,
    /// The value, at most 64 KiB.
    value: String,
}

impl Tool for VaultSet {
    const NAME: &'static str = "vault_set";
    const GROUP: &'static str = "@vault";
    const DESCRIPTION: &'static str = "Keeps a value under a key, for this team alone; it lasts until it is replaced or \
        deleted. For cursors, ids and other small facts, not for secrets: those are set by an operator, and cannot be \
        replaced from here.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "vault";
    type Args = Args;

    async fn call(&self, Args { key, value }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let vault = cx.secrets.vault();
        let entry = vault.set(&scope, &key, Put::public(value), &actor).await?;
        Ok(answer::ok(json!({ "key": key, "version": entry.version })))
    }
}
