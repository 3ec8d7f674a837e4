//! Processes of commands: none outlives its turn or the service, and none inherits what it was not given.

use std::fs;

use serde_json::json;

use crate::{
    kill_switch::{processes, until_there_are},
    service::{Service, WORKS_ITSELF, rounds, until},
};

/// Rounds with a kill, and commands that run in each. `HIVEWRIGHT_ROUNDS` makes it more: 2,500 are the 10,000
/// turns of the figure.
const ROUNDS: usize = 8;
const COMMANDS: usize = 4;

const CHANNELS: &str = "
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
";

/// SC-18, SC-104, SC-129, EN-61: commands that fork, hide in sessions of their own and ignore what asks
/// them to end, in a service that is killed at any moment. None is left, neither of them nor of what
/// starts them.
#[actix::test]
async fn no_process_outlives_the_service() {
    let mut service = Service::prepare()
        .with_file("data/config/config.yaml", "store: {durability: process}\n")
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .started()
        .await;
    // A number that no other process has.
    let seconds = format!("{}", 700_000 + std::process::id());
    let hidden = format!(
        "trap '' TERM HUP INT; (setsid sleep {seconds} &) ; nohup sleep {seconds} & disown; exec sleep {seconds}"
    );
    let script = json!({ "command": hidden, "timeout": 600_000 });
    let mut ran = 0;
    let rounds = rounds(ROUNDS);
    for round in 0..rounds {
        let mut clients = Vec::new();
        for number in 0..COMMANDS {
            let mut client = service.connect().await;
            let words = format!("#call bash {script}\n#reply done");
            client.say(&format!("m-{round}-{number}"), &words).await;
            clients.push(client);
        }
        // From before the first has begun to when all run, and beyond.
        let wanted = 5 * round % (3 * COMMANDS + 1);
        until(&format!("{wanted} run"), async || processes(&seconds) >= wanted).await;
        ran += processes(&seconds);

        service.kill();
        until_there_are(0, &seconds).await;
        let home = service.home().display().to_string();
        until_there_are(0, &home).await;
        service.launch().await;
        // What had not begun by then begins now: a person ends it, before the next round.
        let now = Some(json!({ "now": true }));
        let (paused, answer) = service.api("POST", "/api/v1/pause", now).await;
        assert!(paused < 300, "{answer}");
        until_there_are(0, &seconds).await;
        let (_, tasks) = service.api("GET", "/api/v1/tasks?limit=200", None).await;
        for task in tasks["data"].as_array().unwrap() {
            let path = format!("/api/v1/tasks/{}/cancel", task["id"].as_str().unwrap());
            service.api("POST", &path, Some(json!({}))).await;
        }
        let (resumed, answer) = service.api("POST", "/api/v1/resume", Some(json!({}))).await;
        assert!(resumed < 300, "{answer}");
        assert_eq!(processes(&seconds), 0);
    }
    assert!(ran > rounds, "{ran} processes were there to be left behind");
}

/// The processes below one, with what they are.
fn below(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |number: &u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all: Vec<_> = numbers.filter_map(|number| Some((number, parent_of(&number)?))).collect();
    let mut found = vec![parent];
    let mut place = 0;
    while let Some(of) = found.get(place).copied() {
        found.extend(all.iter().filter(|(_, above)| *above == of).map(|(number, _)| *number));
        place += 1;
    }
    found
}

const OF_ENVIRONMENT: &str = "canary-environment-7be2409cd1f6a385";
const OF_VAULT: &str = "canary-vault-20d7f1c86ab94e53";
const GIVEN: &str = "canary-given-e95a3b7c0d184f26";

/// MV-45, MV-47, SC-05: a child has the fixed variables and what it was given by name, whatever the
/// service itself was started with; and nothing of the service or its children can be dumped.
#[actix::test]
async fn no_child_inherits_a_secret() {
    let providers = "profiles:\n  default: {provider: offline}\n  other: {provider: openai, api_key: \"${env:HW_CANARY}\", model: m}\n";
    let team = "allowed_tools: [\"@shell\", \"@vault\"]\n";
    let service = Service::prepare()
        .with_variable("HW_CANARY", OF_ENVIRONMENT)
        .with_file("data/config/providers.yaml", providers)
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", team)
        .started()
        .await;
    for (key, value, tools) in [("KEPT", OF_VAULT, json!([])), ("GIVEN", GIVEN, json!(["bash"]))] {
        let entry = json!({"value": value, "secret": true, "tools": tools});
        let path = format!("/api/v1/vault/team:main/{key}");
        let (status, answer) = service.api("PUT", &path, Some(entry)).await;
        assert_eq!(status, 201, "{answer}");
    }
    let seconds = format!("{}", 800_000 + std::process::id());
    let mut client = service.connect().await;
    let mut environments = Vec::new();

    for (number, env) in [json!({}), json!({ "PW": "${vault:GIVEN}" })].into_iter().enumerate() {
        let command = format!("sleep {seconds} & wait");
        let args = json!({ "command": command, "env": env, "timeout": 600_000 });
        let id = format!("m-{number}");
        client.say(&id, &format!("#call bash {args}\n#reply done")).await;
        until_there_are(1, &seconds).await;
        let children = below(service.pid()).split_off(1);
        assert!(children.len() >= 2, "{children:?}");
        let mut all = Vec::new();
        for child in children {
            let read = |name: &str| fs::read(format!("/proc/{child}/{name}")).unwrap_or_default();
            all.extend(read("environ"));
            all.extend(read("cmdline"));
            let limits = String::from_utf8(read("limits")).unwrap();
            if let Some(core) = limits.lines().find(|line| line.starts_with("Max core file size")) {
                let words: Vec<_> = core.split_whitespace().collect();
                assert_eq!(words[4..6], ["0", "0"], "{core}");
            }
        }
        environments.push(String::from_utf8_lossy(&all).into_owned());
        let (status, _) = service.api("POST", "/api/v1/pause", Some(json!({ "now": true }))).await;
        assert!(status < 300);
        until_there_are(0, &seconds).await;
        service.api("POST", "/api/v1/resume", Some(json!({}))).await;
        client.end_of(&id).await;
    }

    let held = |text: &str| [OF_ENVIRONMENT, OF_VAULT, GIVEN].map(|secret| text.contains(secret));
    assert_eq!(held(&environments[0]), [false, false, false]);
    assert_eq!(held(&environments[1]), [false, false, true]);
    assert!(!environments[0].contains("HW_CANARY"));
    let own = fs::read_to_string(format!("/proc/{}/limits", service.pid())).unwrap();
    let core = own.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
