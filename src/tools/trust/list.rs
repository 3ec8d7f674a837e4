//! `list_trusted_senders`: what was decided about senders by name.

use hivewright_actors::{
    channel_type::ChannelType,
    router::{granting::ListGrants, grants::Level},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{
        answer,
        contract::{Limits, Tool, ToolContext, ToolError},
    },
    CLASS, Gate, LIMITS, TrustLevel, shown,
};

pub(super) struct ListTrustedSenders(pub(super) Gate);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Only senders on this type of channel: `ws`, `discord`, `cli`, `api` or `plugin.<key>`.
    channel_type: Option<String>,
    /// Only senders that are `trusted`, or only those that are `denied`.
    trust_level: Option<TrustLevel>,
}

fn channel_type(args: &Args) -> Result<Option<ChannelType>, String> {
    let named = args.channel_type.as_deref().map(str::parse).transpose();
    named.map_err(|error| format!("`channel_type`: {error}"))
}

impl Tool for ListTrustedSenders {
    const NAME: &'static str = "list_trusted_senders";
    const GROUP: &'static str = "@trust";
    const DESCRIPTION: &'static str =
        "Lists the senders who are trusted or denied by name, oldest first.";
    const EFFECT: Effect = Effect::Pure;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = CLASS;
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        channel_type(args).map(drop)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let channel_type = channel_type(&args).map_err(ToolError::invalid)?;
        let level = args.trust_level.map(Level::from);
        let grants = self.0.ask(ListGrants, cx).await?;
        let senders: Vec<Value> = grants
            .iter()
            .filter(|grant| {
                let of_type = channel_type.as_ref();
                of_type.is_none_or(|wanted| grant.grantee.channel_type == *wanted)
                    && level.is_none_or(|wanted| grant.level == wanted)
            })
            .map(shown)
            .collect();
        Ok(answer::ok(json!({ "senders": senders })))
    }
}
