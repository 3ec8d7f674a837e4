//! What recorded streams of the program mean, and how it is started.

use std::time::Duration;

use hivewright_actors::{engine::Block, task::outcome::Code, thinking::Thinking};
use serde_json::{Value, json};

use super::Claude;
use crate::engines::harness::program::{Act, Dialogue, Launch, Order, Program};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/engines/claude-", $name, ".jsonl"))
    };
}

fn order() -> Order {
    Order {
        model: "claude-opus-4-8".into(),
        sees: false,
        thinking: None,
        system: "You are `red`.".into(),
        tools: vec!["echo".into(), "slow".into()],
        workspace: "/work".into(),
        home: "/home".into(),
        files: "/run/files".into(),
        relay: "http://127.0.0.1:4000".into(),
        token: "turn-token".into(),
        bridge: "/bin/hivewright".into(),
        socket: "/run/socket".into(),
    }
}

fn dialogue() -> Box<dyn Dialogue> {
    Claude.dialogue(&order())
}

/// A dialogue in which this many texts were told.
fn told(texts: usize) -> Box<dyn Dialogue> {
    let mut dialogue = dialogue();
    for text in 0..texts {
        dialogue.tell(&format!("text {text}"));
    }
    dialogue
}

/// What follows from the lines, readable; pieces of text that follow each other are one.
fn heard(dialogue: &mut dyn Dialogue, lines: &str) -> Vec<String> {
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    shown(lines.flat_map(|line| dialogue.hear(line)))
}

fn shown(acts: impl IntoIterator<Item = Act>) -> Vec<String> {
    let mut shown: Vec<String> = vec![];
    let mut last = "";
    for act in acts {
        let (kind, words) = match act {
            Act::Write(line) | Act::WriteLater(_, line) => ("write", line),
            Act::CloseInput => ("close", String::new()),
            Act::Ready => ("ready", String::new()),
            Act::Text(text) => ("…", text),
            Act::Thinking(text) => ("…thinking", text),
            Act::Block(Block::Text { text }) => ("text", text),
            Act::Block(Block::Thinking { text, block }) => {
                assert_eq!(block, None);
                ("thinking", text)
            }
            Act::Block(Block::Call(call)) => {
                ("call", format!("{} {}", call.name, serde_json::to_string(&call.args).unwrap()))
            }
            Act::MessageEnd(stop) => ("end", stop.unwrap_or_default()),
            Act::Note(note) => ("note", note),
            Act::Retry(note) => ("retry", note),
            Act::Reset => ("reset", String::new()),
            Act::Done(Ok(())) => ("done", String::new()),
            Act::Done(Err(failure)) => ("failed", format!("{}: {}", failure.code, failure.message)),
        };
        if kind == "…" && last == "…" {
            shown.last_mut().unwrap().push_str(&words);
        } else {
            shown.push(format!("{kind} {words}"));
        }
        last = kind;
    }
    shown.iter().map(|act| act.trim_end().to_owned()).collect()
}

/// The failure that a `result` line ends the turn with.
fn failure(before: Value, result: Value) -> (Code, String, Option<Duration>) {
    let mut dialogue = told(1);
    dialogue.hear(before);
    let mut line =
        json!({"type": "result", "subtype": "success", "is_error": true, "num_turns": 1});
    line.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
    match dialogue.hear(line).pop() {
        Some(Act::Done(Err(failure))) => (failure.code, failure.message, failure.retry_after),
        other => panic!("{other:?}"),
    }
}

fn synthetic(error: &str) -> Value {
    json!({"type": "assistant", "error": error, "message": {"model": "<synthetic>", "content": [
        {"type": "text", "text": "API Error"},
    ]}})
}

/// EN-76
#[test]
fn calls_are_told_with_the_end_of_their_message() {
    for lines in [recorded!("2.1.197.calls"), recorded!("2.1.325.calls")] {
        assert_eq!(
            heard(&mut *told(1), lines),
            [
                "ready",
                "…thinking hmm",
                "thinking hmm",
                "… I call.",
                "text I call.",
                "call echo {\"text\":\"a\"}",
                "call echo {\"text\":\"b\"}",
                "end tool_use",
                "… All done.",
                "text All done.",
                "end end_turn",
                "done",
            ]
        );
    }
}

/// EN-76
#[test]
fn a_call_keeps_the_id_that_the_program_shows() {
    let mut dialogue = told(1);
    let lines = recorded!("2.1.325.calls-one-after-the-other");

    let acts: Vec<Act> =
        lines.lines().flat_map(|line| dialogue.hear(serde_json::from_str(line).unwrap())).collect();

    let ids: Vec<&str> = acts
        .iter()
        .filter_map(|act| match act {
            Act::Block(Block::Call(call)) => Some(call.id.as_str()),
            _ => None,
        })
        .collect();
    let shown: Vec<&str> = ids
        .iter()
        .copied()
        .filter(|id| lines.contains(&format!("\"tool_use_id\":\"{id}\"")))
        .collect();
    assert_eq!((ids.len(), shown), (2, ids));
}

/// EN-76
#[test]
fn a_text_told_while_the_model_speaks_is_answered_before_the_turn_ends() {
    for lines in [recorded!("2.1.197.steered"), recorded!("2.1.325.steered")] {
        let heard = heard(&mut *told(3), lines);

        assert_eq!(
            heard.iter().filter(|act| !act.starts_with('…')).collect::<Vec<_>>(),
            [
                "ready",
                "text w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19",
                "end end_turn",
                if lines.contains("s1\\n\"") {
                    "text Answer to: [message] s1\n\n[message] s2"
                } else {
                    "text Answer to: [message] s1\n[message] s2"
                },
                "end end_turn",
                "done",
            ]
        );
    }
}

/// EN-76
#[test]
fn a_text_told_during_a_call_joins_the_answer() {
    assert_eq!(
        heard(&mut *told(2), recorded!("2.1.325.steered-in-call")),
        [
            "ready",
            "call slow {\"text\":\"a\"}",
            "end tool_use",
            "… All done.",
            "text All done.",
            "end end_turn",
            "done",
        ]
    );
}

/// EN-76
#[test]
fn a_message_that_broke_off_counts_as_far_as_it_is_whole() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.cut")),
        [
            "ready",
            "… half",
            "text half",
            "… cut",
            "call slow {\"text\":\"a\"}",
            "end",
            "… All done.",
            "text All done.",
            "end end_turn",
            "done",
        ]
    );
}

/// EN-76
#[test]
fn a_message_of_which_nothing_is_whole_is_written_again() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.asked-again")),
        [
            "ready",
            "… one two",
            "reset",
            "retry claude asks the model again, attempt 1 of 3: unknown",
            "… one two three",
            "text one two three",
            "end end_turn",
            "done",
        ]
    );
}

/// EN-76
#[test]
fn an_error_in_mid_message_does_not_lose_its_call() {
    for lines in
        [recorded!("2.1.197.error-in-mid-message"), recorded!("2.1.325.error-in-mid-message")]
    {
        let (before, after) = lines
            .split_once(r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id""#)
            .unwrap();
        let mut dialogue = told(1);

        let before = heard(&mut *dialogue, before);
        let after = heard(&mut *dialogue, after.split_once('\n').unwrap().1);

        // The result is there only because the call was answered, so the message has to end before.
        assert_eq!(before, ["ready", "… half", "text half", "call slow {\"text\":\"a\"}", "end"]);
        assert_eq!(after, ["… All done.", "text All done.", "end end_turn", "done"]);
    }
}

/// EN-78
#[test]
fn a_refused_message_makes_no_calls() {
    for lines in [recorded!("2.1.197.refused-call"), recorded!("2.1.325.refused-call")] {
        assert_eq!(
            heard(&mut *told(1), lines)[..5],
            [
                "ready",
                "… I",
                "text I",
                "end refusal",
                "failed provider_refused: the model declined while it called a tool",
            ]
        );
    }
}

/// EN-73
#[test]
fn a_tool_of_its_own_ends_the_turn() {
    let heard = heard(&mut *told(1), recorded!("2.1.197.permission-denied"));

    assert!(
        heard[0]
            .starts_with("failed provider_error: claude has tools of its own: Bash, CronCreate"),
        "{heard:?}"
    );
}

/// EN-73
#[test]
fn missing_tools_are_noted_once() {
    let mut dialogue = told(1);
    let line = json!({"type": "system", "subtype": "init", "session_id": "s",
        "tools": ["mcp__hivewright__slow"],
        "mcp_servers": [{"name": "hivewright", "status": "connected"}]});

    let acts = [dialogue.hear(line.clone()), dialogue.hear(line)].concat();

    assert_eq!(shown(acts), ["note claude does not show the model: echo"]);
}

/// EN-72
#[test]
fn without_the_bridge_there_is_no_turn() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.no-tools"))[..2],
        ["ready", "failed crash: its tools are not available"]
    );
}

/// EN-76
#[test]
fn a_tool_that_does_not_exist_is_a_note() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.tool-that-is-not-there")),
        [
            "ready",
            "note the model called `Bash`, which does not exist",
            "end tool_use",
            "… All done.",
            "text All done.",
            "end end_turn",
            "done",
        ]
    );
}

#[test]
fn a_tool_of_its_own_that_ran_ends_the_turn() {
    let mut dialogue = told(1);
    let call = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {}});
    dialogue.hear(json!({"type": "assistant", "message": {"model": "m", "content": [call]}}));
    let result =
        json!({"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "exit 1"});

    let acts = dialogue.hear(json!({"type": "user", "message": {"content": [result]}}));

    assert_eq!(shown(acts), ["failed provider_error: claude ran `Bash`, a tool of its own"]);
}

#[test]
fn a_call_that_the_program_answers_itself_is_not_ours_to_run() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.unreadable-arguments")),
        [
            "ready",
            "note claude did not make the call of `echo`",
            "end tool_use",
            "… All done.",
            "text All done.",
            "end end_turn",
            "done",
        ]
    );
}

#[test]
fn a_message_that_did_not_stream_is_told_whole() {
    let mut dialogue = told(1);
    let part = |text: &str| {
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"model": "m",
            "stop_reason": "end_turn", "content": [{"type": "text", "text": text}]}})
    };

    let acts = dialogue.hear(part("hello"));

    assert_eq!(shown(acts), ["… hello", "text hello", "end end_turn"]);
}

/// EN-76
#[test]
fn the_text_of_a_result_counts_only_if_there_was_none() {
    let mut dialogue = told(0);
    let result = json!({"type": "result", "is_error": false, "num_turns": 1, "result": "hello"});

    let acts = dialogue.hear(result);

    assert_eq!(shown(acts), ["… hello", "text hello", "end", "done"]);
}

/// EN-77, EN-78
#[test]
fn an_unreachable_api_is_a_failure_although_it_is_called_a_success() {
    let lines = recorded!("2.1.197.api-unreachable");
    let (_, after_init) = lines.split_once('\n').unwrap();

    assert_eq!(
        heard(&mut *told(1), after_init),
        [
            "retry claude asks the model again, attempt 1 of 1: unknown",
            "failed network: API Error: Unable to connect to API (ConnectionRefused)",
        ]
    );
}

/// EN-78
#[test]
fn a_prompt_that_is_too_long_is_an_overflow() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.overflow")),
        ["ready", "failed context_overflow: Prompt is too long"]
    );
}

/// EN-78
#[test]
fn a_rate_limit_tells_the_pause() {
    let mut dialogue = told(1);
    let acts = recorded!("2.1.325.rate-limit")
        .lines()
        .flat_map(|line| dialogue.hear(serde_json::from_str(line).unwrap()));

    let Some(Act::Done(Err(failure))) = acts.last() else { panic!("no failure") };

    assert_eq!(
        (failure.code, failure.retry_after),
        (Code::RateLimited, Some(Duration::from_secs(7)))
    );
}

/// EN-78
#[test]
fn a_pause_of_the_programs_own_is_not_the_providers() {
    let retry = json!({"type": "system", "subtype": "api_retry", "error_status": 429,
        "retry_delay_ms": 582, "attempt": 1, "max_retries": 3, "error": "rate_limit"});

    let failure = failure(retry, json!({"api_error_status": 429, "result": "slow"}));

    assert_eq!(failure, (Code::RateLimited, "slow".into(), None));
}

/// EN-77, EN-78
#[test]
fn failures_have_classes() {
    for (error, status, code) in [
        ("authentication_failed", json!(401), Code::ProviderAuth),
        ("authentication_failed", json!(403), Code::ProviderAuth),
        ("account_on_hold", json!(null), Code::ProviderAuth),
        ("unknown", json!(401), Code::ProviderAuth),
        ("rate_limit", json!(null), Code::RateLimited),
        ("billing_error", json!(400), Code::ConfigError),
        ("model_not_found", json!(404), Code::ConfigError),
        ("overloaded", json!(null), Code::Overloaded),
        ("server_error", json!(500), Code::Overloaded),
        ("server_error", json!(529), Code::Overloaded),
        ("server_error", json!(null), Code::Network),
        ("unknown", json!(400), Code::ProviderError),
    ] {
        let result = json!({"api_error_status": status, "result": "rate_limit overloaded"});

        let (found, words, _) = failure(synthetic(error), result);

        assert_eq!((error, found, &*words), (error, code, "rate_limit overloaded"));
    }
    let nothing = || json!({"type": "keep_alive"});
    assert_eq!(failure(nothing(), json!({"errors": ["a", "b"], "result": "c"})).1, "a; b");
    assert_eq!(failure(nothing(), json!({})), (Code::ProviderError, "success".into(), None));
    assert_eq!(failure(nothing(), json!({"stop_reason": "refusal"})).0, Code::ProviderRefused);
}

/// EN-79
#[test]
fn a_message_that_the_program_swallows_is_a_failure() {
    assert_eq!(
        heard(&mut *told(1), recorded!("2.1.325.swallowed")),
        [
            "ready",
            "failed provider_error: claude did not pass the message on to the model: \
             /compact isn't available in this environment.",
        ]
    );
}

/// EN-66
#[test]
fn an_end_before_the_result_is_a_crash() {
    assert_eq!(told(1).ended().code, Code::Crash);
}

/// EN-75
#[test]
fn lines_that_mean_nothing_here_are_ignored() {
    let mut dialogue = told(1);
    for line in [
        json!({"type": "control_response", "response": {"subtype": "success", "request_id": "other"}}),
        json!({"type": "command_lifecycle", "state": "queued"}),
        json!({"type": "system", "subtype": "status", "status": "requesting"}),
        json!({"type": "stream_event", "event": {"type": "ping"}}),
        json!({"type": "assistant", "parent_tool_use_id": "t", "message": {"model": "m",
            "content": [{"type": "text", "text": "of an agent"}]}}),
        json!({"type": 7}),
        json!([]),
        json!(null),
    ] {
        assert_eq!(dialogue.hear(line.clone()), [], "{line}");
    }
}

/// EN-74
#[test]
fn a_question_of_the_program_is_declined() {
    let line = json!({"type": "control_request", "request_id": "q", "request": {"subtype": "can_use_tool"}});

    let acts = dialogue().hear(line);

    let [Act::Write(answer)] = &acts[..] else { panic!("{acts:?}") };
    assert_eq!(
        serde_json::from_str::<Value>(answer).unwrap(),
        json!({"type": "control_response", "response":
            {"subtype": "error", "request_id": "q", "error": "not supported"}})
    );
}

/// EN-72
#[test]
fn the_handshake_comes_before_the_task() {
    let mut dialogue = dialogue();
    let written = |acts: Vec<Act>| match &acts[..] {
        [Act::Write(line)] => serde_json::from_str::<Value>(line).unwrap(),
        other => panic!("{other:?}"),
    };

    assert_eq!(
        written(dialogue.open()),
        json!({"type": "control_request", "request_id": "initialize",
            "request": {"subtype": "initialize"}})
    );
    assert_eq!(
        written(dialogue.tell("[message]\nhello")),
        json!({"type": "user", "message": {"role": "user",
            "content": [{"type": "text", "text": "[message]\nhello"}]}})
    );
    let refused = json!({"type": "control_response",
        "response": {"subtype": "error", "request_id": "initialize", "error": "no"}});
    assert_eq!(
        shown(dialogue.hear(refused)),
        ["failed provider_error: claude refused the handshake: no"]
    );
}

/// EN-69, EN-70
#[test]
fn it_is_started_with_our_tools_alone() {
    let Launch { args, files, .. } = Claude.launch(&order());

    assert_eq!(
        args,
        [
            "--print",
            "--verbose",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--include-partial-messages",
            "--replay-user-messages",
            "--no-session-persistence",
            "--bare",
            "--setting-sources=",
            "--disable-slash-commands",
            "--permission-mode=dontAsk",
            "--strict-mcp-config",
            "--tools=",
            "--model=claude-opus-4-8",
            "--settings=/run/files/claude-settings.json",
            "--system-prompt-file=/run/files/claude-system-prompt.md",
            "--mcp-config=/run/files/claude-mcp-config.json",
            "--allowedTools",
            "mcp__hivewright__echo",
            "mcp__hivewright__slow",
        ]
    );
    let [(settings, switches), (prompt, words), (servers, bridge)] = &files[..] else {
        panic!("{files:?}")
    };
    assert_eq!(settings.to_str(), Some("/run/files/claude-settings.json"));
    assert_eq!(
        serde_json::from_str::<Value>(switches).unwrap(),
        json!({"autoCompactEnabled": false, "autoMemoryEnabled": false})
    );
    assert_eq!(prompt.to_str(), Some("/run/files/claude-system-prompt.md"));
    assert_eq!(words, "You are `red`.");
    assert_eq!(servers.to_str(), Some("/run/files/claude-mcp-config.json"));
    assert_eq!(
        serde_json::from_str::<Value>(bridge).unwrap(),
        json!({"mcpServers": {"hivewright": {"type": "stdio", "command": "/bin/hivewright",
            "args": ["mcp", "--socket", "/run/socket"],
            "env": {"HIVEWRIGHT_TURN_TOKEN": "turn-token"}}}})
    );
}

/// EN-69, EN-70
#[test]
fn it_thinks_as_told() {
    let order = Order { thinking: Some(Thinking::Off), tools: vec![], ..order() };

    let Launch { args, env, .. } = Claude.launch(&order);

    assert_eq!(args.last().unwrap(), "--effort=low");
    assert_eq!(env["MAX_THINKING_TOKENS"], "0");
    assert_eq!(super::effort(Thinking::Xhigh), "xhigh");
}

/// EN-71, EN-100
#[test]
fn it_knows_the_relay_and_its_home() {
    let env = Claude.launch(&order()).env;

    assert_eq!(env["ANTHROPIC_BASE_URL"], "http://127.0.0.1:4000");
    assert_eq!(env["ANTHROPIC_API_KEY"], "turn-token");
    assert_eq!(env["CLAUDE_CONFIG_DIR"], "/home/.claude");
    for guard in [
        "CLAUDE_CODE_DISABLE_ATTACHMENTS",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTO_COMPACT",
    ] {
        assert_eq!(env[guard], "1", "{guard}");
    }
    assert_eq!(env["GIT_DIR"], "/dev/null");
    assert!(!env.contains_key("MAX_THINKING_TOKENS"));
}
