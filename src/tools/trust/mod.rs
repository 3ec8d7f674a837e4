//! Tools of the main team about who is let in. Those that change it ask an operator first, by their
//! policy class.

use std::time::Duration;

use actix::{Addr, Handler, Message};
use hivewright_actors::{
    ids::MAIN,
    router::{
        Router,
        granting::GrantError,
        grants::{Grantee, Level, SenderGrant},
    },
    tool::ToolFault,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    answer,
    contract::{Limits, ToolContext, ToolError},
    host::Toolbox,
    registry::Registered,
};
use crate::time;

mod add;
mod list;
mod revoke;
#[cfg(test)]
mod tests;

pub(super) const TOOLS: &[Registered] = &[
    Registered::of::<add::AddTrustedSender>(),
    Registered::of::<list::ListTrustedSenders>(),
    Registered::of::<revoke::RevokeSenderTrust>(),
];
/// What the operator's rules call them by.
pub const CLASS: &str = "trust";

/// None of them takes long.
const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));

/// The same tools and these.
pub fn add(toolbox: Toolbox, router: Addr<Router>) -> Toolbox {
    let gate = Gate(router);
    toolbox
        .with(add::AddTrustedSender(gate.clone()))
        .with(list::ListTrustedSenders(gate.clone()))
        .with(revoke::RevokeSenderTrust(gate))
}

/// The way from a tool to the trust gate.
#[derive(Clone, Debug)]
struct Gate(Addr<Router>);

impl Gate {
    /// Asks the gate on behalf of the main team: no other may.
    async fn ask<M, T>(&self, message: M, cx: &ToolContext) -> Result<T, ToolError>
    where
        M: Message<Result = Result<T, GrantError>> + Send + 'static,
        T: Send + 'static,
        Router: Handler<M>,
    {
        if cx.team.as_str() != MAIN {
            let reason = "only the main team may see or change who is trusted";
            return Err(ToolError::new(ToolFault::Denied, reason));
        }
        match self.0.send(message).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error @ GrantError::TooMany)) => Err(answer::refuse("busy", error.to_string())),
            Ok(Err(error)) => Err(ToolError::failed(error.to_string())),
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }
}

/// What is thought of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum TrustLevel {
    /// Let in, whatever the policies say.
    Trusted,
    /// Kept out without a word.
    Denied,
}

impl From<TrustLevel> for Level {
    fn from(level: TrustLevel) -> Self {
        match level {
            TrustLevel::Trusted => Self::Trusted,
            TrustLevel::Denied => Self::Denied,
        }
    }
}

/// Whom the arguments of a call name.
fn grantee(channel_type: &str, sender: &str, channel: Option<&str>) -> Result<Grantee, String> {
    Grantee::read(channel_type, sender, channel)
        .map_err(|(field, reason)| format!("`{field}`: {reason}"))
}

/// A grant as the model sees it.
fn shown(grant: &SenderGrant) -> Value {
    json!({
        "channel_type": grant.grantee.channel_type,
        "sender_id": grant.grantee.sender,
        "channel_id": grant.grantee.channel,
        "trust_level": grant.level,
        "granted_by": grant.granted_by,
        "granted_at": time::instant(grant.at).map(|at| at.to_string()),
    })
}
