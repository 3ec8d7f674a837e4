//! Builtin plugins: ours, compiled in. A child of one is a task at the other end of a pipe in memory, where a process
//! would be.

use std::{any::Any, collections::HashMap, sync::Arc};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    BUILTIN_DOUBLES,
    plugin::builtin::{Builtin, BuiltinHost, MakeBuiltin},
};
use parking_lot::Mutex;
use rmcp::model::ErrorCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream},
    sync::{mpsc, oneshot},
    task::{AbortHandle, JoinSet},
};

mod dates;

/// Those that there are, by key. Each has its manifest in `config/plugins/`.
const BUILTINS: &[(&str, MakeBuiltin)] = &[("dates", dates::Dates::make)];

/// The code of a builtin.
pub(super) fn find(key: &str) -> Option<MakeBuiltin> {
    let mut known = BUILTINS.iter().chain(BUILTIN_DOUBLES);
    known.find(|(name, _)| *name == key).map(|(_, make)| *make)
}

/// Runs a child until nobody is at the other end. Returns why it ended, if that was its own doing.
pub(super) async fn serve(builtin: Arc<dyn Builtin>, pipe: DuplexStream) -> Option<String> {
    let (read, write) = tokio::io::split(pipe);
    let (lines, saying) = mpsc::unbounded_channel();
    let service = Arc::new(Pipe { lines, asked: Mutex::default() });
    tokio::select! {
        why = hear(&builtin, BufReader::new(read), &service) => why,
        () = say(write, saying) => None,
    }
}

/// Writes what is to be said; what is heard does not wait for it.
async fn say(mut to: impl AsyncWrite + Unpin, mut saying: mpsc::UnboundedReceiver<Value>) {
    while let Some(message) = saying.recv().await {
        if to.write_all(format!("{message}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn hear(
    builtin: &Arc<dyn Builtin>,
    from: impl AsyncBufReadExt + Unpin,
    service: &Arc<Pipe>,
) -> Option<String> {
    let (mut lines, mut running) = (from.lines(), JoinSet::new());
    let mut requests: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line.ok().flatten()?,
            Some(done) = running.join_next() => match done {
                Err(error) if error.is_panic() => return Some(panicked(&*error.into_panic())),
                _ => continue,
            },
        };
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
        let (id, params) = (message["id"].take(), message["params"].take());
        let Some(method) = message["method"].as_str() else {
            service.answered(&id, &mut message);
            continue;
        };
        match method {
            "initialize" => service.say(&id, Ok(hello(&params))),
            "ping" => service.say(&id, Ok(json!({}))),
            "notifications/cancelled" => {
                if let Some(request) = requests.remove(&params["requestId"].to_string()) {
                    request.abort();
                }
            }
            method => {
                requests.retain(|_, request| !request.is_finished());
                let (key, method) = (id.to_string(), method.to_owned());
                let (builtin, host) = (Arc::clone(builtin), Arc::clone(service));
                let request = running.spawn(async move {
                    let answer = builtin.take(method, params, host.clone()).await;
                    host.say(&id, answer);
                });
                requests.insert(key, request);
            }
        }
    }
}

/// The answer to `initialize`: the version of MCP is the one that was asked for.
fn hello(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hivewright", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn panicked(words: &(dyn Any + Send)) -> String {
    let text = words.downcast_ref::<&str>().copied();
    let text = text.or_else(|| words.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("nobody knows why"))
}

type Answer = Result<Value, String>;

/// The service, as a builtin sees it.
struct Pipe {
    lines: mpsc::UnboundedSender<Value>,
    /// Requests that are not answered, each at its number.
    asked: Mutex<Vec<Option<oneshot::Sender<Answer>>>>,
}

impl Pipe {
    /// Answers a request; a notification has no answer.
    fn say(&self, id: &Value, answer: Answer) {
        let message = match answer {
            _ if id.is_null() => return,
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(message) => {
                let error = json!({"code": ErrorCode::INTERNAL_ERROR.0, "message": message});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        // When nobody hears it any more, the child ends.
        let _ = self.lines.send(message);
    }

    fn answered(&self, id: &Value, message: &mut Value) {
        let place = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let waiting = place.and_then(|place| self.asked.lock().get_mut(place)?.take());
        if let Some(waiting) = waiting {
            let refusal = message["error"]["message"].as_str().map(str::to_owned);
            // Whoever asked may have been cancelled.
            let _ = waiting.send(refusal.map_or_else(|| Ok(message["result"].take()), Err));
        }
    }
}

impl BuiltinHost for Pipe {
    fn ask(&self, method: &str, params: Value) -> BoxFuture<'static, Answer> {
        let (waiting, answered) = oneshot::channel();
        let mut asked = self.asked.lock();
        // The first number that nobody uses.
        let free = asked.iter().position(Option::is_none);
        let id = free.unwrap_or_else(|| {
            asked.push(None);
            asked.len() - 1
        });
        asked[id] = Some(waiting);
        drop(asked);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let _ = self.lines.send(message);
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err("it ends".to_owned())) })
    }

    fn tell(&self, method: &str, params: Value) {
        let _ = self.lines.send(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }
}

#[cfg(test)]
mod tests;
