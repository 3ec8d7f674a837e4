//! `send` and `chat` with work that goes on after the answer: what is delegated, what waits for a person.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
};

use crate::service::{PATIENCE, Service};

/// A command that runs, and what it says line by line.
struct Command {
    child: Child,
    stdin: Option<ChildStdin>,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Command {
    fn start(service: &Service, arguments: &[&str]) -> Self {
        let mut command = tokio::process::Command::from(service.command(arguments));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Self {
            stdin: child.stdin.take(),
            child,
            out: BufReader::new(out).lines(),
            err: BufReader::new(err).lines(),
        }
    }

    async fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line with these words.
    async fn complains(&mut self, words: &str) -> String {
        let found = async {
            while let Some(line) = self.err.next_line().await.unwrap() {
                if line.contains(words) {
                    return line;
                }
            }
            panic!("it ended without saying: {words}");
        };
        tokio::time::timeout(PATIENCE, found).await.expect("words in time")
    }

    /// The next line of the result.
    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.out.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    }

    async fn end(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let end = async {
            let mut rest = String::new();
            while let Some(line) = self.out.next_line().await.unwrap() {
                rest.push_str(&line);
                rest.push('\n');
            }
            (self.child.wait().await.unwrap().code(), rest)
        };
        tokio::time::timeout(PATIENCE, end).await.expect("an end in time")
    }
}

fn delegate(task: &str) -> String {
    let call = json!({"team": "research", "task": task, "overlap_policy": "allow"});
    format!("#call delegate_task {call}\n#reply Given away.")
}

async fn with_research() -> Service {
    let service = Service::start().await;
    service.make_team("research", "finds things out").await;
    service
}

/// OP-78: the main team only delegates, so that the answer alone is not what was asked for.
#[actix::test]
async fn send_prints_the_result_of_the_work_that_was_delegated() {
    let service = with_research().await;

    let plain = service.run(&["send", &delegate("#wait 700\n#reply Found it.")], "").await;
    let as_json = service.run(&["send", "--json", &delegate("#reply Found more.")], "").await;

    let lines: Vec<&str> = plain.stdout.lines().collect();
    assert_eq!(
        (plain.code, lines.as_slice()),
        (Some(0), &["Given away.", "[research] Found it."][..]),
        "{plain:?}"
    );
    let lines: Vec<Value> =
        as_json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // What was given away may be done before it is said that it was.
    let told = |path| lines.iter().find_map(|line| line.pointer(path)?.as_str());
    let told = [told("/data/reply/text"), told("/data/outcome/result")];
    assert_eq!(told, [Some("Given away."), Some("Found more.")], "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(as_json.code, Some(0), "{as_json:?}");
}

/// OP-78, OP-85: work that is given further is waited for too, and its failure is one of the command.
#[actix::test]
async fn send_ends_as_the_work_does() {
    let service = with_research().await;

    let mut command = Command::start(&service, &["send", &delegate("#wait 30000")]);
    let answer = command.says().await;
    let (_, open) = service.api("GET", "/api/v1/tasks?team=research&state=running", None).await;
    let path = format!("/api/v1/tasks/{}/cancel", open["data"][0]["id"].as_str().unwrap());
    service.api("POST", &path, Some(json!({}))).await;
    let cancelled = command.complains("[research]").await;
    let (code, _) = command.end().await;
    let waited =
        service.run(&["send", "--wait", "2", &delegate("#wait 30000\n#reply Late.")], "").await;

    assert_eq!(answer, "Given away.");
    assert_eq!(code, Some(1), "{cancelled}");
    assert_eq!(waited.code, Some(8), "{waited:?}");
    assert!(waited.stderr.contains("tasks show task-"), "{waited:?}");
}

/// OP-78: what another team does is shown as that of the main team: its calls, what it gives further, the answer, the result.
#[actix::test]
async fn what_another_team_does_is_shown() {
    let service = with_research().await;
    let library = json!({"name": "library", "parent": "research", "scope_accepts": ["books"]});
    service.api("POST", "/api/v1/teams", Some(library)).await;
    service.until("/api/v1/tasks?team=library", |tasks| tasks[0]["state"] == "done").await;
    let script = "#wait 2000\n#reply On the shelf.";
    let give = json!({"team": "library", "task": script, "overlap_policy": "allow"});
    let words = format!("#call delegate_task {give}\n#reply Given away.");

    let sent = service.run(&["send", &words, "--team", "research"], "").await;
    let mut chat = Command::start(&service, &["chat", "--team", "research"]);
    chat.write(&format!("#call delegate_task {give}")).await;
    let team = chat.complains("· team: research").await;
    let call = chat.complains("· Using delegate_task").await;
    let answer = chat.says().await;
    let result = chat.complains("[library]").await;
    let (code, _) = chat.end().await;

    let lines: Vec<&str> = sent.stdout.lines().collect();
    assert_eq!(lines, ["Given away.", "[library] On the shelf."], "{sent:?}");
    for words in
        ["· Using delegate_task", "· Used delegate_task (ok", " of `library` is running: #wait"]
    {
        assert!(sent.stderr.contains(words), "{words}: {sent:?}");
    }
    assert_eq!((sent.code, code), (Some(0), Some(0)), "{team} {call} {answer} {result}");
}

/// OP-78: the service may be away meanwhile.
#[actix::test]
async fn send_waits_for_delegated_work_over_a_crash() {
    let mut service = with_research().await;
    let mut command =
        Command::start(&service, &["send", &delegate("#wait 2000\n#reply Found it.")]);
    let first = command.says().await;

    service.kill();
    service.launch().await;
    let (code, rest) = command.end().await;

    assert_eq!(first, "Given away.");
    assert_eq!((code, rest.as_str()), (Some(0), "[research] Found it.\n"));
}

/// Writing asks.
const CONFIG: &str = "
policy:
  - id: ask-write
    effect: require_approval
    resource: tool:write
";
const TEAM: &str = "allowed_tools: [\"@files\"]\n";
const WRITE: &str = "#call write {\"file_path\":\"a.txt\",\"content\":\"written\"} #reply ";

async fn asking() -> Service {
    Service::prepare()
        .with_file("data/config/config.yaml", CONFIG)
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await
}

fn write() -> String {
    WRITE.replace(" #reply", "\n#reply") + "Done: {result}"
}

/// The name of what waits, out of the command that was shown.
fn name_in(line: &str, verb: &str) -> String {
    let (_, rest) = line.split_once(verb).unwrap();
    rest.chars().take_while(|letter| letter.is_ascii_lowercase()).collect()
}

/// OP-78, PL-79: also with `--quiet`, since nothing goes on without it.
#[actix::test]
async fn send_shows_what_waits_for_a_decision_and_how_to_decide() {
    let service = asking().await;
    let mut command = Command::start(&service, &["send", "--quiet", &write()]);

    let what = command.complains("wants to use write").await;
    let how = command.complains("approvals approve").await;
    let name = name_in(&how, "approvals approve ");
    let decided = service.run(&["approvals", "approve", &name, "--yes"], "").await;
    let (code, said) = command.end().await;

    assert!(what.contains("[main]"), "{what}");
    assert!(how.contains("it waits until "), "{how}");
    assert_eq!(decided.code, Some(0), "{decided:?}");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("Done: "), "{said}");
}

/// OP-78, PL-79: the command that the card names can be typed while the turn waits for it.
#[actix::test]
async fn a_chat_decides_what_its_own_turn_waits_for() {
    let service = asking().await;
    let mut command = Command::start(&service, &["chat"]);
    let script = json!({"file_path": "a.txt", "content": "written"});
    // A line is a message.
    command.write(&format!("#call write {script}")).await;

    let how = command.complains("/approve ").await;
    let name = name_in(&how, "/approve ");
    command.write(&format!("/approve {name}")).await;
    let first = command.says().await;
    let (code, _) = command.end().await;

    assert!(first.contains("pproved"), "{first}");
    assert_eq!(code, Some(0));
    assert!(service.path("run/teams/main/a.txt").exists());
}

/// OP-78: a conversation goes on, the newest or the one that is named, and work need not be waited for.
#[actix::test]
async fn send_goes_on_with_a_conversation() {
    let service = with_research().await;

    let first = service.run(&["send", "#reply one", "--json"], "").await;
    let next = service.run(&["send", "#reply two", "--continue", "--json"], "").await;
    let aside = service.run(&["send", &delegate("#wait 60000"), "--no-follow"], "").await;
    let first: Value = serde_json::from_str(&first.stdout).unwrap();
    let topic = first["data"]["topic_id"].as_str().unwrap();
    let named = service.run(&["send", "#reply three", "--topic", topic], "").await;
    let unknown = service.run(&["send", "hello", "--topic", "t-1"], "").await;

    assert_eq!(serde_json::from_str::<Value>(&next.stdout).unwrap()["data"]["topic_id"], topic);
    assert_eq!((aside.code, aside.stdout.as_str()), (Some(0), "Given away.\n"), "{aside:?}");
    assert_eq!((named.code, named.stdout.as_str()), (Some(0), "three\n"), "{named:?}");
    assert!(named.stderr.contains(&format!(" in topic {topic} (")), "{named:?}");
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
}

/// CH-01: a channel of the command line is shown as one.
#[actix::test]
async fn a_message_by_command_is_in_a_channel_of_the_command_line() {
    let service = Service::start().await;

    let sent = service.run(&["send", "Good morning"], "").await;

    assert_eq!(sent.code, Some(0), "{sent:?}");
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;
    assert_eq!(topics["data"][0]["channel_type"], "cli", "{topics}");
}
