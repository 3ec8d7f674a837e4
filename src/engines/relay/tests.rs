//! The relay between a client and a provider, each on a socket. The wire formats are written down from the vendors'
//! documents and from what the real programs send.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Notify,
};

use super::*;
use crate::{
    engines::native::state::ProfileState,
    providers::client,
    settings::{
        providers::{Pricing, Profile},
        secret::Secret,
    },
};

const KEY: &str = "sk-real-key-0123456789";
const TOKEN: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What a provider does after it has read a request.
#[derive(Clone)]
enum Do {
    /// Begins a response with these lines.
    Head(&'static str),
    /// Sends a chunk.
    Say(String),
    Wait(Arc<Notify>),
    /// Ends the response as it should.
    End,
    /// Waits until the other side closes, and tells.
    Closed(Arc<Notify>),
}

const OK: Do = Do::Head("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream");

fn say(text: impl Into<String>) -> Do {
    Do::Say(text.into())
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or("message"))
}

/// A provider that does the same with each request, and remembers them as they came.
struct Upstream {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    async fn start(script: Vec<Do>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (script, seen) = (script.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    let request = request(&mut stream).await;
                    seen.lock().unwrap().push(request);
                    for act in script {
                        play(&mut stream, act).await;
                    }
                });
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
    }
}

async fn play(stream: &mut TcpStream, act: Do) {
    let text = match act {
        Do::Head(head) => {
            format!("{head}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n")
        }
        Do::Say(text) => format!("{:x}\r\n{text}\r\n", text.len()),
        Do::End => "0\r\n\r\n".to_owned(),
        Do::Wait(go_on) => return go_on.notified().await,
        Do::Closed(closed) => {
            assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
            return closed.notify_one();
        }
    };
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// A running relay, as the agent sees it.
struct Agent {
    url: String,
    http: reqwest::Client,
    paid: Arc<Mutex<Vec<Paid>>>,
    has_budget: Arc<AtomicBool>,
    ends: CancellationToken,
    served: BoxFuture<'static, ()>,
    told: mpsc::UnboundedReceiver<Told>,
}

/// The profiles of a turn whose model is `m`.
fn links(chain: Vec<Profile>) -> Arc<[Link]> {
    let links = chain.into_iter().enumerate().map(|(place, profile)| Link {
        model: if place == 0 { "m".to_owned() } else { profile.model.clone() },
        max_output_tokens: profile.max_output_tokens,
        state: Arc::new(ProfileState::new(&profile)),
        profile: Arc::new(profile),
    });
    links.collect()
}

impl Agent {
    async fn with(chain: Vec<Profile>) -> Self {
        Self::of("main", links(chain), 0).await
    }

    /// An agent of a team, whose requests are made again so often.
    async fn of(team: &str, links: Arc<[Link]>, retries: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (paid, ends) = (Arc::<Mutex<Vec<Paid>>>::default(), CancellationToken::new());
        let spent = Arc::clone(&paid);
        let (tell, told) = mpsc::unbounded_channel();
        let base = Duration::ZERO;
        let has_budget = Arc::new(AtomicBool::new(true));
        let left = has_budget.clone();
        let pass = Pass {
            token: TOKEN.to_owned(),
            team: team.into(),
            links,
            retry: Arc::new(RetryPolicy { retries, base, ..RetryPolicy::default() }),
            told: tell,
            spent: Arc::new(move |paid| spent.lock().unwrap().push(paid)),
            affords: Box::new(move || {
                let has_some = left.load(Ordering::Relaxed);
                has_some.then_some(()).ok_or_else(|| "10 of 10 tokens today".to_owned())
            }),
        };
        let http = client::build().unwrap();
        let served = tokio::spawn(serve(listener, pass, http.clone(), ends.clone()));
        let served = Box::pin(async { served.await.unwrap() });
        Self { url, http, paid, has_budget, ends, told, served }
    }

    /// What the turn was told of its requests so far.
    fn heard(&mut self) -> Vec<Told> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }

    fn request(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}{path}", self.url)).body(body.to_string());
        request.header("content-type", "application/json")
    }

    async fn post(&self, path: &str, body: &Value) -> reqwest::Response {
        self.request(path, body).bearer_auth(TOKEN).send().await.unwrap()
    }

    fn usage(&self) -> Vec<Usage> {
        self.paid.lock().unwrap().iter().map(|paid| paid.usage).collect()
    }

    /// Waits for what is told of a connection that has gone.
    async fn told(&self) -> Vec<Usage> {
        for _ in 0..200 {
            if !self.usage().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.usage()
    }
}

fn profile(provider: Provider, url: &str) -> Profile {
    Profile {
        api_key: Some(Secret::new(KEY.to_owned())),
        api_url: Some(url.to_owned()),
        ..Profile::new("default", provider)
    }
}

fn offline() -> Vec<Profile> {
    vec![Profile::new("default", Provider::Offline)]
}

fn ask() -> Value {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "hello" }] })
}

async fn words(response: reqwest::Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["type"], "error");
    (status, body["error"]["message"].as_str().unwrap().to_owned())
}

/// EN-101
#[actix::test]
async fn only_the_token_of_the_turn_lets_in() {
    let agent = Agent::with(offline()).await;

    let request = || agent.request("/v1/messages", &ask());
    let anthropic = request().header("x-api-key", TOKEN).send().await.unwrap();
    let bearer = request().bearer_auth(TOKEN).send().await.unwrap();
    let none = request().send().await.unwrap();
    let old = request().bearer_auth(TOKEN.replace('0', "1")).send().await.unwrap();

    assert_eq!((anthropic.status().as_u16(), bearer.status().as_u16()), (200, 200));
    let refused = (401, "the token is not, or no longer, that of a turn".to_owned());
    assert_eq!(words(none).await, refused);
    assert_eq!(old.headers()["x-should-retry"], "false");
    assert_eq!(words(old).await, refused);
}

/// EN-101
#[actix::test]
async fn there_is_nothing_but_the_routes() {
    let agent = Agent::with(offline()).await;

    let other = agent.post("/v1/files", &json!({})).await;
    let models = agent.http.get(format!("{}/v1/models", agent.url)).bearer_auth(TOKEN);
    let models: Value = models.send().await.unwrap().json().await.unwrap();

    assert_eq!(words(other).await, (404, "there is no `POST /v1/files` here".into()));
    assert_eq!(models["data"][0]["id"], "m");
}

/// EN-100
#[actix::test]
async fn a_turn_may_ask_its_model_and_those_of_its_fallbacks() {
    let upstream = Upstream::start(vec![OK, say("{}"), Do::End]).await;
    let spare = Profile { model: "spare".into(), ..profile(Provider::OpenAi, &upstream.url) };
    let agent = Agent::with(vec![profile(Provider::Anthropic, "http://127.0.0.1:1"), spare]).await;

    let other = agent.post("/v1/messages", &json!({ "model": "dear" })).await;
    let twice = agent.request("/v1/messages", &Value::Null).bearer_auth(TOKEN);
    let twice = twice.body(r#"{"model":"dear","model":"m"}"#).send().await.unwrap();
    let fallback = agent.post("/v1/chat/completions", &json!({ "model": "spare" })).await;
    let unfit = agent.post("/v1/responses", &ask()).await;

    assert_eq!(words(other).await, (403, "this turn may not ask the model `dear`".into()));
    assert_eq!(words(twice).await.0, 400);
    assert_eq!((fallback.status().as_u16(), upstream.requests().len()), (200, 1));
    let unfit = words(unfit).await;
    let reason =
        "profile `default` is of the provider `anthropic`, which does not speak `/v1/responses`";
    assert_eq!(unfit, (400, reason.into()));
}

/// EN-100: on every route, with the reason, and without a try of its own. What the agents send passes.
#[actix::test]
async fn nothing_but_the_tools_of_the_turn_reaches_a_provider() {
    let upstream = Upstream::start(vec![OK, say("{}"), Do::End]).await;
    let agent = Agent::with(vec![
        profile(Provider::Anthropic, &upstream.url),
        Profile {
            name: "spare".into(),
            model: "m".into(),
            ..profile(Provider::OpenAi, &upstream.url)
        },
    ])
    .await;
    let post = async |path: &str, field: &str, value: Value| {
        let mut body = ask();
        body[field] = value;
        agent.post(path, &body).await
    };

    let searches =
        post("/v1/messages", "tools", json!([{"type": "web_search_20250305", "name": "w"}])).await;
    let counts =
        post("/v1/messages/count_tokens", "mcp_servers", json!([{"url": "https://example.com"}]))
            .await;
    let runs = post("/v1/responses", "tools", json!([{"type": "code_interpreter"}])).await;
    let remembers = post("/v1/responses", "previous_response_id", json!("resp_1")).await;
    let chats = post("/v1/chat/completions", "web_search_options", json!({})).await;
    let refused = upstream.requests().len();
    let ours = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let passes = post("/v1/responses", "tools", ours).await;

    assert_eq!(searches.headers()["x-should-retry"], "false");
    let run = |kind: &str| {
        format!(
            "tools of the type `{kind}` run at the provider: only those of the turn may be used"
        )
    };
    let leave_out = |field: &str| format!("`{field}` is not for agents: leave it out");
    assert_eq!(words(searches).await, (400, run("web_search_20250305")));
    assert_eq!(words(counts).await, (400, leave_out("mcp_servers")));
    assert_eq!(words(runs).await, (400, run("code_interpreter")));
    assert_eq!(words(remembers).await, (400, leave_out("previous_response_id")));
    assert_eq!(words(chats).await, (400, leave_out("web_search_options")));
    assert_eq!((refused, passes.status().as_u16(), upstream.requests().len()), (0, 200, 1));
}

/// EN-101
#[actix::test]
async fn a_request_of_more_than_32_mebibytes_is_refused() {
    let agent = Agent::with(offline()).await;
    let body = |size: usize| {
        let mut body = ask();
        let rest = size - body.to_string().len();
        body["messages"][0]["content"] = "x".repeat(rest + "hello".len()).into();
        body
    };

    let most = agent.post("/v1/messages/count_tokens", &body(LARGEST_REQUEST)).await;
    let more = agent.post("/v1/messages", &body(LARGEST_REQUEST + 1)).await;

    assert_eq!(most.status().as_u16(), 200);
    assert_eq!(words(more).await, (413, "the request is larger than 32 MiB".into()));
}

/// EN-100
#[actix::test]
async fn the_provider_gets_the_key_and_what_matters() {
    let upstream = Upstream::start(vec![OK, Do::End]).await;
    for (provider, path, credential) in [
        (Provider::Anthropic, "/v1/messages?beta=true", format!("x-api-key: {KEY}")),
        (Provider::Anthropic, "/v1/messages/count_tokens", format!("x-api-key: {KEY}")),
        (Provider::OpenAi, "/v1/responses", format!("authorization: Bearer {KEY}")),
        (Provider::OpenAi, "/v1/chat/completions", format!("authorization: Bearer {KEY}")),
    ] {
        let agent = Agent::with(vec![profile(provider, &upstream.url)]).await;
        let request = agent.request(path, &ask()).header("x-api-key", TOKEN);
        let request = request.header("anthropic-beta", "b").header("x-secret", "s");

        request.send().await.unwrap();

        let sent = upstream.requests().pop().unwrap();
        let (head, body) = sent.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
        assert!(head.contains(&credential) && head.contains("anthropic-beta: b"), "{head}");
        assert!(!head.contains(TOKEN) && !head.contains("x-secret"), "{head}");
        assert_eq!(body, ask().to_string());
    }
}

/// EN-100, EN-128
#[actix::test]
async fn a_key_that_is_not_taken_ends_the_turn_and_is_not_shown() {
    let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/problem\r\nretry-after: 7\r\nset-cookie: a=b";
    let error = format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#);
    let upstream = Upstream::start(vec![Do::Head(head), say(error), Do::End]).await;
    let mut agent = Agent::with(vec![profile(Provider::OpenAi, &upstream.url)]).await;

    let answer = agent.post("/v1/responses", &ask()).await;

    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(answer.status().as_u16(), 401);
    assert_eq!((header("x-should-retry"), header("set-cookie")), (Some("false"), None));
    let words = "profile `default`: the provider does not take the key (401): bad key [REDACTED]";
    let failure = EngineFailure::new(Code::ProviderAuth, words);
    assert_eq!(agent.heard(), [Told::Failed(failure)]);
    assert_eq!(answer.text().await.unwrap(), r#"{"error":{"message":"bad key [REDACTED]"}}"#);
    assert_eq!(agent.usage(), []);
}

/// EN-100
#[actix::test]
async fn a_redirect_is_not_followed_and_a_dead_provider_is_told_in_words() {
    let other = Upstream::start(vec![OK, Do::End]).await;
    let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: {}", other.url);
    let redirecting = Upstream::start(vec![Do::Head(head.leak()), Do::End]).await;
    let agent = |url: &str| Agent::with(vec![profile(Provider::Anthropic, url)]);

    let redirected = agent(&redirecting.url).await.post("/v1/messages", &ask()).await;
    let dead = agent("http://127.0.0.1:1").await.post("/v1/messages", &ask()).await;

    let (status, said) = words(redirected).await;
    assert_eq!((status, other.requests().len()), (502, 0));
    assert!(said.contains("(307)"), "{said}");
    let (status, said) = words(dead).await;
    assert_eq!(status, 502);
    assert!(said.starts_with("profile `default`: no connection: "), "{said}");
}

fn message_start() -> Value {
    let usage = json!({
        "input_tokens": 3, "output_tokens": 1,
        "cache_read_input_tokens": 20, "cache_creation_input_tokens": 4,
    });
    json!({ "type": "message_start", "message": { "usage": usage } })
}

fn text_delta(text: &str) -> Value {
    let delta = json!({ "type": "text_delta", "text": text });
    json!({ "type": "content_block_delta", "index": 0, "delta": delta })
}

/// EN-100: what comes is passed on at once, and counted before the agent can ask again.
#[actix::test]
async fn the_first_words_arrive_before_the_provider_has_said_the_rest() {
    let (go_on, open) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 9 } });
    let first = event(&message_start());
    let last = event(&end) + &event(&json!({ "type": "message_stop" }));
    let script = vec![OK, say(&*first), Do::Wait(go_on.clone()), say(&*last), Do::Wait(open)];
    let upstream = Upstream::start(script).await;
    let agent = Agent::with(vec![profile(Provider::Anthropic, &upstream.url)]).await;

    let mut answer = agent.post("/v1/messages", &ask()).await;
    let heard = answer.chunk().await.unwrap().unwrap();
    go_on.notify_one();
    let rest = answer.chunk().await.unwrap().unwrap();
    let counted = agent.usage();
    // The provider leaves its connection open.
    let end = answer.chunk().await.unwrap();

    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!((&*heard, &*rest, end), (first.as_bytes(), last.as_bytes(), None));
    let usage = Usage { input: 3, output: 9, cache_read: 20, cache_write: 4, ..Usage::default() };
    assert_eq!((counted, agent.usage()), (vec![usage], vec![usage]));
}

/// EN-100
#[actix::test]
async fn figures_are_read_in_each_format() {
    let messages = json!({ "usage": { "input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2 } });
    let responses = json!({ "usage": {
        "input_tokens": 12, "input_tokens_details": { "cached_tokens": 2 }, "output_tokens": 5,
    } });
    let chat = json!({ "choices": [], "usage": {
        "prompt_tokens": 12, "prompt_tokens_details": { "cached_tokens": 2 }, "completion_tokens": 5,
    } });
    let completed = json!({ "type": "response.completed", "response": responses });
    let chunks = format!("data: {chat}\n\ndata: [DONE]\n\n");
    let usage = Usage { input: 10, output: 5, cache_read: 2, ..Usage::default() };
    for (provider, path, body) in [
        (Provider::Anthropic, "/v1/messages", messages.to_string()),
        (Provider::OpenAi, "/v1/responses", responses.to_string()),
        (Provider::OpenAi, "/v1/responses", event(&completed)),
        (Provider::OpenAi, "/v1/chat/completions", chat.to_string()),
        (Provider::OpenAi, "/v1/chat/completions", chunks),
    ] {
        let (one, other) = body.split_at(body.len() / 2);
        let upstream = Upstream::start(vec![OK, say(one), say(other), Do::End]).await;
        let pricing = Pricing { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: 0.0 };
        let profile = Profile { pricing: Some(pricing), ..profile(provider, &upstream.url) };
        let agent = Agent::with(vec![profile]).await;

        let passed = agent.post(path, &ask()).await.text().await.unwrap();

        let usage = Usage { cost_usd: Some(21.0 / 1_000_000.0), ..usage };
        let paid = Paid { profile: "default".into(), model: "m".into(), usage };
        assert_eq!(passed, body);
        assert_eq!(*agent.paid.lock().unwrap(), [paid], "{path}");
    }
}

/// EN-100: counting tokens costs nothing.
#[actix::test]
async fn a_count_of_tokens_is_not_billed() {
    let count = json!({ "input_tokens": 7 }).to_string();
    let upstream = Upstream::start(vec![OK, say(&*count), Do::End]).await;
    let agent = Agent::with(vec![profile(Provider::Anthropic, &upstream.url)]).await;

    let counted = agent.post("/v1/messages/count_tokens", &ask()).await.text().await.unwrap();

    assert_eq!((counted, agent.usage()), (count, vec![]));
}

/// EN-100, EN-124
#[actix::test]
async fn a_cut_answer_ends_with_an_error_and_is_counted_as_far_as_it_came() {
    let chat = json!({ "choices": [{ "delta": { "role": "assistant", "content": "12345" } }] });
    let responses = json!({ "type": "response.output_text.delta", "delta": "12345" });
    let messages = event(&message_start()) + &event(&text_delta("12345"));
    let asked = ask().to_string().len() as u64 / 4;
    let estimated = Usage { input: asked, output: 2, estimated: true, ..Usage::default() };
    let told = Usage {
        input: 3,
        output: 2,
        cache_read: 20,
        cache_write: 4,
        estimated: true,
        ..Usage::default()
    };
    for (provider, path, said, usage) in [
        (Provider::Anthropic, "/v1/messages", messages, told),
        (Provider::OpenAi, "/v1/responses", event(&responses), estimated),
        (Provider::OpenAi, "/v1/chat/completions", event(&chat), estimated),
    ] {
        for ends in [vec![], vec![Do::End]] {
            let script = [vec![OK, say(said.clone())], ends].concat();
            let upstream = Upstream::start(script).await;
            let mut agent = Agent::with(vec![profile(provider, &upstream.url)]).await;

            let answer = agent.post(path, &ask()).await.text().await.unwrap();

            let last = answer.lines().rfind(|line| line.starts_with("data: ")).unwrap();
            let last: Value = serde_json::from_str(&last["data: ".len()..]).unwrap();
            let error = last.pointer("/response/error").unwrap_or(&last["error"]);
            let words = error["message"].as_str().unwrap();
            assert!(words.starts_with("profile `default`: the answer "), "{path}: {last}");
            let broke =
                EngineFailure { answered: true, ..EngineFailure::new(Code::Network, words) };
            assert_eq!(agent.heard(), [Told::Broke(broke)], "{path}");
            assert_eq!(agent.usage(), [usage], "{path}");
        }
    }
}

/// EN-11: what a provider says in the middle of an answer counts as the status that it could not have any more.
#[actix::test]
async fn an_error_in_the_middle_of_an_answer_is_told_as_its_status() {
    let overloaded =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    let refused = json!({ "type": "response.failed", "response": {
        "error": { "code": "invalid_api_key", "message": format!("not {KEY}") } } });
    let limited = json!({ "error": { "code": "rate_limit_exceeded", "message": "slow down" } });
    for (provider, path, said, code, may_help) in [
        (Provider::Anthropic, "/v1/messages", overloaded, Code::Overloaded, true),
        (Provider::OpenAi, "/v1/responses", refused, Code::ProviderAuth, false),
        (Provider::OpenAi, "/v1/chat/completions", limited, Code::RateLimited, true),
    ] {
        let upstream = Upstream::start(vec![OK, say(event(&said)), Do::End]).await;
        let mut agent = Agent::with(vec![profile(provider, &upstream.url)]).await;

        let answer = agent.post(path, &ask()).await.text().await.unwrap();

        let heard = agent.heard();
        assert!(!answer.contains(KEY) && !format!("{heard:?}").contains(KEY), "{answer}");
        match &heard[..] {
            [Told::Broke(failure)] if may_help => assert_eq!(failure.code, code),
            [Told::Failed(failure)] if !may_help => assert_eq!(failure.code, code),
            other => panic!("{path}: {other:?}"),
        }
    }
}

/// EN-99, SE-124: as our own loop does it, with the same words and the same end.
#[actix::test]
async fn a_request_is_made_again_before_the_turn_is_told() {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 20";
    let error = r#"{"error":{"message":"slow down"}}"#;
    let upstream = Upstream::start(vec![Do::Head(head), say(error), Do::End]).await;
    let chain = vec![profile(Provider::Anthropic, &upstream.url)];
    let mut agent = Agent::of("main", links(chain), 2).await;

    let answer = agent.post("/v1/messages", &ask()).await;

    let words = "the provider wants fewer requests (429): slow down";
    let again = Told::Retry(format!("profile `default`: {words}"));
    let failure = EngineFailure {
        retry_after: Some(Duration::from_millis(20)),
        ..EngineFailure::new(
            Code::RateLimited,
            format!("profile `default`, tried 3 times: {words}"),
        )
    };
    assert_eq!((answer.status().as_u16(), upstream.requests().len()), (429, 3));
    assert_eq!(agent.heard(), [again.clone(), again, Told::Failed(failure)]);
}

/// EN-101: no request is made that no budget has anything left for; the turn hears it and waits.
#[actix::test]
async fn a_request_without_budget_is_refused() {
    let upstream = Upstream::start(vec![Do::Head("HTTP/1.1 200 OK"), say("{}"), Do::End]).await;
    let mut agent = Agent::with(vec![profile(Provider::Anthropic, &upstream.url)]).await;
    agent.has_budget.store(false, Ordering::Relaxed);

    let answer = agent.post("/v1/messages", &ask()).await;

    assert_eq!((answer.status().as_u16(), upstream.requests().len()), (429, 0));
    let [Told::Failed(failure)] = &agent.heard()[..] else { panic!("{answer:?}") };
    assert_eq!(
        (failure.code, failure.retry_after, failure.message.as_str()),
        (Code::RateLimited, Some(Duration::ZERO), "10 of 10 tokens today")
    );
}

/// EN-99: a limit that one turn met holds for all who ask the profile, until it ends.
#[actix::test]
async fn a_rate_limit_holds_for_every_turn_on_the_profile() {
    let (head, told) = ("HTTP/1.1 429 Too Many Requests\r\nretry-after: 1800", 1_700..=1_800);
    let upstream = Upstream::start(vec![Do::Head(head), say("{}"), Do::End]).await;
    let links = links(vec![profile(Provider::Anthropic, &upstream.url)]);
    let first = Agent::of("main", links.clone(), 0).await;
    let mut second = Agent::of("research", links, 0).await;

    first.post("/v1/messages", &ask()).await;
    let answer = second.post("/v1/messages", &ask()).await;

    assert_eq!((answer.status().as_u16(), upstream.requests().len()), (502, 1));
    let [Told::Failed(failure)] = &second.heard()[..] else { panic!("{head}") };
    let rest = failure.retry_after.unwrap().as_secs();
    assert_eq!(failure.code, Code::RateLimited);
    assert!(told.contains(&rest), "{head}: {rest}");
}

/// EN-99, SE-124: the next profile that speaks as the agent does takes over, with its own model and key.
#[actix::test]
async fn a_profile_that_fails_hands_over_to_its_fallback() {
    let dead =
        Upstream::start(vec![Do::Head("HTTP/1.1 401 Unauthorized"), say("{}"), Do::End]).await;
    let other = Upstream::start(vec![
        OK,
        say(event(
            &json!({ "type": "message_start", "message": { "usage": { "input_tokens": 3 } } }),
        )),
        Do::End,
    ])
    .await;
    let first = profile(Provider::Anthropic, &dead.url);
    let deaf = Profile { name: "deaf".into(), ..profile(Provider::OpenAi, &dead.url) };
    let second = Profile {
        name: "second".into(),
        model: "small".into(),
        max_output_tokens: 10,
        ..profile(Provider::Anthropic, &other.url)
    };
    let mut agent = Agent::with(vec![first, deaf, second]).await;
    let mut asked = ask();
    asked["max_tokens"] = 99.into();

    let answer = agent.post("/v1/messages", &asked).await;

    let requests = other.requests();
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((answer.status().as_u16(), dead.requests().len(), requests.len()), (200, 1, 1));
    assert_eq!((&body["model"], &body["max_tokens"]), (&json!("small"), &json!(10)));
    assert_eq!(body["messages"], asked["messages"]);
    let heard = agent.heard();
    assert!(
        matches!(&heard[..], [Told::Fallback(why), ..] if why.starts_with("profile `second` takes over: profile `default`")),
        "{heard:?}"
    );
    drop(answer.text().await);
    agent.told().await;
    let paid = agent.paid.lock().unwrap();
    let paid: Vec<_> = paid.iter().map(|paid| (&*paid.profile, &*paid.model)).collect();
    assert_eq!(paid, [("second", "small")]);
}

/// EN-100: what is wrong with a request is for the agent to hear, and for the turn if the agent gives up.
#[actix::test]
async fn a_request_that_is_refused_for_what_it_is_is_passed_on() {
    let error = r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    let upstream =
        Upstream::start(vec![Do::Head("HTTP/1.1 400 Bad Request"), say(error), Do::End]).await;
    let chain = vec![profile(Provider::Anthropic, &upstream.url)];
    let mut agent = Agent::of("main", links(chain), 2).await;

    let answer = agent.post("/v1/messages", &ask()).await;

    assert_eq!(answer.status().as_u16(), 400);
    assert_eq!(answer.text().await.unwrap(), error);
    let heard = agent.heard();
    assert!(
        matches!(&heard[..], [Told::Rejected(failure)] if failure.code == Code::ContextOverflow),
        "{heard:?}"
    );
}

/// SE-110, EN-100: the limits of a profile hold for what agents ask too, and teams take turns.
#[actix::test]
async fn a_request_waits_for_its_place_in_the_line_of_the_profile() {
    let go_on = Arc::new(Notify::new());
    let end = event(&json!({ "type": "message_stop" }));
    let script = vec![OK, say(event(&message_start())), Do::Wait(go_on.clone()), say(end), Do::End];
    let upstream = Upstream::start(script).await;
    let profile = Profile { max_concurrency: 1, ..profile(Provider::Anthropic, &upstream.url) };
    let links = links(vec![profile]);
    let (one, other) =
        (Agent::of("a", Arc::clone(&links), 0).await, Agent::of("b", links, 0).await);

    let mut first = one.post("/v1/messages", &ask()).await;
    first.chunk().await.unwrap();
    let body = ask();
    let second = other.post("/v1/messages", &body);
    tokio::pin!(second);
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut second).await.is_err();
    let asked = upstream.requests().len();
    go_on.notify_one();
    while first.chunk().await.unwrap().is_some() {}
    let second = second.await;
    go_on.notify_one();

    assert!(waits);
    assert_eq!((asked, upstream.requests().len()), (1, 2));
    assert!(second.text().await.unwrap().contains("message_stop"));
}

/// EN-100
#[actix::test]
async fn an_agent_that_goes_away_ends_the_call_and_pays_for_what_it_got() {
    let closed = Arc::new(Notify::new());
    let begun = event(&message_start());
    let upstream = Upstream::start(vec![OK, say(begun), Do::Closed(closed.clone())]).await;
    let agent = Agent::with(vec![profile(Provider::Anthropic, &upstream.url)]).await;

    let mut answer = agent.post("/v1/messages", &ask()).await;
    answer.chunk().await.unwrap();
    drop(answer);

    closed.notified().await;
    let usage = Usage {
        input: 3,
        output: 1,
        cache_read: 20,
        cache_write: 4,
        estimated: true,
        ..Usage::default()
    };
    assert_eq!(agent.told().await, [usage]);
}

/// EN-100: with the turn ends all that it had here.
#[actix::test]
async fn the_end_of_the_turn_closes_its_connections_and_tells_the_rest() {
    let closed = Arc::new(Notify::new());
    let begun = event(&message_start());
    let upstream = Upstream::start(vec![OK, say(begun), Do::Closed(closed.clone())]).await;
    let agent = Agent::with(vec![profile(Provider::Anthropic, &upstream.url)]).await;
    let mut answer = agent.post("/v1/messages", &ask()).await;
    answer.chunk().await.unwrap();

    agent.ends.cancel();
    agent.served.await;

    assert_eq!(agent.paid.lock().unwrap().len(), 1);
    assert!(answer.chunk().await.is_err());
    closed.notified().await;
    assert!(TcpStream::connect(agent.url.trim_start_matches("http://")).await.is_err());
}

#[actix::test]
async fn a_provider_that_falls_silent_is_given_up() {
    let open = Arc::new(Notify::new());
    let late = Upstream::start(vec![Do::Wait(open.clone())]).await;
    let silent = Upstream::start(vec![OK, say(event(&message_start())), Do::Wait(open)]).await;
    let agent = |url: &str| {
        let response_timeout = Duration::from_millis(100);
        Agent::with(vec![Profile { response_timeout, ..profile(Provider::Anthropic, url) }])
    };

    let late = agent(&late.url).await.post("/v1/messages", &ask()).await;
    let silent = agent(&silent.url).await.post("/v1/messages", &ask()).await;

    assert_eq!(words(late).await, (502, "profile `default`: nothing came for 0.1 s".into()));
    let said = silent.text().await.unwrap();
    assert!(said.contains("profile `default`: nothing came for 0.1 s"), "{said}");
}

const SCRIPT: &str = "#think hm\n#say I look\n#call whoami {\"x\": 1}\n#reply You are {result}.";

/// The events of a stream: their type, and what they add.
fn told(stream: &str) -> Vec<String> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| {
        let Ok(event) = serde_json::from_str::<Value>(data) else { return data.to_owned() };
        let name = event["type"].as_str().unwrap_or_default();
        let added =
            ["/delta", "/content_block", "/item", "/choices/0/delta", "/choices/0/finish_reason"];
        let added = added.iter().filter_map(|place| event.pointer(place));
        let added: Vec<String> =
            added.filter(|value| !value.is_null()).map(Value::to_string).collect();
        [&[name.to_owned()], &*added].concat().join(" ").trim().to_owned()
    })
    .collect()
}

/// EN-101: as Claude Code asks.
#[actix::test]
async fn the_demo_answers_in_the_words_of_anthropic() {
    let agent = Agent::with(offline()).await;
    let reminder =
        json!({ "type": "text", "text": "<system-reminder>\n#reply no\n</system-reminder>" });
    let mut body = json!({
        "model": "m", "stream": true, "tools": [{ "name": "mcp__hivewright__whoami" }],
        "messages": [{ "role": "user", "content": [reminder, { "type": "text", "text": SCRIPT }] }],
    });

    let first = agent.post("/v1/messages?beta=true", &body).await.text().await.unwrap();
    let call =
        json!({ "type": "tool_use", "id": "offline_1_2", "name": "mcp__hivewright__whoami" });
    let result = json!({ "type": "text", "text": "main" });
    let result =
        json!({ "type": "tool_result", "tool_use_id": "offline_1_2", "content": [result] });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": [call] }));
    messages.push(json!({ "role": "user", "content": [result, reminder] }));
    body["stream"] = false.into();
    let last: Value = agent.post("/v1/messages", &body).await.json().await.unwrap();

    assert_eq!(
        told(&first),
        [
            "message_start",
            r#"content_block_start {"signature":"","thinking":"","type":"thinking"}"#,
            r#"content_block_delta {"thinking":"hm","type":"thinking_delta"}"#,
            r#"content_block_delta {"signature":"offline","type":"signature_delta"}"#,
            "content_block_stop",
            r#"content_block_start {"text":"","type":"text"}"#,
            r#"content_block_delta {"text":"I ","type":"text_delta"}"#,
            r#"content_block_delta {"text":"look","type":"text_delta"}"#,
            "content_block_stop",
            r#"content_block_start {"id":"offline_1_2","input":{},"name":"mcp__hivewright__whoami","type":"tool_use"}"#,
            r#"content_block_delta {"partial_json":"{\"x\":1}","type":"input_json_delta"}"#,
            "content_block_stop",
            r#"message_delta {"stop_reason":"tool_use","stop_sequence":null}"#,
            "message_stop",
        ]
    );
    assert_eq!(last["content"], json!([{ "type": "text", "text": "You are main." }]));
    assert_eq!(last["stop_reason"], "end_turn");
    assert_eq!(last["usage"], json!({ "input_tokens": 14, "output_tokens": 3 }));
    assert_eq!(agent.usage()[1], Usage { input: 14, output: 3, ..Usage::default() });
}

/// EN-101: as Codex asks, whose tools are in a namespace.
#[actix::test]
async fn the_demo_answers_in_the_words_of_the_responses_api() {
    let agent = Agent::with(offline()).await;
    let user = |text: &str| {
        let content = json!([{ "type": "input_text", "text": text }]);
        json!({ "type": "message", "role": "user", "content": content })
    };
    let inner = json!({ "type": "function", "name": "whoami" });
    let tools = json!([
        { "type": "function", "name": "view_image" },
        { "type": "namespace", "name": "mcp__hivewright", "tools": [inner] },
    ]);
    let context = user("<environment_context>\n#reply no\n</environment_context>");
    let mut body =
        json!({ "model": "m", "stream": true, "tools": tools, "input": [user(SCRIPT), context] });

    let first = agent.post("/v1/responses", &body).await.text().await.unwrap();
    let items = body["input"].as_array_mut().unwrap();
    items.push(json!({ "type": "message", "role": "assistant", "content": [] }));
    items.push(json!({ "type": "function_call", "call_id": "c", "name": "whoami" }));
    let output = ["Wall time: 0.1 seconds\nOutput:", "main"];
    let output = output.map(|text| json!({ "type": "input_text", "text": text }));
    items.push(json!({ "type": "function_call_output", "call_id": "c", "output": output }));
    body["stream"] = false.into();
    let last: Value = agent.post("/v1/responses", &body).await.json().await.unwrap();

    let call = r#"{"arguments":"{\"x\":1}","call_id":"offline_1_2","id":"fc_offline_1_2","name":"whoami","namespace":"mcp__hivewright","status":"completed","type":"function_call"}"#;
    let begun = call.replace(r#""{\"x\":1}""#, r#""""#).replace("completed", "in_progress");
    let text = r#"{"content":[{"annotations":[],"text":"I look","type":"output_text"}],"id":"msg_offline_1_1","role":"assistant","status":"completed","type":"message"}"#;
    assert_eq!(
        told(&first),
        [
            "response.created",
            "response.in_progress",
            r#"response.output_item.added {"id":"rs_offline_1_0","status":"in_progress","summary":[],"type":"reasoning"}"#,
            "response.reasoning_summary_part.added",
            r#"response.reasoning_summary_text.delta "hm""#,
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            r#"response.output_item.done {"id":"rs_offline_1_0","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"}"#,
            r#"response.output_item.added {"content":[],"id":"msg_offline_1_1","role":"assistant","status":"in_progress","type":"message"}"#,
            "response.content_part.added",
            r#"response.output_text.delta "I ""#,
            r#"response.output_text.delta "look""#,
            "response.output_text.done",
            "response.content_part.done",
            &format!("response.output_item.done {text}"),
            &format!("response.output_item.added {begun}"),
            r#"response.function_call_arguments.delta "{\"x\":1}""#,
            "response.function_call_arguments.done",
            &format!("response.output_item.done {call}"),
            "response.completed",
        ]
    );
    assert_eq!(last["output"][0]["content"][0]["text"], "You are main.");
    assert_eq!(last["usage"]["total_tokens"], 17);
    assert_eq!(agent.usage().len(), 2);
}

/// EN-101: as Pi asks.
#[actix::test]
async fn the_demo_answers_in_the_words_of_chat_completions() {
    let agent = Agent::with(offline()).await;
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
    let mut body = json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true },
        "tools": [tool("read"), tool("whoami")],
        "messages": [{ "role": "system", "content": "s" }, { "role": "user", "content": SCRIPT }],
    });

    let first = agent.post("/v1/chat/completions", &body).await.text().await.unwrap();
    let call = json!({ "id": "c", "function": { "name": "whoami", "arguments": "{}" } });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
    messages.push(json!({ "role": "tool", "tool_call_id": "c", "content": "main" }));
    body["stream"] = false.into();
    let last: Value = agent.post("/v1/chat/completions", &body).await.json().await.unwrap();

    assert_eq!(
        told(&first),
        [
            r#"{"content":"","role":"assistant"}"#,
            r#"{"reasoning_content":"hm"}"#,
            r#"{"content":"I "}"#,
            r#"{"content":"look"}"#,
            r#"{"tool_calls":[{"function":{"arguments":"","name":"whoami"},"id":"offline_1_2","index":0,"type":"function"}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"{\"x\":1}"},"index":0}]}"#,
            r#"{} "tool_calls""#,
            "",
            "[DONE]",
        ]
    );
    assert!(
        first.contains(r#""usage":{"completion_tokens":5,"prompt_tokens":13,"total_tokens":18}"#),
        "{first}"
    );
    assert_eq!(last["choices"][0]["message"]["content"], "You are main.");
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(agent.usage().len(), 2);
}

/// The demo's own time is kept, and nobody waits for what nobody hears.
#[actix::test]
async fn the_demo_speaks_before_it_waits() {
    let agent = Agent::with(offline()).await;
    let mut body = ask();
    body["messages"][0]["content"] = "#say first\n#wait 60000\n#reply second".into();

    let mut answer = agent.post("/v1/chat/completions", &body).await;
    let mut heard = String::new();
    while !heard.contains("first") {
        heard += std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap();
    }
    agent.ends.cancel();
    agent.served.await;

    assert!(!heard.contains("second"), "{heard}");
}
