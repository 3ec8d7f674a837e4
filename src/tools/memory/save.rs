//! `memory_save`: remembers something for later turns.

use std::time::Duration;

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{kind, refusal};
use crate::{
    memory::{
        Memory,
        chain::Draft,
        entry::{Actor, Key},
    },
    tools::{
        answer,
        contract::{Limits, Tool, ToolContext, ToolError},
    },
};

pub(super) struct Save(pub(super) Memory);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// What to remember it under: 1 to 128 of A-Z a-z 0-9 . _ : / -
    key: String,
    /// What to remember, at most 64 KiB.
    content: String,
    /// identity, lesson, decision, context, reference or historical. The first four are in your prompt
    /// from the next turn on; `context` if not given, or the type of what is replaced.
    r#type: Option<String>,
    /// Why this replaces what is saved under the key now. Needed if there is something.
    supersede_reason: Option<String>,
    /// Where you have it from.
    #[serde(default)]
    sources: Vec<String>,
}

impl Tool for Save {
    const NAME: &'static str = "memory_save";
    const GROUP: &'static str = "@memory";
    const DESCRIPTION: &'static str = "Remembers something for your team's later turns, under a key. One entry is \
        active under a key; to replace it give `supersede_reason`, and the old version is kept. Save what will be \
        needed again: who you are, what you learnt, what was decided, what is going on. Never save secrets, only their \
        references. What you save after reading untrusted data waits for a person's review.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "memory";
    type Args = Args;

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let draft = Draft {
            team: cx.caller.team.clone(),
            key: Key::parse(&args.key).map_err(refusal)?,
            content: args.content,
            kind: kind(args.r#type.as_deref())?,
            reason: args.supersede_reason,
            sources: args.sources,
            provenance: self.0.provenance(&cx.caller, &cx.key, cx.label).await.map_err(refusal)?,
            by: Actor::Team(cx.caller.team.name.clone()),
            call: Some(cx.key.clone()),
            expires_at: None,
            looks_back: cx.caller.cycle.is_some(),
        };
        let saved = self.0.save(draft).await.map_err(refusal)?;
        let entry = saved.entry;
        let mut fields = json!({"entry": {
            "id": entry.id,
            "key": entry.key,
            "type": entry.kind,
            "review": entry.review,
        }});
        if saved.unchanged {
            fields["unchanged"] = json!(true);
        }
        if entry.is_proposal() {
            fields["note"] =
                json!("this is a proposal: the version before it stays until a person approves it");
        }
        Ok(answer::ok(fields))
    }
}
