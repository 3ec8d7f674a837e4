//! Fold of a turn: its events become the messages that later turns are shown.
//!
//! It is fed with events as they are made durable, or as they are read back, and comes to the same both times.

use std::sync::Arc;

use crate::{
    briefing::Clean,
    clock::Timestamp,
    engine::{Block, FixedMessages, JoinedWords, Message, ToolOutput},
    excerpt::excerpt,
    file::FileRef,
    history::{
        Compaction, Fact, HistoryEvent, Meta, Origin, Trigger, summary_of_steps, summary_of_turns,
    },
    ids::CallId,
    task::{
        Label,
        outcome::{Code, Ending},
    },
    tool::{Args, ToolCall, ToolFault},
};

/// A later turn is shown this many characters of a result.
const MAX_RESULT_CHARACTERS: usize = 2_000;
/// Stands for a turn whose task is not to be believed.
const WITHHELD_TASK: &str =
    "[A message from a source that is not trusted is not shown. Ask the person if you need it.]";
/// Stands for an inbox that is not to be believed, in front of the task.
const WITHHELD_INBOX: &str =
    "[What waited in the inbox is not shown: it is from a source that is not trusted.]\n\n";
const WITHHELD_ANSWER: &str = "[Not shown.]";
const WITHHELD_REST: &str = "[What followed is not shown: it came after reading that.]";
const NO_WORDS: &str = "[A message without words.]";
/// What the model says to a summary, so that words from outside and of the model alternate.
const NOTED: &str = "Noted.";

/// A turn on its way to its end.
#[derive(Debug, Default)]
pub struct TurnFold {
    first: Option<(u64, Timestamp)>,
    /// The fact that opened it.
    start: Option<Fact>,
    inbox: Option<(String, Label)>,
    task: Option<(String, Label)>,
    /// What the task came with.
    files: Vec<FileRef>,
    entries: Vec<Entry>,
    step: u32,
    summary: Option<Summary>,
    end: Option<(u64, Ending, Option<Code>, String)>,
    /// When its last event happened.
    last: Timestamp,
}

/// Something said after the task, in or after a step.
#[derive(Debug)]
struct Entry {
    step: u32,
    label: Label,
    said: Said,
}

#[derive(Debug)]
enum Said {
    Words(String),
    Model(Vec<Block>),
    Results(Vec<ResultEntry>),
}

/// A result as later turns are shown it.
#[derive(Debug)]
struct ResultEntry {
    output: ToolOutput,
    /// How many characters it had, if it is not to be believed.
    tainting: Option<usize>,
}

/// A summary of whole turns, as an event tells it.
#[derive(Debug)]
struct Summary {
    text: String,
    keep_from_seq: u64,
    at: Timestamp,
    trigger: Trigger,
    label: Label,
}

/// An ended turn as later turns with a label are shown it.
#[derive(Debug)]
pub(super) struct Folded {
    pub(super) first_seq: u64,
    pub(super) end_seq: u64,
    pub(super) ended_at: Timestamp,
    /// The conversation began anew with it.
    pub(super) is_first: bool,
    /// None if only a summary came of it.
    pub(super) messages: Option<Vec<Message>>,
    /// Where the conversation begins from now on.
    pub(super) start: Option<ThreadStart>,
}

/// Where a conversation begins, and what stands for what came before.
#[derive(Clone, Debug)]
pub struct ThreadStart {
    /// The first event of the first turn that is shown as it was.
    pub keep_from_seq: u64,
    pub at: Timestamp,
    pub trigger: Trigger,
    /// What is shown in place of earlier turns.
    pub shown: Arc<FixedMessages>,
}

impl TurnFold {
    pub fn first_seq(&self) -> Option<u64> {
        self.first.map(|(seq, _)| seq)
    }

    /// Takes in the next event of the turn.
    pub fn on(&mut self, event: HistoryEvent) {
        let HistoryEvent { seq, timestamp, fact, .. } = event;
        self.first.get_or_insert((seq, timestamp));
        self.last = timestamp;
        self.step = self.step.max(fact.step().unwrap_or_default());
        match fact {
            Fact::TurnStart { .. } => {
                self.start.get_or_insert(fact);
            }
            Fact::User { text, origin, label, files, .. } => match origin {
                Origin::System => self.inbox = Some((text, label)),
                Origin::Person | Origin::Task => {
                    self.task = Some((text, label));
                    self.files = files;
                }
                Origin::Steer => self.push(label, Said::Words(text)),
            },
            Fact::AssistantText { text, .. } => self.wrote(Block::Text { text }),
            // It is bound to its turn.
            Fact::AssistantThinking { .. } => {}
            Fact::ToolCall { id, name, args, .. } => {
                let args = Args::stored(args);
                self.wrote(Block::Call(ToolCall { id, name, args }));
            }
            Fact::ToolResult { id, name, content, fault, taints, pictures, .. } => {
                let withheld = taints.then(|| content.chars().count());
                let content = cut(&id, content);
                let output = ToolOutput { id, name, content, fault, pictures };
                self.result(ResultEntry { output, tainting: withheld });
            }
            Fact::Meta(Meta::Compaction(compaction)) => self.compacted(*compaction, timestamp),
            Fact::TurnEnd { outcome, code, text, .. } => {
                self.end = Some((seq, outcome, code, text));
            }
            Fact::Meta(_) | Fact::TurnSuspended { .. } => {}
        }
    }

    fn push(&mut self, label: Label, said: Said) {
        self.entries.push(Entry { step: self.step, label, said });
    }

    fn wrote(&mut self, block: Block) {
        match self.entries.last_mut() {
            Some(Entry { step, said: Said::Model(blocks), .. }) if *step == self.step => {
                blocks.push(block);
            }
            _ => self.push(Label::Trusted, Said::Model(vec![block])),
        }
    }

    fn result(&mut self, result: ResultEntry) {
        match self.entries.last_mut() {
            Some(Entry { said: Said::Results(results), .. }) => results.push(result),
            _ => self.push(Label::Trusted, Said::Results(vec![result])),
        }
    }

    fn compacted(&mut self, compaction: Compaction, at: Timestamp) {
        let Compaction { summary, keep_from_seq, keep_from_step, trigger, label, .. } = compaction;
        let Some(text) = summary else { return };
        match (keep_from_step, keep_from_seq) {
            (Some(kept), _) => {
                let gone = self.entries.iter().take_while(|entry| entry.step < kept).count();
                let said = Said::Words(summary_of_steps(&text));
                self.entries.splice(..gone, [Entry { step: 0, label, said }]);
            }
            (None, Some(keep_from_seq)) => {
                self.summary = Some(Summary { text, keep_from_seq, at, trigger, label });
            }
            (None, None) => {}
        }
    }

    /// The fact that opened the turn, and when that was.
    pub(super) fn start(&self) -> Option<(&Fact, Timestamp)> {
        self.start.as_ref().zip(self.first.map(|(_, began)| began))
    }

    pub(super) fn is_first(&self) -> bool {
        matches!(self.start, Some(Fact::TurnStart { idle: Some(_), .. }))
    }

    /// The turn as later turns with this label are shown it; none if it has not ended.
    pub(super) fn end(self, label: Label, clean: &Clean) -> Option<Folded> {
        let (end_seq, ..) = self.end.as_ref()?;
        let summary = self.summary.as_ref().filter(|summary| summary.label == label);
        Some(Folded {
            first_seq: self.first_seq()?,
            end_seq: *end_seq,
            ended_at: self.last,
            is_first: self.is_first(),
            messages: self.task.as_ref().map(|task| {
                let mut messages = self.messages(task, label);
                messages.iter_mut().for_each(|message| scrub(message, clean));
                messages
            }),
            start: summary.map(|summary| summary.start(clean)),
        })
    }

    fn messages(&self, (task, of_task): &(String, Label), reader: Label) -> Vec<Message> {
        let is_withheld = |label: Label| label > reader;
        if is_withheld(*of_task) {
            return vec![Message::User(WITHHELD_TASK.to_owned()), words(WITHHELD_ANSWER)];
        }
        match &self.inbox {
            Some((_, label)) if is_withheld(*label) => {
                let told = format!("{WITHHELD_INBOX}{task}");
                vec![Message::User(told), words(WITHHELD_ANSWER)]
            }
            Some((inbox, _)) => self.steps(format!("{inbox}{task}"), is_withheld),
            None if task.trim().is_empty() => self.steps(NO_WORDS.to_owned(), is_withheld),
            None => self.steps(task.clone(), is_withheld),
        }
    }

    /// What was said for a task, up to what is withheld.
    fn steps(&self, task: String, is_withheld: impl Fn(Label) -> bool) -> Vec<Message> {
        let mut told = vec![Message::User(task)];
        if !self.files.is_empty() {
            told.push(Message::Files(self.files.clone()));
        }
        for (place, Entry { label, said, .. }) in self.entries.iter().enumerate() {
            if is_withheld(*label) {
                told.push(words(WITHHELD_REST));
                return told;
            }
            match said {
                Said::Words(text) => told.push(Message::User(text.clone())),
                Said::Model(blocks) => {
                    let message = Message::Assistant(blocks.clone());
                    let results = match self.entries.get(place + 1).map(|next| &next.said) {
                        Some(Said::Results(results)) => results.as_slice(),
                        _ => &[],
                    };
                    let found = results_of(&message, results, is_withheld(Label::Untrusted));
                    told.push(message);
                    if let Some((outputs, all_shown)) = found {
                        told.push(Message::ToolResults(outputs));
                        if !all_shown {
                            told.push(words(WITHHELD_REST));
                            return told;
                        }
                    }
                }
                // They were told with their calls.
                Said::Results(_) => {}
            }
        }
        self.close(&mut told);
        told
    }

    /// The last that is told is an answer, whatever became of the turn.
    fn close(&self, told: &mut Vec<Message>) {
        let Some((_, ending, code, text)) = &self.end else { return };
        let code = code.map(|code| format!(", {}", code.as_str())).unwrap_or_default();
        let note = |what: &str| format!("[{what}: {}{code}.]", ending.as_str());
        match told.last_mut() {
            Some(Message::Assistant(blocks)) if is_answer(blocks) => {
                if *ending != Ending::Done {
                    blocks.push(Block::Text { text: note("Stopped here") });
                }
            }
            _ if *ending == Ending::Done && !text.trim().is_empty() => told.push(words(text)),
            _ => told.push(words(&note("No answer"))),
        }
    }
}

impl Summary {
    fn start(&self, clean: &Clean) -> ThreadStart {
        let cleaned = clean(&self.text);
        let shown = summary_messages(cleaned.as_ref().unwrap_or(&self.text));
        ThreadStart {
            keep_from_seq: self.keep_from_seq,
            at: self.at,
            trigger: self.trigger,
            shown: Arc::new(shown),
        }
    }
}

/// A summary of earlier turns, in their place.
pub fn summary_messages(summary: &str) -> FixedMessages {
    FixedMessages::new(vec![Message::User(summary_of_turns(summary)), words(NOTED)])
}

/// The results of what the model called in a message, in call order, and whether all are shown; none if it
/// called nothing.
fn results_of(
    message: &Message,
    results: &[ResultEntry],
    withholds: bool,
) -> Option<(Vec<ToolOutput>, bool)> {
    let mut all_shown = true;
    let outputs = message.calls().map(|ToolCall { id, name, .. }| {
        let (id, name) = (id.clone(), name.clone());
        match results.iter().find(|result| result.output.id == id) {
            Some(ResultEntry { output, tainting: Some(size) }) if withholds => {
                all_shown = false;
                let content = format!(
                    "[Not shown: {size} characters from a source that is not trusted; result of call {id}.]"
                );
                ToolOutput { content, pictures: Vec::new(), ..output.clone() }
            }
            Some(ResultEntry { output, .. }) => output.clone(),
            None => {
                let content = "outcome unknown: the turn ended before this call did".to_owned();
                let fault = Some(ToolFault::UnknownOutcome);
                ToolOutput { id, name, content, fault, pictures: Vec::new() }
            }
        }
    });
    let outputs: Vec<_> = outputs.collect();
    (!outputs.is_empty()).then_some((outputs, all_shown))
}

fn cut(id: &CallId, content: String) -> String {
    // Bytes are no fewer than characters.
    if content.len() <= MAX_RESULT_CHARACTERS {
        return content;
    }
    excerpt(
        &content,
        MAX_RESULT_CHARACTERS,
        &format!("result of call {id}; call the tool again if they are needed"),
    )
}

fn words(text: &str) -> Message {
    Message::Assistant(vec![Block::Text { text: text.to_owned() }])
}

fn is_answer(blocks: &[Block]) -> bool {
    let says = |block: &Block| matches!(block, Block::Text { text } if !text.trim().is_empty());
    blocks.iter().all(|block| !matches!(block, Block::Call(_))) && blocks.last().is_some_and(says)
}

/// Takes out of a message what must not be seen.
fn scrub(message: &mut Message, clean: &Clean) {
    let scrub = |text: &mut String| {
        if let Some(cleaned) = clean(text) {
            *text = cleaned;
        }
    };
    match message {
        Message::User(text) | Message::Joined(JoinedWords { text, .. }) => scrub(text),
        Message::Files(files) => files.iter_mut().for_each(|file| {
            scrub(&mut file.name);
            file.path.iter_mut().for_each(scrub);
        }),
        Message::ToolResults(results) => {
            results.iter_mut().for_each(|result| scrub(&mut result.content));
        }
        Message::Assistant(blocks) => {
            for block in blocks {
                match block {
                    Block::Text { text } | Block::Thinking { text, .. } => scrub(text),
                    Block::Call(call) => call.args.each_text(&mut |text| scrub(text)),
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
