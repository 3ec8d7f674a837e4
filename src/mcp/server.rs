//! One server of one team: connected when it is needed, let go when it is not, tried again when it failed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::Clock,
    live::event::{Event, Kind},
};
use parking_lot::{Mutex, MutexGuard};
use rmcp::{
    model::{CallToolRequestParams, CallToolResponse, JsonObject},
    service::ServiceError,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    context::ServerContext,
    definition::{self, Definitions},
    fault::{Faults, McpError},
    http,
    link::Link,
    opening,
    program::Remark,
    result::{self, Answer},
    status::{ServerState, Status},
};
use crate::system::WallClock;

/// One server of one team.
pub struct Server {
    pub context: ServerContext,
    status: Mutex<Status>,
    pub(super) link: tokio::sync::Mutex<Option<Link>>,
    /// How often a connection was tried: its number is the generation of what is told of it.
    tries: AtomicUsize,
    /// Calls under way.
    pub(super) busy: AtomicUsize,
    /// Another one takes its place, or none.
    pub(super) closed: CancellationToken,
}

impl Server {
    pub(super) fn new(context: ServerContext) -> Self {
        Self {
            context,
            status: Mutex::default(),
            link: tokio::sync::Mutex::default(),
            tries: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            closed: CancellationToken::new(),
        }
    }

    pub fn status(&self) -> Status {
        self.state().clone()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, Status> {
        self.status.lock()
    }

    pub(super) fn set(&self, state: ServerState) {
        self.state().state = state;
        let (team, server) = (&self.context.team().name, &self.context.name);
        let about = json!({ "team": team, "server": server, "state": state });
        self.context.grounds.live.publish(Event::new(Kind::McpChanged, about).of_team(team));
    }

    /// Notes why a connection failed.
    pub(super) fn note(&self, number: usize, reason: &str) {
        self.state().note(number, WallClock.now(), reason);
        let (team, server) = (&self.context.team().name, &self.context.name);
        tracing::warn!(%team, server, error = reason, "an MCP server failed");
    }

    /// Whether none was tried after this connection. Holds while the link is locked.
    pub(super) fn is_newest(&self, number: usize) -> bool {
        self.tries.load(Ordering::Relaxed) == number
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
        let link =
            self.link.lock().await.as_ref().map(|link| (link.end.clone(), link.over.clone()));
        if let Some((end, over)) = link {
            end.cancel();
            over.cancelled().await;
        }
        {
            let mut state = self.state();
            state.forgive();
            state.offers = None;
        }
        self.set(ServerState::Resting);
    }

    fn unreachable(&self, reason: impl Into<String>, retry_in: Option<Duration>) -> McpError {
        let (server, reason) = (self.context.name.clone(), reason.into());
        let status = retry_in.and_then(|_| self.state().http);
        McpError::Unreachable { server, reason, status, retry_in }
    }

    /// The connection, made if there is none.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<Link, McpError> {
        let mut link = self.link.lock().await;
        if let Some(open) = &*link
            && open.is_alive().await
        {
            return Ok(open.clone());
        }
        if self.closed.is_cancelled() {
            return Err(self.unreachable("its settings have changed", None));
        }
        let pause = self.state().pause();
        if let Some(pause) = pause {
            let reason = self.state().last_error.clone().map(|(_, reason)| reason);
            return Err(self.unreachable(reason.unwrap_or_default(), Some(pause)));
        }
        let number = self.tries.fetch_add(1, Ordering::Relaxed) + 1;
        self.set(ServerState::Starting);
        let (faults, remark) = (Faults::default(), Remark::default());
        let opening = opening::open(&self.context, faults.clone(), remark.clone());
        let opened =
            match tokio::time::timeout(self.context.config().connect_timeout, opening).await {
                Ok(opened) => opened,
                Err(_) => Err("it did not answer in time".to_owned()),
            };
        match opened {
            Ok((opened, offers)) => {
                let made = Link::new(number, &opened);
                *link = Some(made.clone());
                self.learn(offers);
                {
                    let mut state = self.state();
                    state.forgive();
                    state.used = Some(Instant::now());
                }
                self.set(ServerState::Ready);
                hivewright_actors::spawn::anywhere(Arc::clone(self).keep(opened, made.clone()));
                Ok(made)
            }
            Err(reason) => {
                Err(self.failed(number, self.with_last_words(reason, &remark), faults.status()))
            }
        }
    }

    /// A reason of a failure, with what the program wrote last to its error output.
    pub(super) fn with_last_words(&self, reason: String, remark: &Remark) -> String {
        let scrubber = self.context.grounds.secrets.of(&self.context.team().name);
        match remark.last(&scrubber) {
            Some(last) => format!("{reason}; its last words: {last}"),
            None => reason,
        }
    }

    fn failed(&self, number: usize, reason: String, http: Option<u16>) -> McpError {
        self.note(number, &reason);
        let pause = self.state().fail(http);
        self.set(ServerState::Failing);
        self.unreachable(reason, Some(pause))
    }

    pub(super) fn learn(&self, offers: Definitions) {
        let mut state = self.state();
        if state.offers.as_deref() != Some(&offers) {
            state.version += 1;
            state.offers = Some(Arc::new(offers));
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
        let Link { number, peer, .. } = self.connect().await?;
        let server = self.context.name.clone();
        if cancel.is_cancelled() {
            return Err(McpError::Stopped { server });
        }
        self.state().calls += 1;
        let params = CallToolRequestParams::new(tool).with_arguments(args);
        let called = tokio::select! {
            called = peer.call_tool_once(params) => called,
            () = cancel.cancelled() => {
                // Dropping the call has told the server. One that is stuck does not answer to anything else either.
                self.doubt("a call was given up").await;
                return Err(McpError::Stopped { server });
            }
        };
        drop(busy);
        match called {
            Ok(CallToolResponse::Complete(result)) => Ok(result::answer(result)),
            Ok(CallToolResponse::InputRequired(_)) => {
                Err(McpError::Wants { server, what: "further input" })
            }
            Ok(CallToolResponse::Task(_)) => {
                Err(McpError::Wants { server, what: "a task of its own" })
            }
            Ok(_) => Err(McpError::Senseless { server }),
            Err(ServiceError::McpError(error)) => {
                Err(McpError::Refused { message: definition::shown(&error.message) })
            }
            Err(ServiceError::UnexpectedResponse) => Err(McpError::Senseless { server }),
            Err(ServiceError::TransportSend(error)) => {
                let reason = http::words(&*error.error);
                self.note(number, &reason);
                self.doubt(&reason).await;
                if let Some(status) = http::status(&*error.error) {
                    return Err(McpError::Status { server, status });
                }
                if http::was_sent(&*error.error) {
                    return Err(McpError::Ended { server });
                }
                Err(self.unreachable(reason, None))
            }
            Err(_) => Err(McpError::Ended { server }),
        }
    }

    /// Finds out whether the server still answers. Whoever calls meanwhile waits for that.
    async fn doubt(self: &Arc<Self>, why: &str) {
        let server = Arc::clone(self);
        if let Some(link) = &*self.link.lock().await {
            link.put_in_doubt(why.to_owned());
        }
        hivewright_actors::spawn::anywhere(async move {
            if let Some(link) = &*server.link.lock().await {
                link.is_alive().await;
            }
        });
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

/// Arguments of a call as the protocol has them.
pub(super) fn arguments(args: Value) -> JsonObject {
    match args {
        Value::Object(args) => args,
        _ => JsonObject::new(),
    }
}
