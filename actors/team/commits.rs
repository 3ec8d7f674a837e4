//! What a turn makes durable: its journal, the frames that tell of it, its end.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Team,
    ack::Words,
    lanes::{Charge, Running},
    turn::End,
};
use crate::{
    briefing::{Line, Speaker},
    channel::Deliver,
    clock::{Timestamp, millis},
    closing,
    event::{Body, Frame, Progress},
    history::{Fact, HistoryEvent},
    ids::{MessageId, TaskId, TopicId, TurnId},
    queue::{Finished, Return},
    store::{
        Numbered, StoreError,
        records::{Writes, snippet},
    },
    task::{Code, Ending, Outcome, Source, Task},
    usage::Usage,
};

/// What follows a commit.
enum After {
    GoOn,
    Ended(Ending, Vec<Task>, Option<Line>),
    Returned(Duration),
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
        let usage = running.turn.usage();
        let charge = &mut running.charge;
        facts.push(turn_end(
            &end,
            running.turn.step(),
            usage,
            charge.began.elapsed(),
        ));
        let outcome = outcome(&end, usage, now);
        let first_words = match running.turn.first_words() {
            "" => end.text.clone(),
            words => words.to_owned(),
        };
        let line = reply_line(&charge.task, &end.text, now);
        let mut closing = closing::close(&mut charge.task, outcome.clone(), &first_words, None);
        let mut ended = vec![charge.task.clone()];
        let joined = std::mem::take(&mut running.joined);
        for (mut task, _) in joined {
            if end.ending == Ending::Done {
                let leader = ended[0].id.clone();
                let same = closing::close(&mut task, outcome.clone(), &first_words, Some(&leader));
                closing = closing.and(same);
                ended.push(task);
            } else {
                self.queue.do_send(Return {
                    task,
                    after: None,
                    uncounted: true,
                });
            }
        }
        let writes = self.journal(topic, turn, facts).and(closing);
        self.commit(
            topic,
            turn,
            writes,
            After::Ended(end.ending, ended, line),
            ctx,
        );
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
            let mut tasks = vec![running.charge.task.clone()];
            tasks.extend(running.joined.drain(..).map(|(task, _)| task));
            for task in tasks {
                self.queue.do_send(Return {
                    task,
                    after: None,
                    uncounted: true,
                });
            }
            self.rest(topic, ctx);
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
        let writes = Writes::new()
            .under_lease(&charge.task.id, &charge.lease)
            .and(closing::close(&mut charge.task, outcome, "", None));
        let committed = self.recipe.store.commit(writes);
        let topic = topic.clone();
        ctx.spawn(committed.into_actor(self).map(move |result, team, ctx| {
            if let Ok(frames) = result {
                team.recipe.channel.do_send(Deliver { frames });
                team.report(&charge, end.ending, vec![charge.task.clone()]);
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
        if running.gate.is_open()
            || running.acking
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

    /// Acknowledges a message that joined a turn: the end of that may be far away.
    pub(super) fn acknowledge_joined(
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
        let joined = running.joined.iter_mut().find(|(task, _)| task.id == *id);
        let Some((task, lease)) = joined else {
            return;
        };
        let Some(source) = task.source.clone() else {
            return;
        };
        let (Some(message), false) = (&source.message, task.acked) else {
            return;
        };
        let frame = Frame {
            topic: source.topic.clone(),
            ts: now,
            body: Body::Ack(closing::ack(task, message, "", 0)),
        };
        task.acked = true;
        let writes = Writes::new()
            .under_lease(id, lease)
            .task(task)
            .frame(&source.channel, frame);
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
        let frame = Frame {
            topic: source.topic.clone(),
            ts: now,
            body: Body::Ack(ack),
        };
        writes.task(task).frame(&source.channel, frame)
    }

    /// Adds frames to a commit, behind the ack of their message.
    fn tell(
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
            let frame = Frame {
                topic: source.topic.clone(),
                ts: now,
                body: Body::Progress(progress),
            };
            writes = writes.frame(&source.channel, frame);
        }
        writes
    }

    /// Adds facts to the lane's journal.
    fn journal(&mut self, topic: &Option<TopicId>, turn: &TurnId, facts: Vec<Fact>) -> Writes {
        let timestamp = self.recipe.clock.now();
        let lane = self.lanes.get(topic);
        let super::lanes::Work::Running(running) = &lane.work else {
            return Writes::new();
        };
        let writes = running.lease_guard();
        let Some(memory) = &mut lane.memory else {
            return writes;
        };
        let events: Vec<HistoryEvent> = facts
            .into_iter()
            .map(|fact| {
                let seq = memory.next_seq;
                memory.next_seq += 1;
                HistoryEvent {
                    seq,
                    turn: turn.clone(),
                    timestamp,
                    fact,
                }
            })
            .collect();
        writes.events(&running.charge.task.lane, &events)
    }

    fn commit(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        writes: Writes,
        after: After,
        ctx: &mut Context<Self>,
    ) {
        if let Some(running) = self.lanes.running(topic, turn) {
            running.committing = true;
        }
        let committed = self.recipe.store.commit(writes);
        let (topic, turn) = (topic.clone(), turn.clone());
        ctx.spawn(
            committed
                .into_actor(self)
                .map(move |result, team, ctx| team.committed(&topic, &turn, result, after, ctx)),
        );
    }

    fn committed(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        result: Result<Vec<Numbered>, StoreError>,
        after: After,
        ctx: &mut Context<Self>,
    ) {
        let frames = match result {
            Ok(frames) => frames,
            Err(StoreError::TooLarge(bytes)) => return self.too_large(topic, turn, bytes, ctx),
            Err(error) => {
                // The task is someone else's, or the process is ending: this turn is void.
                tracing::warn!(team = %self.name, %turn, %error, "turn abandoned");
                return self.rest(topic, ctx);
            }
        };
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.committing = false;
        match after {
            After::GoOn => {
                if !frames.is_empty() {
                    self.flush(topic, turn);
                    // What was said before the ack follows it, before what was done after that.
                    let (ack, others) = frames
                        .into_iter()
                        .partition(|numbered| matches!(numbered.frame.body, Body::Ack(_)));
                    self.recipe.channel.do_send(Deliver { frames: ack });
                    self.open_gate(topic, turn, ctx);
                    self.recipe.channel.do_send(Deliver { frames: others });
                }
                self.perform(topic, turn, ctx);
            }
            After::Ended(ending, tasks, line) => {
                let charge = running.charge.clone();
                self.recipe.channel.do_send(Deliver { frames });
                if let (Some(memory), Some(line)) = (&mut self.lanes.get(topic).memory, line) {
                    memory.remember(line);
                }
                self.rest(topic, ctx);
                self.report(&charge, ending, tasks);
            }
            After::Returned(pause) => {
                let task = running.charge.task.clone();
                let joined = std::mem::take(&mut running.joined);
                self.recipe.channel.do_send(Deliver { frames });
                self.rest(topic, ctx);
                for (task, _) in joined {
                    self.queue.do_send(Return {
                        task,
                        after: None,
                        uncounted: true,
                    });
                }
                self.queue.do_send(Return {
                    task,
                    after: Some(pause),
                    uncounted: false,
                });
            }
        }
    }

    /// A record that the store does not take ends the turn; nothing of it was written.
    fn too_large(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        bytes: usize,
        ctx: &mut Context<Self>,
    ) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        running.committing = false;
        running.wants.clear();
        let end = End {
            ending: Ending::Failed,
            code: Some(Code::Internal),
            message: Some(format!(
                "a step of {bytes} bytes is more than the store takes"
            )),
            text: String::new(),
        };
        self.end(topic, turn, Vec::new(), end, ctx);
    }

    fn report(&self, charge: &Charge, ending: Ending, tasks: Vec<Task>) {
        let ran = charge.began.elapsed();
        self.recipe.meter.turn_ended(&self.name, ending, ran);
        for task in tasks {
            self.queue.do_send(Finished {
                task: task.id,
                ending,
                ran,
            });
        }
    }
}

impl Running {
    fn lease_guard(&self) -> Writes {
        Writes::new().under_lease(&self.charge.task.id, &self.charge.lease)
    }
}

/// Where the message comes from that a task answers.
pub(super) fn awaited(task: &Task) -> Option<(&Source, &MessageId)> {
    let source = task.source.as_ref()?;
    Some((source, source.message.as_ref()?))
}

fn outcome(end: &End, usage: Usage, now: Timestamp) -> Outcome {
    Outcome {
        ending: end.ending,
        code: end.code,
        message: end.message.clone(),
        text: end.text.clone(),
        usage,
        finished_at: now,
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

fn reply_line(task: &Task, text: &str, at: Timestamp) -> Option<Line> {
    (!text.is_empty()).then(|| Line {
        at,
        speaker: Speaker::Team(task.lane.team.as_str().to_owned()),
        text: snippet(text),
    })
}
