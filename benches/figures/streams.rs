//! What it costs to be watched: memory of an open stream of events, and how long all take to hear.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
};

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
};

const STREAMS: usize = 1_000;
/// Streams of one token: it has at most 64.
const OF_ONE: usize = 50;
const CHATS: usize = 100;
const ROUNDS: usize = 20;
const MESSAGES: usize = 20;

pub(crate) fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    process::write(
        home,
        "data/config/channels.yaml",
        "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
    );
    actix::System::new().block_on(async {
        let process = Process::serve(home);
        let url = process::address(home, &process);
        let token = process::token(home);
        let before = process.memory();
        let mut talks = Vec::new();
        for _ in 0..CHATS {
            talks.push(Talk::connect(&url, &token).await);
        }
        let alone = talk(&mut talks).await;
        let with_chats = process.memory();
        let (heard, mut told) = mpsc::unbounded_channel();
        let address = url.trim_start_matches("http://").to_owned();
        let watchers: Vec<String> = (0..STREAMS / OF_ONE).map(|one| watcher(home, one)).collect();
        for number in 0..STREAMS {
            let stream = open(&address, &watchers[number / OF_ONE]).await;
            actix::spawn(listen(stream, heard.clone()));
        }
        let with_streams = process.memory();
        let mut spreads = Vec::new();
        for round in 0..ROUNDS {
            while told.try_recv().is_ok() {}
            talks[0].ask(&format!("round {round}")).await;
            spreads.push(spread(&mut told).await);
        }
        spreads.sort_unstable();
        let watched = talk(&mut talks).await;
        let per = |bytes: u64, count: usize| bytes as f64 / 1024.0 / count as f64;
        report.figure(
            "streams: memory of a chat connection",
            per(with_chats.saturating_sub(before), CHATS),
            "KiB",
            Bound::None,
        );
        report.figure(
            "streams: memory of an open event stream",
            per(with_streams.saturating_sub(with_chats), STREAMS),
            "KiB",
            Bound::AtMost(64.0),
        );
        report.figure(
            "streams: from the first to the last of 1,000 to hear of an end",
            spreads[ROUNDS / 2].as_secs_f64() * 1e3,
            "ms",
            Bound::AtMost(250.0),
        );
        report.figure(
            "streams: time of 2,000 turns watched by 1,000 / by nobody",
            watched.as_secs_f64() / alone.as_secs_f64(),
            "×",
            Bound::None,
        );
    });
}

/// A token that may watch.
fn watcher(home: &Path, number: usize) -> String {
    let name = format!("watcher-{number}");
    let made = process::command(home, &["token", "create", &name, "--scope", "read"]);
    made["data"]["token"].as_str().expect("a token").to_owned()
}

async fn talk(talks: &mut [Talk]) -> Duration {
    let began = Instant::now();
    let all = talks.iter_mut().map(|talk| async {
        for number in 0..MESSAGES {
            talk.ask(&format!("hello there, number {number}")).await;
        }
    });
    future::join_all(all).await;
    began.elapsed()
}

/// From another address of this machine than the chats: one address has 1,024 connections.
async fn open(address: &str, token: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let own = "127.0.0.2:0".parse().expect("an address");
    socket.bind(own).expect("an address of this machine");
    let address = address.parse().expect("an address");
    let mut stream = socket.connect(address).await.expect("a connection");
    let request = format!(
        "GET /api/v1/events?types=turn HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    let mut head = vec![0; 4096];
    let count = stream.read(&mut head).await.expect("an answer");
    assert!(head[..count].starts_with(b"HTTP/1.1 200"));
    stream
}

/// Tells of each end of a turn.
async fn listen(mut stream: TcpStream, heard: mpsc::UnboundedSender<Instant>) {
    let mut chunk = vec![0; 16 * 1024];
    let mut text = String::new();
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        while let Some((event, rest)) = text.split_once("\n\n") {
            if event.contains("\"kind\":\"turn_end\"") && heard.send(Instant::now()).is_err() {
                return;
            }
            text = rest.to_owned();
        }
    }
}

/// How long after the first the last stream hears of an end.
async fn spread(told: &mut mpsc::UnboundedReceiver<Instant>) -> Duration {
    let mut moments = Vec::new();
    while moments.len() < STREAMS {
        let heard = tokio::time::timeout(Duration::from_secs(10), told.recv()).await;
        moments.push(heard.expect("all hear in time").expect("streams are open"));
    }
    let (first, last) = (moments.iter().min(), moments.iter().max());
    match first.zip(last) {
        Some((first, last)) => *last - *first,
        None => Duration::ZERO,
    }
}
