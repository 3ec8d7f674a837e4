//! `vault_get`: a value, or the reference to a secret.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{LIMITS, own};
use crate::tools::{
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
};

pub(in crate::tools) struct VaultGet;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Args {
    /// The key.
    key: String,
}

impl Tool for VaultGet {
    const NAME: &'static str = "vault_get";
    const GROUP: &'static str = "@vault";
    const DESCRIPTION: &'static str = "Reads what is kept under a key. The value of a secret is not shown: its \
        reference `${vault:KEY}` stands for it in the arguments of the tools that are named with it.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = "vault";
    type Args = Args;

    async fn call(&self, Args { key }: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let (scope, actor) = own(cx);
        let seen = cx.secrets.vault().get(&scope, &key, &actor).await?;
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
