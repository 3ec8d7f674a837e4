//! The real program in a folder of its own, and a client that talks to it.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest, protocol::CloseFrame},
};

/// Nothing that a test waits for takes longer, also on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The program, running; ends with the test.
pub struct Service {
    home: TempDir,
    child: Option<Child>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Service {
    /// Starts it with nothing configured: the offline demo answers.
    pub async fn start() -> Self {
        Self::prepare().started().await
    }

    /// A home that can be filled before the start.
    pub fn prepare() -> Self {
        Self {
            home: tempfile::tempdir().expect("a temporary folder"),
            child: None,
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Writes a file below the home.
    pub fn with_file(self, path: &str, content: &str) -> Self {
        self.write(path, content);
        self
    }

    /// Gives the program an environment variable.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Adds arguments to the start.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Writes a file below the home, also while the program runs.
    pub fn write(&self, path: &str, content: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    /// A place below the home.
    pub fn path(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    /// Starts the program and waits until it is ready.
    pub async fn started(mut self) -> Self {
        self.launch().await;
        self
    }

    /// Starts the program again, over the same home.
    pub async fn launch(&mut self) {
        // One file over all starts, so that a failing test can be read.
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("log"))
            .expect("a log file");
        let child = self
            .command(&["serve", "--port", "0"])
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let pid = child.id();
        self.child = Some(child);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_ready(pid).await {
            let child = self.child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().expect("it can be asked") {
                panic!("the service ended with {status}:\n{}", self.log());
            }
            assert!(Instant::now() < deadline, "not ready:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn is_ready(&self, pid: u32) -> bool {
        let Some(address) = self.address() else {
            return false;
        };
        if address["pid"] != pid {
            return false;
        }
        let url = format!("{}/readyz", address["url"].as_str().expect("an address"));
        let response = http().get(url).send().await;
        response.is_ok_and(|response| response.status() == 200)
    }

    fn address(&self) -> Option<Value> {
        let text = std::fs::read_to_string(self.path("run/service.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// A command of the program, for this home.
    pub fn command(&self, arguments: &[&str]) -> Command {
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

    /// Kills the program as the kernel would: nothing of it runs any more.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }

    /// Sends a signal by name.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until it has ended, and tells its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
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
    pub fn url(&self) -> String {
        let address = self.address().expect("it runs");
        address["url"].as_str().expect("an address").to_owned()
    }

    /// The operator's token.
    pub fn token(&self) -> String {
        let file = self.path("data/secrets/operator-token");
        let text = std::fs::read_to_string(file).expect("a token");
        text.trim().to_owned()
    }

    /// An address that logs a browser in, once.
    pub async fn login_link(&self) -> String {
        let response = self.api("POST", "/api/v1/session/links", None).await;
        let code = response.1["data"]["code"]
            .as_str()
            .expect("a code")
            .to_owned();
        format!("{}/#code={code}", self.url())
    }

    /// Calls the API as the operator.
    pub async fn api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let method = method.parse().expect("a method");
        let mut request = http()
            .request(method, format!("{}{path}", self.url()))
            .bearer_auth(self.token());
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    /// A new connection.
    pub async fn connect(&self) -> Client {
        Client::connect(&self.url(), &self.token()).await
    }

    /// What the program wrote to its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The folder of the home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An HTTP client that reaches this machine only.
pub fn http() -> reqwest::Client {
    hivewright::providers::client::build().expect("an HTTP client")
}

/// A WebSocket client.
pub struct Client {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The channel, as the last frame named it.
    pub channel: Option<String>,
    /// The newest number seen.
    pub last_seq: u64,
}

impl Client {
    /// Connects with a token.
    pub async fn connect(url: &str, token: &str) -> Self {
        Self::try_connect(url, token).await.expect("a connection")
    }

    /// Connects with a token, or not.
    pub async fn try_connect(
        url: &str,
        token: &str,
    ) -> Result<Self, tokio_tungstenite::tungstenite::Error> {
        let address = format!("{}/ws", url.replacen("http", "ws", 1));
        let mut request = address.into_client_request()?;
        let bearer = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let (stream, response) = connect_async(request).await?;
        let channel = response
            .headers()
            .get("x-channel-id")
            .and_then(|value| value.to_str().ok())
            .map(ToOwned::to_owned);
        Ok(Self {
            stream,
            channel,
            last_seq: 0,
        })
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: Value) {
        self.send_raw(Message::text(frame.to_string())).await;
    }

    /// Sends anything.
    pub async fn send_raw(&mut self, message: Message) {
        self.stream.send(message).await.expect("it is sent");
    }

    /// Sends a frame, unless the connection has broken.
    pub async fn try_send(&mut self, frame: Value) -> bool {
        self.stream
            .send(Message::text(frame.to_string()))
            .await
            .is_ok()
    }

    /// Says something and waits for the end of it.
    pub async fn ask(&mut self, content: &str) -> Value {
        self.send(json!({ "content": content })).await;
        self.terminal().await
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Value {
        self.try_frame().await.expect("a frame, not a close")
    }

    /// The next frame, or the close frame that came instead.
    pub async fn try_frame(&mut self) -> Result<Value, Option<CloseFrame>> {
        let next = tokio::time::timeout(PATIENCE, self.next());
        next.await.expect("a frame in time")
    }

    async fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("JSON");
                    let seq = frame["seq"].as_u64().expect("a number");
                    assert!(
                        seq > self.last_seq,
                        "seq {seq} after {}: {frame}",
                        self.last_seq
                    );
                    self.last_seq = seq;
                    self.channel = frame["channel_id"].as_str().map(ToOwned::to_owned);
                    return Ok(frame);
                }
                Some(Ok(Message::Close(close))) => return Err(close),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next frame that fits; those before it are dropped.
    pub async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().await;
            if fits(&frame) {
                return frame;
            }
        }
    }

    /// The next `response` or `error`.
    pub async fn terminal(&mut self) -> Value {
        self.until(|frame| frame["type"] == "response" || frame["type"] == "error")
            .await
    }

    /// Goes on with an earlier channel.
    pub async fn resume(&mut self, channel: &str, last_seq: u64) {
        self.last_seq = last_seq;
        self.send(json!({ "type": "resume", "channel_id": channel, "last_seq": last_seq }))
            .await;
    }
}
