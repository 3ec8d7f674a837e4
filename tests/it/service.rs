//! The real program in a folder of its own, and a client that talks to it.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest, protocol::CloseFrame},
};

/// Nothing that a test waits for takes longer, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The file of a main team that also works itself: it has files and a shell.
pub(crate) const WORKS_ITSELF: &str =
    "max_steps: 200\nallowed_tools: [\"@files\", \"@shell\", \"@org\", \"@memory\"]\n";

/// The program, running; ends with the test.
pub(crate) struct Service {
    home: TempDir,
    child: Option<Child>,
    environment: Vec<(String, String)>,
    /// Where it listens; 0 is any free port.
    port: u16,
}

impl Service {
    /// Starts it with nothing configured: the offline demo answers.
    pub(crate) async fn start() -> Self {
        Self::prepare().started().await
    }

    /// The same with a main team that also works itself: it has files and a shell.
    pub(crate) async fn start_working() -> Self {
        let tools =
            "max_steps: 200\nallowed_tools: [\"@files\", \"@shell\", \"@org\", \"@memory\"]\n";
        Self::prepare().with_file("run/teams/main/config.yaml", tools).started().await
    }

    /// A home that can be filled before the start.
    pub(crate) fn prepare() -> Self {
        Self {
            home: tempfile::tempdir().expect("a temporary folder"),
            child: None,
            environment: Vec::new(),
            port: 0,
        }
    }

    /// Writes a file below the home.
    pub(crate) fn with_file(self, path: &str, content: &str) -> Self {
        self.write(path, content);
        self
    }

    /// Gives the program an environment variable.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// From the next start on the program has this environment variable no more.
    pub(crate) fn forget_variable(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Writes a file below the home, also while the program runs: one that was there is never seen half written.
    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let Ok(before) = std::fs::symlink_metadata(&path).map(|before| before.permissions()) else {
            return std::fs::write(path, content).expect("a file");
        };
        let new = tempfile::NamedTempFile::new_in(&self.home).expect("a file");
        std::fs::write(&new, content).expect("a file");
        std::fs::set_permissions(&new, before).expect("its mode");
        new.persist(path).expect("it takes its place");
    }

    /// A place below the home.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// Starts the program and waits until it is ready.
    pub(crate) async fn started(self) -> Self {
        self.started_for(&http()).await
    }

    /// Starts the program and waits until it is ready for this client.
    pub(crate) async fn started_for(mut self, client: &reqwest::Client) -> Self {
        self.launch_for(client).await;
        self
    }

    /// Starts the program again, over the same home.
    pub(crate) async fn launch(&mut self) {
        self.launch_for(&http()).await;
    }

    /// From now on it listens where it listens now: for clients that cannot be told another port.
    pub(crate) fn keep_port(&mut self) {
        let url = self.url();
        let (_, port) = url.rsplit_once(':').expect("a port");
        self.port = port.trim_end_matches('/').parse().expect("a port");
    }

    async fn launch_for(&mut self, client: &reqwest::Client) {
        // One file over all starts, so that a failing test can be read.
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log file");
        let child = self
            .command(&["serve", "--port", &self.port.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let pid = child.id();
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready(pid, client).await {
            let child = self.child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().expect("it can be asked") {
                panic!("the service ended with {status}:\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "not ready:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_ready(&self, pid: u32, client: &reqwest::Client) -> bool {
        let Some(address) = self.address() else {
            return false;
        };
        if address["pid"] != pid {
            return false;
        }
        let url = format!("{}/readyz", address["url"].as_str().expect("an address"));
        let response = client.get(url).send().await;
        response.is_ok_and(|response| response.status() == 200)
    }

    fn address(&self) -> Option<Value> {
        let text = std::fs::read_to_string(self.path("run/service.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// A command of the program, for this home.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivewright"));
        command
            .arg("--home")
            .arg(self.home.path())
            .args(arguments)
            .env_remove("ANTHROPIC_API_KEY")
            .env_remove("OPENAI_API_KEY")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command of the program with something on its standard input, to its end.
    pub(crate) async fn run(&self, arguments: &[&str], input: &str) -> Done {
        let mut command = tokio::process::Command::from(self.command(arguments));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the command starts");
        let mut stdin = child.stdin.take().expect("an input");
        // A command that reads nothing may be over before this is written.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let output = output.expect("it ends in time").expect("it can be awaited");
        Done {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// All that commands and routes show.
    pub(crate) async fn shown(&self, commands: &[&[&str]], paths: &[&str]) -> String {
        let mut shown = String::new();
        for arguments in commands {
            let done = self.run(arguments, "").await;
            shown.push_str(&(done.stdout + &done.stderr));
        }
        for path in paths {
            let answer = http().get(format!("{}{path}", self.url()));
            let answer = answer.bearer_auth(self.token()).send().await.expect("an answer");
            shown.push_str(&answer.text().await.expect("a text"));
        }
        shown
    }

    /// The number of the running process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Kills the program as the kernel would: nothing of it runs any more.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    /// Stops all threads of the program where they are, until it goes on or is killed.
    pub(crate) fn stop_at_once(&self) {
        self.send(Signal::STOP);
        let threads = format!("/proc/{}/task", self.pid());
        let deadline = Instant::now() + PATIENCE;
        let is_stopped = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // Behind the name, which may hold anything. One that has ended since runs no more either.
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
        };
        while !std::fs::read_dir(&threads).expect("threads").flatten().all(is_stopped) {
            assert!(Instant::now() < deadline, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Goes on after a stop.
    pub(crate) fn go_on(&self) {
        self.send(Signal::CONT);
    }

    /// Sends a signal without the detour of a program that does so.
    fn send(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("it runs"));
        kill_process(pid, signal).expect("it is there");
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until it has ended, and tells its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        let mut child = self.child.take().expect("it runs");
        loop {
            if let Some(status) = child.try_wait().expect("it can be asked") {
                return status.code();
            }
            assert!(Instant::now() < deadline, "did not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        let address = self.address().expect("it runs");
        address["url"].as_str().expect("an address").to_owned()
    }

    /// The operator's token.
    pub(crate) fn token(&self) -> String {
        let file = self.path("data/secrets/operator-token");
        let text = std::fs::read_to_string(file).expect("a token");
        text.trim().to_owned()
    }

    /// An address that logs a browser in, once.
    pub(crate) async fn login_link(&self) -> String {
        let response = self.api("POST", "/api/v1/session/links", None).await;
        let code = response.1["data"]["code"].as_str().expect("a code").to_owned();
        format!("{}/#code={code}", self.url())
    }

    /// Calls the API as the operator.
    pub(crate) async fn api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let reads = method == "GET";
        let method = method.parse().expect("a method");
        let mut request =
            http().request(method, format!("{}{path}", self.url())).bearer_auth(self.token());
        if let Some(body) = body {
            request = request.json(&body);
        }
        // A connection that was kept may be closed just when it is used again: what changes nothing is asked once more.
        let again = request.try_clone().filter(|_| reads);
        let response = match (request.send().await, again) {
            (Err(_), Some(again)) => again.send().await,
            (response, _) => response,
        };
        let response = response.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    /// Makes a team with all tools below the main one, and waits until it is ready.
    pub(crate) async fn make_team(&self, name: &str, description: &str) {
        let wish = json!({
            "name": name, "description": description, "scope_accepts": [name], "allowed_tools": ["*"],
        });
        let (status, made) = self.api("POST", "/api/v1/teams", Some(wish)).await;
        assert_eq!(status, 201, "{made}");
        let path = format!("/api/v1/tasks?team={name}");
        self.until(&path, |tasks| tasks[0]["state"] == "done").await;
    }

    /// Asks the API as the operator until the `data` of its answer fits, and tells them.
    pub(crate) async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (_, mut answer) = self.api("GET", path, None).await;
            if fits(&answer["data"]) {
                return answer["data"].take();
            }
            assert!(began.elapsed() < PATIENCE, "{path}: {answer:#}\n{}", self.log());
            rest(began).await;
        }
    }

    /// A new connection.
    pub(crate) async fn connect(&self) -> Client {
        Client::connect(&self.url(), &self.token()).await
    }

    /// What the program wrote to its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits until the program has written something to its log.
    pub(crate) async fn until_logged(&self, words: &str) {
        let began = Instant::now();
        while !self.log().contains(words) {
            assert!(began.elapsed() < PATIENCE, "not logged:\n{}", self.log());
            rest(began).await;
        }
    }

    /// The folder of the home.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it complained about.
    pub(crate) stderr: String,
}

/// So often something is done that the environment variable `HIVEWRIGHT_ROUNDS` makes more.
pub(crate) fn rounds(usual: usize) -> usize {
    let wanted = std::env::var("HIVEWRIGHT_ROUNDS").ok();
    wanted.map_or(usual, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        rest(began).await;
    }
}

/// Backoff of a poll: the longer it took, the longer the pause, since what is waited for needs the processor too.
pub(crate) async fn rest(began: Instant) {
    let pause = began.elapsed() / 8;
    let (shortest, longest) = (Duration::from_millis(10), Duration::from_millis(100));
    tokio::time::sleep(pause.clamp(shortest, longest)).await;
}

/// An HTTP client that reaches this machine only, and without TLS: reading the machine's certificates takes longer than
/// what is asked.
pub(crate) fn http() -> reqwest::Client {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy();
    client.redirect(reqwest::redirect::Policy::none()).build().expect("an HTTP client")
}

/// A WebSocket client.
pub(crate) struct Client {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The channel, as the last frame named it.
    pub(crate) channel: Option<String>,
    /// The newest number seen.
    pub(crate) last_seq: u64,
    /// The last frames, for whoever reads a failing test.
    recent: VecDeque<Value>,
}

impl Client {
    /// Connects with a token.
    pub(crate) async fn connect(url: &str, token: &str) -> Self {
        Self::try_connect(url, token).await.expect("a connection")
    }

    /// Connects with a token, or not.
    pub(crate) async fn try_connect(
        url: &str,
        token: &str,
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        Self::connect_with(url, token, &[]).await
    }

    /// Connects with a token and more headers, or not.
    pub(crate) async fn connect_with(
        url: &str,
        token: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let address = format!("{}/ws", url.replacen("http", "ws", 1));
        let mut request = address.into_client_request()?;
        let bearer = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        for (name, value) in headers {
            let value = value.parse().expect("a header");
            request.headers_mut().insert(*name, value);
        }
        let (stream, response) = connect_async(request).await?;
        let channel = response
            .headers()
            .get("x-channel-id")
            .and_then(|value| value.to_str().ok())
            .map(ToOwned::to_owned);
        Ok(Self { stream, channel, last_seq: 0, recent: VecDeque::new() })
    }

    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: Value) {
        self.send_raw(Message::text(frame.to_string())).await;
    }

    /// Sends anything.
    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.stream.send(message).await.expect("it is sent");
    }

    /// Sends a frame, unless the connection has broken.
    pub(crate) async fn try_send(&mut self, frame: Value) -> bool {
        self.stream.send(Message::text(frame.to_string())).await.is_ok()
    }

    /// Sends a message under an id.
    pub(crate) async fn say(&mut self, id: &str, content: &str) {
        self.send(json!({ "content": content, "message_id": id })).await;
    }

    /// Sends a message under an id to a topic.
    pub(crate) async fn say_in(&mut self, topic: &str, id: &str, content: &str) {
        self.send(json!({ "content": content, "message_id": id, "topic_id": topic })).await;
    }

    /// Says something that opens a topic, and waits for the end of it: the topic's id.
    pub(crate) async fn open_topic(&mut self, words: &str) -> String {
        let end = self.ask(words).await;
        assert_eq!(end["type"], "response", "{end}");
        end["topic_id"].as_str().expect("a topic").to_owned()
    }

    /// Says something and waits for the end of it.
    pub(crate) async fn ask(&mut self, content: &str) -> Value {
        self.send(json!({ "content": content })).await;
        self.terminal().await
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> Value {
        self.try_frame().await.expect("a frame, not a close")
    }

    /// The next frame, or the close frame that came instead.
    pub(crate) async fn try_frame(&mut self) -> Result<Value, Option<CloseFrame>> {
        match tokio::time::timeout(PATIENCE, self.next()).await {
            Ok(next) => next,
            Err(_) => panic!("no frame in time; the last were {:#?}", self.recent),
        }
    }

    async fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("JSON");
                    let seq = frame["seq"].as_u64().expect("a number");
                    if frame["code"] == "cannot_resume" {
                        // The channel is the new one after all, with numbers of its own.
                        self.last_seq = 0;
                    }
                    assert!(seq > self.last_seq, "seq {seq} after {}: {frame}", self.last_seq);
                    self.last_seq = seq;
                    self.channel = frame["channel_id"].as_str().map(ToOwned::to_owned);
                    self.recent.push_back(frame.clone());
                    if self.recent.len() > 5 {
                        self.recent.pop_front();
                    }
                    return Ok(frame);
                }
                Some(Ok(Message::Close(close))) => return Err(close),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next frame that fits; those before it are dropped.
    pub(crate) async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().await;
            if fits(&frame) {
                return frame;
            }
        }
    }

    /// The next `response` or `error`.
    pub(crate) async fn terminal(&mut self) -> Value {
        self.until(|frame| frame["type"] == "response" || frame["type"] == "error").await
    }

    /// All frames up to and with the next `response` or `error`.
    pub(crate) async fn exchange(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.frame().await);
            let last = &frames[frames.len() - 1]["type"];
            if last == "response" || last == "error" {
                return frames;
            }
        }
    }

    /// The terminal frame of one message; what is said about others is dropped.
    pub(crate) async fn end_of(&mut self, id: &str) -> Value {
        self.until(|frame| {
            (frame["type"] == "response" || frame["type"] == "error") && frame["message_id"] == id
        })
        .await
    }

    /// Waits for a ping of the server. The stream answers it by itself.
    pub(crate) async fn ping(&mut self) {
        while !matches!(self.stream.next().await, Some(Ok(Message::Ping(_)))) {}
    }

    /// Waits until the server closes: the code, or none if it just hung up.
    pub(crate) async fn closed(&mut self) -> Option<u16> {
        loop {
            if let Err(close) = self.try_frame().await {
                return close.map(|close| close.code.into());
            }
        }
    }

    /// Goes on with an earlier channel.
    pub(crate) async fn resume(&mut self, channel: &str, last_seq: u64) {
        self.last_seq = last_seq;
        self.send(json!({ "type": "resume", "channel_id": channel, "last_seq": last_seq })).await;
    }
}
