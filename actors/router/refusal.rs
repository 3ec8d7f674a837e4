//! Refusals: why a message finds no topic.

use serde::Serialize;
use serde_json::json;

use crate::{
    clock::Timestamp,
    frame::{ErrorBody, TopicState},
    ids::TopicId,
};

/// A topic that a refusal shows, so that the sender can choose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OpenTopic {
    pub(super) id: TopicId,
    pub(super) name: String,
    pub(super) state: TopicState,
    pub(super) last_activity: Timestamp,
}

/// Why a message finds no topic. The texts are for the sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// The given id does not look like one.
    #[error("`topic_id` must be the id of a topic: `t-` and 16 hex digits")]
    BadTopicId { open: Vec<OpenTopic> },
    /// The given id is of no topic of this channel.
    #[error("this channel has no topic with that `topic_id`")]
    UnknownTopic { open: Vec<OpenTopic> },
    /// The given topic is over.
    #[error("that topic is done; leave `topic_id` out to begin a new one")]
    TopicDone { open: Vec<OpenTopic> },
    /// One more topic would be active than may be.
    #[error(
        "At most {max_active} active topics. Active: {}. Close one with `/close <topic id>`.",
        Named(active)
    )]
    TooManyTopics { max_active: usize, active: Vec<OpenTopic> },
}

impl Refusal {
    /// The code of the error frame.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::BadTopicId { .. } => "bad_topic_id",
            Self::UnknownTopic { .. } => "unknown_topic",
            Self::TopicDone { .. } => "topic_done",
            Self::TooManyTopics { .. } => "too_many_topics",
        }
    }

    /// The topics to choose from instead.
    pub(super) fn topics(&self) -> &[OpenTopic] {
        match self {
            Self::BadTopicId { open } | Self::UnknownTopic { open } | Self::TopicDone { open } => {
                open
            }
            Self::TooManyTopics { active, .. } => active,
        }
    }
}

impl From<&Refusal> for ErrorBody {
    fn from(refusal: &Refusal) -> Self {
        Self {
            details: Some(json!({ "topics": refusal.topics() })),
            ..Self::refusal(refusal.code(), refusal.to_string())
        }
    }
}

/// Topics by name and id.
struct Named<'a>(&'a [OpenTopic]);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, OpenTopic { id, name, .. }) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} ({id})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Vec<OpenTopic> {
        [("t-1", "Billing"), ("t-2", "Garden")]
            .map(|(id, name)| OpenTopic {
                id: id.into(),
                name: name.into(),
                state: TopicState::Active,
                last_activity: Timestamp(5),
            })
            .into()
    }

    /// CH-137
    #[test]
    fn too_many_topics_names_the_active_ones() {
        let refusal = Refusal::TooManyTopics { max_active: 2, active: open() };

        assert_eq!(
            refusal.to_string(),
            "At most 2 active topics. Active: Billing (t-1), Garden (t-2). \
             Close one with `/close <topic id>`."
        );
    }

    /// CH-75, CH-137
    #[test]
    fn each_refusal_has_its_code_and_shows_the_topics() {
        let refusals = [
            Refusal::BadTopicId { open: open() },
            Refusal::UnknownTopic { open: open() },
            Refusal::TopicDone { open: open() },
            Refusal::TooManyTopics { max_active: 2, active: open() },
        ];

        let bodies = refusals.each_ref().map(ErrorBody::from);

        assert_eq!(
            bodies.each_ref().map(|body| body.code.as_str()),
            ["bad_topic_id", "unknown_topic", "topic_done", "too_many_topics"]
        );
        let details = json!({ "topics": [
            { "id": "t-1", "name": "Billing", "state": "active", "last_activity": 5 },
            { "id": "t-2", "name": "Garden", "state": "active", "last_activity": 5 },
        ] });
        assert!(bodies.iter().all(|body| body.details == Some(details.clone())));
    }
}
