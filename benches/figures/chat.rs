//! What a durable chat turn costs in CPU time, against the least it could cost.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt, future};
use serde_json::{Value, json};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    baseline, model,
    process::{self, Process},
    report::{Bound, Report},
};

const CONNECTIONS: usize = 100;
const WARM_UP: usize = 20;
const MESSAGES: usize = 200;
/// Turns that two cores are to do in a second.
const TURNS: f64 = 3_000.0;

pub(crate) fn measure(report: &mut Report) {
    actix::System::new().block_on(async {
        let mut process = Process::role(&[baseline::ARGUMENT]);
        let url = process.first_line();
        let (echo, _) = Load::on(process, &url, "").await.at_once().await;
        let name = "chat: CPU of echo and one HTTP request";
        report.figure(name, micros(echo), "µs", Bound::None);

        let folder = tempfile::tempdir().expect("a folder");
        let mut demo = Load::on_service(folder.path()).await;
        let (turn, rate) = demo.at_once().await;
        let took = demo.at_a_pace(TURNS / 2.0).await;
        drop(demo);
        report.figure("chat: CPU of a durable turn", micros(turn), "µs", Bound::AtMost(250.0));
        let name = "chat: CPU of a durable turn / echo and one HTTP request";
        report.figure(name, turn.as_secs_f64() / echo.as_secs_f64(), "×", Bound::AtMost(5.0));
        report.figure("chat: durable turns", rate, "/s", Bound::AtLeast(TURNS));
        report.percentiles("chat: turn at half of that load", took, 50.0);

        let folder = tempfile::tempdir().expect("a folder");
        let answer = |_| model::stream([model::WORD; 11].concat() + model::END);
        process::use_model(folder.path(), &model::serve(answer));
        let (turn, rate) = Load::on_service(folder.path()).await.at_once().await;
        let name = "chat: CPU of a durable turn over HTTP, in 11 words";
        report.figure(name, micros(turn), "µs", Bound::AtMost(450.0));
        report.figure("chat: durable turns over HTTP", rate, "/s", Bound::None);
    });
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// A server, and who talks to it.
struct Load {
    process: Process,
    talks: Vec<Talk>,
}

impl Load {
    async fn on_service(home: &Path) -> Self {
        let limits = "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n";
        process::write(home, "data/config/channels.yaml", limits);
        let process = Process::serve(home);
        let url = process::address(home, &process);
        Self::on(process, &url, &process::token(home)).await
    }

    async fn on(process: Process, url: &str, token: &str) -> Self {
        let mut talks = Vec::new();
        for _ in 0..CONNECTIONS {
            talks.push(Talk::connect(url, token).await);
        }
        future::join_all(talks.iter_mut().map(|talk| talk.say(WARM_UP))).await;
        Self { process, talks }
    }

    /// All say the next thing when they are answered: CPU time of a message, and messages in a second.
    async fn at_once(&mut self) -> (Duration, f64) {
        let (cpu, began) = (self.process.cpu(), Instant::now());
        future::join_all(self.talks.iter_mut().map(|talk| talk.say(MESSAGES))).await;
        let messages = (CONNECTIONS * MESSAGES) as u32;
        let rate = f64::from(messages) / began.elapsed().as_secs_f64();
        ((self.process.cpu() - cpu) / messages, rate)
    }

    /// How long answers take, from when each message was to be said: one that waits for the one before it is late by that.
    async fn at_a_pace(&mut self, per_second: f64) -> Vec<Duration> {
        let pace = Duration::from_secs_f64(CONNECTIONS as f64 / per_second);
        let began = Instant::now();
        let talks = self.talks.iter_mut().enumerate().map(|(number, talk)| async move {
            let first = began + pace.mul_f64(number as f64 / CONNECTIONS as f64);
            let mut took = Vec::new();
            for round in 0..MESSAGES as u32 {
                let planned = first + pace * round;
                tokio::time::sleep_until(planned.into()).await;
                talk.ask(&format!("hello there, number {round}")).await;
                took.push(planned.elapsed());
            }
            took
        });
        future::join_all(talks).await.concat()
    }
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
        let first = self.until(|frame| frame["type"] != "topic_list").await;
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
