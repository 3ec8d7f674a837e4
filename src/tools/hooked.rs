//! Hooks around a call: plugins are asked before it, and told after it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hivewright_actors::{
    clock::millis,
    excerpt,
    hook::HookEvent,
    ids::{CallId, TurnId},
    task::Label,
    tool::{
        Args, BeforeCalls, CallContext, Caller, Direction, Interception, ToolCall, ToolFault,
        ToolReply, Toolset,
    },
};
use serde_json::{Value, json};

use super::host::{Admitted, TeamTools, reply};
use crate::{
    mcp::definition::shown,
    plugins::hooks::{Hooks, Veto},
};

/// What a plugin is told of a result, in bytes.
const CONTENT: usize = 16 << 10;
/// What is told of a reason that a plugin gives, in characters.
const LONGEST_REASON: usize = 4_000;

/// What plugins are told of a call.
fn payload(
    caller: &Caller,
    turn: &TurnId,
    call: &CallId,
    tool: &str,
    args: &Value,
    label: Label,
) -> Value {
    let session = match &caller.lane.topic {
        Some(topic) => format!("{}/{topic}", caller.lane.team),
        None => caller.lane.team.to_string(),
    };
    json!({
        "team": caller.team.name,
        "session": session,
        "turn": turn,
        "call_id": call,
        "tool": tool,
        "args": args,
        "label": label,
    })
}

/// Who is told of a call once it has ended, and what is known of it already.
pub(super) struct ToTell {
    hooks: Hooks,
    tool: String,
    payload: Value,
}

impl TeamTools {
    /// Asks plugins whether a call may go on, then tries it if its tool wants that. One that does not fit its tool is
    /// refused without them.
    pub(super) async fn intercept(&self, call: &ToolCall, step: &BeforeCalls) -> Interception {
        let Ok(admitted) = self.admit(call, &step.caller) else { return Interception::Pass };
        let tool = &admitted.made.tool;
        let said = if self.hooks.guard(&admitted.made.key) {
            self.ask_hooks(call, &admitted, step).await
        } else {
            Interception::Pass
        };
        let args = match &said {
            Interception::Pass => &admitted.args,
            Interception::Rewrite(args) => args,
            Interception::Refuse(_) => return said,
        };
        if !tool.about().tried_first {
            return said;
        }
        match tool.examine(args, &step.caller, &self.team.grant).await {
            Ok(()) => said,
            Err(error) => Interception::Refuse(reply(Err(error), &self.team.grant)),
        }
    }

    async fn ask_hooks(
        &self,
        call: &ToolCall,
        admitted: &Admitted<'_>,
        step: &BeforeCalls,
    ) -> Interception {
        let caller = &step.caller;
        let (made, key) = (admitted.made, &admitted.made.key);
        // What plugins see holds references alone.
        let args = self.clean(call).unwrap_or_else(|| admitted.args.clone());
        let payload = payload(caller, &step.turn, &call.id, key, &args, step.label);
        let fits = |args: &Value| match made.tool.look(key, args, caller) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.message),
        };
        let said = self.hooks.before(key, call.id.as_str(), payload, &fits).await;
        match said {
            Veto::Pass(same) if same == args => Interception::Pass,
            // Its values are known by the call as the model wrote it.
            Veto::Pass(_) if self.redaction(call).is_some() => {
                self.refusal("a plugin may not change a call that brings a secret", None)
            }
            Veto::Pass(args) => Interception::Rewrite(args),
            Veto::Deny { plugin, reason } => {
                let reason = excerpt::line(&self.team.grant.scrub(&shown(&reason)), LONGEST_REASON);
                let words = format!("blocked by plugin {plugin}: {reason}");
                self.refusal(&words, Some(format!("plugin:{plugin}")))
            }
        }
    }

    /// Lets plugins reword what a person said, or what is about to be said to one. They see references alone.
    pub(super) fn reworded(
        &self,
        direction: Direction,
        text: String,
        caller: &Caller,
    ) -> Option<BoxFuture<'static, String>> {
        let event = match direction {
            Direction::Inbound => HookEvent::MessageInbound,
            Direction::Outbound => HookEvent::MessageOutbound,
        };
        if !self.hooks.reword(event) {
            return None;
        }
        let clean = self.team.grant.scrub(&text).into_owned();
        let sender = match direction {
            Direction::Inbound => json!(caller.cause),
            Direction::Outbound => Value::Null,
        };
        let payload = json!({
            "team": caller.team.name,
            "channel": caller.source.as_ref().map(|source| &source.channel),
            "sender": sender,
            "text": clean,
        });
        let hooks = self.hooks.clone();
        Some(Box::pin(async move {
            let reworded = hooks.reworded(event, payload).await;
            // What nobody changed stays as it was.
            if reworded == clean { text } else { reworded }
        }))
    }

    fn refusal(&self, words: &str, rule: Option<String>) -> Interception {
        let words = self.team.grant.scrub(words).into_owned();
        Interception::Refuse(ToolReply { rule, ..ToolReply::failed(ToolFault::Denied, words) })
    }

    /// Who is to be told of a call once it has ended.
    pub(super) fn to_tell(&self, call: &ToolCall, cx: &CallContext) -> Option<ToTell> {
        let key = &self.find(&call.name)?.key;
        if !self.hooks.listen(key) {
            return None;
        }
        let Args::Json(args) = &call.args else { return None };
        let payload = payload(&cx.caller, &cx.turn, &call.id, key, args, cx.label);
        Some(ToTell { hooks: self.hooks.clone(), tool: key.clone(), payload })
    }
}

impl ToTell {
    /// Tells how the call ended. Nobody waits for it.
    pub(super) fn tell(mut self, reply: &ToolReply, took: Duration) {
        let content = &reply.content[..reply.content.floor_char_boundary(CONTENT)];
        let told = &mut self.payload;
        told["ok"] = reply.fault.is_none().into();
        told["duration_ms"] = millis(took).into();
        told["content"] = content.into();
        if let Some(fault) = reply.fault {
            told["error"] = fault.as_str().into();
        }
        self.hooks.after(&self.tool, &self.payload);
    }
}
