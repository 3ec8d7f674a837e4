//! Teams that are made, changed and let go.

use std::{fs, time::Duration};

use hivewright_actors::{
    org::{Pause, record::Phase},
    policy::rule::{self, Rule},
    task::{OnResult, Priority},
    tool::{Effect, ToolFault},
};

use super::*;
use crate::tools::{REGISTRY, contract::Tool, org::spawn::SpawnTeam};

/// OR-48, OR-60, OR-40
#[actix_web::test]
async fn a_team_is_made_with_folder_file_and_first_work() {
    let bench = Bench::new(false);

    let answer = bench
        .call(
            "main",
            "spawn_team",
            json!({
                "name": "scouts",
                "description": "Looks around. ${env:HOME}",
                "scope_accepts": ["Maps", "roads"],
                "init_context": "Start in the north.",
                "allowed_tools": ["@files"],
                "budgets": {"usd_per_day": 5},
            }),
        )
        .await;

    let task = bench.last();
    assert_eq!(answer["status"], "queued");
    assert_eq!(answer["team"], "scouts");
    assert_eq!(answer["bootstrap_task_id"], json!(task.id));
    assert_eq!(answer["note"], Value::Null);
    let tree = bench.view.now();
    let team = tree.get("scouts").unwrap();
    assert_eq!(team.parent, Some("main".into()));
    assert_eq!(team.phase, Phase::Initializing);
    assert_eq!(team.scope, ["maps".to_owned(), "roads".to_owned()].into());
    let file = Live::new(bench.place.home.clone(), bench.place.environment.clone())
        .team_now(&"scouts".into())
        .unwrap();
    assert_eq!(file.description, "Looks around. ${env:HOME}");
    assert_eq!(file.allowed_tools, ["@files"]);
    assert_eq!(file.budgets.usd_per_day, Some(5.0));
    let context = bench.place.home.team("scouts").join("team-rules/team-context.md");
    assert_eq!(fs::read_to_string(context).unwrap(), "Start in the north.");
    let caller = bench.context("main").caller;
    assert_eq!((task.kind, task.priority), (Kind::Bootstrap, Priority::Critical));
    assert_eq!(task.lane, Lane { team: "scouts".into(), topic: None });
    assert_eq!(task.lineage, Some(caller.lineage.clone()));
    assert_eq!(task.reply_to, Some(caller.lane.clone()));
    assert_eq!(task.label, Label::Untrusted);
    assert_eq!(task.deadline_at, caller.deadline_at);
    assert_eq!(task.on_result, OnResult::Notify);
    let source = task.source.unwrap();
    assert_eq!((source.channel.as_str(), source.message), ("ws:1", None));
}

/// OR-39: the same call after a crash is answered as the first was, and makes nothing.
#[actix_web::test]
async fn a_repeated_call_gets_the_first_answer() {
    let bench = Bench::new(false);
    let args = json!({"name": "scouts", "scope_accepts": ["maps"]});
    let first = bench.call("main", "spawn_team", args.clone()).await;

    let again = CallContext { rerun: true, ..bench.context("main") };
    assert_eq!(bench.call_as(again, "spawn_team", args.clone()).await, first);
    assert_eq!(bench.given(), 1);
    // Another call is another call.
    let other = CallContext { key: "key-2".to_owned(), ..bench.context("main") };
    let taken = bench.call_as(other, "spawn_team", args).await;
    assert_eq!(code(&taken), "name_taken");
}

/// OR-61, TO-17: the value is nowhere but in the vault, whether or not the call succeeds.
#[actix_web::test]
async fn the_value_of_a_credential_is_never_written_down() {
    let bench = Bench::new(false);
    let secret = "s3cr3t-value";
    let args = json!({
        "name": "scouts",
        "scope_accepts": ["maps"],
        "description": format!("Uses {secret}."),
        "init_context": format!("The key is {secret}, use it."),
        "credentials": {"API_KEY": secret},
    });

    let asked = call("spawn_team", args);
    let checked = bench.check("main", &asked).unwrap();
    let redacted = bench.clean("main", &asked).unwrap();
    assert_eq!(
        redacted,
        json!({
            "name": "scouts",
            "scope_accepts": ["maps"],
            "description": "Uses ${vault:API_KEY}.",
            "init_context": "The key is ${vault:API_KEY}, use it.",
            "credentials": {"API_KEY": "${vault:API_KEY}"},
        })
    );
    bench.stow(checked).await;
    let answer = bench.call("main", "spawn_team", redacted).await;

    assert_eq!(answer["success"], true, "{answer}");
    assert!(answer["note"].as_str().unwrap().contains("Do not repeat"));
    let stored = bench.storage.text();
    assert!(!stored.contains(secret), "{stored}");
    let sealed: String = secret.chars().rev().collect();
    assert!(stored.contains(&sealed) && stored.contains("sealed\0scouts~1"));
    assert!(!stored.contains("aside\0"), "{stored}");
    let folder = bench.place.home.team("scouts");
    let context = fs::read_to_string(folder.join("team-rules/team-context.md")).unwrap();
    assert_eq!(context, "The key is ${vault:API_KEY}, use it.");
}

/// OR-61: also what is wrong, or is no JSON at all, is journalled without it, and nothing is kept.
#[actix_web::test]
async fn a_call_that_cannot_run_is_redacted_as_well() {
    let bench = Bench::new(false);
    let secret = "s3cr3t-value";
    let table = [
        CallArgs::Json(json!({"nam": "x", "credentials": {"K": secret}})),
        CallArgs::Json(json!({"name": "x", "credentials": [secret]})),
        CallArgs::Json(json!({"name": "x", "credentials": secret})),
        CallArgs::Json(json!({
            "name": "xx", "scope_accepts": ["x"], "credentials": {"K": {"deep": secret}},
        })),
        CallArgs::Json(json!([secret])),
        CallArgs::Unreadable {
            unreadable: format!("{{\"credentials\": {secret}"),
            reason: "expected value".to_owned(),
        },
    ];

    for args in table {
        let call = ToolCall { args, ..call("spawn_team", Value::Null) };
        let refused = bench.check("main", &call).unwrap_err();
        let redacted = bench.clean("main", &call).unwrap();
        assert!(!redacted.to_string().contains(secret), "{redacted}");
        assert!(!refused.content.contains(secret), "{refused:?}");
        assert_eq!(code(&said(&refused)), "invalid_input");
        let answer = bench.call("main", "spawn_team", redacted).await;
        assert_eq!(code(&answer), "invalid_input");
    }
    assert_eq!((bench.view.now().len(), bench.aside()), (1, 0));
    // What is redacted already stays as it is.
    let clean = json!({"name": "xx", "scope_accepts": ["x"], "credentials": {"K": "${vault:K}"}});
    let call = call("spawn_team", clean);
    let checked = bench.check("main", &call).unwrap();
    assert_eq!((bench.clean("main", &call), checked.stow), (None, None));
}

/// SC-22, OR-61: a call that a rule forbids leaves nothing behind, and its secrets are not journalled.
#[actix_web::test]
async fn a_forbidden_call_keeps_nothing() {
    let bench = Bench::new(false);
    let deny = Rule::new("no-teams", "tool:spawn_team".parse().unwrap(), rule::Effect::Deny);
    let asked = call(
        "spawn_team",
        json!({"name": "scouts", "scope_accepts": ["x"], "credentials": {"K": "s3cr3t-value"}}),
    );
    let (tools, caller) = (bench.tools("main"), bench.context("main").caller);
    bench.rules.fix(vec![deny]);

    let check = || tools.check(&asked, &caller, Label::Trusted);
    let refused = check().unwrap_err();

    assert_eq!(refused.fault, Some(ToolFault::Denied), "{refused:?}");
    assert_eq!(bench.aside(), 0);
    let journalled = tools.clean(&asked).unwrap().to_string();
    assert!(!journalled.contains("s3cr3t-value"), "{journalled}");
    // Once it is allowed again its secrets are kept, and let go of when it has its result.
    bench.rules.fix(Vec::new());
    bench.stow(check().unwrap()).await;
    assert_eq!(bench.aside(), 1);
    tools.settled(&asked.id, &asked.name, &caller);
    assert_eq!(bench.aside(), 0);
}

/// MV-80, PL-86: what the vault would not take is refused before anyone is asked.
#[actix_web::test]
async fn credentials_that_the_vault_does_not_take_are_refused_at_once() {
    let bench = Bench::new(false);
    let locked = Bench::new(true);
    let table = [
        (&bench, json!({"PIN": "1234567"}), "too_short", "`credentials.PIN`"),
        (&bench, json!({"A": "s3cr3t-value", "PIN": ""}), "too_short", "PIN"),
        (&bench, json!({"a key": "s3cr3t-value"}), "invalid_key", "letters"),
        (&bench, json!({"K": "x".repeat(70_000)}), "too_large", "`credentials.K`"),
        (&locked, json!({"K": "s3cr3t-value"}), "vault_locked", "locked"),
    ];

    for (bench, credentials, expected, hint) in table {
        let args = json!({"name": "scouts", "scope_accepts": ["x"], "credentials": credentials});
        let refused = bench.check("main", &call("spawn_team", args)).unwrap_err();
        let answer = said(&refused);
        assert_eq!(code(&answer), expected, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(hint), "{answer}");
        assert_eq!(bench.aside(), 0);
    }
}

/// OR-38, OR-41, OR-42
#[actix_web::test]
async fn arguments_that_cannot_be_meant_are_refused_by_name() {
    let bench = Bench::new(false);
    let table = [
        (json!({"nme": "x", "scope_accepts": ["x"]}), "did you mean `name`?"),
        (json!({"name": "x1"}), "scope_accepts"),
        (json!({"name": "x1", "scope_accepts": []}), "`scope_accepts`"),
        (json!({"name": "X1", "scope_accepts": ["x"]}), "lower-case"),
        (json!({"name": "x1", "scope_accepts": [" "]}), "`scope`"),
        (json!({"name": "x1", "scope_accepts": ["x"], "sdk": "bash"}), "sdk"),
        (
            json!({"name": "x1", "scope_accepts": ["x"], "allowed_tools": ["@all"]}),
            "`allowed_tools`",
        ),
        (
            json!({"name": "x1", "scope_accepts": ["x"], "provider_profile": "no"}),
            "`provider_profile`",
        ),
        (json!({"name": "x1", "scope_accepts": ["x"], "budgets": {"usd_per_day": 0}}), "`budgets`"),
        (
            json!({"name": "x1", "scope_accepts": ["x"], "budgets": {"usd_per_dai": 1}}),
            "did you mean `usd_per_day`?",
        ),
        (
            json!({"name": "x1", "scope_accepts": ["x"], "description": "d".repeat(501)}),
            "`description`",
        ),
        (
            json!({"name": "x1", "scope_accepts": ["x"], "init_context": "d".repeat(20_001)}),
            "`init_context`",
        ),
    ];

    for (args, hint) in table {
        let answer = bench.call("main", "spawn_team", args).await;
        assert_eq!(code(&answer), "invalid_input", "{answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(hint), "{message}");
    }
    let reserved = json!({"name": "system", "scope_accepts": ["x"]});
    let answer = bench.call("main", "spawn_team", reserved).await;
    assert_eq!(code(&answer), "name_reserved");
    assert_eq!(bench.given(), 0);
}

/// OR-12, OR-35: a changed limit counts at once.
#[actix_web::test]
async fn limits_come_from_the_settings_as_they_are_now() {
    let bench = Bench::new(false);
    let spawn = async |name: &str| {
        let args = json!({"name": name, "scope_accepts": ["x"]});
        bench.call("main", "spawn_team", args).await
    };
    let set = |text: &str| bench.place.write(&bench.place.home.config_file(), text);

    set("limits: {max_children: 1}\n");
    assert_eq!(spawn("aa").await["success"], true);
    let refused = spawn("bb").await;
    assert_eq!(code(&refused), "limit_children");
    assert!(refused["message"].as_str().unwrap().contains("has 1 children"));
    set("limits: {max_children: 2, max_teams: 2}\n");
    assert_eq!(code(&spawn("bb").await), "limit_teams");
    set("limits: {max_children: 2}\ndefaults: {allowed_tools: ['@web']}\n");
    assert_eq!(spawn("bb").await["success"], true);
    let file = fs::read_to_string(bench.place.home.team_file("bb")).unwrap();
    assert!(file.contains("allowed_tools: [\"@web\"]"), "{file}");
}

/// OR-62, TO-46
#[actix_web::test]
async fn the_main_team_gives_what_may_be_given_and_a_person_decides_on_the_rest() {
    let bench = bench().await;
    let caution = |team: &str, args: Value| {
        let args = serde_json::from_value(args).unwrap();
        let spawn = SpawnTeam { team_service: bench.team_service.clone(), registry: REGISTRY };
        spawn.caution(&args, &bench.context(team).caller)
    };
    let plain = json!({"name": "x1", "scope_accepts": ["x"]});
    let wide =
        json!({"name": "x1", "scope_accepts": ["x"], "allowed_tools": ["@files", "@browser"]});
    // `@topics` gives nothing, so it asks for nothing.
    let former =
        json!({"name": "x1", "scope_accepts": ["x"], "allowed_tools": ["@files", "@topics"]});

    assert_eq!(caution("main", plain.clone()), None);
    assert_eq!(caution("main", former), None);
    let beyond = caution("main", wide).unwrap().why;
    assert!(beyond.contains("@browser is beyond"), "{beyond}");
    assert!(beyond.contains("allowed_tools: [\"@files\", \"@browser\"]"), "{beyond}");
    let other = caution("scouts", plain).unwrap().why;
    assert!(other.contains("team scouts makes a team"), "{other}");
}

/// OR-49, OR-64
#[actix_web::test]
async fn a_team_is_let_go_by_its_parent() {
    let bench = bench().await;
    let shutdown = |team: &'static str, args: Value| bench.call(team, "shutdown_team", args);

    let refused = shutdown("main", json!({"name": "scouts"})).await;
    assert_eq!(code(&refused), "has_children");
    let refused = shutdown("main", json!({"name": "guides"})).await;
    assert_eq!(code(&refused), "not_authorized");
    let refused = shutdown("main", json!({"name": "main"})).await;
    assert_eq!(code(&refused), "not_authorized");

    let args = json!({"name": "scouts", "cascade": true});
    let answer = shutdown("main", args.clone()).await;
    assert_eq!(answer["removed"], json!(["guides", "scouts"]));
    assert_eq!(answer["cancelled_tasks"], 4);
    assert!(answer["trash"].as_str().unwrap().starts_with("trash/scouts-1-"));
    assert!(!bench.place.home.team("scouts").exists());
    let again = CallContext { rerun: true, ..bench.context("main") };
    assert_eq!(bench.call_as(again, "shutdown_team", args).await, answer);
}

/// OR-50
#[actix_web::test]
async fn a_team_takes_on_other_things() {
    let bench = bench().await;

    let answer = bench
        .call(
            "main",
            "update_team",
            json!({"team": "scouts", "scope_add": ["Zinc", "ore"], "scope_remove": ["scouts"], "description": "Digs."}),
        )
        .await;

    assert_eq!(answer["scope"], json!(["ore", "zinc"]));
    assert_eq!(answer["description"], "Digs.");
    let empty = json!({"team": "scouts", "scope_remove": ["ore", "zinc"]});
    assert_eq!(code(&bench.call("main", "update_team", empty).await), "scope_empty");
    let nothing = json!({"team": "scouts"});
    assert_eq!(code(&bench.call("main", "update_team", nothing).await), "invalid_input");
    let foreign = json!({"team": "scouts", "scope_add": ["x"]});
    assert_eq!(code(&bench.call("smiths", "update_team", foreign).await), "not_authorized");
}

/// OR-38, TO-27, TO-30
#[actix_web::test]
async fn all_are_there_and_only_looking_is_pure() {
    let bench = Bench::new(false);
    let names: Vec<String> =
        bench.tools("main").specs().iter().map(|spec| spec.name.clone()).collect();

    assert_eq!(
        names,
        [
            "control_team",
            "delegate_task",
            "enqueue_parent_task",
            "escalate",
            "get_status",
            "list_completed_tasks",
            "list_teams",
            "query_team",
            "query_teams",
            "send_message",
            "shutdown_team",
            "spawn_team",
            "update_team",
            "whoami"
        ]
    );
    let effect = |tool: &str, args: Value| bench.check("main", &call(tool, args)).unwrap().effect;
    for tool in ["list_teams", "get_status", "list_completed_tasks", "whoami"] {
        assert_eq!(effect(tool, json!({})), Effect::Pure);
    }
    assert_eq!(effect("escalate", json!({"message": "x"})), Effect::Idempotent);
    assert_eq!(SpawnTeam::ABOUT.class, "org.spawn_team");
    let paused = Pause { team: Some("main".into()), paused: true, now: false, by: operator() };
    assert!(bench.org.send(paused).await.unwrap().is_ok());
    assert!(bench.clock.now() > Timestamp(0) + Duration::ZERO);
}
