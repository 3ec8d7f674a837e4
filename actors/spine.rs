//! The spine, assembled: the one place where the actors are introduced to each other.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use actix::{Addr, ArbiterHandle, AsyncContext, Context};

use crate::{
    approvals::{
        self, Approvals,
        ports::{Deciders, SecretSink},
        question::Question,
        record::{Approval, Digester, Status},
        records,
        requests::RequestBuilder,
    },
    archive::Shelf,
    audit::{self, Audit},
    briefing::{Briefing, OnHindrance},
    budget::{
        Cost, Day, Days, Ledger, Request, SpentRow, Tally,
        records::{self as spending, Raised},
    },
    channel::{self, Channel, records::OutboxRow},
    classifier::Classifier,
    clock::{Clock, Timestamp},
    conversation_log::{self, ConversationEntry},
    file,
    ids::{ChannelId, Ids, TeamKey, TeamName},
    inbox, interactions,
    journal::{self, records::Piece},
    live::Publisher,
    meter::Meter,
    notice::{self, Notice},
    org::{
        self, Org,
        belongings::Belongings,
        folders::Folders,
        record::{TeamRecord, TeamState},
        tree::Tree,
        view::OrgView,
    },
    plugin, quarantine,
    queue::{Left, Listeners, Queue, schedule::Limits},
    retention::{self, Retention, terms::Keeping},
    router::{
        self, Neighbours, Recovered, Router,
        audit::AuditRow,
        grants::Grants,
        records::{self as conversations, MessageRow, Undecided},
    },
    scheduler::{self, Scheduler, index::MessageTriggers, records::Payload, run::Run},
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan, scan_keyed},
        records::Record,
        redact::Texts,
    },
    supervisor::{Directory, Supervisor},
    task::{
        self,
        records::{EndedTask, FinishedTask},
    },
    team::context::Recipe,
    tool::records::Answer,
};

/// A team with nothing to do for this long is put away.
const TEAM_IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// Tools that do not stop when told are aborted after this.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A turn that cannot be prepared within this, on a disk that does not answer, is tried again.
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(60);
/// A team that does not answer within this is replaced.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

pub struct Ports {
    pub briefing: Arc<dyn Briefing>,
    pub classifier: Arc<dyn Classifier>,
    pub clock: Arc<dyn Clock>,
    pub ids: Ids,
    /// Told of turns that wait for settings to be put right.
    pub on_hindrance: OnHindrance,
    pub ledger: Ledger,
    pub days: Arc<dyn Days>,
    /// Where secrets go that a person is asked for.
    pub secrets: Arc<dyn SecretSink>,
    /// Makes the digest of what a person decides on.
    pub digester: Digester,
    /// What was decided on in advance.
    pub grants: approvals::grants::Grants,
    pub deciders: Deciders,
    /// How long a decision is waited for.
    pub approvals_last: Duration,
    /// Channels of chat networks in which all that waits for a person is shown.
    pub shown_in: Vec<ChannelId>,
    pub meter: Arc<dyn Meter>,
    pub folders: Arc<dyn Folders>,
    /// What goes with a team when it is shut down.
    pub belongings: Arc<[Arc<dyn Belongings>]>,
    pub triggers: scheduler::Ports,
    pub retention: Arc<dyn Keeping>,
}

/// The threads that teams run on, beside the one that the rest of the spine is started on.
pub struct Threads {
    pub teams: Vec<ArbiterHandle>,
    /// A team that does not answer within this is replaced, on another thread if there is one.
    pub answers_within: Duration,
}

/// Handles to the actors of the spine, which may be made use of before these run: what they are told waits for them.
#[derive(Clone)]
pub struct Spine {
    pub router: Addr<Router>,
    pub channel: Addr<Channel>,
    pub queue: Addr<Queue>,
    pub approvals: Addr<Approvals>,
    pub scheduler: Addr<Scheduler>,
    pub retention: Addr<Retention>,
    pub supervisor: Addr<Supervisor>,
    pub store: StoreHandle,
    pub directory: Directory,
    pub org: Addr<Org>,
    pub view: OrgView,
    pub live: Publisher,
}

/// Contexts of the actors that do not run yet. Their addresses are in the [`Spine`], so that each can know all others.
#[derive(Default)]
#[must_use = "nothing runs before `start`"]
pub struct Contexts {
    router: Context<Router>,
    channel: Context<Channel>,
    queue: Context<Queue>,
    approvals: Context<Approvals>,
    scheduler: Context<Scheduler>,
    retention: Context<Retention>,
    supervisor: Context<Supervisor>,
    org: Context<Org>,
}

/// Where the records of the spine hold words: what redaction looks through.
pub const TEXTS: &[&[Texts]] = &[
    task::records::TEXTS,
    journal::records::TEXTS,
    inbox::TEXTS,
    router::records::TEXTS,
    channel::records::TEXTS,
    interactions::TEXTS,
    conversation_log::TEXTS,
    file::records::TEXTS,
    notice::TEXTS,
    quarantine::TEXTS,
    approvals::records::TEXTS,
    plugin::records::TEXTS,
    audit::TEXTS,
    scheduler::records::TEXTS,
];

/// Kinds of records that move to the archive. They are written once, or seldom changed, and only read on their own or
/// in the order of their keys.
pub const SHELVES: &[Shelf] = &[
    Shelf::indexed(FinishedTask::KIND, task::records::index),
    Shelf::of(EndedTask::KIND),
    Shelf::indexed(Piece::KIND, journal::records::index),
    Shelf::of(Answer::<()>::KIND),
    Shelf::of(MessageRow::KIND),
    // Frames are not over until they are dropped, but few are ever read again.
    Shelf::of(OutboxRow::KIND),
    Shelf::indexed(ConversationEntry::KIND, conversation_log::index),
    Shelf::of(Audit::KIND),
    Shelf::of(AuditRow::KIND),
    Shelf::of(Notice::KIND),
    Shelf::of(Approval::KIND),
    Shelf::of(Question::KIND),
    Shelf::of(Run::KIND),
    Shelf::of(Payload::KIND),
];

/// What a former process left behind. Reads the whole of it: done once, before anything is served.
pub fn recover(storage: &dyn Storage) -> Result<Recovered, StorageError> {
    let (tasks, lost) = quarantine::open_tasks(storage)?;
    let undecided = scan::<Undecided>(storage, Range::all())?;
    let mut channels = HashMap::new();
    let with_tasks =
        tasks.iter().filter_map(|task| task.source.as_ref()).map(|source| &source.channel);
    let with_messages = undecided.iter().map(|message| &message.channel);
    for id in with_tasks.chain(with_messages) {
        if channels.contains_key(id) {
            continue;
        }
        // All of it: a topic with open work is not over, however old.
        match conversations::channel(storage, id, Timestamp::default()) {
            Ok(Some(history)) => drop(channels.insert(id.clone(), history)),
            Ok(None) | Err(StorageError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let approvals = approvals::records::Recovered::read(storage, &tasks)?;
    let triggers = scheduler::records::recover(storage, &tasks)?;
    Ok(Recovered {
        tasks,
        lost,
        undecided,
        channels,
        causes: scan_keyed(storage, Range::all())?,
        inboxes: inbox::lanes(storage)?,
        approvals,
        grants: grants(storage),
        teams: scan(storage, Range::all())?,
        triggers,
        retained_at: retention::last(storage)?.map(|done| done.at),
    })
}

/// What teams have spent today, and what the operator has allowed beyond the caps. Blocks.
pub fn recover_spending(
    storage: &dyn Storage,
    ledger: &Ledger,
    day: Day,
    tree: &Tree,
) -> Result<(), StorageError> {
    let mut called: HashMap<TeamKey, Tally> = HashMap::new();
    spending::each_call(storage, day.number, day.number, &mut |_, caller, tally| {
        *called.entry(caller.team.clone()).or_default() += tally;
        ledger.recover_calls(caller, tally, day);
    })?;
    let lives = |team: &TeamKey| tree.key(team.name.as_str()).as_ref() == Some(team);
    let above = |team: &TeamName| -> Vec<TeamName> {
        tree.ancestors(team.as_str()).into_iter().rev().collect()
    };
    for (team, row) in spending::of_day::<SpentRow>(storage, day)? {
        let mut own = row.own;
        let living = lives(&team).then_some(&team.name);
        if let Some(tally) = called.remove(&team) {
            // Both are noted for a team with a budget.
            own.usd = own.usd.max(tally.spent().usd);
            own.tokens = own.tokens.max(tally.spent().tokens);
        }
        let above = row.above.unwrap_or_else(|| above(&team.name));
        ledger.recover(living, &above, own, day);
    }
    // A team that is gone has no row if it had no budget, and nobody knows what was above it.
    for (team, tally) in called.into_iter().filter(|(team, _)| lives(team)) {
        ledger.recover(Some(&team.name), &above(&team.name), tally.spent(), day);
    }
    for (team, Raised(times)) in spending::of_day(storage, day)? {
        if lives(&team) {
            ledger.recover_raise(&team.name, times, day);
        }
    }
    for team in spending::warned(storage, day)? {
        ledger.recover_warning(&team, day);
    }
    let mut paid = HashSet::new();
    for cost in scan::<Cost>(storage, Range::all())? {
        ledger.recover_task(&cost);
        paid.extend(cost.tasks);
    }
    // What was allowed for a day is noted by the day, what was allowed for a task only in the decision. There may be many
    // of those, and most starts find no work that has cost something.
    if !paid.is_empty() {
        records::each::<Approval>(storage, &mut |approval| {
            let request = approval.budget_request().filter(|_| approval.status == Status::Approved);
            let of_open_work =
                |request: &Request| request.task.as_ref().is_some_and(|task| paid.contains(task));
            if let Some(request) = request.filter(of_open_work) {
                ledger.raise(&request, day);
            }
        })?;
    }
    // Behind what was allowed: somebody may have asked once more since.
    for approval in records::waiting::<Approval>(storage)? {
        if let Some(request) = approval.budget_request() {
            ledger.asks(&request.team, request.task.as_ref(), day);
        }
    }
    Ok(())
}

/// Who is trusted by name. If that cannot be read nobody is, and it is tried again later.
fn grants(storage: &dyn Storage) -> Grants {
    conversations::grants(storage).unwrap_or_else(|error| {
        tracing::error!(%error, "grants of trust cannot be read: nobody is let in by name until they can");
        Grants::unreadable()
    })
}

impl Spine {
    /// The spine around a store that runs, and tells the same publisher of what became durable.
    pub fn new(store: StoreHandle, view: OrgView, live: Publisher) -> (Self, Contexts) {
        let contexts = Contexts::default();
        let spine = Self {
            router: contexts.router.address(),
            channel: contexts.channel.address(),
            queue: contexts.queue.address(),
            approvals: contexts.approvals.address(),
            scheduler: contexts.scheduler.address(),
            retention: contexts.retention.address(),
            supervisor: contexts.supervisor.address(),
            store,
            directory: Directory::default(),
            org: contexts.org.address(),
            view,
            live,
        };
        (spine, contexts)
    }

    fn approvals(
        &self,
        ports: &Ports,
        requests: &RequestBuilder,
        left: approvals::records::Recovered,
    ) -> Approvals {
        let neighbours = approvals::Neighbours {
            store: self.store.clone(),
            channel: self.channel.clone(),
            queue: self.queue.clone().recipient(),
            resolved: self.queue.clone().recipient(),
            secrets: ports.secrets.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            requests: requests.clone(),
            grants: ports.grants.clone(),
            deciders: ports.deciders.clone(),
            ledger: ports.ledger.clone(),
            days: ports.days.clone(),
        };
        Approvals::new(neighbours, left)
    }

    fn queue(&self, ports: &Ports, limits: Limits, left: Left) -> Queue {
        let supervisor = &self.supervisor;
        let listeners = Listeners {
            leased: supervisor.clone().recipient(),
            waiting: supervisor.clone().recipient(),
            stop: supervisor.clone().recipient(),
            dismiss: supervisor.clone().recipient(),
            progressed: self.router.clone().recipient(),
            ended: vec![
                self.approvals.clone().recipient(),
                self.org.clone().recipient(),
                self.scheduler.clone().recipient(),
            ],
            ledger: ports.ledger.clone(),
        };
        let (clock, ids) = (ports.clock.clone(), ports.ids.clone());
        Queue::new(self.store.clone(), self.channel.clone(), clock, ids, limits, listeners, left)
    }

    fn org(&self, ports: &Ports, teams: Vec<TeamRecord>) -> Org {
        let parts = org::Parts {
            store: self.store.clone(),
            work: Arc::new(self.queue.clone()),
            channel: self.channel.clone().recipient(),
            folders: ports.folders.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            view: self.view.clone(),
            belongings: ports.belongings.clone(),
        };
        Org::new(parts, teams)
    }

    fn supervisor(&self, ports: Ports, requests: RequestBuilder, threads: Threads) -> Supervisor {
        let recipe = Recipe {
            store: self.store.clone(),
            channel: self.channel.clone(),
            clock: ports.clock,
            ids: ports.ids,
            briefing: ports.briefing,
            on_hindrance: ports.on_hindrance,
            requests,
            approvals: self.approvals.clone().recipient(),
            view: self.view.clone(),
            ledger: ports.ledger,
            days: ports.days,
            meter: ports.meter,
            live: self.live.clone(),
            idle: TEAM_IDLE_TIMEOUT,
            grace: GRACE,
            preparation: PREPARATION_TIMEOUT,
            answers_within: threads.answers_within,
        };
        let degraded = self.org.clone().recipient();
        Supervisor::new(self.queue.clone(), recipe, self.directory.clone(), threads.teams, degraded)
    }
}

impl Contexts {
    /// Starts all actors. They begin at once with what was recovered.
    pub fn start(
        self,
        spine: &Spine,
        ports: Ports,
        threads: Threads,
        limits: Limits,
        settings: router::Settings,
        mut recovered: Recovered,
    ) {
        let Spine { store, channel, .. } = spine;
        let (clock, ids) = (&ports.clock, &ports.ids);
        let way_out = Channel::new(store.clone(), clock.clone(), ids.clone());
        self.channel.run(way_out.publishing(spine.live.clone()));
        quarantine::Keeper {
            store: store.clone(),
            channel: channel.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
        }
        .start();
        let requests = RequestBuilder::new(ids.clone(), ports.digester, ports.approvals_last);
        requests.show_in(ports.shown_in.clone());
        let waiting = std::mem::take(&mut recovered.approvals);
        self.approvals.run(spine.approvals(&ports, &requests, waiting));
        let message_triggers = MessageTriggers::default();
        let neighbours = scheduler::Neighbours {
            queue: spine.queue.clone(),
            store: store.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            ports: ports.triggers.clone(),
        };
        let triggers = std::mem::take(&mut recovered.triggers);
        self.scheduler.run(Scheduler::new(neighbours, message_triggers.clone(), triggers));
        self.retention.run(Retention {
            store: store.clone(),
            clock: clock.clone(),
            calendar: ports.triggers.calendar.clone(),
            timezone: ports.triggers.timezone.clone(),
            keeping: ports.retention.clone(),
            last: recovered.retained_at,
            running: None,
        });
        let neighbours = Neighbours {
            store: store.clone(),
            queue: spine.queue.clone(),
            approvals: spine.approvals.clone(),
            channel: channel.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            classifier: ports.classifier.clone(),
            message_triggers,
            triggers: spine.scheduler.clone().recipient(),
        };
        let router = Router::new(neighbours, settings, &mut recovered);
        let left = left(&mut recovered, spine.view.clone());
        self.org.run(spine.org(&ports, recovered.teams));
        self.router.run(router);
        self.queue.run(spine.queue(&ports, limits, left));
        self.supervisor.run(spine.supervisor(ports, requests, threads));
    }
}

/// What the queue goes on with.
fn left(recovered: &mut Recovered, teams: OrgView) -> Left {
    Left {
        open: std::mem::take(&mut recovered.tasks),
        lost: std::mem::take(&mut recovered.lost),
        causes: std::mem::take(&mut recovered.causes),
        inboxes: std::mem::take(&mut recovered.inboxes),
        paused: in_state(&recovered.teams, TeamState::Paused),
        resting: resting(&recovered.teams),
        draining: in_state(&recovered.teams, TeamState::Draining),
        teams,
    }
}

fn resting(teams: &[TeamRecord]) -> Vec<(TeamName, Timestamp)> {
    let degraded = teams.iter().filter(|team| team.state == TeamState::Degraded);
    degraded.filter_map(|team| Some((team.name.clone(), team.rested_at?))).collect()
}

fn in_state(teams: &[TeamRecord], state: TeamState) -> Vec<TeamName> {
    let meant = teams.iter().filter(|team| team.state == state);
    meant.map(|team| team.name.clone()).collect()
}
