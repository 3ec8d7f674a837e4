//! `mcp.<server>.<tool>`: a tool of an MCP server, on the path of all tools.
//!
//! The server is outside: its words are marked, its answers make a turn untrusted, and what it says of its tools
//! counts only if the operator trusts it.

use std::{collections::BTreeMap, sync::Arc};

use hivewright_actors::tool::{Effect, ToolFault};
use serde_json::Value;

use super::{
    about::About,
    contract::{LONGEST, ToolContext},
    error::ToolError,
    made::Made,
    outside::{OutsideTool, Speaker},
    reach::Reach,
    secrets,
    wire::wire_name,
};
use crate::{
    files::FileStore,
    mcp::{Offer, Offers, Servers, definition::Definition, fault::McpError},
    vault::expand::ALL,
};

/// What all of them have in common.
pub(super) const ABOUT: About =
    About::new("mcp", "@mcp", "mcp", Effect::Irreversible).keys("mcp.*").refuses_secrets();

struct McpTool {
    servers: Servers,
    files: FileStore,
    offer: Offer,
}

/// The tools that the servers of a team offer. Of two that models would call by one name, the first is taken.
pub fn tools(servers: &Servers, files: &FileStore, offers: &Offers) -> Vec<Made> {
    let mut named = BTreeMap::new();
    for offer in &offers.tools {
        let key = format!("{}.{}", offer.server.context.key(), offer.definition.name);
        let (servers, files) = (servers.clone(), files.clone());
        let tool = McpTool { servers, files, offer: offer.clone() };
        if named.contains_key(&wire_name(&key)) {
            let team = &offer.server.context.team().name;
            tracing::warn!(%team, tool = key, "a tool is left out: another has its name on the wire");
            continue;
        }
        named.insert(wire_name(&key), Made { key, tool: Arc::new(tool) });
    }
    named.into_values().collect()
}

impl McpTool {
    fn is_trusted(&self) -> bool {
        self.offer.server.context.config().trusted
    }
}

impl OutsideTool for McpTool {
    fn about(&self) -> About {
        let Offer { server, definition } = &self.offer;
        let timeout = server.context.config().call_timeout.min(LONGEST);
        let about = About { effect: effect(definition, self.is_trusted()), ..ABOUT };
        // A program is at no host that a secret could be bound to.
        let expands: &[&str] = if server.context.host().is_some() { &[ALL] } else { &[] };
        about.within(timeout, timeout).expands(expands)
    }

    fn description(&self) -> String {
        let Offer { server, definition } = &self.offer;
        let of = format!("A tool of the MCP server `{}`", server.context.name);
        match (self.is_trusted(), definition.description.as_str()) {
            (_, "") => format!("{of}."),
            (true, words) => words.to_owned(),
            (false, words) => format!("{of}, which describes it so: {words}"),
        }
    }

    fn schema(&self) -> &Value {
        &self.offer.definition.schema
    }

    /// Rules for hosts are about what a model chooses; where the server is, the operator said.
    fn reaches(&self, args: &Value) -> Vec<Reach> {
        let refers = !secrets::referred(&self.about(), args).is_empty();
        let host = self.offer.server.context.host().filter(|_| refers);
        host.map(Reach::Host).into_iter().collect()
    }

    async fn run(&self, args: Value, cx: &ToolContext) -> Result<String, ToolError> {
        let Offer { server, definition } = &self.offer;
        // A server that is not trusted is watched for as long as it lives.
        let supervision = if self.is_trusted() && server.context.sees_workspace() {
            Some(cx.before_command(&server.context.key()).await?)
        } else {
            None
        };
        let called = self.servers.call(server, &definition.name, args, cx.cancel.clone()).await;
        if let Some(supervision) = supervision {
            cx.after_command(supervision).await?;
        }
        let name = format!("the MCP server `{}`", server.context.name);
        let speaker = Speaker { name, is_trusted: self.is_trusted(), cx };
        match called {
            Ok(answer) if answer.failed => Err(speaker.failed(&answer.text)),
            Ok(answer) => Ok(speaker.answered(answer, &self.files).await),
            Err(McpError::Refused { message }) => Err(speaker.failed(&message)),
            Err(error @ McpError::Stopped { .. }) => Err(ToolError::stopped(error.to_string())),
            Err(error @ (McpError::Ended { .. } | McpError::Status { status: 500.., .. })) => {
                Err(ToolError::new(ToolFault::UnknownOutcome, error.to_string()))
            }
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }
}

/// What a server says of its tools counts if the operator trusts it.
fn effect(definition: &Definition, trusted: bool) -> Effect {
    match (trusted, definition.says_read_only, definition.says_idempotent) {
        (true, true, _) => Effect::Pure,
        (true, false, true) => Effect::Idempotent,
        _ => Effect::Irreversible,
    }
}
