//! Conversation log: what belongs to a topic, in the order in which it was said.
//!
//! An entry is short. The words of a message and what came of them are with its task and in the journal; what a team
//! told on its own is nowhere else for as long: an outbox keeps a frame for a day.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    frame::{Body, Frame, Notification, NotificationKind},
    ids::{ChannelId, TaskId},
    search::{Entry, Part, Passage},
    store::{
        keys::key_of,
        reads::parse,
        records::{Record, decode},
        redact::{Owner, Texts},
    },
    task::Task,
};

pub const TEXTS: &[Texts] = &[Texts::of(ConversationEntry::KIND, Owner::Main, &["content"])];

crate::records! {
    ConversationEntry: "conv", EntryKey;
}

/// Where an entry stands: in a topic, or in a channel if it belongs to none; then the moment; then what tells entries of
/// one moment apart, which of a message is its task.
pub type EntryKey = (String, Timestamp, String);

/// One thing that was said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ConversationEntry {
    /// A message of a person, by the moment at which it was accepted.
    Message,
    /// What a team told on its own.
    Notification(Notification),
}

impl ConversationEntry {
    /// Where the message stands that became a task; none if it was none, or belongs to no topic.
    pub fn key_of(task: &Task) -> Option<EntryKey> {
        let source = task.source.as_ref().filter(|source| source.message.is_some())?;
        let topic = source.topic.as_ref()?;
        Some((topic.id.to_string(), task.created_at, task.id.to_string()))
    }

    /// The same, as it is stored.
    pub fn stored_key(task: &Task) -> Option<Vec<u8>> {
        Self::key_of(task).map(|key| key_of(Self::KIND, &key))
    }

    /// What a frame adds to a conversation by itself. Messages are added when they are accepted.
    pub fn of_frame(channel: &ChannelId, frame: &Frame) -> Option<(EntryKey, Self)> {
        let Body::Notification(told) = &frame.body else { return None };
        let place = frame.topic.as_ref().map_or(channel.as_str(), |topic| topic.id.as_str());
        let Notification { content, team, task_id, status, kind, ref_id, .. } = told;
        let task = task_id.as_ref().map_or("", TaskId::as_str);
        let about = ref_id.as_deref().unwrap_or_default();
        // A run that failed and the switch that fell with it are told at once, and differ in nothing but their words.
        let name = format!("{team}:{task}:{kind}:{status}:{about}:{}", content.len());
        Some(((place.to_owned(), frame.ts, name), Self::Notification(told.clone())))
    }
}

/// What a search finds an entry by: what a team told on its own. The end of a task is told in the words of that task.
pub fn index(key: &[u8], value: &[u8]) -> Option<Entry> {
    let (_, at, _) = parse::<ConversationEntry>(key)?;
    let told = match decode(key, value).ok()? {
        ConversationEntry::Notification(told) if told.kind != NotificationKind::Task => told,
        ConversationEntry::Notification(_) | ConversationEntry::Message => return None,
    };
    let Notification { content, team, task_id, .. } = told;
    let passages = vec![Passage::new(Part::Notification, content)];
    Entry { team, at, task: task_id, session: None, passages }.bounded()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Progress, ProgressKind},
        ids::MessageId,
        task::{Lane, Source, TopicRef},
    };

    fn topic() -> TopicRef {
        TopicRef { id: "t-1".into(), name: "billing".to_owned() }
    }

    fn message(message: Option<MessageId>, topic: Option<TopicRef>) -> Task {
        let lane = Lane { team: "main".into(), topic: topic.as_ref().map(|of| of.id.clone()) };
        let source = Source { channel: "ws:1".into(), message, topic, notify: None };
        Task {
            source: Some(source),
            ..Task::new("task-1".into(), lane, "hello".to_owned(), "ann".to_owned(), Timestamp(5))
        }
    }

    /// CH-160
    #[test]
    fn a_message_stands_in_its_topic_at_the_moment_it_was_accepted() {
        let said = message(Some("m-1".into()), Some(topic()));

        let key = ConversationEntry::key_of(&said);

        assert_eq!(key, Some(("t-1".to_owned(), Timestamp(5), "task-1".to_owned())));
        assert_eq!(ConversationEntry::key_of(&message(None, Some(topic()))), None);
        assert_eq!(ConversationEntry::key_of(&message(Some("m-1".into()), None)), None);
    }

    /// CH-152, CH-160
    #[test]
    fn what_a_team_tells_stands_in_its_topic_or_in_the_channel() {
        let told = Notification::new(NotificationKind::Task, "ops".into(), "so".to_owned(), "");
        let frame = |topic, body| Frame { topic, ts: Timestamp(7), body };
        let place = |topic| {
            let frame = frame(topic, Body::Notification(told.clone()));
            ConversationEntry::of_frame(&"ws:1".into(), &frame).map(|((place, ..), _)| place)
        };

        let progress = Body::Progress(Progress::new(ProgressKind::Note, "no"));

        assert_eq!(place(Some(topic())).as_deref(), Some("t-1"));
        assert_eq!(place(None).as_deref(), Some("ws:1"));
        assert_eq!(ConversationEntry::of_frame(&"ws:1".into(), &frame(None, progress)), None);
    }

    #[test]
    fn what_a_team_told_on_its_own_is_searched() {
        let indexed = |kind| {
            let told = Notification::new(kind, "ops".into(), "[ops] look".to_owned(), "");
            let frame = Frame { topic: None, ts: Timestamp(7), body: Body::Notification(told) };
            let (key, entry) = ConversationEntry::of_frame(&"ws:1".into(), &frame).unwrap();
            let key = key_of(ConversationEntry::KIND, &key);
            index(&key, serde_json::to_string(&entry).unwrap().as_bytes())
        };

        let entry = indexed(NotificationKind::Escalation).unwrap();

        assert_eq!((entry.team, entry.at), ("ops".into(), Timestamp(7)));
        assert_eq!(entry.passages, [Passage::new(Part::Notification, "[ops] look")]);
        assert_eq!(indexed(NotificationKind::Task), None);
        assert_eq!(
            index(&key_of("conv", &("t-1", Timestamp(7), "task-1")), br#"{"type":"message"}"#),
            None
        );
    }

    /// CH-160: what is told in one moment stands there side by side.
    #[test]
    fn what_is_told_at_once_is_kept_apart() {
        let key = |team: &str, text: &str| {
            let told =
                Notification::new(NotificationKind::Trigger, team.into(), text.to_owned(), "");
            let frame = Frame { topic: None, ts: Timestamp(7), body: Body::Notification(told) };
            ConversationEntry::of_frame(&"ws:1".into(), &frame).map(|(key, _)| key)
        };

        let failed = key("ops", "[ops] The run failed.");

        assert_ne!(failed, key("news", "[ops] The run failed."));
        assert_ne!(failed, key("ops", "[ops] trigger `nightly` was disabled."));
        assert_eq!(failed, key("ops", "[ops] The run failed."));
    }
}
