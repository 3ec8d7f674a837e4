//! `revoke_sender_trust`: takes back what was decided about a sender.

use hivewright_actors::{
    router::granting::{Revoke, Which},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    super::{
        answer,
        contract::{Limits, Pool, Tool, ToolContext, ToolError},
    },
    CLASS, Gate, LIMITS, grantee,
};

pub(super) struct RevokeSenderTrust(pub(super) Gate);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The type of channel that the sender writes on: `ws`, `discord`, `cli`, `api` or `plugin.<key>`.
    channel_type: String,
    /// The sender's id there.
    sender_id: String,
    /// The channel that it was decided for; none for what was decided for all of the type.
    channel_id: Option<String>,
}

impl Tool for RevokeSenderTrust {
    const NAME: &'static str = "revoke_sender_trust";
    const GROUP: &'static str = "@trust";
    const POOL: Pool = Pool::Structural;
    const DESCRIPTION: &'static str = "Takes back that a sender is trusted or denied, from their next message on: \
        the policies decide about them again. Answers how many entries were removed, 0 if there was none.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = true;
    const LIMITS: Limits = LIMITS;
    const CLASS: &'static str = CLASS;
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        grantee(&args.channel_type, &args.sender_id, args.channel_id.as_deref()).map(drop)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let grantee = grantee(&args.channel_type, &args.sender_id, args.channel_id.as_deref())
            .map_err(ToolError::invalid)?;
        let removed = self.0.ask(Revoke(Which::Of(grantee)), cx).await?;
        Ok(answer::ok(json!({ "removed": u8::from(removed) })))
    }
}
