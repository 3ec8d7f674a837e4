//! The spine, assembled: the one place where the actors are introduced to each other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{Actor, Addr, ArbiterHandle, AsyncContext, Context, Recipient};

use crate::{
    approvals::{
        self, Approvals,
        deciders::Deciders,
        desk::Desk,
        record::{Digester, Status},
        secret::SecretSink,
    },
    briefing::{Briefing, OnHindrance},
    budget::{Day, Days, Ledger, Tally},
    channel::Channel,
    classifier::Classifier,
    clock::{Clock, Timestamp},
    ids::{Ids, TeamKey, TeamName},
    live::Publisher,
    meter::Meter,
    org::{
        self, Org,
        folders::Folders,
        record::{TeamRecord, TeamState},
        tree::Tree,
        view::OrgView,
        work::Actors,
    },
    quarantine,
    queue::{Ended, Left, Listeners, Queue, schedule::Limits},
    router::{self, Neighbours, Recovered, Router, grants::Grants},
    scheduler::{self, Scheduler, heard::Ears},
    storage::{Storage, StorageError},
    store::{OnFailure, OnGroup, Store, StoreHandle, accounts, reads, trust},
    supervisor::{Directory, Supervisor},
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

/// What a former process left behind. Reads the whole of it: done once, before anything is served.
pub fn recover(storage: &dyn Storage) -> Result<Recovered, StorageError> {
    let (tasks, lost) = quarantine::open_tasks(storage)?;
    let undecided = reads::undecided(storage)?;
    let teams = reads::teams(storage)?;
    let mut channels = HashMap::new();
    let with_tasks =
        tasks.iter().filter_map(|task| task.source.as_ref()).map(|source| &source.channel);
    let with_messages = undecided.rows.iter().map(|message| &message.channel);
    for id in with_tasks.chain(with_messages) {
        if channels.contains_key(id) {
            continue;
        }
        match reads::channel(storage, id) {
            Ok(Some(history)) => drop(channels.insert(id.clone(), history)),
            Ok(None) | Err(StorageError::Damaged { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let approvals = approvals::recover::Recovered::read(storage, &tasks)?;
    Ok(Recovered {
        tasks,
        lost,
        undecided: undecided.rows,
        channels,
        causes: reads::causes(storage)?,
        inboxes: reads::inboxes(storage)?,
        approvals,
        grants: grants(storage),
        teams: teams.rows,
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
    accounts::calls(storage, day.number, day.number, &mut |_, caller, tally| {
        *called.entry(caller.team.clone()).or_default() += tally;
        ledger.recover_calls(caller, tally, day);
    })?;
    let lives = |team: &TeamKey| tree.key(team.name.as_str()).as_ref() == Some(team);
    let above = |team: &TeamName| -> Vec<TeamName> {
        tree.ancestors(team.as_str()).into_iter().rev().collect()
    };
    for (team, row) in accounts::spent(storage, day)? {
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
    for (team, times) in accounts::raised(storage, day)? {
        if lives(&team) {
            ledger.recover_raise(&team.name, times, day);
        }
    }
    for approval in reads::approvals(storage)?.rows {
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
    for (team, _) in accounts::warned(storage, day)? {
        ledger.recover_warning(&team.name, day);
    }
    for cost in accounts::costs(storage)? {
        ledger.recover_task(&cost);
    }
    Ok(())
}

/// Who is trusted by name. If that cannot be read nobody is, and it is tried again later.
fn grants(storage: &dyn Storage) -> Grants {
    trust::grants(storage).unwrap_or_else(|error| {
        tracing::error!(%error, "grants of trust cannot be read: nobody is let in");
        Grants::unreadable()
    })
}

impl Spine {
    /// Starts all actors. They begin at once with what was recovered.
    ///
    /// Queue and supervisor are known to those they know: their contexts, and so their addresses, are
    /// there before they are.
    pub fn start(
        ports: Ports,
        threads: Threads,
        limits: Limits,
        settings: router::Settings,
        mut recovered: Recovered,
    ) -> Self {
        let queue_context = Context::<Queue>::new();
        let supervisor_context = Context::<Supervisor>::new();
        let (queue, supervisor) = (queue_context.address(), supervisor_context.address());

        let Ports { storage, clock, ids, live, view, ledger, days, .. } = ports;
        let (on_failure, on_group) = (ports.on_store_failure, ports.on_store_group);
        let store = Store::start(&threads.store, storage.clone(), on_failure, on_group);
        store.publish_to(live.clone());
        let channel = Channel::new(store.clone(), clock.clone(), ids.clone());
        let channel = channel.publishing(live.clone()).start();
        let directory = Directory::default();
        let deciders = Deciders::default();
        let desk = Desk::new(ids.clone(), ports.digester, ports.approvals_last);
        let shared = Shared { store, channel, queue, clock, ids, view, ledger, days, desk };

        shared.keeper().start(storage);
        let left = shared.left(&mut recovered);
        let waiting = std::mem::take(&mut recovered.approvals);
        let neighbours = shared.of_approvals(ports.secrets, ports.grants, deciders.clone());
        let approvals = Approvals::new(neighbours, waiting).start();
        let triggers = std::mem::take(&mut recovered.triggers);
        let (neighbours, ears) = (shared.of_scheduler(ports.triggers), Ears::default());
        let scheduler = Scheduler::new(neighbours, ears.clone(), triggers).start();
        let teams = std::mem::take(&mut recovered.teams);
        let org = Org::new(shared.of_org(ports.folders), teams).start();
        let neighbours = shared.of_router(&approvals, &scheduler, ports.classifier, ears);
        let router = Router::new(neighbours, settings, recovered).start();
        let ended = vec![
            approvals.clone().recipient(),
            org.clone().recipient(),
            scheduler.clone().recipient(),
        ];
        let listeners = shared.listeners(&supervisor, &router, ended);
        queue_context.run(shared.queue(limits, listeners, left));
        let Shared { store, channel, queue, clock, ids, view, ledger, days, desk } = shared;
        let recipe = Recipe {
            store: store.clone(),
            channel: channel.clone(),
            clock,
            ids,
            briefing: ports.briefing,
            on_hindrance: ports.on_hindrance,
            desk,
            approvals: approvals.clone().recipient(),
            view: view.clone(),
            ledger,
            days,
            meter: ports.meter,
            live: live.clone(),
            idle: TEAM_IDLE,
            grace: GRACE,
            preparation: PREPARATION,
            answers_within: threads.answers_within,
        };
        let (degraded, teams) = (org.clone().recipient(), threads.teams);
        let running = Supervisor::new(queue.clone(), recipe, directory.clone(), teams, degraded);
        supervisor_context.run(running);
        Self {
            router,
            channel,
            queue,
            approvals,
            scheduler,
            supervisor,
            store,
            directory,
            org,
            view,
            live,
            deciders,
        }
    }
}

/// What most actors are given: leaves, and ports that more than one of them uses.
struct Shared {
    store: StoreHandle,
    channel: Addr<Channel>,
    queue: Addr<Queue>,
    clock: Arc<dyn Clock>,
    ids: Ids,
    view: OrgView,
    ledger: Ledger,
    days: Arc<dyn Days>,
    desk: Desk,
}

impl Shared {
    fn keeper(&self) -> quarantine::Keeper {
        quarantine::Keeper {
            store: self.store.clone(),
            channel: self.channel.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        }
    }

    fn of_approvals(
        &self,
        secrets: Arc<dyn SecretSink>,
        grants: approvals::grants::Grants,
        deciders: Deciders,
    ) -> approvals::Neighbours {
        approvals::Neighbours {
            store: self.store.clone(),
            channel: self.channel.clone(),
            queue: self.queue.clone().recipient(),
            resolved: self.queue.clone().recipient(),
            secrets,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            desk: self.desk.clone(),
            grants,
            deciders,
            ledger: self.ledger.clone(),
            days: self.days.clone(),
        }
    }

    fn of_scheduler(&self, ports: scheduler::Ports) -> scheduler::Neighbours {
        scheduler::Neighbours {
            queue: self.queue.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            ports,
        }
    }

    fn of_org(&self, folders: Arc<dyn Folders>) -> org::Parts {
        org::Parts {
            store: self.store.clone(),
            work: Arc::new(Actors { queue: self.queue.clone() }),
            channel: self.channel.clone().recipient(),
            folders,
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            view: self.view.clone(),
        }
    }

    fn of_router(
        &self,
        approvals: &Addr<Approvals>,
        scheduler: &Addr<Scheduler>,
        classifier: Arc<dyn Classifier>,
        ears: Ears,
    ) -> Neighbours {
        Neighbours {
            store: self.store.clone(),
            queue: self.queue.clone(),
            approvals: approvals.clone(),
            channel: self.channel.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            classifier,
            ears,
            triggers: scheduler.clone().recipient(),
        }
    }

    fn queue(&self, limits: Limits, listeners: Listeners, left: Left) -> Queue {
        let (store, channel) = (self.store.clone(), self.channel.clone());
        let (clock, ids) = (self.clock.clone(), self.ids.clone());
        Queue::new(store, channel, clock, ids, limits, listeners, left)
    }

    fn listeners(
        &self,
        supervisor: &Addr<Supervisor>,
        router: &Addr<Router>,
        ended: Vec<Recipient<Ended>>,
    ) -> Listeners {
        Listeners {
            leased: supervisor.clone().recipient(),
            waiting: supervisor.clone().recipient(),
            stop: supervisor.clone().recipient(),
            dismiss: supervisor.clone().recipient(),
            progressed: router.clone().recipient(),
            ended,
            ledger: self.ledger.clone(),
        }
    }

    /// What a former process left to the queue.
    fn left(&self, recovered: &mut Recovered) -> Left {
        Left {
            open: recovered.tasks.clone(),
            lost: std::mem::take(&mut recovered.lost),
            causes: std::mem::take(&mut recovered.causes),
            inboxes: std::mem::take(&mut recovered.inboxes),
            paused: in_state(&recovered.teams, TeamState::Paused),
            resting: resting(&recovered.teams),
            draining: in_state(&recovered.teams, TeamState::Draining),
            teams: self.view.clone(),
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
