//! Discord for tests: its REST API and its gateway, on sockets of their own.
//!
//! ```ignore
//! let discord = FakeDiscord::start();
//! // … point `discord.api_url` at `discord.url()` with the token `TOKEN` …
//! discord.say(CHANNEL, ANN, "Hello").await;
//! assert_eq!(discord.posts(1).await[0].content(), "Hello, Ann.");
//! ```

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, mpsc},
    thread::JoinHandle,
    time::{Duration, UNIX_EPOCH},
};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer, dev::ServerHandle, error::PayloadError,
    http::StatusCode, web,
};
use futures_util::stream;
use serde_json::{Value, json};

mod gateway;

pub(crate) use gateway::Connection;
use gateway::Gateway;

use crate::service::until;

/// The token that the server takes.
pub(crate) const TOKEN: &str = "fake-discord-token.0123456789.abcdefghijklmnop";
/// The id of the bot.
const BOT: u64 = 999;

/// What the server does with a request to post a message, instead of posting it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    Status(u16),
    /// Too fast: wait this many seconds, for this route or for all.
    Limited {
        seconds: f64,
        global: bool,
    },
    /// The message is posted, and the connection ends before the answer.
    LoseAnswer,
    /// The message is posted; the answer says that it was the last one for so many seconds.
    Last {
        seconds: f64,
    },
}

/// A message that was posted.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) id: u64,
    pub(crate) channel: u64,
    pub(crate) body: Value,
    pub(crate) file: Option<Upload>,
}

/// A file that was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Vec<u8>,
}

impl Posted {
    pub(crate) fn content(&self) -> &str {
        self.body["content"].as_str().expect("a text")
    }

    /// The buttons: each with its label and its id.
    pub(crate) fn buttons(&self) -> Vec<(String, String)> {
        let rows = self.body["components"].as_array().into_iter().flatten();
        let buttons = rows.flat_map(|row| row["components"].as_array().expect("a row"));
        let text = |button: &Value, field: &str| button[field].as_str().unwrap_or("").to_owned();
        buttons.map(|button| (text(button, "label"), text(button, "custom_id"))).collect()
    }

    pub(crate) fn button(&self, label: &str) -> String {
        let found = self.buttons().into_iter().find(|(known, _)| known == label);
        found.unwrap_or_else(|| panic!("no button `{label}` in {}", self.body)).1
    }
}

/// A request of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) route: String,
    pub(crate) body: Value,
    pub(crate) authorization: String,
}

#[derive(Default)]
struct State {
    token: String,
    last_id: u64,
    posts: Vec<Posted>,
    /// Which message has which nonce.
    nonces: HashMap<String, u64>,
    requests: Vec<Request>,
    faults: VecDeque<Fault>,
    /// All messages of each channel, as they can be asked for.
    messages: BTreeMap<u64, BTreeMap<u64, Value>>,
    /// Files of messages, by their paths.
    files: HashMap<String, Vec<u8>>,
    /// What this route answers.
    statuses: HashMap<String, u16>,
    /// Parts of routes whose answers break off.
    breaking: Vec<String>,
    gateway: Gateway,
}

/// A running server. Dropping it stops it.
pub(crate) struct FakeDiscord {
    url: String,
    state: Arc<Mutex<State>>,
    server: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl State {
    /// The next id: as Discord's own, it tells when it was given.
    fn next_id(&mut self) -> u64 {
        let since = UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64;
        self.last_id = (self.last_id + 1).max((since - 1_420_070_400_000) << 22);
        self.last_id
    }

    fn keep(&mut self, channel: u64, id: u64, message: &Value) {
        let mut kept = message.clone();
        // Told only as it happens.
        kept.as_object_mut().expect("a message").remove("guild_id");
        self.messages.entry(channel).or_default().insert(id, kept);
    }
}

impl FakeDiscord {
    /// Starts it on free ports, on a thread of its own.
    pub(crate) fn start() -> Self {
        let state = State { token: TOKEN.to_owned(), ..State::default() };
        let state = Arc::new(Mutex::new(state));
        let data = web::Data::from(state.clone());
        let (started, ready) = mpsc::channel();
        let shared = state.clone();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                lock(&shared).gateway.url = format!("ws://{address}");
                actix_web::rt::spawn(gateway::serve(listener, shared));
                let server = HttpServer::new(move || {
                    App::new()
                        .app_data(data.clone())
                        .app_data(web::PayloadConfig::new(64 << 20))
                        .default_service(web::to(answer))
                })
                .workers(1)
                .shutdown_timeout(0)
                .disable_signals()
                .bind("127.0.0.1:0")
                .unwrap();
                let url = format!("http://{}", server.addrs()[0]);
                let server = server.run();
                started.send((url, server.handle())).unwrap();
                server.await.unwrap();
            });
        });
        let (url, server) = ready.recv().expect("a server");
        Self { url, state, server, thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// From now on it takes this token only.
    pub(crate) fn change_token(&self, token: &str) {
        self.state().token = token.to_owned();
    }

    /// The next messages that are posted meet these.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().faults.extend(faults);
    }

    /// From now on all is well.
    pub(crate) fn clear_faults(&self) {
        self.state().faults.clear();
    }

    pub(crate) fn faults_left(&self) -> usize {
        self.state().faults.len()
    }

    /// From now on this route answers so, or as it should.
    pub(crate) fn status_of(&self, route: &str, status: Option<u16>) {
        let statuses = &mut self.state().statuses;
        match status {
            Some(status) => drop(statuses.insert(route.to_owned(), status)),
            None => drop(statuses.remove(route)),
        }
    }

    /// From now on it dies in the middle of its answer wherever a route contains one of these.
    pub(crate) fn break_off(&self, routes: &[&str]) {
        self.state().breaking = routes.iter().map(|&route| route.to_owned()).collect();
    }

    pub(crate) fn all_posts(&self) -> Vec<Posted> {
        self.state().posts.clone()
    }

    /// Waits until there are so many posts.
    pub(crate) async fn posts(&self, count: usize) -> Vec<Posted> {
        let what = format!("{count} posts");
        until(&what, async || self.state().posts.len() >= count).await;
        self.all_posts()
    }

    /// The post with this text, once it is there.
    pub(crate) async fn post_with(&self, words: &str) -> Posted {
        let find = || self.all_posts().into_iter().find(|post| post.content().contains(words));
        until(&format!("a post with `{words}`"), async || find().is_some()).await;
        find().unwrap()
    }

    /// The texts in a channel, in order.
    pub(crate) fn texts(&self, channel: u64) -> Vec<String> {
        let posts = self.all_posts().into_iter().filter(|post| post.channel == channel);
        posts.map(|post| post.content().to_owned()).collect()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// How many requests went to routes that contain this.
    pub(crate) fn count(&self, route: &str) -> usize {
        let state = self.state();
        state.requests.iter().filter(|request| request.route.contains(route)).count()
    }

    /// What the bot said of itself each time it connected to the gateway, the newest last: `IDENTIFY` or `RESUME`.
    pub(crate) fn introductions(&self) -> Vec<(String, Value)> {
        self.state().gateway.introductions.clone()
    }

    pub(crate) async fn connected(&self, times: usize) {
        let what = format!("{times} connections to the gateway");
        until(&what, async || self.state().gateway.welcomes >= times).await;
    }

    pub(crate) fn heartbeats(&self) -> usize {
        self.state().gateway.heartbeats
    }

    /// Changes how the gateway behaves, or looks at what it saw.
    pub(crate) fn gateway<T>(&self, look: impl FnOnce(&mut Gateway) -> T) -> T {
        look(&mut self.state().gateway)
    }

    /// Ends or disturbs the connection of the bot.
    pub(crate) fn disturb(&self, how: Connection) {
        self.state().gateway.tell(how);
    }

    /// Somebody writes in a channel of a server. Returns the id of the message.
    pub(crate) fn say(&self, channel: u64, author: u64, content: &str) -> u64 {
        self.say_as(channel, author, content, json!({}))
    }

    /// The same with other fields.
    pub(crate) fn say_as(&self, channel: u64, author: u64, content: &str, change: Value) -> u64 {
        let mut state = self.state();
        let id = state.next_id();
        let mut message = message(id, channel, &user(author, "ann"), content);
        message["guild_id"] = json!("77");
        for (key, value) in change.as_object().unwrap() {
            message[key] = value.clone();
        }
        state.keep(channel, id, &message);
        state.gateway.dispatch("MESSAGE_CREATE", message);
        id
    }

    /// A file that somebody uploads, as messages name it.
    pub(crate) fn upload(&self, name: &str, bytes: &[u8]) -> Value {
        let mut state = self.state();
        let id = state.next_id().to_string();
        let path = format!("/files/{id}");
        state.files.insert(path.clone(), bytes.to_vec());
        let url = format!("{}{path}", self.url);
        json!({"id": id, "filename": name, "size": bytes.len(), "url": url, "proxy_url": url,
            "content_type": "application/x-anything"})
    }

    /// Somebody said this long ago: it is older than all else by then.
    pub(crate) fn said_before(&self, channel: u64, author: u64, content: &str, ago: Duration) {
        let mut state = self.state();
        let id = state.next_id() - ((ago.as_millis() as u64) << 22);
        let message = message(id, channel, &user(author, "ann"), content);
        state.keep(channel, id, &message);
    }

    /// Somebody presses a button of a message. Returns what they are told.
    pub(crate) async fn press(&self, post: &Posted, author: u64, button: &str) -> String {
        self.choose(post, author, json!({"component_type": 2, "custom_id": button})).await
    }

    /// The same for any component.
    pub(crate) async fn choose(&self, post: &Posted, author: u64, data: Value) -> String {
        let id = {
            let mut state = self.state();
            let id = state.next_id();
            let press = json!({
                "id": id.to_string(), "application_id": BOT.to_string(), "type": 3, "data": data,
                "guild_id": "77", "channel_id": post.channel.to_string(), "version": 1,
                "token": format!("interaction-token-{id}"), "locale": "en-GB",
                "entitlements": [], "authorizing_integration_owners": {},
                "attachment_size_limit": 10_485_760,
                "member": {
                    "user": user(author, "ann"), "roles": [], "joined_at": "2026-01-01T00:00:00+00:00",
                    "deaf": false, "mute": false, "flags": 0, "permissions": "0",
                },
                "message": message(post.id, post.channel, &user(BOT, "hive"), post.content()),
            });
            state.gateway.dispatch("INTERACTION_CREATE", press);
            id
        };
        let route = format!("/interactions/{id}/");
        let find = || self.requests().into_iter().find(|request| request.route.contains(&route));
        until("an answer to a press", async || find().is_some()).await;
        let answer = find().unwrap().body;
        assert_eq!(answer["data"]["flags"], 64, "only whoever pressed sees it");
        answer["data"]["content"].as_str().unwrap().to_owned()
    }
}

impl Drop for FakeDiscord {
    fn drop(&mut self) {
        // The order is sent by the call itself; its future only waits.
        drop(self.server.stop(false));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn user(id: u64, name: &str) -> Value {
    json!({
        "id": id.to_string(), "username": name, "discriminator": "0", "global_name": null,
        "avatar": null, "bot": id == BOT, "flags": 0, "public_flags": 0,
    })
}

fn message(id: u64, channel: u64, author: &Value, content: &str) -> Value {
    json!({
        "id": id.to_string(), "channel_id": channel.to_string(), "author": author,
        "content": content, "timestamp": "2026-01-01T00:00:00.000000+00:00",
        "edited_timestamp": null, "tts": false, "mention_everyone": false, "mentions": [],
        "mention_roles": [], "attachments": [], "embeds": [], "pinned": false, "type": 0,
        "components": [], "flags": 0,
    })
}

async fn answer(
    request: HttpRequest,
    body: web::Bytes,
    state: web::Data<Mutex<State>>,
) -> HttpResponse {
    let kind = request.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    let (body, file) =
        match kind.and_then(|kind| kind.strip_prefix("multipart/form-data; boundary=")) {
            Some(boundary) => form(&body, boundary),
            None => (serde_json::from_slice(&body).unwrap_or_default(), None),
        };
    let path = request.path().to_owned();
    let route = format!("{} {path}", request.method());
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").unwrap_or_default().to_owned();
    let mut state = lock(&state);
    let is_known = authorization == format!("Bot {}", state.token);
    state.requests.push(Request { route: route.clone(), body: body.clone(), authorization });
    if let Some(status) = state.statuses.get(&route).copied() {
        return trouble(status, "an outage");
    }
    if state.breaking.iter().any(|part| route.contains(part)) {
        return broken();
    }
    if let Some(bytes) = state.files.get(&path) {
        return HttpResponse::Ok().content_type("application/x-anything").body(bytes.clone());
    }
    if !is_known {
        return trouble(401, "401: Unauthorized");
    }
    let Some(path) = path.strip_prefix("/api/v10") else {
        return trouble(404, "404: Not Found");
    };
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (request.method().as_str(), parts.as_slice()) {
        ("GET", ["users", "@me"]) => {
            let mut me = user(BOT, "hive");
            me["mfa_enabled"] = json!(false);
            HttpResponse::Ok().json(me)
        }
        ("GET", ["gateway"]) => HttpResponse::Ok().json(json!({ "url": state.gateway.url })),
        ("POST", ["channels", channel, "messages"]) => {
            let channel = channel.parse().expect("an id");
            post(&mut state, channel, body, file)
        }
        ("GET", ["channels", channel, "messages"]) => {
            HttpResponse::Ok().json(asked_for(&state, channel, request.query_string()))
        }
        ("GET", ["channels", channel]) => {
            HttpResponse::Ok().json(json!({"id": channel, "type": 0, "guild_id": "77"}))
        }
        ("PATCH", ["channels", _, "messages", _]) => HttpResponse::Ok().json(json!({})),
        ("POST", ["channels", _, "typing"] | ["interactions", _, _, "callback"]) => {
            HttpResponse::NoContent().finish()
        }
        _ => trouble(404, "404: Not Found"),
    }
}

/// Messages of a channel, the newest first: those next behind one, or the last ones.
fn asked_for(state: &State, channel: &str, query: &str) -> Vec<Value> {
    let channel: u64 = channel.parse().expect("an id");
    let value = |name: &str| -> Option<u64> {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Some(pairs.find(|(key, _)| *key == name)?.1.parse().expect("a number"))
    };
    let limit = value("limit").unwrap_or(50);
    assert!((1..=100).contains(&limit), "{query}");
    let all = state.messages.get(&channel).cloned().unwrap_or_default();
    let mut found: Vec<Value> = match value("after") {
        Some(after) => {
            all.range(after + 1..).take(limit as usize).map(|(_, found)| found.clone()).collect()
        }
        None => all.into_values().rev().take(limit as usize).rev().collect(),
    };
    found.reverse();
    found
}

/// The parts of a form: the message, and its file.
fn form(body: &[u8], boundary: &str) -> (Value, Option<Upload>) {
    let position = |bytes: &[u8], what: &str| {
        bytes.windows(what.len()).position(|window| window == what.as_bytes())
    };
    let (mut message, mut file, mut rest) = (Value::Null, None, body);
    let mark = format!("--{boundary}");
    while let Some(begin) = position(rest, &mark) {
        rest = &rest[begin + mark.len()..];
        let Some(end) = position(rest, &mark) else { break };
        let part = &rest[..end - 2];
        let head = position(part, "\r\n\r\n").expect("a head");
        let words = std::str::from_utf8(&part[..head]).expect("words");
        let bytes = part[head + 4..].to_vec();
        let quoted = |name: &str| {
            let from = words.split_once(&format!("{name}=\""))?.1;
            Some(from.split_once('"')?.0.to_owned())
        };
        match quoted("; name").as_deref() {
            Some("payload_json") => message = serde_json::from_slice(&bytes).expect("JSON"),
            Some("files[0]") => {
                let mime = words.split_once("Content-Type: ").expect("a type").1.trim().to_owned();
                file = Some(Upload { name: quoted("filename").expect("a name"), mime, bytes });
            }
            name => panic!("a part `{name:?}`"),
        }
    }
    (message, file)
}

fn post(state: &mut State, channel: u64, body: Value, file: Option<Upload>) -> HttpResponse {
    let fault = state.faults.pop_front();
    match fault {
        Some(Fault::Status(status)) => return trouble(status, "as told"),
        Some(Fault::Limited { seconds, global }) => {
            let mut limited = HttpResponse::TooManyRequests();
            limited.insert_header(("retry-after", seconds.ceil().to_string()));
            if global {
                limited.insert_header(("x-ratelimit-global", "true"));
            }
            let told = json!({"message": "slow", "retry_after": seconds, "global": global});
            return limited.json(told);
        }
        Some(Fault::LoseAnswer | Fault::Last { .. }) | None => {}
    }
    let units: usize = body["content"].as_str().unwrap_or("").encode_utf16().count();
    if (units == 0 && file.is_none()) || units > 2_000 {
        return trouble(400, "Invalid Form Body");
    }
    let nonce = body["nonce"].as_str().unwrap_or_default().to_owned();
    assert!(nonce.len() <= 25 && body["enforce_nonce"] == true, "{body}");
    let known = state.nonces.get(&nonce).copied();
    let id = known.unwrap_or_else(|| {
        let id = state.next_id();
        state.nonces.insert(nonce, id);
        state.posts.push(Posted { id, channel, body: body.clone(), file });
        let words = body["content"].as_str().unwrap_or_default();
        state.keep(channel, id, &message(id, channel, &user(BOT, "hive"), words));
        id
    });
    if fault == Some(Fault::LoseAnswer) {
        return broken();
    }
    let content = body["content"].as_str().unwrap_or_default();
    let mut posted = HttpResponse::Ok();
    if let Some(Fault::Last { seconds }) = fault {
        posted.insert_header(("x-ratelimit-remaining", "0"));
        posted.insert_header(("x-ratelimit-reset-after", seconds.to_string()));
    }
    posted.json(message(id, channel, &user(BOT, "hive"), content))
}

/// An answer that begins and does not end.
fn broken() -> HttpResponse {
    let pieces = [Ok(web::Bytes::from_static(b"[")), Err(PayloadError::Incomplete(None))];
    HttpResponse::Ok().streaming(stream::iter(pieces))
}

fn trouble(status: u16, words: &str) -> HttpResponse {
    let status = StatusCode::from_u16(status).expect("a status");
    HttpResponse::build(status).json(json!({"message": words, "code": 0}))
}

/// Long enough that nothing more comes, where nothing must.
pub(crate) const QUIET: Duration = Duration::from_millis(700);
