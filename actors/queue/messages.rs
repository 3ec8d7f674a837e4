//! Messages of the queue: what it is told and asked, and what it tells others.

use std::time::Duration;

use actix::{Message, Recipient};

use super::schedule::Full;
use crate::{
    budget::Ledger,
    ids::{ChannelId, LeaseId, TaskId, TeamName, TopicId},
    store::{StoreError, records::Writes},
    task::{
        Audience, Kind, Lane, Task, WaitReason, cause::Cause, outcome::Ending, records::LaneKey,
    },
};

/// Stores a task, with what must become durable beside it, and sees to it that it is done.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Enqueue {
    pub task: Task,
    /// What belongs into the same commit.
    pub writes: Writes,
}

/// A turn has stored the outcome of its task.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Finished {
    pub task: TaskId,
    pub ending: Ending,
    pub ran: Duration,
    /// Work that was stored with its end.
    pub follow_up: Option<Box<Task>>,
    /// Lanes that find something in their inbox.
    pub told: Vec<LaneKey>,
}

/// A turn gives its task back without an outcome.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Return {
    /// The task, as the turn left it.
    pub(crate) task: Task,
    /// When it may be tried again; at once if the process is stopping.
    pub(crate) after: Option<Duration>,
    pub(crate) uncounted: bool,
}

/// The store does not take the end of a task: the queue ends it with nothing but the reason.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Unstorable {
    pub(crate) task: Task,
    pub(crate) error: StoreError,
}

/// A running turn asks for the next waiting task of its lane that may join it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Join {
    pub(crate) lane: Lane,
    /// Who is behind the turn, and where.
    pub(crate) behind: Audience,
    /// Only one that was meant for the turn, also before others that wait.
    pub(crate) alone: bool,
}

/// Stops the running turn of a lane, and on request ends what waits behind it.
#[derive(Debug, Message)]
#[rtype(result = "Cancelled")]
pub struct Cancel {
    pub lane: Lane,
    /// Also end what waits.
    pub queued: bool,
    /// Who is told if there is nothing to stop.
    pub channel: Option<ChannelId>,
    /// Only what this person is behind; none is everyone's.
    pub behind: Option<Cause>,
}

impl Cancel {
    /// Ends all that a lane has to do.
    pub fn all_in(lane: Lane) -> Self {
        Self { lane, queued: true, channel: None, behind: None }
    }

    /// Whether it means a task of its lane.
    pub(super) fn means(&self, task: &Task) -> bool {
        let is = |behind: &Cause| behind.identity() == task.caused_by().identity();
        task.lane == self.lane && self.behind.as_ref().is_none_or(is)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// Something ends by it.
    pub stopped: bool,
    /// Tasks of the lane that go on waiting.
    pub waiting: usize,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It has a turn of its own, or gets the next one at once.
    Started,
    /// It joined the turn under way.
    CurrentTurn,
    /// It waits for a turn of its own.
    NextTurn,
    /// Its lane waits for something.
    Waiting(WaitReason),
}

/// The actor of a team is gone with all it held.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Orphaned {
    pub(crate) team: TeamName,
    /// None of its tasks is leased before this has passed.
    pub(crate) pause: Duration,
    /// It was told to go: the attempt does not count.
    pub(crate) uncounted: bool,
}

/// Order: stop a team with all that runs for it, at once. Tasks that it had wait again, and the
/// attempt does not count.
///
/// It goes by way of the queue: whatever was leased to the team before reaches it before.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Dismiss {
    pub team: TeamName,
}

/// No more leases: the process is about to stop.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// The drain is over: what is still leased keeps its lease for the next start, and the attempt does not
/// count. Answered once that is stored.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UncountLeased;

/// How much waits and runs.
#[derive(Debug, Message)]
#[rtype(result = "Counts")]
pub struct Count;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By team: waiting, running.
    pub teams: Vec<(TeamName, usize, usize)>,
    /// Tasks that ended since the start, by team, kind and ending.
    pub ended: Vec<(TeamName, Kind, Ending, u64)>,
    /// How long the tasks of each team waited from acceptance to lease.
    pub waited: Vec<(TeamName, Waited)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    pub count: u64,
    pub sum: Duration,
    /// How many waited no longer than each of [`WAITED`], and longer than the one before it.
    pub within: [u64; WAITED.len()],
}

/// What waiting is measured against.
pub const WAITED: [Duration; 7] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(60 * 60),
];

impl Waited {
    pub(super) fn add(&mut self, waited: Duration) {
        self.count += 1;
        self.sum += waited;
        let place = WAITED.partition_point(|bound| *bound < waited);
        if let Some(within) = self.within.get_mut(place) {
            *within += 1;
        }
    }
}

/// Fact: a task was leased to its team. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Leased {
    /// The task, with its lease.
    pub task: Task,
    pub lease: LeaseId,
    /// It joins the turn that is running in its lane.
    pub joins: bool,
    /// Something waits in the lane's inbox.
    pub inbox: bool,
    /// Tasks that joined its turn before that was set aside, with their leases.
    pub company: Vec<(Task, LeaseId)>,
}

/// Fact: a team has a lease.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Taken {
    pub task: TaskId,
    pub lease: LeaseId,
}

/// Fact: a task waits behind the running turn of its lane.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Waiting {
    pub task: Task,
}

/// Order to a team: stop the running turn of a lane.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Stop {
    pub lane: Lane,
    /// Only if it works on this task.
    pub task: Option<TaskId>,
    /// Why, for whoever asked for the work.
    pub reason: Option<String>,
}

/// Fact: a task has its outcome. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Ended {
    pub task: TaskId,
    pub kind: Kind,
    pub team: TeamName,
}

/// Something was put into a lane's inbox. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Told(pub(crate) LaneKey);

/// The limit of turns at a time has changed.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Allow {
    /// Turns at a time, in all.
    pub running: usize,
}

/// Fact about work that came from a channel, for whoever keeps count of topics.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub enum Progressed {
    /// It could not be accepted; nothing was stored.
    Refused {
        task: Task,
        full: Full,
    },
    Started(Origin),
    /// It waits again.
    Returned(Origin),
    Ended {
        task: Task,
        ending: Ending,
        was_running: bool,
    },
}

/// Where work came from.
#[derive(Clone, Debug)]
pub struct Origin {
    pub channel: ChannelId,
    /// The topic, in a team that works in topics.
    pub topic: Option<TopicId>,
}

impl Origin {
    /// That of a task; none if it came from no channel.
    pub(crate) fn of(task: &Task) -> Option<Self> {
        let channel = task.source.as_ref()?.channel.clone();
        Some(Self { channel, topic: task.lane.topic.clone() })
    }
}

/// Who hears of what happens in the queue.
#[derive(Clone)]
pub struct Listeners {
    /// Gets leases, and hints for running turns.
    pub leased: Recipient<Leased>,
    /// Hears of tasks behind a running turn.
    pub waiting: Recipient<Waiting>,
    pub stop: Recipient<Stop>,
    pub dismiss: Recipient<Dismiss>,
    /// Keeps count of topics.
    pub progressed: Recipient<Progressed>,
    /// Hear of the end of tasks.
    pub ended: Vec<Recipient<Ended>>,
    /// Keeps what tasks cost as long as they are open.
    pub ledger: Ledger,
}
