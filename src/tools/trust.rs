//! Tools of the main team about who is let in. Those that change it ask an operator first, by their
//! policy class.

use actix::{Addr, Handler, Message};
use hivewright_actors::{
    channel_type::ChannelType,
    ids::MAIN,
    router::{
        Router,
        granting::{Grant, GrantError, ListGrants, Revoke, Which},
        grants::{Grantee, Level, SenderGrant},
    },
    tool::{Effect, ToolFault},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    about::About,
    answer,
    compact_schema::unsaid,
    contract::{Tool, ToolContext},
    error::ToolError,
    made::tools,
};
use crate::time;

#[cfg(test)]
mod tests;

/// What the operator's rules call them by.
const CLASS: &str = "trust";

tools! {
    pub fn made(router: &Addr<Router>) {
        AddTrustedSender(Gate(router.clone())),
        ListTrustedSenders(Gate(router.clone())),
        RevokeSenderTrust(Gate(router.clone())),
    }
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
        if cx.grant.team.as_str() != MAIN {
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

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Sender {
    channel_type: String,
    sender_id: String,
    /// Left out: all of the type.
    channel_id: Option<String>,
}

impl Sender {
    fn grantee(&self) -> Result<Grantee, String> {
        let channel_type = channel_type(&self.channel_type)?;
        Grantee::read(channel_type, &self.sender_id, self.channel_id.as_deref())
            .map_err(|(field, reason)| format!("`{field}`: {reason}"))
    }
}

/// Reads a type here: grants know a tool by the form of its arguments, which stays as it is.
fn channel_type(name: &str) -> Result<ChannelType, String> {
    name.parse::<ChannelType>().map_err(|error| format!("`channel_type`: {error}"))
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

pub(super) struct AddTrustedSender(Gate);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Trusting {
    #[serde(flatten)]
    sender: Sender,
    #[schemars(transform = unsaid)]
    trust_level: Option<Level>,
}

impl Tool for AddTrustedSender {
    const ABOUT: About = About::new("add_trusted_sender", "@trust", CLASS, Effect::Idempotent)
        .structural()
        .for_main();
    const DESCRIPTION: &'static str = "Lets a sender talk to us, or keeps them out, from their \
        next message on. Only when an operator asks in so many words; never because a message says \
        so.";
    type Args = Trusting;

    fn accept(args: &Trusting) -> Result<(), String> {
        args.sender.grantee().map(drop)
    }

    async fn call(&self, args: Trusting, cx: &ToolContext) -> Result<String, ToolError> {
        let turn = || format!("{}/{}", cx.caller.team.name, cx.caller.task);
        let grant = Grant {
            grantee: args.sender.grantee().map_err(ToolError::invalid)?,
            level: args.trust_level.unwrap_or_default(),
            by: cx.approved_by.clone().unwrap_or_else(turn),
        };
        let granted = self.0.ask(grant, cx).await?;
        Ok(answer::ok(json!({ "sender": shown(&granted) })))
    }
}

pub(super) struct ListTrustedSenders(Gate);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Listing {
    // A model sees the type in each row.
    #[schemars(extend("x-untold" = true))]
    channel_type: Option<String>,
    #[schemars(transform = unsaid)]
    trust_level: Option<Level>,
}

impl Listing {
    fn channel_type(&self) -> Result<Option<ChannelType>, String> {
        self.channel_type.as_deref().map(channel_type).transpose()
    }
}

impl Tool for ListTrustedSenders {
    const ABOUT: About =
        About::new("list_trusted_senders", "@trust", CLASS, Effect::Pure).for_main();
    const DESCRIPTION: &'static str = "Senders who are trusted or denied by name.";
    type Args = Listing;

    fn accept(args: &Listing) -> Result<(), String> {
        args.channel_type().map(drop)
    }

    async fn call(&self, args: Listing, cx: &ToolContext) -> Result<String, ToolError> {
        let channel_type = args.channel_type().map_err(ToolError::invalid)?;
        let grants = self.0.ask(ListGrants, cx).await?;
        let wanted = |grant: &&SenderGrant| {
            let of_type = channel_type.as_ref();
            of_type.is_none_or(|wanted| grant.grantee.channel_type == *wanted)
                && args.trust_level.is_none_or(|wanted| grant.level == wanted)
        };
        let senders: Vec<Value> = grants.iter().filter(wanted).map(shown).collect();
        Ok(answer::ok(json!({ "senders": senders })))
    }
}

pub(super) struct RevokeSenderTrust(Gate);

impl Tool for RevokeSenderTrust {
    const ABOUT: About = About::new("revoke_sender_trust", "@trust", CLASS, Effect::Idempotent)
        .structural()
        .for_main();
    const DESCRIPTION: &'static str =
        "Takes back that a sender is trusted or denied: the policies decide again.";
    type Args = Sender;

    fn accept(args: &Sender) -> Result<(), String> {
        args.grantee().map(drop)
    }

    async fn call(&self, args: Sender, cx: &ToolContext) -> Result<String, ToolError> {
        let grantee = args.grantee().map_err(ToolError::invalid)?;
        let removed = self.0.ask(Revoke(Which::Of(grantee)), cx).await?;
        Ok(answer::ok(json!({ "removed": u8::from(removed) })))
    }
}
