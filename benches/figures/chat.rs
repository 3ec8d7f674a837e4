//! What a durable chat turn costs in CPU time, against the least it could cost.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt, future};
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    baseline,
    process::{self, Process},
    report::{Bound, Report},
};

const CONNECTIONS: usize = 100;
const WARM_UP: usize = 20;
const MESSAGES: usize = 200;

pub(crate) fn measure(report: &mut Report) {
    let (baseline, _) = run(|| {
        let mut process = Process::role(&[baseline::ARGUMENT]);
        let url = process.first_line();
        (process, url, String::new())
    });
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    process::write(
        home,
        "data/config/channels.yaml",
        "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
    );
    let (service, rate) = run(|| {
        let process = Process::serve(home);
        let url = process::address(home, &process);
        (process, url, process::token(home))
    });
    report.figure("chat: CPU of echo and one HTTP request", micros(baseline), "µs", Bound::None);
    report.figure("chat: CPU of a durable turn", micros(service), "µs", Bound::None);
    report.figure("chat: durable turns", rate, "/s", Bound::None);
    report.figure(
        "chat: CPU of a durable turn / echo and one HTTP request",
        service.as_secs_f64() / baseline.as_secs_f64(),
        "×",
        Bound::AtMost(5.0),
    );
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU time per message of a server, and messages per second.
fn run(start: impl FnOnce() -> (Process, String, String)) -> (Duration, f64) {
    actix::System::new().block_on(async {
        let (process, url, token) = start();
        let mut talks = Vec::new();
        for _ in 0..CONNECTIONS {
            talks.push(Talk::connect(&url, &token).await);
        }
        future::join_all(talks.iter_mut().map(|talk| talk.say(WARM_UP))).await;
        let (cpu, began) = (process.cpu(), Instant::now());
        future::join_all(talks.iter_mut().map(|talk| talk.say(MESSAGES))).await;
        let messages = (CONNECTIONS * MESSAGES) as u32;
        let rate = f64::from(messages) / began.elapsed().as_secs_f64();
        ((process.cpu() - cpu) / messages, rate)
    })
}

/// One connection.
pub(crate) struct Talk {
    stream: tokio_tungstenite::WebSocketStream<
        tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>,
    >,
}

impl Talk {
    pub(crate) async fn connect(url: &str, token: &str) -> Self {
        let address = format!("{}/ws", url.replacen("http", "ws", 1));
        let mut request = address.into_client_request().expect("a request");
        let bearer = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", bearer);
        let (stream, _) = connect_async(request).await.expect("a connection");
        Self { stream }
    }

    async fn say(&mut self, times: usize) {
        for number in 0..times {
            self.ask(&format!("hello there, number {number}")).await;
        }
    }

    /// Says something and waits for the end of it. An echo is its own end.
    pub(crate) async fn ask(&mut self, content: &str) {
        self.send(content).await;
        self.until(|frame| frame["type"].is_null() || frame["type"] == "response").await;
    }

    /// Says something and waits for the end of it: when the first frame about it came.
    pub(crate) async fn first_frame(&mut self, content: &str) -> Instant {
        self.send(content).await;
        let first = self.until(|_| true).await;
        let at = Instant::now();
        assert_eq!(first["generated"], true, "{first}");
        self.until(|frame| frame["type"] == "response").await;
        at
    }

    /// Gives work away and waits until the message has its end and the work is told of.
    pub(crate) async fn delegate(&mut self, content: &str) {
        self.send(content).await;
        let (mut ended, mut told) = (false, false);
        while !(ended && told) {
            let frame = self.until(|_| true).await;
            ended |= frame["type"] == "response";
            told |= frame["type"] == "notification";
        }
    }

    /// Waits for a notification of a kind.
    pub(crate) async fn told(&mut self, kind: &str) {
        self.until(|frame| frame["kind"] == kind).await;
    }

    /// Says something so often that it waits behind itself, and waits for nothing.
    pub(crate) async fn flood(&mut self, content: &str, times: usize) {
        for _ in 0..times {
            self.send(content).await;
        }
    }

    async fn send(&mut self, content: &str) {
        let frame = json!({ "content": content }).to_string();
        let sent = self.stream.send(Message::text(frame)).await;
        sent.expect("it is sent");
    }

    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.stream.next().await.expect("a frame").expect("a frame");
            if let Message::Text(text) = message {
                let frame: Value = serde_json::from_str(&text).expect("JSON");
                assert_ne!(frame["type"], "error", "{text}");
                if fits(&frame) {
                    return frame;
                }
            }
        }
    }
}
