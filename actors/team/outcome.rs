//! Outcome of a turn: what becomes of its task and of those that joined it, in one commit.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{context::TeamContext, lease::LeasedTask, turn::End};
use crate::{
    approvals::record::Approval,
    clock::{Timestamp, millis},
    history::Fact,
    ids::TaskId,
    queue::{Finished, Unstorable},
    task::{
        Task, Wait, ending,
        outcome::{Code, Ending, Outcome},
        records::LaneKey,
    },
    usage::Usage,
};

/// Stands for the engine of a turn that could not begin.
const NO_ENGINE: &str = "none";

pub(super) enum After {
    /// The next want. Requests for approval that were stored may be decided on.
    GoOn(Vec<Approval>),
    Parked(Wait, Vec<Approval>),
    Ended(Box<Ended>),
    /// The task is tried again after a pause.
    Returned(Duration),
}

impl After {
    pub(super) fn go_on() -> Self {
        Self::GoOn(Vec::new())
    }
}

/// What became of the tasks of a turn.
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// They have their outcome, each with the work that was stored with it.
    pub(super) tasks: Vec<(TaskId, Option<Box<Task>>)>,
    /// Lanes that find something in their inbox.
    pub(super) told: Vec<LaneKey>,
}

impl Ended {
    /// Tells the queue, of a turn that this engine ran and that began then.
    pub(super) fn report(self, cx: &TeamContext, sdk: &str, began: Instant) {
        let Self { ending, tasks, mut told } = self;
        let ran = began.elapsed();
        cx.recipe.meter.turn_ended(&cx.name, sdk, ending, ran);
        for (task, follow_up) in tasks {
            let told = std::mem::take(&mut told);
            cx.queue.do_send(Finished { task, ending, ran, follow_up, told });
        }
    }
}

/// Ends a task whose turn could not begin. The future tells the queue and the channel once that is stored.
pub(super) fn end_unprepared(
    cx: &Arc<TeamContext>,
    mut leased: LeasedTask,
    end: End,
) -> impl Future<Output = ()> + use<> {
    let held = leased.task.clone();
    let task = &mut leased.task;
    tracing::warn!(team = %cx.name, task = %task.id, code = end.code.map(Code::as_str), error = end.message, "turn could not begin; the task ends");
    let outcome = outcome(&end, Usage::default(), cx.now());
    let (ids, view) = (&cx.recipe.ids, &cx.recipe.view);
    let closed = ending::close(task, outcome, ids, view);
    let ended = Ended {
        ending: end.ending,
        tasks: vec![(task.id.clone(), closed.follow_up.map(Box::new))],
        // What was in its own inbox was not shown.
        told: closed.told.into_iter().chain([task.lane_key()]).collect(),
    };
    let committed = cx.recipe.store.commit(leased.guard().and(closed.writes));
    let cx = cx.clone();
    async move {
        match committed.await {
            Ok(frames) => {
                ended.report(&cx, NO_ENGINE, leased.began);
                cx.deliver(frames);
            }
            Err(error) if error.is_of_the_request() => {
                cx.queue.do_send(Unstorable { task: held, error });
            }
            // The task is someone else's, or the process is ending.
            Err(error) => tracing::warn!(team = %cx.name, %error, "turn abandoned"),
        }
    }
}

pub(super) fn outcome(end: &End, usage: Usage, now: Timestamp) -> Outcome {
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

pub(super) fn turn_end(end: &End, steps: u32, usage: Usage, took: Duration) -> Fact {
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
