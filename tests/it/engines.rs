//! Engines: the same behaviour whatever runs a team's turns. The command-line agents are the real programs.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Service, WORKS_ITSELF, until},
    webdriver::is_quick,
};

/// All of them and the ways to speak to them: the `sdk` of a team, and what the settings say. Ours is the first.
pub(crate) const ENGINES: [(&str, &str); 7] = [
    ("native", ""),
    ("claude", ""),
    ("codex", ""),
    ("codex", "codex: {mode: exec}"),
    ("pi", ""),
    ("pi", "pi: {mode: json}"),
    ("acp", ""),
];
/// The agents, each as it is spoken to if nothing else is said.
pub(crate) const AGENTS: [&str; 4] = ["claude", "codex", "pi", "acp"];
/// The agent that is spoken to by the Agent Client Protocol.
const ACP: &str = "claude-agent-acp";

/// The folder with the agents that `./tests/run` installed; none where that may be left out.
pub(crate) fn agents() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder");
    let path = target.join("agents/node_modules/.bin");
    let is_there = path.join("claude").exists() && path.join(ACP).exists();
    assert!(
        is_there || is_quick(),
        "{} is missing: `./tests/run` installs it (HIVEWRIGHT_TESTS=quick does without)",
        path.display()
    );
    is_there.then_some(path)
}

/// A home whose main team runs on an engine, with the demo as its model.
pub(crate) fn home(agents: &Path, sdk: &str, settings: &str) -> Service {
    let engines = AGENTS.map(|name| {
        if name == "acp" {
            return format!("  acp: {{command: [{}]}}\n", agents.join(ACP).display());
        }
        let binary = agents.join(name);
        match settings.strip_prefix(&format!("{name}: {{")) {
            Some(rest) => format!("  {name}: {{binary: {}, {rest}\n", binary.display()),
            None => format!("  {name}: {{binary: {}}}\n", binary.display()),
        }
    });
    let config = format!("store: {{durability: process}}\nengines:\n{}", engines.concat());
    Service::prepare()
        .with_file("data/config/config.yaml", &config)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("run/teams/main/config.yaml", &team(sdk))
}

pub(crate) fn team(sdk: &str) -> String {
    format!("{WORKS_ITSELF}sdk: {sdk}\n")
}

/// The profile of a fake model, in a format that the agent speaks. Pi speaks two, in each of its modes one.
pub(crate) fn provider(model: &FakeModel, sdk: &str, settings: &str) -> String {
    let provider = match (sdk, settings) {
        ("codex", _) | ("pi", "pi: {mode: json}") => "openai",
        _ => "anthropic",
    };
    format!(
        "profiles:\n  default:\n    provider: {provider}\n    api_url: {}\n    api_key: {KEY}\n    model: m\n",
        model.url()
    )
}

/// The newest conversation, as people and programs are told it.
pub(crate) async fn history(service: &Service) -> Value {
    let (_, sessions) = service.api("GET", "/api/v1/sessions", None).await;
    let id = sessions["data"][0]["id"].as_str().expect("a session").to_owned();
    let path = format!("/api/v1/sessions/{id}/history?view=full&limit=200");
    let (status, history) = service.api("GET", &path, None).await;
    assert_eq!(status, 200, "{history}");
    history
}

/// The same in short: roles and kinds of blocks.
pub(crate) async fn shape(service: &Service) -> Vec<String> {
    let history = history(service).await;
    let rows = history["data"].as_array().expect("rows");
    rows.iter()
        .map(|row| format!("{}: {}", row["role"].as_str().unwrap_or("?"), kinds(row)))
        .collect()
}

fn kinds(row: &Value) -> String {
    let blocks = row["content"].as_array().into_iter().flatten();
    let kinds = blocks.map(|block| match block["type"].as_str() {
        Some("toolCall") => block["name"].as_str().unwrap_or("?").to_owned(),
        Some(other) => other.to_owned(),
        None => "?".to_owned(),
    });
    kinds.collect::<Vec<_>>().join(" ")
}

/// The kinds of blocks that were said and called, sorted.
fn blocks(shape: &[String]) -> Vec<&str> {
    let rows = shape.iter().filter_map(|row| row.strip_prefix("assistant: "));
    let mut blocks: Vec<&str> = rows.flat_map(str::split_whitespace).collect();
    blocks.sort_unstable();
    blocks
}

/// EN-31, EN-45, EN-124: words, thinking, calls together, one that fails, a step behind them, the answer.
#[actix::test]
async fn a_conversation_has_the_same_shape_on_every_engine() {
    let Some(agents) = agents() else { return };
    let script = "#think Let me see.\n#say I look.\n\
                  #call write {\"file_path\": \"a.txt\", \"content\": \"4711\"}\n\
                  #call read {\"file_path\": \"missing.txt\"}\n#then\n\
                  #call read {\"file_path\": \"a.txt\"}\n#then\n#reply It says {result}";
    let mut ours = Vec::new();
    for (sdk, settings) in ENGINES {
        let service = home(&agents, sdk, settings).started().await;
        let mut client = service.connect().await;

        let hello = client.ask("hello").await;
        let worked = client.ask(script).await;
        let shape = shape(&service).await;

        let said = "[offline demo] You said: hello\n\nType `help` to see what the demo can do.";
        assert_eq!(hello["content"], said, "{sdk} {settings}: {hello}");
        let content = worked["content"].as_str().unwrap_or_default();
        assert!(
            content.starts_with("It says") && content.trim().ends_with("4711"),
            "{sdk}: {worked}"
        );
        if ours.is_empty() {
            ours = shape;
        } else if sdk == "codex" {
            // It makes the calls of a message one after the other, in any order.
            assert_eq!(blocks(&shape), blocks(&ours), "{sdk} {settings}");
        } else {
            assert_eq!(shape, ours, "{sdk} {settings}");
        }
    }
}

/// EN-32: what was said stays, whatever answers next, and whatever was stopped in between.
#[actix::test]
async fn a_conversation_goes_on_when_its_engine_changes() {
    let Some(agents) = agents() else { return };
    let model = FakeModel::start();
    model.answer_with(|body| {
        let text = body.to_string();
        let knows = text.contains("The number is 4711");
        match text.rfind("which number").is_some() {
            true if knows => Reply::text("It was 4711."),
            true => Reply::text("I do not know."),
            false => Reply::text("The number is 4711."),
        }
    });
    let home = home(&agents, "native", "");
    let mut service = home
        .with_file("data/config/providers.yaml", &provider(&model, "claude", ""))
        .started()
        .await;
    let mut client = service.connect().await;
    let first = client.ask("Tell me a number").await;
    let [topic, channel] =
        ["topic_id", "channel_id"].map(|name| first[name].as_str().expect("a name").to_owned());
    for (place, sdk) in ["claude", "pi", "native"].into_iter().enumerate() {
        service.write("run/teams/main/config.yaml", &team(sdk));
        if sdk == "pi" {
            service.kill();
            service.launch().await;
            client = service.connect().await;
            client.resume(&channel, 0).await;
        }
        let id = format!("m{place}");
        client.say_in(&topic, &id, "which number was it?").await;
        let answer = client.end_of(&id).await;

        assert_eq!(answer["content"], "It was 4711.", "{sdk}: {answer}");
    }
}

/// PL-79, EN-19: a turn that waits for a person has no process; it goes on behind what was done.
#[actix::test]
async fn a_call_that_waits_for_a_person_is_made_once() {
    let Some(agents) = agents() else { return };
    for sdk in AGENTS {
        let service = home(&agents, sdk, "");
        let config = fs::read_to_string(service.path("data/config/config.yaml")).expect("settings");
        let rule = "policy:\n  - {id: ask, effect: require_approval, resource: \"tool:write\"}\n";
        service.write("data/config/config.yaml", &format!("{config}{rule}"));
        let service = service.started().await;
        let mut client = service.connect().await;
        let script = "#call memory_save {\"key\": \"k\", \"content\": \"c\", \"type\": \"lesson\"}\n#then\n\
                      #call write {\"file_path\": \"a.txt\", \"content\": \"x\"}\n#then\n#reply Done: {result}";

        client.say("m1", script).await;
        let one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
        let held = service.until("/api/v1/approvals?status=pending", one).await[0].take();
        until("nothing runs meanwhile", async || descendants(service.pid()).is_empty()).await;
        let path = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
        let word = json!({"decision": "approve", "digest": held["digest"]});
        let (status, decided) = service.api("POST", &path, Some(word)).await;
        let end = client.end_of("m1").await;

        assert_eq!(status, 200, "{decided}");
        assert!(
            end["content"].as_str().is_some_and(|text| text.starts_with("Done: Wrote")),
            "{sdk}: {end}"
        );
        let calls = shape(&service).await.join("\n");
        assert_eq!(calls.matches("memory_save").count(), 1, "{sdk}: {calls}");
    }
}

/// The processes below one, with the moments when they began.
pub(crate) fn descendants(of: u32) -> HashSet<(u32, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").expect("processes").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).to_owned();
        let fields: Vec<&str> = rest.split(' ').collect();
        if let (Some(parent), Some(began)) = (fields.get(1), fields.get(19)) {
            all.push((pid, parent.parse::<u32>().unwrap_or(0), (*began).to_owned()));
        }
    }
    let mut found = HashSet::new();
    let mut open = vec![of];
    while let Some(parent) = open.pop() {
        for (pid, _, began) in all.iter().filter(|(_, above, _)| *above == parent) {
            found.insert((*pid, began.clone()));
            open.push(*pid);
        }
    }
    found
}

pub(crate) fn is_there((pid, began): &(u32, String)) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split(' ').nth(19) == Some(began) && !rest.starts_with('Z')
}

/// EN-59, EN-61, EN-125, EN-128: an agent ends with its turn and with the service, and holds no key.
#[actix::test]
async fn an_agent_leaves_nothing_behind_and_holds_no_key() {
    let Some(agents) = agents() else { return };
    let secret = "vault-value-0123456789abcdef";
    for sdk in AGENTS {
        let providers = format!(
            "profiles:\n  default: {{provider: offline}}\n  other: {{provider: openai, api_url: \"http://127.0.0.1:9\", \
             api_key: {KEY}, model: m}}\n"
        );
        let home = home(&agents, sdk, "").with_file("data/config/providers.yaml", &providers);
        let mut service = home.started().await;
        let done = service.run(&["vault", "set", "PASSWORD", "--team", "main"], secret).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let mut client = service.connect().await;

        client.say("m1", "#say I begin.\n#wait 60000\n#reply late").await;
        client
            .until(|frame| frame["content"].as_str().is_some_and(|text| text.contains("begin")))
            .await;
        let running = descendants(service.pid());
        let shown: String = running.iter().map(|(pid, _)| told_to(*pid)).collect();
        client.say("m2", "/stop").await;
        let stopped = client.end_of("m1").await;
        until("it is gone", async || !running.iter().any(is_there)).await;
        client.say("m3", "#say I begin.\n#wait 60000\n#reply late").await;
        client
            .until(|frame| frame["content"].as_str().is_some_and(|text| text.contains("begin")))
            .await;
        let killed = descendants(service.pid());
        service.kill();
        until("nothing outlives the service", async || !killed.iter().any(is_there)).await;

        assert!(running.len() > 2, "{sdk}: {running:?}");
        assert_eq!(stopped["status"], "cancelled", "{sdk}: {stopped}");
        assert!(
            shown.contains("HIVEWRIGHT_TURN_TOKEN") || shown.contains("ANTHROPIC_API_KEY"),
            "{shown}"
        );
        let token = service.token();
        assert!(![KEY, secret, &token].iter().any(|value| shown.contains(value)), "{sdk}: {shown}");
    }
}

/// The command line, the variables and the files of a process.
fn told_to(pid: u32) -> String {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mut told =
        String::from_utf8_lossy(&[read("cmdline"), read("environ")].concat()).into_owned();
    let inside = PathBuf::from(format!("/proc/{pid}/root"));
    let mut open = Vec::new();
    // What starts it is outside of the box, where it sees what the service sees.
    if inside.join("run/hivewright/work").exists() {
        open.extend(["run/hivewright", "home/team", "tmp"].map(|folder| inside.join(folder)));
    }
    while let Some(path) = open.pop() {
        if let Ok(entries) = fs::read_dir(&path) {
            let below = entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
            open.extend(below.map(|entry| entry.path()));
        } else if path.is_file() {
            told += &String::from_utf8_lossy(&fs::read(&path).unwrap_or_default());
        }
    }
    told
}

/// EN-96: what is missing or too old is said at once, with what to do, and the lane serves the next message.
#[actix::test]
async fn an_agent_that_cannot_be_used_is_named_at_once() {
    let nowhere = tempfile::tempdir().expect("a folder");
    let service = home(nowhere.path(), "claude", "").started().await;
    let mut client = service.connect().await;

    let missing = client.ask("hello").await;
    let old = nowhere.path().join("claude");
    fs::write(&old, "#!/bin/sh\necho 1.0.0\n").expect("a program");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).expect("a mode");
    let too_old = client.ask("hello").await;
    let doctor = service.run(&["doctor"], "").await;
    service.write("run/teams/main/config.yaml", &team("native"));
    let answered = client.ask("hello").await;

    for (answer, words) in
        [(&missing, "claude CLI not found"), (&too_old, "claude 1.0.0 is too old")]
    {
        assert_eq!(answer["code"], "config_error", "{answer}");
        assert!(answer.to_string().contains(words), "{answer}");
    }
    assert!(doctor.stdout.contains("claude 1.0.0 is too old"), "{doctor:?}");
    assert_eq!(answered["status"], "done", "{answered}");
}

/// A command that runs until it is told to go on.
const WAITS: &str = "until [ -e go ]; do sleep 0.05; done";

/// Calls a command that waits, and says whether it has heard of roses.
fn gardener(body: &Value) -> Reply {
    let text = body.to_string();
    let called = ["tool_result", "function_call_output", "tool_call_id", "you called bash"];
    match (text.contains("Roses too."), called.iter().any(|sign| text.contains(sign))) {
        (true, _) => Reply::text("Roses too."),
        (false, true) => Reply::text("Tulips."),
        (false, false) => Reply::call("mcp__hivewright__bash", json!({ "command": WAITS })),
    }
}

/// EN-21, EN-26: words that join a turn are heard in it, also by an agent that takes one prompt only.
#[actix::test]
async fn words_that_join_a_turn_are_heard_in_it() {
    let Some(agents) = agents() else { return };
    for (sdk, settings) in &ENGINES[1..] {
        let model = FakeModel::start();
        model.answer_with(gardener);
        let home = home(&agents, sdk, settings);
        home.write("data/config/providers.yaml", &provider(&model, sdk, settings));
        home.write("run/teams/main/config.yaml", &format!("{}queue_mode: steer\n", team(sdk)));
        let service = home.started().await;
        let mut client = service.connect().await;
        client.say("m1", "Tulips?").await;
        let running = client.until(|frame| frame["kind"] == "tool_call").await;
        let topic = running["topic_id"].as_str().expect("a topic");

        client.say_in(topic, "m2", "Roses too.").await;
        client.until(|frame| frame["type"] == "ack" && frame["message_id"] == "m2").await;
        service.write("run/teams/main/go", "");
        let ends = [client.terminal().await, client.terminal().await];

        let by_id = |id: &str| ends.iter().find(|end| end["message_id"] == id).expect("an end");
        let (first, second) = (by_id("m1"), by_id("m2"));
        assert_eq!(second["joined_task_id"], first["task_id"], "{sdk} {settings}: {ends:?}");
        let said = first["content"].as_str().unwrap_or_default();
        assert!(said.ends_with("Roses too."), "{sdk} {settings}: {first}");
    }
}
