//! Calls from outside: what a webhook needs to know, and the firing it leads to.

use actix::{Handler, Message, MessageResult, ResponseFuture};
use tokio::sync::oneshot;

use super::{
    Refusal, Scheduler, body,
    config::{Config, Webhook},
    fire::{Answer, Pending},
    premises::Findings,
    run::Cause,
};
use crate::{
    excerpt::{self, Unit},
    ids::{TeamKey, TeamName, TriggerId},
    task::Label,
};

/// What the prompt shows of a body.
const SHOWN: usize = 64 * 1024;

/// Finds a webhook that is on.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Option<Hook>")]
pub struct FindHook {
    /// Its team.
    pub team: TeamName,
    /// Its name.
    pub name: String,
}

/// A webhook that is on.
#[derive(Clone, Debug, PartialEq)]
pub struct Hook {
    /// The trigger.
    pub id: TriggerId,
    /// Its team.
    pub team: TeamKey,
    /// What callers have to do.
    pub webhook: Webhook,
}

/// A call that has proved where it comes from. Answered when it is durable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Answer, Refusal>")]
pub struct Call {
    /// The trigger.
    pub trigger: TriggerId,
    /// What tells this delivery from others.
    pub key: String,
    /// Header fields that the team is shown.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub payload: String,
    /// The body does not concern the trigger, and why.
    pub filtered: Option<String>,
}

impl Handler<FindHook> for Scheduler {
    type Result = MessageResult<FindHook>;

    fn handle(&mut self, FindHook { team, name }: FindHook, _: &mut Self::Context) -> Self::Result {
        let hook = self.triggers.values().find_map(|trigger| {
            let Config::Webhook(webhook) = &trigger.definition.config else {
                return None;
            };
            let is_it = trigger.team.name == team
                && trigger.definition.name == name
                && trigger.is_active()
                && self.to.ports.roster.standing(&trigger.team) != super::firing::Standing::Gone;
            is_it.then(|| Hook {
                id: trigger.id.clone(),
                team: trigger.team.clone(),
                webhook: webhook.clone(),
            })
        });
        MessageResult(hook)
    }
}

impl Handler<Call> for Scheduler {
    type Result = ResponseFuture<Result<Answer, Refusal>>;

    fn handle(&mut self, call: Call, ctx: &mut Self::Context) -> Self::Result {
        let Some(trigger) = self.triggers.get(&call.trigger) else {
            return Box::pin(std::future::ready(Err(Refusal::NotFound)));
        };
        if self.draining {
            return Box::pin(std::future::ready(Err(Refusal::Stopping)));
        }
        // The run keeps all of it.
        let (shown, missing) = call.payload.split_at(call.payload.floor_char_boundary(SHOWN));
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
        let id = call.trigger;
        let (tell, told) = oneshot::channel();
        let act = move |scheduler: &mut Self, found: &Findings, ctx: &mut Self::Context| {
            let fired = scheduler.fire(&id, pending, found, ctx);
            let _gone = tell.send(fired);
        };
        match call.filtered {
            Some(reason) => {
                let found = Findings { nothing_to_do: Some(reason), ..Findings::default() };
                act(self, &found, ctx);
            }
            None => {
                let id = trigger.id.clone();
                self.with_findings(&id, |scheduler, _, found, ctx| act(scheduler, found, ctx), ctx);
            }
        }
        Box::pin(async move {
            let fired = told.await.map_err(|_| Refusal::Stopping)?;
            fired.await.map_err(|_| Refusal::Stopping)?
        })
    }
}
