//! Runs by hand: a team tries a trigger, an operator starts it.

use actix::{Handler, Message, ResponseFuture};
use tokio::sync::oneshot;

use super::{
    Refusal, Scheduler,
    body::{self, Quoted},
    config::Config,
    definition::OverlapPolicy,
    fire::{Answer, Pending},
    manage::Which,
    run::Cause,
};
use crate::{
    clock::Timestamp,
    ids::TaskId,
    queue::causes::Giver,
    task::{self, Label, Lineage, Source, Task},
    words,
};

/// Fires a trigger now, whatever its state. Answered when it is durable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<ByHand, Refusal>")]
pub struct Fire {
    /// Which one.
    pub which: Which,
    /// [`Cause::Test`] or [`Cause::Manual`].
    pub cause: Cause,
    /// The same key makes no second task.
    pub key: String,
    /// The most model calls.
    pub max_steps: Option<u32>,
    /// What to do if its last task is unfinished.
    pub overlap: Overlap,
    /// A message or a body as it would have come.
    pub sample: Option<String>,
    /// Who is behind it.
    pub principal: task::Cause,
    /// Where the work comes from.
    pub source: Option<Source>,
    /// The turn that wants it, if one does: the run is part of its work.
    pub turn: Option<ByTurn>,
}

/// A turn that fires a trigger.
#[derive(Clone, Debug)]
pub struct ByTurn {
    /// How far what it has read may be believed.
    pub label: Label,
    /// The lineage of a task that it makes.
    pub lineage: Lineage,
    /// When it must be done.
    pub deadline_at: Timestamp,
    /// For the count of what one cause leads to.
    pub giver: Giver,
}

impl ByTurn {
    /// A task becomes part of the turn's work.
    pub(super) fn takes(&self, task: &mut Task) {
        task.label = task.label.max(self.label);
        task.lineage = Some(self.lineage.clone());
        task.deadline_at = task.deadline_at.min(self.deadline_at);
    }
}

words! {
    /// What a run by hand does if the trigger's last task is unfinished.
    #[schemars(rename = "TriggerOverlap")]
    #[derive(Default)]
    pub enum Overlap {
        /// Says so and starts nothing.
        #[default]
        Confirm = "confirm",
        /// Starts behind it.
        Allow = "allow",
        /// Does not start.
        Skip = "skip",
        /// Stops it first.
        Replace = "replace",
    }
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum ByHand {
    /// It fired.
    Fired(Box<Answer>),
    /// Someone must decide what becomes of this task.
    NeedsConfirmation(TaskId),
}

impl Handler<Fire> for Scheduler {
    type Result = ResponseFuture<Result<ByHand, Refusal>>;

    fn handle(&mut self, message: Fire, ctx: &mut Self::Context) -> Self::Result {
        let id = match self.find(&message.which) {
            Ok(id) => id,
            Err(refusal) => return Box::pin(std::future::ready(Err(refusal))),
        };
        let Some(trigger) = self.triggers.get(&id) else {
            return Box::pin(std::future::ready(Err(Refusal::NotFound)));
        };
        if self.draining {
            return Box::pin(std::future::ready(Err(Refusal::Stopping)));
        }
        let unfinished = trigger.active_task_id.clone().filter(|task| self.runs.contains_key(task));
        let overlap = match (message.overlap, unfinished) {
            (Overlap::Confirm, Some(task)) => {
                return Box::pin(std::future::ready(Ok(ByHand::NeedsConfirmation(task))));
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
                let quoted = Quoted {
                    sender: "a test",
                    channel: channel.unwrap_or("none"),
                    content: sample,
                    captures: &[],
                };
                body::with_message(order, &quoted)
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
        let (tell, told) = oneshot::channel();
        self.with_findings(
            &id,
            move |scheduler, id, found, ctx| {
                let fired = scheduler.fire(id, pending, found, ctx);
                let _gone = tell.send(fired);
            },
            ctx,
        );
        Box::pin(async move {
            let fired = told.await.map_err(|_| Refusal::Stopping)?;
            let answer = fired.await.map_err(|_| Refusal::Stopping)?;
            answer.map(|answer| ByHand::Fired(Box::new(answer)))
        })
    }
}
