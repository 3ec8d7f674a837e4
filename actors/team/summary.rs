//! Summaries: the model is asked for one on a task of its own, without tools, and nobody hears it.

use std::{sync::Arc, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::{
    task::JoinError,
    time::{Instant, error::Elapsed},
};

use super::{
    Spoke, Team,
    lanes::Call,
    turn::{Input, digest},
};
use crate::{
    engine::{Block, EngineEvent, EngineFailure, Message, Paid, StepReply, StepRequest},
    ids::{TopicId, TurnId},
};

/// A summary that is not there by then is done without.
const WITHIN: Duration = Duration::from_secs(120);

type Joined = Result<Result<Result<StepReply, EngineFailure>, Elapsed>, JoinError>;

impl Team {
    pub(super) fn summarise(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        request: String,
        ctx: &mut Context<Self>,
    ) {
        if !self.afford(topic, turn, ctx) {
            return;
        }
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.streaming.clear();
        running.heard = 0;
        running.last_sign = Instant::now();
        let request = StepRequest {
            team: self.name.clone(),
            turn: turn.clone(),
            step: running.turn.step(),
            system: Arc::new(digest::system()),
            tools: Arc::from([]),
            messages: Arc::new(vec![Message::User(request)]),
            cancel: running.cancel.child_token(),
        };
        let address = ctx.address();
        let spoke = (topic.clone(), turn.clone());
        let events = Arc::new(move |event| {
            // Only what it costs: its words are for the model alone.
            if matches!(event, EngineEvent::Spent(_)) {
                address.do_send(Spoke { topic: spoke.0.clone(), turn: spoke.1.clone(), event });
            }
        });
        // The turn is not to count as stalled meanwhile.
        let limit = WITHIN.min(running.brief.idle_timeout / 2);
        let engine = running.brief.engine.clone();
        let call =
            actix::spawn(
                async move { tokio::time::timeout(limit, engine.run(request, events)).await },
            );
        running.model = Some(Call::of(&call));
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(call.into_actor(self).map(move |joined, team, ctx| {
            team.summary_replied(&topic, &turn, joined, ctx);
        }));
    }

    fn summary_replied(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        joined: Joined,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.model = None;
        let reply = match joined {
            Ok(Ok(Ok(reply))) => Ok(reply),
            Ok(Ok(Err(failure))) => Err(failure.message),
            Ok(Err(elapsed)) => Err(elapsed.to_string()),
            Err(error) if error.is_cancelled() => return,
            Err(error) => Err(error.to_string()),
        };
        let input = match reply {
            Ok(reply) => {
                running.lost += reply.usage;
                let text = reply.blocks.iter().filter_map(|block| match block {
                    Block::Text { text } => Some(text.as_str()),
                    _ => None,
                });
                let text: Vec<&str> = text.collect();
                let text = text.join("\n");
                let paid = Paid { profile: reply.profile, model: reply.model, usage: reply.usage };
                let meter = &self.recipe.meter;
                meter.model_called(&self.name, &paid.profile, &paid.usage);
                Input::Summarised(Some(text), Some(paid))
            }
            Err(error) => {
                tracing::warn!(team = %self.name, %turn, error, "no summary could be had");
                Input::Summarised(None, None)
            }
        };
        self.pay(topic, turn);
        self.hear(topic, turn, input, ctx);
    }
}
