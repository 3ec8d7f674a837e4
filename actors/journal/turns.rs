//! Ended turns of a session: the one place where they are read back.

use std::{collections::HashMap, ops::ControlFlow};

use super::sessions;
use crate::{
    history::{Fact, HistoryEvent, Meta, Origin, Trigger},
    ids::TurnId,
    storage::{Order, Storage, StorageError},
    task::records::LaneKey,
};

/// No more events than this are looked at, from the last.
const MOST_EVENTS: usize = 20_000;

/// Shows the ended turns of a session, the newest first, each with its events in order, until the visitor has
/// enough. What cannot be read is left out.
///
/// Turns that were set aside may overlap others: then the one that began last comes first.
pub(super) fn ended(
    storage: &dyn Storage,
    lane: &LaneKey,
    visit: &mut dyn FnMut(Vec<HistoryEvent>) -> ControlFlow<()>,
) -> Result<(), StorageError> {
    // Pieces of turns whose beginning was not met yet, the newest first.
    let mut open: HashMap<TurnId, Vec<Vec<HistoryEvent>>> = HashMap::new();
    let mut seen = 0;
    let all = (0, u64::MAX);
    sessions::journal(storage, lane, all, Order::Falling, &mut |piece| {
        seen += piece.len();
        // A piece is what one commit of one turn added.
        let Some(turn) = piece.first().map(|event| event.turn.clone()) else {
            return ControlFlow::Continue(());
        };
        let ends = piece.iter().any(|event| matches!(event.fact, Fact::TurnEnd { .. }));
        if ends || open.contains_key(&turn) {
            let pieces = open.entry(turn.clone()).or_default();
            pieces.push(piece);
            if pieces.last().is_some_and(|first| begins(first, pieces))
                && let Some(pieces) = open.remove(&turn)
            {
                visit(pieces.into_iter().rev().flatten().collect())?;
            }
        }
        if seen < MOST_EVENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
}

/// The words of its task stand only at the beginning of a turn; one that summarises has none.
fn begins(first: &[HistoryEvent], pieces: &[Vec<HistoryEvent>]) -> bool {
    let has_task = |event: &HistoryEvent| {
        matches!(event.fact, Fact::User { origin: Origin::Person | Origin::Task, .. })
    };
    let starts = |event: &HistoryEvent| matches!(event.fact, Fact::TurnStart { .. });
    let is_command = |event: &HistoryEvent| {
        matches!(&event.fact, Fact::Meta(Meta::Compaction(compaction))
            if compaction.trigger == Trigger::Command)
    };
    first.iter().any(has_task)
        || (first.iter().any(starts) && pieces.iter().flatten().any(is_command))
}
