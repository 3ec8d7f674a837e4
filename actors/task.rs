//! Task: the durable unit of work, the same for all that is asked of a team.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use self::{
    cause::Cause,
    outcome::{Ending, Outcome},
};
use crate::{
    admission::Admission,
    clock::Timestamp,
    file::FileRef,
    ids::{ChannelId, LeaseId, MAIN, MessageId, RunId, TaskId, TeamKey, TeamName, TopicId},
    thinking::Thinking,
    words,
};

pub mod cause;
pub mod ended;
pub mod ending;
pub mod outcome;
pub mod query;
pub mod records;

/// How many model calls a task may be given.
pub const STEPS: RangeInclusive<u32> = 1..=500;
/// A task is tried this often before it is given up as [`Ending::Dead`].
pub const MAX_ATTEMPTS: u32 = 3;

/// Where work is serial: one turn at a time runs in a lane.
///
/// The main team has a lane for each topic, every other team has one.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Lane {
    /// The team that works.
    pub team: TeamName,
    /// The topic, in the main team.
    pub topic: Option<TopicId>,
}

impl Lane {
    /// The name of its session, for a life of its team: `main:t-0123456789abcdef`, `ops~2:main`.
    pub fn session_id(&self, generation: u32) -> String {
        let topic = self.topic.as_ref().map_or("main", TopicId::as_str);
        match generation {
            1 => format!("{}:{topic}", self.team),
            later => format!("{}~{later}:{topic}", self.team),
        }
    }

    /// The lane behind the name of a session, and the life of its team.
    pub fn of_session(id: &str) -> Option<(Self, u32)> {
        let (team, topic) = id.split_once(':')?;
        let (team, generation) = match team.split_once('~') {
            Some((team, later)) => (team, later.parse().ok().filter(|later| *later > 1)?),
            None => (team, 1),
        };
        let topic = (topic != "main").then(|| topic.into());
        let lane = Self { team: team.into(), topic };
        Some((lane, generation))
    }
}

/// A topic as frames show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicRef {
    pub id: TopicId,
    /// Its name at that time.
    pub name: String,
}

/// Where the work comes from, and so where its result goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The channel that gets the answer.
    pub channel: ChannelId,
    /// The message being answered. Work that no message waits for ends in a notification.
    pub message: Option<MessageId>,
    pub topic: Option<TopicRef>,
    /// Another channel that hears of the work: all but the answer goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<ChannelId>,
}

impl Source {
    /// A channel, with no message that waits for an answer.
    pub fn channel(channel: ChannelId) -> Self {
        Self { channel, message: None, topic: None, notify: None }
    }

    /// Where what comes of this work belongs, beside its answer.
    pub fn of_what_follows(&self) -> Self {
        match &self.notify {
            // The topic is one of the channel that gets the answer.
            Some(channel) => Self::channel(channel.clone()),
            None => self.clone(),
        }
    }
}

words! {
    /// What kind of work a task is.
    #[derive(Default)]
    #[schemars(rename = "TaskKind")]
    pub enum Kind {
        /// A message of a person.
        #[default]
        Chat = "chat",
        /// Work that a team gave to its child.
        Delegate = "delegate",
        /// A question that a team asks and waits for.
        Query = "query",
        /// Work that a trigger started.
        Trigger = "trigger",
        /// A problem that a team hands up.
        Escalation = "escalation",
        /// The first work of a new team.
        Bootstrap = "bootstrap",
        /// Words of another team.
        Message = "message",
        /// Work that a team hands up.
        Handoff = "handoff",
        /// The end of other work, told to whoever asked for it.
        Result = "result",
        /// The work of a subagent, within its team.
        Agent = "agent",
        /// A summary of what was said in its lane.
        Compact = "compact",
    }
}

impl Kind {
    /// Someone sits and waits for it: where other work would wait until settings are cured, this fails.
    pub fn is_awaited(self) -> bool {
        matches!(self, Self::Chat | Self::Query | Self::Agent | Self::Compact)
    }
}

words! {
    /// Which of a team's waiting tasks goes first.
    #[derive(Default)]
    pub enum Priority {
        /// Before all others.
        Critical = "critical",
        /// Someone waits for it.
        High = "high",
        /// As it comes.
        #[default]
        Normal = "normal",
        /// When there is nothing else.
        Low = "low",
    }
}

/// What the end of a task does for whoever asked for it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OnResult {
    /// The person is told, and the lane that asked finds it in its inbox. No model is called.
    #[default]
    Notify,
    /// The lane that asked gets a task with it.
    Wake,
    /// The lane that asked finds it in its inbox.
    Silent,
}

/// A team that learns looks back at its work, in one of two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cycle {
    /// It keeps what will make the next work better.
    Learning,
    /// It proposes one change of a skill or rule.
    Reflection,
}

/// How a turn on this task differs from others of its team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Who of the team does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_timeout_ms: Option<u64>,
    /// The profile whose model works, if not the team's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// How much the model thinks, if not as its team says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The team looks back at its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Cycle>,
    /// It joins the turn that runs, whatever its team does with other messages.
    #[serde(skip_serializing_if = "is_default")]
    pub steers: bool,
}

words! {
    /// How far what a task contains may be believed.
    #[derive(Default)]
    pub enum Label {
        /// From people and teams that are known.
        #[default]
        Trusted = "trusted",
        /// Something in it comes from elsewhere.
        Untrusted = "untrusted",
    }
}

impl Label {
    /// Whether nothing in it comes from elsewhere.
    pub fn is_trusted(&self) -> bool {
        *self == Self::Trusted
    }
}

/// Who may be shown what comes of a task: whoever is behind it, in the channel and topic that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience {
    cause: Cause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channel: Option<ChannelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<TopicId>,
}

impl Audience {
    /// Of work with somebody behind it, which belongs somewhere.
    pub fn new(cause: Cause, source: Option<&Source>) -> Self {
        Self {
            cause,
            channel: source.map(|source| source.of_what_follows().channel),
            topic: source.and_then(|source| Some(source.topic.as_ref()?.id.clone())),
        }
    }

    /// Everyone: no person is behind it, and it belongs to no channel.
    pub fn is_everyone(&self) -> bool {
        self.cause == Cause::System && self.channel.is_none()
    }

    /// What is for this audience may be shown to another.
    pub fn includes(&self, other: &Self) -> bool {
        self.is_everyone() || (self.is_of_person_behind(other) && self.is_in_place_of(other))
    }

    pub fn is_of_person_behind(&self, other: &Self) -> bool {
        self.cause.identity() == other.cause.identity()
    }

    /// No person is behind it.
    pub fn is_of_nobody(&self) -> bool {
        self.cause == Cause::System
    }

    /// Both belong to the same channel and topic.
    fn is_in_place_of(&self, other: &Self) -> bool {
        (&self.channel, &self.topic) == (&other.channel, &other.topic)
    }
}

/// Where a task stands in the work that one cause led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lineage {
    /// The first task of all.
    pub root: TaskId,
    /// The tasks from the first to the one that made this one.
    pub path: Vec<Ancestor>,
}

/// A task above another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ancestor {
    /// The task.
    pub task: TaskId,
    /// Whose it was.
    pub team: TeamName,
}

impl Lineage {
    /// How many tasks are above.
    pub fn hops(&self) -> usize {
        self.path.len()
    }

    pub fn parent(&self) -> Option<&TaskId> {
        self.path.last().map(|above| &above.task)
    }
}

words! {
    /// Why a turn that has begun does not go on.
    pub enum WaitReason {
        /// For an operator's decision on a call.
        Approval = "approval",
        /// For an answer.
        Question = "question",
        /// For money or tokens.
        Budget = "budget",
        /// For a provider that wants fewer requests.
        RateLimit = "rate_limit",
        /// For a provider that cannot be reached.
        ProviderDown = "provider_down",
        /// For a credential.
        Login = "login",
        /// For the team to be resumed.
        Paused = "paused",
        /// For a settings file to be cured.
        Config = "config",
        /// For another team.
        Query = "query",
    }
}

impl WaitReason {
    /// For a person who waits with it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Approval => "a person has to decide on a call",
            Self::Question => "a person has to answer a question",
            Self::Budget => "the budget is spent",
            Self::RateLimit => "the model's provider wants fewer requests",
            Self::ProviderDown => "the model's provider cannot be reached",
            Self::Login => "the model's provider takes no key that is configured",
            Self::Paused => "the team is paused",
            Self::Config => "the team's settings have to be mended",
            Self::Query => "another team has to answer",
        }
    }

    /// Whoever waits for this keeps its place: nothing of its lane would fare better meanwhile.
    pub fn holds_lane(self) -> bool {
        matches!(self, Self::RateLimit | Self::ProviderDown)
    }
}

/// A turn that cannot go on before something outside has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub reason: WaitReason,
    /// Why, in words for a person.
    pub note: String,
    /// It goes on then at the latest.
    pub until: Option<Timestamp>,
}

/// A task whose turn was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    pub reason: WaitReason,
    pub since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Which firing of a trigger a task serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    pub run: RunId,
    /// A request from outside made it fire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub webhook: bool,
}

/// Tasks that are collected and handed on by the thousand: one is large, and stays where it is.
pub type Tasks = Vec<Box<Task>>;

/// A unit of work for a lane, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    pub lane: Lane,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub generation: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub kind: Kind,
    /// How soon, among the tasks of its team.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// What is asked, in the words of whoever asked.
    pub body: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    pub from: String,
    /// Where the result goes.
    pub source: Option<Source>,
    /// The lane that asked, if a team did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Lane>,
    /// Which life of that lane's team asked.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub asker: u32,
    /// What its end does for that lane.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_result: OnResult,
    /// What is different about its turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: Options,
    /// The work it comes of; none is the first of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub label: Label,
    /// Who is behind it; none is whoever it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firing: Option<Firing>,
    /// How the message that it was got past the trust gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    pub created_at: Timestamp,
    /// Its place in the order of acceptance: clocks are too coarse for it. The queue gives it.
    #[serde(default)]
    pub arrival: u64,
    /// Not to be started earlier: set between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Past this it ends as [`Ending::Expired`].
    pub deadline_at: Timestamp,
    /// How often it was leased, drains not counted.
    pub attempts: u32,
    /// An earlier attempt was cut off: its journal may hold finished steps.
    pub redelivered: bool,
    /// The ack frame of its message has been stored.
    pub acked: bool,
    pub lease: Option<LeaseId>,
    /// Its turn was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<Parked>,
    /// The task whose turn has taken its words in: it goes on and ends well with that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_to: Option<TaskId>,
    /// Set once, at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

fn first() -> u32 {
    1
}

fn is_first(generation: &u32) -> bool {
    *generation == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A task without an end has a day.
pub const DEADLINE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

impl Task {
    /// A task that has just been accepted, of the kind that a person's message is.
    pub fn new(id: TaskId, lane: Lane, body: String, from: String, now: Timestamp) -> Self {
        Self {
            id,
            lane,
            generation: 1,
            kind: Kind::Chat,
            priority: Priority::Normal,
            body,
            files: Vec::new(),
            from,
            source: None,
            reply_to: None,
            asker: 1,
            on_result: OnResult::Notify,
            options: Options::default(),
            lineage: None,
            label: Label::Trusted,
            cause: None,
            firing: None,
            admission: None,
            created_at: now,
            arrival: 0,
            not_before: None,
            deadline_at: now + DEADLINE,
            attempts: 0,
            redelivered: false,
            acked: false,
            lease: None,
            parked: None,
            joined_to: None,
            outcome: None,
        }
    }

    /// Whether a person is told of an end of it, if no message waits for it.
    ///
    /// Trigger runs and the first work of a team have rules of their own, and whoever asks waits for
    /// queries and subagents.
    pub fn is_notified(&self, outcome: &Outcome) -> bool {
        let failed = !matches!(outcome.ending, Ending::Done | Ending::Cancelled);
        match self.kind {
            Kind::Query | Kind::Agent | Kind::Bootstrap | Kind::Trigger | Kind::Compact => false,
            _ => self.on_result == OnResult::Notify || failed,
        }
    }

    pub fn team(&self) -> TeamKey {
        TeamKey { name: self.lane.team.clone(), generation: self.generation }
    }

    /// The same, if that is not the main one.
    pub fn other_team(&self) -> Option<TeamName> {
        let team = &self.lane.team;
        (team.as_str() != MAIN).then(|| team.clone())
    }

    pub fn state(&self) -> TaskState {
        match &self.outcome {
            Some(outcome) => outcome.ending.into(),
            None => TaskState::of_open(self.parked.as_ref(), self.lease.as_ref()),
        }
    }

    /// The task whose turn waits for the answer to this question.
    pub fn awaited_by(&self) -> Option<&TaskId> {
        let line = self.lineage.as_ref();
        let is_awaited = self.kind == Kind::Query && self.outcome.is_none();
        line.and_then(Lineage::parent).filter(|_| is_awaited)
    }

    /// Who is behind it. Messages of former versions don't say by which kind of channel they came.
    pub fn caused_by(&self) -> Cause {
        let channel = self.source.as_ref().map(|source| &source.channel);
        let channel_type = channel.map_or("system", |channel| channel.channel_type());
        let sender = || Cause::sender(channel_type, &*self.from);
        self.cause.clone().unwrap_or_else(sender)
    }

    /// Who may be shown what comes of it.
    pub fn audience(&self) -> Audience {
        Audience::new(self.caused_by(), self.source.as_ref())
    }

    /// Whether it may join or end the running turn of its lane. Only a message of the same person in the same
    /// place may: a turn acts with the rights of whoever is behind it, and answers there. One with files does not: they
    /// are put into the workspace when a turn begins.
    pub fn may_steer(&self, behind: &Audience) -> bool {
        let own = self.audience();
        let is_near = self.lane.topic.is_some() || own.is_in_place_of(behind);
        let is_words = self.kind == Kind::Chat && self.files.is_empty();
        is_words && own.cause.acts_as(&behind.cause) && is_near
    }

    /// The first task of the work that it is part of.
    pub fn root(&self) -> &TaskId {
        self.lineage.as_ref().map_or(&self.id, |line| &line.root)
    }

    /// What the lineage of a task that this one makes is.
    pub fn lineage_below(&self) -> Lineage {
        let mut path = self.lineage.as_ref().map(|line| line.path.clone()).unwrap_or_default();
        path.push(Ancestor { task: self.id.clone(), team: self.lane.team.clone() });
        Lineage { root: self.root().clone(), path }
    }
}

words! {
    /// Where a task is.
    pub enum TaskState {
        /// It waits for its turn.
        Accepted = "accepted",
        /// A turn is at it.
        Running = "running",
        /// Its turn does not go on, see [`WaitReason`].
        Waiting = "waiting",
        /// It ended with an answer.
        Done = "done",
        /// It ended with a permanent error.
        Failed = "failed",
        /// A person or a newer message ended it.
        Cancelled = "cancelled",
        /// The clock ended it.
        Expired = "expired",
        /// Passing errors ended it, [`MAX_ATTEMPTS`] times.
        Dead = "dead",
    }
}

impl TaskState {
    /// The state of a task without an end.
    pub(crate) fn of_open(parked: Option<&Parked>, lease: Option<&LeaseId>) -> Self {
        match (parked, lease) {
            (Some(_), _) => Self::Waiting,
            (None, Some(_)) => Self::Running,
            (None, None) => Self::Accepted,
        }
    }

    /// Whether it has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Accepted | Self::Running | Self::Waiting)
    }
}

impl From<Ending> for TaskState {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::Done,
            Ending::Failed => Self::Failed,
            Ending::Cancelled => Self::Cancelled,
            Ending::Expired => Self::Expired,
            Ending::Dead => Self::Dead,
        }
    }
}
