//! A model server for tests: speaks the vendors' wire formats on a socket of its own.
//!
//! ```ignore
//! let model = FakeModel::start();
//! model.say([Reply::text("Hello"), Reply::call("read", json!({"path": "x"}))]);
//! // … point a profile at `model.url()` with the key `KEY` …
//! assert_eq!(model.requests()[0].body["model"], "m");
//! ```

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, http::StatusCode, web,
};
use futures_util::{StreamExt, stream};
use serde_json::Value;

mod wire;

use wire::Tokens;

/// The key that the server takes.
pub(crate) const KEY: &str = "fake-model-key-0123456789";

/// What the server does with one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Says blocks, as a model does.
    Blocks(Vec<Part>),
    /// Says a text in one JSON body, though a stream was asked for.
    Whole(String),
    /// An error status with headers, and a message in the vendor's error format.
    Status(u16, Vec<(&'static str, String)>, String),
    /// Waits before the first byte, then says a text.
    SlowFirstByte(Duration, String),
    /// Says a text and closes the connection in the middle of it.
    CutMidway(String),
    /// Says whole blocks and closes the connection before the end of the answer.
    CutBehind(Vec<Part>),
    /// Says a text and then nothing more.
    Stall(String),
    /// Says a text to its last event, and leaves the connection open behind it.
    Open(String),
    /// Keeps the connection alive for ever, and says nothing.
    Endless,
    /// Sends an event that is not JSON.
    MalformedSse,
    /// Begins an answer and ends it with an error event of this kind and message.
    ErrorEvent(&'static str, String),
    /// The model declines.
    Refusal,
    /// The model pauses after a text and wants to be asked to go on.
    Pause(String),
    /// The window is full in the middle of a text.
    WindowFull(String),
    /// As much is said as the request allows, in the middle of a text.
    OutputFull(String),
}

/// A block of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Words.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A tool call: id, tool, arguments as they are written.
    Call(String, String, String),
}

impl Reply {
    /// A text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Blocks(vec![Part::Text(text.to_owned())])
    }

    /// One tool call.
    pub(crate) fn call(tool: &str, args: Value) -> Self {
        Self::calls([(tool, args)])
    }

    /// Several tool calls in one step, with the ids `call-1`, `call-2`, ….
    pub(crate) fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        let parts = calls.into_iter().enumerate().map(|(position, (tool, args))| {
            Part::Call(format!("call-{}", position + 1), tool.to_owned(), args.to_string())
        });
        Self::Blocks(parts.collect())
    }

    /// A tool call whose arguments are not JSON.
    pub(crate) fn invalid_tool_json(tool: &str, text: &str) -> Self {
        Self::Blocks(vec![Part::Call("call-1".into(), tool.into(), text.into())])
    }

    /// Nothing at all.
    pub(crate) fn empty() -> Self {
        Self::Blocks(Vec::new())
    }

    /// An error status.
    pub(crate) fn status(status: u16, message: &str) -> Self {
        Self::Status(status, Vec::new(), message.to_owned())
    }
}

/// A request that the server got.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// `/v1/messages`, `/v1/chat/completions` or `/v1/responses`.
    pub(crate) path: String,
    /// The other end of its connection.
    pub(crate) peer: Option<SocketAddr>,
    /// The headers, names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body as it came.
    pub(crate) bytes: Vec<u8>,
    /// The body.
    pub(crate) body: Value,
}

/// Decides a reply from its request.
type Actor = Box<dyn Fn(&Value) -> Reply + Send>;

#[derive(Default)]
struct State {
    script: VecDeque<Reply>,
    otherwise: Option<Reply>,
    actor: Option<Actor>,
    title: Option<Reply>,
    counts: bool,
    key: Option<String>,
    received: Vec<Received>,
}

/// A running server. Dropping it stops it.
pub(crate) struct FakeModel {
    url: String,
    state: Arc<Mutex<State>>,
    server: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl FakeModel {
    /// Starts a server on a free port, on a thread of its own.
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let data = web::Data::from(Arc::clone(&state));
        let (started, ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let server = HttpServer::new(move || {
                    App::new()
                        .app_data(data.clone())
                        .app_data(web::PayloadConfig::new(64 * 1024 * 1024))
                        .route("/v1/messages", web::post().to(messages))
                        .route("/v1/chat/completions", web::post().to(completions))
                        .route("/v1/responses", web::post().to(responses))
                        .route("/v1/models", web::get().to(models))
                })
                .workers(1)
                .shutdown_timeout(0)
                .disable_signals()
                .bind("127.0.0.1:0")
                .unwrap();
                let address = server.addrs()[0];
                let server = server.run();
                started.send((address, server.handle())).unwrap();
                server.await.unwrap();
            });
        });
        let (address, server) = ready.recv().unwrap();
        Self { url: format!("http://{address}"), state, server, thread: Some(thread) }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Adds replies to the script, one for each request.
    pub(crate) fn say(&self, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().unwrap().script.extend(replies);
    }

    /// What is replied when the script is over; without it, status 500.
    pub(crate) fn otherwise(&self, reply: Reply) {
        self.state.lock().unwrap().otherwise = Some(reply);
    }

    /// What it says when it is asked for the title of a topic. Without it, it refuses; such questions are no part of the
    /// script, and of no list of requests.
    pub(crate) fn title(&self, reply: Reply) {
        self.state.lock().unwrap().title = Some(reply);
    }

    /// Decides each reply from the request, once the script is over.
    pub(crate) fn answer_with(&self, actor: impl Fn(&Value) -> Reply + Send + 'static) {
        self.state.lock().unwrap().actor = Some(Box::new(actor));
    }

    /// Reports a token for each four bytes of a request from now on, and those as kept that an earlier request began
    /// with alike.
    pub(crate) fn count(&self) {
        self.state.lock().unwrap().counts = true;
    }

    /// Takes this key from now on, and no other.
    pub(crate) fn accept(&self, key: &str) {
        self.state.lock().unwrap().key = Some(key.to_owned());
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.state.lock().unwrap().received.clone()
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        // The order is sent by the call itself; its future only waits.
        drop(self.server.stop(false));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Received {
    /// A header by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A vendor's way to say things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    /// `/v1/messages`
    Anthropic,
    /// `/v1/chat/completions`
    OpenAi,
}

/// A wire format, by its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    /// `/v1/messages`
    Messages,
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
}

/// The models that it says it has.
async fn models() -> HttpResponse {
    HttpResponse::Ok().json(serde_json::json!({"data": [{"id": "small-one"}, {"id": "large-one"}]}))
}

async fn messages(
    request: HttpRequest,
    body: web::Bytes,
    state: web::Data<Mutex<State>>,
) -> HttpResponse {
    respond(Wire::Messages, &request, &body, &state).await
}

async fn completions(
    request: HttpRequest,
    body: web::Bytes,
    state: web::Data<Mutex<State>>,
) -> HttpResponse {
    respond(Wire::Chat, &request, &body, &state).await
}

async fn responses(
    request: HttpRequest,
    body: web::Bytes,
    state: web::Data<Mutex<State>>,
) -> HttpResponse {
    respond(Wire::Responses, &request, &body, &state).await
}

async fn respond(
    wire: Wire,
    request: &HttpRequest,
    body: &web::Bytes,
    state: &Mutex<State>,
) -> HttpResponse {
    let received = Received {
        path: request.path().to_owned(),
        peer: request.peer_addr(),
        headers: request
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect(),
        bytes: body.to_vec(),
        body: serde_json::from_slice(body).unwrap_or(Value::Null),
    };
    let (reply, read) = {
        let mut state = state.lock().unwrap();
        let read = if state.counts {
            let kept = state.received.iter().map(|known| shared(&known.bytes, body)).max();
            Tokens { read: body.len() as u64 / 4, cached: kept.unwrap_or_default() as u64 / 4 }
        } else {
            Tokens::ALWAYS
        };
        let key = state.key.as_deref().unwrap_or(KEY);
        let refusal = objection(wire, &received, key);
        let names = received.body.to_string().contains("You name conversations.");
        if !names {
            state.received.push(received);
        }
        let reply = match refusal {
            Some((status, message)) => Reply::status(status, message),
            None if names => {
                let title = state.title.clone();
                title.unwrap_or_else(|| Reply::status(400, "this test wants no titles"))
            }
            None => {
                let acted = |state: &State| {
                    let actor = state.actor.as_ref()?;
                    Some(actor(&state.received.last()?.body))
                };
                let next = state.script.pop_front();
                let next = next.or_else(|| acted(&state));
                let next = next.or_else(|| state.otherwise.clone());
                next.unwrap_or_else(|| Reply::status(500, "the script of the test is over"))
            }
        };
        (reply, read)
    };
    play(wire, reply, read).await
}

/// How many bytes two requests begin with alike.
pub(crate) fn shared(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// What the vendor would not accept.
fn objection(wire: Wire, received: &Received, key: &str) -> Option<(u16, &'static str)> {
    let authentic = match wire {
        Wire::Messages => received.header("x-api-key") == Some(key),
        Wire::Chat | Wire::Responses => {
            received.header("authorization") == Some(&format!("Bearer {key}"))
        }
    };
    let said = if wire == Wire::Responses { "input" } else { "messages" };
    let complete = received.body["model"].is_string()
        && received.body[said].as_array().is_some_and(|list| !list.is_empty())
        && received.header("content-type") == Some("application/json")
        && match wire {
            Wire::Messages => {
                received.header("anthropic-version") == Some("2023-06-01")
                    && received.body["max_tokens"].is_u64()
            }
            Wire::Chat | Wire::Responses => true,
        };
    match (authentic, complete) {
        (false, _) => Some((401, "invalid x-api-key or bearer token")),
        (true, false) => Some((400, "the request is not complete")),
        (true, true) => None,
    }
}

async fn play(wire: Wire, reply: Reply, read: Tokens) -> HttpResponse {
    let whole = |chunks: Vec<String>| sse(chunks, End::Close);
    match reply {
        Reply::Blocks(parts) => whole(wire::answer(wire, &parts, None, read)),
        Reply::Whole(text) => HttpResponse::Ok().json(wire::whole(wire, &text)),
        Reply::Status(status, headers, message) => {
            let mut response = HttpResponse::build(StatusCode::from_u16(status).unwrap());
            for header in headers {
                response.insert_header(header);
            }
            response.json(wire::error(wire, "invalid_request_error", &message))
        }
        Reply::SlowFirstByte(pause, text) => {
            actix_web::rt::time::sleep(pause).await;
            whole(wire::answer(wire, &[Part::Text(text)], None, read))
        }
        Reply::CutMidway(text) => sse(wire::beginning(wire, &text), End::Cut),
        Reply::CutBehind(parts) => {
            let mut chunks = wire::answer(wire, &parts, None, read);
            let said = chunks.len() - wire::ends(wire);
            chunks.truncate(said);
            sse(chunks, End::Cut)
        }
        Reply::Stall(text) => sse(wire::beginning(wire, &text), End::Stall),
        Reply::Open(text) => sse(wire::answer(wire, &[Part::Text(text)], None, read), End::Stall),
        Reply::Endless => {
            let comment = web::Bytes::from(format!(": {}\n", "-".repeat(64 * 1024)));
            HttpResponse::Ok()
                .content_type("text/event-stream")
                .streaming(stream::repeat(comment).map(Ok::<_, std::io::Error>))
        }
        Reply::MalformedSse => whole(vec!["event: message_start\ndata: {\"type\": \n\n".into()]),
        Reply::ErrorEvent(kind, message) => {
            let mut chunks = wire::beginning(wire, "Hel");
            chunks.push(wire::error_event(wire, kind, &message));
            whole(chunks)
        }
        Reply::Refusal => {
            let reason = match wire {
                Wire::Messages => "refusal",
                Wire::Chat | Wire::Responses => "content_filter",
            };
            whole(wire::answer(wire, &[], Some(reason), read))
        }
        Reply::Pause(text) => {
            whole(wire::answer(wire, &[Part::Text(text)], Some("pause_turn"), read))
        }
        Reply::OutputFull(text) => {
            let reason = match wire {
                Wire::Messages => "max_tokens",
                Wire::Chat => "length",
                Wire::Responses => "max_output_tokens",
            };
            whole(wire::answer(wire, &[Part::Text(text)], Some(reason), read))
        }
        Reply::WindowFull(text) => {
            let reason = match wire {
                Wire::Messages => "model_context_window_exceeded",
                Wire::Chat => "length",
                Wire::Responses => "max_output_tokens",
            };
            whole(wire::answer(wire, &[Part::Text(text)], Some(reason), read))
        }
    }
}

/// How a stream ends.
enum End {
    Close,
    Cut,
    Stall,
}

fn sse(chunks: Vec<String>, end: End) -> HttpResponse {
    let chunks = stream::iter(chunks).map(|chunk| Ok(web::Bytes::from(chunk)));
    let end = stream::once(async move {
        match end {
            End::Close => Ok(web::Bytes::new()),
            End::Cut => {
                // What was said is written out when the stream has nothing more for the moment.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut by the script"))
            }
            End::Stall => std::future::pending().await,
        }
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(chunks.chain(end.filter(
        |last| {
            // An empty chunk would end the body by itself.
            std::future::ready(!matches!(last, Ok(bytes) if bytes.is_empty()))
        },
    )))
}
