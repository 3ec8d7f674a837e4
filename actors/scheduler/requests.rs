//! Requests to fire: by hand, by a call from outside, by a message that was heard.

use actix::{AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use futures_util::future::join_all;

use super::{
    Refusal, Scheduler, body,
    firing::{Answer, ByTurn, Findings, Pending},
    index::Heard,
    run::Cause,
    trigger::{Trigger, Which, config::Config, definition::OverlapPolicy},
};
use crate::{
    excerpt::{self, Unit},
    ids::{TaskId, TriggerId},
    queue::{ordered_writes::WriteInOrder, submit::Overlap},
    store::records::Writes,
    task::{self, Label, Source},
};

/// What the prompt shows of a body.
const MAX_BODY_SHOWN: usize = 64 * 1024;

/// Fires a trigger now, whatever its state. Answered when it is durable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<ByHand, Refusal>")]
pub struct Fire {
    pub which: Which,
    /// [`Cause::Test`] or [`Cause::Manual`].
    pub cause: Cause,
    /// The same key makes no second task.
    pub key: String,
    pub max_steps: Option<u32>,
    /// What to do if its last task is unfinished.
    pub overlap: Overlap,
    /// A message or a body as it would have come.
    pub sample: Option<String>,
    pub principal: task::cause::Cause,
    pub source: Option<Source>,
    /// The turn that wants it, if one does: the run is part of its work.
    pub turn: Option<ByTurn>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum ByHand {
    Fired(Box<Answer>),
    /// Someone must decide what becomes of this task.
    NeedsConfirmation(TaskId),
}

/// A call that has proved where it comes from. Answered when it is durable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Answer, Refusal>")]
pub struct Call {
    pub trigger: TriggerId,
    /// What tells this delivery from others.
    pub key: String,
    /// Header fields that the team is shown.
    pub headers: Vec<(String, String)>,
    pub payload: String,
    /// The body does not concern the trigger, and why.
    pub filtered: Option<String>,
}

impl Scheduler {
    fn fireable(&self, which: &Which) -> Result<&Trigger, Refusal> {
        let trigger = self.find(which)?;
        if self.draining { Err(Refusal::Stopping) } else { Ok(trigger) }
    }

    /// Fires what a message concerns, and strikes it off once all of that is durable. One that was
    /// `left` by a former process may have been served in part.
    pub(super) fn hear(&mut self, heard: Heard, left: bool, ctx: &mut Context<Self>) {
        let mut waiting = Vec::new();
        for (id, captures) in self.message_triggers.listen(&heard) {
            let Some(trigger) = self.triggers.get(&id) else { continue };
            let key = heard.name();
            if left && self.known.contains_key(&(id.clone(), key.clone())) {
                continue;
            }
            let cause = match trigger.definition.config {
                Config::Keyword(_) => Cause::Keyword,
                _ => Cause::Message,
            };
            let Heard { sender, channel, content, .. } = &heard;
            let order = body::order(trigger);
            let order = body::with_message(order, sender, channel.as_str(), content, &captures);
            let pending = Pending {
                key,
                label: heard.label,
                source: Some(Source {
                    topic: heard.topic.clone(),
                    ..Source::channel(channel.clone())
                }),
                remember: true,
                ..Pending::timed(cause, heard.at, order)
            };
            waiting.push(self.fire_when_looked(&id, pending, ctx));
        }
        let queue = self.to.queue.clone();
        let strike_off = async move {
            // What was refused has its row too. Only what nobody could say anything about comes again.
            let is_dealt_with = |fired: &Result<Answer, Refusal>| *fired != Err(Refusal::Stopping);
            if join_all(waiting).await.iter().all(is_dealt_with) {
                queue.do_send(WriteInOrder {
                    writes: Writes::new().delete::<Heard>(&heard.name()),
                    stored: None,
                });
            }
        };
        ctx.spawn(strike_off.into_actor(self));
    }
}

impl Handler<Fire> for Scheduler {
    type Result = ResponseFuture<Result<ByHand, Refusal>>;

    fn handle(&mut self, message: Fire, ctx: &mut Self::Context) -> Self::Result {
        let answer = |answer| Box::pin(std::future::ready(answer));
        let trigger = match self.fireable(&message.which) {
            Ok(trigger) => trigger,
            Err(refusal) => return answer(Err(refusal)),
        };
        let overlap = match (message.overlap, self.unfinished(trigger)) {
            (Overlap::Confirm, Some(task)) => {
                return answer(Ok(ByHand::NeedsConfirmation(task.clone())));
            }
            (Overlap::Confirm | Overlap::Allow, _) => OverlapPolicy::Allow,
            (Overlap::Skip, _) => OverlapPolicy::AlwaysSkip,
            (Overlap::Replace, _) => OverlapPolicy::AlwaysReplace,
        };
        let order = body::order(trigger);
        let order = match (&trigger.definition.config, &message.sample) {
            (Config::Window(_), _) | (_, None) => order,
            (Config::Webhook(_), Some(sample)) => body::with_payload(order, &[], sample),
            (_, Some(sample)) => {
                let channel = message.source.as_ref().map(|source| source.channel.as_str());
                body::with_message(order, "a test", channel.unwrap_or("none"), sample, &[])
            }
        };
        let pending = Pending {
            key: format!("{}:{}", message.cause.as_str(), message.key),
            source: message.source.map(|source| Source { message: None, ..source }),
            principal: message.principal,
            overlap: Some(overlap),
            max_steps: message.max_steps,
            remember: true,
            turn: message.turn,
            ..Pending::timed(message.cause, self.now(), order)
        };
        let id = trigger.id.clone();
        let fired = self.fire_when_looked(&id, pending, ctx);
        Box::pin(async move { fired.await.map(|answer| ByHand::Fired(Box::new(answer))) })
    }
}

impl Handler<Call> for Scheduler {
    type Result = ResponseFuture<Result<Answer, Refusal>>;

    fn handle(&mut self, call: Call, ctx: &mut Self::Context) -> Self::Result {
        let trigger = match self.fireable(&Which::Id(call.trigger.clone())) {
            Ok(trigger) => trigger,
            Err(refusal) => return Box::pin(std::future::ready(Err(refusal))),
        };
        // The run keeps all of it.
        let (shown, missing) =
            call.payload.split_at(call.payload.floor_char_boundary(MAX_BODY_SHOWN));
        let rest = format!("an operator finds them in the run of trigger {}", trigger.id);
        let shown = excerpt::marked(shown, missing.len(), Unit::Byte, &rest);
        let order = body::with_payload(body::order(trigger), &call.headers, &shown);
        let pending = Pending {
            key: call.key,
            label: Label::Untrusted,
            remember: true,
            payload: Some(call.payload),
            ..Pending::timed(Cause::Webhook, self.now(), order)
        };
        match call.filtered {
            Some(reason) => {
                let fired = self.fire(&call.trigger, pending, &Findings::nothing(reason), ctx);
                Box::pin(async move { fired.await.map_err(|_| Refusal::Stopping)? })
            }
            None => Box::pin(self.fire_when_looked(&call.trigger, pending, ctx)),
        }
    }
}

impl Handler<Heard> for Scheduler {
    type Result = ();

    fn handle(&mut self, heard: Heard, ctx: &mut Self::Context) {
        self.hear(heard, false, ctx);
    }
}
