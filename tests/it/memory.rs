//! What a team remembers, over kills, restarts and the command line.

use serde_json::{Value, json};

use crate::service::{Client, Service};

const TEAM: &str = r#"
allowed_tools: ["@memory"]
"#;

const CHANNELS: &str = r#"
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
"#;

async fn started() -> Service {
    Service::prepare()
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await
}

fn save(key: &str, content: &str) -> String {
    let args = json!({"key": key, "content": content, "supersede_reason": "newer"});
    format!("#call memory_save {args}\n#reply {{result}}")
}

/// Has the team call a tool, and tells what it answered.
async fn tool(client: &mut Client, script: &str) -> Value {
    let end = client.ask(script).await;
    assert_eq!(end["type"], "response", "{end}");
    let text = end["content"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| panic!("not JSON: {end}"))
}

/// MV-68
#[actix::test]
async fn what_was_remembered_survives_a_kill_right_after_its_acknowledgement() {
    let mut service = started().await;
    let mut client = service.connect().await;

    for round in 0..5 {
        let content = format!("the password is in safe {round}");
        client
            .say(&format!("m-{round}"), &save("safe", &content))
            .await;
        client
            .until(|frame| frame["type"] == "response" || frame["type"] == "error")
            .await;
        service.kill();
        service.launch().await;
        client = service.connect().await;

        let search = "#call memory_search {\"query\": \"safe password\"}\n#reply {result}";
        let found = tool(&mut client, search).await;

        assert_eq!(found[0]["snippet"], content, "{found}");
        assert_eq!(found.as_array().map(Vec::len), Some(1));
    }
    let rows = service.api("GET", "/api/v1/memories", None).await.1;
    assert_eq!(rows["total"], 5);
}

/// SE-145, MV-08: a call that a kill cut off runs again and saves once.
#[actix::test]
async fn a_save_that_is_cut_off_is_made_once() {
    let mut service = started().await;
    let mut client = service.connect().await;
    // Many at once: the kill falls among them.
    let calls: String = (0..40)
        .map(|number| {
            let args = json!({"key": format!("k{number}"), "content": "x"});
            format!("#call memory_save {args}\n")
        })
        .collect();
    client.say("m-1", &format!("{calls}#reply done")).await;
    client.until(|frame| frame["type"] == "ack").await;
    let channel = client.channel.clone().expect("a channel");
    let last_seq = client.last_seq;

    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, last_seq).await;
    let end = client.end_of("m-1").await;

    assert_eq!(end["type"], "response", "{end}");
    let rows = service
        .api("GET", "/api/v1/memories?limit=200", None)
        .await
        .1;
    assert_eq!(rows["total"], 40, "each key has one version");
}

/// MV-31, MV-70
#[actix::test]
async fn an_operator_corrects_what_a_team_remembers() {
    let service = started().await;
    let mut client = service.connect().await;
    let first = tool(&mut client, &save("host", "build-1")).await;
    let first = first["entry"]["id"].as_str().expect("an id").to_owned();
    tool(&mut client, &save("host", "build-2")).await;

    let listed = service.run(&["memory", "list"], "").await;
    let edited = service
        .run(&["memory", "edit", "host", "--content", "-"], "build-3")
        .await;
    let shown = service.run(&["memory", "show", "host"], "").await;
    let chain = service
        .run(&["memory", "show", "host", "--chain", "--json"], "")
        .await;
    let restored = service.run(&["memory", "rollback", &first], "").await;

    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    assert!(listed.stdout.contains("host") && listed.stdout.contains("build-2"));
    assert!(!listed.stdout.contains("build-1"));
    assert_eq!(edited.code, Some(0), "{}", edited.stderr);
    assert!(shown.stdout.ends_with("\nbuild-3\n"), "{}", shown.stdout);
    let chain: Value = serde_json::from_str(&chain.stdout).expect("one document");
    let contents = chain["data"].as_array().expect("rows").iter();
    let contents: Vec<_> = contents
        .map(|row| row["content"].as_str().expect("text"))
        .collect();
    assert_eq!(contents, ["build-3", "build-2", "build-1"]);
    assert_eq!(restored.code, Some(0), "{}", restored.stderr);
    let found = tool(&mut client, "#call memory_list {}\n#reply {result}").await;
    assert_eq!(found["entries"][0]["content"], "build-1");
    assert_eq!(found["total"], 1);

    let pinned = service.run(&["memory", "pin", "host"], "").await;
    assert_eq!(pinned.stderr, "`host` is pinned\n");
    let deleted = service
        .run(&["memory", "delete", "host", "--note", "a b&c"], "")
        .await;
    assert_eq!(deleted.code, Some(0), "{}", deleted.stderr);
    let none = service.run(&["memory", "show", "host"], "").await;
    assert_eq!(none.code, Some(5));
    assert!(
        none.stderr.contains("no active entry `host`"),
        "{}",
        none.stderr
    );
    let old = service
        .api("GET", "/api/v1/memories?key=host", None)
        .await
        .1;
    assert_eq!(old["data"][0]["ended"]["note"], "a b&c");
}

/// MV-04, OP-84, OP-85
#[actix::test]
async fn a_command_says_what_is_wrong_and_how_to_go_on() {
    let service = started().await;
    let set = |content| ["memory", "set", "k", content];

    let first = service.run(&set("one"), "").await;
    let again = service.run(&set("one"), "").await;
    let conflict = service.run(&set("two"), "").await;
    let typed = service
        .run(
            &["memory", "set", "k2", "x", "--type", "mood", "--json"],
            "",
        )
        .await;
    let reason = ["memory", "set", "k", "two", "--reason", "newer", "--json"];
    let replaced = service.run(&reason, "").await;

    assert!(
        first.stderr.starts_with("saved `k` as mem-"),
        "{}",
        first.stderr
    );
    assert_eq!(again.stderr, "`k` says so already\n");
    assert_eq!(conflict.code, Some(6));
    assert!(
        conflict.stderr.contains("begins: one"),
        "{}",
        conflict.stderr
    );
    assert_eq!(typed.code, Some(1));
    let typed: Value = serde_json::from_str(&typed.stdout).expect("one document");
    assert!(
        typed["error"]["message"]
            .as_str()
            .expect("words")
            .contains("`identity`")
    );
    let replaced: Value = serde_json::from_str(&replaced.stdout).expect("one document");
    assert_eq!(replaced["data"]["supersede_reason"], "newer");
}
