//! Calls into foreign code: models and tools, each on a task of its own.

use std::{sync::Arc, time::Duration};

use actix::AsyncContext;
use futures_util::future::BoxFuture;
use tokio::{
    task::{JoinError, JoinHandle},
    time::Instant,
};
use tracing::Instrument;

use super::{
    SessionContext,
    held_calls::{self, ApprovalRequests},
    session::{RunningCall, Session},
    speech::Speech,
    turn::{Input, digest, slot::Held, telling::text_of},
};
use crate::{
    approvals::{record::Resolution, requests::CallRequest},
    engine::{
        Block, EngineEvent, EngineFailure, EngineReply, EventSink, Message, Paid, StepReply,
        StepRequest, SystemPrompt,
    },
    ids::CallId,
    live::event::Stream,
    shared_list::SharedList,
    task::outcome::Code,
    tool::{
        Args, BeforeCalls, CallContext, Direction, Interception, ToolCall, ToolFault, ToolReply,
        specs::ToolSpecs,
    },
};

/// A summary that is not there by then is done without.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(120);

impl Session {
    pub(super) fn call_model(&mut self, ctx: &mut SessionContext<'_>) {
        if !self.afford(ctx) {
            return;
        }
        if !self.requested {
            self.requested = true;
            let overhead = self.cx.now().since(self.leased.task.created_at);
            self.cx.recipe.meter.turn_began(&self.cx.name, overhead);
        }
        let (system, tools) = (self.brief.system.clone(), self.brief.tools.specs());
        let mut request = self.request(system, tools, self.turn.messages());
        request.earlier = self.turn.earlier();
        let engine = self.brief.engine.clone();
        let call = self.call_engine(|events| engine.run(request, events), |_| true, ctx);
        self.after(call, ctx, Self::model_replied);
    }

    /// Asks the model for a summary: without tools, and nobody hears it.
    pub(super) fn summarise(&mut self, request: String, ctx: &mut SessionContext<'_>) {
        if !self.afford(ctx) {
            return;
        }
        let messages = Arc::new(vec![Message::User(request)]);
        let request = self.request(Arc::new(digest::system()), Arc::default(), messages);
        // Only what it costs: its words are for the model alone.
        let is_heard: fn(&EngineEvent) -> bool = |event| matches!(event, EngineEvent::Spent(_));
        let engine = self.brief.engine.clone();
        let call = self.call_engine(|events| engine.ask(request, events), is_heard, ctx);
        // The turn is not to count as stalled meanwhile.
        let limit = SUMMARY_TIMEOUT.min(self.brief.idle_timeout / 2);
        let timed = async move {
            let timed_out = |_| Ok(Err(EngineFailure::new(Code::Stalled, "it took too long")));
            tokio::time::timeout(limit, call).await.unwrap_or_else(timed_out)
        };
        self.after(timed, ctx, Self::summary_replied);
    }

    fn request(
        &self,
        system: Arc<SystemPrompt>,
        tools: Arc<ToolSpecs>,
        messages: Arc<Vec<Message>>,
    ) -> StepRequest {
        StepRequest {
            team: self.cx.name.clone(),
            turn: self.leased.turn.clone(),
            step: self.turn.step,
            task: Some((&self.leased.task).into()),
            system,
            tools,
            earlier: SharedList::default(),
            messages,
            thinking: self.brief.thinking,
            unbooked: self.spending.unbooked.within(self.spending_limit()),
            cancel: self.cancel_token.child_token(),
        }
    }

    /// Starts the engine; events that pass the filter reach the session.
    fn call_engine(
        &mut self,
        call: impl FnOnce(EventSink) -> BoxFuture<'static, EngineReply>,
        is_heard: fn(&EngineEvent) -> bool,
        ctx: &mut SessionContext<'_>,
    ) -> JoinHandle<EngineReply> {
        self.text.said.clear();
        self.spending.heard = 0;
        self.watchdog.sign();
        let events = Speech::sink(ctx.actor.address().recipient(), self.leased.key(), is_heard);
        let call = crate::spawn::local(call(events).instrument(self.span()));
        self.model = Some(RunningCall::of(&call));
        call
    }

    /// The model call is over, and paid for. None if it was cancelled.
    fn engine_replied(&mut self, joined: Result<EngineReply, JoinError>) -> Option<EngineReply> {
        self.model = None;
        if let Ok(Ok(reply)) = &joined {
            self.cx.recipe.meter.model_called(&self.cx.name, &reply.profile, &reply.usage);
            self.spending.tries += reply.usage;
        }
        self.pay();
        match joined {
            Ok(replied) => Some(replied),
            Err(error) if error.is_cancelled() => None,
            Err(error) => {
                let task = &self.leased.task.id;
                tracing::error!(team = %self.cx.name, %task, %error, "engine panicked; the step fails");
                let message = "the engine failed unexpectedly";
                Some(Err(EngineFailure::new(Code::Internal, message)))
            }
        }
    }

    fn model_replied(
        &mut self,
        joined: Result<EngineReply, JoinError>,
        ctx: &mut SessionContext<'_>,
    ) {
        let Some(replied) = self.engine_replied(joined) else { return };
        // The reply holds it; only a step that broke off has nothing else to show.
        let said = !std::mem::take(&mut self.text.said).is_empty();
        let input = match replied {
            Ok(mut reply) => {
                // It is paid for: whatever stops the turn from here on cuts nothing off.
                self.spending.heard = 0;
                for block in &mut reply.blocks {
                    if let Block::Call(call) = block {
                        call.bound_id();
                    }
                }
                return self.reword(reply, ctx);
            }
            Err(failure) => Input::Failed { failure, said, now: self.cx.now() },
        };
        self.hear(input, ctx);
    }

    /// Lets plugins reword what a step says to a person.
    fn reword(&mut self, mut reply: StepReply, ctx: &mut SessionContext<'_>) {
        let is_text = |block: &&Block| matches!(block, Block::Text { .. });
        let said = text_of(&reply.blocks);
        let rewording = match said.trim() {
            "" => None,
            _ => self.brief.tools.reword(Direction::Outbound, said, &self.caller),
        };
        let Some(rewording) = rewording else { return self.intercept(reply, ctx) };
        self.watchdog.sign();
        let task = crate::spawn::local(rewording.instrument(self.span()));
        self.model = Some(RunningCall::of(&task));
        self.after(task, ctx, move |session, joined, ctx| {
            session.model = None;
            match joined {
                Ok(words) => {
                    let first = reply.blocks.iter().position(|block| is_text(&block));
                    reply.blocks.retain(|block| !is_text(&block));
                    reply.blocks.insert(first.unwrap_or_default(), Block::Text { text: words });
                }
                Err(error) if error.is_cancelled() => return,
                // What cannot be reworded is said as it is.
                Err(error) => {
                    let task = &session.leased.task.id;
                    tracing::error!(team = %session.cx.name, %task, %error, "a hook panicked; the words go out as they are");
                }
            }
            session.intercept(reply, ctx);
        });
    }

    /// Lets plugins look at the calls of a step. It counts as part of the step: what stops the turn stops them.
    fn intercept(&mut self, reply: StepReply, ctx: &mut SessionContext<'_>) {
        let calls: Vec<_> = calls_of(&reply).cloned().collect();
        let step = BeforeCalls {
            caller: self.caller.clone(),
            label: self.turn.label,
            turn: self.leased.turn.clone(),
        };
        let looking = if calls.is_empty() { None } else { self.brief.tools.before(&calls, &step) };
        let Some(looking) = looking else { return self.step_replied(reply, Vec::new(), ctx) };
        self.watchdog.sign();
        let task = crate::spawn::local(looking.instrument(self.span()));
        self.model = Some(RunningCall::of(&task));
        self.after(task, ctx, |session, joined, ctx| {
            session.model = None;
            match joined {
                Ok(said) => session.step_replied(reply, said, ctx),
                Err(error) if error.is_cancelled() => {}
                Err(error) => {
                    // Nobody knows what they would have said: nothing passes.
                    let task = &session.leased.task.id;
                    tracing::error!(team = %session.cx.name, %task, %error, "a hook panicked; the calls of the step are refused");
                    let refusal = ToolReply::failed(ToolFault::Denied, "plugin unavailable");
                    let said = vec![Interception::Refuse(refusal); calls_of(&reply).count()];
                    session.step_replied(reply, said, ctx);
                }
            }
        });
    }

    /// The step is there, and what plugins said to its calls.
    fn step_replied(
        &mut self,
        mut reply: StepReply,
        said: Vec<Interception>,
        ctx: &mut SessionContext<'_>,
    ) {
        let (tools, label) = (&self.brief.tools, self.turn.label);
        let mut said = said.into_iter();
        let mut checks = Vec::new();
        for block in &mut reply.blocks {
            let Block::Call(call) = block else { continue };
            let refused = match said.next().unwrap_or(Interception::Pass) {
                Interception::Pass => None,
                Interception::Rewrite(args) => {
                    call.args = Args::Json(args);
                    None
                }
                Interception::Refuse(reply) => Some(reply),
            };
            checks.push(match refused {
                Some(reply) => Err(reply),
                None => tools.check(call, &self.caller, label),
            });
            if let Some(args) = tools.clean(call) {
                call.args = Args::Json(args);
            }
        }
        self.hear(Input::Replied(reply, checks), ctx);
    }

    fn summary_replied(
        &mut self,
        joined: Result<EngineReply, JoinError>,
        ctx: &mut SessionContext<'_>,
    ) {
        let input = match self.engine_replied(joined) {
            None => return,
            Some(Ok(StepReply { blocks, profile, model, usage, .. })) => {
                let paid = Paid { profile, model, usage };
                Input::Summarised(Some(text_of(&blocks)), Some(paid))
            }
            Some(Err(error)) => {
                let task = &self.leased.task.id;
                tracing::warn!(team = %self.cx.name, %task, %error, "no summary could be had; the conversation is cut short instead");
                Input::Summarised(None, None)
            }
        };
        self.hear(input, ctx);
    }

    pub(super) fn call_tool(&mut self, call: ToolCall, rerun: bool, ctx: &mut SessionContext<'_>) {
        self.watchdog.sign();
        let began = Instant::now();
        let approval = self.turn.approval_of(&call.id).and_then(|id| self.approvals.get(id));
        if let Some(approval) = approval {
            // It may have waited for others of its step since the turn was taken up.
            let requests = &self.cx.recipe.requests;
            let now = self.brief.tools.recheck(&call, &self.caller, self.turn.label);
            if let Some(reply) = held_calls::mismatch(requests, approval, &call, &self.caller, now)
            {
                return self.tool_replied(call.id, reply, began, ctx);
            }
        }
        let context = CallContext {
            approved: approval.map(|approval| approval.secrets.clone()),
            approved_by: approval.and_then(|approval| approval.resolved_by.clone()),
            approved_always: approval
                .is_some_and(|approval| approval.resolution == Some(Resolution::Always)),
            caller: self.caller.clone(),
            label: self.turn.label,
            turn: self.leased.turn.clone(),
            step: self.turn.step,
            key: self.turn.idempotency_key(&call.id),
            rerun,
            cancel: self.cancel_token.child_token(),
        };
        let (id, tool_name) = (call.id.clone(), call.name.clone());
        let tools = self.brief.tools.clone();
        let task = async move { tools.run(call, context).await };
        let task = crate::spawn::local(task.instrument(self.span()));
        self.tools.insert(id.clone(), RunningCall::of(&task));
        self.publish(Stream::ToolStart { id: id.clone(), tool_name: tool_name.clone() });
        let cx = self.cx.clone();
        let replied = async move {
            let reply = task.await.unwrap_or_else(|error| {
                if error.is_cancelled() {
                    return ToolReply::failed(ToolFault::Cancelled, "cancelled");
                }
                tracing::error!(team = %cx.name, tool = tool_name, %error, "tool panicked; the call fails");
                ToolReply::failed(ToolFault::ToolFailed, "the tool failed unexpectedly")
            });
            cx.recipe.meter.tool_called(&tool_name, reply.fault.is_none());
            (tool_name, reply)
        };
        self.after(replied, ctx, move |session, (tool_name, reply), ctx| {
            let is_error = reply.fault.is_some();
            session.publish(Stream::ToolEnd { id: id.clone(), tool_name, is_error });
            session.tool_replied(id, reply, began, ctx);
        });
    }

    fn tool_replied(
        &mut self,
        id: CallId,
        reply: ToolReply,
        began: Instant,
        ctx: &mut SessionContext<'_>,
    ) {
        let took = began.elapsed();
        self.tools.remove(&id);
        for want in &mut self.wants {
            want.hear_late(&id, &reply, took);
        }
        self.hear(Input::Called { id, reply, took }, ctx);
    }

    /// Drops the model request, tells the tools to stop, and aborts those that have not stopped by
    /// the end of the grace period.
    pub(super) fn stop_calls(&mut self, ctx: &mut SessionContext<'_>) {
        self.stopping = true;
        self.cancel_token.cancel();
        let booked = self.book_completed();
        if self.model.take().is_some() {
            self.cut_off(booked);
            self.pay();
        }
        if !self.tools.is_empty() {
            self.later(self.cx.recipe.grace, ctx, |session, ctx| {
                session.tools.clear();
                session.perform(ctx);
            });
        }
    }

    pub(super) fn ask_for_approval(&self, held: Vec<Held>) -> ApprovalRequests {
        let mut requests = ApprovalRequests::default();
        for held in held {
            let Args::Json(arguments) = &held.call.args else { continue };
            let request = CallRequest {
                caller: &self.caller,
                turn: &self.leased.turn,
                label: self.turn.label,
                call: &held.key,
                tool: &held.call.name,
                arguments,
                asking: &held.asking,
            };
            let approval = self.cx.recipe.requests.request(request, self.cx.now());
            requests.add(&self.cx.recipe.requests, held.call.id, approval);
        }
        requests
    }

    /// Whose work it is, for the log of what runs elsewhere: a panic there has nothing else to go by.
    fn span(&self) -> tracing::Span {
        let task = &self.leased.task;
        tracing::error_span!("turn", team = %task.lane.team, task = %task.id)
    }
}

fn calls_of(reply: &StepReply) -> impl Iterator<Item = &ToolCall> {
    reply.blocks.iter().filter_map(|block| match block {
        Block::Call(call) => Some(call),
        _ => None,
    })
}
