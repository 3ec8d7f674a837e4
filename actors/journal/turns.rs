//! Ended turns of a session: the one place where they are read back.

use std::{collections::HashMap, ops::ControlFlow};

use super::{records::Branch, sessions};
use crate::{
    history::{Fact, HistoryEvent, Meta, Origin, Trigger},
    ids::TurnId,
    storage::{Order, Storage, StorageError},
    store::reads::get,
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
    let (mut lane, mut before, mut seen) = (lane.clone(), u64::MAX, 0);
    while ended_in(storage, &lane, before, &mut seen, visit)?.is_continue() {
        // A branch begins with the turns of the session that it left.
        let Some(branch) = get::<Branch>(storage, &lane.session_id())? else { break };
        let Some(left) = branch.lane() else { break };
        (lane, before) = (left, branch.before);
    }
    Ok(())
}

/// The same for what one session itself holds before an event. Breaks if the visitor has enough.
fn ended_in(
    storage: &dyn Storage,
    lane: &LaneKey,
    before: u64,
    seen: &mut usize,
    visit: &mut dyn FnMut(Vec<HistoryEvent>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, StorageError> {
    // Pieces of turns whose beginning was not met yet, the newest first.
    let mut open: HashMap<TurnId, Vec<Vec<HistoryEvent>>> = HashMap::new();
    let mut is_enough = ControlFlow::Continue(());
    sessions::journal(storage, lane, (0, before), Order::Falling, &mut |piece| {
        *seen += piece.len();
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
                is_enough = visit(pieces.into_iter().rev().flatten().collect());
            }
        }
        if *seen >= MOST_EVENTS {
            is_enough = ControlFlow::Break(());
        }
        is_enough
    })?;
    Ok(is_enough)
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
