//! Commits of a session: what the turn wants durable, and what follows once it is.

use super::{
    SessionContext,
    outcome::{After, Ended, outcome, turn_end},
    session::Session,
    stream::awaited,
    turn::{End, slot::Held},
};
use crate::{
    approvals::{
        Opened,
        record::{Approval, Execution},
    },
    briefing::Hindrance,
    budget::{
        Tally,
        records::{self as spending, DayKey, TaskCalls},
    },
    channel::records::OutboxWrites,
    file::FileRef,
    frame::{Body, Frame, Notification, NotificationKind, Progress},
    history::Fact,
    ids::ApprovalId,
    notice::NoticeKind,
    queue::{Return, Unstorable, parking::Park},
    store::{Numbered, StoreError, records::Writes},
    task::{Source, Wait, WaitReason, ending, outcome::Ending},
    tool::Stow,
};

impl Session {
    /// Makes facts durable, with the frames that tell of them and what else belongs to them.
    pub(super) fn record(
        &mut self,
        facts: Vec<Fact>,
        frames: Vec<Progress>,
        along: Writes,
        after: After,
        ctx: &mut SessionContext<'_>,
    ) {
        let writes = self.journal(facts);
        let writes = self.tell(frames, writes).and(along);
        self.commit(writes, after, ctx);
    }

    /// Makes facts durable together with the requests for those calls that a person decides on.
    pub(super) fn hold(
        &mut self,
        mut facts: Vec<Fact>,
        frames: Vec<Progress>,
        held: Vec<Held>,
        ctx: &mut SessionContext<'_>,
    ) {
        let requests = self.ask_for_approval(held);
        facts.extend(requests.facts);
        self.record(facts, frames, requests.writes, After::GoOn(requests.opened), ctx);
    }

    /// Sets the turn aside until something outside has happened.
    pub(super) fn park(
        &mut self,
        mut facts: Vec<Fact>,
        frames: Vec<Progress>,
        wait: Wait,
        ctx: &mut SessionContext<'_>,
    ) {
        let requests = self.ask_for_money();
        facts.extend(requests.facts);
        self.record(facts, frames, requests.writes, After::Parked(wait, requests.opened), ctx);
    }

    /// Notes what becomes of an approved call.
    pub(super) fn mark(
        &mut self,
        approval: &ApprovalId,
        execution: Execution,
        ctx: &mut SessionContext<'_>,
    ) {
        let Some(approval) = self.approvals.get_mut(approval) else { return };
        approval.execution = execution;
        let mut writes = self.leased.guard().put(approval);
        if execution == Execution::Unknown {
            let text = format!(
                "The process stopped while an approved call of `{}` ran ({}). It is not repeated; check what it did.",
                approval.tool.as_deref().unwrap_or_default(),
                approval.short_id
            );
            let (kind, team) = (NoticeKind::UnknownOutcome, &approval.team.name);
            writes = writes.put(&self.cx.notice(kind, team, text, &approval.id));
        }
        self.commit(writes, After::go_on(), ctx);
    }

    /// Keeps secrets that were taken out of calls, one call after the other, before what follows.
    pub(super) fn stash(&mut self, stows: Vec<Stow>, ctx: &mut SessionContext<'_>) {
        self.committing = true;
        let (guard, store) = (self.leased.guard(), self.cx.recipe.store.clone());
        let kept = async move {
            for stow in stows {
                match stow.keep().await {
                    Ok(alongside) => {
                        store.commit(guard.clone().and(alongside.writes)).await?;
                        alongside.then.await;
                    }
                    // The call says so when it runs.
                    Err(error) => {
                        tracing::error!(error, "secrets of a call cannot be kept; the call fails")
                    }
                }
            }
            Ok(Vec::new())
        };
        self.after(kept, ctx, |session, result, ctx| {
            session.committed(result, After::go_on(), ctx);
        });
    }

    /// Adds frames to a commit, behind the ack of their message.
    fn tell(&mut self, frames: Vec<Progress>, writes: Writes) -> Writes {
        if frames.is_empty() {
            return writes;
        }
        let mut writes = self.add_ack(writes);
        let (task, now) = (&self.leased.task, self.cx.now());
        // Nobody follows work that no message waits for: its end is notified, and so is what it gives.
        let Some((source, message)) = awaited(task) else {
            return self.notify_of_files(frames, writes);
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

    /// Tells the person what work gives them that no message of theirs waits for.
    fn notify_of_files(&self, frames: Vec<Progress>, writes: Writes) -> Writes {
        let files: Vec<FileRef> = frames.into_iter().flat_map(|frame| frame.files).collect();
        let task = &self.leased.task;
        let Some(source) = task.source.as_ref().filter(|_| !files.is_empty()) else {
            return writes;
        };
        let Source { channel, topic, .. } = source.of_what_follows();
        let (team, now) = (self.cx.name.clone(), self.cx.now());
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let text = format!("[{team}] {}", names.join(", "));
        let told = Notification {
            files,
            ..Notification::new(NotificationKind::Task, team, text, "the history has the rest")
        };
        writes.told(&channel, topic, self.turn.label, now, told)
    }

    pub(super) fn commit(&mut self, writes: Writes, after: After, ctx: &mut SessionContext<'_>) {
        // What was said comes before what it led to.
        self.flush_live();
        self.committing = true;
        // Behind all else: the ack of a message comes first.
        let writes = self.account(writes);
        let (committed, ack) = (self.cx.recipe.store.commit(writes), self.buffer.sending.take());
        let committed = async move {
            let result = committed.await;
            // An ack that was stored before may be answered in the same instant: it, and the text
            // behind it, goes out before what this commit tells.
            if let Some(ack) = ack {
                let _ = ack.await;
            }
            result
        };
        self.after(committed, ctx, |session, result, ctx| session.committed(result, after, ctx));
    }

    fn committed(
        &mut self,
        result: Result<Vec<Numbered>, StoreError>,
        after: After,
        ctx: &mut SessionContext<'_>,
    ) {
        let frames = match result {
            Ok(frames) => frames,
            Err(error) if error.is_of_the_request() => return self.refused(error, ctx),
            Err(error) => {
                let task = &self.leased.task.id;
                tracing::warn!(team = %self.cx.name, %task, %error, "turn abandoned; what is durable stays, and the task goes on elsewhere or after the next start");
                // The task is someone else's, or the process is ending.
                self.over = true;
                return;
            }
        };
        self.committing = false;
        self.recorded();
        match after {
            After::GoOn(opened) => {
                self.announce(opened);
                self.go_on(frames, ctx);
            }
            After::Parked(wait, opened) => {
                self.cx.deliver(frames);
                self.leave();
                let task = self.leased.task.clone();
                if wait.reason == WaitReason::Login {
                    (self.cx.recipe.on_hindrance)(Hindrance::Login);
                }
                self.cx.queue.do_send(Park { task, wait });
                self.announce(opened);
            }
            After::Ended(ended) => self.ended(*ended, frames),
            After::Returned(pause) => {
                self.cx.deliver(frames);
                self.leave();
                let task = self.leased.task.clone();
                self.cx.queue.do_send(Return { task, after: Some(pause), uncounted: false });
            }
        }
    }

    /// Tells what is durable now, then does what the turn wants next.
    fn go_on(&mut self, mut frames: Vec<Numbered>, ctx: &mut SessionContext<'_>) {
        if !frames.is_empty() {
            self.flush();
            self.text.block_ended = false;
            let voids = frames.iter().any(voids);
            if frames.first().is_some_and(|first| matches!(first.frame.body, Body::Ack(_))) {
                // What was held for the ack stands directly behind it.
                let rest = frames.split_off(1);
                self.cx.deliver(frames);
                self.release_output();
                frames = rest;
            }
            self.cx.deliver(frames);
            if voids {
                self.voided(ctx);
            }
        }
        self.perform(ctx);
    }

    /// The requests are stored: somebody may decide.
    fn announce(&self, opened: Vec<Approval>) {
        for approval in opened {
            self.cx.recipe.approvals.do_send(Opened(approval));
        }
    }

    /// The end is stored. The queue hears of it first: who hears of it then may say something at once.
    fn ended(&mut self, ended: Ended, frames: Vec<Numbered>) {
        if ended.ending == Ending::Done {
            // They have their outcome with the turn's.
            self.joined.clear();
        }
        self.leave();
        self.history.end(std::mem::take(&mut self.fold));
        ended.report(&self.cx, &self.brief.sdk, self.leased.began);
        self.cx.deliver(frames);
    }

    /// Ends the turn: its last facts, the outcome of its task and of those that joined it, frames and
    /// conversation, in one commit.
    pub(super) fn end(&mut self, mut facts: Vec<Fact>, end: End, ctx: &mut SessionContext<'_>) {
        let now = self.cx.now();
        let (usage, steps) = (self.turn.usage, self.turn.step);
        facts.push(turn_end(&end, steps, usage, self.leased.began.elapsed()));
        let mut outcome = outcome(&end, usage, now);
        outcome.report = self.turn.report.clone();
        if end.ending == Ending::Cancelled {
            outcome.message = self.stop_reason.clone().or(outcome.message);
        }
        let label = self.turn.label;
        let words = match self.turn.first_words() {
            "" => end.text.as_str(),
            words => words,
        };
        // The turn keeps its tasks as they are until the commit is made: it may be refused.
        let mut leader = self.leased.task.clone();
        let (ids, view) = (&self.cx.recipe.ids, &self.cx.recipe.view);
        let closed =
            ending::close_turn(&mut leader, label, outcome.clone(), words, None, ids, view);
        let mut closing = closed.writes;
        let mut told: Vec<_> = closed.told.into_iter().collect();
        if self.inbox.leaves_some {
            told.push(leader.lane_key());
        }
        let mut tasks = vec![(leader.id.clone(), closed.follow_up.map(Box::new))];
        // Without an answer, those that joined wait for turns of their own.
        let answered = self.joined.iter().filter(|_| end.ending == Ending::Done);
        for mut task in answered.map(|(task, _)| task.clone()) {
            let (outcome, leader) = (outcome.clone(), Some(&leader.id));
            let same = ending::close_turn(&mut task, label, outcome, words, leader, ids, view);
            closing = closing.and(same.writes);
            told.extend(same.told);
            tasks.push((task.id, same.follow_up.map(Box::new)));
        }
        closing = closing.and(self.settle_approved(&facts));
        if steps > 0 {
            closing = closing.and(spending::ended_calls(&leader, &Tally::of(&usage, steps.into())));
        }
        // Its end says what the day on which it ended would. A day before that keeps its own figure.
        if !self.is_unrecorded() {
            let today = DayKey(self.cx.recipe.days.day_of(now).number);
            closing = closing.delete::<TaskCalls>(&(today, leader.id.clone()));
        }
        let ended = Ended { ending: end.ending, tasks, told };
        let writes = self.journal(facts).and(closing);
        self.commit(writes, After::Ended(Box::new(ended)), ctx);
    }

    /// What has become of approved calls that run when the turn ends, by the results in its last facts.
    fn settle_approved(&self, facts: &[Fact]) -> Writes {
        let did_well = |approval: &Approval| {
            facts.iter().any(|fact| match fact {
                Fact::ToolResult { id, fault: None, .. } => {
                    self.turn.approval_of(id) == Some(&approval.id)
                }
                _ => false,
            })
        };
        let running = self.approvals.values();
        let running = running.filter(|approval| approval.execution == Execution::Running);
        running.fold(Writes::new(), |writes, approval| {
            let execution = if did_well(approval) { Execution::Done } else { Execution::Failed };
            writes.put(&Approval { execution, ..approval.clone() })
        })
    }

    /// A record that the store does not take ends the turn; nothing of it was written.
    fn refused(&mut self, error: StoreError, ctx: &mut SessionContext<'_>) {
        self.committing = false;
        self.wants.clear();
        match self.turn.refused_by_store(&error) {
            Some(end) => self.end(Vec::new(), end, ctx),
            None => {
                self.leave();
                let task = self.leased.task.clone();
                self.cx.queue.do_send(Unstorable { task, error });
            }
        }
    }
}

/// What was said in the present step is void by it.
fn voids(numbered: &Numbered) -> bool {
    matches!(&numbered.frame.body, Body::Progress(progress) if progress.reset)
}
