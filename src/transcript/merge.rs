//! From events to messages: the one way in which a journal becomes a transcript.

use std::collections::HashMap;

use hivewright_actors::{
    clock::Timestamp,
    file::FileRef,
    history::{Fact, HistoryEvent, Meta as Remark, Origin, SUMMARY},
    ids::{TaskId, TurnId},
    task::Label,
    tool::ToolFault,
};

use crate::api::transcript::{Answers, Block, Direction, Message, Meta, Role};

/// Turns events into messages as they come. Turns may interleave; one of them runs at a time, so that messages come in the
/// order in which they began, and none is open where a turn has ended.
#[derive(Debug, Default)]
pub struct Merge {
    turns: HashMap<TurnId, Turn>,
    done: Vec<Message>,
}

#[derive(Debug, Default)]
struct Turn {
    task: Option<TaskId>,
    /// The tasks of messages that joined it.
    joined: Vec<TaskId>,
    /// How far what it has read may be believed.
    label: Label,
    provider: Option<String>,
    model: Option<String>,
    /// The message of the model that is not over yet.
    open: Option<Message>,
    /// Its step is over: only calls of that step belong to it now.
    counted: bool,
    /// The last event was of the same kind as the block before it.
    neighbours: bool,
}

impl Merge {
    pub fn push(&mut self, event: HistoryEvent) {
        let HistoryEvent { seq, turn: id, timestamp, fact, redacted: _ } = event;
        let turn = self.turns.entry(id.clone()).or_default();
        let neighbours = std::mem::replace(&mut turn.neighbours, false);
        let label = label_of(&fact);
        let blank = Message { untrusted: !label.is_trusted(), ..turn.blank(seq, &id, timestamp) };
        turn.label = turn.label.max(label);
        match fact {
            Fact::TurnStart { task_ids, provider, model, idle, .. } => {
                turn.begin(task_ids, provider, model);
                let task_id = turn.task.clone();
                // What was cut off is not gone on with in the same message.
                self.close_all();
                if let Some(idle) = idle {
                    let told = Message { task_id, ..blank };
                    self.tell(&id, Some((told, idle.words())));
                }
            }
            Fact::User { text, from, origin, task_id, files, .. } => {
                if origin == Origin::Steer {
                    turn.join(&task_id);
                }
                let (role, from) = (role_of(origin), Some(from));
                let told = Message { task_id: Some(task_id), role, from, ..blank };
                self.tell(&id, Some((told, text)));
                self.attach(files, Direction::In);
            }
            Fact::AssistantText { text, .. } => {
                turn.speak(Block::Text { text }, neighbours, blank, &mut self.done);
            }
            Fact::AssistantThinking { text: thinking, .. } => {
                turn.speak(Block::Thinking { thinking }, neighbours, blank, &mut self.done);
            }
            Fact::ToolCall { id, name, args, .. } => {
                // The journal has what a step cost before its calls.
                turn.calling(blank).push(Block::ToolCall { id, name, arguments: args });
            }
            Fact::ToolResult {
                id: call,
                name,
                content,
                fault,
                duration_ms,
                truncated,
                files,
                ..
            } => {
                let answers = Answers {
                    tool_call_id: call,
                    tool_name: name,
                    is_error: fault.is_some(),
                    denied: fault.is_some_and(ToolFault::is_denial),
                    duration_ms,
                    truncated,
                };
                let told = Message { role: Role::ToolResult, answers: Some(answers), ..blank };
                self.tell(&id, Some((told, content)));
                self.attach(files, Direction::Out);
            }
            Fact::Meta(Remark::Usage { model, usage, stop_reason, .. }) => {
                let (model, stop_reason) = (some(model), some(stop_reason));
                let provider = turn.provider.clone();
                turn.count(seq, Meta { provider, model, usage: Some(usage), stop_reason });
            }
            Fact::Meta(remark) => {
                if let Some(text) = words(&remark) {
                    self.tell(&id, Some((blank, text)));
                }
            }
            Fact::TurnEnd { .. } => {
                self.tell(&id, None);
                self.turns.remove(&id);
            }
            Fact::TurnSuspended { message, .. } => self.tell(&id, Some((blank, message))),
        }
    }

    /// The task that a turn is for, until its end.
    pub fn task_of(&self, turn: &TurnId) -> Option<&TaskId> {
        self.turns.get(turn)?.task.as_ref()
    }

    /// The tasks of messages that joined a turn, until its end.
    pub fn joined(&self, turn: &TurnId) -> Vec<TaskId> {
        self.turns.get(turn).map(|turn| turn.joined.clone()).unwrap_or_default()
    }

    /// How far what such a turn has read may be believed, until its end; none if its beginning is not known.
    pub fn label_of(&self, turn: &TurnId) -> Option<Label> {
        let turn = self.turns.get(turn)?;
        turn.task.as_ref().map(|_| turn.label)
    }

    /// Ends the open message of a turn, and tells one of another kind behind it.
    fn tell(&mut self, turn: &TurnId, told: Option<(Message, String)>) {
        let open = self.turns.get_mut(turn).and_then(|turn| turn.open.take());
        self.done.extend(open);
        let told =
            told.map(|(message, text)| Message { content: vec![Block::Text { text }], ..message });
        self.done.extend(told);
    }

    /// Adds files to what was just told.
    fn attach(&mut self, files: Vec<FileRef>, direction: Direction) {
        let blocks = files.into_iter().map(|file| Block::file(file, direction));
        if let Some(told) = self.done.last_mut() {
            told.content.extend(blocks);
        }
    }

    /// The messages that are over, oldest first.
    pub fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.done)
    }

    /// All messages, also those that are not over.
    pub fn finish(mut self) -> Vec<Message> {
        self.close_all();
        self.done
    }

    fn close_all(&mut self) {
        let open = self.turns.values_mut().filter_map(|turn| turn.open.take());
        let mut open: Vec<Message> = open.collect();
        open.sort_by_key(|message| message.first);
        self.done.extend(open);
    }
}

impl Turn {
    fn begin(&mut self, task_ids: Vec<TaskId>, provider: String, model: String) {
        let mut task_ids = task_ids.into_iter();
        self.task = task_ids.next();
        task_ids.for_each(|joined| self.join(&joined));
        self.provider = some(provider);
        self.model = some(model);
    }

    fn join(&mut self, task: &TaskId) {
        if !self.joined.contains(task) {
            self.joined.push(task.clone());
        }
    }

    fn blank(&self, seq: u64, id: &TurnId, timestamp: Timestamp) -> Message {
        Message {
            first: seq,
            seq,
            turn: id.clone(),
            task_id: self.task.clone(),
            role: Role::System,
            timestamp: timestamp.0,
            content: Vec::new(),
            from: None,
            pending: false,
            untrusted: false,
            meta: None,
            answers: None,
        }
    }

    /// Adds words of the model: to the block before, if they go on with it.
    fn speak(&mut self, words: Block, goes_on: bool, blank: Message, done: &mut Vec<Message>) {
        if self.counted {
            done.extend(self.open.take());
        }
        let content = self.calling(blank);
        match (content.last_mut().filter(|_| goes_on), words) {
            (Some(Block::Text { text }), Block::Text { text: more }) => text.push_str(&more),
            (Some(Block::Thinking { thinking }), Block::Thinking { thinking: more }) => {
                thinking.push_str(&more);
            }
            (_, words) => content.push(words),
        }
        self.neighbours = true;
    }

    /// Ends the step of the message that is open.
    fn count(&mut self, seq: u64, meta: Meta) {
        if let Some(message) = &mut self.open {
            message.seq = seq;
            message.meta = Some(meta);
            self.counted = true;
        }
    }

    /// What calls of the model are added to.
    fn calling(&mut self, blank: Message) -> &mut Vec<Block> {
        let seq = blank.seq;
        let message = self.open.get_or_insert_with(|| {
            self.counted = false;
            let (provider, model) = (self.provider.clone(), self.model.clone());
            let meta = Some(Meta { provider, model, ..Meta::default() });
            let untrusted = !self.label.is_trusted();
            Message { role: Role::Assistant, untrusted, meta, ..blank }
        });
        message.seq = seq;
        &mut message.content
    }
}

fn role_of(origin: Origin) -> Role {
    match origin {
        Origin::System => Role::System,
        Origin::Person | Origin::Task | Origin::Steer => Role::User,
    }
}

fn label_of(fact: &Fact) -> Label {
    match fact {
        Fact::User { label, .. } => *label,
        Fact::ToolResult { taints: true, .. } => Label::Untrusted,
        // What it stands for is read by later steps.
        Fact::Meta(Remark::Compaction(compaction)) if compaction.summary.is_some() => {
            compaction.label
        }
        _ => Label::Trusted,
    }
}

/// A word that is known.
fn some(word: String) -> Option<String> {
    (!word.is_empty()).then_some(word)
}

/// What a remark says to people, if it does.
fn words(remark: &Remark) -> Option<String> {
    match remark {
        Remark::Retry(text) | Remark::Fallback(text) | Remark::Cancel(text) => Some(text.clone()),
        Remark::Compaction(compaction) => Some(match &compaction.summary {
            Some(summary) => format!("{SUMMARY}\n{summary}"),
            None => compaction.words(),
        }),
        Remark::Parked(reason) => Some(format!("Waiting: {}.", reason.as_str())),
        Remark::Usage { .. }
        | Remark::Spent { .. }
        | Remark::Reset
        | Remark::Approval { .. }
        | Remark::NotBegun(_) => None,
    }
}

/// The same messages with one of the model per turn: its reasoning, its calls, its words; then the
/// results.
pub fn group(messages: Vec<Message>) -> Vec<Message> {
    let turns = messages.chunk_by(|one, next| one.turn == next.turn);
    turns.flat_map(|turn| group_turn(turn.to_vec())).collect()
}

fn group_turn(messages: Vec<Message>) -> Vec<Message> {
    let (mut before, mut results) = (Vec::new(), Vec::new());
    let mut answer: Option<Message> = None;
    let (mut thinking, mut calls, mut text) = (Vec::new(), Vec::new(), Vec::new());
    for mut message in messages {
        match message.role {
            Role::User | Role::System => before.push(message),
            Role::ToolResult => results.push(message),
            Role::Assistant => {
                for block in std::mem::take(&mut message.content) {
                    match block {
                        Block::Thinking { thinking: words } => thinking.push(words),
                        Block::Text { text: words } => text.push(words),
                        call @ (Block::ToolCall { .. } | Block::File { .. } | Block::Unknown) => {
                            calls.push(call);
                        }
                    }
                }
                match &mut answer {
                    None => answer = Some(message),
                    Some(answer) => {
                        answer.seq = message.seq;
                        answer.meta = added(answer.meta.take(), message.meta);
                    }
                }
            }
        }
    }
    if let Some(mut answer) = answer {
        if !thinking.is_empty() {
            answer.content.push(Block::Thinking { thinking: thinking.join("\n\n") });
        }
        answer.content.append(&mut calls);
        if !text.is_empty() {
            answer.content.push(Block::Text { text: text.join("\n\n") });
        }
        before.push(answer);
    }
    before.extend(results);
    before
}

/// What two messages cost together; the second says why the model stopped.
fn added(first: Option<Meta>, second: Option<Meta>) -> Option<Meta> {
    let (Some(first), Some(second)) = (&first, &second) else {
        return first.or(second);
    };
    let usage = match (first.usage, second.usage) {
        (Some(mut sum), Some(other)) => {
            sum += other;
            Some(sum)
        }
        (one, other) => one.or(other),
    };
    Some(Meta { usage, ..second.clone() })
}

/// Only what people and the model said to each other, as one text each, with their files.
pub fn simple(messages: Vec<Message>) -> Vec<Message> {
    // What tools gave to the person is told with the words that follow.
    let mut given = Vec::new();
    let spoken = messages.into_iter().filter_map(|message| {
        let text = message.text();
        let is_file = |block: &&Block| matches!(block, Block::File { .. });
        given.extend(message.content.iter().filter(is_file).cloned());
        let speaks = matches!(message.role, Role::User | Role::Assistant);
        (speaks && !text.is_empty()).then(|| {
            let content = [vec![Block::Text { text }], std::mem::take(&mut given)].concat();
            Message { content, ..message }
        })
    });
    spoken.collect()
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        clock::Timestamp,
        history::{Compaction, Trigger},
        task::{Label, outcome::Ending},
        tool::Effect,
        usage::Usage,
    };
    use serde_json::json;

    use super::*;

    fn merge(facts: Vec<Fact>) -> Vec<Message> {
        let mut merge = Merge::default();
        for (seq, fact) in (1..).zip(facts) {
            merge.push(HistoryEvent {
                seq,
                turn: "turn-1".into(),
                timestamp: Timestamp(seq),
                fact,
                redacted: false,
            });
        }
        merge.finish()
    }

    fn user(text: &str) -> Fact {
        Fact::User {
            text: text.to_owned(),
            from: "ann".to_owned(),
            origin: Origin::Person,
            label: Label::Trusted,
            task_id: "task-1".into(),
            files: Vec::new(),
        }
    }

    fn text(text: &str) -> Fact {
        Fact::AssistantText { text: text.to_owned(), step: 1 }
    }

    fn thinking(text: &str) -> Fact {
        Fact::AssistantThinking { text: text.to_owned(), step: 1, block: None }
    }

    fn usage(input: u64) -> Fact {
        Fact::Meta(Remark::Usage {
            step: 1,
            profile: "p".to_owned(),
            model: "m".to_owned(),
            usage: Usage { input, output: 1, ..Usage::default() },
            stop_reason: "end".to_owned(),
        })
    }

    fn call(id: &str) -> Fact {
        Fact::ToolCall {
            id: id.into(),
            name: "read".to_owned(),
            args: json!({"path": id}),
            step: 1,
            effect: Effect::Pure,
            idempotency_key: String::new(),
        }
    }

    fn result(id: &str) -> Fact {
        Fact::ToolResult {
            id: id.into(),
            name: "read".to_owned(),
            content: format!("content of {id}"),
            fault: None,
            duration_ms: 2,
            truncated: false,
            taints: false,
            rule: None,
            approved: false,
            files: Vec::new(),
            pictures: Vec::new(),
        }
    }

    fn end() -> Fact {
        Fact::TurnEnd {
            outcome: Ending::Done,
            code: None,
            message: None,
            text: String::new(),
            steps: 2,
            usage: Usage::default(),
            duration_ms: 5,
        }
    }

    fn a_turn() -> Vec<Fact> {
        vec![
            user("hello"),
            thinking("hm"),
            text("I look."),
            usage(10),
            call("a"),
            call("b"),
            result("b"),
            result("a"),
            text("Done"),
            text(" now."),
            usage(20),
            end(),
        ]
    }

    fn shape(messages: &[Message]) -> Vec<String> {
        let block = |block: &Block| match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking } => format!("({thinking})"),
            Block::ToolCall { id, .. } => format!("{id}()"),
            Block::File { filename, .. } => format!("<{filename}>"),
            Block::Unknown => String::new(),
        };
        let line = |message: &Message| {
            let blocks: Vec<_> = message.content.iter().map(block).collect();
            format!("{:?}: {}", message.role, blocks.join(" | "))
        };
        messages.iter().map(line).collect()
    }

    /// EN-49: a summary is a line of its own, and what it stands for stays.
    #[test]
    fn a_summary_is_told_where_it_was_made() {
        let compaction = Compaction {
            summary: Some("they spoke".to_owned()),
            keep_from_seq: Some(1),
            keep_from_step: None,
            shortened_over: None,
            tokens_before: 9,
            tokens_after: 3,
            trigger: Trigger::Size,
            step: 2,
            label: Label::Trusted,
            paid: None,
        };
        let compaction = Fact::Meta(Remark::Compaction(Box::new(compaction)));

        let messages = merge(vec![user("hi"), text("hello"), usage(3), compaction]);

        let told: Vec<_> = messages.iter().map(|m| (m.role, m.text())).collect();
        assert_eq!(
            told,
            [
                (Role::User, "hi".to_owned()),
                (Role::Assistant, "hello".to_owned()),
                (Role::System, format!("{SUMMARY}\nthey spoke")),
            ]
        );
    }

    /// EN-44, EN-45
    #[test]
    fn ordered_messages_stand_as_they_were_emitted() {
        let messages = merge(a_turn());

        assert_eq!(
            shape(&messages),
            [
                "User: hello",
                "Assistant: (hm) | I look. | a() | b()",
                "ToolResult: content of b",
                "ToolResult: content of a",
                "Assistant: Done now.",
            ]
        );
        let costs: Vec<_> = messages
            .iter()
            .filter_map(|message| Some(message.meta.as_ref()?.usage?.input))
            .collect();
        assert_eq!(costs, [10, 20]);
        assert_eq!((messages[1].first, messages[1].seq), (2, 6));
    }

    /// EN-44: text and thinking never mix, and what stands between parts them.
    #[test]
    fn only_neighbours_of_one_kind_are_joined() {
        let messages =
            merge(vec![text("a"), text("b"), thinking("c"), text("d"), call("x"), text("e")]);

        assert_eq!(shape(&messages), ["Assistant: ab | (c) | d | x() | e"]);
    }

    /// MV-13, SC-20: what comes from outside is marked, and so is what is said after it was read.
    #[test]
    fn what_is_not_to_be_believed_is_marked() {
        let mut outside = result("b");
        if let Fact::ToolResult { taints, .. } = &mut outside {
            *taints = true;
        }
        let facts = vec![
            user("hello"),
            text("I look."),
            usage(10),
            call("b"),
            call("a"),
            outside,
            result("a"),
            text("Done."),
        ];

        let marks: Vec<_> = merge(facts).iter().map(|it| (it.role, it.untrusted)).collect();

        assert_eq!(
            marks,
            [
                (Role::User, false),
                (Role::Assistant, false),
                (Role::ToolResult, true),
                (Role::ToolResult, false),
                (Role::Assistant, true),
            ]
        );
    }

    /// PL-76
    #[test]
    fn a_call_that_was_decided_against_did_not_fail() {
        let faults = [ToolFault::ApprovalDenied, ToolFault::ToolFailed].map(|why| {
            let mut answer = result("a");
            if let Fact::ToolResult { fault, .. } = &mut answer {
                *fault = Some(why);
            }
            answer
        });

        let told = merge(faults.into_iter().chain([result("a")]).collect());

        let answers = told.iter().filter_map(|message| message.answers.as_ref());
        let ends: Vec<_> = answers.map(|answers| (answers.is_error, answers.denied)).collect();
        assert_eq!(ends, [(true, true), (true, false), (false, false)]);
    }

    /// EN-45
    #[test]
    fn a_turn_that_broke_off_still_has_its_message() {
        assert_eq!(
            shape(&merge(vec![user("hello"), text("I wa")])),
            ["User: hello", "Assistant: I wa"]
        );
    }

    /// EN-45, EN-48: a turn that was cut off and one that waits meanwhile leave no message open behind another's end.
    #[test]
    fn messages_stand_in_the_order_in_which_they_began() {
        let start: Fact = serde_json::from_value(json!({
            "type": "turn_start", "task_ids": ["task-1"], "team": "ops", "topic": null, "source_channel": null,
            "attempt": 1, "redelivered": false, "sdk": "native", "provider": "p", "model": "m",
            "prompt_hash": "", "toolset_hash": "", "idle": 25_200_000,
        }))
        .unwrap();
        let events = [
            ("a", user("one")),
            ("a", text("I be")),
            ("b", start.clone()),
            ("b", user("two")),
            ("b", text("Two.")),
            ("b", end()),
            ("a", start),
            ("a", text("One.")),
        ];
        let mut merge = Merge::default();

        for (seq, (turn, fact)) in (1..).zip(events) {
            let (turn, timestamp) = (turn.into(), Timestamp(seq));
            merge.push(HistoryEvent { seq, turn, timestamp, fact, redacted: false });
        }

        let messages = merge.finish();
        let told = shape(&messages);
        assert!(told[2].starts_with("System: A new conversation begins here"), "{told:?}");
        let order: Vec<_> =
            messages.iter().map(|message| (message.turn.as_str(), message.first)).collect();
        assert_eq!(order, [("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5), ("a", 7), ("a", 8)]);
    }

    /// EN-46, EN-126
    #[test]
    fn grouped_holds_the_same_in_one_message() {
        let grouped = group(merge(a_turn()));

        assert_eq!(
            shape(&grouped),
            [
                "User: hello",
                "Assistant: (hm) | a() | b() | I look.\n\nDone now.",
                "ToolResult: content of b",
                "ToolResult: content of a",
            ]
        );
        let usage = grouped[1].meta.as_ref().and_then(|meta| meta.usage);
        assert_eq!(usage.map(|usage| usage.input), Some(30));
    }

    /// EN-47
    #[test]
    fn simple_is_what_was_said() {
        assert_eq!(
            shape(&simple(merge(a_turn()))),
            ["User: hello", "Assistant: I look.", "Assistant: Done now."]
        );
    }
}
