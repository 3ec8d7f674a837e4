use hivewright_actors::task::{WaitReason, outcome::Code, records::LaneKey};
use proptest::{prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::transcript::{
    lines::Writer,
    merge::{Merge, group},
};

fn lane() -> Lane {
    Lane { team: "ops".into(), topic: Some("t-1".into()) }
}

fn lines_of(events: &[HistoryEvent]) -> String {
    let mut lines = Writer::new(&LaneKey::new(&lane(), 1));
    events.iter().cloned().for_each(|event| lines.push(event));
    lines.finish()
}

fn events_of(reading: &Reading) -> Vec<HistoryEvent> {
    reading.turns.iter().flatten().cloned().collect()
}

/// What was said, a line each.
fn said(reading: &Reading) -> Vec<String> {
    let mut merge = Merge::default();
    events_of(reading).into_iter().for_each(|event| merge.push(event));
    let line = |message: crate::api::transcript::Message| {
        let blocks = message.content.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { thinking } => format!("({thinking})"),
            Block::ToolCall { name, arguments, .. } => format!("{name} {arguments}"),
            Block::File { filename, .. } => filename.clone(),
            Block::Unknown => String::new(),
        });
        format!("{} {}: {}", message.turn, message.role, blocks.collect::<Vec<_>>().join(" | "))
    };
    merge.finish().into_iter().map(line).collect()
}

fn start(provider: &str, model: &str, task: u8) -> Fact {
    Fact::TurnStart {
        task_ids: vec![format!("task-{task}").into()],
        team: "ops".into(),
        topic: Some("t-1".into()),
        source_channel: None,
        attempt: 1,
        redelivered: false,
        sdk: "native".to_owned(),
        provider: provider.to_owned(),
        model: model.to_owned(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: None,
        root: None,
        idle: None,
    }
}

fn end(outcome: Ending, code: Option<Code>) -> Fact {
    Fact::TurnEnd {
        outcome,
        code,
        message: code.map(|code| code.to_string()),
        text: "over".to_owned(),
        steps: 1,
        usage: Usage::default(),
        duration_ms: 3,
    }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z\"\\\\\n\u{e9}\u{1f600} ]{0,12}", Just(format!("{SUMMARY}\nthey spoke"))]
}

fn usage() -> impl Strategy<Value = Usage> {
    (0..5_000_u64, 0..500_u64, 0..9_u64, prop::option::of(0.0..9.0_f64)).prop_map(
        |(input, output, cache_read, cost_usd)| Usage {
            input,
            output,
            cache_read,
            cost_usd,
            ..Usage::default()
        },
    )
}

fn fact() -> impl Strategy<Value = Fact> {
    let origins = [Origin::Person, Origin::Task, Origin::Steer, Origin::System];
    let models = select(vec!["m", "other", ""]);
    prop_oneof![
        (words(), select(origins.to_vec())).prop_map(|(text, origin)| Fact::User {
            text,
            from: "ann".to_owned(),
            origin,
            label: Label::Untrusted,
            task_id: "task-1".into(),
            files: Vec::new(),
        }),
        words().prop_map(|text| Fact::AssistantText { text, step: 1 }),
        words().prop_map(|text| Fact::AssistantThinking { text, step: 1, block: None }),
        ("[a-c]", words()).prop_map(|(id, text)| Fact::ToolCall {
            id: id.into(),
            name: "read".to_owned(),
            args: json!({ "path": text, "depth": 0.1 }),
            step: 1,
            effect: Effect::Pure,
            idempotency_key: "k".to_owned(),
        }),
        ("[a-c]", words(), any::<bool>()).prop_map(|(id, content, fails)| Fact::ToolResult {
            id: id.into(),
            name: "read".to_owned(),
            content,
            fault: fails.then_some(ToolFault::Timeout),
            duration_ms: 7,
            truncated: true,
            taints: true,
            rule: None,
            approved: true,
            files: Vec::new(),
            pictures: Vec::new(),
        }),
        (models, usage(), select(vec!["stop", ""])).prop_map(|(model, usage, stop)| {
            Fact::Meta(Remark::Usage {
                step: 1,
                profile: "p".to_owned(),
                model: model.to_owned(),
                usage,
                stop_reason: stop.to_owned(),
            })
        }),
        words().prop_map(|text| Fact::Meta(Remark::Retry(text))),
        Just(Fact::Meta(Remark::Reset)),
        Just(Fact::Meta(Remark::Parked(WaitReason::Approval))),
        words().prop_map(|message| Fact::TurnSuspended { code: Code::Network, message }),
    ]
}

/// What one of three turns did before another went on, or it ended.
fn stretch() -> impl Strategy<Value = (u8, Fact, Vec<Fact>, Option<Fact>)> {
    let begin = (select(vec!["anthropic", ""]), select(vec!["m", "n", ""]), 0..3_u8);
    let ends = select(vec![(Ending::Done, None), (Ending::Failed, Some(Code::StepLimit))]);
    (begin, prop::collection::vec(fact(), 0..12), prop::option::of(ends)).prop_map(
        |((provider, model, turn), facts, ends)| {
            let end = ends.map(|(outcome, code)| end(outcome, code));
            (turn, start(provider, model, turn), facts, end)
        },
    )
}

fn journal() -> impl Strategy<Value = Vec<HistoryEvent>> {
    prop::collection::vec(stretch(), 1..8).prop_map(|stretches| {
        let mut lives = [0; 3];
        let mut events = Vec::new();
        for (turn, start, facts, end) in stretches {
            let life = &mut lives[usize::from(turn)];
            let id: TurnId = format!("turn-{turn}-{life}").into();
            *life += u8::from(end.is_some());
            for fact in [start].into_iter().chain(facts).chain(end) {
                let seq = events.len() as u64 + 1;
                let timestamp = Timestamp(1_794_703_151_000 + seq);
                let (turn, redacted) = (id.clone(), false);
                events.push(HistoryEvent { seq, turn, timestamp, fact, redacted });
            }
        }
        events
    })
}

/// The words, calls and results of messages, each kind in order.
fn parts(messages: &[crate::api::transcript::Message]) -> [Vec<String>; 5] {
    let mut parts = <[Vec<String>; 5]>::default();
    for message in messages {
        for block in &message.content {
            let (place, text) = match (block, message.role) {
                (Block::Text { text }, Role::Assistant) => (0, text.clone()),
                (Block::Text { text }, Role::ToolResult) => (1, text.clone()),
                (Block::Text { text }, _) => (2, text.clone()),
                (Block::Thinking { thinking }, _) => (3, thinking.clone()),
                (Block::ToolCall { id, arguments, .. }, _) => (4, format!("{id}{arguments}")),
                (Block::File { .. } | Block::Unknown, _) => continue,
            };
            parts[place].push(text);
        }
    }
    parts
}

/// Lines without the labels of turns. Here turns are torn apart, and a line counts as one of the turn that ends behind it.
fn unlabelled(lines: &str) -> String {
    lines.replace("\"label\":\"trusted\",", "").replace("\"label\":\"untrusted\",", "")
}

proptest! {
    /// EN-126
    #[test]
    fn what_is_exported_imported_and_exported_is_the_same(events in journal()) {
        let exported = lines_of(&events);

        let again = read(&lane(), &exported).map(|reading| {
            prop_assert_eq!(reading.skipped, 0);
            Ok(unlabelled(&lines_of(&events_of(&reading))))
        });

        let has_messages = exported.contains("\"type\":\"history\"");
        prop_assert_eq!(again.transpose()?, has_messages.then(|| unlabelled(&exported)));
    }

    /// EN-126, EN-46
    #[test]
    fn grouped_holds_the_blocks_of_ordered(events in journal()) {
        let mut merge = Merge::default();
        events.into_iter().for_each(|event| merge.push(event));
        let ordered = merge.finish();

        for turn in ordered.chunk_by(|one, next| one.turn == next.turn) {
            let [texts, results, words, thinking, calls] = parts(turn);
            let joined = |texts: Vec<String>| {
                if texts.is_empty() { texts } else { vec![texts.join("\n\n")] }
            };
            let expected = [joined(texts), results, words, joined(thinking), calls];
            prop_assert_eq!(parts(&group(turn.to_vec())), expected);
        }
    }

    /// EN-51: whatever a file holds, it is read without a fault.
    #[test]
    fn no_text_is_too_strange(text in "(\\{?\"?(type|role|session|history|message)?\"?:?[a-z0-9\"{}\\[\\],\n]{0,20}){0,9}") {
        read(&lane(), &text);
        read(&lane(), &format!("{{\"type\":\"session\"}}\n{text}"));
    }
}

/// EN-50, EN-51
#[test]
fn a_transcript_of_another_program_is_read_line_by_line() {
    let text = concat!(
        r#"{"type":"history","agentId":"x","sessionId":"y","timestamp":1794703151,"role":"user","content":[{"type":"text","text":"one"},{"type":"file","fileId":"f","filename":"a.pdf","mimeType":"application/pdf","size":3,"direction":"in"},{"type":"hologram"}]}"#,
        "\n",
        "not JSON\n\n",
        r#"{"type":"poem","agentId":"x"}"#,
        "\n",
        r#"{"type":"history","agentId":"x","sessionId":"y","timestamp":1794703152000,"role":"assistant","content":[{"type":"text","text":"1"}],"meta":{"provider":"p","model":"m","usage":{"input":3,"output":4}}}"#,
        "\n",
        r#"{"type":"history","agentId":"x","sessionId":"y","timestamp":1794703153000,"role":"user","content":[{"type":"text","text":"two"}]}"#,
        "\n",
    );

    let reading = read(&lane(), text).unwrap();

    assert_eq!((reading.messages, reading.skipped), (3, 2));
    assert_eq!(
        said(&reading),
        ["import-1 user: one\n[file: a.pdf]", "import-1 assistant: 1", "import-2 user: two"]
    );
    let times: Vec<u64> =
        events_of(&reading).iter().map(|event| event.timestamp.0 % 100_000).collect();
    assert_eq!(times, [51_000, 51_000, 52_000, 52_000, 53_000, 53_000]);
}

/// EN-51
#[test]
fn what_is_no_transcript_is_refused() {
    for text in
        ["", "hello", "{}", "{\"type\":\"poem\"}", "{\"type\":\"session\",\"version\":4}\n{}"]
    {
        assert!(read(&lane(), text).is_none(), "{text}");
    }
}

/// The entries of a session file of Pi, in two branches.
fn pi(version: Option<u64>) -> String {
    let message = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-11-14T23:39:11.000Z", "message": message});
    let answer = json!({
        "role": "assistant", "provider": "anthropic", "model": "m", "api": "anthropic-messages", "stopReason": "toolUse",
        "timestamp": 1_794_699_552_000_u64,
        "usage": {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 0, "totalTokens": 12, "cost": {"total": 0.5}},
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}},
        ],
    });
    let entries = [
        json!({"type": "session", "version": version, "id": "s", "timestamp": "2026-11-14T23:39:10.000Z", "cwd": "/x"}),
        message(
            "1",
            None,
            json!({"role": "user", "content": "look", "timestamp": 1_794_699_551_000_u64}),
        ),
        json!({"type": "model_change", "id": "2", "parentId": "1", "timestamp": "2026-11-14T23:39:11.000Z"}),
        message("3", Some("2"), answer),
        message("x", Some("1"), json!({"role": "user", "content": "on another branch"})),
        message(
            "4",
            Some("3"),
            json!({"role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": true,
            "content": [{"type": "text", "text": "no such file"}]}),
        ),
        json!({"type": "compaction", "id": "5", "parentId": "4", "timestamp": "2026-11-14T23:40:00.000Z", "summary": "all of it"}),
        message(
            "6",
            Some("5"),
            json!({"role": "user", "content": [
            {"type": "text", "text": "see"}, {"type": "image", "data": "aGVsbG8h", "mimeType": "image/png"}]}),
        ),
        message(
            "7",
            Some("6"),
            json!({"role": "bashExecution", "command": "ls", "output": "a\nb", "exitCode": 0}),
        ),
        message("8", Some("7"), json!({"role": "custom", "content": "of an extension"})),
    ];
    entries.map(|entry| entry.to_string()).join("\n")
}

/// EN-51, EN-53
#[test]
fn a_session_file_of_pi_is_its_newest_branch() {
    let [second, third] = [2, 3].map(|version| read(&lane(), &pi(Some(version))).unwrap());

    let turns = [
        "import-1 user: look",
        "import-1 assistant: (hm) | read {\"path\":\"a\"}",
        "import-1 toolResult: no such file",
        "import-1 system: [COMPACTED CONTEXT SUMMARY]\nall of it",
        "import-2 user: see\n[image: image/png, about 6 bytes]",
        "import-2 assistant: bash {\"command\":\"ls\"}",
        "import-2 toolResult: a\nb",
    ];
    assert_eq!(said(&third), turns);
    assert_eq!(said(&second), turns);
    assert_eq!((third.messages, third.skipped), (7, 3));
    let usage = events_of(&third).into_iter().find_map(|event| match event.fact {
        Fact::Meta(Remark::Usage { usage, .. }) => Some(usage),
        _ => None,
    });
    assert_eq!(usage.map(|usage| (usage.cache_read, usage.cost_usd)), Some((5, Some(0.5))));
}

/// EN-51: in the first version entries have no parents.
#[test]
fn the_first_session_files_of_pi_are_one_branch() {
    let reading = read(&lane(), &pi(None)).unwrap();

    assert_eq!((reading.messages, reading.skipped), (8, 2));
    assert!(said(&reading).contains(&"import-2 user: on another branch".to_owned()));
}
