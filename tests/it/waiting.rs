//! Work that waits for settings or a key, and goes on when they are put right.

use serde_json::{Value, json};

use crate::{
    canaries::{files_with, forms},
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

fn providers(model: &FakeModel, key: &str) -> String {
    let url = model.url();
    format!(
        "profiles: {{default: {{provider: anthropic, api_url: \"{url}\", api_key: {key}, model: m}}}}\n"
    )
}

async fn notices(service: &Service, kind: &str) -> u64 {
    let path = format!("/api/v1/inbox?kind={kind}");
    let (_, inbox) = service.api("GET", &path, None).await;
    let rows = inbox["data"].as_array().expect("rows").iter();
    let counts = rows.map(|row| row["count"].as_u64().expect("a count"));
    counts.sum()
}

/// SE-126: the key is refused, the operator is told, and the message is answered once the file names
/// another key, with no word from anybody; over a restart too.
#[actix::test]
async fn a_message_waits_for_a_key_that_is_taken() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Here I am."));
    let mut service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers(&model, "sk-wrong"))
        .started()
        .await;
    let mut client = service.connect().await;
    let channel = client.channel.clone().expect("a channel");

    client.say("m1", "tulips in the garden").await;
    let waits = |frame: &Value| frame["content"].to_string().contains("Waiting for a key");
    client.until(waits).await;
    assert_eq!(notices(&service, "login").await, 1);
    let last_seq = client.last_seq;
    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, last_seq).await;
    service.until("/api/v1/tasks", |tasks| tasks[0]["wait_reason"] == "login").await;

    service.write("data/config/providers.yaml", &providers(&model, KEY));
    let end = client.end_of("m1").await;

    assert_eq!(end["content"], "Here I am.");
    assert_eq!(notices(&service, "login").await, 1);
}

/// EN-98, OP-82: the operator gives the profile of a team another key at the terminal. One that the provider refuses changes
/// nothing; with one that it takes, what waited goes on, and the key stands in no file.
#[actix::test]
async fn a_login_has_work_go_on_that_waits_for_a_key() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Here I am."));
    let file = providers(&model, "sk-wrong");
    let service = Service::prepare().with_file("data/config/providers.yaml", &file).started().await;
    let text = || std::fs::read_to_string(service.path("data/config/providers.yaml")).unwrap();
    let mut client = service.connect().await;
    client.say("m1", "tulips in the garden").await;
    let waits = |frame: &Value| frame["content"].to_string().contains("Waiting for a key");
    client.until(waits).await;

    let unknown = service.run(&["engine", "login", "--team", "mian"], KEY).await;
    let short = service.run(&["engine", "login"], "short\n").await;
    let refused = service.run(&["engine", "login"], "sk-wrong-again\n").await;
    let after_refusal = text();
    let done = service.run(&["engine", "login", "--json"], &format!("{KEY}\n")).await;
    let end = client.end_of("m1").await;
    let listed = service.run(&["engine", "list"], "").await;

    assert_eq!((unknown.code, short.code), (Some(5), Some(2)), "{unknown:?} {short:?}");
    assert!(unknown.stderr.contains("did you mean `main`?"), "{unknown:?}");
    assert_eq!((refused.code, after_refusal), (Some(2), file), "{refused:?}");
    assert!(refused.stderr.contains("does not take the key (401)"), "{refused:?}");
    assert_eq!(done.code, Some(0), "{done:?}");
    let said: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(said["data"]["entry"], "model-default", "{said}");
    assert_eq!(end["content"], "Here I am.");
    assert!(text().contains("'${vault:model-default}'"), "{}", text());
    assert!(listed.stdout.contains("of profile default"), "{listed:?}");
    assert_eq!(files_with(&forms(KEY), service.home()), [""; 0]);
}

/// OR-24: a team is made while no profile can be used; its first work waits and is done when the file
/// is right.
#[actix::test]
async fn work_waits_for_a_providers_file_that_is_right() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Ready."));
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", "profiles: {default: {provider: nobody}}\n")
        .started()
        .await;

    let wish = json!({ "name": "research", "scope_accepts": ["web"], "description": "Finds out." });
    let (status, made) = service.api("POST", "/api/v1/teams", Some(wish)).await;
    assert_eq!(status, 201, "{made}");
    let tasks = "/api/v1/tasks?team=research";
    let waiting = service.until(tasks, |tasks| tasks[0]["wait_reason"] == "config").await;
    assert_eq!(waiting[0]["attempts"], 0, "{waiting}");
    assert_eq!(notices(&service, "config_invalid").await, 1);
    service.write("data/config/providers.yaml", &providers(&model, KEY));

    service.until(tasks, |tasks| tasks[0]["state"] == "done").await;
}
