//! Fixture: what the service of a test is made of.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use actix::Arbiter;
use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    approvals::ports::Deciders,
    briefing::{Assignment, Brief, BriefError, Briefing},
    budget::{Ledger, Spent},
    classifier::{Classifier, Purpose},
    clock::Timestamp,
    doubles::{clock::ManualClock, disk::MemoryStorage, entropy::Sequence},
    ids::Ids,
    live::Publisher,
    org::view::OrgView,
    queue::schedule::Limits,
    router::{self, Recovered, rate::Rate, resolve},
    scheduler::{
        self,
        firing::{Findings, Preconditions},
        index::Board,
        trigger::Trigger,
    },
    spine::{Ports, Spine, Threads},
    store::{Store, StoreHandle, StoreParts, records::Writes},
    task::outcome::Code,
};
use tempfile::TempDir;

use super::{Surroundings, webhooks};
use crate::{
    api::{
        backups::BackupRow,
        jobs::JobProgress,
        scope::Scope,
        teams::{Equipment, TeamItem},
        when::date,
    },
    engines::installed::Installations,
    files::FileStore,
    http::{
        auth::{access::Access, authenticator::Authenticator, identities::Identities},
        jobs::{Jobs, Work},
        kit::{
            limits::{self, Callers, Strangers},
            origin::Gate,
            repeats::Repeats,
        },
        metrics::Metrics,
        ports::{Backups, Files},
        state::State,
    },
    logging::{Secrets, tap::Errors},
    mcp::Servers,
    memory::{Memory, doubles::NoSecrets},
    plugins::{
        catalogue::{Catalogue, Sources},
        depot::Depot,
        host::process::Hosts,
        instance::Instances,
    },
    policy::Policies,
    retention::Keeper,
    sandbox::egress::Guard,
    settings::{
        config::Server,
        home::{Flags, Home},
        live::Live,
        references::Environment,
        scaffold,
        zone::Zone,
    },
    storage::backup::BackupName,
    system::{Randomness, sha256},
    taint::{self, Taint},
    teams::{
        folders::TeamFolders,
        self_changes::Changes,
        service::{self, TeamService},
    },
    timezone::{LocalTime, ZoneDays},
    tools::plugin_tool::PluginTools,
    triggers::{
        admin::{self, TriggerAdmin},
        calendar::Zones,
        expressions::LinearExpressions,
    },
    vault::{Vault, master::KeyFiles},
};

/// Triggers depend on nothing.
struct Unconditional;

impl Preconditions for Unconditional {
    fn look(&self, _: &Trigger) -> Option<BoxFuture<'static, Findings>> {
        None
    }
}

/// Backups that are made at once and kept nowhere.
struct Shelf;

impl Backups for Shelf {
    fn make(&self, name: Option<BackupName>, work: &Work) -> Result<PathBuf, String> {
        work.report(JobProgress { done: 2, total: 2, unit: "records".to_owned() });
        match name.map(|name| name.file("/backups".as_ref())) {
            Some(file) if file.ends_with("full.tar.zst") => Err("the disk is full".to_owned()),
            file => Ok(file.unwrap_or_else(|| "/backups/1.tar.zst".into())),
        }
    }

    fn list(&self) -> std::io::Result<Vec<BackupRow>> {
        let kept = [1, 2].map(|number| BackupRow {
            file: format!("/backups/{number}.tar.zst"),
            bytes: number * 100,
            created_at: date(Timestamp(1_700_000_000_000 + number)),
            holds_redacted: number == 1,
        });
        Ok(kept.into())
    }
}

struct NoTurns;

impl Briefing for NoTurns {
    fn brief(&self, _: Assignment) -> BoxFuture<'static, Result<Brief, BriefError>> {
        let error =
            BriefError { code: Code::NoProvider, message: "no test here has a model".to_owned() };
        async { Err(error) }.boxed()
    }
}

impl Classifier for NoTurns {
    fn ask(&self, _: Purpose, _: String) -> BoxFuture<'static, Option<String>> {
        async { None }.boxed()
    }
}

/// What the parts of a service share.
pub(super) struct Fixture {
    pub(super) storage: Arc<MemoryStorage>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) folder: TempDir,
    pub(super) home: Home,
    metrics: Arc<Metrics>,
    store: StoreHandle,
    vault: Vault,
    rules: Policies,
    auth: Authenticator,
    view: OrgView,
    publisher: Publisher,
    board: Board,
    /// Those of what is made over the API.
    ids: Ids,
}

fn home(folder: &Path) -> Home {
    let flags = Flags { home: Some(folder.join("home")), ..Flags::default() };
    let home = Home::new(&flags, &Environment::fixed([])).unwrap();
    home.prepare().unwrap();
    scaffold::ensure_main(&home).unwrap();
    home
}

fn random() -> Ids {
    Ids::new(Arc::new(Randomness))
}

fn router_settings() -> router::Settings {
    router::Settings {
        topics: resolve::Settings {
            max_active: NonZeroUsize::MIN,
            idle_after: Duration::from_secs(60),
        },
        ask_model: false,
        titles: false,
        discord_rate: Rate { per_minute: 30, burst: 10 },
        channels_kept: Duration::from_secs(7 * 24 * 60 * 60),
        rate: Rate { per_minute: 0, burst: 1 },
        trust: router::trust::Policy::None,
    }
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let metrics = Arc::new(Metrics::new(["read".to_owned()], Errors::default()));
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let storage = Arc::new(MemoryStorage::default());
        let files = KeyFiles::new(folder.path(), &Environment::fixed([]));
        let (broken, committed) = (storage.clone(), metrics.clone());
        let publisher = Publisher::new(3, clock.clone());
        let vault = Vault::open(&*storage, files.read(), clock.clone()).unwrap();
        let parts = StoreParts {
            on_failure: Box::new(move |error| assert!(broken.is_broken(), "{error}")),
            on_group: Box::new(move |_, took| committed.committed(took)),
            live: Some(publisher.clone()),
            redaction: Some(vault.redaction(&[])),
            ..StoreParts::of(storage.clone())
        };
        let store = Store::start(&Arbiter::current(), parts);
        let vault = vault.with_store(store.clone());
        let rules = Policies::open(None, &*storage, store.clone(), random()).unwrap();
        let auth = Authenticator::open(store.clone(), clock.clone(), folder.path()).await.unwrap();
        Self {
            publisher,
            view: OrgView::default(),
            board: Board::default(),
            ids: Ids::new(Arc::new(Sequence::from(1 << 32))),
            storage,
            clock,
            folder,
            home,
            metrics,
            store,
            vault,
            rules,
            auth,
        }
    }

    fn live(&self) -> Live {
        Live::new(self.home.clone(), Environment::fixed([]))
    }

    fn ports(&self) -> Ports {
        let auth = self.auth.clone();
        Ports {
            deciders: Deciders::new(move |who, team| {
                auth.others_may(Scope::Approve, who, team.as_str())
            }),
            briefing: Arc::new(NoTurns),
            classifier: Arc::new(NoTurns),
            clock: self.clock.clone(),
            ids: Ids::new(Arc::new(Sequence::from(1))),
            meter: self.metrics.clone(),
            on_hindrance: Arc::new(|_| ()),
            ledger: Ledger::default(),
            grants: self.rules.grants(),
            days: Arc::new(ZoneDays(jiff::tz::TimeZone::UTC)),
            secrets: Arc::new(Vault::absent()),
            digester: sha256,
            approvals_last: Duration::from_secs(60),
            shown_in: Vec::new(),
            folders: Arc::new(TeamFolders::new(self.home.clone())),
            belongings: Arc::new([]),
            triggers: scheduler::Ports {
                board: self.board.clone(),
                calendar: Arc::new(Zones),
                expressions: Arc::new(LinearExpressions),
                roster: Arc::new(self.view.clone()),
                preconditions: Arc::new(Unconditional),
                timezone: "UTC".to_owned(),
            },
            retention: Arc::new(Keeper { live: self.live(), home: self.home.clone() }),
        }
    }

    async fn spine(&self) -> Spine {
        let (spine, contexts) =
            Spine::new(self.store.clone(), self.view.clone(), self.publisher.clone());
        let answers_within = Duration::from_secs(30);
        let threads = Threads { teams: vec![Arbiter::current()], answers_within };
        let (limits, recovered) = (Limits::default(), Recovered::default());
        contexts.start(&spine, self.ports(), threads, limits, router_settings(), recovered);
        // The main team is stored from here on.
        self.store.commit(Writes::new()).await.unwrap();
        spine
    }

    fn team_service(&self, spine: &Spine) -> TeamService {
        TeamService::new(service::Parts {
            org: spine.org.clone(),
            view: spine.view.clone(),
            work: Arc::new(spine.queue.clone()),
            store: spine.store.clone(),
            channel: spine.channel.clone(),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            live: self.live(),
            credentials: Arc::new(self.vault.clone()),
            roster: Arc::new(|_| Vec::new()),
            plugins: Catalogue::default(),
            spent: Arc::new(|_| Spent::default()),
            keyed: tokio::sync::Mutex::default(),
        })
    }

    fn triggers(&self, spine: &Spine) -> TriggerAdmin {
        TriggerAdmin::new(admin::Parts {
            scheduler: spine.scheduler.clone(),
            store: spine.store.clone(),
            view: spine.view.clone(),
            clock: self.clock.clone(),
            calendar: Arc::new(Zones),
            expressions: Arc::new(LinearExpressions),
            zone: LocalTime::new(Zone::parse("UTC").unwrap()),
            board: self.board.clone(),
            subagents: Arc::new(|_| vec!["editor".to_owned()]),
            secrets: Arc::new(webhooks::Keys),
        })
    }

    fn file_store(&self) -> FileStore {
        let (folder, store, clock) = (self.home.files(), self.store.clone(), self.clock.clone());
        FileStore::open(folder, &*self.storage, store, clock, random(), self.live()).unwrap()
    }

    fn plugin_tools(&self) -> PluginTools {
        PluginTools::open(
            &*self.storage,
            self.store.clone(),
            self.clock.clone(),
            random(),
            self.home.clone(),
            Hosts::unused(),
        )
        .unwrap()
    }

    /// Everything that routes reach.
    pub(super) async fn state(&self, service: Arc<Surroundings>, server: &Server) -> State {
        let Self { storage, clock, home, store, vault, auth, .. } = self;
        let spine = self.spine().await;
        let kept = taint::Kept { store: store.clone(), clock: clock.clone(), ids: random() };
        let file_store = self.file_store();
        let secrets = Arc::new(NoSecrets);
        State {
            limits: limits::Limits::default(),
            strangers: Strangers::default(),
            repeats: Repeats::default(),
            triggers: self.triggers(&spine),
            team_service: self.team_service(&spine),
            callers: Callers::default(),
            rules: self.rules.clone(),
            explainer: Arc::new(|_, _, _, _| Err("there are no tools here".to_owned())),
            equipment: Arc::new(|_, _| Equipment {
                skills: vec![TeamItem {
                    name: "sums".to_owned(),
                    source: "operator".to_owned(),
                    description: "Adds up.".to_owned(),
                }],
                ..Equipment::default()
            }),
            identities: Identities::open(auth.clone(), store.clone(), clock.clone()).await.unwrap(),
            access: Access { auth: auth.clone(), gate: Gate::new(server) },
            memory: Memory::new(store.clone(), clock.clone(), self.ids.clone(), secrets),
            changes: Changes::new(home.clone(), clock.clone(), random(), store.clone()),
            taint: Taint::open(&**storage, &home.teams(), Some(kept)).unwrap(),
            servers: Servers::unused(),
            depot: Depot::new(home.plugins(), Sources::default),
            egress: Guard::default(),
            plugins: Instances::unused(home, store, vault, &file_store),
            plugin_tools: self.plugin_tools(),
            vault: vault.clone(),
            service,
            metrics: self.metrics.clone(),
            jobs: Jobs::new(clock.clone(), self.publisher.clone()),
            secrets: Secrets::default(),
            files: Files {
                home: home.clone(),
                environment: Environment::fixed([]),
                reload: Arc::new(|| async { Ok(()) }.boxed()),
            },
            file_store,
            installations: Installations::default(),
            days: Arc::new(ZoneDays(jiff::tz::TimeZone::UTC)),
            backups: Arc::new(Shelf),
            started: Instant::now(),
            spine,
        }
    }
}
