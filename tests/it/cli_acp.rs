//! `hivewright acp`: a team as an agent for editors. The editor's side is the official client library.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    engines,
    service::{PATIENCE, Service, WORKS_ITSELF},
};

/// An editor with one thread.
struct Editor {
    _child: Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    heard: Vec<Value>,
}

impl Editor {
    /// One that has opened its thread; none where the library may be left out.
    async fn open(service: &Service, arguments: &[&str]) -> Option<Self> {
        let mut editor = Self::start(service, arguments, None)?;
        editor.until(|line| line["sessionId"].is_string()).await;
        Some(editor)
    }

    /// `thread` is one to open again.
    fn start(service: &Service, arguments: &[&str], thread: Option<&str>) -> Option<Self> {
        let programs = engines::agents()?;
        let library = programs.join("../@agentclientprotocol/sdk/dist/v1/stable/acp.js");
        let agent = service.command(arguments);
        let mut child = Command::new(programs.join("node"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/editor.mjs"))
            .arg(library)
            .arg(agent.get_program())
            .args(agent.get_args())
            .envs(thread.map(|thread| ("EDITOR_THREAD", thread)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node starts");
        let orders = child.stdin.take().expect("an input");
        let lines = BufReader::new(child.stdout.take().expect("an output")).lines();
        Some(Self { _child: child, orders, lines, heard: Vec::new() })
    }

    async fn order(&mut self, order: Value) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("it reads");
    }

    /// The next thing that fits.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("nothing more after {:#?}", self.heard));
            let line = line.expect("it can be read").expect("it goes on");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            self.heard.push(line.clone());
            if fits(&line) {
                return line;
            }
        }
    }

    /// The same, also among what was heard.
    async fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        match self.heard.iter().find(|line| fits(line)) {
            Some(line) => line.clone(),
            None => self.until(fits).await,
        }
    }

    /// Says something and hears how it ended.
    async fn prompt(&mut self, words: &str) -> Value {
        self.order(json!({ "prompt": words })).await;
        self.until(is_end).await
    }

    /// The words of the team since the last look, and kinds of updates beside them.
    fn shown(&mut self) -> (String, Vec<String>) {
        let (mut words, mut others) = (String::new(), Vec::new());
        for update in self.heard.drain(..).map(|mut line| line["update"].take()) {
            match update["sessionUpdate"].as_str() {
                Some("agent_message_chunk") => {
                    words += update["content"]["text"].as_str().expect("text");
                }
                Some(kind) => {
                    let status = update["status"].as_str().unwrap_or_default();
                    others.push(format!("{kind} {status}").trim_end().to_owned());
                }
                None => {}
            }
        }
        (words, others)
    }
}

/// What the model thought.
fn thoughts(heard: &[Value]) -> String {
    let updates = heard.iter().map(|line| &line["update"]);
    let thoughts = updates.filter(|update| update["sessionUpdate"] == "agent_thought_chunk");
    thoughts.filter_map(|update| update["content"]["text"].as_str()).collect()
}

fn is_end(line: &Value) -> bool {
    line["stopReason"].is_string() || line["error"].is_string()
}

fn home(policy: &str) -> Service {
    Service::prepare()
        .with_file("data/config/config.yaml", &format!("store: {{durability: process}}\n{policy}"))
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
}

const APPROVAL: &str =
    "policy:\n  - {id: ask, effect: require_approval, resource: \"tool:write\"}\n";

#[actix::test]
async fn an_editor_talks_with_the_main_team() {
    let service = home("").started().await;
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };
    let script = "#say I look.\n#call write {\"file_path\": \"a.txt\", \"content\": \"4711\"}\n#then\n\
                  #call read {\"file_path\": \"missing.txt\"}\n#then\n#reply Done.";

    let worked = editor.prompt(script).await;
    let shown = editor.shown();
    let more = editor.prompt("hello").await;
    let (words, _) = editor.shown();
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;

    assert_eq!(
        (&worked["stopReason"], &more["stopReason"]),
        (&json!("end_turn"), &json!("end_turn"))
    );
    let calls = ["tool_call in_progress", "tool_call_update completed"];
    let failed = ["tool_call in_progress", "tool_call_update failed"];
    assert_eq!(
        shown,
        ("I look.Done.".into(), [calls, failed].concat().into_iter().map(str::to_owned).collect())
    );
    assert!(words.starts_with("[offline demo] You said: hello"), "{words}");
    // One thread is one conversation.
    assert_eq!(topics["data"].as_array().map(Vec::len), Some(1), "{topics}");
}

/// A thread is opened again by another process: all of it is shown, and it goes on in its topic. What the model thinks is shown
/// as it comes, and again.
#[actix::test]
async fn an_editor_opens_a_thread_again() {
    let service = home("").started().await;
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };
    let script = "#think Hm, well.\n#say I look.\n#call write {\"file_path\": \"a.txt\", \"content\": \"4711\"}\n#then\n\
                  #call read {\"file_path\": \"missing.txt\"}\n#then\n#reply Done.";
    let thinks = |line: &Value| line["update"]["sessionUpdate"] == "agent_thought_chunk";

    let opened = editor.find(|line| line["sessionId"].is_string()).await;
    let hello = editor.find(|line| line["hello"].is_object()).await;
    editor.prompt(script).await;
    // It may come in pieces.
    while !thoughts(&editor.heard).contains("Hm, well.") {
        editor.until(thinks).await;
    }
    drop(editor);
    let thread = opened["sessionId"].as_str().expect("a name");
    let mut again = Editor::start(&service, &["acp"], Some(thread)).expect("an editor");
    again.until(|line| line["sessionId"] == thread).await;
    let user = again.find(|line| line["update"]["sessionUpdate"] == "user_message_chunk").await;
    let shown = again.shown();
    let more = again.prompt("hello").await;
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;
    let mut nobody = Editor::start(&service, &["acp"], Some("ws:none")).expect("an editor");
    let refused = nobody.until(is_end).await;

    assert_eq!(hello["hello"]["agentCapabilities"]["loadSession"], true, "{hello}");
    assert_eq!(user["update"]["content"]["text"], script, "{user}");
    let kinds =
        ["user_message_chunk", "agent_thought_chunk", "tool_call completed", "tool_call failed"];
    assert_eq!(shown, ("I look.Done.".into(), kinds.map(str::to_owned).to_vec()));
    assert_eq!(more["stopReason"], "end_turn", "{more}");
    assert_eq!(topics["data"].as_array().map(Vec::len), Some(1), "{topics}");
    assert!(refused["error"].as_str().unwrap().contains("`ws:none`"), "{refused}");
}

#[actix::test]
async fn an_editor_stops_a_turn() {
    let service = home("").started().await;
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };

    editor.order(json!({"prompt": "#say I begin.\n#wait 60000\n#reply late"})).await;
    editor.until(|line| line["update"]["content"].to_string().contains("begin")).await;
    editor.order(json!({"cancel": true})).await;
    let stopped = editor.until(is_end).await;
    let again = editor.prompt("hello").await;

    assert_eq!(
        (&stopped["stopReason"], &again["stopReason"]),
        (&json!("cancelled"), &json!("end_turn"))
    );
}

#[actix::test]
async fn an_editor_decides_on_calls() {
    let service = home(APPROVAL).started().await;
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };
    let script = "#call write {\"file_path\": \"a.txt\", \"content\": \"x\"}\n#then\n#reply It says: {result}";
    let mut answers = Vec::new();

    for kind in ["reject_once", "allow_once"] {
        editor.order(json!({ "prompt": script })).await;
        let asked = editor.until(|line| line["permission"].is_object()).await;
        let call = &asked["permission"]["toolCall"];
        assert_eq!(call["rawInput"]["file_path"], "a.txt", "{asked}");
        assert!(!service.path("run/teams/main/a.txt").exists());
        editor.order(json!({ "choose": kind })).await;
        let ended = editor.until(is_end).await;
        assert_eq!(ended["stopReason"], "end_turn", "{ended}");
        answers.push(editor.shown().0);
    }

    assert!(answers[0].contains("denied"), "{answers:?}");
    assert!(answers[1].contains("It says: Wrote"), "{answers:?}");
    assert!(service.path("run/teams/main/a.txt").exists());
}

/// A token that may not decide is shown what waits, and another person's word lets the turn go on.
#[actix::test]
async fn whoever_may_not_decide_is_shown_what_waits() {
    let service = home(APPROVAL).started().await;
    let wish = json!({"name": "ed", "scopes": ["chat", "read"]});
    let (_, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    service.write("token", made["data"]["token"].as_str().expect("a token"));
    let file = service.path("token").display().to_string();
    let Some(mut editor) = Editor::open(&service, &["acp", "--token-file", &file]).await else {
        return;
    };

    let script = "#call write {\"file_path\": \"a.txt\", \"content\": \"x\"}\n#then\n#reply Done.";
    editor.order(json!({ "prompt": script })).await;
    editor.until(|line| line["permission"].is_object()).await;
    editor.order(json!({"choose": "allow_once"})).await;
    let shown = editor.until(|line| line["update"]["sessionUpdate"] == "agent_message_chunk").await;
    let one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    let held = service.until("/api/v1/approvals?status=pending", one).await[0].take();
    let path = format!("/api/v1/approvals/{}", held["id"].as_str().expect("an id"));
    let word = json!({"decision": "approve", "digest": held["digest"]});
    let (status, _) = service.api("POST", &path, Some(word)).await;
    let ended = editor.until(is_end).await;

    assert!(shown["update"]["content"]["text"].as_str().unwrap().contains("/approve"), "{shown}");
    assert_eq!((status, &ended["stopReason"]), (200, &json!("end_turn")));
}

/// The id of a question that is shown with how to answer it in words.
fn question_shown(line: &Value) -> Option<String> {
    let text = line["update"]["content"]["text"].as_str()?;
    Some(text.split_once("/answer ")?.1.split(' ').next()?.to_owned())
}

/// A question is answered by a choice, or in words with the next prompt. What comes of it is shown.
#[actix::test]
async fn an_editor_answers_questions() {
    let service = home("").started().await;
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };
    let choice = "#call ask_operator {\"question\": \"Which?\", \"options\": [\"red\", \"blue\"]}";
    let open = "#call ask_operator {\"question\": \"Which name?\"}";
    let shows = |words: &'static str| {
        move |line: &Value| {
            line["update"]["content"]["text"].as_str().is_some_and(|text| text.contains(words))
        }
    };

    editor.order(json!({ "prompt": choice })).await;
    let asked = editor.find(|line| line["permission"].is_object()).await;
    editor.find(is_end).await;
    editor.order(json!({"choose": "allow_once"})).await;
    editor.until(shows("[\"red\"]")).await;
    editor.heard.clear();
    editor.order(json!({ "prompt": open })).await;
    let shown = editor.find(|line| question_shown(line).is_some()).await;
    editor.find(is_end).await;
    let id = question_shown(&shown).expect("an id");
    editor.prompt(&format!("/answer {id} her name is Ann")).await;
    editor.find(shows("her name is Ann")).await;

    let options = asked["permission"]["options"].as_array().expect("options");
    let names: Vec<_> = options.iter().map(|option| option["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["red", "blue", "Answer in words"]);
}

#[actix::test]
async fn an_editor_talks_with_another_team() {
    let service = home("").started().await;
    service.make_team("ops", "Looks after things.").await;
    let Some(mut editor) = Editor::open(&service, &["acp", "--team", "ops"]).await else { return };

    let answered = editor.prompt("#reply From ops.").await;
    let (words, _) = editor.shown();
    editor.order(json!({"prompt": "#wait 60000\n#reply late"})).await;
    let running = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
    service.until("/api/v1/tasks?team=ops&state=running", running).await;
    editor.order(json!({"cancel": true})).await;
    let stopped = editor.until(is_end).await;

    assert_eq!((&answered["stopReason"], &*words), (&json!("end_turn"), "From ops."));
    assert_eq!(stopped["stopReason"], "cancelled", "{stopped}");
}

/// What is wrong is said to the editor, in words.
#[actix::test]
async fn an_editor_hears_what_is_wrong() {
    let mut service = home("").started().await;
    service.write("run/teams/main/config.yaml", &format!("{WORKS_ITSELF}sdk: acp\n"));
    let Some(mut editor) = Editor::open(&service, &["acp"]).await else { return };

    let failed = editor.prompt("hello").await;
    service.kill();
    let mut late = Editor::start(&service, &["acp"], None).expect("an editor");
    let unreachable = late.until(is_end).await;

    assert!(failed["error"].as_str().unwrap().contains("engines.acp.command"), "{failed}");
    assert!(unreachable["error"].as_str().unwrap().contains("starts it"), "{unreachable}");
}
