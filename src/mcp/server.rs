//! One server of one team: connected when it is needed, let go when it is not, tried again when it failed.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    ids::TeamKey,
    live::{
        Publisher,
        event::{Event, Kind},
    },
    wildcard::fits,
    words,
};
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ClientRequest,
        ErrorData, Implementation, JsonObject, PaginatedRequestParams, PingRequest,
    },
    service::{ClientInitializeError, NotificationContext, RunningService, ServiceError},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    definition::{self, Definitions},
    fault::{Faults, McpError},
    flood::Guarded,
    http::Door,
    program::{self, Remark, Running},
    result::{self, Answer},
};
use crate::{
    sandbox::{process::Sandbox, workspace::Workspace},
    settings::{
        mcp_servers::{FolderAccess, McpServer},
        team::Access,
    },
    system::WallClock,
    taint::Taint,
    vault::{
        Vault,
        audit::Actor,
        expand::{self, Use, keys_in},
        scope::Scope,
    },
};

/// The first pause after a start that failed. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a program has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);
/// A server that lives says so in this time.
const PING: Duration = Duration::from_secs(2);
/// The most pages of a list of tools.
const MOST_PAGES: usize = 32;
/// A list that changed is read again after this time, however often it changes.
const SETTLES: Duration = Duration::from_millis(500);

words! {
    /// How a server stands.
    #[schemars(rename = "McpServerState")]
    pub enum ServerState {
        /// Nobody has needed it yet.
        Unused = "unused",
        /// It is being started or connected.
        Starting = "starting",
        /// It can be called.
        Ready = "ready",
        /// It has ended, and starts again with the next call.
        Resting = "resting",
        /// It cannot be started or connected; it is tried again.
        Failing = "failing",
    }
}

/// What servers need of the service.
pub(super) struct Grounds {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) vault: Vault,
    pub(super) taint: Taint,
    pub(super) live: Publisher,
    pub(super) web: OnceLock<reqwest::Client>,
}

/// How a server stands, with what is known of it.
#[derive(Clone, Debug)]
pub struct Status {
    pub state: ServerState,
    /// What it offers; none before it was asked for the first time.
    pub offers: Option<Arc<Definitions>>,
    /// Another list has another number.
    pub version: u64,
    pub last_error: Option<(Timestamp, String)>,
    pub calls: u64,
    failures: u32,
    retry_at: Option<Instant>,
    used: Option<Instant>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            state: ServerState::Unused,
            offers: None,
            version: 0,
            last_error: None,
            calls: 0,
            failures: 0,
            retry_at: None,
            used: None,
        }
    }
}

/// What a server was made of: another one takes its place when this differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Make {
    pub(super) team: TeamKey,
    pub(super) config: McpServer,
    /// The folders of the team.
    pub(super) roots: Vec<(PathBuf, Access)>,
    /// The secrets that it is given, with their versions.
    pub(super) secrets: BTreeMap<String, Option<u64>>,
}

impl Make {
    pub(super) fn new(team: &TeamKey, config: &McpServer, workspace: &Workspace, vault: &Vault) -> Self {
        let texts = config.env.values().chain(config.headers.values());
        let scope = Scope::Team(team.clone());
        let keys = texts.flat_map(|text| keys_in(text));
        let secrets = keys.map(|key| {
            let version = vault.version_of(&scope, &key);
            (key, version)
        });
        Self {
            secrets: secrets.collect(),
            team: team.clone(),
            config: config.clone(),
            roots: workspace.real_roots().map(|(path, access)| (path.to_owned(), access)).collect(),
        }
    }
}

/// One server of one team.
pub struct Server {
    pub team: TeamKey,
    pub name: String,
    pub config: McpServer,
    pub(super) make: Make,
    pub(super) workspace: Arc<Workspace>,
    pub(super) grounds: Arc<Grounds>,
    status: Mutex<Status>,
    link: tokio::sync::Mutex<Option<Link>>,
    links: AtomicUsize,
    /// Calls under way.
    busy: AtomicUsize,
    /// Another one takes its place, or none.
    closed: CancellationToken,
}

/// An open connection.
struct Link {
    number: usize,
    peer: Peer<RoleClient>,
    faults: Faults,
    /// A call was given up: the server may be stuck.
    doubted: AtomicBool,
    /// Ends it.
    end: CancellationToken,
    /// Nothing of it is left.
    over: CancellationToken,
}

/// A connection that is just made.
struct Opened {
    service: RunningService<RoleClient, Handler>,
    running: Option<Running>,
    faults: Faults,
    changed: Arc<Notify>,
    remark: Remark,
    end: CancellationToken,
    over: CancellationToken,
}

/// What a server may ask of us: to be heard when its tools change.
struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("hivewright", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    #[expect(deprecated, reason = "servers of earlier versions ask for it")]
    async fn list_roots(
        &self,
        _: rmcp::service::RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>())
    }
}

impl Server {
    pub(super) fn new(
        name: &str,
        make: Make,
        workspace: Arc<Workspace>,
        grounds: Arc<Grounds>,
    ) -> Self {
        Self {
            team: make.team.clone(),
            name: name.to_owned(),
            config: make.config.clone(),
            make,
            workspace,
            grounds,
            status: Mutex::default(),
            link: tokio::sync::Mutex::default(),
            links: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            closed: CancellationToken::new(),
        }
    }

    /// What rules and vault entries name it by.
    pub fn key(&self) -> String {
        format!("mcp.{}", self.name)
    }

    /// A program that sees the folders of the team.
    pub fn sees_workspace(&self) -> bool {
        self.config.command.is_some() && self.config.workspace != FolderAccess::Off
    }

    pub fn status(&self) -> Status {
        self.state().clone()
    }

    fn state(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: ServerState) {
        self.state().state = state;
        let about = json!({ "team": self.team.name, "server": self.name, "state": state });
        self.grounds.live.publish(Event::new(Kind::McpChanged, about).of_team(&self.team.name));
    }

    fn note(&self, reason: &str) {
        let (team, server) = (&self.team.name, &self.name);
        tracing::warn!(%team, server, reason, "an MCP server failed");
        self.state().last_error = Some((WallClock.now(), reason.to_owned()));
    }

    /// Whether its tools are known, or it is not worth asking now.
    pub(super) fn is_listed(&self) -> bool {
        let state = self.state();
        state.offers.is_some() || state.pause().is_some()
    }

    /// Ends it for good.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Ends it for good, and waits until nothing of it is left.
    pub(super) async fn end(&self) {
        self.close();
        let over = self.link.lock().await.as_ref().map(|link| link.over.clone());
        if let Some(over) = over {
            over.cancelled().await;
        }
    }

    /// Ends the connection, and forgets that it failed: the next turn or call makes another.
    pub async fn restart(&self) {
        let link = self.link.lock().await.as_ref().map(|link| (link.end.clone(), link.over.clone()));
        if let Some((end, over)) = link {
            end.cancel();
            over.cancelled().await;
        }
        let mut state = self.state();
        state.failures = 0;
        state.retry_at = None;
        state.offers = None;
    }

    fn unreachable(&self, reason: impl Into<String>, retry_in: Option<Duration>) -> McpError {
        McpError::Unreachable { server: self.name.clone(), reason: reason.into(), retry_in }
    }

    /// The connection, made if there is none.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<Peer<RoleClient>, McpError> {
        let mut link = self.link.lock().await;
        if let Some(open) = &*link
            && open.is_alive().await
        {
            return Ok(open.peer.clone());
        }
        if self.closed.is_cancelled() {
            return Err(self.unreachable("its settings have changed", None));
        }
        if let Some(pause) = self.state().pause() {
            let reason = self.state().last_error.clone().map(|(_, reason)| reason);
            return Err(self.unreachable(reason.unwrap_or_default(), Some(pause)));
        }
        self.set(ServerState::Starting);
        let remark = Remark::default();
        let opening = self.open(remark.clone());
        let opened = match tokio::time::timeout(self.config.connect_timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err("it did not answer in time".to_owned()),
        };
        match opened {
            Ok((opened, offers)) => {
                let peer = opened.service.peer().clone();
                let number = self.links.fetch_add(1, Ordering::Relaxed);
                *link = Some(Link {
                    number,
                    peer: peer.clone(),
                    faults: opened.faults.clone(),
                    doubted: AtomicBool::new(false),
                    end: opened.end.clone(),
                    over: opened.over.clone(),
                });
                self.learn(offers);
                {
                    let mut state = self.state();
                    state.failures = 0;
                    state.retry_at = None;
                    state.used = Some(Instant::now());
                }
                self.set(ServerState::Ready);
                tokio::spawn(Arc::clone(self).keep(opened, number));
                Ok(peer)
            }
            Err(reason) => Err(self.failed(with_remark(reason, &remark))),
        }
    }

    fn failed(&self, reason: String) -> McpError {
        self.note(&reason);
        let pause = {
            let mut state = self.state();
            let doubled = 2u32.saturating_pow(state.failures);
            let pause = FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
            state.failures = (state.failures + 1).min(16);
            state.retry_at = Some(Instant::now() + pause);
            pause
        };
        self.set(ServerState::Failing);
        self.unreachable(reason, Some(pause))
    }

    fn learn(&self, offers: Definitions) {
        let mut state = self.state();
        if state.offers.as_deref() != Some(&offers) {
            state.version += 1;
            state.offers = Some(Arc::new(offers));
        }
    }

    /// Starts or connects it, and asks what it offers. An error is in words for the operator.
    async fn open(&self, remark: Remark) -> Result<(Opened, Definitions), String> {
        let (faults, changed) = (Faults::default(), Arc::new(Notify::new()));
        let (env, headers) = self.secrets().await?;
        let handler = Handler { changed: changed.clone() };
        let (running, service) = match (&self.config.command, &self.config.url) {
            (Some(command), _) => {
                let (mut running, streams) =
                    program::start(self, command, env, &faults, &remark).await?;
                let shaken = shake(handler, Guarded::new(streams, faults.clone()), &faults).await;
                match shaken {
                    Ok(service) => (Some(running), service),
                    Err(reason) => {
                        let why = tokio::time::timeout(GRACE, running.life.ended()).await;
                        return Err(why.ok().flatten().unwrap_or(reason));
                    }
                }
            }
            (None, Some(url)) => {
                let client = match self.grounds.web.get() {
                    Some(client) => client.clone(),
                    None => {
                        let client = Door::client()?;
                        self.grounds.web.get_or_init(|| client).clone()
                    }
                };
                let transport = Door::new(client, faults.clone()).transport(url, headers);
                let service = shake(handler, Guarded::new(transport, faults.clone()), &faults);
                (None, service.await?)
            }
            (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
        };
        let offers = tokio::select! {
            offers = self.list(service.peer()) => offers?,
            fault = faults.heard() => return Err(fault),
        };
        let (end, over) = (CancellationToken::new(), CancellationToken::new());
        Ok((Opened { service, running, faults, changed, remark, end, over }, offers))
    }

    /// Variables and headers, with the values of secrets in them.
    async fn secrets(&self) -> Result<(BTreeMap<String, String>, HashMap<HeaderName, HeaderValue>), String> {
        let McpServer { env, headers, .. } = &self.config;
        let mut args = json!({ "env": env, "headers": headers });
        let key = self.key();
        let request = Use {
            scope: &Scope::Team(self.team.clone()),
            actor: &Actor::System,
            tool: &key,
            places: &["env", "headers"],
            paths: &[],
            approved: None,
            permits: &|patterns| permits(patterns, &key),
        };
        let expanded = self.grounds.vault.expand(&request, &mut args).await;
        expanded.map_err(|error| error.to_string())?;
        let texts = |place: &str| {
            let fields = args[place].as_object().into_iter().flatten();
            fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        };
        let mut found = HashMap::new();
        for (name, value) in texts("headers") {
            let bad = || format!("the header `{name}` cannot be sent");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
            value.set_sensitive(true);
            found.insert(header, value);
        }
        let env = texts("env").collect();
        expand::wipe(&mut args);
        Ok((env, found))
    }

    /// Asks for its tools, page by page.
    async fn list(&self, peer: &Peer<RoleClient>) -> Result<Definitions, String> {
        let none = |why: &str| Definitions { tools: Vec::new(), left_out: vec![why.to_owned()] };
        if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(none("the server offers no tools"));
        }
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = peer.list_tools(Some(params)).await;
            let page = page.map_err(|error| format!("its tools cannot be listed: {}", words(&error)))?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let mut offers = definition::take(tools, &self.config.tools);
        if cursor.is_some() {
            offers.left_out.push(format!("what comes after {MOST_PAGES} pages of tools"));
        }
        Ok(offers)
    }

    /// Waits for the end of a connection, and clears away what is left of it.
    async fn keep(self: Arc<Self>, opened: Opened, number: usize) {
        let Opened { service, running, faults, changed, remark, end, over } = opened;
        let _over = over.drop_guard();
        let peer = service.peer().clone();
        let (mut running, mut excess) = match running {
            Some(Running { life, excess, window }) => (Some((life, window)), excess),
            None => (None, Box::pin(std::future::pending()) as _),
        };
        let stop = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let mut has_ended = false;
        let reason = loop {
            tokio::select! {
                _ = &mut ended => {
                    has_ended = true;
                    break Some(faults.said().unwrap_or_else(|| "it ended".to_owned()));
                }
                excess = &mut excess => {
                    let excess: crate::sandbox::quota::Excess = excess;
                    break Some(format!("it wrote too much: {excess}"));
                }
                fault = faults.heard() => break Some(fault),
                () = self.closed.cancelled() => break None,
                () = end.cancelled() => break None,
                () = self.rested() => break None,
                () = changed.notified() => {
                    tokio::time::sleep(SETTLES).await;
                    let listed = tokio::time::timeout(self.config.connect_timeout, self.list(&peer));
                    match listed.await {
                        Ok(Ok(offers)) => {
                            self.learn(offers);
                            self.set(ServerState::Ready);
                        }
                        Ok(Err(reason)) => faults.say(reason),
                        Err(_) => faults.say("its tools cannot be listed in time"),
                    }
                }
            }
        };
        // From now on whoever calls makes a connection of their own.
        faults.say(reason.clone().unwrap_or_else(|| "it was not needed any more".to_owned()));
        stop.cancel();
        if !has_ended {
            // What it was still to be told it is told in a moment, or not at all.
            let _ = tokio::time::timeout(GRACE, ended).await;
        }
        if let Some((life, window)) = running.take() {
            life.end(GRACE).await;
            if let Some(window) = window
                && let Err(error) = window.label_changes().await
            {
                tracing::error!(%error, "files that an MCP server changed stay in doubt");
            }
        }
        if let Some(reason) = reason {
            self.note(&with_remark(reason, &remark));
        }
        let mut link = self.link.lock().await;
        if link.as_ref().is_some_and(|link| link.number == number) {
            *link = None;
            self.set(ServerState::Resting);
        }
    }

    /// Waits until nobody has called for as long as the settings say.
    async fn rested(&self) {
        loop {
            let used = self.state().used.unwrap_or_else(Instant::now);
            let due = used + self.config.idle_timeout;
            if self.busy.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(self.config.idle_timeout).await;
            } else if Instant::now() >= due {
                return;
            } else {
                tokio::time::sleep_until(due).await;
            }
        }
    }

    /// Calls a tool. Told to stop, it tells the server and ends.
    pub(super) async fn call(
        self: Arc<Self>,
        tool: String,
        args: JsonObject,
        cancel: CancellationToken,
    ) -> Result<Answer, McpError> {
        let busy = Busy::new(&self);
        let peer = self.connect().await?;
        let server = self.name.clone();
        if cancel.is_cancelled() {
            return Err(McpError::Stopped { server });
        }
        self.state().calls += 1;
        let params = CallToolRequestParams::new(tool).with_arguments(args);
        let called = tokio::select! {
            called = peer.call_tool_once(params) => called,
            () = cancel.cancelled() => {
                // Dropping the call has told the server. One that is stuck does not answer to anything else either.
                self.doubt().await;
                return Err(McpError::Stopped { server });
            }
        };
        drop(busy);
        match called {
            Ok(CallToolResponse::Complete(result)) => Ok(result::answer(result)),
            Ok(CallToolResponse::InputRequired(_)) => {
                Err(McpError::Wants { server, what: "further input" })
            }
            Ok(CallToolResponse::Task(_)) => Err(McpError::Wants { server, what: "a task of its own" }),
            Ok(_) => Err(McpError::Senseless { server }),
            Err(ServiceError::McpError(error)) => {
                Err(McpError::Refused { message: definition::shown(&error.message) })
            }
            Err(ServiceError::UnexpectedResponse) => Err(McpError::Senseless { server }),
            Err(ServiceError::TransportSend(error)) => {
                let reason = error.to_string();
                self.note(&reason);
                self.doubt().await;
                Err(self.unreachable(reason, None))
            }
            Err(_) => Err(McpError::Ended { server }),
        }
    }

    /// Finds out whether the server still answers. Whoever calls meanwhile waits for that.
    async fn doubt(self: &Arc<Self>) {
        let server = Arc::clone(self);
        if let Some(link) = &*self.link.lock().await {
            link.doubted.store(true, Ordering::Relaxed);
        }
        tokio::spawn(async move {
            if let Some(link) = &*server.link.lock().await {
                link.is_alive().await;
            }
        });
    }
}

impl Link {
    /// Whether calls can be made. A server in doubt is asked; one that does not answer is ended.
    async fn is_alive(&self) -> bool {
        if self.peer.is_transport_closed()
            || self.end.is_cancelled()
            || self.faults.said().is_some()
        {
            return false;
        }
        if !self.doubted.load(Ordering::Relaxed) {
            return true;
        }
        let ping = self.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        let answers = matches!(
            tokio::time::timeout(PING, ping).await,
            Ok(Ok(_) | Err(ServiceError::McpError(_)))
        );
        if answers {
            self.doubted.store(false, Ordering::Relaxed);
        } else {
            self.faults.say("it does not answer any more");
        }
        answers
    }
}

impl Status {
    /// How long it is left alone.
    fn pause(&self) -> Option<Duration> {
        let pause = self.retry_at?.checked_duration_since(Instant::now())?;
        (!pause.is_zero()).then_some(pause)
    }
}

/// A call under way: the server is not let go meanwhile.
struct Busy(Arc<Server>);

impl Busy {
    fn new(server: &Arc<Server>) -> Self {
        server.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(server))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.state().used = Some(Instant::now());
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first words between us and a server.
async fn shake<T: Transport<RoleClient> + 'static>(
    handler: Handler,
    transport: T,
    faults: &Faults,
) -> Result<RunningService<RoleClient, Handler>, String> {
    tokio::select! {
        shaken = handler.serve(transport) => shaken.map_err(|error| match error {
            ClientInitializeError::TransportError { error, .. } => error.error.to_string(),
            ClientInitializeError::JsonRpcError(error) => {
                format!("it refuses to begin: {}", definition::shown(&error.message))
            }
            ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
            _ => "it does not speak MCP as we do".to_owned(),
        }),
        fault = faults.heard() => Err(fault),
    }
}

/// The words of an error of a server, or of the way to it.
fn words(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => definition::shown(&error.message),
        ServiceError::TransportSend(error) => error.error.to_string(),
        ServiceError::UnexpectedResponse => "it answered something else".to_owned(),
        _ => "it ended".to_owned(),
    }
}

/// The reason of a failure, with what the program wrote last to its error output.
fn with_remark(reason: String, remark: &Remark) -> String {
    match remark.last() {
        Some(last) => format!("{reason}; its last words: {last}"),
        None => reason,
    }
}

/// Whether the patterns of a vault entry name a server.
fn permits(patterns: &[String], key: &str) -> bool {
    let names = |pattern: &str| pattern == "@mcp" || fits(pattern, key);
    let any = |removed: bool| {
        patterns.iter().any(|pattern| match pattern.strip_prefix('!') {
            Some(pattern) => removed && names(pattern),
            None => !removed && names(pattern),
        })
    };
    any(false) && !any(true)
}

/// Arguments of a call as the protocol has them.
pub(super) fn arguments(args: Value) -> JsonObject {
    match args {
        Value::Object(args) => args,
        _ => JsonObject::new(),
    }
}
