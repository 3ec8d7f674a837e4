//! The turn machine, driven by random models, tools, people and crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::{slot::Decision, *};
use crate::{
    doubles::{engine::reply, tools::checked},
    engine::Block,
    history::{Compaction, HistoryEvent, Meta, Trigger},
    task::Lane,
    tool::{Args, Effect, ToolFault},
};

const MAX_STEPS: u32 = 6;
/// For turns that grow.
const MANY_STEPS: u32 = 30;

fn task(number: u64, attempts: u32) -> Task {
    Task {
        arrival: number,
        deadline_at: Timestamp(1),
        attempts,
        ..Task::new(
            format!("task-{number}").into(),
            Lane { team: "main".into(), topic: None },
            format!("words {number}"),
            "someone".to_owned(),
            Timestamp(0),
        )
    }
}

fn start() -> Fact {
    Fact::TurnStart {
        task_ids: vec!["task-0".into()],
        team: "main".into(),
        topic: None,
        source_channel: None,
        attempt: 1,
        redelivered: false,
        sdk: String::new(),
        provider: String::new(),
        model: String::new(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: None,
        root: None,
        idle: None,
    }
}

/// Ten turns before this one, of a third to all of the room: some are summarised at its beginning, some later.
fn before(room: u64) -> Earlier {
    let size = (room / 30 + room % 7 * room / 90) as usize * 4;
    let turn = |number: usize| {
        let answer = Block::Text { text: "x".repeat(size) };
        vec![Message::User(format!("question {number}")), Message::Assistant(vec![answer])]
    };
    Earlier::of((0..10).map(turn).collect())
}

fn done(id: &CallId) -> ToolReply {
    ToolReply { content: format!("{id} did"), ..ToolReply::default() }
}

/// What the model will say in a step, if it is asked: text, and tools by name.
type Script = Vec<(bool, Vec<&'static str>)>;

/// A turn with its shell reduced to what must hold: wants are done in order, a record is a commit.
struct Shell {
    script: Script,
    turn: Turn,
    wants: VecDeque<Want>,
    journal: Vec<HistoryEvent>,
    /// Calls that run now, with the key they were given.
    running: BTreeMap<CallId, String>,
    asks: bool,
    /// A summary that is being written.
    summary: Option<String>,
    /// How much the model reads at once, if that is little: then results are long, and steps many.
    room: Option<u64>,
    earlier: Earlier,
    /// Every start of a call: how often, with which key.
    starts: BTreeMap<CallId, Vec<String>>,
    /// What the model was shown, per step.
    shown: BTreeMap<u32, Vec<Message>>,
    /// The same of the turns before.
    shown_before: BTreeMap<u32, Vec<Message>>,
    recorded_results: BTreeSet<CallId>,
    ends: Vec<Want>,
}

impl Shell {
    fn new(script: Script) -> Self {
        Self::within(script, None)
    }

    fn within(script: Script, room: Option<u64>) -> Self {
        Self::behind(script, room, Earlier::default())
    }

    fn behind(script: Script, room: Option<u64>, earlier: Earlier) -> Self {
        let mut turn = Self::turn(room, &earlier);
        let wants = turn.begin(start(), &Shown::default(), Vec::new()).into();
        Self {
            summary: None,
            room,
            earlier,
            script,
            turn,
            wants,
            journal: Vec::new(),
            running: BTreeMap::new(),
            asks: false,
            starts: BTreeMap::new(),
            shown: BTreeMap::new(),
            shown_before: BTreeMap::new(),
            recorded_results: BTreeSet::new(),
            ends: Vec::new(),
        }
    }

    fn turn(room: Option<u64>, earlier: &Earlier) -> Turn {
        match room {
            None => Turn::new("turn".into(), task(0, 1), MAX_STEPS),
            Some(room) => {
                Turn::new("turn".into(), task(0, 1), MANY_STEPS).within(room, 100, earlier.clone())
            }
        }
    }

    fn record(&mut self, facts: &[Fact]) {
        for fact in facts {
            if let Fact::ToolResult { id, .. } = fact {
                assert!(self.recorded_results.insert(id.clone()), "two results of {id}");
            }
            self.journal.push(HistoryEvent {
                seq: self.journal.len() as u64 + 1,
                turn: "turn".into(),
                timestamp: Timestamp(0),
                fact: fact.clone(),
                redacted: false,
            });
        }
    }

    /// Does the next thing that the turn wants. False if there is none.
    fn perform(&mut self) -> bool {
        let Some(want) = self.wants.pop_front() else {
            return false;
        };
        assert!(self.ends.is_empty(), "{want:?} after the end");
        match want {
            Want::Record(facts, _) | Want::Hold(facts, _, _) => self.record(&facts),
            Want::Stash(_) | Want::Mark(..) => {}
            Want::CallModel => {
                assert!(self.running.is_empty() && !self.asks);
                // SE-94: what does not fit is not sent.
                assert!(self.room.is_none_or(|room| self.turn.size() <= room));
                self.asks = true;
                let shown = self.turn.messages().to_vec();
                // SE-31: a step that is asked again is asked the same.
                let before = self.shown.insert(self.turn.step, shown.clone());
                assert!(before.is_none_or(|before| before == shown));
                let earlier = self.turn.earlier();
                let shown: Vec<Message> = earlier.iter().flat_map(|turn| turn.to_vec()).collect();
                let before = self.shown_before.insert(self.turn.step, shown.clone());
                assert!(before.is_none_or(|before| before == shown));
            }
            Want::Summarise(request) => {
                assert!(self.running.is_empty() && !self.asks && self.room.is_some());
                self.summary = Some(request);
            }
            Want::CallTool { call, rerun } => self.call(call, rerun),
            Want::StopCalls => {
                self.running.clear();
                self.summary = None;
                self.asks = false;
            }
            Want::End(ref facts, _)
            | Want::Suspend(ref facts, _, _)
            | Want::Park(ref facts, _, _) => {
                self.record(&facts.clone());
                self.ends.push(want);
            }
        }
        true
    }

    fn call(&mut self, call: ToolCall, rerun: bool) {
        let recorded = self.journal.iter().find_map(|event| match &event.fact {
            Fact::ToolCall { id, idempotency_key, .. } if *id == call.id => {
                Some(idempotency_key.clone())
            }
            _ => None,
        });
        let key = self.turn.idempotency_key(&call.id);
        assert_eq!(recorded.as_ref(), Some(&key), "started before it was recorded");
        assert!(!self.recorded_results.contains(&call.id), "run again");
        let effect = checked(&call.name).unwrap().effect;
        let starts = self.starts.entry(call.id.clone()).or_default();
        assert!(starts.is_empty() || effect != Effect::Irreversible, "repeated");
        assert!(rerun || starts.is_empty());
        assert!(starts.iter().all(|former| *former == key), "another key");
        starts.push(key.clone());
        self.running.insert(call.id, key);
        assert!(self.running.len() <= PARALLEL_CALLS);
        let alone = |id: &CallId| id.as_str().ends_with("alone");
        assert!(self.running.len() == 1 || !self.running.keys().any(alone), "not alone");
    }

    fn hear(&mut self, input: Input) {
        if matches!(input, Input::Stop(..)) && !self.turn.ended {
            self.wants.retain(|want| matches!(want, Want::Record(..) | Want::End(..)));
        }
        self.wants.extend(self.turn.on(input));
    }

    fn answer(&mut self) {
        if !std::mem::take(&mut self.asks) {
            return;
        }
        let step = self.turn.step;
        let (text, tools) = self.script[step as usize % self.script.len()].clone();
        let text = if text { format!("said {step}") } else { String::new() };
        let ids: Vec<String> =
            (0..).zip(&tools).map(|(place, name)| format!("{step}-{place}-{name}")).collect();
        let calls: Vec<_> = ids.iter().map(String::as_str).zip(tools).collect();
        let checks = calls.iter().map(|(_, name)| checked(name)).collect();
        let mut reply = reply(&text, &calls);
        if self.room.is_some() {
            // Nobody counts: sizes are estimated.
            reply.usage = Usage::default();
        }
        self.hear(Input::Replied(reply, checks));
    }

    /// The summary is there. It depends on what was to be summarised.
    fn summarise(&mut self) {
        if let Some(request) = self.summary.take() {
            let text = format!("summary of {} bytes", request.len());
            self.hear(Input::Summarised(Some(text), Some(paid())));
        }
    }

    fn finish_call(&mut self, which: usize) {
        let Some(id) = self.running.keys().nth(which % self.running.len().max(1)).cloned() else {
            return;
        };
        self.running.remove(&id);
        let mut reply = done(&id);
        if self.room.is_some() {
            let long = if id.as_str().contains("look") { 3_000 } else { 700 };
            reply.content.push_str(&"x".repeat(long));
        }
        self.hear(Input::Called { id, reply, took: Duration::ZERO });
    }

    /// All that was not recorded is gone.
    fn crash(&mut self) {
        if !self.ends.is_empty() {
            return;
        }
        self.running.clear();
        self.asks = false;
        self.summary = None;
        self.turn = Self::turn(self.room, &self.earlier);
        self.wants = if self.journal.is_empty() {
            self.turn.begin(start(), &Shown::default(), Vec::new()).into()
        } else {
            let check = |call: &ToolCall, _: Option<&ApprovalId>, _| checked(&call.name);
            self.turn.resume(start(), &self.journal, check, |_, _, _| Decision::Wait).into()
        };
    }

    fn run_to_the_end(&mut self) {
        for _ in 0..10_000 {
            if self.perform() {
                continue;
            }
            if !self.ends.is_empty() {
                return;
            }
            match (&self.summary, self.asks) {
                (Some(_), _) => self.summarise(),
                (None, true) => self.answer(),
                (None, false) => self.finish_call(0),
            }
        }
        panic!("no end: {:?}", self.turn);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Perform(usize),
    Answer,
    FinishCall(usize),
    Crash,
}

fn script() -> impl Strategy<Value = Script> {
    let tool = prop::sample::select(vec!["look", "save", "pay", "alone", "unknown"]);
    let step = (any::<bool>(), prop::collection::vec(tool, 0..12));
    prop::collection::vec(step, 1..6)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..4_usize).prop_map(Step::Perform),
        3 => Just(Step::Answer),
        4 => (0..12_usize).prop_map(Step::FinishCall),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 0..80)
}

fn drive(shell: &mut Shell, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Perform(times) => (0..times).for_each(|_| {
                shell.perform();
            }),
            Step::Answer => {
                shell.summarise();
                shell.answer();
            }
            Step::FinishCall(which) => shell.finish_call(which),
            Step::Crash => shell.crash(),
        }
    }
}

/// The end without what depends on crashes.
fn ending(shell: &Shell) -> &End {
    match &shell.ends[..] {
        [Want::End(_, end)] => end,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// SE-83 to SE-89, SE-144 to SE-150, TO-07: see the assertions of the shell.
    #[test]
    fn a_turn_ends_once_and_repeats_nothing_however_often_it_crashes(
        script in script(), steps in steps()
    ) {
        let mut shell = Shell::new(script);
        drive(&mut shell, steps);
        shell.run_to_the_end();

        prop_assert_eq!(shell.ends.len(), 1);
        prop_assert!(shell.wants.is_empty());
        prop_assert!(shell.turn.step <= MAX_STEPS);
    }

    /// SE-31, SE-144: with nothing irreversible in flight, a crash changes neither what the model is
    /// shown nor the answer.
    #[test]
    fn a_turn_that_crashed_ends_like_one_that_did_not(
        script in script(), steps in steps()
    ) {
        let script: Script = script
            .into_iter()
            .map(|(text, tools)| (text, tools.into_iter().filter(|tool| *tool != "pay").collect()))
            .collect();
        let mut smooth = Shell::new(script.clone());
        smooth.run_to_the_end();
        let mut rough = Shell::new(script);
        drive(&mut rough, steps);
        rough.run_to_the_end();

        prop_assert_eq!(&rough.shown, &smooth.shown);
        prop_assert_eq!(ending(&rough), ending(&smooth));
        prop_assert_eq!(rough.turn.usage, smooth.turn.usage);
    }

    /// SE-31, SE-92 to SE-94: the same for a conversation that does not fit: what was left out stays left
    /// out, and is summarised once. The task stays, and each result stands behind its call.
    #[test]
    fn a_conversation_is_made_smaller_once_however_often_it_crashes(
        tools in prop::collection::vec(
            prop::sample::select(vec!["look", "save", "alone"]), 1..4
        ),
        steps in steps(),
        room in 4_000..12_000_u64,
    ) {
        let script: Script = vec![(true, tools)];
        let mut smooth = Shell::behind(script.clone(), Some(room), before(room));
        smooth.run_to_the_end();
        let mut rough = Shell::behind(script, Some(room), before(room));
        drive(&mut rough, steps);
        rough.run_to_the_end();

        prop_assert_eq!(&rough.shown, &smooth.shown);
        prop_assert_eq!(&rough.shown_before, &smooth.shown_before);
        prop_assert_eq!(ending(&rough), ending(&smooth));
        prop_assert_eq!(rough.turn.usage, smooth.turn.usage);
        for messages in rough.shown.values() {
            prop_assert_eq!(&messages[0], &Message::User("words 0".to_owned()));
            let mut called: Vec<&CallId> = Vec::new();
            for message in messages {
                match message {
                    Message::Assistant(blocks) => called = blocks.iter().filter_map(|block| {
                        match block {
                            Block::Call(call) => Some(&call.id),
                            _ => None,
                        }
                    }).collect(),
                    Message::ToolResults(results) => {
                        let answered: Vec<_> = results.iter().map(|result| &result.id).collect();
                        prop_assert_eq!(std::mem::take(&mut called), answered);
                    }
                    Message::User(_) | Message::Joined(_) | Message::Files(_) => {}
                }
            }
            prop_assert!(called.is_empty());
        }
        // The journal keeps all results as they were.
        let short = rough.journal.iter().any(|event| matches!(
            &event.fact, Fact::ToolResult { content, .. } if content.len() < 700
        ));
        prop_assert!(!short);
    }

    /// SE-85: results stand in the order of the calls, whatever the order they came in.
    #[test]
    fn results_go_to_the_model_in_call_order(script in script(), steps in steps()) {
        let mut shell = Shell::new(script);
        drive(&mut shell, steps);
        shell.run_to_the_end();

        for messages in shell.shown.values() {
            for pair in messages.windows(2) {
                if let [Message::Assistant(blocks), Message::ToolResults(results)] = pair {
                    let called: Vec<_> = blocks.iter().filter_map(|block| match block {
                        Block::Call(call) => Some(&call.id),
                        _ => None,
                    }).collect();
                    let answered: Vec<_> = results.iter().map(|result| &result.id).collect();
                    prop_assert_eq!(called, answered);
                }
            }
        }
    }

    /// SE-132: a stop at any moment ends the turn once, with results for all open calls.
    #[test]
    fn a_stop_at_any_moment_ends_the_turn(
        script in script(), steps in steps(),
        stop in prop::sample::select(vec![Stop::Cancelled, Stop::Interrupted, Stop::Deadline, Stop::Stalled])
    ) {
        let mut shell = Shell::new(script);
        drive(&mut shell, steps);
        let ended = shell.turn.ended;
        shell.hear(Input::Stop(stop, "half a".to_owned()));
        shell.run_to_the_end();

        prop_assert_eq!(shell.ends.len(), 1);
        prop_assert!(shell.wants.is_empty());
        match &shell.ends[0] {
            Want::Suspend(..) => prop_assert_eq!(stop, Stop::Stalled),
            Want::End(_, end) if !ended => {
                prop_assert_ne!(stop, Stop::Stalled);
                prop_assert!(end.text.ends_with("half a"));
                let calls = shell.journal.iter().filter_map(|event| match &event.fact {
                    Fact::ToolCall { id, .. } => Some(id.clone()),
                    _ => None,
                });
                prop_assert_eq!(calls.collect::<BTreeSet<_>>(), shell.recorded_results);
            }
            _ => prop_assert!(ended),
        }
    }
}

/// SE-30: words that were being said when the turn was stopped are journalled, and no others.
#[test]
fn half_an_answer_is_journalled_when_the_turn_is_stopped() {
    for (streaming, expected) in [("half a", vec!["half a"]), ("", vec![])] {
        let mut shell = Shell::new(vec![(true, vec![])]);
        drive(&mut shell, vec![Step::Perform(9)]);
        shell.hear(Input::Stop(Stop::Cancelled, streaming.to_owned()));
        shell.run_to_the_end();

        let said = shell.journal.iter().filter_map(|event| match &event.fact {
            Fact::AssistantText { text, .. } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }
}

/// SE-147, SE-148: of what was in flight, the idempotent call runs again with its key, the
/// irreversible one does not.
#[test]
fn calls_in_flight_at_a_crash_are_treated_by_their_effect() {
    let mut shell = Shell::new(vec![(true, vec![]), (false, vec!["save", "pay", "look"])]);
    while shell.perform() {}
    shell.answer();
    while shell.perform() {}
    shell.finish_call(2);
    while shell.perform() {}

    shell.crash();
    shell.run_to_the_end();

    let starts: Vec<_> = shell.starts.iter().map(|(id, keys)| (id.as_str(), keys.len())).collect();
    assert_eq!(starts, [("1-0-save", 2), ("1-1-pay", 1), ("1-2-look", 1)]);
    assert_eq!(shell.starts["1-0-save"], ["turn:1:0", "turn:1:0"]);
    let Some(Message::ToolResults(results)) = shell.shown[&2].last() else {
        panic!("{:?}", shell.shown);
    };
    assert_eq!(results[1].fault, Some(ToolFault::UnknownOutcome));
    assert_eq!(ending(&shell).ending, Ending::Done);
}

/// SE-150
#[test]
fn an_answer_without_its_end_is_the_end() {
    let mut turn = Turn::new("turn".into(), task(0, 2), MAX_STEPS);
    let fact = Fact::AssistantText { text: "All done.".to_owned(), step: 1 };
    let journal = [HistoryEvent {
        seq: 1,
        turn: "turn".into(),
        timestamp: Timestamp(0),
        fact,
        redacted: false,
    }];

    let wants =
        turn.resume(start(), &journal, |call, _, _| checked(&call.name), |_, _, _| Decision::Wait);

    let end = End {
        ending: Ending::Done,
        code: None,
        message: None,
        text: "All done.".to_owned(),
        truncated: false,
    };
    assert_eq!(wants, [Want::End(vec![start()], end)]);
}

/// SE-12, SE-150: an answer that the output limit cut is no whole one after a restart either.
#[test]
fn a_cut_answer_without_its_end_is_a_cut_end() {
    let facts = [
        Fact::AssistantText { text: "Once upon a".to_owned(), step: 1 },
        Fact::Meta(Meta::Usage {
            step: 1,
            profile: String::new(),
            model: String::new(),
            usage: Usage::default(),
            stop_reason: "max_tokens".to_owned(),
        }),
    ];
    let journal: Vec<HistoryEvent> = (1..)
        .zip(facts)
        .map(|(seq, fact)| HistoryEvent {
            seq,
            turn: "turn".into(),
            timestamp: Timestamp(0),
            fact,
            redacted: false,
        })
        .collect();
    let mut turn = Turn::new("turn".into(), task(0, 2), MAX_STEPS);

    let wants =
        turn.resume(start(), &journal, |call, _, _| checked(&call.name), |_, _, _| Decision::Wait);

    let [Want::End(_, end)] = &wants[..] else {
        panic!("{wants:?}");
    };
    assert_eq!((end.text.as_str(), end.truncated), ("Once upon a", true));
}

/// SE-84
#[test]
fn too_many_steps_fail_with_what_was_said() {
    let mut shell = Shell::new(vec![(true, vec!["look"])]);

    shell.run_to_the_end();

    let said: Vec<String> = (1..=MAX_STEPS).map(|step| format!("said {step}")).collect();
    let end = End {
        ending: Ending::Failed,
        code: Some(Code::StepLimit),
        message: Some("Stopped after 6 steps without a final answer.".to_owned()),
        text: said.join("\n\n"),
        truncated: false,
    };
    assert_eq!(*ending(&shell), end);
}

/// SE-89
#[test]
fn an_empty_answer_is_a_failure_that_names_the_tools() {
    let mut shell = Shell::new(vec![(false, vec![]), (false, vec!["look", "save"])]);

    shell.run_to_the_end();

    let end = End {
        ending: Ending::Failed,
        code: Some(Code::EmptyAnswer),
        message: Some("the model answered with nothing (tools that ran: look, save)".to_owned()),
        text: String::new(),
        truncated: false,
    };
    assert_eq!(*ending(&shell), end);
}

/// SE-134: words that join stand before the next model call, in the order they came.
#[test]
fn words_that_join_come_after_the_results_and_before_the_next_call() {
    let mut shell = Shell::new(vec![(true, vec![]), (true, vec!["look"])]);
    while shell.perform() {}
    shell.answer();
    while shell.perform() {}
    shell.hear(Input::Steered(Box::new(task(2, 1))));
    shell.hear(Input::Steered(Box::new(task(1, 1))));
    shell.run_to_the_end();

    let tail = &shell.shown[&2][2..];
    assert!(matches!(tail[0], Message::ToolResults(_)), "{tail:?}");
    let words = [1, 2].map(|number| {
        let Task { body: text, from, label, id: task, .. } = task(number, 1);
        Message::Joined(JoinedWords { text, from, label, task })
    });
    assert_eq!(tail[1..], words);
}

/// MV-13: words that join are believed as far as whoever said them, also after a crash.
#[test]
fn words_that_join_make_the_turn_as_untrusted_as_they_are() {
    let mut shell = Shell::new(vec![(true, vec![]), (true, vec!["look"])]);
    while shell.perform() {}
    let stranger = Task { label: Label::Untrusted, ..task(1, 1) };
    shell.hear(Input::Steered(Box::new(stranger)));
    let before = shell.turn.label;
    shell.answer();
    while shell.perform() {}
    shell.finish_call(0);
    while shell.perform() {}
    let joined = shell.turn.label;
    shell.crash();

    assert_eq!(
        [before, joined, shell.turn.label],
        [Label::Trusted, Label::Untrusted, Label::Untrusted]
    );
}

/// TO-10, PL-67, MV-13: a turn that goes on is looked at with what it had read, and by the rules of now: a call
/// that was under way waits for a person if these ask for one, and is then taken up as one that
/// may have taken effect.
#[test]
fn a_call_that_was_under_way_is_looked_at_again_with_what_the_turn_had_read() {
    let mut shell = Shell::new(vec![(true, vec![]), (false, vec!["save", "rumour"])]);
    while shell.perform() {}
    shell.answer();
    while shell.perform() {}
    let (id, reply) = (CallId::from("1-1-rumour"), done(&"1-1-rumour".into()));
    shell.hear(Input::Called {
        id,
        reply: ToolReply { taints: true, rule: None, ..reply },
        took: Duration::ZERO,
    });
    while shell.perform() {}
    let check = |call: &ToolCall, _: Option<&ApprovalId>, label: Label| match label {
        Label::Trusted => checked(&call.name),
        Label::Untrusted => checked(&format!("held-{}", call.name)),
    };

    let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
    let wants = turn.resume(start(), &shell.journal, check, |_, _, _| Decision::Wait);
    let [Want::Hold(facts, _, held), Want::Park(_, _, wait)] = &wants[..] else {
        panic!("{wants:?}");
    };
    let asked: Vec<_> = held.iter().map(|held| held.call.id.as_str()).collect();
    assert_eq!(asked, ["1-0-save"]);
    assert_eq!(wait.note, "Waiting for approval: save.");

    shell.record(facts);
    shell.record(&[Fact::Meta(Meta::Approval {
        call: "1-0-save".into(),
        approval: "approval-1".into(),
    })]);
    for decision in [Decision::Run, Decision::Begun] {
        let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
        let wants = turn.resume(start(), &shell.journal, check, |_, _, label| match label {
            Label::Untrusted => decision.clone(),
            Label::Trusted => Decision::Wait,
        });
        let again = wants.iter().find_map(|want| match want {
            Want::CallTool { call, rerun } => Some((call.id.as_str(), *rerun)),
            _ => None,
        });
        assert_eq!(again, Some(("1-0-save", true)), "{decision:?}");
    }
}

/// SE-125: pauses grow with how often the same was waited for in a row.
#[test]
fn waits_for_something_else_are_counted_anew() {
    let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
    turn.waits_for(WaitReason::ProviderDown);
    turn.waits_for(WaitReason::ProviderDown);
    let in_a_row = turn.times_waited(WaitReason::ProviderDown);
    turn.waits_for(WaitReason::RateLimit);

    let times = [WaitReason::RateLimit, WaitReason::ProviderDown];
    assert_eq!((in_a_row, times.map(|reason| turn.times_waited(reason))), (2, [1, 0]));
}

/// CH-65: whoever was told that the turn waits is not told of each try, until the model has answered.
#[test]
fn a_turn_knows_that_it_has_waited_until_the_model_answers() {
    let mut shell = Shell::new(vec![(true, vec![])]);
    while shell.perform() {}
    let at_first = shell.turn.has_waited();
    shell.record(&[Fact::Meta(Meta::Parked(WaitReason::ProviderDown))]);
    shell.crash();
    let after_waiting = shell.turn.has_waited();
    while shell.perform() {}
    shell.answer();

    assert_eq!((at_first, after_waiting, shell.turn.has_waited()), (false, true, false));
}

/// OR-61: secrets of a call are kept before anything is said of it, and the turn does not hold them.
#[test]
fn the_secrets_of_a_call_are_kept_before_it_is_journalled() {
    let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
    turn.begin(start(), &Shown::default(), Vec::new());
    let stow = Stow::new(|| Box::pin(std::future::ready(Err(String::new()))));
    let reply = reply("", &[("c1", "held-save")]);
    let checked = Checked { stow: Some(stow.clone()), ..checked("held-save").unwrap() };

    let wants = turn.on(Input::Replied(reply, vec![Ok(checked)]));

    assert_eq!(wants[0], Want::Stash(vec![stow]));
    assert!(matches!(wants[1], Want::Hold(..)), "{wants:?}");
    assert!(turn.calls.iter().all(|slot| slot.checked.as_ref().unwrap().stow.is_none()));
}

/// SE-83, SE-89: what the service asks a turn for while it runs: size, requests, limits, words and arguments.
#[test]
fn a_turn_tells_what_it_has_done_and_what_it_waits_for() {
    let mut shell = Shell::new(vec![(true, vec![]), (true, vec!["report_run", "pay"])]);
    while shell.perform() {}
    let before = shell.turn.size();
    assert_eq!((shell.turn.first_words(), shell.turn.longest_call()), ("", None));
    shell.answer();
    while shell.perform() {}

    assert_eq!(shell.turn.longest_call(), Some(Duration::from_secs(120)));
    assert_eq!(shell.turn.first_words(), "said 1");
    assert_eq!(shell.turn.arguments_of(&"1-1-pay".into()).as_deref(), Some("{}"));
    assert_eq!(shell.turn.arguments_of(&"2-0-pay".into()), None);
    assert_eq!(shell.turn.report, None);
    shell.finish_call(0);
    while shell.perform() {}
    assert_eq!(shell.turn.report, Some(serde_json::json!({})));
    shell.crash();
    assert_eq!(shell.turn.report, Some(serde_json::json!({})), "read from the journal");
    shell.run_to_the_end();

    assert!(shell.turn.size() > before + 1, "{} after {before}", shell.turn.size());
    assert_eq!(shell.turn.requests(), 2);
    assert_eq!(shell.turn.first_words(), "said 1");
}

/// A call that waits for a person is shown with the arguments it was made with, those that are no JSON as they came.
#[test]
fn the_arguments_of_a_call_are_those_it_was_made_with() {
    let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
    turn.begin(start(), &Shown::default(), Vec::new());
    let mut step = reply("", &[("c1", "look"), ("c2", "save"), ("c3", "pay")]);
    let args = [
        Args::Json(serde_json::json!({"at": 1})),
        Args::Unreadable { unreadable: "{\"at\": ".to_owned(), reason: String::new() },
        Args::Json(serde_json::json!({"at": 3})),
    ];
    for (block, given) in step.blocks.iter_mut().zip(args) {
        if let Block::Call(call) = block {
            call.args = given;
        }
    }
    let checks = ["look", "save", "pay"].map(checked).into();

    turn.on(Input::Replied(step, checks));

    let shown = ["c1", "c2", "c3"].map(|id| turn.arguments_of(&id.into()));
    let expected = ["{\"at\":1}", "{\"at\": ", "{\"at\":3}"];
    assert_eq!(shown, expected.map(|text| Some(text.to_owned())));
}

/// SE-93: a summary is asked for with the task, is counted as a request, and stands in for what it summarises.
#[test]
fn a_summary_is_asked_for_with_the_task_and_counted() {
    let mut shell = Shell::within(vec![(true, vec!["look", "save"])], Some(4_000));
    let request = loop {
        if !shell.perform() {
            match shell.summary.clone() {
                Some(request) => break request,
                None if shell.asks => shell.answer(),
                None => shell.finish_call(0),
            }
        }
    };
    let asked = u64::from(shell.turn.step);
    assert_eq!(shell.turn.requests(), asked);

    shell.summarise();

    assert!(request.contains("words 0"), "{request}");
    assert_eq!(shell.turn.requests(), asked + 1);
}

fn paid() -> Paid {
    let usage = Usage { input: 3, ..Usage::default() };
    Paid { profile: "p".to_owned(), model: "m".to_owned(), usage }
}

/// SE-93, OP-26: the summary of a session is taken if it is shorter than what it stands for, and counted with
/// what stays.
#[test]
fn the_summary_of_a_session_is_shorter_than_what_it_stands_for() {
    let summarised = |tokens: usize| {
        let mut turn = Turn::new("turn".into(), task(0, 1), MAX_STEPS);
        let (request, label) = ("Summarise.".to_owned(), Label::Untrusted);
        let past = Past { request, keep_from_seq: 7, tokens: 100, kept: 40, label };
        turn.compact(start(), Ok(past));
        turn.on(Input::Summarised(Some("four".repeat(tokens)), Some(paid())))
    };

    let [Want::End(facts, end)] = &summarised(59)[..] else { panic!("no end") };
    let [Fact::Meta(Meta::Compaction(compaction))] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(end.ending, Ending::Done);
    assert_eq!((compaction.tokens_before, compaction.tokens_after), (100, 99));
    assert_eq!((compaction.keep_from_seq, compaction.label), (Some(7), Label::Untrusted));
    let [Want::End(facts, end)] = &summarised(60)[..] else { panic!("no end") };
    assert_eq!((end.ending, end.code), (Ending::Failed, Some(Code::ProviderError)));
    assert!(matches!(facts[..], [Fact::Meta(Meta::Spent { .. })]), "{facts:?}");
}

/// SE-93: a summary that could not be had changes nothing, and what it cost is in the journal.
#[test]
fn a_summary_that_could_not_be_had_is_paid_for_all_the_same() {
    let without = |paid: Option<Paid>| {
        let mut turn =
            Turn::new("turn".into(), task(0, 1), MANY_STEPS).within(4_000, 100, Earlier::default());
        turn.begin(start(), &Shown::default(), Vec::new());
        for place in 0.. {
            let id = format!("c{place}");
            let mut step = reply(&"word ".repeat(200), &[(&id, "look")]);
            step.usage = Usage::default();
            turn.on(Input::Replied(step, vec![checked("look")]));
            let (id, took) = (CallId::from(id), Duration::ZERO);
            let wants = turn.on(Input::Called { reply: done(&id), id, took });
            if wants.iter().any(|want| matches!(want, Want::Summarise(_))) {
                break;
            }
        }
        turn.on(Input::Summarised(None, paid))
    };

    assert_eq!(without(None), [Want::CallModel]);
    let Paid { profile, model, usage } = paid();
    let spent = Fact::Meta(Meta::Spent { profile, model, usage });
    assert_eq!(without(Some(paid())), [Want::Record(vec![spent], Vec::new()), Want::CallModel]);
}

fn too_long() -> Input {
    let failure = EngineFailure::new(Code::ContextOverflow, "the conversation is too long");
    Input::Failed { failure, said: false, now: Timestamp(0) }
}

fn is_retry(want: &Want) -> bool {
    matches!(want, Want::Record(facts, _) if matches!(facts[..], [Fact::Meta(Meta::Retry(_))]))
}

/// A turn that has called tools in four steps, and asks the model once more.
fn long() -> Shell {
    let mut shell = Shell::new(vec![(true, vec!["look", "save"])]);
    for _ in 0..4 {
        while shell.perform() {}
        shell.answer();
        while shell.perform() || !shell.running.is_empty() {
            shell.finish_call(0);
        }
    }
    while shell.perform() {}
    shell
}

/// SE-94: a conversation that the provider finds too long is made smaller and the step tried again, and that is
/// in the journal; one that cannot be made smaller is the end, without a word of trying.
#[test]
fn a_step_that_overflows_is_tried_again_if_the_conversation_can_become_smaller() {
    let mut long = long();
    let mut short = Shell::within(vec![(true, vec![])], Some(4_000));
    while short.perform() {}

    let tried = long.turn.on(too_long());
    let ended = short.turn.on(too_long());

    assert!(is_retry(&tried[0]), "{tried:?}");
    assert!(!long.turn.ended);
    let [Want::End(facts, end)] = &ended[..] else { panic!("{ended:?}") };
    assert!(facts.is_empty(), "{facts:?}");
    assert_eq!(end.code, Some(Code::ContextOverflow));
    // A new conversation would be no shorter.
    let advice = end.message.as_deref().unwrap_or_default();
    assert!(advice.contains("instructions and tools") && !advice.contains("/new"), "{advice}");
}

/// SE-94: a step is tried again once, also if the process ended in between.
#[test]
fn a_step_that_overflowed_before_a_crash_is_not_made_smaller_again() {
    let ends = |trigger: Trigger| {
        let mut shell = long();
        let compaction = Compaction {
            summary: None,
            keep_from_seq: None,
            keep_from_step: None,
            shortened_over: Some(500),
            tokens_before: 10,
            tokens_after: 5,
            trigger,
            step: shell.turn.step,
            label: Label::Trusted,
            paid: None,
        };
        shell.record(&[Fact::Meta(Meta::Compaction(Box::new(compaction)))]);
        shell.crash();
        while shell.perform() {}
        shell.turn.on(too_long());
        shell.turn.ended
    };

    assert!(ends(Trigger::Overflow));
    assert!(!ends(Trigger::Size));
}

/// TR-45: only `report_run` reports about a run, and only when it succeeded.
#[test]
fn a_call_that_failed_or_is_another_reports_nothing_about_a_run() {
    for (name, fault) in [("look", None), ("report_run", Some(ToolFault::Timeout))] {
        let mut shell = Shell::new(vec![(true, vec![]), (true, vec![name, "pay"])]);
        while shell.perform() {}
        shell.answer();
        while shell.perform() {}
        let id: CallId = format!("1-0-{name}").into();
        assert!(shell.running.remove(&id).is_some());
        let reply = ToolReply { fault, ..done(&id) };
        shell.hear(Input::Called { id, reply, took: Duration::ZERO });

        assert_eq!(shell.turn.report, None, "{name}");
    }
}

/// SE-85: a call begins as soon as there is a place for it, also beside calls that began before.
#[test]
fn a_call_takes_the_place_of_whichever_ended_first() {
    let mut shell = Shell::new(vec![(true, vec![]), (true, vec!["look"; PARALLEL_CALLS + 1])]);
    while shell.perform() {}
    shell.answer();
    while shell.perform() {}
    let last: CallId = format!("1-{PARALLEL_CALLS}-look").into();
    assert!(!shell.running.contains_key(&last));

    shell.finish_call(1);
    while shell.perform() {}

    assert!(shell.running.contains_key(&last) && shell.running.contains_key("1-0-look"));
}

/// SE-84: a text that is as long as one may be is whole, one that is longer is cut and says so.
#[test]
fn a_text_is_cut_when_it_is_longer_than_one_may_be() {
    let longest = 1 << 20;
    for (length, truncated) in [(longest, false), (longest + 1, true)] {
        let mut shell = Shell::new(vec![(true, vec![])]);
        while shell.perform() {}
        shell.hear(Input::Replied(reply(&"x".repeat(length), &[]), Vec::new()));
        shell.run_to_the_end();

        let end = ending(&shell);
        let whole = end.text == "x".repeat(length);
        assert_eq!((end.truncated, whole), (truncated, !truncated), "{length}");
    }
}
