//! Import of an OpenHive installation, with the real program.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::Ended,
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

mod installation;

use installation::Installation;

/// Values that may be in the vault, and nowhere else.
const SECRETS: [&str; 3] = [KEY, "ghp_research_0123456789", "archive-key-0123456789"];

async fn run(service: &Service, words: Vec<String>) -> Ended {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut command = service.command(&words);
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    Ended::new(running.await.unwrap())
}

/// The report as code reads it.
fn report(ended: &Ended) -> Value {
    let mut document: Value = serde_json::from_str(&ended.out).expect(&ended.err);
    document["data"].take()
}

/// What the report says of something: outcome and reason.
fn said(report: &Value, kind: &str, name: &str) -> (String, String) {
    let items = report["items"].as_array().unwrap();
    let found = items.iter().find(|item| item["kind"] == kind && item["name"] == name);
    let found = found.unwrap_or_else(|| panic!("{kind} {name} in {report:#}"));
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("reason"))
}

/// Files below a folder that hold a value which should be in the vault.
fn leaks(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(leaks(&path));
            continue;
        }
        let bytes = fs::read(&path).unwrap_or_default();
        let holds = |value: &str| bytes.windows(value.len()).any(|part| part == value.as_bytes());
        let secrets = SECRETS.iter().filter(|value| holds(value));
        found.extend(secrets.map(|value| format!("{value} in {}", path.display())));
    }
    found
}

/// What the tools of the last step said, as a model got it.
fn results(body: &Value) -> Vec<Value> {
    let messages = body["messages"].as_array().unwrap();
    let content = messages.last().unwrap()["content"].as_array().unwrap();
    let results = content.iter().filter(|part| part["type"] == "tool_result");
    let texts = results.map(|result| match &result["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    });
    texts.map(|text| serde_json::from_str(&text).expect(&text)).collect()
}

/// OR-25, OR-27
#[actix::test]
async fn a_dry_run_says_what_a_real_run_does_and_changes_nothing() {
    let source = Installation::new("http://127.0.0.1:1");
    let service = Service::prepare();
    let before = source.state();

    let dry = run(&service, source.import(&["--dry-run"])).await;
    let home_after_dry = service.path("run").exists();
    let real = run(&service, source.import(&[])).await;

    assert_eq!(dry.code, Some(1), "{}", dry.err);
    assert_eq!(dry.out, real.out);
    assert_eq!(dry.code, real.code);
    assert!(!home_after_dry, "a dry run makes nothing");
    assert!(before == source.state(), "the source has changed");
    for line in [
        "converted settings     config.yaml: `log_level` becomes `log.level`",
        "imported  rule         house.md",
        "imported  memory       main/who",
    ] {
        assert!(dry.out.lines().any(|found| found == line), "{line}\n{}", dry.out);
    }
    assert_eq!(leaks(service.home()), Vec::<String>::new());
    assert!(SECRETS.iter().all(|value| !real.out.contains(value)));
}

/// OR-27, OR-29
#[actix::test]
async fn the_report_names_every_thing_with_what_became_of_it() {
    let source = Installation::new("http://127.0.0.1:1");
    let service = Service::prepare();

    let ended = run(&service, source.import(&["--json", "--with-logs"])).await;

    let report = report(&ended);
    for (kind, name, outcome, reason) in [
        ("settings", "providers.yaml: default.api_key", "converted", "moved to the vault"),
        ("team", "research", "converted", "`maxSteps` becomes `max_steps`"),
        ("team", "api", "converted", "it is called `api-team`"),
        ("team", "orphan", "converted", "`gone`) is missing"),
        ("file", "host", "skipped", "links are not followed"),
        ("vault", "GITHUB_TOKEN", "imported", ""),
        ("vault", "ARCHIVE_KEY", "converted", "`credentials`"),
        ("vault", "PIN", "skipped", "8 bytes"),
        ("memory", "lesson:retry", "converted", "review"),
        ("memory", "login", "converted", "references"),
        ("memory", "learning:research:scout:journal", "converted", "`historical`"),
        ("trigger", "daily", "imported", ""),
        ("trigger", "deploys", "converted", "`gi`"),
        ("trigger", "watch", "converted", "`watch_window` becomes `watch`"),
        ("trigger", "never", "converted", "disabled: config.cron"),
        ("trigger", "learning-cycle", "skipped", "learning: true"),
        ("task", "task-00000000000000a1", "imported", ""),
        ("task", "task-00000000000000a2", "converted", "tried again"),
        ("plugin", "lookup", "converted", "skills that need it: `dig`"),
        ("topic", "Papers (t-00000000000000b1)", "converted", "idle"),
        ("interactions", "112233", "skipped", "older than a day"),
        ("trust", "other 42, all channels", "converted", "`discord`"),
        ("trust", "ws x, all channels", "skipped", "`friend`"),
        ("escalation", "esc-1", "converted", "inbox"),
        ("log", "log_entries", "converted", "file"),
        ("table", "memory_chunks", "skipped", "made anew"),
    ] {
        let found = said(&report, kind, name);
        assert_eq!(found.0, outcome, "{kind} {name}: {}", found.1);
        assert!(found.1.contains(reason), "{kind} {name}: {}", found.1);
    }
    let kept = fs::read_to_string(report["report"].as_str().unwrap()).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["items"], report["items"]);
    assert!(kept["totals"]["errors"].as_u64() >= Some(2));
    let log = fs::read_dir(service.path("run/backups")).unwrap().flatten();
    let log = log.map(|entry| entry.path()).find(|path| path.extension() == Some("jsonl".as_ref()));
    let log = fs::read_to_string(log.unwrap()).unwrap();
    assert!(log.contains("Session completed") && log.contains("${vault:GITHUB_TOKEN}"), "{log}");
}

/// OR-26
#[actix::test]
async fn a_second_run_changes_nothing() {
    let source = Installation::new("http://127.0.0.1:1");
    let service = Service::prepare();
    run(&service, source.import(&[])).await;
    let team_file = fs::read(service.path("run/teams/research/config.yaml")).unwrap();
    fs::write(service.path("data/rules/house.md"), "# House\nMine.\n").unwrap();

    let again = report(&run(&service, source.import(&["--json"])).await);

    assert_eq!(again["totals"]["imported"], 0, "{again:#}");
    assert_eq!(again["totals"]["converted"], 0, "{again:#}");
    assert_eq!(said(&again, "team", "research").1, "imported before");
    assert_eq!(
        fs::read_to_string(service.path("data/rules/house.md")).unwrap(),
        "# House\nMine.\n"
    );
    assert_eq!(fs::read(service.path("run/teams/research/config.yaml")).unwrap(), team_file);
}

/// OR-26
#[actix::test]
async fn what_came_later_is_taken_by_the_next_run_and_a_team_that_is_there_is_not_merged() {
    let source = Installation::new("http://127.0.0.1:1");
    let service = Service::prepare()
        .with_file("run/teams/research/config.yaml", "description: somebody else\n");
    let first = report(&run(&service, source.import(&["--json"])).await);
    source
        .database()
        .execute(
            "INSERT INTO memories (team_name, key, content, created_at, updated_at) \
             VALUES ('main', 'later', 'Came later.', ?1, ?1)",
            [installation::OLD],
        )
        .unwrap();

    let second = report(&run(&service, source.import(&["--json"])).await);

    assert!(said(&first, "team", "research").1.contains("not merged"));
    assert!(said(&second, "memory", "later").0 == "imported", "{second:#}");
    assert_eq!(second["totals"]["imported"], 1, "{second:#}");
    let file = fs::read_to_string(service.path("run/teams/research/config.yaml")).unwrap();
    assert_eq!(file, "description: somebody else\n");
}

/// OR-25
#[actix::test]
async fn what_cannot_be_read_is_named_and_nothing_is_written() {
    let service = Service::prepare();
    let corrupt = Installation::new("http://127.0.0.1:1");
    let mut bytes = fs::read(corrupt.path("run/openhive.db")).unwrap();
    let middle = bytes.len() / 2;
    bytes[100..middle].fill(0xa5);
    corrupt.write("run/openhive.db", bytes);
    let _ = fs::remove_file(corrupt.path("run/openhive.db-wal"));
    let unknown = Installation::empty(
        &Installation::schema()
            .replace("keyword TEXT", "word TEXT")
            .replace("(team_id, keyword)", "(team_id, word)"),
    );
    let missing = Installation::empty("");
    fs::remove_file(missing.path("run/openhive.db")).unwrap();

    for (source, code, words) in [
        (&corrupt, 1, ["openhive.db`", "is damaged"]),
        (&unknown, 1, ["table `scope_keywords`, column `keyword`", "is missing"]),
        (&missing, 5, ["there is no `", "--run"]),
    ] {
        let before = source.state();
        let ended = run(&service, source.import(&[])).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
        for word in words {
            assert!(ended.err.contains(word), "{word}: {}", ended.err);
        }
        assert!(before == source.state(), "the source has changed");
    }
    assert!(!service.path("run").exists() && !service.path("data").exists());
}

/// OR-25
#[actix::test]
async fn an_installation_that_is_running_is_left_alone() {
    let service = Service::prepare();
    let source = Installation::new("http://127.0.0.1:1");
    // No file of it may be opened and closed here from now on: that would end the lock.
    let holder = source.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();

    let busy = run(&service, source.import(&[])).await;
    drop(holder);
    let free = run(&service, source.import(&["--dry-run"])).await;

    assert_eq!(busy.code, Some(6), "{busy:?}");
    for words in ["openhive.db` is locked by process", "stop OpenHive first"] {
        assert!(busy.err.contains(words), "{words}: {}", busy.err);
    }
    assert!(!service.path("run").exists());
    assert!(free.out.contains("research"), "{}", free.err);
}

/// OR-29: keys, memory, rules and files of the source are used.
#[actix::test]
async fn the_service_starts_on_what_was_imported_and_main_answers() {
    let model = FakeModel::start();
    model.say([Reply::text("Hello, Ada.")]);
    let source = Installation::new(model.url());
    let mut service = Service::prepare();
    run(&service, source.import(&[])).await;

    service.launch().await;
    let mut client = service.connect().await;
    let answer = client.ask("Who am I?").await;

    assert_eq!(answer["content"], "Hello, Ada.", "{}", service.log());
    let asked = model.requests();
    assert_eq!(asked[0].header("x-api-key"), Some(KEY), "it is in the vault");
    assert_eq!(asked[0].body["model"], "claude-sonnet-4-20250514");
    let prompt = asked[0].body["system"].to_string();
    for words in ["The operator is called Ada.", "Be kind.", "Be short."] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
    let text = |path: &str| fs::read_to_string(service.path(path)).unwrap();
    assert_eq!(text("run/teams/research/notes/list.txt"), "one\ntwo\n");
    assert!(text("run/teams/research/plugins/imported/lookup.ts").contains("description"));
    assert!(!service.path("run/teams/research/host").exists());
    assert_eq!(leaks(service.home()), Vec::<String>::new());
}

/// OR-28, OR-29
#[actix::test]
async fn teams_come_paused_with_everything_that_is_theirs() {
    let model = FakeModel::start();
    model.say([
        Reply::calls([
            ("list_teams", json!({"recursive": true})),
            ("get_status", json!({"team": "research"})),
            ("list_completed_tasks", json!({"team": "research", "since": "2020-01-01T00:00:00Z"})),
            ("list_trusted_senders", json!({})),
            ("list_triggers", json!({"team": "research"})),
        ]),
        Reply::text("So it is."),
    ]);
    let source = Installation::new(model.url());
    let mut service = Service::prepare();
    run(&service, source.import(&[])).await;

    service.launch().await;
    let mut client = service.connect().await;
    client.ask("How is it?").await;
    let memories = "/api/v1/memories?team=research";
    let (_, memories) = service.api("GET", memories, None).await;

    let results = results(&model.requests()[1].body);
    let [teams, status, tasks, senders, triggers] = &results[..] else { panic!("{results:#?}") };
    let state = |name: &str| find(&teams["teams"], "name", name)["state"].clone();
    assert_eq!(state("research"), "paused");
    assert_eq!(state("orphan"), "degraded");
    let research = &status["teams"][0];
    assert_eq!((&research["queued"], &research["phase"]), (&json!(2), &json!("ready")));
    let done = find(&tasks["tasks"], "id", "task-00000000000000a3");
    assert_eq!(done["result_snippet"], "There are 12, found with ${vault:GITHUB_TOKEN}.");
    assert_eq!(find(&senders["senders"], "sender_id", "42")["trust_level"], "trusted");
    assert_eq!(find(&senders["senders"], "sender_id", "666")["channel_id"], "112233");
    let trigger = |name| find(&triggers["triggers"], "name", name);
    assert_eq!(trigger("daily")["state"], "active");
    assert_eq!(trigger("daily")["config"]["timezone"], "Europe/Berlin");
    assert_eq!(trigger("watch")["state"], "pending");
    let never = trigger("never");
    assert_eq!(never["state"], "disabled");
    let reason = never["disabled_reason"].as_str().unwrap();
    assert!(reason.contains("config.cron"), "{reason}");
    let memories = &memories["data"];
    assert_eq!(find(memories, "key", "lesson:retry")["review"], "pending");
    assert_eq!(find(memories, "key", "login")["provenance"]["origin"], "import");
    let versions = memories.as_array().unwrap().iter();
    let goals: Vec<_> = versions.filter(|entry| entry["key"] == "goal").collect();
    assert_eq!(goals.len(), 2, "{memories:#}");
    let new = goals.iter().find(|entry| entry["active"] == true).unwrap();
    let old = goals.iter().find(|entry| entry["active"] == false).unwrap();
    assert_eq!(new["supersedes_id"], old["id"]);
}

/// OR-29
#[actix::test]
async fn an_old_conversation_goes_on() {
    let model = FakeModel::start();
    model.say([Reply::text("Twelve.")]);
    let source = Installation::new(model.url());
    let mut service = Service::prepare();
    run(&service, source.import(&[])).await;
    service.launch().await;
    let mut client = service.connect().await;

    client.resume("ws:0badcafe", 0).await;
    client.send(json!({"type": "topic_list_request"})).await;
    let list = client.until(|frame| frame["type"] == "topic_list").await;
    client.say_in("t-00000000000000b1", "m1", "And how many are there?").await;
    let answer = client.end_of("m1").await;

    let papers = find(&list["topics"], "id", "t-00000000000000b1");
    assert_eq!((&papers["name"], &papers["state"]), (&json!("Papers"), &json!("idle")));
    assert_eq!(find(&list["topics"], "name", "Lunch")["state"], "done");
    assert_eq!(answer["content"], "Twelve.", "{answer}");
    let prompt = model.requests()[0].body.to_string();
    for words in ["What is new in papers?", "Nothing much."] {
        assert!(prompt.contains(words), "{words}: {prompt}");
    }
}

/// The row of a list whose field has this value.
fn find<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let rows = list.as_array().unwrap_or_else(|| panic!("no list: {list}"));
    let found = rows.iter().find(|row| row[field] == value);
    found.unwrap_or_else(|| panic!("{value} in {list:#}"))
}
