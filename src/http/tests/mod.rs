//! Tests of the routes over a real spine, with a storage in memory.

use std::{
    num::NonZeroUsize,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use actix::Arbiter;
use actix_http::Request;
use actix_web::{
    App, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{self, ServiceResponse},
    http::{
        Method,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
    test::{self, TestRequest},
    web,
};
use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    approvals::ports::Deciders,
    briefing::{Assignment, Brief, BriefError, Briefing},
    budget::{Ledger, Spent},
    classifier::{Classifier, Purpose},
    clock::Timestamp,
    doubles::{clock::ManualClock, disk::MemoryStorage, entropy::Sequence},
    ids::{Ids, TeamKey},
    live::Publisher,
    org::{Settle, view::OrgView},
    queue::schedule::Limits,
    router::{self, Recovered, rate::Rate, resolve},
    scheduler::{
        self,
        firing::{Findings, Premises},
        index::Board,
        trigger::Trigger,
    },
    spine::{Ports, Spine, Threads},
    store::{Store, keys::key_of, records::Writes},
    task::outcome::Code,
};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    app::configure,
    auth::{access::Access, authenticator::Authenticator, identities::Identities, operator},
    jobs::{Jobs, Work},
    kit::{error::ApiError, origin::Gate},
    metrics::Metrics,
    ports::{Backups, Files, Service},
    state::State,
};
use crate::{
    api::{
        backups::BackupRow,
        jobs::JobProgress,
        scope::{Scope, Scopes},
        teams::{Equipment, TeamItem},
        tokens::NewToken,
        when::{Expiry, date},
    },
    engines::installed::Installations,
    logging::{Secrets, tap::Errors},
    mcp::Servers,
    memory::doubles::NoSecrets,
    plugins::{
        catalogue::{Catalogue, Sources},
        depot::Depot,
        instance::Instances,
    },
    policy::Policies,
    retention::Keeper,
    sandbox::egress::Guard,
    settings::{
        channels::WebSocket,
        config::Server,
        home::{Flags, Home},
        live::Live,
        references::Environment,
        scaffold,
    },
    storage::backup::BackupName,
    system::{Randomness, sha256},
    taint::{self, Taint},
    teams::{
        folders::TeamFolders,
        office::{self, Office},
        self_changes::Changes,
    },
    timezone::ZoneDays,
    triggers::{
        calendar::Zones,
        desk::{self, Desk},
        expressions::LinearExpressions,
    },
    vault::{Vault, master::KeyFiles},
};

mod approvals;
mod audit;
mod bounds;
mod changes;
mod contract;
mod documents;
mod events;
mod fold;
mod grants;
mod history;
mod input;
mod instructions;
mod lists;
mod log;
mod login;
mod me;
mod memories;
mod messages;
mod operating;
mod origins;
mod pages;
mod repeats;
mod rights;
mod tasks;
mod teams;
mod teams_of_tokens;
mod tokens;
mod triggers;
mod trust;
mod upgrade;
mod vault;
mod watch;
mod webhooks;
mod wire;

const HOST: (&str, &str) = ("Host", "localhost:8080");

/// Triggers depend on nothing.
struct Unconditional;

impl Premises for Unconditional {
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

#[derive(Default)]
struct Surroundings {
    draining: AtomicBool,
    /// Its settings files are wrong.
    faulty: AtomicBool,
}

impl Surroundings {
    fn fault(&self) -> Option<String> {
        let faulty = self.faulty.load(Ordering::SeqCst);
        faulty.then(|| "line 1 is wrong".to_owned())
    }
}

impl Service for Surroundings {
    fn is_demo(&self) -> bool {
        true
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    fn websocket(&self) -> WebSocket {
        WebSocket::On
    }

    fn channels_fault(&self) -> Option<String> {
        self.fault()
    }

    fn settings_fault(&self) -> Option<String> {
        self.fault()
    }

    fn providers_fault(&self) -> Option<String> {
        self.fault()
    }

    fn store_bytes(&self) -> u64 {
        4_096
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        (name == "main").then(|| TeamKey::first(name))
    }
}

/// A service without a socket.
struct Bench {
    state: web::Data<State>,
    storage: Arc<MemoryStorage>,
    clock: Arc<ManualClock>,
    surroundings: Arc<Surroundings>,
    folder: TempDir,
    home: Home,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    /// Status and code of a refusal, whose form is checked.
    fn refusal(&self) -> (u16, String) {
        let json = self.json();
        let error = json["error"].as_object().unwrap();
        assert_eq!(error["request_id"], self.header("x-request-id").unwrap());
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
        assert_eq!(self.header("content-type"), Some("application/json"));
        let known = ["code", "message", "field", "details", "request_id"];
        assert!(error.keys().all(|key| known.contains(&key.as_str())));
        (self.status, error["code"].as_str().unwrap().to_owned())
    }

    fn field(&self) -> String {
        self.json()["error"]["field"].as_str().unwrap_or_default().to_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The session cookie that was set.
    fn cookie(&self) -> String {
        let cookie = self.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

/// Stands for the WebSocket, which lives elsewhere.
async fn socket(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let upgrade = state.access.upgrade(&request)?;
    Ok(HttpResponse::Ok().json(serde_json::json!({
        "principal": upgrade.principal.id,
        "sender": upgrade.sender,
        "asserted_by": upgrade.asserted_by,
    })))
}

/// Work that never ends by itself.
async fn endless() -> HttpResponse {
    std::future::pending().await
}

/// Does something, and then loses its patience.
async fn late(state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let name = format!("{:016x}", getrandom::u64().unwrap());
    let row = Writes::new().put_json(key_of("edge\0late", &name), &1);
    state.spine.store.commit(row).await.unwrap();
    Err(ApiError::internal("too late"))
}

/// Does something, and takes a moment to answer.
async fn slow(state: web::Data<State>) -> HttpResponse {
    let row = Writes::new().put_json(key_of("edge\0slow", &"once".to_owned()), &1);
    state.spine.store.commit(row).await.unwrap();
    tokio::task::yield_now().await;
    HttpResponse::Created().json("done")
}

fn others(app: &mut web::ServiceConfig) {
    let endless = web::get().to(endless);
    let late = web::post().to(late);
    app.route("/late", late.wrap(actix_web::middleware::from_fn(super::kit::idempotency::pass)));
    let slow = web::post().to(slow);
    app.route("/slow", slow.wrap(actix_web::middleware::from_fn(super::kit::idempotency::pass)));
    app.route("/ws", web::get().to(socket)).route(
        "/endless",
        endless.wrap(actix_web::middleware::from_fn(super::kit::revocation::pass)),
    );
}

impl Bench {
    async fn new() -> Self {
        Self::with(Server::default()).await
    }

    async fn with(server: Server) -> Self {
        let clock = Arc::new(ManualClock::default());
        let metrics = Arc::new(Metrics::new(["read".to_owned()], Errors::default()));
        let view = OrgView::default();
        let folder = tempfile::tempdir().unwrap();
        let flags = Flags { home: Some(folder.path().join("home")), ..Flags::default() };
        let home = Home::new(&flags, &Environment::fixed([])).unwrap();
        home.prepare().unwrap();
        scaffold::ensure_main(&home).unwrap();
        let storage = Arc::new(MemoryStorage::default());
        let files = KeyFiles::new(folder.path(), &Environment::fixed([]));
        let publisher = Publisher::new(3, clock.clone());
        let board = Board::default();
        let (broken, committed) = (storage.clone(), metrics.clone());
        let store = Store::start(
            &Arbiter::current(),
            storage.clone(),
            Box::new(move |error| assert!(broken.is_broken(), "{error}")),
            Box::new(move |_, took| committed.committed(took)),
        );
        let written = Some((store.clone(), &[] as &[_]));
        let vault = Vault::open_with(&*storage, files.read(), clock.clone(), written).unwrap();
        let random = || Ids::new(Arc::new(Randomness));
        let rules = Policies::open(None, &*storage, store.clone(), random()).unwrap();
        let auth = Authenticator::open(store.clone(), clock.clone(), folder.path()).await.unwrap();
        let (spine, contexts) = Spine::new(store.clone(), view.clone(), publisher.clone());
        let ports = Ports {
            deciders: Deciders::new({
                let auth = auth.clone();
                move |who, team| auth.others_may(Scope::Approve, who, team.as_str())
            }),
            briefing: Arc::new(NoTurns),
            classifier: Arc::new(NoTurns),
            clock: clock.clone(),
            ids: Ids::new(Arc::new(Sequence::from(1))),
            meter: metrics.clone(),
            on_hindrance: Arc::new(|_| ()),
            ledger: Ledger::default(),
            grants: rules.grants(),
            days: Arc::new(ZoneDays(jiff::tz::TimeZone::UTC)),
            secrets: Arc::new(Vault::absent()),
            digester: sha256,
            approvals_last: Duration::from_secs(60),
            folders: Arc::new(TeamFolders::new(home.clone())),
            triggers: scheduler::Ports {
                board: board.clone(),
                calendar: Arc::new(Zones),
                expressions: Arc::new(LinearExpressions),
                roster: Arc::new(view.clone()),
                premises: Arc::new(Unconditional),
                timezone: "UTC".to_owned(),
            },
            retention: Arc::new(Keeper {
                live: Live::new(home.clone(), Environment::fixed([])),
                home: home.clone(),
            }),
        };
        let threads =
            Threads { teams: vec![Arbiter::current()], answers_within: Duration::from_secs(30) };
        let settings = router::Settings {
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
        };
        let (limits, recovered) = (Limits::default(), Recovered::default());
        contexts.start(&spine, ports, threads, limits, settings, recovered);
        let ids = Ids::new(Arc::new(Sequence::from(1 << 32)));
        spine.org.do_send(Settle { belongings: Vec::new() });
        // The main team is stored from here on.
        store.commit(Writes::new()).await.unwrap();
        let office = Office::new(office::Parts {
            org: spine.org.clone(),
            view: spine.view.clone(),
            work: Arc::new(spine.queue.clone()),
            store: spine.store.clone(),
            channel: spine.channel.clone(),
            clock: clock.clone(),
            ids: ids.clone(),
            live: Live::new(home.clone(), Environment::fixed([])),
            credentials: Arc::new(vault.clone()),
            roster: Arc::new(|_| Vec::new()),
            plugins: Catalogue::default(),
            spent: Arc::new(|_| Spent::default()),
            keyed: tokio::sync::Mutex::default(),
        });
        let desk = Desk::new(desk::Parts {
            scheduler: spine.scheduler.clone(),
            store: spine.store.clone(),
            view: spine.view.clone(),
            clock: clock.clone(),
            calendar: Arc::new(Zones),
            expressions: Arc::new(LinearExpressions),
            zone: crate::timezone::LocalTime::new(
                crate::settings::zone::Zone::parse("UTC").unwrap(),
            ),
            board,
            subagents: Arc::new(|_| vec!["editor".to_owned()]),
            secrets: Arc::new(webhooks::Keys),
        });
        let memory =
            crate::memory::Memory::new(store.clone(), clock.clone(), ids, Arc::new(NoSecrets));
        let changes = Changes::new(home.clone(), clock.clone(), random(), store.clone());
        let file_store = crate::files::FileStore::open(
            home.files(),
            &*storage,
            store.clone(),
            clock.clone(),
            random(),
            Live::new(home.clone(), Environment::fixed([])),
        )
        .unwrap();
        let plugin_tools = crate::tools::plugin_tool::PluginTools::open(
            &*storage,
            store.clone(),
            clock.clone(),
            random(),
            home.clone(),
            crate::plugins::host::process::Hosts::unused(),
        )
        .unwrap();
        let kept = taint::Kept { store, clock: clock.clone(), ids: random() };
        let taint = Taint::open(&*storage, &home.teams(), Some(kept)).unwrap();
        let surroundings = Arc::new(Surroundings::default());
        let plugins = Instances::unused(&home, &spine.store, &vault, &file_store);
        let identities =
            Identities::open(auth.clone(), spine.store.clone(), clock.clone()).await.unwrap();
        let state = web::Data::new(State {
            limits: super::kit::limits::Limits::default(),
            strangers: super::kit::limits::Strangers::default(),
            repeats: super::kit::repeats::Repeats::default(),
            desk,
            office,
            callers: super::kit::limits::Callers::default(),
            rules,
            explainer: Arc::new(|_, _, _, _| Err("there are no tools here".to_owned())),
            equipment: Arc::new(|_, _| Equipment {
                skills: vec![TeamItem {
                    name: "sums".to_owned(),
                    source: "operator".to_owned(),
                    description: "Adds up.".to_owned(),
                }],
                ..Equipment::default()
            }),
            identities,
            access: Access { auth, gate: Gate::new(&server) },
            spine,
            memory,
            changes,
            taint,
            servers: Servers::unused(),
            depot: Depot::new(home.plugins(), Sources::default),
            egress: Guard::default(),
            plugins,
            plugin_tools,
            vault,
            service: surroundings.clone(),
            metrics,
            jobs: Jobs::new(clock.clone(), publisher),
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
        });
        Self { state, storage, clock, surroundings, folder, home }
    }

    /// All that is stored, as text.
    fn stored(&self) -> String {
        self.storage.text()
    }

    fn auth(&self) -> &Authenticator {
        &self.state.access.auth
    }

    fn operator(&self) -> String {
        let token = operator::read(self.folder.path()).unwrap().unwrap();
        token.expose().to_owned()
    }

    /// A token with these scopes.
    async fn token(&self, name: &str, scopes: Scopes) -> String {
        let operator = self.auth().token(&self.operator()).unwrap();
        let wish = NewToken {
            name: name.to_owned(),
            scopes: scopes.into(),
            teams: None,
            expires: Some(Expiry::Never),
        };
        let minted = self.auth().mint(wish, &operator).await.unwrap();
        minted.text.expose().to_owned()
    }

    /// All routes, for many requests.
    async fn app(
        &self,
    ) -> impl dev::Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>
    {
        let app = App::new().configure(configure(self.state.clone(), others));
        test::init_service(app).await
    }

    async fn call(&self, request: TestRequest) -> Answer {
        answer(&self.app().await, request).await
    }

    async fn get(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::GET, path).insert_header(bearer(token))).await
    }

    async fn delete(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::DELETE, path).insert_header(bearer(token))).await
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> Answer {
        let request = request(Method::POST, path).insert_header(bearer(token));
        self.call(request.set_json(body)).await
    }
}

async fn answer<S>(app: &S, request: TestRequest) -> Answer
where
    S: dev::Service<Request, Response = ServiceResponse<BoxBody>, Error = actix_web::Error>,
{
    let request = request.peer_addr("127.0.0.1:9".parse().unwrap());
    let response = test::call_service(app, request.to_request()).await;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let ends = headers.contains_key("content-disposition");
    // What streams without an end is read where it is tested.
    let bytes = match response.into_body().try_into_bytes() {
        Err(body) if ends => actix_web::body::to_bytes(body).await.unwrap(),
        bytes => bytes.unwrap_or_default(),
    };
    Answer { status, headers, body: String::from_utf8_lossy(&bytes).into_owned() }
}

fn request(method: Method, path: &str) -> TestRequest {
    TestRequest::with_uri(path).method(method).insert_header(HOST)
}

fn bearer(token: &str) -> (HeaderName, HeaderValue) {
    (
        actix_web::http::header::AUTHORIZATION,
        HeaderValue::try_from(format!("Bearer {token}")).unwrap(),
    )
}

fn only(scope: Scope) -> Scopes {
    [scope].into_iter().collect()
}
