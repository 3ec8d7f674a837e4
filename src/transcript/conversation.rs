//! Conversations: a topic as its person sees it, each message with what came of it.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    conversation_log::{ConversationEntry, EntryKey},
    excerpt,
    file::FileRef,
    frame::PREVIEW,
    history::{Fact, HistoryEvent, Idle, Meta, Origin},
    ids::{CallId, TaskId, TurnId},
    journal::sessions,
    storage::{Order, Storage, StorageError},
    task::{
        Task, TaskState,
        outcome::{Ending, Outcome},
        records::{self as tasks, LaneKey},
    },
    tool::ToolFault,
};

use crate::api::me::{
    ConversationBlock, ConversationEnd, ConversationItem, ConversationMessage,
    ConversationNotification,
};

/// No more steps of turns are read for one page. Messages beyond have their answers, not the way there.
const MOST_STEPS: usize = 20_000;
/// Of arguments and results, whoever may read transcripts sees so many characters.
const WHOLE: usize = 20_000;
/// A turn's last events are written so much later than its end was decided, at most.
const SLACK: Duration = Duration::from_secs(5);

/// How much of a conversation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What frames show.
    Frames,
    /// What transcripts show.
    Transcript,
}

impl Depth {
    fn cut(self, text: &str) -> String {
        let most = match self {
            Self::Frames => PREVIEW,
            Self::Transcript => WHOLE,
        };
        excerpt::line(text, most)
    }
}

/// Entries of the log of a lane's topic as they are shown, in the same order. `seq` is the newest number of the channel,
/// read before the entries were. Blocks.
pub fn items(
    storage: &dyn Storage,
    lane: &LaneKey,
    seq: u64,
    entries: Vec<(EntryKey, ConversationEntry)>,
    depth: Depth,
) -> Result<Vec<ConversationItem>, StorageError> {
    let mut found = HashMap::new();
    for ((_, _, id), entry) in &entries {
        if *entry == ConversationEntry::Message {
            let id = TaskId::from(id.as_str());
            found.extend(tasks::find(storage, &id)?.map(|task| (id, task)));
        }
    }
    let mut turns = Turns::read(storage, lane, found.values(), depth)?;
    let items = entries.into_iter().filter_map(|((_, at, id), entry)| match entry {
        ConversationEntry::Message => {
            // Its task may be gone: what is old goes bit by bit.
            let task = found.remove(id.as_str())?;
            Some(ConversationItem::Message(turns.message(task, seq)?))
        }
        ConversationEntry::Notification(told) => {
            let told = ConversationNotification::from((at.0, told));
            Some(ConversationItem::Notification(told))
        }
    });
    Ok(items.collect())
}

/// Messages as they are shown, in the same order, of whatever lanes they are. `seq` is the newest number of the channel, read
/// before them. Blocks.
pub fn messages(
    storage: &dyn Storage,
    seq: u64,
    tasks: Vec<Task>,
    depth: Depth,
) -> Result<Vec<ConversationItem>, StorageError> {
    let lanes: HashSet<LaneKey> = tasks.iter().map(Task::lane_key).collect();
    let mut turns = HashMap::new();
    for lane in lanes {
        let of_lane = tasks.iter().filter(|task| task.lane_key() == lane);
        turns.insert(lane.clone(), Turns::read(storage, &lane, of_lane, depth)?);
    }
    let items = tasks.into_iter().filter_map(|task| {
        let message = turns.get_mut(&task.lane_key())?.message(task, seq)?;
        Some(ConversationItem::Message(message))
    });
    Ok(items.collect())
}

/// What turns of a lane said and did, by the task that each was for.
#[derive(Debug, Default)]
struct Turns {
    of: HashMap<TaskId, Done>,
    /// Messages that were answered by the turn of another.
    joined: HashMap<TaskId, TaskId>,
}

#[derive(Debug, Default)]
struct Done {
    blocks: Vec<ConversationBlock>,
    thinking: Vec<String>,
}

/// What an event says of a turn, cut to what is shown.
enum Step {
    /// It is for this task; what is said about its beginning.
    Begins(TaskId, Option<String>),
    /// It answers this message too.
    Joined(TaskId),
    Thinking(String),
    Block(ConversationBlock),
    Result {
        call: CallId,
        fault: Option<ToolFault>,
        duration_ms: u64,
        result: String,
        untrusted: bool,
        files: Vec<FileRef>,
    },
}

impl Turns {
    /// Reads the part of the journal that these tasks are in.
    fn read<'a>(
        storage: &dyn Storage,
        lane: &LaneKey,
        tasks: impl Iterator<Item = &'a Task>,
        depth: Depth,
    ) -> Result<Self, StorageError> {
        let (mut first, mut last) = (None::<Timestamp>, Timestamp::default());
        for task in tasks {
            first = Some(first.map_or(task.created_at, |first| first.min(task.created_at)));
            let end = task.outcome.as_ref().map(|outcome| outcome.finished_at);
            last = last.max(end.unwrap_or(Timestamp(u64::MAX)));
        }
        let Some(first) = first else {
            return Ok(Self::default());
        };
        let behind = match last {
            Timestamp(u64::MAX) => None,
            last => sessions::piece_since(storage, lane, last + SLACK)?,
        };
        let range = (0, behind.unwrap_or(u64::MAX));
        let mut steps: Vec<(TurnId, Step)> = Vec::new();
        sessions::journal(storage, lane, range, Order::Falling, &mut |piece| {
            let is_before = piece.last().is_some_and(|event| event.timestamp < first);
            if is_before || steps.len() > MOST_STEPS {
                return ControlFlow::Break(());
            }
            steps.extend(piece.into_iter().rev().filter_map(|event| {
                let HistoryEvent { turn, fact, .. } = event;
                Some((turn, step(fact, depth)?))
            }));
            ControlFlow::Continue(())
        })?;
        let (mut turns, mut tasks_of) = (Self::default(), HashMap::new());
        for (turn, step) in steps.into_iter().rev() {
            turns.take(&mut tasks_of, turn, step);
        }
        Ok(turns)
    }

    fn take(&mut self, tasks_of: &mut HashMap<TurnId, TaskId>, turn: TurnId, step: Step) {
        if let Step::Begins(task, note) = step {
            if let Some(text) = note {
                let done = self.of.entry(task.clone()).or_default();
                done.add(note_of(text));
            }
            // One that went on after a crash says so again.
            tasks_of.insert(turn, task);
            return;
        }
        let Some(task) = tasks_of.get(&turn) else {
            return;
        };
        let done = self.of.entry(task.clone()).or_default();
        match step {
            Step::Begins(..) => {}
            Step::Joined(joined) => {
                self.joined.insert(joined, task.clone());
            }
            Step::Thinking(text) => done.thinking.push(text),
            Step::Block(block) => done.add(block),
            Step::Result { call, fault, duration_ms, result, untrusted, files } => {
                done.settle(&call, fault, duration_ms, (result, untrusted, files));
            }
        }
    }

    /// A message with what came of it; none if its task is not one of a message.
    fn message(&mut self, task: Task, seq: u64) -> Option<ConversationMessage> {
        let state = task.state();
        let message_id = task.source?.message?;
        let Done { mut blocks, thinking } = self.of.remove(&task.id).unwrap_or_default();
        forget_past_waits(&mut blocks, state == TaskState::Waiting);
        let end = task.outcome.map(|outcome| {
            answer(&mut blocks, &outcome.text);
            end(outcome)
        });
        Some(ConversationMessage {
            joined_task_id: self.joined.get(&task.id).cloned(),
            message_id,
            task_id: task.id,
            at: task.created_at.0,
            seq,
            from: task.from,
            text: task.body,
            files: task.files,
            state,
            thinking: (!thinking.is_empty()).then(|| thinking.join("\n\n")),
            blocks,
            end,
        })
    }
}

impl Done {
    /// Texts that nothing parts are one, in lines of their own as in the answer.
    fn add(&mut self, block: ConversationBlock) {
        match (self.blocks.last_mut(), &block) {
            (Some(ConversationBlock::Text { text }), ConversationBlock::Text { text: more }) => {
                text.push('\n');
                text.push_str(more);
            }
            _ => self.blocks.push(block),
        }
    }

    fn settle(
        &mut self,
        call: &CallId,
        fault: Option<ToolFault>,
        took: u64,
        (said, is_untrusted, given): (String, bool, Vec<FileRef>),
    ) {
        for block in &mut self.blocks {
            if let ConversationBlock::ToolCall {
                call_id,
                ok,
                denied,
                duration_ms,
                result,
                untrusted,
                files,
                ..
            } = block
                && call_id == call
                && ok.is_none()
            {
                (*ok, *duration_ms, *result) = (Some(fault.is_none()), Some(took), Some(said));
                *denied = fault.is_some_and(ToolFault::is_denial);
                (*untrusted, *files) = (is_untrusted, given);
                return;
            }
        }
    }
}

fn step(fact: Fact, depth: Depth) -> Option<Step> {
    let note = |text: String| Some(Step::Block(note_of(text)));
    match fact {
        Fact::TurnStart { task_ids, idle, .. } => {
            let task = task_ids.into_iter().next()?;
            Some(Step::Begins(task, idle.map(Idle::words)))
        }
        Fact::User { origin: Origin::Steer, task_id, .. } => Some(Step::Joined(task_id)),
        Fact::AssistantText { text, .. } => Some(Step::Block(ConversationBlock::Text { text })),
        Fact::AssistantThinking { text, .. } => {
            (depth == Depth::Transcript && !text.is_empty()).then_some(Step::Thinking(text))
        }
        Fact::ToolCall { id, name, args, .. } => Some(Step::Block(ConversationBlock::ToolCall {
            call_id: id,
            tool: name,
            arguments: depth.cut(&args.to_string()),
            ok: None,
            denied: false,
            duration_ms: None,
            result: None,
            untrusted: false,
            files: Vec::new(),
        })),
        Fact::ToolResult { id, content, fault, duration_ms, taints, files, .. } => {
            Some(Step::Result {
                files,
                call: id,
                fault,
                duration_ms,
                result: depth.cut(&content),
                untrusted: taints,
            })
        }
        Fact::Meta(Meta::Retry(text) | Meta::Fallback(text)) => note(text),
        Fact::Meta(Meta::Compaction(compaction)) => note(compaction.words()),
        Fact::Meta(Meta::Parked(reason)) => Some(Step::Block(ConversationBlock::Note {
            text: format!("Waiting: {}.", reason.words()),
            waits: true,
        })),
        Fact::TurnSuspended { message, .. } => note(message),
        Fact::User { .. } | Fact::Meta(_) | Fact::TurnEnd { .. } => None,
    }
}

fn note_of(text: String) -> ConversationBlock {
    ConversationBlock::Note { text, waits: false }
}

/// What a turn waited for says nothing any more once it has gone on.
fn forget_past_waits(blocks: &mut Vec<ConversationBlock>, is_waiting: bool) {
    let present = blocks.len().checked_sub(1).filter(|_| is_waiting);
    let mut places = 0..;
    blocks.retain(|block| {
        let place = places.next();
        place == present || !matches!(block, ConversationBlock::Note { waits: true, .. })
    });
}

/// Adds an answer that the steps do not end with: of a turn that was stopped in the middle, or of one that joined another.
fn answer(blocks: &mut Vec<ConversationBlock>, text: &str) {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let said: String = blocks
        .iter()
        .filter_map(|block| match block {
            ConversationBlock::Text { text } => Some(squeezed(text)),
            _ => None,
        })
        .collect();
    if !said.ends_with(&squeezed(text)) {
        blocks.push(ConversationBlock::Text { text: text.to_owned() });
    }
}

fn end(outcome: Outcome) -> ConversationEnd {
    let is_good = matches!(outcome.ending, Ending::Done | Ending::Cancelled);
    let code = outcome.code.map_or(outcome.ending.as_str(), |code| code.as_str());
    ConversationEnd {
        at: outcome.finished_at.0,
        code: (!is_good).then(|| code.to_owned()),
        error: (!is_good).then(|| outcome.explanation()),
        truncated: outcome.truncated,
        usage: outcome.usage.into(),
    }
}

#[cfg(test)]
mod tests;
