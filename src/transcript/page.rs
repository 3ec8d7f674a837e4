//! Pages of a transcript, read from the store with bounded memory.

use std::ops::ControlFlow;

use hivewright_actors::{
    history::{Fact, HistoryEvent, Origin},
    journal::sessions,
    live::turns::TurnPlace,
    storage::{Order, Storage, StorageError},
    task::{Kind, Task, records::LaneKey},
};

use super::merge::{self, Merge};
use crate::api::{
    sessions::{HistoryFilter, Layout, View},
    transcript::{Block, Direction, Message, Role},
};

/// No page is made of more events than this.
const MOST_EVENTS: usize = 5_000;

#[derive(Debug)]
pub struct Page {
    /// Oldest first.
    pub messages: Vec<Message>,
    /// What comes next comes after this event.
    pub next_after: u64,
    /// What comes before comes before this event; none at the beginning.
    pub prev_before: Option<u64>,
    /// Nothing in the journal comes behind it.
    is_last: bool,
}

/// A page of a session in which this turn runs.
pub fn read(
    storage: &dyn Storage,
    lane: &LaneKey,
    wanted: &HistoryFilter,
    running: Option<&TurnPlace>,
) -> Result<Page, StorageError> {
    let mut page = match wanted.after {
        Some(after) => forward(storage, lane, after, wanted)?,
        None => backward(storage, lane, wanted)?,
    };
    if page.is_last
        && let Some(running) = running
        && let Some((task, last)) = sessions::begun(storage, lane, running)?
        && task.kind != Kind::Compact
    {
        page.add_pending(pending(task, last, running), wanted);
    }
    Ok(page)
}

/// The message that a turn has begun with, where its journal will have it: behind the start of the turn.
fn pending(task: Task, last: u64, running: &TurnPlace) -> Message {
    Message {
        first: last + 1,
        seq: last + 2,
        turn: running.turn.clone(),
        task_id: Some(task.id),
        role: Role::User,
        timestamp: running.started_at.0,
        content: std::iter::once(Block::Text { text: task.body })
            .chain(task.files.into_iter().map(|file| Block::file(file, Direction::In)))
            .collect(),
        from: Some(task.from),
        pending: true,
        untrusted: !task.label.is_trusted(),
        meta: None,
        answers: None,
    }
}

impl Page {
    /// Adds the newest message. A full page makes room for it at its beginning; one that goes forward leaves
    /// it for the next.
    fn add_pending(&mut self, message: Message, wanted: &HistoryFilter) {
        if self.messages.len() < wanted.limit {
            self.messages.push(message);
        } else if wanted.after.is_none() {
            self.messages.push(message);
            self.messages.remove(0);
            self.prev_before = self.messages.first().map(|message| message.first);
        }
    }
}

fn forward(
    storage: &dyn Storage,
    lane: &LaneKey,
    after: u64,
    wanted: &HistoryFilter,
) -> Result<Page, StorageError> {
    let before = wanted.before.unwrap_or(u64::MAX);
    let mut merge = Merge::default();
    let mut messages: Vec<Message> = Vec::new();
    let (mut seen, mut count, mut is_full) = (after, 0, false);
    let range = (after, before);
    sessions::journal(storage, lane, range, Order::Rising, &mut |events| {
        count += events.len();
        for event in events {
            seen = event.seq;
            merge.push(event);
        }
        messages.extend(view(merge.take(), wanted.view));
        is_full = messages.len() >= wanted.limit || count >= MOST_EVENTS;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if !is_full || messages.is_empty() {
        messages.extend(view(merge.finish(), wanted.view));
    }
    let cut = is_full || messages.len() > wanted.limit;
    messages.truncate(wanted.limit);
    let next_after = match messages.last() {
        Some(last) if cut => last.seq,
        _ => seen,
    };
    Ok(Page {
        prev_before: (after > 0).then_some(after + 1),
        messages: lay_out(messages, wanted.layout),
        next_after,
        is_last: !cut && wanted.before.is_none(),
    })
}

fn backward(
    storage: &dyn Storage,
    lane: &LaneKey,
    wanted: &HistoryFilter,
) -> Result<Page, StorageError> {
    let before = wanted.before.unwrap_or(u64::MAX);
    let mut pieces: Vec<Vec<HistoryEvent>> = Vec::new();
    let (mut count, mut said, mut broke_off) = (0, 0, false);
    let range = (0, before);
    sessions::journal(storage, lane, range, Order::Falling, &mut |events| {
        count += events.len();
        said += events.iter().filter(|event| counts(event, wanted.view)).count();
        let begins = events.iter().any(|event| matches!(event.fact, Fact::TurnStart { .. }));
        pieces.push(events);
        broke_off = (said >= wanted.limit && begins) || count >= MOST_EVENTS;
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
    let mut messages = view(merge.finish(), wanted.view);
    let excess = messages.len().saturating_sub(wanted.limit);
    let prev_before = match excess {
        0 => first.filter(|first| *first > 1),
        excess => messages.get(excess).map(|message| message.first),
    };
    Ok(Page {
        messages: lay_out(messages.split_off(excess), wanted.layout),
        next_after: last,
        prev_before,
        is_last: wanted.before.is_none(),
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
