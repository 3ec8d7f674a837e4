//! Command-line agents whose model API, or whose program, misbehaves: a person is told, and the next message is served.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::{
    engines::{ENGINES, agents, descendants, home, provider, team},
    fake_model::{FakeModel, Part, Reply},
    service::{Client, Service, WORKS_ITSELF, until},
};

/// What a message asks the fake model for. The last one in a request counts.
const CASES: [&str; 5] =
    ["case:fine", "case:refused-key", "case:limited", "case:broken", "case:passing"];

/// A model with all faults at once, each for those who ask for it.
fn faulty() -> FakeModel {
    let model = FakeModel::start();
    let asked = std::sync::Mutex::new(std::collections::HashMap::<&str, usize>::new());
    model.answer_with(move |body| {
        let text = body.to_string();
        let place = |case: &&&str| text.rfind(**case);
        let case = CASES.iter().filter(|case| place(case).is_some()).max_by_key(place);
        let case = *case.expect("a case");
        let mut asked = asked.lock().unwrap();
        let times = asked.entry(case).or_default();
        *times += 1;
        let name = if text.contains("mcp__hivewright__read") || text.contains("\"namespace\"") {
            "mcp__hivewright__read"
        } else {
            "read"
        };
        match (case, *times) {
            ("case:refused-key", _) => Reply::status(401, "no such key"),
            ("case:limited", _) => {
                Reply::Status(429, vec![("retry-after", "0".to_owned())], "slow down".into())
            }
            ("case:broken", _) => Reply::status(500, "out of order"),
            ("case:passing", 1) => Reply::CutMidway("I was say".to_owned()),
            ("case:passing", 2) => {
                let args = json!({ "file_path": "notes" }).to_string();
                Reply::CutBehind(vec![Part::Call("call-1".into(), name.into(), args)])
            }
            ("case:passing", 3) => Reply::SlowFirstByte(Duration::from_secs(60), "late".into()),
            ("case:passing", 4) => Reply::Stall("I was say".to_owned()),
            _ => Reply::text(&format!("answer to {case}")),
        }
    });
    model
}

/// Says something in a topic of its own, and waits for a note with these words: the topic.
async fn waits(service: &Service, case: &str, words: &str, reason: &str) -> (Client, String) {
    let mut client = service.connect().await;
    client.say("m1", case).await;
    let note = client
        .until(|frame| {
            let ended = frame["type"] == "response" || frame["type"] == "error";
            ended || frame["content"].as_str().is_some_and(|text| text.contains("Waiting"))
        })
        .await;
    let said = note["content"].as_str().unwrap_or_default();
    assert!(said.contains(words), "{case}: {note}\n{}", service.log());
    let topic = note["topic_id"].as_str().expect("a topic").to_owned();
    let waits = |task: &Value| {
        task["topic_id"] == topic.as_str()
            && task["state"] == "waiting"
            && task["wait_reason"] == reason
    };
    let listed = |tasks: &Value| tasks.as_array().is_some_and(|tasks| tasks.iter().any(waits));
    service.until("/api/v1/tasks?limit=200", listed).await;
    (client, topic)
}

/// The next message of a topic is answered, whatever became of the one before.
async fn is_served(client: &mut Client, topic: &str) {
    client.say_in(topic, "next", "case:fine").await;
    let end = client.end_of("next").await;
    assert_eq!(end["content"], "answer to case:fine", "{end}");
}

/// Faults that pass are not told as errors: a stream that is cut, one that is cut behind a call, silence before the
/// first word and behind it. The answer is whole.
async fn is_answered(service: &Service) {
    let mut client = service.connect().await;
    client.say("m1", "case:passing").await;
    let frames = client.exchange().await;
    let end = frames.last().expect("an end");
    assert_eq!(end["content"], "answer to case:passing", "{end}\n{}", service.log());
}

/// EN-98, EN-99, EN-124: an agent has the faults of its model API in common with our own loop: the same retries, codes,
/// words and waits, whatever the agent itself makes of them.
#[actix::test]
async fn faults_of_the_model_api_are_the_same_on_every_engine() {
    let Some(agents) = agents() else { return };
    let run = |(sdk, settings): (&'static str, &'static str)| {
        let agents = agents.clone();
        async move {
            let model = faulty();
            let profile = format!("{}    response_timeout: 8s\n", provider(&model, sdk, settings));
            let service = home(&agents, sdk, settings)
                .with_file("data/config/providers.yaml", &profile)
                .with_file("run/teams/main/notes", "none")
                .started()
                .await;
            let key = async {
                let (mut client, topic) = waits(
                    &service,
                    "case:refused-key",
                    "profile `default`: the provider does not take the key (401): no such key. Waiting for a key",
                    "login",
                )
                .await;
                is_served(&mut client, &topic).await;
            };
            let limit = waits(
                &service,
                "case:limited",
                "profile `default`, tried 5 times: the provider wants fewer requests (429): slow down. Waiting",
                "rate_limit",
            );
            let broken = waits(
                &service,
                "case:broken",
                "profile `default`, tried 5 times: the provider has a problem (500): out of order. Waiting",
                "provider_down",
            );
            let passing = is_answered(&service);
            tokio::join!(key, limit, broken, passing);
            drop(model);
            let words = "profile `default`, tried 5 times: no connection: ";
            waits(&service, "case:fine", words, "provider_down").await;
            until("no process is left", async || descendants(service.pid()).is_empty()).await;
        }
    };
    // Each has four conversations at once, and a process for each.
    for some in ENGINES.chunks(2) {
        join_all(some.iter().copied().map(&run)).await;
    }
}

/// What is said of a program that does nothing.
const STALLED: &str = "nothing moved for too long";

/// A program in place of an agent, which does something else.
fn program(folder: &Path, does: &str) {
    for (name, version) in [("claude", "2.1.900"), ("codex", "0.900.0"), ("pi", "0.900.0")] {
        let path = folder.join(name);
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo {version}; exit; fi\n{does}\n"
        );
        fs::write(&path, text).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

/// EN-61 to EN-66, EN-124: whatever a program does in place of an agent, a person hears of it, the next message is
/// served, and no process stays.
#[actix::test]
async fn a_program_that_is_no_agent_is_told_of_and_harms_nobody() {
    let run = |(number, sdk, settings, does, words): (usize, &str, &str, &str, &str)| {
        let (sdk, settings, does, words) =
            (sdk.to_owned(), settings.to_owned(), does.to_owned(), words.to_owned());
        async move {
            let folder = tempfile::tempdir().expect("a folder");
            program(folder.path(), &does);
            let service = home(folder.path(), &sdk, &settings);
            // Programs that end are not to be taken for silent ones, however long they take to start.
            if words == STALLED {
                let config = fs::read_to_string(service.path("data/config/config.yaml")).unwrap();
                service.write(
                    "data/config/config.yaml",
                    &format!("{config}tasks: {{idle_timeout: 2s}}\n"),
                );
            }
            let service = service.started().await;
            let mut client = service.connect().await;

            client.say("m1", "hello").await;
            let told = |frame: &Value| {
                let ended = frame["type"] == "response" || frame["type"] == "error";
                ended
                    || frame["content"]
                        .as_str()
                        .is_some_and(|text| text.contains("Trying again in"))
            };
            let note = client.until(told).await;
            service.write("run/teams/main/config.yaml", WORKS_ITSELF);
            let topic = note["topic_id"].as_str().expect("a topic").to_owned();
            client.say_in(&topic, "m2", "#reply fine").await;
            let next = client.end_of("m2").await;
            until("no process is left", async || descendants(service.pid()).is_empty()).await;

            let said = note["content"].as_str().unwrap_or_default();
            assert!(said.contains(&words), "{number} {sdk}: {note}");
            assert_eq!(next["content"], "fine", "{number} {sdk}: {next}");
        }
    };
    let long = "head -c 9437184 /dev/zero | tr '\\0' x; echo; sleep 60";
    let cases = [
        (
            "claude",
            "",
            "echo 'I am no agent'; exit 0",
            "claude stopped before the turn was over: I am no agent",
        ),
        (
            "codex",
            "",
            "echo 'no licence' >&2; exit 3",
            "Codex ended before its turn did: it ended with code 3: no licence",
        ),
        ("pi", "", "kill -9 $$", "pi ended before its turn was over: it was ended by signal 9"),
        ("claude", "", long, STALLED),
        ("codex", "codex: {mode: exec}", long, STALLED),
        ("pi", "pi: {mode: json}", "sleep 60", STALLED),
        ("codex", "", "trap '' TERM; while :; do sleep 1; done", STALLED),
        (
            "pi",
            "",
            "(trap '' TERM; sleep 60) & exit 1",
            "pi ended before its turn was over: it ended with code 1",
        ),
        ("claude", "", "while :; do echo garbage; echo '{}'; done", STALLED),
        (
            "pi",
            "",
            "fallocate -l 1100M $HOME/a; sleep 60",
            "the agent was ended: it held more than 1.0 GiB on the disk",
        ),
    ];
    let cases = cases.into_iter().enumerate();
    join_all(
        cases.map(|(number, (sdk, settings, does, words))| {
            run((number, sdk, settings, does, words))
        }),
    )
    .await;
}

/// EN-07, EN-61: a person stops a turn of a program that does not want to end.
#[actix::test]
async fn a_program_that_ignores_its_end_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    program(folder.path(), "trap '' TERM INT; while :; do sleep 1; done");
    let service = home(folder.path(), "claude", "").started().await;
    let mut client = service.connect().await;
    client.say("m1", "hello").await;
    until("it runs", async || descendants(service.pid()).len() > 2).await;

    client.say("m2", "/stop").await;
    let end = client.end_of("m1").await;
    service.write("run/teams/main/config.yaml", &team("native"));
    client.say("m3", "#reply fine").await;
    let next = client.end_of("m3").await;
    until("it is gone", async || descendants(service.pid()).is_empty()).await;

    assert_eq!(end["status"], "cancelled", "{end}");
    assert_eq!(next["content"], "fine", "{next}");
}
