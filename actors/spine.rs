//! The spine, assembled: the one place where the actors are introduced to each other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{Actor, Addr, ArbiterHandle, AsyncContext};

use crate::{
    approvals::{
        self, Approvals,
        deciders::Deciders,
        desk::Desk,
        record::{Digester, Status},
        records,
        secret::SecretSink,
    },
    audit,
    briefing::{Briefing, OnHindrance},
    budget::{
        Cost, Day, Days, Ledger, SpentRow, Tally,
        records::{self as spending, Raised},
    },
    channel::{self, Channel},
    classifier::Classifier,
    clock::{Clock, Timestamp},
    ids::{Ids, TeamKey, TeamName},
    inbox, interactions, journal,
    live::Publisher,
    meter::Meter,
    notice,
    org::{
        self, Org,
        folders::Folders,
        record::{TeamRecord, TeamState},
        tree::Tree,
        view::OrgView,
        work::Actors,
    },
    quarantine,
    queue::{Left, Listeners, Queue, schedule::Limits},
    router::{
        self, Neighbours, Recovered, Router,
        grants::Grants,
        records::{self as conversations, Undecided},
    },
    scheduler::{self, Scheduler, heard::Ears},
    storage::{Storage, StorageError},
    store::{
        OnFailure, OnGroup, Store, StoreHandle,
        reads::{Range, scan, scan_keyed},
        redact::Texts,
    },
    supervisor::{Directory, Supervisor},
    task,
    team::Recipe,
};

/// A team with nothing to do for this long is put away.
const TEAM_IDLE: Duration = Duration::from_secs(600);
/// Tools that do not stop when told are aborted after this.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// A turn that cannot be prepared within this, on a disk that does not answer, is tried again.
const PREPARATION: Duration = Duration::from_secs(60);
/// A team that does not answer within this is replaced.
pub const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// What the spine needs from outside.
pub struct Ports {
    /// The key space.
    pub storage: Arc<dyn Storage>,
    /// Told when nothing can be promised any more.
    pub on_store_failure: OnFailure,
    /// Told of each group of commits.
    pub on_store_group: OnGroup,
    /// Prepares turns.
    pub briefing: Arc<dyn Briefing>,
    /// A model's opinion on topics.
    pub classifier: Arc<dyn Classifier>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Ids,
    /// Told of turns that wait for settings to be put right.
    pub on_hindrance: OnHindrance,
    /// What teams have spent.
    pub ledger: Ledger,
    /// Which day it is.
    pub days: Arc<dyn Days>,
    /// Where secrets go that a person is asked for.
    pub secrets: Arc<dyn SecretSink>,
    /// Makes the digest of what a person decides on.
    pub digester: Digester,
    /// What was decided on in advance.
    pub grants: approvals::grants::Grants,
    /// How long a decision is waited for.
    pub approvals_last: Duration,
    /// Counts.
    pub meter: Arc<dyn Meter>,
    /// Tells what happens to whoever watches.
    pub live: Publisher,
    /// The folders of teams.
    pub folders: Arc<dyn Folders>,
    /// Where the organisation is to be seen by those who are there before it.
    pub view: OrgView,
    /// What triggers need.
    pub triggers: scheduler::Ports,
}

/// The threads that the spine runs on, beside the one it is started on.
pub struct Threads {
    /// For the store alone.
    pub store: ArbiterHandle,
    /// For teams.
    pub teams: Vec<ArbiterHandle>,
    /// A team that does not answer within this is replaced, on another thread if there is one.
    pub answers_within: Duration,
}

/// The running spine.
#[derive(Clone)]
pub struct Spine {
    /// The way in.
    pub router: Addr<Router>,
    /// The way out.
    pub channel: Addr<Channel>,
    /// Durable work.
    pub queue: Addr<Queue>,
    /// What waits for a person.
    pub approvals: Addr<Approvals>,
    /// Triggers.
    pub scheduler: Addr<Scheduler>,
    /// Who lives.
    pub supervisor: Addr<Supervisor>,
    /// The journal.
    pub store: StoreHandle,
    /// The teams that live now.
    pub directory: Directory,
    /// Who is above whom.
    pub org: Addr<Org>,
    /// The same, to look at.
    pub view: OrgView,
    /// What happens, for whoever watches.
    pub live: Publisher,
    /// Who may decide on approvals: for whoever knows it.
    pub deciders: Deciders,
}

/// Where the records of the spine hold words: what redaction looks through.
pub const TEXTS: &[&[Texts]] = &[
    task::records::TEXTS,
    journal::records::TEXTS,
    inbox::TEXTS,
    router::records::TEXTS,
    channel::records::TEXTS,
    interactions::TEXTS,
    notice::TEXTS,
    quarantine::TEXTS,
    approvals::records::TEXTS,
    audit::TEXTS,
    scheduler::records::TEXTS,
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
        match conversations::channel(storage, id) {
            Ok(Some(history)) => drop(channels.insert(id.clone(), history)),
            Ok(None) | Err(StorageError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let approvals = approvals::recover::Recovered::read(storage, &tasks)?;
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
        triggers: scheduler::records::recover(storage)?,
    })
}

/// What teams have spent today, and what the operator has allowed beyond the caps. Blocks.
pub fn recover_spending(
    storage: &dyn Storage,
    ledger: &Ledger,
    day: Day,
    tree: &Tree,
) -> Result<(), StorageError> {
    let mut called: HashMap<TeamName, Tally> = HashMap::new();
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
        if let Some(tally) = living.and_then(|team| called.remove(team)) {
            // Both are noted for a team with a budget.
            own.usd = own.usd.max(tally.spent().usd);
            own.tokens = own.tokens.max(tally.spent().tokens);
        }
        let above = row.above.unwrap_or_else(|| above(&team.name));
        ledger.recover(living, &above, own, day);
    }
    for (team, tally) in called {
        ledger.recover(Some(&team), &above(&team), tally.spent(), day);
    }
    for (team, Raised(times)) in spending::of_day(storage, day)? {
        if lives(&team) {
            ledger.recover_raise(&team.name, times, day);
        }
    }
    for approval in records::approvals(storage)? {
        let Some(request) = approval.budget_request() else {
            continue;
        };
        match approval.status {
            Status::Pending => {
                ledger.asks(&request.team, request.task.as_ref(), day);
            }
            // What was allowed for a day is noted by the day.
            Status::Approved if request.task.is_some() => {
                ledger.raise(&request, day);
            }
            _ => {}
        }
    }
    for team in spending::warned(storage, day)? {
        ledger.recover_warning(&team, day);
    }
    for cost in scan::<Cost>(storage, Range::all())? {
        ledger.recover_task(&cost);
    }
    Ok(())
}

/// Who is trusted by name. If that cannot be read nobody is, and it is tried again later.
fn grants(storage: &dyn Storage) -> Grants {
    conversations::grants(storage).unwrap_or_else(|error| {
        tracing::error!(%error, "grants of trust cannot be read: nobody is let in");
        Grants::unreadable()
    })
}

impl Spine {
    /// Starts all actors. They begin at once with what was recovered.
    pub fn start(
        ports: Ports,
        threads: Threads,
        limits: Limits,
        settings: router::Settings,
        mut recovered: Recovered,
    ) -> Self {
        let storage = ports.storage;
        let store = Store::start(
            &threads.store,
            storage.clone(),
            ports.on_store_failure,
            ports.on_store_group,
        );
        store.publish_to(ports.live.clone());
        let channel = Channel::new(store.clone(), ports.clock.clone(), ports.ids.clone())
            .publishing(ports.live.clone())
            .start();
        let keeper = quarantine::Keeper {
            store: store.clone(),
            channel: channel.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
        };
        keeper.start(storage);
        let directory = Directory::default();
        let desk = Desk::new(ports.ids.clone(), ports.digester, ports.approvals_last);
        let deciders = Deciders::default();
        // Each of these knows another: their addresses exist before they do.
        let mut queue = None;
        let mut router = None;
        let mut approvals = None;
        let mut org = None;
        let mut scheduler = None;
        let supervisor = Supervisor::create(|supervisor| {
            let left = Left {
                open: recovered.tasks.clone(),
                lost: std::mem::take(&mut recovered.lost),
                causes: std::mem::take(&mut recovered.causes),
                inboxes: std::mem::take(&mut recovered.inboxes),
                paused: in_state(&recovered.teams, TeamState::Paused),
                resting: resting(&recovered.teams),
                draining: in_state(&recovered.teams, TeamState::Draining),
                teams: ports.view.clone(),
            };
            let triggers = std::mem::take(&mut recovered.triggers);
            let waiting = std::mem::take(&mut recovered.approvals);
            let teams = std::mem::take(&mut recovered.teams);
            let queue_address = Queue::create(|queue| {
                let approvals_address = Approvals::new(
                    approvals::Neighbours {
                        store: store.clone(),
                        channel: channel.clone(),
                        queue: queue.address().recipient(),
                        resolved: queue.address().recipient(),
                        secrets: ports.secrets,
                        clock: ports.clock.clone(),
                        ids: ports.ids.clone(),
                        desk: desk.clone(),
                        grants: ports.grants,
                        deciders: deciders.clone(),
                        ledger: ports.ledger.clone(),
                        days: ports.days.clone(),
                    },
                    waiting,
                )
                .start();
                let ears = Ears::default();
                let neighbours = scheduler::Neighbours {
                    queue: queue.address(),
                    store: store.clone(),
                    clock: ports.clock.clone(),
                    ids: ports.ids.clone(),
                    ports: ports.triggers,
                };
                let scheduler_address = Scheduler::new(neighbours, ears.clone(), triggers).start();
                let neighbours = Neighbours {
                    store: store.clone(),
                    queue: queue.address(),
                    approvals: approvals_address.clone(),
                    channel: channel.clone(),
                    clock: ports.clock.clone(),
                    ids: ports.ids.clone(),
                    classifier: ports.classifier,
                    ears,
                    triggers: scheduler_address.clone().recipient(),
                };
                let parts = org::Parts {
                    store: store.clone(),
                    work: Arc::new(Actors { queue: queue.address() }),
                    channel: channel.clone().recipient(),
                    folders: ports.folders,
                    clock: ports.clock.clone(),
                    ids: ports.ids.clone(),
                    view: ports.view.clone(),
                };
                let org_address = Org::new(parts, teams).start();
                let router_address = Router::new(neighbours, settings, recovered).start();
                let listeners = Listeners {
                    leased: supervisor.address().recipient(),
                    waiting: supervisor.address().recipient(),
                    stop: supervisor.address().recipient(),
                    dismiss: supervisor.address().recipient(),
                    progressed: router_address.clone().recipient(),
                    ended: vec![
                        approvals_address.clone().recipient(),
                        org_address.clone().recipient(),
                        scheduler_address.clone().recipient(),
                    ],
                    ledger: ports.ledger.clone(),
                };
                router = Some(router_address);
                approvals = Some(approvals_address);
                org = Some(org_address);
                scheduler = Some(scheduler_address);
                Queue::new(
                    store.clone(),
                    channel.clone(),
                    ports.clock.clone(),
                    ports.ids.clone(),
                    limits,
                    listeners,
                    left,
                )
            });
            queue = Some(queue_address.clone());
            let (opened, degraded) = match (&approvals, &org) {
                (Some(approvals), Some(org)) => {
                    (approvals.clone().recipient(), org.clone().recipient())
                }
                _ => unreachable!("created with the queue"),
            };
            let recipe = Recipe {
                store: store.clone(),
                channel: channel.clone(),
                clock: ports.clock.clone(),
                ids: ports.ids.clone(),
                briefing: ports.briefing,
                on_hindrance: ports.on_hindrance,
                desk,
                approvals: opened,
                view: ports.view.clone(),
                ledger: ports.ledger,
                days: ports.days,
                meter: ports.meter,
                live: ports.live.clone(),
                idle: TEAM_IDLE,
                grace: GRACE,
                preparation: PREPARATION,
                answers_within: threads.answers_within,
            };
            Supervisor::new(queue_address, recipe, directory.clone(), threads.teams, degraded)
        });
        match (router, queue, approvals, org, scheduler) {
            (Some(router), Some(queue), Some(approvals), Some(org), Some(scheduler)) => Self {
                router,
                channel,
                queue,
                approvals,
                scheduler,
                supervisor,
                store,
                directory,
                org,
                view: ports.view,
                live: ports.live,
                deciders,
            },
            _ => unreachable!("all are created above"),
        }
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
