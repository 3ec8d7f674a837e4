//! The organisation alone, between a store that may crash and doubles that remember.

use std::{collections::BTreeMap, sync::Mutex};

use actix::{Addr, Arbiter};

use super::{
    folders::FolderError,
    record::{Capability, Closing, Phase, TeamState},
    *,
};
use crate::{
    channel::Channel,
    clock::Timestamp,
    doubles::{
        clock::ManualClock,
        disk::{Crash, Disk},
        entropy::Sequence,
    },
    org::record::TeamRecord,
    queue::{
        refusal::Refusal,
        submit::{OpenTask, Submission, Submit},
    },
    store::{
        Store, StoreParts,
        reads::{Range, scan},
    },
    task::{Kind, Lane, outcome::Outcome},
    tool::records::Answer,
};

mod life;
mod shutdown;
mod spawn;

/// All that outlives a process.
#[derive(Clone, Default)]
struct World {
    disk: Disk,
    folders: Arc<Mutex<Shelf>>,
    work: Arc<Mutex<Desk>>,
    /// Rows that some other part keeps, by team.
    kept: Arc<Mutex<Vec<String>>>,
}

/// Folders by name: finished or not, and which life they are of.
#[derive(Default)]
struct Shelf {
    folders: BTreeMap<TeamName, (u32, bool)>,
    trash: Vec<String>,
    descriptions: Vec<(String, String)>,
    full: bool,
    furnished: bool,
}

/// What was asked of the queue.
#[derive(Default)]
struct Desk {
    states: Vec<String>,
    dismissed: Vec<String>,
    cancelled: Vec<String>,
    refuse: bool,
}

#[derive(Clone)]
struct Shelves(Arc<Mutex<Shelf>>);

impl Folders for Shelves {
    fn make(&self, team: TeamKey, _: FolderPlan) -> BoxFuture<'static, Result<(), FolderError>> {
        let mut shelf = self.0.lock().unwrap();
        let made = match shelf.folders.get(&team.name) {
            _ if shelf.full => Err(FolderError::Disk("the disk is full".to_owned())),
            Some((_, true)) => Err(FolderError::Taken),
            _ => {
                shelf.folders.insert(team.name, (team.generation, false));
                Ok(())
            }
        };
        Box::pin(std::future::ready(made))
    }

    fn keep(&self, team: TeamKey) -> BoxFuture<'static, ()> {
        let mut shelf = self.0.lock().unwrap();
        shelf.folders.insert(team.name, (team.generation, true));
        Box::pin(std::future::ready(()))
    }

    fn unmake(&self, team: TeamKey) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().folders.remove(&team.name);
        Box::pin(std::future::ready(()))
    }

    fn settle(&self, living: Vec<TeamName>) -> BoxFuture<'static, ()> {
        let mut shelf = self.0.lock().unwrap();
        shelf.folders.retain(|name, (_, finished)| *finished || living.contains(name));
        for (_, finished) in shelf.folders.values_mut() {
            *finished = true;
        }
        Box::pin(std::future::ready(()))
    }

    fn bury(
        &self,
        team: TeamKey,
        _: Timestamp,
    ) -> BoxFuture<'static, Result<Option<String>, FolderError>> {
        let mut shelf = self.0.lock().unwrap();
        let place = team.to_string();
        if shelf.full {
            let error = FolderError::Disk("the disk is full".to_owned());
            return Box::pin(std::future::ready(Err(error)));
        }
        if shelf.folders.remove(&team.name).is_some() {
            shelf.trash.push(place.clone());
        }
        let there = shelf.trash.contains(&place).then_some(place);
        Box::pin(std::future::ready(Ok(there)))
    }

    fn describe(
        &self,
        team: TeamName,
        description: String,
    ) -> BoxFuture<'static, Result<(), FolderError>> {
        let mut shelf = self.0.lock().unwrap();
        shelf.descriptions.push((team.to_string(), description));
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_furnished(&self, _: TeamName) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(self.0.lock().unwrap().furnished))
    }
}

/// A queue that stores what it is given, and has three tasks of each team.
#[derive(Clone)]
struct Stored {
    store: StoreHandle,
    desk: Arc<Mutex<Desk>>,
}

impl Work for Stored {
    fn submit(&self, submit: Submit) -> BoxFuture<'static, Result<Submission, Refusal>> {
        if self.desk.lock().unwrap().refuse {
            return Box::pin(std::future::ready(Err(Refusal::QueueFull(10_000))));
        }
        let committed = self.store.commit(submit.writes.put(&submit.task));
        Box::pin(async move {
            let in_flight = Vec::new();
            let enqueued = |_| Submission::Enqueued { in_flight };
            committed.await.map(enqueued).map_err(|_| Refusal::Stopping)
        })
    }

    fn wait(&self, _: TaskId, _: Option<Lane>) -> BoxFuture<'static, Option<Outcome>> {
        Box::pin(std::future::ready(None))
    }

    fn cancel(&self, _: TaskId, _: String) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }

    fn cancel_soon(&self, _: TaskId, _: String) {}

    fn cancel_team(&self, team: TeamName, _: String) -> BoxFuture<'static, usize> {
        let mut desk = self.desk.lock().unwrap();
        let first = !desk.cancelled.contains(&team.to_string());
        desk.cancelled.push(team.to_string());
        Box::pin(std::future::ready(if first { 3 } else { 0 }))
    }

    fn open(&self, _: Option<TeamName>) -> BoxFuture<'static, Vec<OpenTask>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn set_state(&self, team: &TeamName, state: TeamState) {
        let mut desk = self.desk.lock().unwrap();
        desk.states.push(format!("{team} {}", state.as_str()));
    }

    fn retry(&self, _: &TeamName) {}

    fn dismiss(&self, team: &TeamName) {
        self.desk.lock().unwrap().dismissed.push(team.to_string());
    }

    fn told(&self, _: Lane, _: u32) {}
}

/// Rows of another part.
#[derive(Clone)]
struct Rows(Arc<Mutex<Vec<String>>>);

impl Belongings for Rows {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        self.0.lock().unwrap().retain(|of| *of != team.to_string());
        Box::pin(std::future::ready(Vec::new()))
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::standing(Timestamp(1_000_000)))
}

fn ids() -> Ids {
    Ids::new(Arc::new(Sequence::from(0)))
}

/// One process.
struct Process {
    org: Addr<Org>,
    view: OrgView,
    store: StoreHandle,
}

impl World {
    fn start(&self, crash: Option<Crash>) -> Process {
        let storage = self.disk.mount(crash);
        let records = scan::<TeamRecord>(&*storage, Range::all()).unwrap();
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage));
        let view = OrgView::default();
        let parts = Parts {
            store: store.clone(),
            work: Arc::new(Stored { store: store.clone(), desk: self.work.clone() }),
            channel: Channel::new(store.clone(), clock(), ids()).start().recipient(),
            folders: Arc::new(Shelves(self.folders.clone())),
            clock: clock(),
            ids: ids(),
            view: view.clone(),
            belongings: Arc::new([Arc::new(Rows(self.kept.clone())) as Arc<dyn Belongings>]),
        };
        let org = Org::new(parts, records).start();
        Process { org, view, store }
    }

    /// Names of folders, with their life, that are finished.
    fn folders(&self) -> Vec<String> {
        let shelf = self.folders.lock().unwrap();
        let finished = shelf.folders.iter().filter(|(_, (_, finished))| *finished);
        finished.map(|(name, (generation, _))| format!("{name}~{generation}")).collect()
    }
}

impl Process {
    async fn spawn(&self, name: &str, parent: &str) -> Result<TeamKey, OrgError> {
        self.org.send(spawn_of(name, parent)).await.unwrap()
    }

    async fn shutdown(&self, name: &str, cascade: bool) -> Result<Removed, OrgError> {
        let shutdown = Shutdown {
            name: name.into(),
            cascade,
            by: By::Team("main".into()),
            call: Some("call-1".to_owned()),
        };
        self.org.send(shutdown).await.unwrap()
    }

    /// Living teams with their lives and states.
    fn teams(&self) -> Vec<String> {
        let tree = self.view.now();
        tree.iter().map(|team| format!("{} {}", team.key(), team.state.as_str())).collect()
    }

    /// All that was told so far has been done, and is stored.
    async fn settle(&self) {
        for _ in 0..5 {
            self.store.commit(Writes::new()).await.ok();
            self.store.read(|_| Ok(())).await.unwrap();
            // Asks for nothing: it only stands behind what was told before.
            let update = Update {
                name: "nobody".into(),
                by: By::Operator("operator".to_owned()),
                add: Vec::new(),
                remove: Vec::new(),
                description: None,
                capabilities: None,
                call: None,
            };
            self.org.send(update).await.unwrap().unwrap_err();
            tokio::task::yield_now().await;
        }
    }
}

fn spawn_of(name: &str, parent: &str) -> Spawn {
    let lane = Lane { team: name.into(), topic: None };
    let bootstrap = Task {
        kind: Kind::Bootstrap,
        ..Task::new(
            format!("task-{name}").into(),
            lane,
            "Set yourself up.".to_owned(),
            parent.to_owned(),
            Timestamp(1),
        )
    };
    Spawn {
        name: name.to_owned(),
        parent: parent.into(),
        by: By::Team(parent.into()),
        scope: vec![format!("{name} work")],
        limits: Limits::default(),
        plan: FolderPlan::default(),
        bootstrap,
        giver: None,
        writes: Writes::new().put_at(&format!("spawn-{name}"), &Answer(&name)),
        beside: None,
    }
}
