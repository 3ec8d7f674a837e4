//! Hosts of the tools that teams wrote: one process for each team, started when a tool is called, ended when it rests.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use hivewright_actors::{
    excerpt,
    ids::{TeamKey, TeamName},
    org::belongings::Belongings,
    store::records::Writes,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::unix::OwnedWriteHalf,
    process::ChildStderr,
    sync::{Mutex as AsyncMutex, Notify, Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    engine::{Fault, Stop},
    wire::{CallLimits, FromHost, LONGEST_LINE, Opening, Outcome, ToHost},
};
use crate::{
    json_limits,
    sandbox::{
        process::{
            Sandbox, SandboxError,
            agent::{Launched, Life},
        },
        thread::LazyThread,
    },
};

/// The memory of one call, in bytes.
const MEMORY: usize = 64 << 20;
/// Calls of a team that run at once. Others wait.
const AT_ONCE: usize = 4;
/// The memory of a host: of its calls, and its own.
const HOST_MEMORY: u64 = (AT_ONCE * MEMORY + (128 << 20)) as u64;
/// The CPU time of one call.
pub const CPU: Duration = Duration::from_secs(10);
/// A host that nobody used for so long is ended.
const IDLE: Duration = Duration::from_secs(60);
/// How much later than its time a call is given up: code that does not even hear that it is to stop.
const GRACE: Duration = Duration::from_secs(1);
/// How long a host has to end when it is asked to.
const END: Duration = Duration::from_secs(2);
/// What is kept of its error output, in bytes.
const REMARK: u64 = 2 << 10;

/// Does for code what it cannot do itself. It judges what it is asked: the code is not trusted.
pub trait Broker: Send + Sync {
    fn fetch(&self, params: Value) -> BoxFuture<'static, Result<Value, String>>;
}

pub struct Offline;

impl Broker for Offline {
    fn fetch(&self, _: Value) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(std::future::ready(Err("there is no network while a tool is checked".to_owned())))
    }
}

/// The code of a call.
#[derive(Clone)]
pub struct Call {
    pub source: Arc<str>,
    /// What the function is called with; without it the module is only looked at.
    pub input: Option<Value>,
    pub limits: CallLimits,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    pub outcome: Outcome,
    /// What it wrote to its console.
    pub console: String,
}

/// Why a call has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the host ended during the call: {0}")]
    Ended(String),
    #[error("the call was stopped")]
    Stopped,
}

/// The hosts of all teams. Cheap to clone.
#[derive(Clone)]
pub struct Hosts(Arc<Inner>);

struct Inner {
    sandbox: Arc<Sandbox>,
    idle: Duration,
    teams: Mutex<HashMap<TeamName, Arc<TeamHost>>>,
    /// Where connections to hosts live.
    thread: LazyThread,
}

/// The place of a team's host.
struct TeamHost {
    places: Semaphore,
    host: AsyncMutex<Option<Arc<Host>>>,
}

impl Hosts {
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        Self::resting_after(sandbox, IDLE)
    }

    fn resting_after(sandbox: Arc<Sandbox>, idle: Duration) -> Self {
        let (teams, thread) = (Mutex::default(), LazyThread::new("scripts"));
        Self(Arc::new(Inner { sandbox, idle, teams, thread }))
    }

    /// Hosts for a test in which nobody calls anything.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        Self::new(Arc::new(Sandbox::unused()))
    }

    fn of_team(&self, team: &TeamName) -> Arc<TeamHost> {
        let fresh = || TeamHost { places: Semaphore::new(AT_ONCE), host: AsyncMutex::default() };
        Arc::clone(self.0.teams.lock().entry(team.clone()).or_insert_with(|| Arc::new(fresh())))
    }

    /// Runs code of a team. Cancelled, it ends soon.
    pub async fn call(
        &self,
        team: &TeamName,
        call: Call,
        broker: Arc<dyn Broker>,
        cancel: CancellationToken,
    ) -> Result<Done, HostError> {
        let (this, place, team) = (self.clone(), self.of_team(team), team.clone());
        let ended = || HostError::Ended("the service has no thread for it".to_owned());
        let runtime = self.0.thread.runtime().ok_or_else(ended)?;
        // Whoever gives up waiting stops the call.
        let guard = cancel.clone().drop_guard();
        let calling =
            runtime.spawn(async move { this.run(&place, &team, call, broker, &cancel).await });
        let done = calling.await.unwrap_or_else(|_| Err(ended()));
        drop(guard);
        done
    }

    async fn run(
        &self,
        place: &TeamHost,
        team: &TeamName,
        call: Call,
        broker: Arc<dyn Broker>,
        cancel: &CancellationToken,
    ) -> Result<Done, HostError> {
        let limit = Duration::from_millis(call.limits.time_ms);
        let _place = tokio::select! {
            place = place.places.acquire() => place,
            () = cancel.cancelled() => return Err(HostError::Stopped),
        };
        let host = self.host(place, team).await?;
        let (id, done) = host.begin(call, broker);
        let outcome = tokio::select! {
            done = done => done.map_err(|_| HostError::Ended(host.why())),
            () = tokio::time::sleep(limit + GRACE) => {
                // It does not hear: the others in this host end there, later calls find a new one.
                host.retire();
                let message = "its time was over".to_owned();
                let fault = Fault { stop: Some(Stop::Time), message, ..Fault::default() };
                Ok(Done { outcome: Outcome::Failed(fault), console: String::new() })
            }
            () = cancel.cancelled() => {
                host.tell(ToHost::Stop { id });
                Err(HostError::Stopped)
            }
        };
        host.forget(id);
        outcome
    }

    /// The host of a team. One that cannot take calls any more is replaced.
    async fn host(&self, place: &TeamHost, team: &TeamName) -> Result<Arc<Host>, HostError> {
        let mut known = place.host.lock().await;
        if let Some(host) = &*known
            && host.is_good()
        {
            return Ok(Arc::clone(host));
        }
        let started = self.0.sandbox.start_script_host(HOST_MEMORY).await?;
        let host = Host::drive(started, self.0.idle, team);
        *known = Some(Arc::clone(&host));
        Ok(host)
    }

    pub async fn end(&self) {
        let places: Vec<_> = self.0.teams.lock().values().cloned().collect();
        Self::end_all(places).await;
    }

    async fn end_all(places: Vec<Arc<TeamHost>>) {
        let ending = places.into_iter().map(|place| async move {
            if let Some(host) = place.host.lock().await.take() {
                host.end.cancel();
                host.over.cancelled().await;
            }
        });
        // What has not ended by then is killed all the same.
        let _ = tokio::time::timeout(2 * END, join_all(ending)).await;
    }
}

/// The host of a team that is shut down.
impl Belongings for Hosts {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let place = self.0.teams.lock().remove(&team.name);
        Box::pin(async move {
            Self::end_all(place.into_iter().collect()).await;
            Vec::new()
        })
    }

    fn rest(&self, team: &TeamName, now: bool) -> BoxFuture<'static, ()> {
        let place = self.0.teams.lock().get(team).filter(|_| now).cloned();
        Box::pin(Self::end_all(place.into_iter().collect()))
    }
}

/// A call that runs in a host.
struct Running {
    done: oneshot::Sender<Done>,
    broker: Arc<dyn Broker>,
    /// Requests that it may still make. The host counts too, but it is not trusted.
    fetches: u32,
    /// Requests under way. They end with the call: nobody hears their answers.
    requests: JoinSet<()>,
}

struct Host {
    requests: mpsc::UnboundedSender<ToHost>,
    calls: Mutex<HashMap<u64, Running>>,
    next: AtomicU64,
    /// It takes no more calls.
    retired: AtomicBool,
    /// A call began or ended.
    changed: Notify,
    end: CancellationToken,
    /// Nothing of it is left.
    over: CancellationToken,
    reason: OnceLock<String>,
}

impl Host {
    fn new(requests: mpsc::UnboundedSender<ToHost>) -> Arc<Self> {
        Arc::new(Self {
            requests,
            calls: Mutex::default(),
            next: AtomicU64::new(1),
            retired: AtomicBool::new(false),
            changed: Notify::new(),
            end: CancellationToken::new(),
            over: CancellationToken::new(),
            reason: OnceLock::new(),
        })
    }

    /// Talks to a host that was started, until its end.
    fn drive(started: Launched, idle: Duration, team: &TeamName) -> Arc<Self> {
        let (requests, queue) = mpsc::unbounded_channel();
        let host = Self::new(requests);
        let Launched { streams, errors, life } = started;
        let (output, input) = streams.into_split();
        hivewright_actors::spawn::anywhere(write(input, queue, host.over.clone()));
        let (driving, team) = (Arc::clone(&host), team.clone());
        hivewright_actors::spawn::anywhere(async move {
            let remark = hivewright_actors::spawn::anywhere(remark(errors));
            let lines = BufReader::new(output);
            let why = driving.listen(lines, idle).await;
            driving.retired.store(true, Ordering::Relaxed);
            let why = driving.clear_away(why, life, remark).await;
            if let Some(why) = &why {
                tracing::warn!(%team, error = why, "the script host of a team ended; the next call starts another");
            }
            let _ = driving.reason.set(why.unwrap_or_else(|| "it was not needed".to_owned()));
            driving.calls.lock().clear();
            driving.over.cancel();
        });
        host
    }

    fn is_good(&self) -> bool {
        !self.retired.load(Ordering::Relaxed) && !self.end.is_cancelled()
    }

    fn why(&self) -> String {
        self.reason.get().cloned().unwrap_or_else(|| "it was lost".to_owned())
    }

    fn tell(&self, message: ToHost) {
        // A host that has ended hears nothing; its calls have ended with it.
        let _ = self.requests.send(message);
    }

    fn begin(&self, call: Call, broker: Arc<dyn Broker>) -> (u64, oneshot::Receiver<Done>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = oneshot::channel();
        let Call { source, input, limits } = call;
        let (fetches, requests) = (limits.fetches, JoinSet::new());
        self.calls.lock().insert(id, Running { done, broker, fetches, requests });
        let source = source.to_string();
        self.tell(match input {
            Some(input) => ToHost::Run { id, source, input, limits },
            None => ToHost::Inspect { id, source, limits },
        });
        self.changed.notify_one();
        if self.over.is_cancelled() {
            self.forget(id);
        }
        (id, ended)
    }

    fn forget(&self, id: u64) {
        self.calls.lock().remove(&id);
        self.changed.notify_one();
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Hears what a host says. Returns why it ended, unless that was wanted.
    async fn listen(
        self: &Arc<Self>,
        mut lines: impl AsyncBufRead + Unpin,
        idle: Duration,
    ) -> Option<String> {
        let mut line = Vec::new();
        let mut rests = Instant::now() + idle;
        loop {
            let is_busy = !self.calls.lock().is_empty();
            if is_busy {
                rests = Instant::now() + idle;
            } else if self.retired.load(Ordering::Relaxed) {
                return None;
            }
            tokio::select! {
                read = read_line(&mut lines, &mut line) => match read {
                    Ok(true) => {
                        if let Err(why) = self.hear(&line) {
                            return Some(why);
                        }
                        line.clear();
                    }
                    Ok(false) => return Some("it ended".to_owned()),
                    Err(why) => return Some(why),
                },
                () = self.changed.notified() => {}
                () = tokio::time::sleep_until(rests), if !is_busy => return None,
                () = self.end.cancelled() => return None,
            }
        }
    }

    fn hear(self: &Arc<Self>, line: &[u8]) -> Result<(), String> {
        let unread =
            |error: &dyn std::fmt::Display| format!("it wrote what nobody understands: {error}");
        json_limits::check(line).map_err(|error| unread(&error))?;
        match serde_json::from_slice(line).map_err(|error| unread(&error))? {
            FromHost::Done { id, outcome, console } => {
                let ended = self.calls.lock().remove(&id);
                if let Some(Running { done, .. }) = ended {
                    // Whoever does not wait any more needs no result.
                    let _ = done.send(Done { outcome, console });
                }
            }
            FromHost::Ask { id, ask, method, params } => {
                if let Err(why) = self.request(id, ask, &method, params) {
                    self.tell(ToHost::Answer { id, ask, result: Err(why) });
                }
            }
        }
        Ok(())
    }

    /// Begins what a call asks for.
    fn request(
        self: &Arc<Self>,
        id: u64,
        ask: u32,
        method: &str,
        params: Value,
    ) -> Result<(), String> {
        let mut calls = self.calls.lock();
        let call = calls.get_mut(&id).ok_or("the call has ended")?;
        if method != "host/fetch" {
            return Err(format!("`{method}` cannot be asked for"));
        }
        call.fetches = call.fetches.checked_sub(1).ok_or("the call has made all its requests")?;
        let (fetching, host) = (call.broker.fetch(params), Arc::clone(self));
        call.requests.spawn(async move {
            let result = fetching.await;
            host.tell(ToHost::Answer { id, ask, result });
        });
        Ok(())
    }

    /// Ends the process. What it said last tells more than that it ended.
    async fn clear_away(
        &self,
        why: Option<String>,
        mut life: Life,
        remark: tokio::task::JoinHandle<String>,
    ) -> Option<String> {
        if why.is_none() {
            life.end(END).await;
            return None;
        }
        let ended = tokio::time::timeout(END, life.ended()).await.ok().flatten();
        life.end(Duration::ZERO).await;
        let remark = remark.await.unwrap_or_default();
        let remark = (!remark.is_empty()).then(|| format!("its last words: {remark}"));
        let parts: Vec<_> = [ended.or(why), remark].into_iter().flatten().collect();
        Some(parts.join("; "))
    }
}

/// The end of the error output of a host.
async fn remark(errors: ChildStderr) -> String {
    let mut kept = Vec::new();
    // One that can be read no more says nothing more.
    let _ = errors.take(REMARK).read_to_end(&mut kept).await;
    excerpt::line(String::from_utf8_lossy(&kept).trim(), 300)
}

/// Writes requests to a host, after the line that says what it is for.
async fn write(
    mut input: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<ToHost>,
    over: CancellationToken,
) {
    let opening = serde_json::to_vec(&Opening::Tools { memory: MEMORY });
    let mut next = opening.ok();
    while let Some(mut line) = next {
        line.push(b'\n');
        // A host that reads no more has ended or will be ended.
        if input.write_all(&line).await.is_err() {
            return;
        }
        let message = tokio::select! {
            message = queue.recv() => message,
            () = over.cancelled() => return,
        };
        next = message.and_then(|message| serde_json::to_vec(&message).ok());
    }
}

/// Reads on in a line. Dropped, it has lost nothing. False at the end.
async fn read_line(
    lines: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> Result<bool, String> {
    // One byte more than allowed tells a line that is too long.
    let room = (LONGEST_LINE + 1).saturating_sub(line.len());
    let read = lines.take(room as u64).read_until(b'\n', line).await;
    read.map_err(|error| error.to_string())?;
    if line.len() > LONGEST_LINE {
        return Err("it wrote a line of more than 8 MiB".to_owned());
    }
    Ok(line.ends_with(b"\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Requests that are never answered; each tells when it is given up.
    struct Silent(mpsc::UnboundedSender<()>);

    impl Broker for Silent {
        fn fetch(&self, _: Value) -> BoxFuture<'static, Result<Value, String>> {
            let held = self.0.clone();
            Box::pin(async move {
                std::future::pending::<()>().await;
                drop(held);
                Ok(Value::Null)
            })
        }
    }

    /// TO-123, TO-124: a request lasts no longer than the call that makes it, however that ends.
    #[tokio::test]
    async fn requests_end_with_their_call() {
        let (requests, mut told) = mpsc::unbounded_channel();
        let host = Host::new(requests);
        let limits = CallLimits { time_ms: 1_000, cpu_ms: 1_000, fetches: 1 };
        let ask = |id: u64, ask: u32| {
            let said =
                json!({"told": "ask", "id": id, "ask": ask, "method": "host/fetch", "params": {}});
            host.hear(said.to_string().as_bytes()).unwrap();
        };

        for is_done in [true, false] {
            let (held, mut given_up) = mpsc::unbounded_channel();
            let call = Call { source: "".into(), input: None, limits };
            let (id, _done) = host.begin(call, Arc::new(Silent(held)));
            ask(id, 1);
            ask(id, 2);
            tokio::task::yield_now().await;
            if is_done {
                let said = json!({"told": "done", "id": id, "outcome": {"returned": ""}});
                host.hear(said.to_string().as_bytes()).unwrap();
            } else {
                host.forget(id);
            }

            assert_eq!(given_up.recv().await, None);
            assert!(matches!(told.recv().await, Some(ToHost::Inspect { .. })));
            let refused = told.recv().await;
            assert!(matches!(refused, Some(ToHost::Answer { ask: 2, result: Err(_), .. })));
        }
        assert!(told.try_recv().is_err());
    }
}
