//! `<namespace>.<tool>`: a tool of an installed plugin, on the path of all tools.
//!
//! The plugin is a stranger's program in a sandbox: its manifest, which an operator agreed to, says what a crash during a
//! call means, and its answers make a turn untrusted unless an operator trusts them. Those of a builtin that hears of
//! nobody are our own.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::millis,
    excerpt,
    tool::{Effect, ToolFault},
    wildcard::fits,
};
use serde_json::Value;

use super::{
    about::About,
    contract::{LONGEST, ToolContext},
    error::ToolError,
    grant::Grant,
    made::Made,
    outside::{OutsideTool, Speaker},
};
use crate::{
    files::FileStore,
    mcp::result::Answer,
    plugins::instance::{
        offers::Offer,
        wire::{CallMeta, RequestError},
    },
    settings::tool_groups::ToolGroup,
};

/// What all of them have in common. Their keys are not known beforehand: the group stands for them.
pub(super) const ABOUT: About = About::new("plugin", "@plugins", "plugin", Effect::Irreversible)
    .keys(ToolGroup::Plugins.as_str())
    .refuses_secrets();

/// What is told of a failure, in characters.
const LONGEST_ERROR: usize = 4_000;

struct PluginTool {
    offer: Offer,
    files: FileStore,
    effect: Effect,
    limit: Duration,
}

/// The tools that the plugins of a team offer.
pub fn tools(offers: &[Offer], files: &FileStore) -> Vec<Made> {
    let made = offers.iter().filter_map(|offer| {
        let manifest = &offer.package.manifest;
        let tools = manifest.tools.as_ref()?;
        let key = format!("{}.{}", tools.namespace, offer.definition.name);
        let tool = PluginTool {
            effect: tools.effect(&offer.definition.name),
            limit: manifest.limits.call_timeout.0.min(LONGEST),
            offer: offer.clone(),
            files: files.clone(),
        };
        Some(Made { key, tool: Arc::new(tool) })
    });
    made.collect()
}

impl PluginTool {
    fn unknown_outcome(&self) -> ToolError {
        match self.effect {
            Effect::Irreversible => ToolError::new(
                ToolFault::UnknownOutcome,
                "the plugin ended during the call; whether the call took effect is not known",
            ),
            Effect::Pure | Effect::Idempotent => {
                ToolError::failed("plugin unavailable: it ended during the call")
            }
        }
    }
}

impl OutsideTool for PluginTool {
    fn about(&self) -> About {
        About { effect: self.effect, ..ABOUT }.within(self.limit, self.limit)
    }

    fn description(&self) -> String {
        let Offer { plugin, definition, .. } = &self.offer;
        match definition.description.as_str() {
            "" => format!("A tool of the plugin `{}`.", plugin.key),
            words => words.to_owned(),
        }
    }

    fn schema(&self) -> &Value {
        &self.offer.definition.schema
    }

    async fn run(&self, args: Value, cx: &ToolContext) -> Result<String, ToolError> {
        let Offer { plugin, definition, package } = &self.offer;
        let lease = plugin.lease_once_started().await.map_err(|error| {
            tracing::debug!(team = %plugin.team.name, plugin = plugin.key, error = error.reason, "a plugin cannot be called");
            ToolError::failed(error.to_string())
        })?;
        let meta = CallMeta {
            call_id: cx.id.as_str(),
            idempotency_key: &cx.key,
            turn: cx.turn.as_str(),
            deadline_ms: millis(self.limit),
        };
        let called = tokio::select! {
            called = lease.child.call(&definition.name, &args, &meta) => called,
            () = cx.cancel.cancelled() => {
                return Err(ToolError::stopped("the plugin was told to stop the call"));
            }
        };
        let namespace = package.manifest.tools.as_ref().map_or("", |tools| &tools.namespace);
        let key = format!("{namespace}.{}", definition.name);
        let is_trusted = package.manifest.speaks_for_us()
            || plugin.row().trusted_output.iter().any(|pattern| fits(pattern, &key));
        let speaker = Speaker { name: format!("the plugin `{}`", plugin.key), is_trusted, cx };
        match called {
            Ok(Answer { text, failed: true, .. }) => {
                Err(speaker.failed(&shortened(&cx.grant, &text)))
            }
            Ok(answer) => Ok(speaker.answered(answer, &self.files).await),
            Err(RequestError::Refused { message, .. }) => {
                Err(speaker.failed(&shortened(&cx.grant, &message)))
            }
            Err(RequestError::Gone) => Err(self.unknown_outcome()),
            Err(error @ RequestError::Unsent) => {
                Err(ToolError::failed(format!("plugin unavailable: {error}")))
            }
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }
}

/// What is told of a failure.
fn shortened(grant: &Grant, text: &str) -> String {
    excerpt::excerpt(&grant.scrub(text), LONGEST_ERROR, "…")
}
