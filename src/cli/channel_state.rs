//! Channel state of a chat client: what it has, what it sent, how it goes on after a break.

use std::sync::Arc;

use hivewright_actors::{
    frame::Body,
    ids::{ChannelId, MessageId, TopicId},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::Failure;

/// A frame of the service.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Incoming {
    #[serde(flatten)]
    pub(super) body: Body,
    pub(super) topic_id: Option<TopicId>,
    pub(super) topic_name: Option<Arc<str>>,
    pub(super) channel_id: ChannelId,
    /// Rises within the channel.
    pub(super) seq: u64,
}

impl Incoming {
    /// The message that this frame shows to have arrived.
    fn confirms(&self) -> Option<&MessageId> {
        match &self.body {
            Body::Ack(ack) => Some(&ack.message_id),
            Body::Response(response) => Some(&response.message_id),
            Body::Error(error) => error.message_id.as_ref(),
            Body::Progress(progress) => progress.message_id.as_ref(),
            Body::Notification(_) | Body::TopicList { .. } => None,
        }
    }
}

/// Words for a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    /// Our own name for the message, so that it can be sent again without harm.
    pub(super) id: MessageId,
    pub(super) content: String,
    /// The topic, if it is not left to the service.
    pub(super) topic: Option<String>,
    /// Ids of the files that come with it.
    pub(super) files: Vec<String>,
}

impl Words {
    fn frame(&self) -> Value {
        let mut frame = json!({
            "type": "message",
            "content": self.content,
            "message_id": self.id,
        });
        if let Some(topic) = &self.topic {
            frame["topic_id"] = json!(topic);
        }
        if !self.files.is_empty() {
            frame["files"] = json!(self.files);
        }
        frame
    }
}

/// A name for a message that nobody else gives.
pub(super) fn message_id() -> Result<MessageId, Failure> {
    let bits = getrandom::u64()
        .map_err(|error| Failure::system("the system gives no random numbers", error))?;
    Ok(format!("cli-{bits:016x}").into())
}

/// What follows from a frame.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// It is news.
    pub(super) fresh: bool,
    /// The earlier channel goes on.
    pub(super) back: bool,
    /// The earlier channel is gone, and a new one has begun.
    pub(super) renewed: bool,
    /// What to send now.
    pub(super) send: Vec<Value>,
}

/// The client's side of one channel, over all its connections.
#[derive(Debug, Default)]
pub(super) struct ChannelState {
    channel: Option<ChannelId>,
    last_seq: u64,
    /// The earlier channel was asked for and has not sent all that it kept for us.
    resuming: bool,
    /// It has sent something, so we know that it goes on.
    is_back: bool,
    /// Everything that is kept was asked for, since our number was refused.
    from_start: bool,
    /// The channel is one from before this process: what it kept is in the history, not news.
    is_earlier: bool,
    /// Said, and not known to have arrived.
    unconfirmed: Vec<Words>,
}

impl ChannelState {
    /// Goes on with a channel of which everything up to a number is known.
    pub(super) fn earlier(channel: ChannelId, seq: u64) -> Self {
        Self { channel: Some(channel), last_seq: seq, is_earlier: true, ..Self::default() }
    }

    pub(super) fn channel(&self) -> Option<&ChannelId> {
        self.channel.as_ref()
    }

    /// A connection is open. Returns what to send first.
    pub(super) fn opened(&mut self, fresh: Option<ChannelId>) -> Vec<Value> {
        self.from_start = false;
        match &self.channel {
            None => {
                self.channel = fresh;
                self.resuming = false;
                self.say_again()
            }
            Some(channel) => {
                self.resuming = true;
                self.is_back = false;
                ask_back(channel, self.last_seq)
            }
        }
    }

    /// Words are to be said. They are kept until they are known to have arrived.
    pub(super) fn say(&mut self, words: Words) -> Option<Value> {
        let frame = (!self.resuming).then(|| words.frame());
        self.unconfirmed.push(words);
        frame
    }

    pub(super) fn take(&mut self, frame: &Incoming) -> Taken {
        if self.resuming {
            if let Some(taken) = self.take_refusal(frame) {
                return taken;
            }
            if self.channel.as_ref() != Some(&frame.channel_id) {
                // An answer of the unused fresh channel, given before the earlier one was found.
                return Taken::default();
            }
        } else if self.channel.as_ref() != Some(&frame.channel_id) {
            self.channel = Some(frame.channel_id.clone());
            self.last_seq = 0;
        }
        let known = frame.body.is_durable() && frame.seq <= self.last_seq;
        self.last_seq = self.last_seq.max(frame.seq);
        if let Some(id) = frame.confirms() {
            self.unconfirmed.retain(|words| words.id != *id);
        }
        let mut taken = Taken {
            fresh: !known && !self.is_earlier,
            // What it kept for us comes first, and may be all that anyone waits for.
            back: self.resuming && !self.is_back && !self.is_earlier,
            ..Taken::default()
        };
        self.is_back = true;
        // The list of topics comes after all that was kept for us, so what is unconfirmed by now
        // was never received.
        if self.resuming && matches!(frame.body, Body::TopicList { .. }) {
            self.resuming = false;
            self.is_earlier = false;
            taken.send = self.say_again();
        }
        taken
    }

    fn take_refusal(&mut self, frame: &Incoming) -> Option<Taken> {
        let Body::Error(error) = &frame.body else {
            return None;
        };
        match (error.code.as_str(), &self.channel) {
            ("bad_resume", Some(channel)) if !self.from_start => {
                // After a crash our number may be of no use to the service. Everything that is
                // kept is asked for, and what we have already changes nothing.
                self.from_start = true;
                Some(Taken { send: ask_back(channel, 0), ..Taken::default() })
            }
            (
                "bad_resume" | "cannot_resume" | "resume_too_late" | "not_authorized"
                | "rate_limited",
                _,
            ) => {
                self.channel = Some(frame.channel_id.clone());
                self.last_seq = frame.seq;
                self.resuming = false;
                self.is_earlier = false;
                Some(Taken { renewed: true, send: self.say_again(), ..Taken::default() })
            }
            _ => None,
        }
    }

    fn say_again(&self) -> Vec<Value> {
        self.unconfirmed.iter().map(Words::frame).collect()
    }
}

/// Asks for an earlier channel, and for something that it answers in any case.
fn ask_back(channel: &ChannelId, last_seq: u64) -> Vec<Value> {
    vec![
        json!({"type": "resume", "channel_id": channel, "last_seq": last_seq}),
        json!({"type": "topic_list_request"}),
    ]
}

pub(super) fn cancel(topic: &TopicId) -> Value {
    json!({"type": "cancel", "topic_id": topic})
}

#[cfg(test)]
mod tests {

    use super::*;

    fn frame(channel: &str, seq: u64, fields: Value) -> Incoming {
        let mut frame = json!({
            "topic_id": "t-1", "topic_name": "one", "channel_id": channel, "seq": seq, "ts": 0,
        });
        let all = frame.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(frame).unwrap()
    }

    fn ack(seq: u64, id: &str) -> Incoming {
        let fields = json!({"type": "ack", "content": "Working on it.", "message_id": id, "generated": false, "position": 0});
        frame("ws:1", seq, fields)
    }

    fn words(id: &str) -> Words {
        Words { id: id.into(), content: "hello".into(), topic: None, files: Vec::new() }
    }

    fn said(id: &str) -> Value {
        json!({"type": "message", "content": "hello", "message_id": id})
    }

    fn asked_back(last_seq: u64) -> Vec<Value> {
        ask_back(&"ws:1".into(), last_seq)
    }

    fn refusal(code: &str) -> Incoming {
        frame("ws:2", 1, json!({"type": "error", "error": "no", "code": code}))
    }

    const FRESH: Taken = Taken { fresh: true, back: false, renewed: false, send: Vec::new() };

    /// A line whose message `a` was confirmed, whose message `b` was not, and that has broken.
    fn broken() -> ChannelState {
        let mut line = ChannelState::default();
        assert_eq!(line.opened(Some("ws:1".into())), [] as [Value; 0]);
        assert_eq!(line.say(words("a")), Some(said("a")));
        assert_eq!(line.say(words("b")), Some(said("b")));
        assert_eq!(line.take(&ack(7, "a")), FRESH);
        line
    }

    /// CH-46, CH-48, CH-89
    #[test]
    fn after_a_break_only_what_never_arrived_is_said_again() {
        let mut line = broken();
        let topics = frame("ws:1", 8, json!({"type": "topic_list", "topics": []}));
        let foreign = frame("ws:2", 1, json!({"type": "topic_list", "topics": []}));

        assert_eq!(line.opened(Some("ws:2".into())), asked_back(7));
        assert_eq!(line.say(words("c")), None);
        assert_eq!(line.take(&foreign), Taken::default());
        let kept = line.take(&ack(7, "a"));
        let arrived = line.take(&topics);

        let back = Taken { back: true, ..Taken::default() };
        assert_eq!(kept, back);
        let expected = Taken { fresh: true, send: vec![said("b"), said("c")], ..Taken::default() };
        assert_eq!(arrived, expected);
    }

    /// OP-78: whoever waits for an answer hears of the connection before the answer that was kept.
    #[test]
    fn the_line_is_back_with_the_first_frame_of_its_channel() {
        let mut line = broken();
        let answer = frame(
            "ws:1",
            8,
            json!({"type": "response", "content": "hi", "message_id": "b", "status": "done"}),
        );
        let topics = frame("ws:1", 9, json!({"type": "topic_list", "topics": []}));

        line.opened(Some("ws:2".into()));
        let first = line.take(&answer);
        let second = line.take(&topics);
        line.opened(Some("ws:3".into()));
        let again = line.take(&topics);

        assert!(first.fresh && first.back);
        assert_eq!(second, FRESH);
        assert!(again.back);
    }

    /// CH-88: a conversation from before goes on, and what was said in it is not told again.
    #[test]
    fn an_earlier_channel_goes_on_in_silence() {
        let mut line = ChannelState::earlier("ws:1".into(), 5);
        let topics = frame("ws:1", 8, json!({"type": "topic_list", "topics": []}));

        let first = line.opened(Some("ws:2".into()));
        let unsaid = line.say(words("b"));
        let kept = line.take(&ack(7, "a"));
        let ready = line.take(&topics);
        let news = line.take(&ack(9, "b"));

        assert_eq!((first, unsaid), (asked_back(5), None));
        assert_eq!(kept, Taken::default());
        assert_eq!(ready, Taken { send: vec![said("b")], ..Taken::default() });
        assert_eq!(news, FRESH);
    }

    /// CH-90
    #[test]
    fn a_number_that_is_refused_is_answered_by_asking_for_everything() {
        let mut line = broken();
        line.opened(Some("ws:2".into()));

        let first = line.take(&refusal("bad_resume"));
        let second = line.take(&refusal("bad_resume"));

        assert_eq!(first.send, asked_back(0));
        assert!(second.renewed);
    }

    /// CH-88
    #[test]
    fn a_channel_that_is_gone_gives_way_to_the_fresh_one() {
        let mut line = broken();
        line.opened(Some("ws:2".into()));

        let taken = line.take(&refusal("cannot_resume"));

        let expected = Taken { renewed: true, send: vec![said("b")], ..Taken::default() };
        assert_eq!(taken, expected);
        assert_eq!(line.opened(Some("ws:3".into())), ask_back(&"ws:2".into(), 1));
    }
}
