use hivewright_actors::{
    engine::{Block, EngineFailure},
    task::outcome::Code,
    thinking::Thinking,
};
use serde_json::{Value, json};

use super::{Api, Pi, failure::classify};
use crate::{
    engines::harness::program::{Act, Dialogue, Launch, Order, Program},
    settings::config::PiMode,
};

const RPC: Pi = Pi { mode: PiMode::Rpc, api: Api::Anthropic };
const JSON: Pi = Pi { mode: PiMode::Json, api: Api::Anthropic };

fn order() -> Order {
    Order {
        model: "m-1".into(),
        sees: false,
        thinking: Some(Thinking::Medium),
        system: "Be kind.".into(),
        tools: ["add", "fail", "slow", "read"].map(str::to_owned).into(),
        workspace: "/work".into(),
        home: "/home".into(),
        files: "/files".into(),
        relay: "http://127.0.0.1:4000".into(),
        token: "turn-token".into(),
        bridge: "/bin/hivewright".into(),
        socket: "/files/turn.sock".into(),
    }
}

/// A dialogue in which it has been told its task.
fn begun() -> Box<dyn Dialogue> {
    let mut dialogue = RPC.dialogue(&order());
    dialogue.open();
    dialogue.hear(json!({"id": "state", "type": "response", "success": true, "data": {}}));
    dialogue.tell("go");
    dialogue.hear(json!({"id": "tell-1", "type": "response", "success": true}));
    dialogue
}

fn shown(act: &Act) -> String {
    match act {
        Act::Write(line) => match serde_json::from_str::<Value>(line) {
            Ok(command) => format!("> {}", command["type"].as_str().unwrap()),
            Err(_) => format!("> {line:?}"),
        },
        Act::Text(text) => format!("text {text:?}"),
        Act::Thinking(text) => format!("thinking {text:?}"),
        Act::Block(Block::Text { text }) => format!("block text {text:?}"),
        Act::Block(Block::Thinking { text, block: None }) => format!("block thinking {text:?}"),
        Act::Block(Block::Call(call)) => {
            format!("block call {} {}", call.name, serde_json::to_string(&call.args).unwrap())
        }
        Act::MessageEnd(stop) => format!("end {}", stop.as_deref().unwrap_or("-")),
        Act::Note(note) => format!("note {note}"),
        Act::Retry(note) => format!("retry {note}"),
        Act::Done(Ok(())) => "done".into(),
        Act::Done(Err(failure)) => format!("failed {}: {}", failure.code.as_str(), failure.message),
        other => format!("{other:?}"),
    }
}

/// What becomes of a recorded stream.
fn play(pi: Pi, stream: &str) -> Vec<String> {
    let mut dialogue = pi.dialogue(&order());
    let mut acts = dialogue.open();
    let mut ready = acts.contains(&Act::Ready);
    if ready {
        acts.extend(dialogue.tell("go"));
    }
    for line in stream.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let heard = dialogue.hear(line);
        let now_ready = !ready && heard.contains(&Act::Ready);
        acts.extend(heard);
        if now_ready {
            ready = true;
            acts.extend(dialogue.tell("go"));
        }
    }
    acts.iter().map(shown).collect()
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/engines/pi-", $name, ".jsonl"))
    };
}

const OPENED: [&str; 4] = ["> get_state", "> set_auto_compaction", "Ready", "> prompt"];

fn after_opening(acts: &[String]) -> &[String] {
    assert_eq!(acts[..4], OPENED);
    &acts[4..]
}

/// EN-89 to EN-92
#[test]
fn a_turn_with_tools_is_the_same_in_all_versions() {
    for stream in [recorded!("0.73.1.tools"), recorded!("0.79.10.tools"), recorded!("1.5.0.tools")]
    {
        let acts = play(RPC, stream);

        assert_eq!(
            after_opening(&acts),
            [
                r#"thinking "Two tools.""#,
                r#"text "Calling.""#,
                r#"block thinking "Two tools.""#,
                r#"block text "Calling.""#,
                r#"block call add {"a":1,"b":2}"#,
                "block call fail {}",
                "end toolUse",
                r#"text "The tool has answered. Done.""#,
                r#"block text "The tool has answered. Done.""#,
                "end stop",
                "> get_state",
                "done",
            ]
        );
    }
}

/// EN-92: in an old version nothing in the end of a run says that it will be tried again, and it is
/// idle in between.
#[test]
fn a_run_that_is_tried_again_is_not_the_end() {
    let old = play(RPC, recorded!("0.73.1.retry"));
    let new = play(RPC, recorded!("1.5.0.retry"));
    let between = play(RPC, recorded!("0.79.10.retry"));

    let half = [r#"text "Half of""#, "> get_state", "Reset", "retry pi tries again: terminated"];
    let end = [
        r#"text "Half of""#,
        "> get_state",
        r#"block text "Half of""#,
        "failed network: pi failed: terminated",
    ];
    assert_eq!(after_opening(&old), [&half[..], &half, &end].concat());
    let half = [r#"text "Half of""#, "Reset", "retry pi tries again: terminated"];
    assert_eq!(after_opening(&new), [&half[..], &half, &end].concat());
    assert_eq!(after_opening(&between), [&half[..], &half, &end].concat());
}

#[test]
fn a_call_that_pi_answers_itself_is_not_ours_to_answer() {
    let unreadable = play(RPC, recorded!("1.5.0.unreadable-arguments"));
    let cut = play(RPC, recorded!("1.5.0.cut-short"));
    let unknown = play(RPC, recorded!("0.73.1.unknown-tool"));

    assert_eq!(
        after_opening(&unreadable)[..2],
        ["note a call of `add` was not made: its arguments are not JSON", "end toolUse"]
    );
    assert_eq!(
        after_opening(&cut)[..4],
        [
            r#"text "Cut""#,
            "note a call of `add` was not made: the message was cut short",
            r#"block text "Cut""#,
            "end length",
        ]
    );
    assert_eq!(
        after_opening(&unknown)[..3],
        [
            r#"block call add {"a":1,"b":2}"#,
            "end toolUse",
            "note the model called `nope`, which is not one of its tools",
        ]
    );
    for acts in [unreadable, cut, unknown] {
        assert_eq!(acts.last().unwrap(), "done");
    }
}

#[test]
fn a_tool_of_pi_that_runs_ends_the_turn() {
    let acts = play(JSON, recorded!("0.73.1.mode-json.openai-completions"));

    assert_eq!(
        acts,
        [
            "Ready",
            r#"> "go""#,
            "CloseInput",
            "end toolUse",
            "failed provider_error: pi broke its protocol: it ran the tool `bash`, which is not one of ours",
        ]
    );
}

/// EN-90: the partial message may be ahead of the deltas.
#[test]
fn in_json_mode_text_is_told_once_and_the_run_is_the_turn() {
    let stream = recorded!("0.73.1.mode-json.openai-completions")
        .lines()
        .filter(|line| !line.contains("tool_execution"))
        .collect::<Vec<_>>()
        .join("\n");

    let acts = play(JSON, &stream);

    assert_eq!(
        acts[3..],
        [
            "end toolUse",
            r#"text "The ""#,
            r#"text "tool ""#,
            r#"text "said: ""#,
            r#"text "fake-tool-ok. ""#,
            r#"text "Done. ""#,
            r#"block text "The tool said: fake-tool-ok. Done. ""#,
            "end stop",
            "done",
        ]
    );
}

#[test]
fn text_that_was_not_streamed_is_told_with_its_block() {
    let mut dialogue = begun();
    let delta = json!({"type": "text_delta", "contentIndex": 0, "delta": "One"});
    dialogue.hear(json!({"type": "message_update", "assistantMessageEvent": delta}));

    let acts = dialogue.hear(json!({"type": "message_end", "message": {
        "role": "assistant", "stopReason": "stop",
        "content": [{"type": "text", "text": "One, two"}, {"type": "thinking", "thinking": "hm"}],
    }}));

    assert_eq!(
        acts.iter().map(shown).collect::<Vec<_>>(),
        [
            r#"text ", two""#,
            r#"thinking "hm""#,
            r#"block text "One, two""#,
            r#"block thinking "hm""#,
            "end stop"
        ]
    );
}

/// EN-95
#[test]
fn what_is_told_at_the_end_is_still_answered() {
    let mut dialogue = begun();
    dialogue.hear(json!({"type": "agent_end", "messages": [], "willRetry": false}));

    let told = dialogue.tell("and this");
    let settled = dialogue.hear(json!({"type": "agent_settled"}));
    let taken = dialogue.hear(json!({"id": "tell-2", "type": "response", "success": true}));
    let idle = dialogue.hear(
        json!({"id": "idle", "type": "response", "success": true, "data": {"isStreaming": false}}),
    );
    dialogue.hear(json!({"type": "agent_start"}));
    dialogue.hear(json!({"type": "agent_end", "messages": [], "willRetry": false}));
    let end = dialogue.hear(json!({"type": "agent_settled"}));

    assert_eq!(
        told,
        [Act::Write(
            json!({"id": "tell-2", "type": "prompt", "message": "and this", "streamingBehavior": "steer"})
                .to_string()
        )]
    );
    assert_eq!((settled, taken, idle), (vec![], vec![], vec![]));
    assert_eq!(end, [Act::Done(Ok(()))]);
}

#[test]
fn a_steered_message_belongs_to_the_turn() {
    let acts = play(RPC, recorded!("1.5.0.steer"));

    assert_eq!(
        acts[acts.len() - 6..],
        [
            "end stop",
            r#"text "Hello ""#,
            r#"block text "Hello ""#,
            "end stop",
            "> get_state",
            "done"
        ]
    );
}

#[test]
fn it_is_asked_again_until_it_is_idle() {
    let mut dialogue = begun();
    dialogue.hear(json!({"type": "agent_end", "messages": []}));
    let state = |streaming: bool| json!({"id": "idle", "type": "response", "success": true, "data": {"isStreaming": streaming}});

    let busy = dialogue.hear(state(true));
    let idle = dialogue.hear(state(false));

    assert_eq!(busy.iter().map(shown).collect::<Vec<_>>(), ["> get_state"]);
    assert_eq!(idle, [Act::Done(Ok(()))]);
}

/// EN-95
#[test]
fn a_question_to_a_person_is_cancelled() {
    let acts = begun().hear(
        json!({"type": "extension_ui_request", "id": "u1", "method": "confirm", "title": "Sure?"}),
    );

    assert_eq!(
        acts,
        [Act::Write(
            json!({"type": "extension_ui_response", "id": "u1", "cancelled": true}).to_string()
        )]
    );
}

/// EN-66: the exit code says nothing, so it is not asked for.
#[test]
fn output_that_ends_early_is_a_crash() {
    let mut dialogue = begun();
    dialogue.hear(json!({"type": "extension_error", "error": "the tools have gone away"}));

    let failure = dialogue.ended();

    assert_eq!(
        failure,
        EngineFailure::new(
            Code::Crash,
            "pi ended before its turn was over: the tools have gone away"
        )
    );
}

/// The messages are those of real runs against an API that fails so.
#[test]
fn failures_have_their_class() {
    let said = [
        (r#"401 {"type":"error","error":{"type":"authentication_error"}}"#, Code::ProviderAuth),
        (r#"401: {"message":"invalid x-api-key"}"#, Code::ProviderAuth),
        ("429 slow down", Code::RateLimited),
        (r#"429: {"message":"slow down"}"#, Code::RateLimited),
        (r#"500 {"type":"error","error":{"type":"api_error"}}"#, Code::Overloaded),
        (r#"529 {"type":"error","error":{"type":"overloaded_error"}}"#, Code::Overloaded),
        (r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Code::Overloaded),
        ("400 bad thing", Code::ProviderError),
        (
            r#"400 {"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            Code::ContextOverflow,
        ),
        ("400 This model's maximum context length is 128000 tokens.", Code::ContextOverflow),
        ("Connection error.", Code::Network),
        ("terminated", Code::Network),
        ("Anthropic stream ended without a stop reason", Code::Network),
        ("Provider finish_reason: content_filter", Code::ProviderRefused),
        ("The model refused to complete the request", Code::ProviderRefused),
        ("An unknown error occurred", Code::ProviderError),
        ("é", Code::ProviderError),
    ];
    for (said, code) in said {
        assert_eq!(classify(said).code, code, "{said}");
    }
}

fn file<'a>(launch: &'a Launch, path: &str) -> &'a str {
    let file = launch.files.iter().find(|(at, _)| at.to_str() == Some(path));
    &file.unwrap().1
}

/// EN-87
#[test]
fn it_is_started_without_tools_of_its_own_and_blind_to_the_workspace() {
    let launch = RPC.launch(&order());

    assert_eq!(
        launch.args.join(" "),
        "--no-session -ne -ns -np -nc --no-themes --no-approve --no-mcp --append-system-prompt  --mode rpc \
         --provider hivewright --model m-1 --thinking medium \
         -e /files/hivewright-pi.js --system-prompt /files/pi-system-prompt.md \
         --tools mcp__hivewright__add,mcp__hivewright__fail,mcp__hivewright__slow,mcp__hivewright__read"
    );
    assert_eq!(file(&launch, "/files/pi-system-prompt.md"), "Be kind.");
    assert!(file(&launch, "/files/hivewright-pi.js").contains("registerTool"));
}

#[test]
fn without_tools_it_has_none() {
    let launch = JSON.launch(&Order { tools: vec![], ..order() });

    assert_eq!(launch.args[launch.args.len() - 2..], ["--no-tools", "-p"]);
}

/// EN-88
#[test]
fn its_environment_holds_the_token_of_the_turn_and_no_key() {
    let env = RPC.launch(&order()).env;

    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "HIVEWRIGHT_BRIDGE",
            "HIVEWRIGHT_SOCKET",
            "HIVEWRIGHT_TURN_TOKEN",
            "PI_CODING_AGENT_DIR",
            "PI_OFFLINE",
            "PI_SKIP_VERSION_CHECK",
            "PI_TELEMETRY"
        ]
    );
    assert_eq!(env["PI_CODING_AGENT_DIR"], "/home/pi");
}

/// EN-88
#[test]
fn the_one_provider_is_the_relay() {
    let provider = |api, thinking| {
        let launch = Pi { api, ..RPC }.launch(&Order { thinking, ..order() });
        let models: Value = serde_json::from_str(file(&launch, "/home/pi/models.json")).unwrap();
        models["providers"]["hivewright"].clone()
    };

    let anthropic = provider(Api::Anthropic, Some(Thinking::Off));
    let openai = provider(Api::OpenAi, None);

    assert_eq!(
        [&anthropic["api"], &anthropic["baseUrl"], &anthropic["apiKey"]],
        ["anthropic-messages", "http://127.0.0.1:4000", "turn-token"]
    );
    assert_eq!(
        [&openai["api"], &openai["baseUrl"]],
        ["openai-completions", "http://127.0.0.1:4000/v1"]
    );
    assert_eq!(anthropic["models"][0]["reasoning"], true);
    assert_eq!(openai["models"][0]["reasoning"], false);
}

#[test]
fn only_where_it_can_be_asked_for_its_end_it_tries_again_by_itself() {
    let retry = |pi: Pi| {
        let launch = pi.launch(&order());
        let settings: Value =
            serde_json::from_str(file(&launch, "/home/pi/settings.json")).unwrap();
        (settings["retry"]["enabled"].clone(), settings["compaction"]["enabled"].clone())
    };

    assert_eq!(retry(RPC), (json!(true), json!(false)));
    assert_eq!(retry(JSON), (json!(false), json!(false)));
}
