use std::collections::BTreeMap;

use agent_client_protocol_schema::Error;
use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
};
use serde_json::{Value, json};

use super::{Acp, failure::classify};
use crate::engines::harness::program::{Act, Dialogue, Order, Program};

fn order() -> Order {
    Order {
        model: "m-1".into(),
        sees: false,
        thinking: None,
        system: "Be kind.".into(),
        tools: ["write", "read", "bash"].map(str::to_owned).into(),
        workspace: "/work".into(),
        home: "/home".into(),
        files: "/files".into(),
        relay: "http://127.0.0.1:4000".into(),
        token: "turn-token".into(),
        bridge: "/bin/hivewright".into(),
        socket: "/files/socket".into(),
    }
}

fn acp() -> Acp {
    Acp { args: Vec::new(), env: BTreeMap::new() }
}

fn shown(act: &Act) -> String {
    match act {
        Act::Write(line) => {
            let message: Value = serde_json::from_str(line).unwrap();
            match message["method"].as_str() {
                Some(method) => format!("> {method}"),
                None if message["error"].is_object() => {
                    format!("> error {}", message["error"]["code"])
                }
                None => format!("> {}", message["result"]["outcome"]),
            }
        }
        Act::Text(text) => format!("text {text:?}"),
        Act::Thinking(text) => format!("thinking {text:?}"),
        Act::Block(Block::Text { text }) => format!("block text {text:?}"),
        Act::Block(Block::Thinking { text, block: None }) => format!("block thinking {text:?}"),
        Act::Block(Block::Call(call)) => {
            let args = serde_json::to_string(&call.args).unwrap();
            format!("block call {} {} {args}", call.id, call.name)
        }
        Act::MessageEnd(stop) => format!("end {}", stop.as_deref().unwrap_or("-")),
        Act::Note(note) => format!("note {note}"),
        Act::Done(Ok(())) => "done".into(),
        Act::Done(Err(failure)) => format!("failed {}: {}", failure.code.as_str(), failure.message),
        other => format!("{other:?}"),
    }
}

fn all_shown(acts: &[Act]) -> Vec<String> {
    acts.iter().map(shown).collect()
}

/// What becomes of a recorded stream, behind the opening.
fn play(stream: &str) -> Vec<String> {
    let mut dialogue = acp().dialogue(&order());
    let mut acts = dialogue.open();
    for line in stream.lines() {
        let heard = dialogue.hear(serde_json::from_str(line).unwrap());
        let is_ready = heard.contains(&Act::Ready);
        acts.extend(heard);
        if is_ready {
            acts.extend(dialogue.tell("go"));
        }
    }
    let acts = all_shown(&acts);
    assert_eq!(acts[..4], ["> initialize", "> session/new", "Ready", "> session/prompt"]);
    acts[4..].to_vec()
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/engines/acp-", $name, ".jsonl"))
    };
}

/// A dialogue in which the agent has been told its task, and takes no system prompt of its own.
fn begun() -> Box<dyn Dialogue> {
    let mut dialogue = acp().dialogue(&order());
    dialogue.open();
    dialogue.hear(json!({"id": 1, "result": {"protocolVersion": 1}}));
    dialogue.hear(json!({"id": 2, "result": {"sessionId": "s"}}));
    dialogue.tell("go");
    dialogue
}

fn update(update: Value) -> Value {
    json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
}

fn permission(tool_call: Value) -> Value {
    let options = ["allow_always", "allow_once", "reject_once"]
        .map(|kind| json!({"optionId": kind, "name": kind, "kind": kind}));
    json!({"id": "p", "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": tool_call, "options": options}})
}

/// The calls of a message are one step: they are told of when the agent counts what the message has cost.
#[test]
fn a_turn_with_tools_is_words_calls_and_words() {
    let allowed = r#"> {"optionId":"allow-once","outcome":"selected"}"#;

    let acts = play(recorded!("claude-agent-0.99.1.calls"));

    assert_eq!(
        acts,
        [
            r#"thinking "Let me see.""#,
            r#"block thinking "Let me see.""#,
            r#"text "I ""#,
            r#"text "look.""#,
            r#"block text "I look.""#,
            allowed,
            r#"block call t1 write {"content":"4711","file_path":"a.txt"}"#,
            r#"block call t2 read {"file_path":"missing"}"#,
            "end tool_use",
            allowed,
            allowed,
            r#"block call t3 read {"file_path":"a.txt"}"#,
            "end tool_use",
            r#"text "It ""#,
            r#"text "says ""#,
            r#"text "4711""#,
            r#"block text "It says 4711""#,
            "end end_turn",
            "done",
        ]
    );
}

/// The adapter of Codex tells of a call when it begins with it, and asks in words that do not name the tool.
#[test]
fn an_agent_with_other_words_for_calls_is_understood() {
    let allowed = r#"> {"optionId":"approved","outcome":"selected"}"#;

    let acts = play(recorded!("codex-0.16.0.calls"));

    let call = |id: &str| format!(r#"block call {id} read {{"file_path":"a"}}"#);
    let (first, second) = (call("call_1"), call("call_2"));
    assert_eq!(
        acts[1..],
        [
            r#"text "I look.""#,
            // It puts a warning of its own before the model's first words.
            acts[2].as_str(),
            &first,
            "end tool_use",
            allowed,
            r#"text "I look.""#,
            r#"block text "I look.""#,
            &second,
            "end tool_use",
            allowed,
            r#"text "It says 4711""#,
            r#"block text "It says 4711""#,
            "end end_turn",
            "done",
        ]
    );
    assert!(acts[2].starts_with("block text") && acts[2].ends_with("I look.\""), "{}", acts[2]);
}

#[test]
fn a_tool_of_the_agent_is_noted() {
    let acts = play(recorded!("claude-agent-0.99.1.own-tools"));

    assert_eq!(acts[0], "note the agent uses a tool of its own (execute), in its box");
}

/// The agent says in the model's voice what the provider refused: that is no answer.
#[test]
fn an_error_is_a_failure_and_not_the_words_of_the_model() {
    let acts = play(recorded!("claude-agent-0.99.1.rate-limit"));

    assert_eq!(
        acts,
        [
            r#"text "API Error: Request rejected (429) · words of 429""#,
            "Reset",
            "failed rate_limited: the agent failed: Internal error: API Error: Request rejected (429) · words of 429",
        ]
    );
}

#[test]
fn our_tools_alone_are_permitted_and_only_once() {
    let allowed = r#"> {"optionId":"allow_once","outcome":"selected"}"#;
    let refused = r#"> {"optionId":"reject_once","outcome":"selected"}"#;
    for (call, answer) in [
        (json!({"title": "mcp__hivewright__read"}), allowed),
        (json!({"title": "Tool: hivewright/read", "kind": "other"}), allowed),
        (json!({"title": "read (hivewright MCP Server)", "kind": "fetch"}), allowed),
        (json!({"name": "mcp__hivewright__write", "title": "Write a.txt"}), allowed),
        (json!({"title": "mcp__hivewright__unknown"}), refused),
        (json!({"title": "mcp__other__read"}), refused),
        (json!({"title": "read"}), refused),
        (json!({"title": "echo hivewright read", "kind": "execute"}), refused),
        (json!({"name": "Bash", "title": "mcp__hivewright__read"}), refused),
        (json!({"title": null}), refused),
    ] {
        let mut call = call;
        call["toolCallId"] = "c".into();

        let acts = begun().hear(permission(call.clone()));

        assert_eq!(shown(acts.last().unwrap()), answer, "{call}");
    }
}

#[test]
fn files_terminals_and_what_is_unknown_are_refused() {
    let asked = [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "elicitation/create",
        "session/request_permission",
    ];

    let answers: Vec<String> = asked
        .iter()
        .flat_map(|method| begun().hear(json!({"id": 7, "method": method, "params": {}})))
        .map(|act| shown(&act))
        .collect();

    let unknown = "> error -32601";
    assert_eq!(answers, [unknown, unknown, unknown, unknown, "> error -32602"]);
}

/// An agent that does not count what messages cost shows by its work that one is complete.
#[test]
fn a_call_that_begins_ends_its_message() {
    let mut dialogue = begun();

    let mut acts = dialogue.hear(update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "a", "title": "hivewright.read", "status": "in_progress",
        "rawInput": {"file_path": "x"}})));
    acts.extend(dialogue.hear(update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "b", "title": "hivewright.write"}))));
    acts.extend(dialogue.hear(update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "b", "status": "failed"}))));
    acts.extend(dialogue.hear(update(json!({
        "sessionUpdate": "usage_update", "used": 1, "size": 2}))));

    // What has failed before it was told of is not for us to run.
    assert_eq!(all_shown(&acts), [r#"block call a read {"file_path":"x"}"#, "end tool_use"]);
}

#[test]
fn messages_of_the_model_are_not_run_together() {
    let mut dialogue = begun();
    let said = |id: &str, text: &str| {
        update(json!({"sessionUpdate": "agent_message_chunk", "messageId": id,
            "content": {"type": "text", "text": text}}))
    };

    let acts = ["1", "2"].map(|id| dialogue.hear(said(id, "Yes."))).concat();

    assert_eq!(all_shown(&acts), [r#"text "Yes.""#, r#"block text "Yes.""#, r#"text "Yes.""#]);
}

/// What an agent that takes no system prompt is told, and one that does.
#[test]
fn instructions_reach_every_agent() {
    let write = |acts: &[Act]| match acts {
        [Act::Write(line)] => serde_json::from_str::<Value>(line).unwrap()["params"].take(),
        other => panic!("{other:?}"),
    };
    let capability = json!({"sessionCapabilities": {"systemPrompt": {"mode": {"override": {}}}}});
    for (capabilities, knows) in [(json!({}), false), (capability, true)] {
        let mut dialogue = acp().dialogue(&order());
        let opened = write(&dialogue.open());
        let agent = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
        let session = write(&dialogue.hear(json!({"id": 1, "result": agent})));
        dialogue.hear(json!({"id": 2, "result": {"sessionId": "s"}}));
        let prompt = write(&dialogue.tell("[message]\nhello"));

        let nothing =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        assert_eq!(opened["clientCapabilities"], nothing);
        assert_eq!(session["_meta"]["disableBuiltInTools"], true);
        assert_eq!(
            session["mcpServers"],
            json!([{"name": "hivewright", "command": "/bin/hivewright",
                "args": ["mcp", "--socket", "/files/socket"],
                "env": [{"name": "HIVEWRIGHT_TURN_TOKEN", "value": "turn-token"}]}])
        );
        let system = json!({"mode": "override", "content": [{"type": "text", "text": "Be kind."}]});
        assert_eq!(session.get("systemPrompt"), knows.then_some(&system));
        let told = if knows {
            "[message]\nhello"
        } else {
            "[instructions]\nBe kind.\n[end of the instructions]\n\n[message]\nhello"
        };
        assert_eq!(prompt["prompt"], json!([{"type": "text", "text": told}]));
    }
}

#[test]
fn an_agent_that_wants_a_login_gets_one_with_a_key_or_fails() {
    let opened = |methods: Value| {
        let mut dialogue = acp().dialogue(&order());
        dialogue.open();
        dialogue.hear(json!({"id": 1, "result": {"protocolVersion": 1, "authMethods": methods}}));
        let error =
            json!({"id": 2, "error": {"code": -32000, "message": "Authentication required"}});
        let acts = dialogue.hear(error);
        (dialogue, all_shown(&acts))
    };
    let method = |id: &str| json!({"id": id, "name": id});

    let (mut with_key, asked) = opened(json!([method("chatgpt"), method("openai-api-key")]));
    let again = all_shown(&with_key.hear(json!({"id": 3, "result": {}})));
    let (_, failed) = opened(json!([method("chatgpt")]));

    assert_eq!((asked, again), (vec!["> authenticate".into()], vec!["> session/new".into()]));
    assert_eq!(failed, ["failed provider_auth: the agent failed: Authentication required"]);
}

#[test]
fn why_it_stopped_decides_how_a_turn_ends() {
    for (stop, end) in [
        ("end_turn", "done"),
        ("max_tokens", "done"),
        ("refusal", "failed provider_refused: the agent refuses to go on"),
        ("cancelled", "failed crash: the agent gave up by itself"),
    ] {
        let acts = begun().hear(json!({"id": 3, "result": {"stopReason": stop}}));

        assert_eq!(all_shown(&acts), [format!("end {stop}"), end.to_owned()]);
    }
    let acts = begun().hear(json!({"id": 3, "result": {"stopReason": "of a newer version"}}));
    assert!(shown(&acts[0]).starts_with("failed provider_error: the agent does not keep to"));
}

/// Who is at work is started anew with what a person adds; who has finished is told.
#[test]
fn more_is_told_when_a_prompt_is_answered() {
    let mut dialogue = begun();
    let at_work = dialogue.takes_more();
    dialogue.hear(json!({"id": 3, "result": {"stopReason": "end_turn"}}));

    let told = dialogue.tell("[message]\nand this");

    assert!(!at_work && !dialogue.takes_more());
    let Act::Write(line) = &told[0] else { panic!("{told:?}") };
    assert!(line.contains(r#""text":"[message]\nand this""#), "{line}");
}

#[test]
fn failures_have_the_codes_of_their_causes() {
    let internal = |message: &str| Error::new(-32603, message);
    for (error, code) in [
        (Error::auth_required(), Code::ProviderAuth),
        (internal("API Error: 401 no"), Code::ProviderAuth),
        (internal("API Error: Request rejected (429) · slow"), Code::RateLimited),
        (internal("API Error: 529 Overloaded"), Code::Overloaded),
        (
            internal("Prompt is too long · the request is ~300000 tokens (limit 500)"),
            Code::ContextOverflow,
        ),
        (internal("fetch failed").data(json!({"details": "ECONNREFUSED"})), Code::Network),
        (internal("of some kind"), Code::ProviderError),
    ] {
        let EngineFailure { code: found, message, .. } = classify(&error);

        assert_eq!(found, code, "{message}");
    }
}

/// No key is among what it is given, and the operator's words are filled in.
#[test]
fn an_agent_is_pointed_at_the_relay() {
    let env = [("AGENT_URL", "{relay}/v1?m={model}"), ("OPENAI_API_KEY", "other {token}")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let agent = Acp { args: vec!["--acp".into(), "-c=model={model}".into()], env };

    let launch = agent.launch(&order());

    assert_eq!(launch.args, ["--acp", "-c=model=m-1"]);
    for (name, value) in [
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000"),
        ("ANTHROPIC_API_KEY", "turn-token"),
        ("ANTHROPIC_MODEL", "m-1"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:4000/v1"),
        ("OPENAI_API_KEY", "other turn-token"),
        ("AGENT_URL", "http://127.0.0.1:4000/v1?m=m-1"),
    ] {
        assert_eq!(launch.env.get(name).map(String::as_str), Some(value), "{name}");
    }
}
