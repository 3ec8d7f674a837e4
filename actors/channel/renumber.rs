//! Renumbering: after a restore, the frames of a channel get numbers that no client has seen.
//!
//! Since the backup was made, numbers behind its newest may have been given and seen. They are not given
//! again: each channel gets a frame that says so, with a number far above, and goes on from there.
//!
//! What waited for a chat network when the backup was made has most likely been posted since. It counts as posted: it stays
//! in the conversation on the page, and nobody gets a day's answers twice.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    outbox,
    records::{ChannelRow, DeliveryMark, OutboxRow},
};
use crate::{
    clock::Timestamp,
    frame::{Body, Frame, Gap, Progress, ProgressKind},
    ids::ChannelId,
    store::{keys::key_of, reads::parse, records::Record},
};

const RESTORED: &str = "The service was restored from a backup. What was said here since that backup was made is gone.";

/// The channels of a store that is being restored, with their newest numbers.
#[derive(Debug, Default)]
pub struct Renumbering {
    newest: BTreeMap<ChannelId, u64>,
    /// Those of chat networks.
    posted_to: BTreeSet<ChannelId>,
}

impl Renumbering {
    /// Takes note of a record by its key.
    pub fn saw(&mut self, key: &[u8]) {
        self.posted_to.extend(parse::<DeliveryMark>(key));
        let opened = parse::<ChannelRow>(key).map(|channel| (channel, 0));
        let Some((channel, ordinal)) = opened.or_else(|| parse::<OutboxRow>(key)) else { return };
        let newest = self.newest.entry(channel).or_default();
        *newest = ordinal.max(*newest);
    }

    /// The records to add, each with its key.
    ///
    /// The ordinal is the second of the restore. No channel has had as many frames as seconds have passed
    /// since 1970, so it is above all that were given, also if the same backup is restored again; and the
    /// number on the wire stays one that JavaScript knows exactly.
    pub fn records(
        self,
        at: Timestamp,
    ) -> impl Iterator<Item = serde_json::Result<(Vec<u8>, Vec<u8>)>> {
        let Self { newest, posted_to } = self;
        let marks = posted_to.into_iter().map(|channel| {
            let seq = newest.get(&channel).copied().map_or(0, outbox::seq);
            let mark = DeliveryMark { seq, ..DeliveryMark::default() };
            Ok((key_of(DeliveryMark::KIND, &channel), serde_json::to_vec(&mark)?))
        });
        let marks: Vec<_> = marks.collect();
        let notes = newest.into_iter().map(move |(channel, newest)| {
            let ordinal = (at.0 / 1_000).max(newest + 1);
            let mut note = Progress::new(ProgressKind::Note, RESTORED);
            note.gap = Some(Gap {
                from_seq: outbox::seq(newest + 1),
                to_seq: outbox::seq(ordinal),
                dropped: 0,
            });
            let frame = Frame { topic: None, ts: at, body: Body::Progress(note) };
            Ok((key_of(OutboxRow::KIND, &(channel, ordinal)), serde_json::to_vec(&frame)?))
        });
        marks.into_iter().chain(notes)
    }
}
