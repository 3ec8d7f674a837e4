//! `mcp.<server>.<tool>`: a tool of an MCP server, on the path of all tools.
//!
//! The server is outside: its words are marked, its answers make a turn untrusted, and what it says of its tools
//! counts only if the operator trusts it.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    excerpt,
    task::Label,
    tool::{Caller, Checked, Effect, ToolFault, ToolSpec},
};
use serde_json::Value;

use super::{
    about::About,
    answer,
    contract::{LONGEST, ToolContext},
    error::ToolError,
    hosted::{Hosted, check_by},
    judge::Sight,
    made::Made,
    pictures,
    reach::Reach,
    secrets, told,
    wire::wire_name,
};
use crate::{
    files::FileStore,
    mcp::{Offer, Offers, Servers, definition::Definition, fault::McpError},
    sandbox::process::Sandbox,
    vault::expand::ALL,
};

/// What all of them have in common.
pub(super) const ABOUT: About =
    About::new("mcp", "@mcp", "mcp", Effect::Irreversible).keys("mcp.*").refuses_secrets();

/// What is told of a tool, in characters.
const LONGEST_DESCRIPTION: usize = 1_024;

struct McpTool {
    servers: Servers,
    files: FileStore,
    offer: Offer,
}

/// The tools that the servers of a team offer. Of two that models would call by one name, the first is taken.
pub fn tools(servers: &Servers, files: &FileStore, offers: &Offers) -> Vec<Made> {
    let mut named = BTreeMap::new();
    for offer in &offers.tools {
        let key = format!("{}.{}", offer.server.site.key(), offer.definition.name);
        let (servers, files) = (servers.clone(), files.clone());
        let tool = McpTool { servers, files, offer: offer.clone() };
        if named.contains_key(&wire_name(&key)) {
            let team = &offer.server.site.team().name;
            tracing::warn!(%team, tool = key, "a tool is left out: another has its name on the wire");
            continue;
        }
        named.insert(wire_name(&key), Made { key, tool: Arc::new(tool) });
    }
    named.into_values().collect()
}

impl McpTool {
    fn is_trusted(&self) -> bool {
        self.offer.server.site.config().trusted
    }

    async fn run(&self, args: Value, cx: &ToolContext) -> Result<String, ToolError> {
        let Offer { server, definition } = &self.offer;
        // A server that is not trusted is watched for as long as it lives.
        let supervision = if self.is_trusted() && server.site.sees_workspace() {
            Some(cx.before_command(&server.site.key()).await?)
        } else {
            None
        };
        let called = self.servers.call(server, &definition.name, args, cx.cancel.clone()).await;
        if let Some(supervision) = supervision {
            cx.after_command(supervision).await?;
        }
        let from_outside = matches!(called, Ok(_) | Err(McpError::Refused { .. }));
        if from_outside && !self.is_trusted() {
            cx.believe(Label::Untrusted);
        }
        let marked = |text: &str| {
            if self.is_trusted() {
                return text.to_owned();
            }
            answer::from_outside(&format!("the MCP server `{}`", server.site.name), text)
        };
        match called {
            Ok(answer) if answer.failed => Err(ToolError::failed(marked(&answer.text))),
            Ok(answer) => {
                let cx = if self.is_trusted() { cx.clone() } else { cx.untrusted() };
                Ok(marked(&pictures::told(&self.files, &cx, answer).await))
            }
            Err(McpError::Refused { message }) => Err(ToolError::failed(marked(&message))),
            Err(error @ McpError::Stopped { .. }) => Err(ToolError::stopped(error.to_string())),
            Err(error @ (McpError::Ended { .. } | McpError::Status { status: 500.., .. })) => {
                Err(ToolError::new(ToolFault::UnknownOutcome, error.to_string()))
            }
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }
}

impl Hosted for McpTool {
    fn about(&self) -> About {
        let Offer { server, definition } = &self.offer;
        let timeout = server.site.config().call_timeout.min(LONGEST);
        let about = About { effect: effect(definition, self.is_trusted()), ..ABOUT };
        // A program is at no host that a secret could be bound to.
        let expands: &[&str] = if server.site.host().is_some() { &[ALL] } else { &[] };
        about.within(timeout, timeout).expands(expands)
    }

    fn spec(&self, name: String, _: &Sandbox) -> ToolSpec {
        let Offer { server, definition } = &self.offer;
        let told = match (self.is_trusted(), definition.description.as_str()) {
            (_, "") => format!("A tool of the MCP server `{}`.", server.site.name),
            (true, words) => words.to_owned(),
            (false, words) => {
                format!(
                    "A tool of the MCP server `{}`, which describes it so: {words}",
                    server.site.name
                )
            }
        };
        let description = excerpt::line(&told, LONGEST_DESCRIPTION);
        ToolSpec { name, description, schema: told::schema(&definition.schema) }
    }

    fn form(&self) -> String {
        told::form(&self.offer.definition.schema)
    }

    fn look(&self, key: &str, args: &Value, _: &Caller) -> Result<(Checked, Sight), ToolError> {
        check_by(&self.offer.definition.schema, args)?;
        let about = self.about();
        // Rules for hosts are about what a model chooses; where the server is, the operator said.
        let refers = !secrets::referred(&about, args).is_empty();
        let host = self.offer.server.site.host().filter(|_| refers);
        let reaches = host.map(Reach::Host).into_iter().collect();
        let sight = Sight::new(key, about, reaches);
        Ok((Checked::allowed(about.effect, about.exclusive, about.timeout), sight))
    }

    fn call(
        self: Arc<Self>,
        args: Value,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<String, ToolError>> {
        Box::pin(async move { self.run(args, &cx).await })
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
