//! Outcome of a turn: what becomes of its task and of those that joined it, in one commit.

use std::{sync::Arc, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, fut::wrap_future};
use tokio::time::Instant;

use super::{
    Team, commit::After, context::TeamContext, lanes::LeasedTask, preparation::SDK,
    session::Session, turn::End,
};
use crate::{
    briefing::{Line, Speaker},
    budget::Tally,
    budget::records as spending,
    clock::{Timestamp, millis},
    closing,
    history::Fact,
    interactions::Said,
    queue::Finished,
    task::{Code, Ending, Lane, Outcome, Task},
    usage::Usage,
};

/// What became of the tasks of a turn.
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// They have their outcome, each with the work that was stored with it.
    tasks: Vec<(Task, Option<Box<Task>>)>,
    /// What was said in the turn, for the next one.
    pub(super) lines: Vec<Line>,
    /// Lanes that find something in their inbox.
    told: Vec<(Lane, u32)>,
}

impl Ended {
    /// Tells the queue, of a turn that began then.
    pub(super) fn report(self, cx: &TeamContext, began: Instant) {
        let Self { ending, tasks, mut told, .. } = self;
        let ran = began.elapsed();
        cx.recipe.meter.turn_ended(&cx.name, SDK, ending, ran);
        for (task, follow_up) in tasks {
            let told = std::mem::take(&mut told);
            cx.queue.do_send(Finished { task: task.id, ending, ran, follow_up, told });
        }
    }
}

impl Session {
    /// Ends the turn: its last facts, the outcome of its task and of those that joined it, frames and
    /// conversation, in one commit.
    pub(super) fn end(&mut self, mut facts: Vec<Fact>, end: End, ctx: &mut Context<Team>) {
        let now = self.cx.now();
        let (usage, steps) = (self.turn.usage(), self.turn.step());
        facts.push(turn_end(&end, steps, usage, self.leased.began.elapsed()));
        let mut outcome = outcome(&end, usage, now);
        outcome.report = self.turn.report().cloned();
        if end.ending == Ending::Cancelled {
            outcome.message = self.stop_reason.clone().or(outcome.message);
        }
        let label = self.turn.label();
        let words = match self.turn.first_words() {
            "" => end.text.as_str(),
            words => words,
        };
        // The turn keeps its tasks as they are until the commit is made: it may be refused.
        let mut leader = self.leased.task.clone();
        let mut lines = vec![question_line(&leader)];
        let (ids, view) = (&self.cx.recipe.ids, &self.cx.recipe.view);
        let closed =
            closing::close_turn(&mut leader, label, outcome.clone(), words, None, ids, view);
        let mut closing = closed.writes;
        let mut told: Vec<_> = closed.told.into_iter().collect();
        if self.inbox.leaves_some {
            told.push((leader.lane.clone(), leader.generation));
        }
        let mut tasks = vec![(leader.clone(), closed.follow_up.map(Box::new))];
        // Without an answer, those that joined wait for turns of their own.
        let answered = self.joined.iter().filter(|_| end.ending == Ending::Done);
        for mut task in answered.map(|(task, _)| task.clone()) {
            lines.push(question_line(&task));
            let (outcome, leader) = (outcome.clone(), Some(&leader.id));
            let same = closing::close_turn(&mut task, label, outcome, words, leader, ids, view);
            closing = closing.and(same.writes);
            told.extend(same.told);
            tasks.push((task, same.follow_up.map(Box::new)));
        }
        lines.extend(reply_line(&leader, &end.text, now));
        if steps > 0 {
            closing = closing.and(spending::ended_calls(&leader, &Tally::of(&usage, steps.into())));
        }
        let ended = Ended { ending: end.ending, tasks, lines, told };
        let writes = self.journal(facts).and(closing);
        self.commit(writes, After::Ended(Box::new(ended)), ctx);
    }
}

/// Ends a task whose turn could not begin.
pub(super) fn end_unprepared(
    cx: &Arc<TeamContext>,
    mut leased: LeasedTask,
    end: End,
    ctx: &mut Context<Team>,
) {
    let task = &mut leased.task;
    tracing::warn!(team = %cx.name, task = %task.id, code = end.code.map(Code::as_str), message = end.message, "turn could not begin");
    let outcome = outcome(&end, Usage::default(), cx.now());
    let (ids, view) = (&cx.recipe.ids, &cx.recipe.view);
    let closed = closing::close(task, outcome, "", None, ids, view);
    let told = closed.told.into_iter();
    let ended = Ended {
        ending: end.ending,
        tasks: vec![(task.clone(), closed.follow_up.map(Box::new))],
        lines: Vec::new(),
        // What was in its own inbox was not shown.
        told: told.chain([(task.lane.clone(), task.generation)]).collect(),
    };
    let committed = cx.recipe.store.commit(leased.guard().and(closed.writes));
    ctx.spawn(wrap_future::<_, Team>(committed).map(move |result, team, _| {
        if let Ok(frames) = result {
            ended.report(&team.cx, leased.began);
            team.cx.deliver(frames);
        }
    }));
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
