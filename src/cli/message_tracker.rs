//! Tracker of one message: everything that is said about it, until it has ended.

use std::collections::BTreeSet;

use hivewright_actors::{
    frame::{Body, ErrorBody, Progress, ProgressKind, Response},
    ids::{MessageId, TaskId, TopicId},
};

use super::channel_state::Incoming;

/// What a frame says about the message.
#[derive(Debug, PartialEq)]
pub(super) enum Heard<'a> {
    /// It is safe with the service, which says this, not in the words of a model.
    Accepted(&'a str),
    /// A sign of life.
    Progress(&'a Progress),
    /// It ended well in a topic.
    Answer(&'a Response),
    /// It was refused, or ended badly in a topic.
    Error(&'a ErrorBody),
    /// It ended, and how is no longer known here.
    Forgotten(&'a str),
}

/// A message that was sent.
#[derive(Debug)]
pub(super) struct MessageTracker {
    id: MessageId,
    accepted: bool,
    forgotten: bool,
    /// What it became, as far as that is known.
    task: Option<TaskId>,
    /// The topics in which something was heard of it.
    topics: BTreeSet<TopicId>,
    /// Those in which it has ended; no topic is that of a refusal.
    ended: BTreeSet<Option<TopicId>>,
}

impl MessageTracker {
    pub(super) fn new(id: MessageId) -> Self {
        let (topics, ended) = (BTreeSet::new(), BTreeSet::new());
        Self { id, accepted: false, forgotten: false, task: None, topics, ended }
    }

    /// A message that the service has already.
    pub(super) fn accepted(id: MessageId, task: Option<TaskId>) -> Self {
        Self { accepted: true, task, ..Self::new(id) }
    }

    /// It is in this topic.
    pub(super) fn within(mut self, topic: &TopicId) -> Self {
        self.topics.insert(topic.clone());
        self
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    pub(super) fn task(&self) -> Option<&TaskId> {
        self.task.as_ref()
    }

    /// It has ended wherever something was heard of it.
    pub(super) fn is_over(&self) -> bool {
        let ended = |topic: &TopicId| self.ended.contains(&Some(topic.clone()));
        self.forgotten || (!self.ended.is_empty() && self.topics.iter().all(ended))
    }

    /// The topics in which it has not ended.
    pub(super) fn open_topics(&self) -> impl Iterator<Item = &TopicId> {
        let open = |topic: &&TopicId| !self.ended.contains(&Some((*topic).clone()));
        self.topics.iter().filter(open)
    }

    /// What a frame says about the message; none if it is about something else.
    pub(super) fn take<'a>(&mut self, frame: &'a Incoming) -> Option<Heard<'a>> {
        let heard = match &frame.body {
            Body::Ack(ack) if ack.message_id == self.id => {
                self.task = ack.task_id.clone().or(self.task.take());
                let over = |status: &&str| !matches!(*status, "queued" | "running");
                if let Some(status) = ack.status.as_deref().filter(over) {
                    // Its end was sent once and is not kept any more, or it would have come first.
                    self.forgotten = true;
                    Heard::Forgotten(status)
                } else {
                    self.accepted = true;
                    let words = if ack.generated { "" } else { &ack.content };
                    Heard::Accepted(words)
                }
            }
            // It is told to other connections of the channel, and again after a break.
            Body::Progress(progress) if progress.kind == ProgressKind::UserMessage => return None,
            Body::Progress(progress) if progress.message_id.as_ref() == Some(&self.id) => {
                Heard::Progress(progress)
            }
            Body::Response(response) if response.message_id == self.id => Heard::Answer(response),
            Body::Error(error) if self.concerns(error) => Heard::Error(error),
            _ => return None,
        };
        self.topics.extend(frame.topic_id.clone());
        if matches!(heard, Heard::Answer(_) | Heard::Error(_)) {
            self.ended.insert(frame.topic_id.clone());
        }
        Some(heard)
    }

    fn concerns(&self, error: &ErrorBody) -> bool {
        match &error.message_id {
            Some(id) => *id == self.id,
            // Refused before it was understood. What is accepted is named when it ends.
            None => !self.accepted && error.task_id.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    use super::*;

    fn exchange() -> MessageTracker {
        MessageTracker::new("m".into())
    }

    fn frame(topic: Option<&str>, fields: Value) -> Incoming {
        let mut frame = json!({"topic_id": topic, "topic_name": topic, "channel_id": "ws:1", "seq": 1, "ts": 0});
        let all = frame.as_object_mut().unwrap();
        all.extend(fields.as_object().unwrap().clone());
        serde_json::from_value(frame).unwrap()
    }

    fn ack(topic: Option<&str>) -> Incoming {
        let fields = json!({"type": "ack", "content": "Working on it.", "message_id": "m", "generated": false, "position": 0});
        frame(topic, fields)
    }

    fn response(topic: &str, id: &str) -> Incoming {
        let fields =
            json!({"type": "response", "content": "hi", "message_id": id, "status": "done"});
        frame(Some(topic), fields)
    }

    /// CH-59
    #[test]
    fn a_message_is_over_when_it_has_ended_in_each_of_its_topics() {
        let mut exchange = exchange();
        let mut over = vec![exchange.is_over()];

        for frame in [
            ack(Some("t-1")),
            ack(Some("t-2")),
            response("t-1", "m"),
            response("t-2", "other"),
            response("t-2", "m"),
        ] {
            exchange.take(&frame);
            over.push(exchange.is_over());
        }

        assert_eq!(over, [false, false, false, false, false, true]);
    }

    #[test]
    fn an_error_without_a_name_ends_only_what_was_not_accepted() {
        let error = frame(None, json!({"type": "error", "error": "no", "code": "rate_limited"}));
        let (mut refused, mut accepted) = (exchange(), exchange());

        accepted.take(&ack(None));

        assert!(matches!(refused.take(&error), Some(Heard::Error(_))));
        assert!(refused.is_over());
        assert_eq!(accepted.take(&error), None);
        assert!(!accepted.is_over());
    }

    /// CH-47
    #[test]
    fn a_message_that_ended_unheard_is_over() {
        let mut exchange = exchange();
        let known = |status: &str| {
            let fields = json!({
                "type": "ack", "content": "", "message_id": "m", "generated": false, "position": 0,
                "duplicate": true, "status": status,
            });
            frame(Some("t-1"), fields)
        };

        assert_eq!(exchange.take(&known("running")), Some(Heard::Accepted("")));
        assert!(!exchange.is_over());
        let ended = known("done");
        assert_eq!(exchange.take(&ended), Some(Heard::Forgotten("done")));
        assert!(exchange.is_over());
    }
}
