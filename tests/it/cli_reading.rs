//! Commands that read what happened and what was spent, and give work, against the real service.

use std::time::Instant;

use serde_json::{Value, json};

use crate::service::{PATIENCE, Service};

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("exactly one document")
}

/// OP-40, OP-79, OP-84
#[actix::test]
async fn history_is_listed_shown_and_exported() {
    let service = Service::start_working().await;
    let words = "#call bash {\"command\": \"echo found\"}\n#reply it is here";
    assert_eq!(service.run(&["send", words], "").await.code, Some(0));

    let list = service.run(&["history", "list"], "").await;
    let rows = service.run(&["history", "list", "--team", "main", "--json"], "").await;
    let rows = json_of(&rows.stdout);
    let id = rows["data"][0]["id"].as_str().expect("a session");
    let shown = service.run(&["history", "show"], "").await;
    let full = service.run(&["history", "show", id, "--full"], "").await;
    let cut = service.run(&["history", "show", id, "--limit", "1"], "").await;
    let document = service.run(&["history", "show", id, "--json"], "").await;
    let export = service.run(&["history", "export"], "").await;
    let file = service.path("export.jsonl");
    let path = file.to_str().expect("a path");
    let written = service.run(&["history", "export", id, "-o", path], "").await;
    let unknown = service.run(&["history", "show", "nobody"], "").await;
    let no_name = service.run(&["history", "export", "../tokens"], "").await;

    assert!(list.stdout.starts_with("ID "), "{list:?}");
    assert!(list.stdout.contains(id), "{list:?}");
    assert_eq!(rows["total"], 1);
    assert!(shown.stdout.contains("\n  it is here\n"), "{shown:?}");
    assert!(!shown.stdout.contains("→ bash"), "{shown:?}");
    assert!(full.stdout.contains("→ bash {\"command\":\"echo found\"}"), "{full:?}");
    assert!(full.stdout.contains("  found\n"), "{full:?}");
    assert!(cut.stderr.contains("`--before "), "{cut:?}");
    assert_eq!(json_of(&document.stdout)["session"]["id"], id);
    let lines: Vec<Value> = export.stdout.lines().map(json_of).collect();
    let (turn, messages) = lines.split_last().expect("lines");
    let roles: Vec<&Value> = messages.iter().map(|line| &line["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "toolResult", "assistant"]);
    assert_eq!((&turn["key"], &turn["value"]["outcome"]), (&json!("turn"), &json!("done")));
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written:?}");
    assert_eq!(std::fs::read_to_string(file).expect("a file"), export.stdout);
    assert_eq!((unknown.code, no_name.code), (Some(5), Some(2)));
}

/// OP-84, OP-124
#[actix::test]
async fn usage_is_shown_by_team_model_and_day_and_against_budgets() {
    let service = Service::prepare()
        .with_file("run/teams/main/config.yaml", "budgets: {tokens_per_day: 50000}\n")
        .started()
        .await;
    assert_eq!(service.run(&["send", "#reply yes"], "").await.code, Some(0));

    let teams = service.run(&["usage"], "").await;
    let days = service.run(&["usage", "--by", "day", "--from", "7d", "--json"], "").await;
    let models = service.run(&["usage", "--by", "model"], "").await;
    let budgets = service.run(&["usage", "--budgets"], "").await;
    let document = service.run(&["usage", "--budgets", "--json"], "").await;
    let mistyped = service.run(&["usage", "--by", "modle"], "").await;
    let no_day = service.run(&["usage", "--from", "yesterday"], "").await;

    assert!(teams.stdout.starts_with("TEAM  CALLS"), "{teams:?}");
    assert!(teams.stdout.contains("\nmain  "), "{teams:?}");
    assert_eq!(json_of(&days.stdout)["total"], 1, "{days:?}");
    assert!(models.stdout.starts_with("MODEL"), "{models:?}");
    assert!(budgets.stdout.contains("  50000  "), "{budgets:?}");
    assert_eq!(json_of(&document.stdout)["data"][0]["caps"]["tokens_per_day"], 50_000);
    assert_eq!((mistyped.code, no_day.code), (Some(2), Some(2)));
    assert!(mistyped.stderr.contains("'model'"), "{mistyped:?}");
    assert!(no_day.stderr.contains("2026-01-31"), "{no_day:?}");
}

/// OP-18, OP-84, OP-126
#[actix::test]
async fn the_audit_says_who_did_what() {
    let service = Service::start().await;
    let made = ["token", "create", "ci", "--scope", "read"];
    let made = service.run(&made, "").await;
    service.write("token", &made.stdout);
    let token = service.path("token");
    let token = token.to_str().expect("UTF-8");

    let all = service.run(&["audit", "--since", "1h"], "").await;
    let made = service.run(&["audit", "--action", "tokens", "--json"], "").await;
    let none = service.run(&["audit", "--actor", "nobody-here", "--json"], "").await;
    let refused = service.run(&["audit", "--token-file", token, "--json"], "").await;

    assert!(all.stdout.starts_with("AT "), "{all:?}");
    assert!(all.stdout.contains("operator  tokens.create"), "{all:?}");
    assert_eq!(json_of(&made.stdout)["data"][0]["action"], "tokens.create");
    assert_eq!(json_of(&none.stdout)["total"], 0);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(json_of(&refused.stdout)["error"]["code"], "not_allowed");
}

/// OP-84, OP-132
#[actix::test]
async fn the_log_is_shown_oldest_first() {
    let service = Service::start().await;
    let file = service.path("copy.tar.zst");
    let file = file.to_str().expect("UTF-8");
    service.run(&["backup", file], "").await;
    // A line is kept a moment after it was written.
    let deadline = Instant::now() + PATIENCE;
    let find = ["logs", "--query", "job done", "--json"];
    while json_of(&service.run(&find, "").await.stdout)["total"] == 0 {
        assert!(Instant::now() < deadline, "the line is not kept");
    }

    let shown = service.run(&["logs"], "").await;
    let document = service.run(&["logs", "--limit", "2", "--json"], "").await;
    let worst = service.run(&["logs", "--level", "error", "--json"], "").await;
    let mistyped = service.run(&["logs", "--level", "wran"], "").await;

    let moments: Vec<&str> = shown.stdout.lines().map(|line| &line[..19]).collect();
    assert!(!moments.is_empty() && moments.is_sorted(), "{shown:?}");
    let document = json_of(&document.stdout);
    assert_eq!(document["data"].as_array().map(Vec::len), Some(2));
    assert!(document["data"][0]["at"].as_str() >= document["data"][1]["at"].as_str());
    assert_eq!(json_of(&worst.stdout)["total"], 0, "{worst:?}");
    assert_eq!(mistyped.code, Some(2));
    assert!(mistyped.stderr.contains("'warn'"), "{mistyped:?}");
}

/// OP-78, OP-79, OP-85
#[actix::test]
async fn work_and_words_reach_any_team() {
    let service = Service::start().await;
    let made = ["teams", "create", "ops", "--scope", "work"];
    assert_eq!(service.run(&made, "").await.code, Some(0));

    let create = ["tasks", "create", "ops", "-", "--watch", "--deadline", "30m"];
    let watched = service.run(&create, "#reply from the input").await;
    let create = ["tasks", "create", "ops", "#reply x", "--priority", "high", "--json"];
    let document = service.run(&create, "").await;
    let to_main = service.run(&["tasks", "create", "main", "#reply x"], "").await;
    let to_nobody = service.run(&["tasks", "create", "nobody", "x"], "").await;
    let nothing = service.run(&["tasks", "create", "ops", " "], "").await;
    let answer = service.run(&["send", "#reply hello", "--team", "ops"], "").await;
    let send = ["send", "#reply hello", "--team", "ops", "--json"];
    let in_json = service.run(&send, "").await;
    let send = ["send", "#wait 20000", "--team", "ops", "--wait", "1"];
    let late = service.run(&send, "").await;
    let send = ["send", "hello", "--team", "ops", "--topic", "t-1"];
    let in_topic = service.run(&send, "").await;

    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert!(watched.stdout.ends_with("\nfrom the input\n"), "{watched:?}");
    let document = json_of(&document.stdout);
    assert_eq!(
        (&document["data"]["team"], &document["data"]["state"]),
        (&json!("ops"), &json!("accepted"))
    );
    assert_eq!(to_main.code, Some(0), "{to_main:?}");
    assert_eq!((to_nobody.code, nothing.code), (Some(5), Some(2)));
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(0), "hello\n"), "{answer:?}");
    assert_eq!(json_of(&in_json.stdout)["data"]["reply"]["text"], "hello");
    assert_eq!(late.code, Some(8), "{late:?}");
    assert_eq!(in_topic.code, Some(2), "{in_topic:?}");
}

/// OP-82, OP-86
#[actix::test]
async fn settings_are_shown_with_and_without_a_service() {
    let mut service = Service::prepare()
        .with_file("data/config/config.yaml", "log:\n  level: warn\n")
        .started()
        .await;
    let show = ["config", "show", "log.level"];
    let changed = ["config", "show", "--changed", "--json"];

    let running = service.run(&show, "").await;
    let running_json = service.run(&changed, "").await;
    service.kill();
    let stopped = service.run(&show, "").await;
    let stopped_json = service.run(&changed, "").await;
    let all = service.run(&["config", "show"], "").await;
    let unknown = service.run(&["config", "show", "log.levle"], "").await;

    assert_eq!(running.stdout, "FIELD      VALUE  FROM\nlog.level  warn   config.yaml:2\n");
    assert_eq!(stopped.stdout, running.stdout);
    let document = json_of(&running_json.stdout);
    let only = json!([{"file": "config", "path": "log.level", "value": "warn", "source": "file", "line": 2}]);
    assert_eq!(document["data"]["fields"], only);
    assert_eq!(json_of(&stopped_json.stdout), document);
    assert!(all.stdout.contains("\nserver.port  "), "{all:?}");
    assert_eq!(unknown.code, Some(5), "{unknown:?}");
}
