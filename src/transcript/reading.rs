//! Reading of transcripts: lines become the events of a journal again.
//!
//! Events that are written as lines, read back and written again come to the same lines.

use hivewright_actors::{
    clock::Timestamp,
    history::{Compaction, Fact, HistoryEvent, Meta as Remark, Origin, SUMMARY, Trigger},
    ids::{TaskId, TurnId},
    task::{Label, Lane, outcome::Ending},
    tool::{Effect, ToolFault},
    usage::Usage,
};
use serde_json::Value;

use super::{
    lines::{Item, Line, MessageLine, TurnLine},
    pi,
};
use crate::api::transcript::{Block, Meta, Role};

/// A longer line is not read: one record holds no more.
const LONGEST: usize = 8 << 20;
/// A moment below this is in seconds.
const MILLISECONDS: u64 = 100_000_000_000;
/// Events are written in pieces of about this many bytes.
const PIECE: usize = 256 << 10;
/// Where the words of a turn come from that tells no task.
const IMPORT: &str = "import";

/// What a file says.
#[derive(Debug, Default)]
pub struct Reading {
    /// Each turn with its events, which go on from one another.
    pub turns: Vec<Vec<HistoryEvent>>,
    pub messages: usize,
    /// Lines that say nothing that is kept: of another kind, on another branch, damaged.
    pub skipped: usize,
}

/// Reads a transcript that the service wrote itself. A turn of which it is not said that it may be believed may not.
pub fn read_own(lane: &Lane, text: &str) -> Option<Reading> {
    read_with(lane, text, Label::Untrusted)
}

/// Reads a transcript that the operator brings over, of ours or of Pi, into events of a lane; none if it is neither.
pub fn read(lane: &Lane, text: &str) -> Option<Reading> {
    read_with(lane, text, Label::Trusted)
}

/// `unlabelled`: how far turns are believed that do not say it.
fn read_with(lane: &Lane, text: &str, unlabelled: Label) -> Option<Reading> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let values = lines.map(|line| {
        let is_short = line.len() <= LONGEST;
        is_short.then(|| serde_json::from_str::<Value>(line).ok()).flatten()
    });
    let values: Vec<Option<Value>> = values.collect();
    let first = values.iter().flatten().next()?;
    let mut skipped = 0;
    let is_of_pi = pi::is_header(first);
    let items =
        if is_of_pi { pi::items(values, &mut skipped)? } else { items(values, &mut skipped) };
    let marks = items.iter().filter(|item| matches!(item, Item::Turn(..))).count();
    let messages = items.len() - marks;
    if messages == 0 {
        return None;
    }
    let mut journal =
        Journal { lane, unlabelled, turns: Vec::new(), seq: 0, turn: Facts::default() };
    for item in items {
        match item {
            Item::Message(line) => {
                // Where nothing tells the ends of turns, each message of a person begins one.
                if marks == 0 && line.role == Role::User && journal.turn.steps > 0 {
                    journal.part(is_of_pi);
                }
                journal.turn.tell(journal.lane, line);
            }
            Item::Turn(at, turn) => journal.close(Some((at, turn))),
        }
    }
    if !journal.turn.facts.is_empty() {
        journal.part(is_of_pi);
    }
    Some(Reading { turns: journal.turns, messages, skipped })
}

fn items(values: Vec<Option<Value>>, skipped: &mut usize) -> Vec<Item> {
    let item = |value: Option<Value>| match serde_json::from_value(value?).ok()? {
        Line::History(mut line) => {
            line.timestamp = in_milliseconds(line.timestamp);
            line.content.retain(|block| *block != Block::Unknown);
            let says = line.role != Role::Assistant || !line.content.is_empty();
            says.then_some(Item::Message(line))
        }
        Line::Meta(fact) => {
            let at = Timestamp(in_milliseconds(fact.timestamp));
            fact.turn().map(|turn| Item::Turn(at, turn))
        }
    };
    let mut items = Vec::new();
    for value in values {
        match item(value) {
            Some(item) => items.push(item),
            None => *skipped += 1,
        }
    }
    items
}

fn in_milliseconds(moment: u64) -> u64 {
    if moment < MILLISECONDS { moment * 1_000 } else { moment }
}

/// Events as they come to be.
struct Journal<'a> {
    lane: &'a Lane,
    unlabelled: Label,
    turns: Vec<Vec<HistoryEvent>>,
    seq: u64,
    turn: Facts,
}

/// What happened in a turn whose end has not come yet.
#[derive(Default)]
struct Facts {
    facts: Vec<(Timestamp, Fact)>,
    /// Where the fact is that says which model speaks, if that has not spoken since.
    start: Option<usize>,
    /// Which model that is.
    model: (String, String),
    /// The last message is of the model; whether its cost is told.
    spoke: Option<bool>,
    /// Messages of the model.
    steps: u32,
    usage: Usage,
}

impl Journal<'_> {
    /// Ends a turn, as a line tells, or as its last message shows.
    fn close(&mut self, told: Option<(Timestamp, TurnLine)>) {
        let mut turn = std::mem::take(&mut self.turn);
        if turn.facts.is_empty() {
            let at = told.as_ref().map(|(at, _)| *at).unwrap_or_default();
            turn.begin(self.lane, at, (String::new(), String::new()));
        }
        let began = turn.facts.first().map(|(at, _)| *at).unwrap_or_default();
        let last = turn.facts.last().map(|(at, _)| *at).unwrap_or_default();
        let (at, TurnLine { id, task, joined, label, outcome, code, message }) = told
            .unwrap_or_else(|| {
                let id = format!("{IMPORT}-{}", self.turns.len() + 1).into();
                let (outcome, code, message, joined) = (Ending::Done, None, None, Vec::new());
                (last, TurnLine { id, task: None, joined, label: None, outcome, code, message })
            });
        if let Some(task) = &task {
            turn.name_tasks(task, &joined);
        }
        if label.unwrap_or(self.unlabelled) == Label::Untrusted {
            turn.distrust();
        }
        let end = Fact::TurnEnd {
            outcome,
            code,
            message,
            // No task has the answer, so that a search is to find it here.
            text: String::new(),
            steps: turn.steps,
            usage: turn.usage,
            duration_ms: at.0.saturating_sub(began.0),
        };
        turn.facts.push((at, end));
        self.keep(turn, id);
    }

    /// Ends a turn whose end no line tells: a session of Pi is over, what was exported may have been under way.
    fn part(&mut self, is_over: bool) {
        if is_over {
            return self.close(None);
        }
        let turn = std::mem::take(&mut self.turn);
        let id = format!("{IMPORT}-{}", self.turns.len() + 1);
        self.keep(turn, id.into());
    }

    fn keep(&mut self, turn: Facts, id: TurnId) {
        let events = turn.facts.into_iter().map(|(timestamp, fact)| {
            self.seq += 1;
            HistoryEvent { seq: self.seq, turn: id.clone(), timestamp, fact, redacted: false }
        });
        let events = events.collect();
        self.turns.push(events);
    }
}

impl Facts {
    fn begin(&mut self, lane: &Lane, at: Timestamp, (provider, model): (String, String)) {
        self.model = (provider.clone(), model.clone());
        self.start = Some(self.facts.len());
        self.spoke = None;
        let start = Fact::TurnStart {
            task_ids: Vec::new(),
            team: lane.team.clone(),
            topic: lane.topic.clone(),
            source_channel: None,
            attempt: 1,
            redelivered: false,
            sdk: IMPORT.to_owned(),
            provider,
            model,
            prompt_hash: String::new(),
            toolset_hash: String::new(),
            cause: None,
            root: None,
            idle: None,
        };
        self.facts.push((at, start));
    }

    /// Lines don't say which message is of which task: all are of the first.
    fn name_tasks(&mut self, task: &TaskId, joined: &[TaskId]) {
        for (_, fact) in &mut self.facts {
            match fact {
                Fact::TurnStart { task_ids, .. } => {
                    task_ids.clone_from(&[std::slice::from_ref(task), joined].concat());
                }
                Fact::User { task_id, .. } => *task_id = task.clone(),
                _ => {}
            }
        }
    }

    fn distrust(&mut self) {
        for (_, fact) in &mut self.facts {
            match fact {
                Fact::User { label, .. } => *label = Label::Untrusted,
                Fact::ToolResult { taints, .. } => *taints = true,
                Fact::Meta(Remark::Compaction(compaction)) => compaction.label = Label::Untrusted,
                _ => {}
            }
        }
    }

    fn tell(&mut self, lane: &Lane, line: MessageLine) {
        let at = Timestamp(line.timestamp);
        if self.facts.is_empty() {
            self.begin(lane, at, (String::new(), String::new()));
        }
        if line.role == Role::Assistant {
            return self.speak(lane, at, line.content, line.meta.unwrap_or_default());
        }
        self.spoke = None;
        let text = text_of(line.content);
        let words = |origin| Fact::User {
            text: text.clone(),
            from: IMPORT.to_owned(),
            origin,
            label: Label::Trusted,
            task_id: IMPORT.into(),
            files: Vec::new(),
        };
        let summary = text.strip_prefix(SUMMARY).and_then(|rest| rest.strip_prefix('\n'));
        let fact = match (line.role, summary) {
            (Role::ToolResult, _) => Fact::ToolResult {
                id: line.tool_call_id.unwrap_or_else(|| "".into()),
                name: line.tool_name.unwrap_or_default(),
                fault: line.is_error.unwrap_or_default().then_some(ToolFault::ToolFailed),
                content: text,
                duration_ms: 0,
                truncated: false,
                taints: false,
                rule: None,
                approved: false,
                files: Vec::new(),
                pictures: Vec::new(),
            },
            (Role::System, Some(summary)) => Fact::Meta(Remark::Compaction(Box::new(Compaction {
                summary: Some(summary.to_owned()),
                keep_from_seq: None,
                keep_from_step: None,
                shortened_over: None,
                tokens_before: 0,
                tokens_after: 0,
                trigger: Trigger::Size,
                step: self.steps,
                label: Label::Trusted,
                paid: None,
            }))),
            (Role::System, None) => words(Origin::System),
            (Role::User | Role::Assistant, _) => words(Origin::Person),
        };
        self.facts.push((at, fact));
    }

    /// A message of the model.
    fn speak(&mut self, lane: &Lane, at: Timestamp, blocks: Vec<Block>, meta: Meta) {
        let (provider, model) = (meta.provider.unwrap_or_default(), meta.model.unwrap_or_default());
        // A message whose cost is told goes on with calls alone.
        let begins_itself = match self.spoke {
            None => true,
            Some(counted) => counted && !matches!(blocks.first(), Some(Block::ToolCall { .. })),
        };
        let of = (provider.clone(), model.clone());
        let unused = self.start.take().and_then(|start| self.facts.get_mut(start));
        match unused {
            Some((_, Fact::TurnStart { provider, model, .. })) => {
                (*provider, *model) = of.clone();
                self.model = of;
            }
            _ if begins_itself && self.model == of => {}
            _ => {
                self.begin(lane, at, of);
                self.start = None;
            }
        }
        self.steps += 1;
        let step = self.steps;
        let mut before = None;
        for block in blocks {
            let kind = std::mem::discriminant(&block);
            let is_call = matches!(block, Block::ToolCall { .. });
            if before.replace(kind) == Some(kind) && !is_call {
                // What stands between them keeps them apart.
                let (profile, model) = (provider.clone(), model.clone());
                let nothing = Remark::Spent { profile, model, usage: Usage::default() };
                self.facts.push((at, Fact::Meta(nothing)));
            }
            let fact = match block {
                Block::Text { text } => Fact::AssistantText { text, step },
                Block::Thinking { thinking } => {
                    Fact::AssistantThinking { text: thinking, step, block: None }
                }
                Block::ToolCall { id, name, arguments } => Fact::ToolCall {
                    id,
                    name,
                    args: arguments,
                    step,
                    effect: Effect::Irreversible,
                    idempotency_key: String::new(),
                },
                Block::File { filename, .. } => {
                    Fact::AssistantText { text: file_line(&filename), step }
                }
                Block::Unknown => continue,
            };
            self.facts.push((at, fact));
        }
        let counted = meta.usage.is_some() || meta.stop_reason.is_some();
        if counted {
            let usage = meta.usage.unwrap_or_default();
            self.usage += usage;
            let stop_reason = meta.stop_reason.unwrap_or_default();
            let cost = Remark::Usage { step, profile: provider, model, usage, stop_reason };
            self.facts.push((at, Fact::Meta(cost)));
        }
        self.spoke = Some(counted);
    }
}

/// A turn in pieces that a store takes.
pub fn pieces(turn: &[HistoryEvent]) -> Vec<&[HistoryEvent]> {
    let mut pieces = Vec::new();
    let (mut first, mut size) = (0, 0);
    for (place, event) in turn.iter().enumerate() {
        let length = serde_json::to_vec(event).map_or(0, |event| event.len());
        if size > 0 && size + length > PIECE {
            pieces.push(&turn[first..place]);
            (first, size) = (place, 0);
        }
        size += length;
    }
    pieces.push(&turn[first..]);
    pieces
}

/// The words of a message that has nothing else.
fn text_of(content: Vec<Block>) -> String {
    let texts = content.into_iter().filter_map(|block| match block {
        Block::Text { text } => Some(text),
        Block::Thinking { thinking } => Some(thinking),
        Block::File { filename, .. } => Some(file_line(&filename)),
        Block::ToolCall { .. } | Block::Unknown => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// An export names files and does not hold them.
fn file_line(name: &str) -> String {
    format!("[file: {name}]")
}

#[cfg(test)]
mod tests;
