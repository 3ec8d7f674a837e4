//! Calls into foreign code: models and tools, each on a task of its own.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::{task::JoinError, time::Instant};
use tracing::Instrument;

use super::{Spoke, Team, holds, lanes::Call, turn::Input};
use crate::{
    engine::{Block, EngineFailure, StepReply, StepRequest},
    ids::{CallId, TopicId, TurnId},
    task::Code,
    tool::{Args, CallContext, ToolCall, ToolFault, ToolReply},
};

impl Team {
    pub(super) fn call_model(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        if !self.afford(topic, turn, ctx) {
            return;
        }
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.streaming.clear();
        running.heard = 0;
        running.last_sign = Instant::now();
        if !running.requested {
            running.requested = true;
            let overhead = now.since(running.charge.task.created_at);
            self.recipe.meter.turn_began(&self.name, overhead);
        }
        let request = StepRequest {
            team: self.name.clone(),
            turn: turn.clone(),
            step: running.turn.step(),
            system: running.brief.system.clone(),
            tools: running.brief.tools.specs(),
            messages: running.turn.messages(),
            cancel: running.cancel.child_token(),
        };
        let address = ctx.address();
        let spoke = (topic.clone(), turn.clone());
        let events = std::sync::Arc::new(move |event| {
            address.do_send(Spoke { topic: spoke.0.clone(), turn: spoke.1.clone(), event });
        });
        let engine = running.brief.engine.clone();
        let span = running.span();
        let call = async move { engine.run(request, events).await };
        let call = actix::spawn(call.instrument(span));
        running.model = Some(Call::of(&call));
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(call.into_actor(self).map(move |joined, team, ctx| {
            team.model_replied(&topic, &turn, joined, ctx);
        }));
    }

    fn model_replied(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        joined: Result<Result<StepReply, EngineFailure>, JoinError>,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.model = None;
        let said = !running.streaming.is_empty();
        if let Ok(Ok(reply)) = &joined {
            running.lost += reply.usage;
        }
        self.pay(topic, turn);
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        // The reply holds it; only a step that broke off has nothing else to show.
        running.streaming.clear();
        let input = match joined {
            Ok(Ok(mut reply)) => {
                let team = &self.name;
                self.recipe.meter.model_called(team, &reply.profile, &reply.usage);
                let checks = reply
                    .blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Call(call) => Some(running.check(call)),
                        _ => None,
                    })
                    .collect();
                for block in &mut reply.blocks {
                    if let Block::Call(call) = block
                        && let Some(args) = running.brief.tools.clean(call)
                    {
                        call.args = Args::Json(args);
                    }
                }
                Input::Replied(reply, checks)
            }
            Ok(Err(failure)) => Input::Failed { failure, said, now: self.recipe.clock.now() },
            Err(error) if error.is_cancelled() => return,
            Err(error) => {
                tracing::error!(team = %self.name, %turn, %error, "engine panicked");
                Input::Failed {
                    failure: EngineFailure::new(Code::Internal, "the engine failed unexpectedly"),
                    said,
                    now: self.recipe.clock.now(),
                }
            }
        };
        self.hear(topic, turn, input, ctx);
    }

    pub(super) fn call_tool(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        call: ToolCall,
        rerun: bool,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.last_sign = Instant::now();
        let approval = running.turn.approval_of(&call.id);
        let approval = approval.and_then(|id| running.approvals.get(id));
        if let Some(approval) = approval {
            // It may have waited for others of its step since the turn was taken up.
            let (desk, now) = (&self.recipe.desk, running.recheck(&call));
            if let Some(reply) = holds::mismatch(desk, approval, &call, &running.caller, now) {
                return self.tool_replied(topic, turn, call.id, reply, Instant::now(), ctx);
            }
        }
        let cx = CallContext {
            approved: approval.map(|approval| approval.secrets.clone()),
            approved_by: approval.and_then(|approval| approval.resolved_by.clone()),
            caller: running.caller.clone(),
            label: running.turn.label(),
            turn: turn.clone(),
            step: running.turn.step(),
            key: running.turn.idempotency_key(&call.id),
            rerun,
            cancel: running.cancel.child_token(),
        };
        let (id, name) = (call.id.clone(), call.name.clone());
        let tools = running.brief.tools.clone();
        let began = Instant::now();
        let span = running.span();
        let task = async move { tools.run(call, cx).await };
        let task = actix::spawn(task.instrument(span));
        running.tools.insert(id.clone(), Call::of(&task));
        self.tool_runs(topic, turn, &id, &name);
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(task.into_actor(self).map(move |joined, team, ctx| {
            let reply = team.tool_reply(&name, joined);
            team.tool_ended(&topic, &turn, &id, &name, reply.fault.is_some());
            team.tool_replied(&topic, &turn, id, reply, began, ctx);
        }));
    }

    fn tool_reply(&self, name: &str, joined: Result<ToolReply, JoinError>) -> ToolReply {
        let reply = joined.unwrap_or_else(|error| {
            if error.is_cancelled() {
                return ToolReply::failed(ToolFault::Cancelled, "cancelled");
            }
            tracing::error!(team = %self.name, tool = name, %error, "tool panicked");
            ToolReply::failed(ToolFault::ToolFailed, "the tool failed unexpectedly")
        });
        self.recipe.meter.tool_called(name, reply.fault.is_none());
        reply
    }

    fn tool_replied(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        id: CallId,
        reply: ToolReply,
        began: Instant,
        ctx: &mut Context<Self>,
    ) {
        let took = began.elapsed();
        if let Some(running) = self.lanes.running(topic, turn) {
            running.tools.remove(&id);
            for want in &mut running.wants {
                want.hear_late(&id, &reply, took);
            }
        }
        self.hear(topic, turn, Input::Called { id, reply, took }, ctx);
    }

    /// Drops the model request, tells the tools to stop, and aborts those that have not stopped by
    /// the end of the grace period.
    pub(super) fn stop_calls(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.stopping = true;
        running.cancel.cancel();
        if running.model.take().is_some() {
            self.cut_off(topic, turn);
            self.pay(topic, turn);
        }
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if running.tools.is_empty() {
            return;
        }
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.run_later(self.recipe.grace, move |team, ctx| {
            if let Some(running) = team.lanes.running(&topic, &turn) {
                running.tools.clear();
                team.perform(&topic, &turn, ctx);
            }
        });
    }
}
