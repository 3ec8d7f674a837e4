//! Thread: the ended turns of one conversation, as a later turn of it is shown them.

use std::{collections::HashSet, fmt, ops::ControlFlow, sync::Arc};

use super::{
    fold::{Folded, ThreadStart, TurnFold, summary_messages},
    scope::Scope,
    turns,
};
use crate::{
    briefing::Clean,
    clock::Timestamp,
    engine::{Block, FixedMessages, Message, plain_id},
    history::THIS_TURN,
    ids::CallId,
    shared_list::SharedList,
    storage::{Storage, StorageError},
    task::{Label, records::LaneKey},
};

/// Whose conversation it is, and for whom it was made ready.
#[derive(Clone)]
pub struct Reader {
    /// Which turns belong to it.
    pub scope: Scope,
    /// A turn that is to be believed is shown nothing that is not.
    pub label: Label,
    /// What all of it is cleaned with.
    pub clean: Clean,
}

impl Reader {
    /// Whether the same is shown to both.
    pub fn is(&self, other: &Self) -> bool {
        self.scope == other.scope
            && self.label == other.label
            && Arc::ptr_eq(&self.clean, &other.clean)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reader").field(&self.scope).field(&self.label).finish()
    }
}

/// Where an ended turn stands in the journal.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Its first event.
    first_seq: u64,
    end_seq: u64,
}

/// Ended turns, in the order of their ends. Cheap to clone.
#[derive(Clone, Debug, Default)]
struct Turns {
    spans: SharedList<Span>,
    shown: SharedList<Arc<FixedMessages>>,
    /// How many they have.
    characters: usize,
}

impl Turns {
    fn push(&mut self, span: Span, shown: Arc<FixedMessages>) {
        self.characters += shown.characters();
        self.spans.push(span);
        self.shown.push(shown);
    }

    fn remove_first(&mut self) {
        self.characters -= self.shown.iter().next().map_or(0, |shown| shown.characters());
        self.spans.remove_first();
        self.shown.remove_first();
    }

    /// Those of some spans.
    fn of(&self, is_kept: impl Fn(&Span) -> bool) -> Self {
        if self.spans.iter().all(&is_kept) {
            return self.clone();
        }
        let mut kept = Self::default();
        let turns = self.spans.iter().zip(self.shown.iter());
        turns
            .filter(|(span, _)| is_kept(span))
            .for_each(|(span, shown)| kept.push(*span, shown.clone()));
        kept
    }
}

/// The newest turns of a conversation, and what stands for those before.
#[derive(Clone, Debug)]
pub struct Thread {
    pub reader: Reader,
    start: Option<ThreadStart>,
    turns: Turns,
    /// The ids of all calls in them.
    calls: HashSet<String>,
    /// No more characters than this are kept, but for the newest turn.
    most: usize,
    /// When its last turn ended.
    used_at: Option<Timestamp>,
}

impl Thread {
    pub fn new(reader: Reader, most: usize) -> Self {
        Self {
            reader,
            start: None,
            turns: Turns::default(),
            calls: HashSet::new(),
            most,
            used_at: None,
        }
    }

    /// Reads the turns that did not begin before a moment, up to so many characters. Blocks.
    pub fn read(
        storage: &dyn Storage,
        lane: &LaneKey,
        reader: Reader,
        since: Timestamp,
        most: usize,
    ) -> Result<Self, StorageError> {
        let mut found: Vec<Folded> = Vec::new();
        let (mut keep_from, mut size, mut failure) = (0, 0, None);
        turns::ended(storage, lane, &mut |events| {
            let mut fold = TurnFold::default();
            events.into_iter().for_each(|event| fold.on(event));
            let Some((start, began)) = fold.start() else { return ControlFlow::Continue(()) };
            if began < since {
                return ControlFlow::Break(());
            }
            match reader.scope.holds(storage, start) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            let is_first = fold.is_first();
            let Some(folded) = fold.end(reader.label, &reader.clean) else {
                return ControlFlow::Continue(());
            };
            if folded.first_seq < keep_from || size > most {
                return ControlFlow::Break(());
            }
            keep_from = keep_from.max(folded.start.as_ref().map_or(0, |start| start.keep_from_seq));
            size += folded.messages.iter().flatten().map(Message::characters).sum::<usize>();
            found.push(folded);
            if is_first { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        found.sort_by_key(|folded| folded.end_seq);
        let mut thread = Self::new(reader, most);
        found.into_iter().for_each(|folded| thread.push(folded));
        Ok(thread)
    }

    /// Adds a turn that has just ended.
    pub fn end(&mut self, turn: TurnFold) {
        if let Some(folded) = turn.end(self.reader.label, &self.reader.clean) {
            self.push(folded);
        }
    }

    fn push(&mut self, folded: Folded) {
        let Folded { first_seq, end_seq, ended_at, is_first, messages, start } = folded;
        self.used_at = self.used_at.max(Some(ended_at));
        if is_first {
            self.turns = self.turns.of(|turn| turn.first_seq > first_seq);
            self.start.take_if(|start| start.keep_from_seq <= first_seq);
        }
        if let Some(start) = start {
            self.turns = self.turns.of(|turn| turn.first_seq >= start.keep_from_seq);
            self.start = Some(start);
        }
        let keep_from = self.start.as_ref().map_or(0, |start| start.keep_from_seq);
        let Some(mut messages) = messages.filter(|_| first_seq >= keep_from) else { return };
        self.name_calls(&mut messages, first_seq);
        let shown = Arc::new(FixedMessages::new(messages));
        self.turns.push(Span { first_seq, end_seq }, shown);
        while self.turns.characters > self.most && self.turns.spans.len() > 1 {
            self.turns.remove_first();
        }
    }

    /// Gives calls another id whose own was used before: no request may hold one twice.
    fn name_calls(&mut self, messages: &mut [Message], first_seq: u64) {
        let called =
            messages.iter().flat_map(Message::calls).map(|call| plain_id(call.id.as_str()));
        let called: Vec<String> = called.collect();
        let is_taken = |id: &CallId| self.calls.contains(&plain_id(id.as_str()));
        let rename = |id: &mut CallId| {
            if is_taken(id) {
                *id = format!("{id}_{first_seq}").into();
            }
        };
        if called.iter().any(|id| self.calls.contains(id)) {
            for message in messages {
                match message {
                    Message::User(_) | Message::Joined(_) | Message::Files(_) => {}
                    Message::Assistant(blocks) => {
                        let calls = blocks.iter_mut().filter_map(|block| match block {
                            Block::Call(call) => Some(&mut call.id),
                            Block::Text { .. } | Block::Thinking { .. } => None,
                        });
                        calls.for_each(rename);
                    }
                    Message::ToolResults(results) => {
                        results.iter_mut().for_each(|result| rename(&mut result.id));
                    }
                }
            }
        }
        self.calls.extend(called);
    }

    /// Forgets all turns: the conversation begins anew.
    pub fn clear(&mut self) {
        *self = Self::new(self.reader.clone(), self.most);
    }

    /// When its last turn ended; none if nothing was said.
    pub fn used_at(&self) -> Option<Timestamp> {
        self.used_at
    }

    pub fn characters(&self) -> usize {
        self.turns.characters
    }

    /// Where it begins, if that is a summary.
    pub fn start(&self) -> Option<&ThreadStart> {
        self.start.as_ref()
    }

    /// What a turn is shown whose first event has this number: what had ended by then.
    pub fn before(&self, seq: u64) -> Earlier {
        let from = self.start.as_ref().map_or(0, |start| start.keep_from_seq);
        let summary = self.start.as_ref().map(|start| start.shown.clone());
        Earlier { summary, turns: self.turns.of(|turn| turn.end_seq < seq), from }
    }
}

/// What a turn is shown of what came before it.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    summary: Option<Arc<FixedMessages>>,
    turns: Turns,
    /// What came before this event is left out.
    from: u64,
}

impl Earlier {
    /// All of it, oldest first.
    pub fn parts(&self) -> SharedList<Arc<FixedMessages>> {
        self.turns.shown.behind(self.summary.clone())
    }

    pub fn characters(&self) -> usize {
        let summary = self.summary.as_ref().map_or(0, |summary| summary.characters());
        summary + self.turns.characters
    }

    /// Where all is kept from on, if the newest turns with at most so many characters are, and there are
    /// others. The newest is kept if it is not larger than twice that.
    pub fn cut(&self, most: usize) -> Option<u64> {
        let mut size = 0;
        let kept = self.turns.shown.iter().rev().enumerate().take_while(|(place, shown)| {
            size += shown.characters();
            size <= if *place == 0 { most.saturating_mul(2) } else { most }
        });
        self.keeping(kept.count())
    }

    /// The same where the newest turns with together at least so many messages are kept.
    pub fn cut_behind(&self, messages: usize) -> Option<u64> {
        let mut count = 0;
        let kept = self.turns.shown.iter().rev().take_while(|shown| {
            let is_kept = count < messages;
            count += shown.len();
            is_kept
        });
        self.keeping(kept.count())
    }

    fn keeping(&self, count: usize) -> Option<u64> {
        let gone = self.turns.spans.len() - count;
        if gone == 0 {
            return None;
        }
        Some(self.turns.spans.iter().nth(gone).map_or(THIS_TURN, |kept| kept.first_seq))
    }

    /// What comes before an event: the summary, and whole turns.
    pub fn before(&self, seq: u64) -> Vec<Message> {
        let turns = self.turns.spans.iter().zip(self.turns.shown.iter());
        let turns = turns.take_while(|(turn, _)| turn.first_seq < seq);
        let gone = self.summary.iter().chain(turns.map(|(_, shown)| shown));
        gone.flat_map(|part| part.iter().cloned()).collect()
    }

    /// Leaves out what comes before an event. A summary stands for it, if there is one.
    ///
    /// A turn that was set aside may find that another has left out more meanwhile: that stays.
    pub fn keep_from(&mut self, seq: u64, summary: Option<&str>) {
        if seq < self.from {
            return;
        }
        let gone = self.turns.spans.iter().take_while(|turn| turn.first_seq < seq).count();
        (0..gone).for_each(|_| self.turns.remove_first());
        if let Some(summary) = summary {
            self.summary = Some(Arc::new(summary_messages(summary)));
        }
        self.from = seq;
    }
}

#[cfg(test)]
impl Earlier {
    /// Turns with these messages, whose first events are 10, 20, ….
    pub(crate) fn of(turns: Vec<Vec<Message>>) -> Self {
        let mut earlier = Self::default();
        for (place, messages) in (1..).zip(turns) {
            let span = Span { first_seq: 10 * place, end_seq: 10 * place + 9 };
            earlier.turns.push(span, Arc::new(FixedMessages::new(messages)));
        }
        earlier
    }
}

#[cfg(test)]
mod tests;
