//! Triggers from outside: by the clock, by a message, by a call, over a kill and a restart.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::service::{Service, http};

const MAIN: &str = "max_steps: 20\nallowed_tools: [\"@files\", \"@triggers\"]\n";

fn home() -> Service {
    Service::prepare().with_file("run/teams/main/config.yaml", MAIN)
}

/// A script for a run that reports how it went.
fn report(notify: bool, outcome: &str, answer: &str) -> String {
    let report = json!({"notify": notify, "outcome": outcome, "reason": "as the script says"});
    format!("#call report_run {report}\n#reply {answer}")
}

async fn create(service: &Service, form: Value) -> String {
    let (status, made) = service.api("POST", "/api/v1/triggers", Some(form)).await;
    assert_eq!(status, 201, "{made}");
    made["data"]["id"].as_str().expect("an id").to_owned()
}

fn runs_of(id: &str) -> String {
    format!("/api/v1/triggers/{id}/runs?limit=200")
}

async fn runs(service: &Service, id: &str) -> Vec<Value> {
    let (_, runs) = service.api("GET", &runs_of(id), None).await;
    runs["data"].as_array().expect("runs").clone()
}

/// Waits until the runs of a trigger are as wanted.
async fn until(service: &Service, id: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let wanted = |runs: &Value| wanted(runs.as_array().expect("runs"));
    let found = service.until(&runs_of(id), wanted).await;
    found.as_array().expect("runs").clone()
}

/// TR-04, TR-08, TR-45, TR-47, TR-73, TR-74
#[actix::test]
async fn a_schedule_goes_on_over_a_kill_and_serves_no_time_twice() {
    let mut service = home().started().await;
    let mut client = service.connect().await;
    let channel = client.channel.clone().expect("a channel");
    // A channel is there once something was said in it.
    client.say("m1", "#reply Hello.").await;
    client.until(|frame| frame["type"] == "response" && frame["message_id"] == "m1").await;
    let form = json!({
        "team": "main", "name": "tick", "type": "schedule", "config": {"cron": "*/10 * * * * *"},
        "task": report(true, "ok", "two new articles"), "notify_channel": channel, "enable": true,
        "missed": "all", "overlap_policy": "allow",
    });
    let id = create(&service, form).await;

    let told = client.until(|frame| frame["type"] == "notification").await;
    assert_eq!(told["content"], "[main] two new articles");
    assert_eq!(told["kind"], "trigger");
    service.kill();
    tokio::time::sleep(Duration::from_secs(11)).await;
    service.launch().await;
    let ended = |runs: &[Value]| {
        let ok = runs.iter().filter(|run| run["outcome"] == "ok").count();
        ok >= 3
    };
    let runs = until(&service, &id, ended).await;

    let mut due = HashSet::new();
    let mut tasks = HashSet::new();
    for run in &runs {
        assert!(due.insert(run["due_at"].to_string()), "{runs:#?}");
        if let Some(task) = run["task_id"].as_str() {
            assert!(tasks.insert(task.to_owned()), "{runs:#?}");
        }
    }
    // The time that passed while it was down was made up for.
    assert!(runs.iter().any(|run| run["cause"] == "missed"), "{runs:#?}");
}

/// TR-14, TR-15, TR-19, TR-47
#[actix::test]
async fn a_word_in_a_message_starts_a_run_beside_the_answer() {
    let service = home().started().await;
    let form = json!({
        "team": "main", "name": "alarm", "type": "keyword", "config": {"pattern": "server down"},
        "task": report(true, "ok", "I look into it"), "enable": true,
    });
    let id = create(&service, form).await;
    let mut client = service.connect().await;

    client.say("m1", "Is the SERVER DOWN again?").await;
    let (mut answered, mut told) = (false, None);
    while !answered || told.is_none() {
        let frame = client.frame().await;
        answered |= frame["type"] == "response" && frame["message_id"] == "m1";
        if frame["type"] == "notification" {
            told = Some(frame);
        }
    }

    let told = told.expect("a notification");
    assert_eq!(told["content"], "[main] I look into it");
    assert!(told["topic_id"].is_string(), "{told}");
    let runs = until(&service, &id, |runs| runs.iter().all(|run| run["outcome"] == "ok")).await;
    assert_eq!((runs.len(), &runs[0]["cause"]), (1, &json!("keyword")));
}

/// TR-42, TR-78: three failing runs, one notice, and a start by hand that counts for nothing.
#[actix::test]
async fn failures_in_a_row_switch_a_trigger_off() {
    let service = home().started().await;
    let form = json!({
        "team": "main", "name": "broken", "type": "schedule", "config": {"every": "10s"},
        "task": report(false, "failed", "no luck"), "failure_threshold": 2, "enable": true,
    });
    let id = create(&service, form).await;
    let path = format!("/api/v1/triggers/{id}");
    let (started, _) = service.api("POST", &format!("{path}/run"), Some(json!({}))).await;
    assert_eq!(started, 202);

    let trigger = service.until(&path, |trigger| trigger["state"] == "disabled").await;

    assert_eq!(trigger["disabled_reason"], "2 failures in a row: as the script says");
    let runs = runs(&service, &id).await;
    let by_clock = runs.iter().filter(|run| run["cause"] == "schedule");
    assert_eq!(by_clock.count(), 2, "{runs:#?}");
}

pub(crate) fn hmac(key: &[u8], data: &[u8]) -> String {
    let pad = |with: u8| -> Vec<u8> {
        let mut block = [0_u8; 64];
        block[..key.len()].copy_from_slice(key);
        block.iter().map(|byte| byte ^ with).collect()
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(data).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// TR-26, TR-80, TR-84, TR-85: with a secret of the vault, over a real connection.
#[actix::test]
async fn another_program_starts_a_run_once() {
    const KEY: &str = "a-webhook-key-of-enough-bytes";
    let service = home().started().await;
    let secret = json!({"value": KEY, "secret": true});
    let (status, answer) = service.api("PUT", "/api/v1/vault/team:main/HOOK", Some(secret)).await;
    assert!(status < 300, "{answer}");
    let form = json!({
        "team": "main", "name": "ci", "type": "webhook",
        "config": {"secret": "${vault:HOOK}", "scheme": "github"},
        "task": report(true, "ok", "looked at it"), "allow_untrusted": true, "enable": true,
    });
    let id = create(&service, form).await;
    let body = "{\"number\": 7}";
    let call = async |signature: String| {
        let sent = http()
            .post(format!("{}/hooks/main/ci", service.url()))
            .header("content-type", "application/json")
            .header("x-hub-signature-256", format!("sha256={signature}"))
            .body(body)
            .send()
            .await
            .expect("an answer");
        sent.status().as_u16()
    };

    let good = hmac(KEY.as_bytes(), body.as_bytes());
    let wrong = hmac(b"another-key-of-enough-bytes", body.as_bytes());
    let answers = [
        call(wrong).await,
        call(good.clone()).await,
        call(good.clone()).await,
        call(good.to_uppercase()).await,
    ];

    assert_eq!(answers, [401, 202, 200, 200]);
    let runs = until(&service, &id, |runs| runs.iter().any(|run| run["outcome"] == "ok")).await;
    let made = runs.iter().filter(|run| run["task_id"].is_string()).count();
    assert_eq!(made, 1, "{runs:#?}");
    assert!(!service.log().contains(KEY));
}

/// TR-69 to TR-71: the team file keeps it, code decides whether a model is asked.
#[actix::test]
async fn a_heartbeat_is_kept_by_the_team_file() {
    let service = home()
        .with_file("run/teams/main/config.yaml", &format!("{MAIN}heartbeat: 1m\n"))
        .started()
        .await;
    let row = service.until("/api/v1/triggers", |rows| rows[0].is_object()).await[0].take();
    assert_eq!((&row["name"], &row["config"]), (&json!("heartbeat"), &json!({"every": "1m"})));

    let id = row["id"].as_str().expect("an id");
    let run = format!("/api/v1/triggers/{id}/run");
    let (_, quiet) = service.api("POST", &run, Some(json!({}))).await;
    assert_eq!(quiet["data"]["reason"], "nothing to check", "{quiet}");
    service.write("run/teams/main/HEARTBEAT.md", "#reply HEARTBEAT_OK\n");
    let (_, asked) = service.api("POST", &run, Some(json!({}))).await;
    assert_eq!(asked["data"]["decision"], "enqueued", "{asked}");
    let runs = until(&service, id, |runs| runs[0]["outcome"].is_string()).await;
    assert_eq!((&runs[0]["outcome"], &runs[0]["reason"]), (&json!("noop"), &json!("ok_token")));

    let (status, refused) = service.api("DELETE", &format!("/api/v1/triggers/{id}"), None).await;
    assert_eq!((status, &refused["error"]["code"]), (409, &json!("name_reserved")));
}

/// OP-80
#[actix::test]
async fn triggers_are_managed_from_the_command_line() {
    let service = home().started().await;
    let run = async |arguments: &[&str]| service.run(arguments, "").await;

    let made = run(&[
        "trigger",
        "create",
        "main",
        "morning",
        "--cron",
        "0 8 * * *",
        "--timezone",
        "Europe/Berlin",
        "--task",
        "Sum up the news.",
        "--set",
        "missed=skip",
        "--enable",
    ])
    .await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let listed = run(&["trigger", "list", "--team", "main"]).await;
    assert!(listed.stdout.contains("main/morning"), "{listed:?}");
    let edited = run(&["trigger", "edit", "main/morning", "--set", "max_steps=7"]).await;
    assert_eq!(edited.code, Some(0), "{edited:?}");
    let shown = run(&["trigger", "show", "main/morning", "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown["data"]["max_steps"], 7);
    assert_eq!(shown["data"]["missed"], "skip");
    let started = run(&["trigger", "run", "main/morning"]).await;
    assert!(started.stdout.contains("enqueued"), "{started:?}");
    let history = run(&["trigger", "runs", "main/morning"]).await;
    assert!(history.stdout.contains("manual"), "{history:?}");
    let preview = run(&["trigger", "preview", "--cron", "30 2 30 3 *", "--timezone", "UTC"]).await;
    assert!(preview.stdout.contains("03-30 02:30:00 UTC"), "{preview:?}");
    let wrong = run(&["trigger", "preview", "--cron", "0 25 * * *"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("config.cron: field 2 \"25\" is not 0-23"), "{wrong:?}");
    for action in ["disable", "enable", "delete"] {
        let done = run(&["trigger", action, "main/morning"]).await;
        assert_eq!(done.code, Some(0), "{action}: {done:?}");
    }
    let gone = run(&["trigger", "show", "main/morning"]).await;
    assert_eq!(gone.code, Some(5), "{gone:?}");
}
