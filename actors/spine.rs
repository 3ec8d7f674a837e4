//! The spine, assembled: the one place where the actors are introduced to each other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{Actor, Addr, ArbiterHandle, AsyncContext};

use crate::{
    briefing::Briefing,
    channel::Channel,
    classifier::Classifier,
    clock::Clock,
    ids::Ids,
    meter::Meter,
    queue::{Left, Listeners, Queue, schedule::Limits},
    router::{self, Neighbours, Recovered, Router},
    storage::{Storage, StorageError},
    store::{OnFailure, OnGroup, Store, StoreHandle, reads},
    supervisor::{Directory, Supervisor},
    team::Recipe,
};

/// A team with nothing to do for this long is put away.
const TEAM_IDLE: Duration = Duration::from_secs(600);
/// Tools that do not stop when told are aborted after this.
const GRACE: Duration = Duration::from_secs(2);

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
    /// Counts.
    pub meter: Arc<dyn Meter>,
}

/// The threads that the spine runs on, beside the one it is started on.
pub struct Threads {
    /// For the store alone.
    pub store: ArbiterHandle,
    /// For teams.
    pub teams: Vec<ArbiterHandle>,
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
    /// Who lives.
    pub supervisor: Addr<Supervisor>,
    /// The journal.
    pub store: StoreHandle,
    /// The teams that live now.
    pub directory: Directory,
}

/// What a former process left behind. Reads the whole of it: done once, before anything is served.
pub fn recover(storage: &dyn Storage) -> Result<Recovered, StorageError> {
    let tasks = reads::open_tasks(storage)?;
    let undecided = reads::undecided(storage)?;
    for damage in tasks.damaged.iter().chain(&undecided.damaged) {
        tracing::error!(error = %damage, "a record is left out; it stays in the store as it is");
    }
    let mut channels = HashMap::new();
    let with_tasks = tasks
        .rows
        .iter()
        .filter_map(|task| task.source.as_ref())
        .map(|source| &source.channel);
    let with_messages = undecided.rows.iter().map(|message| &message.channel);
    for id in with_tasks.chain(with_messages) {
        if !channels.contains_key(id)
            && let Some(history) = reads::channel(storage, id)?
        {
            channels.insert(id.clone(), history);
        }
    }
    Ok(Recovered {
        tasks: tasks.rows,
        undecided: undecided.rows,
        channels,
        causes: reads::causes(storage)?,
        inboxes: reads::inboxes(storage)?,
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
        let store = Store::start(
            &threads.store,
            ports.storage,
            ports.on_store_failure,
            ports.on_store_group,
        );
        let channel = Channel::new(store.clone(), ports.clock.clone()).start();
        let directory = Directory::default();
        let recipe = Recipe {
            store: store.clone(),
            channel: channel.clone(),
            clock: ports.clock.clone(),
            ids: ports.ids.clone(),
            briefing: ports.briefing,
            meter: ports.meter,
            idle: TEAM_IDLE,
            grace: GRACE,
        };
        // Each of the three knows another: their addresses exist before they do.
        let mut queue = None;
        let mut router = None;
        let supervisor = Supervisor::create(|supervisor| {
            let left = Left {
                open: recovered.tasks.clone(),
                causes: std::mem::take(&mut recovered.causes),
                inboxes: std::mem::take(&mut recovered.inboxes),
            };
            let queue_address = Queue::create(|queue| {
                let neighbours = Neighbours {
                    store: store.clone(),
                    queue: queue.address(),
                    channel: channel.clone(),
                    clock: ports.clock.clone(),
                    ids: ports.ids.clone(),
                    classifier: ports.classifier,
                };
                let router_address = Router::new(neighbours, settings, recovered).start();
                let listeners = Listeners {
                    leased: supervisor.address().recipient(),
                    waiting: supervisor.address().recipient(),
                    stop: supervisor.address().recipient(),
                    progressed: router_address.clone().recipient(),
                    ended: Vec::new(),
                };
                router = Some(router_address);
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
            Supervisor::new(queue_address, recipe, directory.clone(), threads.teams)
        });
        match (router, queue) {
            (Some(router), Some(queue)) => Self {
                router,
                channel,
                queue,
                supervisor,
                store,
                directory,
            },
            _ => unreachable!("both are created above"),
        }
    }
}
