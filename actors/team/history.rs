//! History of a lane: where its steps are, and what of its conversation can be summarised.

use std::time::Duration;

use super::turn::{
    conversation::{KEPT, tokens},
    digest,
};
use crate::{
    clock::Timestamp,
    engine::Message,
    history::{HistoryEvent, Trigger},
    journal::thread::Thread,
    task::Label,
};

/// A conversation is summarised at most once in this time.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);

/// Index of a turn's steps: where in the journal each begins.
#[derive(Debug, Default)]
pub(super) struct StepIndex(Vec<(u32, u64)>);

impl StepIndex {
    /// The steps that a journal holds.
    pub(super) fn of(journal: &[HistoryEvent]) -> Self {
        let mut index = Self::default();
        journal.iter().for_each(|event| index.note(event));
        index
    }

    pub(super) fn note(&mut self, event: &HistoryEvent) {
        if let Some(step) = event.fact.step()
            && self.0.last().is_none_or(|(last, _)| *last < step)
        {
            self.0.push((step, event.seq));
        }
    }

    /// Where all is kept from a step on.
    pub(super) fn place_of(&self, step: u32) -> Option<u64> {
        self.0.iter().find(|(kept, _)| *kept >= step).map(|(_, seq)| *seq)
    }
}

/// A part of a conversation that is to be summarised.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Past {
    /// What the model is asked.
    pub(super) request: String,
    /// The first event that stays as it is.
    pub(super) keep_from_seq: u64,
    /// How many tokens all of it has.
    pub(super) tokens: u64,
    /// How many of them stay.
    pub(super) kept: u64,
    pub(super) label: Label,
}

/// What there is to summarise in a conversation, in a request of at most so many bytes; else why not, for a person.
/// Only that of a topic is.
pub(super) fn past(thread: Option<&Thread>, now: Timestamp, most: usize) -> Result<Past, String> {
    let Some(thread) = thread else {
        return Err(
            "There is nothing to compact: this team does not work in topics, so that each of its turns is \
             shown only what its own message led to."
                .to_owned(),
        );
    };
    if let Some(start) = thread.start().filter(|start| start.trigger == Trigger::Command)
        && now.since(start.at) < SUMMARY_INTERVAL
    {
        let rest = (SUMMARY_INTERVAL - now.since(start.at)).as_secs_f64().ceil();
        return Err(format!(
            "This conversation was compacted less than a minute ago; try again in {rest} s."
        ));
    }
    let earlier = thread.before(u64::MAX);
    let Some(keep_from_seq) = earlier.cut_behind(KEPT) else {
        return Err(format!(
            "There is nothing to compact: the last {KEPT} messages stay as they are."
        ));
    };
    let old = earlier.before(keep_from_seq);
    let gone: usize = old.iter().map(Message::characters).sum();
    Ok(Past {
        request: digest::request(None, &old, most),
        keep_from_seq,
        tokens: tokens(earlier.characters()),
        kept: tokens(earlier.characters() - gone),
        label: thread.reader.label,
    })
}
