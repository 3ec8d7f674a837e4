//! Commands that go on: what happens is shown as it happens, over breaks and restarts.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::service::{PATIENCE, Service};

/// A command that goes on, and its lines as they come.
pub(crate) struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    recent: Vec<String>,
}

impl Following {
    pub(crate) fn start(service: &Service, arguments: &[&str]) -> Self {
        let mut child = Command::from(service.command(arguments))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the command starts");
        let stdout = child.stdout.take().expect("an output");
        Self { child, lines: BufReader::new(stdout).lines(), recent: Vec::new() }
    }

    /// The next line.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line in time after {:#?}", self.recent));
        let line = line.expect("it can be read");
        let line = line.unwrap_or_else(|| panic!("it ended after {:#?}", self.recent));
        self.recent.push(line.clone());
        line
    }

    /// The next line that fits.
    pub(crate) async fn until(&mut self, fits: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.line().await;
            if fits(&line) {
                return line;
            }
        }
    }

    pub(crate) fn interrupt(&self) {
        let id = self.child.id().expect("it runs").cast_signed();
        let process = rustix::process::Pid::from_raw(id).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::INT).expect("a signal");
    }

    /// All lines that are left, and the exit code.
    pub(crate) async fn ended(mut self) -> (Vec<String>, Option<i32>) {
        let rest = async {
            let mut lines = Vec::new();
            while let Some(line) = self.lines.next_line().await.expect("it can be read") {
                lines.push(line);
            }
            (lines, self.child.wait().await.expect("it ends").code())
        };
        timeout(PATIENCE, rest).await.expect("it ends in time")
    }
}

/// A service with a team that has set itself up and rests.
async fn resting() -> Service {
    let service = Service::start().await;
    let made = ["teams", "create", "ops", "--scope", "work"];
    assert_eq!(service.run(&made, "").await.code, Some(0));
    let list = "/api/v1/tasks?team=ops&type=bootstrap";
    let (_, first) = service.api("GET", list, None).await;
    let first = first["data"][0]["id"].as_str().expect("a task");
    let ready = service.run(&["tasks", "watch", first], "").await;
    assert_eq!(ready.code, Some(0), "{ready:?}");
    let paused = service.run(&["teams", "pause", "ops"], "").await;
    assert_eq!(paused.code, Some(0), "{paused:?}");
    service
}

async fn give(service: &Service, words: &str) -> String {
    let made = service.run(&["tasks", "create", "ops", words], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    made.stdout.trim().to_owned()
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).expect("JSON")
}

/// OP-79, OP-85
#[actix::test]
async fn a_task_is_followed_to_its_end() {
    let service = resting().await;
    let good = give(&service, "#reply all found").await;
    let bad = give(&service, "#reply never").await;
    let mut text = Following::start(&service, &["tasks", "watch", &good]);
    let mut lines = Following::start(&service, &["tasks", "watch", &bad, "--json"]);
    let first = text.line().await;
    let waiting = json_of(&lines.line().await);

    let cancelled = service.run(&["tasks", "cancel", &bad], "").await;
    let resumed = service.run(&["teams", "resume", "ops"], "").await;
    let (rest, code) = text.ended().await;
    let (last, bad_code) = lines.ended().await;
    let again = service.run(&["tasks", "watch", &good], "").await;
    let unknown = service.run(&["tasks", "watch", "task-1"], "").await;

    assert_eq!((cancelled.code, resumed.code), (Some(0), Some(0)));
    assert!(first.contains(&good) && first.contains("  accepted (paused)  "), "{first}");
    assert!(rest.iter().any(|line| line.contains("  done  ")), "{rest:?}");
    assert_eq!(rest.last().map(String::as_str), Some("all found"));
    assert_eq!(code, Some(0));
    assert_eq!(
        (&waiting["id"], &waiting["state"], &waiting["wait_reason"]),
        (&json!(bad), &json!("accepted"), &json!("paused"))
    );
    let last = json_of(last.last().expect("an end"));
    assert_eq!((&last["state"], bad_code), (&json!("cancelled"), Some(1)));
    // One that has ended is shown, and that is that.
    assert_eq!((again.code, again.stdout.lines().count()), (Some(0), 2), "{again:?}");
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
}

/// OP-41, OP-42, OP-79: nothing is missed and nothing told twice while the service is away.
#[actix::test]
async fn tasks_are_followed_over_a_restart() {
    let mut service = resting().await;
    let mut watch = Following::start(&service, &["tasks", "watch", "--team", "ops", "--json"]);
    let first = give(&service, "#reply one").await;
    watch.until(|line| json_of(line)["id"] == first.as_str()).await;

    service.kill();
    service.launch().await;
    let second = give(&service, "#reply two").await;
    let mut told = Vec::new();
    while !told.contains(&(json!(second), json!("done"))) {
        let line = json_of(&watch.line().await);
        told.push((line["id"].clone(), line["state"].clone()));
        if told.last() == Some(&(json!(second), json!("accepted"))) {
            let resumed = service.run(&["teams", "resume", "ops"], "").await;
            assert_eq!(resumed.code, Some(0), "{resumed:?}");
        }
    }

    let of = |id: &String| {
        let mine = told.iter().filter(|(of, _)| of == id.as_str());
        mine.map(|(_, state)| state.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of(&first), ["running", "done"]);
    assert_eq!(of(&second), ["accepted", "running", "done"]);
}

/// OP-77, OP-79
#[actix::test]
async fn overview_and_lists_are_shown_again_when_something_changes() {
    let mut service = Service::start().await;
    let mut text = Following::start(&service, &["status", "--watch"]);
    let mut lines = Following::start(&service, &["status", "--watch", "--json"]);
    let mut list = Following::start(&service, &["teams", "list", "--watch"]);
    text.until(|line| line.starts_with("teams            1 total")).await;
    list.until(|line| line.starts_with("main")).await;
    let first = json_of(&lines.line().await);

    let made = ["teams", "create", "ops", "--scope", "work"];
    assert_eq!(service.run(&made, "").await.code, Some(0));
    text.until(|line| line.starts_with("teams            2 total")).await;
    list.until(|line| line.starts_with("ops")).await;
    // Both have seen it: what was never shown is not shown as gone.
    lines.until(|line| json_of(line)["data"]["teams"]["total"] == 2).await;
    service.kill();
    service.launch().await;
    let gone = service.run(&["teams", "shutdown", "ops", "--yes"], "").await;
    assert_eq!(gone.code, Some(0), "{gone:?}");
    let last = lines
        .until(|line| {
            let line = json_of(line);
            line["data"]["teams"]["total"] == 1 && line["data"]["uptime_s"].is_number()
        })
        .await;
    text.interrupt();
    let (_, code) = text.ended().await;

    assert_eq!(first["data"]["teams"]["total"], 1);
    assert!(json_of(&last)["data"]["version"].is_string());
    assert_eq!(code, Some(130));
}

/// OP-50, OP-132
#[actix::test]
async fn the_log_is_followed_by_team_and_by_words() {
    let mut service = Service::start().await;
    let words = ["logs", "--follow", "--json", "--query", "tar.zst"];
    let mut lines = Following::start(&service, &words);
    let mut text = Following::start(&service, &["logs", "-f", "--level", "info"]);
    text.line().await;

    let backup = async |service: &Service, name: &str| {
        let wish = Some(json!({ "name": name }));
        let (status, job) = service.api("POST", "/api/v1/backups", wish).await;
        assert_eq!(status, 202, "{job}");
    };
    backup(&service, "one").await;
    let first = json_of(&lines.line().await);
    text.until(|line| line.contains("one.tar.zst")).await;
    service.kill();
    service.launch().await;
    backup(&service, "two").await;
    let second = json_of(&lines.line().await);

    assert_eq!(first["level"], "info");
    assert!(first.to_string().contains("one.tar.zst"), "{first}");
    assert!(second.to_string().contains("two.tar.zst"), "{second}");
    assert!(first["seq"].is_null(), "{first}");
}

/// OP-40, OP-79
#[actix::test]
async fn a_session_is_followed_word_for_word() {
    let mut service = Service::start().await;
    let mut client = service.connect().await;
    let topic = client.open_topic("#reply first answer").await;
    let session = format!("main:{topic}");
    let mut text = Following::start(&service, &["history", "tail"]);
    let mut lines = Following::start(&service, &["history", "tail", &session, "--json"]);
    text.until(|line| line == "  first answer").await;
    lines.until(|line| line.contains("first answer")).await;

    client.say_in(&topic, "m-2", "#reply second answer").await;
    text.until(|line| line == "  second answer").await;
    service.kill();
    service.launch().await;
    let channel = client.channel.clone().expect("a channel");
    let mut client = service.connect().await;
    client.resume(&channel, 0).await;
    client.say_in(&topic, "m-3", "#reply third answer").await;
    let mut told = Vec::new();
    loop {
        let line = json_of(&lines.line().await);
        let words = line["content"][0]["text"].as_str().map(str::to_owned);
        told.push((line["role"].clone(), words.unwrap_or_default()));
        if told.last().is_some_and(|(_, words)| words == "third answer") {
            break;
        }
    }

    let answers: Vec<&str> = told
        .iter()
        .filter(|(role, _)| role == "assistant")
        .map(|(_, words)| words.as_str())
        .collect();
    assert_eq!(answers, ["first answer", "second answer", "third answer"]);
}

/// OP-84: a reader that has gone away has seen enough.
#[actix::test]
async fn a_stream_ends_with_its_reader() {
    let service = resting().await;
    let mut watch = Following::start(&service, &["tasks", "watch"]);
    give(&service, "#reply one").await;
    watch.line().await;
    let Following { mut child, lines, .. } = watch;

    drop(lines);
    give(&service, "#reply two").await;
    let ended = timeout(PATIENCE, child.wait()).await;

    assert_eq!(ended.expect("it ends").expect("a status").code(), Some(0));
}
