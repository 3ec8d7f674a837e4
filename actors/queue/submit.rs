//! Submit: work that a turn gives to a team, asked for and answered.

use actix::{
    ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseActFuture, ResponseFuture,
    WrapFuture,
};
use tokio::sync::oneshot;

use super::{
    Enqueue, Queue,
    causes::{Giver, Runaway},
    refusal::Refusal,
};
use crate::{
    clock::{Timestamp, millis},
    ids::{TaskId, TeamName},
    journal,
    notice::{Notice, NoticeKind},
    store::records::Writes,
    task::{
        Kind, Task, TaskState, WaitReason,
        outcome::{Code, Ending},
        records::{LaneKey, OpenWork},
    },
    words,
};

/// A running task without a sign of life for this long is called stale.
const STALE_AFTER: std::time::Duration = std::time::Duration::from_secs(600);

/// Stores a task that a turn makes, unless something speaks against it. Answered when it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<Submission, Refusal>")]
pub struct Submit {
    pub task: Task,
    /// What belongs into the same commit.
    pub writes: Writes,
    /// What to do if its team has other work; none enqueues in any case.
    pub overlap: Option<Overlap>,
    /// Whose turn makes it; none is not counted.
    pub giver: Option<Giver>,
}

words! {
    /// What to do if a team has other work already.
    #[derive(Default)]
    pub enum Overlap {
        /// Enqueue all the same.
        Allow = "allow",
        /// Leave it.
        Skip = "skip",
        /// Leave it, and say what is under way.
        #[default]
        Confirm = "confirm",
        /// Cancel what the same lane gave the team before.
        Replace = "replace",
    }
}

/// What became of a submitted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// It is stored.
    Enqueued {
        /// What the team has to do besides.
        in_flight: Vec<OpenTask>,
    },
    /// It was not wanted beside other work.
    Skipped { in_flight: Vec<OpenTask> },
    NeedsConfirmation {
        /// What the team has to do.
        in_flight: Vec<OpenTask>,
        /// Why replacing is not possible, if that was asked for.
        reason: Option<&'static str>,
    },
}

impl Submission {
    fn in_flight(&mut self) -> &mut Vec<OpenTask> {
        let (Self::Enqueued { in_flight }
        | Self::Skipped { in_flight }
        | Self::NeedsConfirmation { in_flight, .. }) = self;
        in_flight
    }
}

/// A task without an end, for whoever looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTask {
    pub task_id: TaskId,
    pub team: TeamName,
    pub kind: Kind,
    pub state: TaskState,
    /// What it waits for, if its turn was set aside.
    pub wait_reason: Option<WaitReason>,
    /// Since it was accepted, in milliseconds.
    pub age_ms: u64,
    /// It runs, and its journal has not grown for long.
    pub stale: bool,
}

impl OpenTask {
    /// The same, of a row.
    pub fn of(work: &OpenWork, now: Timestamp) -> Self {
        let age = now.since(work.created_at);
        let state = TaskState::of_open(work.parked.as_ref(), work.lease.as_ref());
        Self {
            task_id: work.id.clone(),
            team: work.lane.team.clone(),
            kind: work.kind,
            state,
            wait_reason: work.parked.as_ref().map(|parked| parked.reason),
            age_ms: millis(age),
            stale: state == TaskState::Running && age > STALE_AFTER,
        }
    }
}

/// The open tasks of a team, or of all, oldest first.
#[derive(Debug, Message)]
#[rtype(result = "Vec<OpenTask>")]
pub(crate) struct OpenTasks {
    pub(crate) team: Option<TeamName>,
}

impl Queue {
    pub(super) fn open_tasks(&self, team: Option<&TeamName>) -> Vec<OpenTask> {
        let now = self.clock.now();
        let mut tasks: Vec<&Task> = match team {
            Some(team) => self.tasks.of_team(team).map(|entry| &*entry.task).collect(),
            None => self.tasks.all().map(|entry| &*entry.task).collect(),
        };
        tasks.sort_by_key(|task| task.arrival);
        let open = tasks.into_iter().map(|task| OpenTask {
            task_id: task.id.clone(),
            team: task.lane.team.clone(),
            kind: task.kind,
            state: task.state(),
            wait_reason: task.parked.as_ref().map(|parked| parked.reason),
            age_ms: millis(now.since(task.created_at)),
            stale: false,
        });
        open.collect()
    }

    /// Sees which of these tasks run without a sign of life.
    fn look_for_stale(
        &self,
        mut open: Vec<OpenTask>,
    ) -> impl Future<Output = Vec<OpenTask>> + 'static {
        let now = self.clock.now();
        let long_ago = move |at: Timestamp| now.since(at) > STALE_AFTER;
        // What was leased lately has not had the time to become stale.
        let suspects: Vec<(usize, LaneKey)> = open
            .iter()
            .enumerate()
            .filter_map(|(place, open)| {
                let entry = self.tasks.get(&open.task_id)?;
                let since = entry.leased_at.filter(|_| open.state == TaskState::Running)?;
                let task = &entry.task;
                long_ago(since).then(|| (place, task.lane_key()))
            })
            .collect();
        let are_well = suspects.is_empty();
        let read = self.store.read(move |storage| {
            let signs = suspects
                .into_iter()
                .map(|(place, lane)| Ok((place, journal::last_sign(storage, &lane)?)));
            signs.collect::<Result<Vec<_>, _>>()
        });
        async move {
            if are_well {
                return open;
            }
            for (place, sign) in read.await.unwrap_or_default() {
                open[place].stale = sign.is_none_or(long_ago);
            }
            open
        }
    }

    /// Whether a task may be stored beside what its team has to do, and what ends for it. `Err` is
    /// the answer if not.
    fn overlaps(
        &self,
        task: &Task,
        overlap: Overlap,
        in_flight: &[OpenTask],
    ) -> Result<Vec<TaskId>, Submission> {
        if in_flight.is_empty() {
            return Ok(Vec::new());
        }
        let in_flight = in_flight.to_vec();
        let reason = match overlap {
            Overlap::Allow => return Ok(Vec::new()),
            Overlap::Skip => return Err(Submission::Skipped { in_flight }),
            Overlap::Confirm => None,
            Overlap::Replace => {
                let own = |id: &TaskId| {
                    self.tasks.get(id).is_some_and(|entry| {
                        entry.task.kind == Kind::Delegate && entry.task.reply_to == task.reply_to
                    })
                };
                if in_flight.iter().all(|open| own(&open.task_id)) {
                    return Ok(in_flight.into_iter().map(|open| open.task_id).collect());
                }
                Some("replace_targets_other_work")
            }
        };
        Err(Submission::NeedsConfirmation { in_flight, reason })
    }

    /// Work that went round in circles is told to the operator once.
    fn tell_of_loop(&self, task: &Task, why: &Runaway) -> Writes {
        let text = format!("Stopped work that goes round in circles: {why}");
        let (team, refs) = (&task.lane.team, vec![task.root().to_string()]);
        let kind = NoticeKind::LoopStopped;
        Writes::new().put(&Notice::of_team(&self.ids, kind, team, text, refs, self.clock.now()))
    }
}

impl Handler<Submit> for Queue {
    type Result = ResponseActFuture<Self, Result<Submission, Refusal>>;

    fn handle(&mut self, message: Submit, ctx: &mut Self::Context) -> Self::Result {
        let Submit { task, mut writes, overlap, giver } = message;
        let answer = |queue: &Self, answer| -> Self::Result {
            Box::pin(std::future::ready(answer).into_actor(queue))
        };
        if self.draining_teams.contains(&task.lane.team) {
            return answer(self, Err(Refusal::TeamDraining));
        }
        let in_flight = self.open_tasks(Some(&task.lane.team));
        let replaced = match overlap.map(|overlap| self.overlaps(&task, overlap, &in_flight)) {
            None => Vec::new(),
            Some(Ok(replaced)) => replaced,
            Some(Err(submission)) => return self.answer_with_signs(submission),
        };
        if self.store.room().is_full() {
            return answer(self, Err(Refusal::DiskFull));
        }
        if let Err(full) = self.schedule.admits(&task.lane) {
            return answer(self, Err(Refusal::QueueFull(full.waiting())));
        }
        if let Some(giver) = giver {
            let line = task.lineage.iter().flat_map(|line| &line.path);
            for above in line {
                if let Some(entry) = self.tasks.get(&above.task) {
                    self.causes.led_to_more(&entry.task);
                }
            }
            match self.causes.admit(&task, &giver) {
                Ok(counts) => writes = writes.put_at(task.root(), &counts),
                Err(why) => {
                    if matches!(why, Runaway::Loop(_)) {
                        self.commit(self.tell_of_loop(&task, &why), ctx);
                    }
                    return answer(self, Err(why.into()));
                }
            }
        }
        let in_flight = self.look_for_stale(in_flight);
        // Nothing speaks against it any more: only now others make way.
        let reason = format!("replaced by {}", task.id);
        for id in &replaced {
            self.cancel_task(id, &reason, ctx);
        }
        let (stored, durable) = oneshot::channel();
        self.accept(Enqueue { task, writes }, Some(stored), ctx);
        let answered = async move {
            durable.await.map_err(|_| Refusal::Stopping)?.map_err(Refusal::Unstorable)?;
            let in_flight = in_flight.await;
            Ok(Submission::Enqueued { in_flight })
        };
        Box::pin(answered.into_actor(self))
    }
}

impl Queue {
    /// An answer whose tasks show whether they are stale.
    fn answer_with_signs(
        &self,
        mut submission: Submission,
    ) -> ResponseActFuture<Self, Result<Submission, Refusal>> {
        let looked = self.look_for_stale(std::mem::take(submission.in_flight()));
        let answered = async move {
            *submission.in_flight() = looked.await;
            Ok(submission)
        };
        Box::pin(answered.into_actor(self))
    }
}

/// The same, told instead of asked: it keeps its place among all else that its sender tells.
///
/// What is asked with `send` is handed in only when the answer is first waited for, if much is under
/// way already.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct HandIn {
    pub(crate) submit: Submit,
    pub(crate) answer: oneshot::Sender<Result<Submission, Refusal>>,
}

impl Handler<HandIn> for Queue {
    type Result = ();

    fn handle(&mut self, HandIn { submit, answer }: HandIn, ctx: &mut Self::Context) {
        let submitted = <Self as Handler<Submit>>::handle(self, submit, ctx);
        ctx.spawn(submitted.map(|result, _, _| {
            // Whoever handed it in may have gone.
            let _gone = answer.send(result);
        }));
    }
}

impl Handler<OpenTasks> for Queue {
    type Result = ResponseFuture<Vec<OpenTask>>;

    fn handle(&mut self, OpenTasks { team }: OpenTasks, _: &mut Self::Context) -> Self::Result {
        Box::pin(self.look_for_stale(self.open_tasks(team.as_ref())))
    }
}

/// Ends a task: at once if it waits, by stopping its turn if it runs. Answers whether it was open.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct CancelTask {
    pub task: TaskId,
    /// Why, for whoever asked for it.
    pub reason: String,
}

impl Queue {
    pub(super) fn cancel_task(
        &mut self,
        id: &TaskId,
        reason: &str,
        ctx: &mut Context<Self>,
    ) -> bool {
        let Some(entry) = self.tasks.get_mut(id) else { return false };
        let lane = entry.task.lane.clone();
        if entry.task.lease.is_some() {
            entry.cancelled = true;
            entry.reason = Some(reason.to_owned());
            self.listeners.stop.do_send(super::Stop {
                lane,
                task: Some(id.clone()),
                reason: Some(reason.to_owned()),
            });
            return true;
        }
        self.schedule.remove(&lane, id);
        self.end_for(id, Ending::Cancelled, Code::Cancelled, Some(reason), ctx);
        true
    }
}

impl Handler<CancelTask> for Queue {
    type Result = bool;

    fn handle(&mut self, message: CancelTask, ctx: &mut Self::Context) -> bool {
        let open = self.cancel_task(&message.task, &message.reason, ctx);
        self.dispatch(ctx);
        open
    }
}
