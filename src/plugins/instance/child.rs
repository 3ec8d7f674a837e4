//! Child: what runs of a plugin of a team, and what is said to it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hivewright_actors::{clock::millis, plugin::PluginChild};
use parking_lot::Mutex;
use rmcp::{
    Peer, RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, ClientNotification, ClientRequest,
        CustomNotification, CustomRequest, ErrorCode,
    },
    service::{PeerRequestOptions, RunningService, ServiceError},
};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    TeamPlugin,
    errors::Lines,
    inbound::Inbound,
    life::Life,
    offers,
    wire::{self, RequestError},
};
use crate::{
    mcp::{
        definition::shown,
        fault::Faults,
        result::{self, Answer},
    },
    sandbox::quota::Excess,
};

/// Requests that a child has not answered.
const IN_FLIGHT: usize = 100;
/// Events that wait for a child; of more the oldest are dropped.
const MOST_EVENTS: usize = 256;
/// How long a child has to say that it stops, and then to end by itself when it is told to by a signal.
const STOP: Duration = Duration::from_secs(5);
/// How long a process whose streams have ended has to end itself.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a child that owes no answer is asked whether it is there, and how long it has to say so.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);
/// A child that was silent so often in a row is as good as ended.
const MOST_SILENT: u32 = 2;
/// A list that changed is read again after this time, however often it changes.
const SETTLES: Duration = Duration::from_millis(500);

/// Why a child ended that was told to.
const UNNEEDED: &str = "it was not needed any more";

/// What runs of a plugin of a team. Dropping it ends it.
pub struct Child {
    peer: Peer<RoleClient>,
    requests: Arc<Semaphore>,
    events: Arc<Events>,
    faults: Faults,
    /// It takes `plugin/stop`.
    is_ours: bool,
    end: CancellationToken,
    over: CancellationToken,
    _end_on_drop: DropGuard,
}

/// What is left of a child while it runs.
pub(super) struct Running {
    pub(super) service: RunningService<RoleClient, Inbound>,
    pub(super) life: Life,
    pub(super) excess: BoxFuture<'static, Excess>,
    pub(super) changed: Arc<Notify>,
    pub(super) lines: Lines,
}

/// Events on their way to a child.
#[derive(Default)]
struct Events {
    waiting: Mutex<VecDeque<wire::Notify>>,
    bell: Notify,
}

impl Child {
    /// A child that has said its first words. `plugin` is told when its tools change.
    pub(super) fn new(
        running: Running,
        faults: Faults,
        plugin: Arc<TeamPlugin>,
        is_ours: bool,
    ) -> Self {
        let (end, over) = (CancellationToken::new(), CancellationToken::new());
        let peer = running.service.peer().clone();
        let events = Arc::<Events>::default();
        let requests = Arc::new(Semaphore::new(IN_FLIGHT));
        let child = Self {
            peer: peer.clone(),
            requests: Arc::clone(&requests),
            events: Arc::clone(&events),
            faults: faults.clone(),
            is_ours,
            end: end.clone(),
            over: over.clone(),
            _end_on_drop: end.clone().drop_guard(),
        };
        hivewright_actors::spawn::anywhere(pump(peer, events, over.clone()));
        hivewright_actors::spawn::anywhere(keep(running, faults, plugin, requests, end, over));
        child
    }

    /// Asks it something that MCP does not have.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<T, RequestError> {
        let asking = async {
            let _place = self.requests.acquire().await.map_err(|_| RequestError::Gone)?;
            request(&self.peer, method, params, limit).await
        };
        // One that does not read is not waited for either.
        tokio::select! {
            answer = tokio::time::timeout(limit, asking) => answer.unwrap_or(Err(RequestError::Timeout)),
            () = self.over.cancelled() => Err(RequestError::Gone),
        }
    }

    /// Asks whether it is there.
    pub async fn ping(&self, limit: Duration) -> Result<(), RequestError> {
        self.request::<IgnoredAny>(wire::PING, &json!({}), limit).await.map(drop)
    }

    /// Asks one of its hooks.
    pub async fn fire(
        &self,
        fire: &wire::Fire<'_>,
        limit: Duration,
    ) -> Result<wire::Decision, RequestError> {
        self.request(wire::HOOK_FIRE, fire, limit).await
    }

    /// Calls a tool. Dropping the call tells the plugin to stop it.
    pub async fn call(
        &self,
        tool: &str,
        args: &Value,
        meta: &wire::CallMeta<'_>,
    ) -> Result<Answer, RequestError> {
        let params = json!({"name": tool, "arguments": args, "_meta": meta});
        let params: CallToolRequestParams =
            serde_json::from_value(params).map_err(|_| RequestError::Senseless)?;
        let _place = self.requests.acquire().await.map_err(|_| RequestError::Unsent)?;
        // Until nothing of it is left, one that has ended counts as running.
        if self.peer.is_transport_closed() || self.faults.said().is_some() {
            return Err(RequestError::Unsent);
        }
        let called = tokio::select! {
            called = self.peer.call_tool_once(params) => called,
            () = self.over.cancelled() => return Err(RequestError::Gone),
        };
        match called {
            Ok(CallToolResponse::Complete(answer)) => Ok(result::answer(answer)),
            Ok(_) => Err(RequestError::Senseless),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Tells it of an event. Nobody waits: of too many the oldest are dropped.
    pub fn tell(&self, event: wire::Notify) -> usize {
        let mut waiting = self.events.waiting.lock();
        waiting.push_back(event);
        let dropped = waiting.len().saturating_sub(MOST_EVENTS);
        waiting.drain(..dropped);
        drop(waiting);
        self.events.bell.notify_one();
        dropped
    }
}

impl PluginChild for Child {
    fn ended(&self) -> BoxFuture<'static, String> {
        let (over, faults) = (self.over.clone(), self.faults.clone());
        Box::pin(async move {
            over.cancelled().await;
            faults.said().unwrap_or_default()
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let (peer, end, over) = (self.peer.clone(), self.end.clone(), self.over.clone());
        let is_ours = self.is_ours;
        Box::pin(async move {
            if is_ours {
                let deadline_ms = millis(STOP);
                let stop = wire::Stop { reason: UNNEEDED, deadline_ms };
                let asked = request::<IgnoredAny>(&peer, wire::PLUGIN_STOP, &stop, STOP);
                // Whatever it says, it ends.
                tokio::select! {
                    _ = tokio::time::timeout(STOP, asked) => {}
                    () = over.cancelled() => {}
                }
            }
            end.cancel();
            over.cancelled().await;
        })
    }
}

/// Asks the other side something that MCP does not have.
pub(super) async fn request<T: DeserializeOwned>(
    peer: &Peer<RoleClient>,
    method: &'static str,
    params: &impl Serialize,
    limit: Duration,
) -> Result<T, RequestError> {
    let params = serde_json::to_value(params).map_err(|_| RequestError::Senseless)?;
    let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    let options = PeerRequestOptions::with_timeout(limit);
    let sent = peer.send_cancellable_request(request, options).await.map_err(refusal)?;
    let answer = sent.await_response().await.map_err(refusal)?;
    let answer = serde_json::to_value(answer).map_err(|_| RequestError::Senseless)?;
    serde_json::from_value(answer).map_err(|_| RequestError::Senseless)
}

fn refusal(error: ServiceError) -> RequestError {
    match error {
        ServiceError::McpError(error) => {
            let ErrorCode(code) = error.code;
            RequestError::Refused { code, message: shown(&error.message), data: error.data }
        }
        ServiceError::Timeout { .. } => RequestError::Timeout,
        ServiceError::UnexpectedResponse => RequestError::Senseless,
        _ => RequestError::Gone,
    }
}

/// Passes events on as fast as the child takes them.
async fn pump(peer: Peer<RoleClient>, events: Arc<Events>, over: CancellationToken) {
    let pumping = async {
        loop {
            let next = events.waiting.lock().pop_front();
            let Some(event) = next else {
                events.bell.notified().await;
                continue;
            };
            let Ok(params) = serde_json::to_value(&event) else { continue };
            let event = CustomNotification::new(wire::HOOK_NOTIFY, Some(params));
            let sent = peer.send_notification(ClientNotification::CustomNotification(event));
            if sent.await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = pumping => {}
        () = over.cancelled() => {}
    }
}

/// Ends when a child that owes no answer has been silent too often. One that works on something may have no ear for
/// anything else, and that has its own deadline.
async fn silence(peer: &Peer<RoleClient>, requests: &Semaphore) -> String {
    let mut silent = 0;
    while silent < MOST_SILENT {
        tokio::time::sleep(PING).await;
        if requests.available_permits() < IN_FLIGHT {
            silent = 0;
            continue;
        }
        let nothing = json!({});
        let asked = request::<IgnoredAny>(peer, wire::PING, &nothing, PONG);
        match tokio::time::timeout(PONG, asked).await {
            Err(_) | Ok(Err(RequestError::Timeout)) => silent += 1,
            // A refusal is a sign of life too.
            Ok(_) => silent = 0,
        }
    }
    "it does not answer: two pings were lost".to_owned()
}

/// Waits for the end of a child, and clears away what is left of it.
async fn keep(
    running: Running,
    faults: Faults,
    plugin: Arc<TeamPlugin>,
    requests: Arc<Semaphore>,
    end: CancellationToken,
    over: CancellationToken,
) {
    let Running { service, mut life, mut excess, changed, lines } = running;
    let _over = over.drop_guard();
    let (peer, stop) = (service.peer().clone(), service.cancellation_token());
    let mut ended = std::pin::pin!(service.waiting());
    let mut silence = std::pin::pin!(silence(&peer, &requests));
    let mut has_ended = false;
    let reason = loop {
        tokio::select! {
            _ = &mut ended => {
                has_ended = true;
                break None;
            }
            excess = &mut excess => break Some(format!("it wrote too much: {excess}")),
            fault = faults.heard() => break Some(fault),
            silence = &mut silence => break Some(silence),
            () = end.cancelled() => break Some(UNNEEDED.to_owned()),
            () = changed.notified() => {
                let listing = async {
                    tokio::time::sleep(SETTLES).await;
                    offers::tools(&peer, &plugin).await
                };
                let listed = tokio::select! {
                    listed = listing => listed,
                    fault = faults.heard() => break Some(fault),
                    () = end.cancelled() => break Some(UNNEEDED.to_owned()),
                };
                // One that fails to tell of its tools keeps those that are known.
                match listed {
                    Ok(Some(tools)) => plugin.learn(tools),
                    Ok(None) => {}
                    Err(fault) => lines.log(&fault.reason),
                }
            }
        }
    };
    stop.cancel();
    let reason = match reason {
        Some(reason) => {
            if !has_ended {
                // What it was still to be told it is told in a moment, or not at all.
                let _ = tokio::time::timeout(LAST_WORDS, ended).await;
            }
            reason
        }
        None => match faults.said() {
            Some(fault) => fault,
            None => {
                let why = tokio::time::timeout(LAST_WORDS, life.ended()).await;
                lines.with_last(why.ok().flatten().unwrap_or_else(|| "it ended".to_owned()))
            }
        },
    };
    faults.say(reason);
    life.end(STOP).await;
}

#[cfg(test)]
mod tests {
    use rmcp::{ServiceExt, transport::async_rw::AsyncRwTransport};
    use tokio::{
        io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
        sync::mpsc,
        time::Instant,
    };

    use super::*;

    /// A plugin that answers as many pings as it is told to, and tells of each.
    async fn plugin(
        stream: tokio::io::DuplexStream,
        mut pings: usize,
        heard: mpsc::Sender<Instant>,
    ) {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let mut answer = json!({"jsonrpc": "2.0", "id": message["id"]});
            match message["method"].as_str() {
                Some("initialize") => {
                    answer["result"] = json!({
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "serverInfo": {"name": "test", "version": "1"},
                    });
                }
                Some("ping") => {
                    heard.send(Instant::now()).await.unwrap();
                    if pings == 0 {
                        continue;
                    }
                    pings -= 1;
                    answer["result"] = json!({});
                }
                _ if message["id"].is_null() => continue,
                _ => answer["error"] = json!({"code": -32601, "message": "unknown method"}),
            }
            write.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }

    /// PL-103
    #[tokio::test(start_paused = true)]
    async fn a_child_that_is_silent_twice_is_as_good_as_ended_unless_it_works() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (heard, mut pings) = mpsc::channel(16);
        tokio::spawn(plugin(theirs, 1, heard));
        let (read, write) = tokio::io::split(ours);
        let transport = AsyncRwTransport::<RoleClient, _, _>::new(read, write);
        let service = ().serve(transport).await.unwrap();
        let requests = Arc::new(Semaphore::new(IN_FLIGHT));
        let began = Instant::now();

        // While it owes an answer, nobody asks it anything else.
        let call = Arc::clone(&requests).acquire_owned().await.unwrap();
        let at_work = tokio::time::timeout(10 * PING, silence(service.peer(), &requests)).await;
        let asked_at_work = pings.try_recv().is_ok();
        drop(call);
        let told = silence(service.peer(), &requests).await;

        assert!(at_work.is_err() && !asked_at_work);
        let asked: Vec<_> = std::iter::from_fn(|| pings.try_recv().ok()).collect();
        assert_eq!(asked.len(), 3, "one was answered, two were not");
        assert_eq!(began.elapsed().as_secs(), (13 * PING + 2 * PONG).as_secs());
        assert!(told.contains("two pings"), "{told}");
    }
}
