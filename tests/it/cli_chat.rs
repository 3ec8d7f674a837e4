//! `send` and `chat` against a service that follows a script, over a real socket.

use std::{
    fs,
    io::{Read, Write},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

use crate::cli::{Ended, command, lock};

/// No test may take longer.
const PATIENCE: Duration = Duration::from_secs(300);
const TOKEN: &str = "hwo_0123456789012345678901234567890123456789012";

/// A service of which the test plays the part.
struct Stage {
    home: TempDir,
    listener: TcpListener,
    _lock: fs::File,
}

impl Stage {
    async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let root = home.path().join(".hivewright");
        let (run, secrets) = (root.join("run"), root.join("data/secrets"));
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(&secrets).unwrap();
        fs::write(secrets.join("operator-token"), format!("{TOKEN}\n")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let notice = json!({"pid": 1, "url": url}).to_string();
        fs::write(run.join("service.json"), notice).unwrap();
        Self { home, listener, _lock: lock(&run) }
    }

    /// Runs the program with this input, while the test goes on.
    fn run(&self, arguments: &[&str], input: &str) -> Running {
        let mut child = command(self.home.path(), arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        Running(child)
    }

    /// Answers the next request, which must be for this.
    async fn respond(&self, path: &str, body: Value) {
        let accepted = timeout(PATIENCE, self.listener.accept()).await;
        let (mut stream, _) = accepted.unwrap().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with(&format!("GET {path}")), "{head}");
        let body = body.to_string();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    /// The next connection, whose channel gets this name.
    async fn connection(&self, channel: &'static str) -> Scene {
        let (stream, _) = timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        #[expect(clippy::result_large_err, reason = "the signature is that of the library")]
        let greet = move |request: &Request, mut response: Response| {
            assert_eq!(request.uri().path(), "/ws");
            assert_eq!(request.headers()["authorization"], format!("Bearer {TOKEN}"));
            let headers = response.headers_mut();
            headers.insert("x-channel-id", channel.parse().unwrap());
            Ok::<_, ErrorResponse>(response)
        };
        let socket = accept_hdr_async(stream, greet).await.unwrap();
        Scene { socket, channel, seq: 0 }
    }
}

/// A task that has ended well.
fn task(id: &str) -> Value {
    json!({
        "id": id, "team": "main", "generation": 1, "type": "chat", "priority": "normal", "state": "done",
        "body": "hello", "created_by": "operator", "created_at": "2026-01-31T12:00:00.000Z",
        "attempts": 1, "redelivered": false, "lineage": {"root": id, "hops": 0}, "label": "trusted",
        "session_id": "s-1", "children": [], "tree": {"ended": 1, "usage": {"input": 1, "output": 1}},
        "outcome": {
            "result": "Hi!", "error": null, "notified": false, "duration_ms": 5,
            "usage": {"input": 1, "output": 1, "cache_read": 0, "cache_write": 0},
        },
    })
}

struct Running(Child);

impl Running {
    async fn end(self) -> Ended {
        let waiting = tokio::task::spawn_blocking(|| self.0.wait_with_output().unwrap());
        Ended::new(timeout(PATIENCE, waiting).await.unwrap().unwrap())
    }
}

/// One connection, from the side of the service.
struct Scene {
    socket: WebSocketStream<TcpStream>,
    channel: &'static str,
    seq: u64,
}

impl Scene {
    /// What the client sends next.
    async fn hear(&mut self) -> Value {
        let message = timeout(PATIENCE, self.socket.next()).await.unwrap();
        let text = message.unwrap().unwrap().into_text().unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The id of the message that the client sends next, which must say this.
    async fn hear_words(&mut self, content: &str) -> Value {
        let frame = self.hear().await;
        let id = frame["message_id"].clone();
        assert!(id.as_str().is_some_and(|id| id.starts_with("cli-")));
        assert_eq!(frame, json!({"type": "message", "content": content, "message_id": id}));
        id
    }

    async fn tell(&mut self, fields: Value) {
        self.seq += 1;
        let mut frame = json!({
            "topic_id": "t-0000000000000001", "topic_name": "greetings",
            "channel_id": self.channel, "seq": self.seq, "ts": 0,
        });
        let all = frame.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        let message = Message::text(frame.to_string());
        self.socket.send(message).await.unwrap();
    }

    async fn acknowledge(&mut self, id: &Value) {
        self.tell(json!({
            "type": "ack", "content": "Working on it.", "message_id": id,
            "task_id": "task-1", "generated": false, "position": 0,
        }))
        .await;
    }

    async fn answer(&mut self, id: &Value, content: &str) {
        self.tell(json!({
            "type": "response", "content": content, "message_id": id,
            "task_id": "task-1", "status": "done",
        }))
        .await;
    }
}

/// OP-78
#[tokio::test]
async fn send_prints_the_answer_and_keeps_the_rest_beside() {
    let stage = Stage::new().await;
    let running = stage.run(&["send", "-"], "hello\nthere");
    let mut scene = stage.connection("ws:1").await;

    let id = scene.hear_words("hello\nthere").await;
    scene.acknowledge(&id).await;
    scene
        .tell(json!({"type": "progress", "kind": "text_delta", "content": "Hi", "message_id": id}))
        .await;
    scene
        .tell(json!({
            "type": "progress", "kind": "tool_call", "content": "Using bash",
            "preview": "{\"command\":\"ls\"}", "tool": "bash", "message_id": id,
        }))
        .await;
    scene.tell(json!({"type": "something_new", "content": "?", "message_id": id})).await;
    scene.answer(&json!("cli-other"), "for someone else").await;
    scene.answer(&id, "Hi!").await;
    // Something may have come of the tool: nothing has.
    stage.respond("/api/v1/tasks/task-1", json!({"data": task("task-1")})).await;
    let below = json!({"data": [task("task-1")], "total": 1});
    stage.respond("/api/v1/tasks?root=task-1", below).await;

    let expected = Ended {
        code: Some(0),
        out: "Hi!\n".into(),
        err: "· task-1 in topic t-0000000000000001 (greetings)\nWorking on it.\n· Using bash {\"command\":\"ls\"}\n".into(),
    };
    assert_eq!(running.end().await, expected);
}

/// OP-78, OP-84, OP-85
#[tokio::test]
async fn an_error_frame_is_exit_1_with_its_words() {
    let stage = Stage::new().await;
    let plain = stage.run(&["send", "hello", "--quiet"], "");
    let mut scene = stage.connection("ws:1").await;
    let error = |id: &Value| json!({"type": "error", "error": "no such topic", "code": "unknown_topic", "message_id": id});

    let id = scene.hear_words("hello").await;
    scene.tell(error(&id)).await;
    let plain = plain.end().await;
    let in_json = stage.run(&["send", "hello", "--json"], "");
    let mut scene = stage.connection("ws:2").await;
    let id = scene.hear_words("hello").await;
    scene.tell(error(&id)).await;
    let in_json = in_json.end().await;

    let expected = Ended {
        code: Some(1),
        out: String::new(),
        err: "hivewright: no such topic (unknown_topic)\n".into(),
    };
    assert_eq!(plain, expected);
    assert_eq!(in_json.code, Some(1));
    assert_eq!(
        serde_json::from_str::<Value>(&in_json.out).unwrap(),
        json!({"error": {"code": "failed", "message": "no such topic (unknown_topic)"}})
    );
}

/// OP-78, OP-85
#[tokio::test]
async fn send_gives_up_after_the_time_it_was_given() {
    let stage = Stage::new().await;
    let running = stage.run(&["send", "hello", "--wait", "1"], "");
    let mut scene = stage.connection("ws:1").await;

    let frame = scene.hear().await;
    scene.acknowledge(&frame["message_id"]).await;
    let ended = running.end().await;

    assert_eq!((ended.code, ended.out.as_str()), (Some(8), ""));
    assert!(ended.err.contains("no answer within 1 s"), "{}", ended.err);
}

/// OP-78, CH-46, CH-48
#[tokio::test]
async fn a_broken_connection_goes_on_where_it_was() {
    let stage = Stage::new().await;
    let running = stage.run(&["send", "hello", "--quiet"], "");

    let mut first = stage.connection("ws:1").await;
    let id = first.hear_words("hello").await;
    drop(first);

    let mut second = stage.connection("ws:2").await;
    let resume = json!({"type": "resume", "channel_id": "ws:1", "last_seq": 0});
    assert_eq!(second.hear().await, resume);
    assert_eq!(second.hear().await, json!({"type": "topic_list_request"}));
    second.channel = "ws:1";
    second.tell(json!({"type": "topic_list", "topics": []})).await;
    assert_eq!(second.hear_words("hello").await, id);
    second.acknowledge(&id).await;
    drop(second);

    let mut third = stage.connection("ws:3").await;
    let resume = json!({"type": "resume", "channel_id": "ws:1", "last_seq": 2});
    assert_eq!(third.hear().await, resume);
    assert_eq!(third.hear().await, json!({"type": "topic_list_request"}));
    (third.channel, third.seq) = ("ws:1", 2);
    third.answer(&id, "Hi again!").await;

    let expected = Ended { code: Some(0), out: "Hi again!\n".into(), err: String::new() };
    assert_eq!(running.end().await, expected);
}

/// CH-88
#[tokio::test]
async fn an_accepted_message_is_not_said_again_in_another_channel() {
    let stage = Stage::new().await;
    let running = stage.run(&["send", "hello", "--quiet"], "");

    let mut first = stage.connection("ws:1").await;
    let id = first.hear_words("hello").await;
    first.acknowledge(&id).await;
    drop(first);
    let mut second = stage.connection("ws:2").await;
    second.hear().await;
    second
        .tell(json!({"type": "error", "error": "no", "code": "cannot_resume", "topic_id": null, "topic_name": null}))
        .await;
    let ended = running.end().await;

    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("no longer knows"), "{}", ended.err);
}

/// CH-34, OP-85
#[tokio::test]
async fn a_revoked_token_is_not_tried_again() {
    let stage = Stage::new().await;
    let running = stage.run(&["send", "hello", "--quiet"], "");
    let mut scene = stage.connection("ws:1").await;

    scene.hear_words("hello").await;
    let frame = tokio_tungstenite::tungstenite::protocol::CloseFrame {
        code: 4401.into(),
        reason: "".into(),
    };
    scene.socket.close(Some(frame)).await.unwrap();
    let ended = running.end().await;

    assert_eq!(ended.code, Some(4));
    assert!(!ended.err.contains(TOKEN));
}

/// OP-78
#[tokio::test]
async fn in_a_pipe_each_line_is_a_message_that_waits_for_its_answer() {
    let stage = Stage::new().await;
    let running = stage.run(&["chat", "--quiet"], "/help\n\nsecond\n");
    let mut scene = stage.connection("ws:1").await;

    let first = scene.hear_words("/help").await;
    scene.acknowledge(&first).await;
    scene
        .tell(json!({"type": "progress", "kind": "text_delta", "content": "Com", "message_id": first}))
        .await;
    scene.answer(&first, "Commands: /help").await;
    let second = scene.hear_words("second").await;
    scene
        .tell(json!({"type": "error", "error": "no model", "code": "no_provider", "message_id": second, "task_id": "task-2"}))
        .await;

    let expected = Ended {
        code: Some(1),
        out: "Commands: /help\n".into(),
        err: "no model (no_provider)\nhivewright: at least one message was not answered\n".into(),
    };
    assert_eq!(running.end().await, expected);
}

/// OP-78, CH-49
#[tokio::test]
async fn the_first_interrupt_stops_the_turn_and_the_second_leaves() {
    let stage = Stage::new().await;
    let mut running = stage.run(&["chat"], "hello\n");
    let mut scene = stage.connection("ws:1").await;
    let id = scene.hear_words("hello").await;
    scene.acknowledge(&id).await;
    // Once this is printed, the client knows what there is to stop.
    let stderr = running.0.stderr.take().unwrap();
    let process = rustix::process::Pid::from_child(&running.0);
    let interrupt = || {
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    };
    let shown = |mut stderr: std::process::ChildStderr, words: &'static str| {
        thread::spawn(move || {
            let mut seen = Vec::new();
            let mut byte = [0];
            while !String::from_utf8_lossy(&seen).contains(words) {
                stderr.read_exact(&mut byte).unwrap();
                seen.push(byte[0]);
            }
            stderr
        })
    };
    let stderr = wait(shown(stderr, "Working on it.")).await;

    interrupt();
    let cancel = scene.hear().await;
    interrupt();
    // Nobody reads the last words, which changes nothing.
    drop(stderr);
    let ended = running.end().await;

    assert_eq!(cancel, json!({"type": "cancel", "topic_id": "t-0000000000000001"}));
    assert_eq!(ended.code, Some(130));
}

async fn wait<T: Send + 'static>(thread: thread::JoinHandle<T>) -> T {
    let joined = tokio::task::spawn_blocking(|| thread.join().unwrap());
    timeout(PATIENCE, joined).await.unwrap().unwrap()
}
