//! What a turn makes durable: its journal, the frames that tell of it, its end.

use std::{borrow::Cow, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Team,
    ack::Words,
    lanes::{Charge, Running},
    prepare,
    turn::End,
};
use crate::{
    approvals::record::Approval,
    audit::{Audit, CallAudit, Decision, TOOL_CALL, beginning},
    briefing::{Hindrance, Line, Speaker},
    budget::{
        Caller, Tally,
        records::{self as spending, DayKey, TaskCalls},
    },
    channel::{Deliver, records::OutboxWrites},
    clock::{Timestamp, millis},
    closing,
    engine::Paid,
    event::{Body, Frame, Progress},
    history::{Fact, HistoryEvent, Meta, Trigger},
    ids::{CallId, MessageId, TaskId, TeamName, TopicId, TurnId},
    inbox::{InboxEvent, PartlyShown, ShownKey},
    interactions::Said,
    journal::records::{JournalWrites, Summarised},
    queue::{ACK_AFTER, Finished, Return, parking::Park},
    store::{Numbered, StoreError, records::Writes},
    task::{Code, Ending, Kind, Lane, Outcome, Source, Task, Wait, WaitReason, records::LaneKey},
    tool::ToolFault,
    usage::Usage,
};

/// What follows a commit.
pub(super) enum After {
    GoOn,
    /// Requests for approval were stored.
    Opened(Vec<Approval>),
    Parked(Wait, Vec<Approval>),
    Ended(Box<Ended>),
    Returned(Duration),
}

/// What became of the tasks of a turn.
pub(super) struct Ended {
    ending: Ending,
    /// They have their outcome, each with the work that was stored with it.
    tasks: Vec<(Task, Option<Box<Task>>)>,
    /// They joined and wait for a turn of their own, first come first.
    returned: Vec<Task>,
    /// What was said in the turn, for the next one.
    lines: Vec<Line>,
    /// Lanes that find something in their inbox.
    told: Vec<(Lane, u32)>,
}

impl Team {
    /// Makes facts durable, with the frames that tell of them.
    pub(super) fn record(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        facts: Vec<Fact>,
        frames: Vec<Progress>,
        ctx: &mut Context<Self>,
    ) {
        let writes = self.journal(topic, turn, facts);
        let writes = self.tell(topic, turn, frames, writes);
        self.commit(topic, turn, writes, After::GoOn, ctx);
    }

    /// Ends a turn: its last facts, the outcome of its task and of those that joined it, frames and
    /// conversation, in one commit.
    pub(super) fn end(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        mut facts: Vec<Fact>,
        end: End,
        ctx: &mut Context<Self>,
    ) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let (usage, steps) = (running.turn.usage(), running.turn.step());
        let charge = &running.charge;
        facts.push(turn_end(&end, steps, usage, charge.began.elapsed()));
        let mut outcome = outcome(&end, usage, now);
        outcome.report = running.turn.report().cloned();
        if end.ending == Ending::Cancelled {
            outcome.message = running.stop_reason.clone().or(outcome.message);
        }
        let label = running.turn.label();
        let first_words = match running.turn.first_words() {
            "" => end.text.clone(),
            words => words.to_owned(),
        };
        // The turn keeps its tasks as they are until the commit is made: it may be refused.
        let mut leader = charge.task.clone();
        let mut lines = vec![question_line(&leader)];
        let (ids, view) = (&self.recipe.ids, &self.recipe.view);
        let words = first_words.as_str();
        let closed =
            closing::close_turn(&mut leader, label, outcome.clone(), words, None, ids, view);
        let mut closing = closed.writes;
        let mut told: Vec<_> = closed.told.into_iter().collect();
        if running.unseen {
            told.push((leader.lane.clone(), leader.generation));
        }
        let (mut tasks, mut returned) = (Vec::new(), Vec::new());
        for (task, _) in &running.joined {
            let mut task = task.clone();
            if end.ending == Ending::Done {
                lines.push(question_line(&task));
                let (outcome, leader) = (outcome.clone(), Some(&leader.id));
                let same = closing::close_turn(&mut task, label, outcome, words, leader, ids, view);
                closing = closing.and(same.writes);
                told.extend(same.told);
                tasks.push((task, same.follow_up.map(Box::new)));
            } else {
                returned.push(task);
            }
        }
        lines.extend(reply_line(&leader, &end.text, now));
        if steps > 0 {
            closing = closing.and(spending::ended_calls(&leader, &Tally::of(&usage, steps.into())));
        }
        tasks.insert(0, (leader, closed.follow_up.map(Box::new)));
        let ended = Ended { ending: end.ending, tasks, returned, lines, told };
        let writes = self.journal(topic, turn, facts).and(closing);
        self.commit(topic, turn, writes, After::Ended(Box::new(ended)), ctx);
    }

    /// Sets a turn aside: its task is tried again after a pause.
    pub(super) fn suspend(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        facts: Vec<Fact>,
        frames: Vec<Progress>,
        pause: Duration,
        ctx: &mut Context<Self>,
    ) {
        let writes = self.journal(topic, turn, facts);
        let writes = self.tell(topic, turn, frames, writes);
        self.commit(topic, turn, writes, After::Returned(pause), ctx);
    }

    /// The process is stopping: the task goes back as it is, and the attempt does not count.
    pub(super) fn give_back_unfinished(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        if let Some(running) = self.lanes.running(topic, turn) {
            let leader = running.charge.task.clone();
            let joined = running.joined.drain(..).map(|(task, _)| task).collect();
            self.return_joined(joined);
            self.queue.do_send(Return { task: leader, after: None, uncounted: true });
            self.rest(topic, ctx);
        }
    }

    /// Tasks that joined a turn wait again. Each goes to the front of its lane: the first last.
    fn return_joined(&self, joined: Vec<Task>) {
        for task in joined.into_iter().rev() {
            self.queue.do_send(Return { task, after: None, uncounted: true });
        }
    }

    /// Ends a task whose turn could not begin.
    pub(super) fn end_unprepared(
        &mut self,
        topic: &Option<TopicId>,
        mut charge: Charge,
        end: End,
        ctx: &mut Context<Self>,
    ) {
        let outcome = outcome(&end, Usage::default(), self.recipe.clock.now());
        tracing::warn!(team = %self.name, task = %charge.task.id, code = end.code.map(Code::as_str), message = end.message, "turn could not begin");
        let (ids, view) = (&self.recipe.ids, &self.recipe.view);
        let closed = closing::close(&mut charge.task, outcome, "", None, ids, view);
        let writes = Writes::new().under_lease(&charge.task.id, &charge.lease).and(closed.writes);
        let ended = Ended {
            ending: end.ending,
            tasks: vec![(charge.task.clone(), closed.follow_up.map(Box::new))],
            returned: Vec::new(),
            lines: Vec::new(),
            // What was in its own inbox was not shown.
            told: closed
                .told
                .into_iter()
                .chain([(charge.task.lane.clone(), charge.task.generation)])
                .collect(),
        };
        let committed = self.recipe.store.commit(writes);
        let topic = topic.clone();
        ctx.spawn(committed.into_actor(self).map(move |result, team, ctx| {
            if let Ok(frames) = result {
                team.report(&charge, ended);
                team.recipe.channel.do_send(Deliver { frames });
            }
            team.rest(&topic, ctx);
        }));
    }

    /// Acknowledges the message of a turn.
    pub(super) fn acknowledge(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        words: Words,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        // A turn that has decided its end sends its ack with it.
        if running.gate.is_open()
            || running.acking
            || running.turn.has_ended()
            || (words != Words::OrNone && running.gate.words(words).is_empty())
        {
            return;
        }
        let writes = running.lease_guard();
        let writes = self.add_ack(topic, turn, words, writes);
        let committed = self.recipe.store.commit(writes);
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(committed.into_actor(self).map(move |result, team, ctx| {
            if let Ok(frames) = result {
                team.recipe.channel.do_send(Deliver { frames });
                team.open_gate(&topic, &turn, ctx);
            }
        }));
    }

    /// A message that joined a turn is acknowledged as soon as any other would be.
    pub(super) fn expect_ack_of(
        &mut self,
        task: &Task,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) {
        let pause = (task.created_at + ACK_AFTER).since(self.recipe.clock.now());
        let (topic, turn, id) = (topic.clone(), turn.clone(), task.id.clone());
        ctx.run_later(pause, move |team, ctx| {
            team.acknowledge_joined(&topic, &turn, &id, ctx);
        });
    }

    fn acknowledge_joined(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        id: &TaskId,
        ctx: &mut Context<Self>,
    ) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        if running.turn.has_ended() {
            return;
        }
        let Some((task, lease)) = running.joined.iter_mut().find(|(task, _)| task.id == *id) else {
            return;
        };
        let (Some((source, message)), false) = (awaited(task), task.acked) else {
            return;
        };
        let frame = Frame {
            topic: source.topic.clone(),
            ts: now,
            body: Body::Ack(closing::ack(task, message, "", 0)),
        };
        let channel = source.channel.clone();
        task.acked = true;
        let writes = Writes::new().under_lease(&task.id, lease).put(task).frame(&channel, frame);
        let committed = self.recipe.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(|result, team, _| {
            if let Ok(frames) = result {
                team.recipe.channel.do_send(Deliver { frames });
            }
        }));
    }

    /// Adds the ack to a commit, if it has not been made yet.
    fn add_ack(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        words: Words,
        writes: Writes,
    ) -> Writes {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return writes;
        };
        let task = &mut running.charge.task;
        let Some(source) = task.source.clone() else {
            return writes;
        };
        let (Some(message), false) = (&source.message, task.acked) else {
            return writes;
        };
        let ack = closing::ack(task, message, running.gate.words(words), 0);
        task.acked = true;
        running.acking = true;
        let frame = Frame { topic: source.topic.clone(), ts: now, body: Body::Ack(ack) };
        writes.put(task).frame(&source.channel, frame)
    }

    /// Adds frames to a commit, behind the ack of their message.
    pub(super) fn tell(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        frames: Vec<Progress>,
        mut writes: Writes,
    ) -> Writes {
        if frames.is_empty() {
            return writes;
        }
        writes = self.add_ack(topic, turn, Words::All, writes);
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return writes;
        };
        let task = &running.charge.task;
        // Nobody follows work that no message waits for: its end is notified.
        let Some((source, message)) = awaited(task) else {
            return writes;
        };
        for mut progress in frames {
            progress.task_id = Some(task.id.clone());
            progress.message_id = Some(message.clone());
            let frame =
                Frame { topic: source.topic.clone(), ts: now, body: Body::Progress(progress) };
            writes = writes.frame(&source.channel, frame);
        }
        writes
    }

    /// Adds facts to the lane's journal.
    pub(super) fn journal(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        facts: Vec<Fact>,
    ) -> Writes {
        let timestamp = self.recipe.clock.now();
        let lane = self.lanes.get(topic);
        let super::lanes::Work::Running(running) = &mut lane.work else {
            return Writes::new();
        };
        let writes = running.lease_guard();
        let Some(memory) = &lane.memory else {
            return writes;
        };
        running.recording = facts.len() as u64;
        let ends = facts.iter().any(|fact| matches!(fact, Fact::TurnEnd { .. }));
        running.settling = facts.iter().filter_map(result_of).collect();
        let mut events: Vec<HistoryEvent> = (memory.next_seq..)
            .zip(facts)
            .map(|(seq, fact)| HistoryEvent {
                seq,
                turn: turn.clone(),
                timestamp,
                fact,
                redacted: false,
            })
            .collect();
        events.iter_mut().for_each(|event| running.place(event));
        let task = &running.charge.task;
        let seen = std::mem::take(&mut running.seen);
        let kept = running.kept.take();
        let day = self.recipe.days.day_of(timestamp);
        let mut writes = writes;
        if let Some(event) = &kept {
            let key = ShownKey(LaneKey::new(&task.lane, task.generation), event.id.clone());
            writes = writes.put_at(&key, &PartlyShown(Cow::Borrowed(event)));
        }
        for event in &events {
            if let Fact::Meta(Meta::Compaction(compaction)) = &event.fact
                && compaction.trigger == Trigger::Command
            {
                let session = task.lane.session_id(task.generation);
                writes = writes.put_at(&session, &Summarised(event.seq));
            }
        }
        for audit in events.iter().filter_map(|event| call_audit(running, event)) {
            writes = writes.put(&audit);
        }
        let calls = events.iter().filter_map(|event| called(&self.name, event));
        for (caller, usage) in calls {
            if let Some((tally, own)) = self.recipe.ledger.count(&caller, usage, day) {
                writes = writes.and(spending::calls(day, &caller, &tally, &own));
                // At its end the task says so itself.
                if !ends {
                    let of_turn = Tally::of(&running.turn.usage(), running.turn.requests());
                    let key = (DayKey(day.number), task.id.clone());
                    writes = writes.put_at(&key, &TaskCalls(of_turn));
                }
            }
        }
        let lane = LaneKey::new(&task.lane, task.generation);
        let seen = seen.into_iter().map(|number| (lane.clone(), number));
        seen.fold(writes, |writes, key| writes.delete::<InboxEvent>(&key)).events(
            &task.lane,
            task.generation,
            &events,
        )
    }

    pub(super) fn commit(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        writes: Writes,
        after: After,
        ctx: &mut Context<Self>,
    ) {
        // What was said comes before what it led to.
        self.say_now(topic, turn);
        if let Some(running) = self.lanes.running(topic, turn) {
            running.committing = true;
        }
        // Behind all else: the ack of a message comes first.
        let writes = self.account(topic, turn, writes);
        let committed = self.recipe.store.commit(writes);
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(
            committed
                .into_actor(self)
                .map(move |result, team, ctx| team.committed(&topic, &turn, result, after, ctx)),
        );
    }

    pub(super) fn committed(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        result: Result<Vec<Numbered>, StoreError>,
        after: After,
        ctx: &mut Context<Self>,
    ) {
        let frames = match result {
            Ok(frames) => frames,
            Err(error @ (StoreError::TooLarge(_) | StoreError::Unwritable(_))) => {
                return self.refused(topic, turn, &error, ctx);
            }
            Err(error) => {
                // The task is someone else's, or the process is ending: this turn is void.
                tracing::warn!(team = %self.name, %turn, %error, "turn abandoned");
                return self.rest(topic, ctx);
            }
        };
        self.count_events(topic);
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.committing = false;
        running.settle_calls();
        match after {
            After::Opened(approvals) => {
                self.opened(approvals);
                self.flush(topic, turn);
                self.deliver(topic, turn, frames, ctx);
                self.perform(topic, turn, ctx);
            }
            After::Parked(wait, opened) => {
                let task = running.charge.task.clone();
                let joined = running.joined.drain(..).map(|(task, _)| task).collect();
                self.recipe.channel.do_send(Deliver { frames });
                self.rest(topic, ctx);
                self.return_joined(joined);
                if wait.reason == WaitReason::Login {
                    (self.recipe.on_hindrance)(Hindrance::Login);
                }
                self.queue.do_send(Park { task, wait });
                self.opened(opened);
            }
            After::GoOn => {
                if !frames.is_empty() {
                    let voids = frames.iter().any(voids);
                    self.flush(topic, turn);
                    self.deliver(topic, turn, frames, ctx);
                    if voids {
                        self.voided(topic, turn);
                    }
                }
                self.perform(topic, turn, ctx);
            }
            After::Ended(mut ended) => {
                let charge = running.charge.clone();
                let lane = self.lanes.get(topic);
                if charge.task.kind == Kind::Compact {
                    // The next turn reads what stands for it now.
                    lane.memory = None;
                } else if let (Some(memory), Some(_)) = (&mut lane.memory, topic) {
                    let lines = std::mem::take(&mut ended.lines);
                    lines.into_iter().for_each(|line| memory.remember(line));
                }
                self.rest(topic, ctx);
                self.return_joined(std::mem::take(&mut ended.returned));
                // The queue first: who hears of the end may say something at once.
                self.report(&charge, *ended);
                self.recipe.channel.do_send(Deliver { frames });
            }
            After::Returned(pause) => {
                let task = running.charge.task.clone();
                let joined = running.joined.drain(..).map(|(task, _)| task).collect();
                self.recipe.channel.do_send(Deliver { frames });
                self.rest(topic, ctx);
                self.return_joined(joined);
                self.queue.do_send(Return { task, after: Some(pause), uncounted: false });
            }
        }
    }

    /// The journal has grown by what was recorded.
    fn count_events(&mut self, topic: &Option<TopicId>) {
        let lane = self.lanes.get(topic);
        if let (Some(memory), super::lanes::Work::Running(running)) =
            (&mut lane.memory, &mut lane.work)
        {
            memory.next_seq += std::mem::take(&mut running.recording);
        }
    }

    /// Sends frames of a running turn; what was held for the ack stands directly behind it.
    fn deliver(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        mut frames: Vec<Numbered>,
        ctx: &mut Context<Self>,
    ) {
        let begins_with_ack =
            frames.first().is_some_and(|first| matches!(first.frame.body, Body::Ack(_)));
        if begins_with_ack {
            let rest = frames.split_off(1);
            self.recipe.channel.do_send(Deliver { frames });
            self.open_gate(topic, turn, ctx);
            frames = rest;
        }
        self.recipe.channel.do_send(Deliver { frames });
    }

    /// A record that the store does not take ends the turn; nothing of it was written.
    fn refused(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        error: &StoreError,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.committing = false;
        running.wants.clear();
        let end = running.turn.refused_by_store(error);
        self.end(topic, turn, Vec::new(), end, ctx);
    }

    fn report(&self, charge: &Charge, mut ended: Ended) {
        let ran = charge.began.elapsed();
        let ending = ended.ending;
        let meter = &self.recipe.meter;
        meter.turn_ended(&self.name, prepare::SDK, ending, ran);
        for (task, follow_up) in ended.tasks {
            self.queue.do_send(Finished {
                task: task.id,
                ending,
                ran,
                follow_up,
                told: std::mem::take(&mut ended.told),
            });
        }
    }
}

impl Running {
    fn lease_guard(&self) -> Writes {
        Writes::new().under_lease(&self.charge.task.id, &self.charge.lease)
    }
}

/// What was said in the present step is void by it.
fn voids(numbered: &Numbered) -> bool {
    matches!(&numbered.frame.body, Body::Progress(progress) if progress.reset)
}

/// Where the message comes from that a task answers.
pub(super) fn awaited(task: &Task) -> Option<(&Source, &MessageId)> {
    let source = task.source.as_ref()?;
    Some((source, source.message.as_ref()?))
}

/// The model call that an event tells of.
fn called<'a>(team: &TeamName, event: &'a HistoryEvent) -> Option<(Caller, &'a Usage)> {
    match &event.fact {
        Fact::Meta(Meta::Usage { profile, model, usage, .. }) => {
            let caller =
                Caller { team: team.clone(), profile: profile.clone(), model: model.clone() };
            Some((caller, usage))
        }
        Fact::Meta(Meta::Compaction(compaction)) => {
            let Paid { profile, model, usage } = compaction.paid.as_ref()?;
            let caller =
                Caller { team: team.clone(), profile: profile.clone(), model: model.clone() };
            Some((caller, usage))
        }
        _ => None,
    }
}

/// The line of the audit for a call that an event tells the end of.
fn call_audit(running: &Running, event: &HistoryEvent) -> Option<Audit> {
    let Fact::ToolResult { id, name, content, fault, duration_ms, rule, approved, .. } =
        &event.fact
    else {
        return None;
    };
    let (turn, task) = (&event.turn, &running.charge.task);
    let decision = Decision::of(*fault, *approved, rule.is_some());
    let check = |fault: ToolFault| fault.as_str().to_owned();
    let refused_by = fault.filter(|_| decision == Decision::Refuse).map(check);
    Some(Audit {
        // A turn has no two results of one call: written again, it is the same line.
        id: format!("{turn}-{id}"),
        at: event.timestamp,
        actor: format!("team:{}", task.lane.team).into(),
        action: TOOL_CALL.to_owned(),
        target: name.clone(),
        from: task.id.to_string(),
        outcome: fault.map_or("ok", ToolFault::as_str).to_owned(),
        call: Some(Box::new(CallAudit {
            team: task.lane.team.clone(),
            task: task.id.clone(),
            turn: turn.clone(),
            tool: name.clone(),
            decision,
            rule: rule.clone().or(refused_by),
            duration_ms: *duration_ms,
            ok: fault.is_none(),
            arguments: beginning(&running.turn.arguments_of(id).unwrap_or_default()),
            result: beginning(content),
        })),
    })
}

fn outcome(end: &End, usage: Usage, now: Timestamp) -> Outcome {
    Outcome {
        ending: end.ending,
        code: end.code,
        message: end.message.clone(),
        text: end.text.clone(),
        truncated: end.truncated,
        usage,
        report: None,
        finished_at: now,
    }
}

/// The call that a fact is the result of, with its tool.
fn result_of(fact: &Fact) -> Option<(CallId, String)> {
    match fact {
        Fact::ToolResult { id, name, .. } => Some((id.clone(), name.clone())),
        _ => None,
    }
}

fn turn_end(end: &End, steps: u32, usage: Usage, took: Duration) -> Fact {
    Fact::TurnEnd {
        outcome: end.ending,
        code: end.code,
        message: end.message.clone(),
        text: end.text.clone(),
        steps,
        usage,
        duration_ms: millis(took),
    }
}

fn question_line(task: &Task) -> Line {
    let person = Speaker::Person(task.from.clone());
    Said::new(task.created_at, person, &task.body, task.label).into_line(Some(&task.id))
}

fn reply_line(task: &Task, text: &str, at: Timestamp) -> Option<Line> {
    let team = Speaker::Team(task.lane.team.as_str().to_owned());
    (!text.is_empty()).then(|| Said::new(at, team, text, task.label).into_line(Some(&task.id)))
}
