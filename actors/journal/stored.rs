//! Stored session: all records that belong to it, for when it is removed.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
};

use super::records::{Began, Branch, Piece};
use crate::{
    history::Fact,
    ids::TaskId,
    inbox,
    storage::{Order, Storage, StorageError},
    store::{keys::key_of, reads::Range, records::Record as _},
    task::records::LaneKey,
    tool::records::answers,
};

/// What is stored of a session.
pub(crate) struct StoredSession {
    /// The stored keys: answers to calls before the events that name their turns, which are found again by these.
    pub(crate) keys: Vec<Vec<u8>>,
    /// The tasks that its turns were for.
    pub(crate) tasks: HashSet<TaskId>,
}

impl StoredSession {
    /// That of a lane. Blocks.
    pub(crate) fn read(storage: &dyn Storage, lane: &LaneKey) -> Result<Self, StorageError> {
        let (mut turns, mut events, mut tasks) = (BTreeSet::new(), Vec::new(), HashSet::new());
        let pieces = Range::<Piece<'_>>::under(&(lane,));
        pieces.walk(storage, Order::Rising, &mut |key, piece| {
            for event in piece.iter().flat_map(|Piece(events)| events.iter()) {
                match &event.fact {
                    Fact::ToolCall { .. } => {
                        turns.insert(event.turn.clone());
                    }
                    Fact::TurnStart { task_ids, .. } => tasks.extend(task_ids.iter().cloned()),
                    _ => {}
                }
            }
            events.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        let mut keys = inbox::keys_of_lane(storage, lane)?;
        for turn in &turns {
            keys.extend(answers(storage, turn)?);
        }
        keys.append(&mut events);
        let session = lane.session_id();
        keys.extend([Began::KIND, Branch::KIND].map(|kind| key_of(kind, &session)));
        Ok(Self { keys, tasks })
    }
}
