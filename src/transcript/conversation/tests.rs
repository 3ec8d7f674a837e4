use hivewright_actors::{
    doubles::disk::MemoryStorage,
    frame::{Notification, NotificationKind},
    ids::TopicId,
    store::records::Writes,
    task::{
        Label, Lane, Parked, Source, TopicRef, WaitReason, outcome::Code, records::FinishedTask,
    },
    tool::Effect,
    usage::Usage,
};
use serde_json::json;

use super::*;

fn lane() -> Lane {
    Lane { team: "main".into(), topic: Some("t-1".into()) }
}

fn task(number: u64) -> Task {
    let topic = TopicRef { id: TopicId::from("t-1"), name: "billing".to_owned() };
    let source = Source {
        channel: "ws:1".into(),
        message: Some(format!("m-{number}").into()),
        topic: Some(topic),
        notify: None,
    };
    let (id, body) = (format!("task-{number}").into(), format!("question {number}"));
    Task {
        source: Some(source),
        ..Task::new(id, lane(), body, "ann".to_owned(), Timestamp(number * 100))
    }
}

fn ended(number: u64, ending: Ending, text: &str) -> Task {
    let outcome = Outcome {
        code: (ending == Ending::Failed).then_some(Code::NoProvider),
        message: (ending == Ending::Failed).then(|| "no model".to_owned()),
        text: text.to_owned(),
        usage: Usage { input: 10, output: 2, ..Usage::default() },
        ..Outcome::new(ending, Timestamp(number * 100 + 50))
    };
    Task { outcome: Some(outcome), ..task(number) }
}

fn begin(task: &str) -> Fact {
    Fact::TurnStart {
        task_ids: vec![task.into()],
        team: "main".into(),
        topic: None,
        source_channel: None,
        attempt: 1,
        redelivered: false,
        sdk: "native".to_owned(),
        provider: "offline".to_owned(),
        model: "m".to_owned(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: None,
        root: None,
        idle: None,
    }
}

fn text(text: &str) -> Fact {
    Fact::AssistantText { text: text.to_owned(), step: 1 }
}

fn call(id: &str, args: &str) -> Fact {
    Fact::ToolCall {
        id: id.into(),
        name: "read".to_owned(),
        args: json!({ "path": args }),
        step: 1,
        effect: Effect::Pure,
        idempotency_key: String::new(),
    }
}

fn result(id: &str, content: &str) -> Fact {
    Fact::ToolResult {
        id: id.into(),
        name: "read".to_owned(),
        content: content.to_owned(),
        fault: None,
        duration_ms: 3,
        truncated: false,
        taints: false,
        rule: None,
        approved: false,
        files: Vec::new(),
        pictures: Vec::new(),
    }
}

fn steered(task: &str) -> Fact {
    Fact::User {
        text: "and this".to_owned(),
        from: "ann".to_owned(),
        origin: Origin::Steer,
        label: Label::Trusted,
        task_id: task.into(),
        files: Vec::new(),
    }
}

/// A store with tasks, and a journal of turns in pieces of two events.
#[derive(Default)]
struct Stage {
    storage: MemoryStorage,
    seq: u64,
}

impl Stage {
    fn write(&self, writes: Writes) {
        self.storage.commit(&writes.batch().unwrap()).unwrap();
    }

    fn tasks(&self, tasks: &[Task]) {
        for task in tasks {
            let key = ConversationEntry::key_of(task).unwrap();
            let writes = Writes::new().put_at(&key, &ConversationEntry::Message);
            self.write(match task.outcome {
                Some(_) => writes.put(&FinishedTask::of(task)),
                None => writes.put(task),
            });
        }
    }

    fn turn(&mut self, at: u64, facts: Vec<Fact>) {
        let turn = TurnId::from(format!("turn-{at}"));
        let events = facts.into_iter().map(|fact| {
            self.seq += 1;
            let (seq, turn) = (self.seq, turn.clone());
            HistoryEvent { seq, turn, timestamp: Timestamp(at), fact, redacted: false }
        });
        let events: Vec<HistoryEvent> = events.collect();
        for piece in events.chunks(2) {
            self.write(Writes::new().events(&lane(), 1, piece));
        }
    }

    /// What is shown of these tasks.
    fn shown(&self, numbers: &[u64], depth: Depth) -> Vec<ConversationMessage> {
        let entries = numbers.iter().map(|number| {
            let key = ConversationEntry::key_of(&task(*number)).unwrap();
            (key, ConversationEntry::Message)
        });
        let lane = LaneKey::new(&lane(), 1);
        let items = items(&self.storage, &lane, 7, entries.collect(), depth).unwrap();
        let messages = items.into_iter().map(|item| match item {
            ConversationItem::Message(message) => message,
            other => panic!("{other:?}"),
        });
        messages.collect()
    }
}

fn blocks(message: &ConversationMessage) -> Vec<String> {
    let line = |block: &ConversationBlock| match block {
        ConversationBlock::Text { text } => text.clone(),
        ConversationBlock::ToolCall { call_id, result, .. } => {
            format!("<{call_id}: {}>", result.as_deref().unwrap_or("…"))
        }
        ConversationBlock::Note { text, .. } => format!("({text})"),
    };
    message.blocks.iter().map(line).collect()
}

/// What work waits for is told while it waits, and not above the answer that came of it.
#[test]
fn what_a_turn_waited_for_is_not_told_once_it_has_gone_on() {
    let mut stage = Stage::default();
    let parked = Some(Parked { reason: WaitReason::Budget, since: Timestamp(250), until: None });
    let waiting = Task { parked, ..task(2) };
    stage.tasks(&[ended(1, Ending::Done, "Done."), waiting, task(3)]);
    let waits = |reason| Fact::Meta(Meta::Parked(reason));
    let asks = || vec![call("c1", "a"), waits(WaitReason::Approval)];
    let turn = |task: &str, then: Vec<Fact>| [vec![begin(task)], asks(), then].concat();
    stage.turn(110, turn("task-1", vec![result("c1", "A"), text("Done.")]));
    stage.turn(210, turn("task-2", vec![result("c1", "A"), waits(WaitReason::Budget)]));
    stage.turn(310, turn("task-3", Vec::new()));

    let shown = stage.shown(&[3, 2, 1], Depth::Frames);

    let shown: Vec<Vec<String>> = shown.iter().map(blocks).collect();
    let budget = "(Waiting: the budget is spent.)";
    assert_eq!(shown, [vec!["<c1: …>"], vec!["<c1: A>", budget], vec!["<c1: A>", "Done."]]);
}

/// CH-160: words, calls and results stand as they happened, and each message has its own.
#[test]
fn a_message_has_what_came_of_it_in_order() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Done, "Two files."), ended(2, Ending::Done, "Bye.")]);
    stage.turn(
        110,
        vec![
            begin("task-1"),
            text("I look."),
            call("c1", "a"),
            call("c2", "b"),
            result("c2", "B"),
            result("c1", "A"),
            Fact::Meta(Meta::Retry("Trying again.".to_owned())),
            text("Two files."),
        ],
    );
    stage.turn(210, vec![begin("task-2"), text("Bye.")]);

    let shown = stage.shown(&[2, 1], Depth::Frames);

    assert_eq!(blocks(&shown[0]), ["Bye."]);
    let expected = ["I look.", "<c1: A>", "<c2: B>", "(Trying again.)", "Two files."];
    assert_eq!(blocks(&shown[1]), expected);
    assert_eq!(
        (shown[1].message_id.as_str(), shown[1].at, shown[1].seq, shown[1].text.as_str()),
        ("m-1", 100, 7, "question 1")
    );
    assert_eq!(shown[1].end.as_ref().map(|end| (end.at, end.usage.input)), Some((150, 10)));
}

/// EN-131: who looks at it sees where a conversation began, and why.
#[test]
fn a_message_that_began_a_conversation_says_so() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Done, "Hello.")]);
    let mut begin = begin("task-1");
    if let Fact::TurnStart { idle, .. } = &mut begin {
        *idle = Some(Idle(3 * 24 * 60 * 60 * 1_000));
    }
    stage.turn(110, vec![begin, text("Hello.")]);

    let shown = stage.shown(&[1], Depth::Frames);

    let note = blocks(&shown[0]);
    assert!(note[0].contains("begins here: nothing was said for 3 days"), "{note:?}");
    assert!(note[0].contains("`sessions.idle`"), "{note:?}");
    assert_eq!(note[1..], ["Hello."]);
}

/// CH-160: also one that never had a turn, and one that waits for it.
#[test]
fn a_message_without_a_journal_is_shown_with_its_state() {
    let stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Failed, ""), task(2)]);

    let shown = stage.shown(&[1, 2], Depth::Frames);

    let end = shown[0].end.as_ref().unwrap();
    assert_eq!(
        (end.code.as_deref(), end.error.as_deref()),
        (Some("no_provider"), Some("no model"))
    );
    assert_eq!((shown[0].state, shown[1].state), (TaskState::Failed, TaskState::Accepted));
    assert!(shown[1].end.is_none() && shown[1].blocks.is_empty());
}

/// CH-84, CH-160: one that joined has the answer, and names the turn.
#[test]
fn a_message_that_joined_a_turn_has_its_answer() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Done, "Both."), ended(2, Ending::Done, "Both.")]);
    stage.turn(110, vec![begin("task-1"), text("Hm."), steered("task-2"), text("Both.")]);

    let shown = stage.shown(&[2, 1], Depth::Frames);

    assert_eq!(blocks(&shown[0]), ["Both."]);
    assert_eq!(shown[0].joined_task_id, Some("task-1".into()));
    assert_eq!(shown[1].joined_task_id, None);
}

/// CH-49, CH-160: what was said until a turn was stopped is there, though no step ended with it.
#[test]
fn an_answer_that_broke_off_is_shown_as_far_as_it_went() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Cancelled, "Once upon")]);
    stage.turn(110, vec![begin("task-1")]);

    assert_eq!(blocks(&stage.shown(&[1], Depth::Frames)[0]), ["Once upon"]);
}

/// PL-76: nothing went wrong with a call that did not run.
#[test]
fn a_call_that_was_decided_against_is_told_from_one_that_failed() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Done, "Done.")]);
    let faults = [
        Some(ToolFault::ApprovalDenied),
        Some(ToolFault::ApprovalExpired),
        Some(ToolFault::Denied),
        Some(ToolFault::ToolFailed),
        None,
    ];
    let mut facts = vec![begin("task-1")];
    for (number, why) in faults.into_iter().enumerate() {
        let id = format!("c{number}");
        let mut answer = result(&id, "said");
        if let Fact::ToolResult { fault, .. } = &mut answer {
            *fault = why;
        }
        facts.extend([call(&id, "a"), answer]);
    }
    stage.turn(110, facts);

    let shown = stage.shown(&[1], Depth::Frames).remove(0);
    let ends: Vec<(Option<bool>, bool)> = shown
        .blocks
        .iter()
        .filter_map(|block| match block {
            ConversationBlock::ToolCall { ok, denied, .. } => Some((*ok, *denied)),
            _ => None,
        })
        .collect();

    let denied = (Some(false), true);
    assert_eq!(ends, [denied, denied, denied, (Some(false), false), (Some(true), false)]);
}

/// CH-63, CH-64, SC-14: who may not read transcripts sees no more than frames show.
#[test]
fn long_results_and_thoughts_are_for_those_who_may_read_transcripts() {
    let mut stage = Stage::default();
    stage.tasks(&[ended(1, Ending::Done, "Done.")]);
    let thought = Fact::AssistantThinking { text: "hm".to_owned(), step: 1, block: None };
    let long = "x".repeat(1_000);
    let facts = vec![begin("task-1"), thought, call("c1", "a"), result("c1", &long), text("Done.")];
    stage.turn(110, facts);

    let length = |depth| {
        let shown = stage.shown(&[1], depth).remove(0);
        let result = shown.blocks.iter().find_map(|block| match block {
            ConversationBlock::ToolCall { result, .. } => result.clone(),
            _ => None,
        });
        (result.unwrap().chars().count(), shown.thinking)
    };

    assert_eq!(length(Depth::Frames), (PREVIEW, None));
    assert_eq!(length(Depth::Transcript), (1_000, Some("hm".to_owned())));
}

/// CH-160: of a long journal only the part is read that a page needs.
#[test]
fn messages_of_long_ago_are_found_without_reading_what_came_since() {
    let mut stage = Stage::default();
    for number in 1..=300 {
        stage.tasks(&[ended(number, Ending::Done, &format!("answer {number}"))]);
        let task = format!("task-{number}");
        stage.turn(number * 100 + 10, vec![begin(&task), text(&format!("answer {number}"))]);
    }
    let lane = LaneKey::new(&lane(), 1);

    let shown = stage.shown(&[20], Depth::Frames);
    let behind = sessions::piece_since(&stage.storage, &lane, Timestamp(2_050)).unwrap();
    let none = sessions::piece_since(&stage.storage, &lane, Timestamp(40_000)).unwrap();

    assert_eq!(blocks(&shown[0]), ["answer 20"]);
    assert_eq!((behind, none), (Some(41), None));
}

/// CH-154, CH-160
#[test]
fn what_a_team_told_stands_between_the_messages() {
    let stage = Stage::default();
    stage.tasks(&[task(1)]);
    let told = Notification::new(NotificationKind::Task, "ops".into(), "[ops] Ok.".to_owned(), "");
    let key = ("t-1".to_owned(), Timestamp(150), "n".to_owned());
    let message = ConversationEntry::key_of(&task(1)).unwrap();
    let entries =
        vec![(key, ConversationEntry::Notification(told)), (message, ConversationEntry::Message)];

    let lane = LaneKey::new(&lane(), 1);
    let shown = items(&stage.storage, &lane, 7, entries, Depth::Frames).unwrap();

    let [ConversationItem::Notification(told), ConversationItem::Message(_)] = &shown[..] else {
        panic!("{shown:?}");
    };
    assert_eq!((told.at, told.content.as_str()), (150, "[ops] Ok."));
}
