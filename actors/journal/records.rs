//! Records of journals: the events of sessions in pieces, and where a conversation begins.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::told::told;
use crate::{
    clock::Timestamp,
    history::HistoryEvent,
    store::{
        records::{Record, Writes},
        redact::{Owner, Texts},
    },
    task::{Lane, records::LaneKey},
};

/// Where journals hold words.
pub const TEXTS: &[Texts] = &[Texts {
    kind: Piece::KIND,
    owner: Owner::Key,
    fields: &["*/text", "*/content", "*/args", "*/message", "*/block", "*/data/summary"],
    names: &[],
}];

crate::records! {
    Piece<'_>: "hist", (LaneKey, u64);
    Began: "began", String;
}

/// Events of a session, whose numbers go on from one another. Its key has the number of the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Piece<'a>(pub Cow<'a, [HistoryEvent]>);

/// When the conversation of a lane was begun anew, by the name of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Began(pub Timestamp);

impl Writes {
    /// Adds events of a session, whose numbers go on from one another.
    pub fn events(self, lane: &Lane, generation: u32, events: &[HistoryEvent]) -> Self {
        self.events_behind(0, lane, generation, events)
    }

    /// The same; of the first so many whoever watches was told when they happened.
    pub(crate) fn events_behind(
        self,
        told_before: usize,
        lane: &Lane,
        generation: u32,
        events: &[HistoryEvent],
    ) -> Self {
        let Some(first) = events.first() else {
            return self;
        };
        let news = events.get(told_before..).unwrap_or_default();
        let told = told(lane, generation, self.task(), news);
        let key = (LaneKey::new(lane, generation), first.seq);
        self.put_at(&key, &Piece(events.into())).tell_all(told)
    }
}
