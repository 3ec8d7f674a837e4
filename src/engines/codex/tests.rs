use std::path::{Path, PathBuf};

use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
};
use serde_json::{Value, json};

use super::{failure::failure, *};
use crate::engines::harness::program::Act;

const APP_SERVER: Codex = Codex { mode: CodexMode::AppServer };
const EXEC: Codex = Codex { mode: CodexMode::Exec };

fn order() -> Order {
    Order {
        model: "gpt-6".into(),
        sees: false,
        thinking: None,
        system: "You are a test.".into(),
        tools: ["read_file", "send"].map(str::to_owned).into(),
        workspace: "/work".into(),
        home: "/home/team".into(),
        files: "/run/files".into(),
        relay: "http://127.0.0.1:4000".into(),
        token: "t0k".into(),
        bridge: "/bin/hivewright".into(),
        socket: "/run/files/socket".into(),
    }
}

fn recorded(stream: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/engines");
    let text = std::fs::read_to_string(folder.join(format!("codex-0.166.0.{stream}.jsonl")));
    text.unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What follows from a recorded stream, a line each. `then` says what is done on an act.
fn played(
    dialogue: &mut dyn Dialogue,
    stream: &str,
    mut then: impl FnMut(&mut dyn Dialogue, &Act) -> Vec<Act>,
) -> Vec<String> {
    let mut shown = Vec::new();
    let mut show = |dialogue: &mut dyn Dialogue, acts: Vec<Act>| {
        for act in acts {
            shown.push(readable(&act));
            shown.extend(then(dialogue, &act).iter().map(readable));
        }
    };
    let opening = dialogue.open();
    show(dialogue, opening);
    for line in recorded(stream) {
        let acts = dialogue.hear(line);
        show(dialogue, acts);
    }
    shown
}

/// The same without what is written, for one that is told something as soon as it listens.
fn heard(codex: Codex, order: &Order, stream: &str) -> Vec<String> {
    let acts = played(&mut *codex.dialogue(order), stream, tell_when_ready);
    acts.into_iter().filter(|act| !act.starts_with("> ")).collect()
}

fn tell_when_ready(dialogue: &mut dyn Dialogue, act: &Act) -> Vec<Act> {
    if *act == Act::Ready { dialogue.tell("go") } else { Vec::new() }
}

fn readable(act: &Act) -> String {
    match act {
        Act::Write(line) => format!("> {line}"),
        Act::Text(piece) => format!("text {piece}|"),
        Act::Thinking(piece) => format!("thinking {piece}|"),
        Act::Block(Block::Text { text }) => format!("block of text: {text}"),
        Act::Block(Block::Thinking { text, block: None }) => format!("block of thinking: {text}"),
        Act::Block(Block::Call(call)) => format!("call {} {} {}", call.id, call.name, call.args),
        Act::MessageEnd(None) => "end of message".into(),
        Act::Note(note) => format!("note: {note}"),
        Act::Retry(note) => format!("retry: {note}"),
        Act::Done(Err(failure)) => format!("failed, {}: {failure}", failure.code),
        other => format!("{other:?}"),
    }
}

/// EN-85, EN-86
#[test]
fn all_of_its_own_is_off_in_its_settings() {
    let Launch { args, env, files } = APP_SERVER.launch(&order());

    let names: Vec<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    let config = &files[0].1;
    assert_eq!(args, ["app-server"]);
    assert_eq!(
        env.into_iter().collect::<Vec<_>>(),
        [
            ("CODEX_HOME", "/home/team/codex"),
            ("HIVEWRIGHT_MODEL_TOKEN", "t0k"),
            ("HIVEWRIGHT_TURN_TOKEN", "t0k"),
            ("RUST_LOG", "off"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    assert_eq!(
        names,
        [
            "/home/team/codex/config.toml",
            "/run/files/codex-models.json",
            "/run/files/codex-system-prompt.md"
        ]
        .map(Path::new)
    );
    for line in [
        r#"model_provider = "hivewright""#,
        r#"model_catalog_json = "/run/files/codex-models.json""#,
        r#"model_instructions_file = "/run/files/codex-system-prompt.md""#,
        r#"web_search = "disabled""#,
        "check_for_update_on_startup = false",
        "project_doc_max_bytes = 0",
        "multi_agent = false",
        "goals = false",
        "shell_tool = false",
        "unified_exec = false",
        "view_image = false",
        "unbounded_connection_retries = false",
        r#"base_url = "http://127.0.0.1:4000/v1""#,
        r#"wire_api = "responses""#,
        r#"env_key = "HIVEWRIGHT_MODEL_TOKEN""#,
        "request_max_retries = 3",
        "stream_max_retries = 3",
        "[mcp_servers.hivewright]",
        r#"command = "/bin/hivewright""#,
        r#"args = ["mcp", "--socket", "/run/files/socket"]"#,
        r#"env_vars = ["HIVEWRIGHT_TURN_TOKEN"]"#,
        "required = true",
        r#"default_tools_approval_mode = "approve""#,
        "supports_parallel_tool_calls = false",
        "[projects.\"/work\"]\ntrust_level = \"untrusted\"",
    ] {
        assert!(config.contains(&format!("{line}\n")), "{line} in {config}");
    }
    assert!(!config.contains("t0k"), "{config}");
    assert_eq!(files[2].1, "You are a test.");
}

#[test]
fn what_it_knows_of_a_model_itself_is_replaced() {
    let files = APP_SERVER.launch(&order()).files;

    let catalog: Value = serde_json::from_str(&files[1].1).unwrap();
    let [model] = catalog["models"].as_array().unwrap().as_slice() else { panic!("{catalog}") };
    let levels = model["supported_reasoning_levels"].as_array().unwrap();
    let levels: Vec<&Value> = levels.iter().map(|level| &level["effort"]).collect();
    assert_eq!(model["slug"], "gpt-6");
    assert_eq!(model["shell_type"], "disabled");
    assert_eq!(model["apply_patch_tool_type"], Value::Null);
    assert_eq!(model["tool_mode"], Value::Null);
    assert_eq!(levels, ["none", "minimal", "low", "medium", "high", "xhigh"]);
}

#[test]
fn a_path_with_quotes_stays_one_string() {
    let odd = Order { workspace: PathBuf::from("/a\"b\\c"), ..order() };

    let files = APP_SERVER.launch(&odd).files;

    assert!(files[0].1.contains("[projects.\"/a\\\"b\\\\c\"]\n"), "{}", files[0].1);
}

/// EN-81
#[test]
fn a_single_run_takes_its_prompt_from_its_input() {
    let order = Order { thinking: Some(Thinking::Off), ..order() };

    let args = EXEC.launch(&order).args.join(" ");

    let expected = "exec --json --skip-git-repo-check --color never --ephemeral --ignore-rules \
                    -C /home/team -s read-only --model=gpt-6 -c approval_policy=\"never\" \
                    -c model_reasoning_effort=\"none\" -";
    assert_eq!(args, expected);
}

/// EN-83, EN-84: our calls are told before they are made, one after another; results are dropped, resources noted.
#[test]
fn an_app_server_tells_of_each_call() {
    let order = Order { thinking: Some(Thinking::High), ..order() };

    let acts = played(&mut *APP_SERVER.dialogue(&order), "app-server.calls", tell_when_ready);

    let client = format!(
        r#"{{"name":"hivewright","title":"Hivewright","version":"{}"}}"#,
        env!("CARGO_PKG_VERSION")
    );
    let thread = "01a1e7df-bcef-7d93-b765-846ca5104566";
    assert_eq!(
        acts,
        [
            &format!(r#"> {{"id":1,"method":"initialize","params":{{"clientInfo":{client}}}}}"#),
            r#"> {"method":"initialized"}"#,
            r#"> {"id":2,"method":"thread/start","params":{"approvalPolicy":"never","cwd":"/home/team","ephemeral":true,"model":"gpt-6","sandbox":"read-only"}}"#,
            "Ready",
            &format!(
                r#"> {{"id":3,"method":"turn/start","params":{{"effort":"high","input":[{{"text":"go","type":"text"}}],"threadId":"{thread}"}}}}"#
            ),
            "thinking first |",
            "thinking I |",
            "thinking look |",
            "block of thinking: first I look",
            "text I |",
            "text read |",
            "text two|",
            "block of text: I read two",
            r#"call call_18 read_file {"path":"a"}"#,
            "end of message",
            r#"call call_23 send {"path":"b"}"#,
            "end of message",
            "note: Codex has looked for resources with `list_mcp_resources`",
            "text all |",
            "text done|",
            "block of text: all done",
            "end of message",
            "Done(Ok(()))",
        ]
    );
}

/// EN-72: it waits for our tools and does not begin without them.
#[test]
fn without_our_tools_it_does_not_begin() {
    let acts = heard(APP_SERVER, &order(), "app-server.tools-unreachable");

    let [failed] = acts.as_slice() else { panic!("{acts:?}") };
    assert!(failed.starts_with("failed, crash: Codex refuses to work: "), "{failed}");
    assert!(failed.contains("required MCP servers failed to initialize: hivewright"), "{failed}");
}

/// EN-84: a request that it has no time for is made again, later and later, and not for ever.
#[test]
fn a_server_that_is_overloaded_is_asked_again() {
    let mut dialogue = APP_SERVER.dialogue(&order());
    dialogue.open();
    let overloaded = |id: u64| json!({"id": id, "error": {"code": -32001, "message": "busy"}});

    let mut pauses = Vec::new();
    let mut last = Vec::new();
    for id in 1..=7 {
        last = dialogue.hear(overloaded(id));
        if let [Act::WriteLater(pause, line)] = last.as_slice() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!((&line["id"], &line["method"]), (&json!(id + 1), &json!("initialize")));
            assert_eq!(line["params"]["clientInfo"]["name"], "hivewright");
            pauses.push(pause.as_millis());
        }
    }

    assert_eq!(pauses, [200, 400, 800, 1_600, 3_200, 5_000]);
    let last: Vec<_> = last.iter().map(readable).collect();
    assert_eq!(last, ["failed, overloaded: Codex refuses to work: busy"]);
}

/// EN-06, EN-84
#[test]
fn what_it_is_told_meanwhile_joins_the_turn() {
    let mut dialogue = APP_SERVER.dialogue(&order());

    let acts = played(&mut *dialogue, "app-server.told-more", |dialogue, act| match act {
        Act::Ready => dialogue.tell("go"),
        Act::Block(Block::Call(_)) => dialogue.tell("and more"),
        _ => Vec::new(),
    });

    assert_eq!(
        acts[5..],
        [
            r#"call call_71 read_file {"seconds":1}"#,
            r#"> {"id":4,"method":"turn/start","params":{"input":[{"text":"and more","type":"text"}],"threadId":"01a1e7df-c308-7280-929a-1cd732d61d87"}}"#,
            "end of message",
            "text heard |",
            "text you|",
            "block of text: heard you",
            "end of message",
            "Done(Ok(()))",
        ]
    );
}

/// EN-26: the words came when the turn was just over, so they begin another.
#[test]
fn what_it_is_told_too_late_is_not_lost() {
    let mut dialogue = APP_SERVER.dialogue(&order());
    let done =
        json!({"method": "turn/completed", "params": {"turn": {"id": "a", "status": "completed"}}});
    let answer = |id: u64, turn: &str| json!({"id": id, "result": {"turn": {"id": turn}}});
    let other =
        json!({"method": "turn/completed", "params": {"turn": {"id": "b", "status": "completed"}}});
    dialogue.tell("go");
    dialogue.hear(answer(1, "a"));

    dialogue.tell("more");
    let at_first_end = dialogue.hear(done);
    dialogue.hear(answer(2, "b"));
    let at_second_end = dialogue.hear(other);

    assert_eq!(at_first_end, []);
    assert_eq!(at_second_end, [Act::Done(Ok(()))]);
}

/// EN-84: an error that is tried again is a note, and what was half said is void.
#[test]
fn an_answer_that_breaks_off_is_recorded_once() {
    let acts = heard(APP_SERVER, &order(), "app-server.cut-stream");

    assert_eq!(
        acts[1..],
        [
            "text one |",
            "text two |",
            "Reset",
            "retry: Reconnecting... 1/3: stream disconnected before completion: stream closed before response.completed",
            "text one |",
            "text two |",
            "text three|",
            "block of text: one two three",
            "end of message",
            "Done(Ok(()))",
        ]
    );
}

/// EN-84: Codex asks only for what follows its last whole item.
#[test]
fn what_was_whole_before_an_answer_breaks_off_stands() {
    let mut dialogue = APP_SERVER.dialogue(&order());
    let whole = json!({"type": "agentMessage", "id": "a", "text": "one"});
    let half = json!({"itemId": "b", "delta": "two"});
    dialogue.hear(json!({"method": "item/completed", "params": {"item": whole}}));
    dialogue.hear(json!({"method": "item/agentMessage/delta", "params": half}));

    let error = json!({"message": "Reconnecting... 1/3", "additionalDetails": "cut"});
    let acts =
        dialogue.hear(json!({"method": "error", "params": {"error": error, "willRetry": true}}));

    assert_eq!(acts, [Act::Retry("Reconnecting... 1/3: cut".into())]);
}

/// EN-84
#[test]
fn a_failed_turn_says_what_kind_of_failure() {
    for (stream, expected) in [
        ("failed-401", "failed, provider_auth: Codex could not finish: unexpected status 401"),
        ("failed-429", "failed, rate_limited: Codex could not finish: exceeded retry limit"),
        ("failed-500", "failed, overloaded: Codex could not finish: We’re currently"),
        ("failed-overflow", "failed, context_overflow: Codex could not finish: Codex ran out"),
        (
            "failed-400-overflow",
            "failed, context_overflow: Codex could not finish: context_length_",
        ),
        ("failed-model", "failed, config_error: Codex could not finish: model_not_found"),
        ("dead-endpoint", "failed, network: Codex could not finish: Connection failed"),
    ] {
        let acts = heard(APP_SERVER, &order(), &format!("app-server.{stream}"));

        let (last, before) = acts.split_last().unwrap();
        assert!(last.starts_with(expected), "{last}");
        assert!(before[1..].iter().all(|act| act.starts_with("retry: Reconnecting")), "{before:?}");
    }
}

/// EN-84: also from its words alone, which are all that a single run gives.
#[test]
fn failures_have_a_code() {
    let other = json!("other");
    for (message, info, code) in [
        ("x", json!("usageLimitExceeded"), Code::RateLimited),
        ("x", json!("rateLimitExceeded"), Code::RateLimited),
        ("x", json!("serverOverloaded"), Code::Overloaded),
        ("x", json!("unauthorized"), Code::ProviderAuth),
        ("x", json!("cyberPolicy"), Code::ProviderRefused),
        ("x", json!("badRequest"), Code::ProviderError),
        ("x", json!({"httpConnectionFailed": {"httpStatusCode": 503}}), Code::Overloaded),
        ("x", json!({"responseStreamDisconnected": {"httpStatusCode": null}}), Code::Network),
        ("x", json!({"activeTurnNotSteerable": {"turnKind": "review"}}), Code::ProviderError),
        ("stream disconnected before completion: x", other.clone(), Code::Network),
        (
            "stream disconnected before completion: Incomplete response returned, reason: content_filter",
            other.clone(),
            Code::ProviderRefused,
        ),
        ("Incomplete response returned, reason: max_output_tokens", other, Code::ProviderError),
        ("Quota exceeded. Check your plan and billing details.", Value::Null, Code::RateLimited),
        ("unexpected status 403 Forbidden: x", Value::Null, Code::ProviderAuth),
        ("exceeded retry limit, last status: 429 Too Many", Value::Null, Code::RateLimited),
        ("unexpected status élan", Value::Null, Code::ProviderError),
    ] {
        assert_eq!(failure(message, &info).code, code, "{message} {info}");
    }
}

/// EN-84: nothing is granted, and nothing waits for an answer.
#[test]
fn what_it_asks_for_is_declined() {
    let mut dialogue = APP_SERVER.dialogue(&order());
    for (method, answer) in [
        ("item/commandExecution/requestApproval", json!({"result": {"decision": "decline"}})),
        ("item/fileChange/requestApproval", json!({"result": {"decision": "decline"}})),
        (
            "item/permissions/requestApproval",
            json!({"result": {"permissions": {}, "scope": "turn"}}),
        ),
        ("mcpServer/elicitation/request", json!({"result": {"action": "decline"}})),
        ("item/tool/call", json!({"result": {"contentItems": [], "success": false}})),
        (
            "item/tool/requestUserInput",
            json!({"error": {"code": -32601, "message": "not offered"}}),
        ),
    ] {
        let acts = dialogue.hear(json!({"id": 7, "method": method, "params": {}}));

        let [Act::Write(line)] = acts.as_slice() else { panic!("{acts:?}") };
        let mut said: Value = serde_json::from_str(line).unwrap();
        assert_eq!(said["id"].take(), json!(7));
        said.as_object_mut().unwrap().remove("id");
        assert_eq!(said, answer, "{method}");
    }
}

/// EN-73: whatever runs there that is not ours.
#[test]
fn a_tool_of_its_own_ends_the_turn() {
    let breach = |tool: &str| {
        let message = format!("Codex has used a tool of its own, which it was not given: `{tool}`");
        Act::Done(Err(EngineFailure::new(Code::ProviderError, message)))
    };
    for (item, tool) in [
        (json!({"type": "commandExecution", "status": "inProgress"}), "commandExecution"),
        (json!({"type": "fileChange", "status": "inProgress"}), "fileChange"),
        (json!({"type": "webSearch", "query": "x"}), "webSearch"),
        (json!({"type": "imageView", "path": "/x"}), "imageView"),
        (json!({"type": "newToolCall", "status": "inProgress"}), "newToolCall"),
        (json!({"type": "mcpToolCall", "server": "evil", "tool": "send"}), "evil/send"),
        (json!({"type": "mcpToolCall", "server": "hivewright", "tool": "rm"}), "hivewright/rm"),
        (
            json!({"type": "mcpToolCall", "server": "evil", "tool": "read_mcp_resource"}),
            "evil/read_mcp_resource",
        ),
    ] {
        let mut dialogue = APP_SERVER.dialogue(&order());

        let acts = dialogue.hear(json!({"method": "item/started", "params": {"item": item}}));

        assert_eq!(acts, [breach(tool)]);
    }

    let acts = heard(EXEC, &order(), "exec-json");

    assert_eq!(acts[3], readable(&breach("command_execution")));
}

/// EN-83
#[test]
fn items_that_are_no_tools_are_passed_over_or_noted() {
    let completed = |item: Value| {
        let mut dialogue = APP_SERVER.dialogue(&order());
        dialogue.hear(json!({"method": "item/completed", "params": {"item": item}}))
    };

    let compacted = completed(json!({"type": "contextCompaction", "id": "x"}));
    let plan = completed(json!({"type": "plan", "id": "x", "text": "1. go"}));
    let reasoning =
        completed(json!({"type": "reasoning", "summary": ["one", "two"], "content": []}));

    let text = "one\n\ntwo".to_owned();
    let note = "Codex has shortened its conversation by itself".to_owned();
    assert_eq!(compacted, [Act::Note(note)]);
    assert_eq!(plan, []);
    assert_eq!(
        reasoning,
        [Act::Thinking(text.clone()), Act::Block(Block::Thinking { text, block: None })]
    );
}

/// EN-82
#[test]
fn a_single_run_tells_of_each_call() {
    let acts = played(&mut *EXEC.dialogue(&order()), "exec-json.calls", tell_when_ready);

    assert_eq!(
        acts,
        [
            "Ready",
            "> go",
            "CloseInput",
            "thinking first I look|",
            "block of thinking: first I look",
            "text I read two|",
            "block of text: I read two",
            r#"call item_2 read_file {"path":"a"}"#,
            "end of message",
            r#"call item_3 send {"path":"b"}"#,
            "end of message",
            "note: Codex has looked for resources with `list_mcp_resources`",
            "text all done|",
            "block of text: all done",
            "end of message",
            "Done(Ok(()))",
        ]
    );
}

/// EN-82
#[test]
fn a_single_run_that_fails_says_what_kind_of_failure() {
    let acts = heard(EXEC, &order(), "exec-json.failed-401");

    let last = acts.last().unwrap();
    assert!(last.starts_with("failed, provider_auth: "), "{last}");
}

/// EN-82: errors are notes, and the last one is the reason of an end without a word.
#[test]
fn a_single_run_that_cannot_reach_the_model_is_not_over() {
    let mut dialogue = EXEC.dialogue(&order());

    let acts = played(&mut *dialogue, "exec-json.api-unreachable", tell_when_ready);

    let error = "Reconnecting... waiting for network (Connection failed: error sending request)";
    let reason = format!("Codex ended before its turn did: {error}");
    assert!(acts[4..].iter().all(|act| act.starts_with("retry: ")), "{acts:?}");
    assert_eq!(dialogue.ended(), EngineFailure::new(Code::Crash, reason));
}
