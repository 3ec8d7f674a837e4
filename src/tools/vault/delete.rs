//! `vault_delete`: forgets a value that is no secret.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{LIMITS, own};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

pub(in crate::tools) struct VaultDelete;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Args {
    /// The key.
    key: String,
}

impl Tool for VaultDelete {
    const NAME: &'static str = "vault_delete";
    const GROUP: &'static str = "@vault";
    const DESCRIPTION: &'static str =
        "Forgets what is kept under a key. Secrets cannot be deleted from here: an operator can.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "vault";
    type Args = Args;

    async fn call(&self, Args { key }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let deleted = cx.secrets.vault().delete(&scope, &key, &actor).await?;
        Ok(answer::ok(json!({ "deleted": deleted })))
    }
}
