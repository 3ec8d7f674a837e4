//! A client that keeps what it heard, and holds the server to rising numbers.

use std::{cell::Cell, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    channel::socket::{Item, Socket},
    ids::ChannelId,
    router::{Close, Inbound, Receive, Resume},
    spine::Spine,
};

/// Nothing takes longer than this on paused time.
const TEST_TIMEOUT: Duration = Duration::from_secs(48 * 60 * 60);

pub(crate) struct Client {
    pub(crate) spine: Spine,
    pub(crate) channel: ChannelId,
    pub(crate) socket: Arc<Socket>,
    pub(crate) last_seq: Cell<u64>,
}

impl Client {
    pub(crate) fn say(&self, id: &str, content: &str) {
        self.message(id, content, None);
    }

    pub(crate) fn say_in(&self, topic: &str, id: &str, content: &str) {
        self.message(id, content, Some(topic.to_owned()));
    }

    fn message(&self, id: &str, content: &str, topic: Option<String>) {
        self.send(Inbound::Message {
            content: content.to_owned(),
            topic,
            id: Some(id.into()),
            notify: None,
            files: Vec::new(),
        });
    }

    pub(crate) fn cancel(&self, topic: &str, queued: bool) {
        self.send(Inbound::Cancel { topic: topic.into(), queued });
    }

    pub(crate) fn send(&self, inbound: Inbound) {
        let channel = self.channel.clone();
        self.spine.router.do_send(Receive {
            channel,
            connection: self.socket.connection(),
            inbound,
        });
    }

    pub(crate) fn resume(&self, channel: &ChannelId, last_seq: u64) {
        self.ask_to_resume(Some(channel), false, last_seq);
    }

    /// Joins the channel that the connections of its owner share.
    pub(crate) fn go_home(&self, former: Option<&ChannelId>, last_seq: u64) {
        self.ask_to_resume(former, true, last_seq);
    }

    fn ask_to_resume(&self, channel: Option<&ChannelId>, home: bool, last_seq: u64) {
        self.spine.router.do_send(Resume {
            fresh: self.channel.clone(),
            channel: channel.cloned(),
            home,
            last_seq,
            socket: self.socket.clone(),
        });
    }

    pub(crate) fn close(&self) {
        self.spine
            .router
            .do_send(Close { channel: self.channel.clone(), connection: self.socket.connection() });
    }

    pub(crate) async fn item(&self) -> Item {
        let next = tokio::time::timeout(TEST_TIMEOUT, self.socket.next()).await;
        next.expect("nothing more comes")
    }

    pub(crate) async fn frame(&self) -> Value {
        let item = self.item().await;
        self.read(item)
    }

    fn read(&self, item: Item) -> Value {
        let Item::Frame(outbound) = item else {
            panic!("expected a frame, got {item:?}");
        };
        let frame: Value = serde_json::from_str(&outbound.text).unwrap();
        let seq = frame["seq"].as_u64().unwrap();
        assert!(seq > self.last_seq.get(), "seq must rise: {frame}");
        self.last_seq.set(seq);
        frame
    }

    /// The next frame in short.
    pub(crate) async fn hear(&self) -> String {
        short(&self.frame().await)
    }

    /// All frames in short, up to and with the end of a message.
    pub(crate) async fn hear_end_of(&self, message: &str) -> Vec<String> {
        let mut heard = Vec::new();
        loop {
            let frame = self.frame().await;
            heard.push(short(&frame));
            let ends = matches!(frame["type"].as_str(), Some("response" | "error"));
            if ends && frame["message_id"] == message {
                return heard;
            }
        }
    }

    /// What an item is, in short.
    pub(crate) fn note(&self, item: Item) -> String {
        match item {
            Item::Frame(_) => short(&self.read(item)),
            other => format!("{other:?}"),
        }
    }

    /// Waits for the result of a call.
    pub(crate) async fn hears_result(&self, call: &str) {
        loop {
            let frame = self.frame().await;
            if frame["kind"] == "tool_result" && frame["call_id"] == call {
                return;
            }
        }
    }

    /// The ack of a message, for the topic in it.
    pub(crate) async fn topic_of(&self, message: &str) -> String {
        loop {
            let frame = self.frame().await;
            if frame["message_id"] == message && frame["topic_id"].is_string() {
                return frame["topic_id"].as_str().unwrap().to_owned();
            }
        }
    }

    /// Nothing comes within a time.
    pub(crate) async fn hears_nothing_for(&self, time: Duration) {
        if let Ok(item) = tokio::time::timeout(time, self.socket.next()).await {
            panic!("expected silence, got {item:?}");
        }
    }
}

/// A frame in a few words.
pub(crate) fn short(frame: &Value) -> String {
    let text = |key: &str| frame[key].as_str().unwrap_or("-").to_owned();
    let id = text("message_id");
    match frame["type"].as_str().unwrap() {
        "ack" => {
            let duplicate = match frame["status"].as_str() {
                Some(status) => format!(" known {status}"),
                None => String::new(),
            };
            format!("ack {id}{duplicate}: {}", text("content"))
        }
        "progress" => match text("kind").as_str() {
            "text_delta" => format!("delta {id}: {}", text("content")),
            kind @ ("note" | "user_message") => format!("{kind} {id}: {}", text("content")),
            kind => format!("{kind} {id}: {}", text("call_id")),
        },
        "response" => format!("{} {id}: {}", text("status"), text("content")),
        "error" => format!("error {id}: {}", text("code")),
        "notification" => format!("told {}: {}", text("kind"), text("content")),
        other => other.to_owned(),
    }
}
