//! Pages of a transcript, read from the store with bounded memory.

use std::ops::ControlFlow;

use hivewright_actors::{
    history::{Fact, HistoryEvent, Origin},
    journal::sessions,
    storage::{Order, Storage, StorageError},
    task::Lane,
};

use super::{
    Message,
    merge::{self, Merge},
};

/// No page is made of more events than this.
const MOST_EVENTS: usize = 5_000;

/// How much of each message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What was said.
    Simple,
    /// All.
    Full,
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As it happened.
    Ordered,
    /// One message of the model per turn.
    Grouped,
}

/// Which part of a transcript is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// How much of each message.
    pub view: View,
    /// In which order.
    pub layout: Layout,
    /// Only what comes after this event.
    pub after: Option<u64>,
    /// Only what comes before this event.
    pub before: Option<u64>,
    /// So many messages.
    pub limit: usize,
}

/// A part of a transcript.
#[derive(Debug)]
pub struct Page {
    /// Oldest first.
    pub messages: Vec<Message>,
    /// What comes next comes after this event.
    pub next_after: u64,
    /// What comes before comes before this event; none at the beginning.
    pub prev_before: Option<u64>,
}

/// Reads a page. Blocks.
pub fn read(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    wish: &Wish,
) -> Result<Page, StorageError> {
    match wish.after {
        Some(after) => forward(storage, lane, generation, after, wish),
        None => backward(storage, lane, generation, wish),
    }
}

fn forward(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    after: u64,
    wish: &Wish,
) -> Result<Page, StorageError> {
    let before = wish.before.unwrap_or(u64::MAX);
    let mut merge = Merge::default();
    let mut messages: Vec<Message> = Vec::new();
    let (mut seen, mut count, mut is_full) = (after, 0, false);
    let range = (after, before);
    sessions::journal(storage, lane, generation, range, Order::Rising, &mut |events| {
        count += events.len();
        for event in events {
            seen = event.seq;
            merge.push(event);
        }
        messages.extend(view(merge.take(), wish.view));
        is_full = messages.len() >= wish.limit || count >= MOST_EVENTS;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if !is_full || messages.is_empty() {
        messages.extend(view(merge.finish(), wish.view));
    }
    let cut = is_full || messages.len() > wish.limit;
    messages.truncate(wish.limit);
    let next_after = match messages.last() {
        Some(last) if cut => last.seq,
        _ => seen,
    };
    Ok(Page {
        prev_before: (after > 0).then_some(after + 1),
        messages: lay_out(messages, wish.layout),
        next_after,
    })
}

fn backward(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    wish: &Wish,
) -> Result<Page, StorageError> {
    let before = wish.before.unwrap_or(u64::MAX);
    let mut pieces: Vec<Vec<HistoryEvent>> = Vec::new();
    let (mut count, mut said, mut broke_off) = (0, 0, false);
    let range = (0, before);
    sessions::journal(storage, lane, generation, range, Order::Falling, &mut |events| {
        count += events.len();
        said += events.iter().filter(|event| counts(event, wish.view)).count();
        let begins = events.iter().any(|event| matches!(event.fact, Fact::TurnStart { .. }));
        pieces.push(events);
        broke_off = (said >= wish.limit && begins) || count >= MOST_EVENTS;
        if broke_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let mut merge = Merge::default();
    let events = pieces.into_iter().rev().flatten();
    let (mut first, mut last) = (None, 0);
    for event in events {
        first = first.or(Some(event.seq));
        last = event.seq;
        merge.push(event);
    }
    let mut messages = view(merge.finish(), wish.view);
    let excess = messages.len().saturating_sub(wish.limit);
    let prev_before = match excess {
        0 => first.filter(|first| *first > 1),
        excess => messages.get(excess).map(|message| message.first),
    };
    Ok(Page {
        messages: lay_out(messages.split_off(excess), wish.layout),
        next_after: last,
        prev_before,
    })
}

/// Whether an event makes, or is part of, a message of a view.
fn counts(event: &HistoryEvent, view: View) -> bool {
    match &event.fact {
        Fact::User { origin, .. } => view == View::Full || *origin != Origin::System,
        Fact::AssistantText { .. } => true,
        Fact::ToolResult { .. } => view == View::Full,
        _ => false,
    }
}

fn view(messages: Vec<Message>, view: View) -> Vec<Message> {
    match view {
        View::Simple => merge::simple(messages),
        View::Full => messages,
    }
}

fn lay_out(messages: Vec<Message>, layout: Layout) -> Vec<Message> {
    match layout {
        Layout::Ordered => messages,
        Layout::Grouped => merge::group(messages),
    }
}
