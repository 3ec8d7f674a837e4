//! The API against its own description, by tools that know neither the program nor us.
//!
//! `./tests/run` installs them beside the build; `./tests/run quick` does without.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{service::Service, webdriver::is_quick};

/// So many runs share the routes, each with a service of its own: one token may not ask faster, and alone a run would wait
/// for most of the time.
const RUNS: usize = 4;
/// A run takes some minutes; much more means that it hangs.
const LONGEST: Duration = Duration::from_secs(900);
/// So many lines are told of a run that failed, none of them longer than this: what is shown of a run
/// of all tests is its end.
const MOST_LINES: usize = 100;
const LONGEST_LINE: usize = 500;
/// What is asked of every answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,allow_header_conformance";

/// A program that `./tests/run` installed; none where that may be left out.
fn tool(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("a folder")
        .join("contract/bin")
        .join(name);
    let there = path.exists();
    assert!(
        there || is_quick(),
        "{} is missing: `./tests/run` installs it (HIVEWRIGHT_TESTS=quick does without)",
        path.display()
    );
    there.then_some(path)
}

/// What a report says to be wrong, without all that went well; the end of one that says it otherwise.
fn faults(report: &str) -> String {
    let is_title = |line: &str, words: &[&str]| {
        line.starts_with("===") && words.iter().any(|word| line.contains(word))
    };
    let lines: Vec<&str> = report.lines().collect();
    let first = lines.iter().position(|line| is_title(line, &["ERRORS", "FAILURES"]));
    let told = match first {
        Some(first) => lines[first..].split(|line| is_title(line, &["SUMMARY"])).next(),
        None => lines.rchunks(MOST_LINES).next(),
    };
    let told = told.unwrap_or_default().iter().take(MOST_LINES);
    told.map(|line| line.chars().take(LONGEST_LINE).chain(['\n']).collect::<String>()).collect()
}

/// What a program says, which has to end well.
async fn run(command: &mut Command) -> String {
    let child = command
        .stdin(Stdio::null())
        .env_remove("PYTHONPATH")
        .env("NO_COLOR", "1")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LONGEST, child).await;
    let output = output.expect("it ends in time").expect("it can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{}", faults(&said), faults(&complaints));
    said
}

/// A service with a little of everything.
async fn furnished() -> Service {
    let service = Service::start().await;
    let mut client = service.connect().await;
    client.ask("#reply Hello.").await;
    let made: [(&str, &str, Value); 7] = [
        (
            "POST",
            "/api/v1/teams",
            json!({"name": "billing", "description": "Invoices", "scope_accepts": ["invoices"]}),
        ),
        (
            "POST",
            "/api/v1/memories",
            json!({"team": "main", "key": "office", "content": "Berlin", "type": "context"}),
        ),
        (
            "POST",
            "/api/v1/triggers",
            json!({
                "team": "main", "name": "morning", "type": "schedule",
                "config": {"cron": "0 8 * * *"}, "task": "Look around.",
            }),
        ),
        (
            "POST",
            "/api/v1/policies",
            json!({"resource": "tool:bash", "effect": "require_approval"}),
        ),
        ("POST", "/api/v1/trust", json!({"channel_type": "discord", "sender_id": "42"})),
        (
            "POST",
            "/api/v1/identities",
            json!({"channel_type": "discord", "sender_id": "42", "token": "operator"}),
        ),
        ("PUT", "/api/v1/vault/team:main/API_KEY", json!({"value": "a-value-of-a-secret"})),
    ];
    for (method, path, body) in made {
        let (status, answer) = service.api(method, path, Some(body)).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
    }
    service
}

/// OP-07: the description is what OpenAPI 3.1 says it should be.
#[actix::test]
async fn the_description_is_valid() {
    let Some(validator) = tool("openapi-spec-validator") else {
        return;
    };
    let service = Service::start().await;
    let (status, document) = service.api("GET", "/api/v1/openapi.json", None).await;
    assert_eq!(status, 200);
    service.write("openapi.json", &document.to_string());

    run(Command::new(validator).args(["--schema", "3.1"]).arg(service.path("openapi.json"))).await;
}

/// A run that fails is read from its end by people who see no more than that.
#[test]
fn of_a_report_only_the_faults_are_told() {
    let long = "x".repeat(2 * LONGEST_LINE);
    let report = format!("passed\n=== FAILURES ===\nGET /\n{long}\n=== SUMMARY ===\n1 failure");

    let expected = format!("=== FAILURES ===\nGET /\n{}\n", &long[..LONGEST_LINE]);
    assert_eq!(faults(&report), expected);
    let many: String = (0..2 * MOST_LINES).map(|line| format!("{line}\n")).collect();
    assert_eq!(faults(&many).lines().next(), Some("100"));
    assert_eq!(faults(&many).lines().last(), Some("199"));
}

/// The description in so many parts, about equally large. What is about one resource stays together: a run sends what it
/// was answered before.
fn parts(document: &Value, count: usize) -> Vec<Value> {
    let mut resources = BTreeMap::<&str, Vec<(&String, &Value)>>::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let below = path.strip_prefix("/api/v1/").unwrap_or_default();
        let resource = below.split('/').next().unwrap_or_default();
        resources.entry(resource).or_default().push((path, operations));
    }
    let mut resources: Vec<_> = resources.into_values().collect();
    resources.sort_by_key(|paths| Reverse(paths.len()));
    let mut parts = vec![serde_json::Map::new(); count];
    for paths in resources {
        let least = parts.iter_mut().min_by_key(|part| part.len()).expect("a part");
        least
            .extend(paths.into_iter().map(|(path, operations)| (path.clone(), operations.clone())));
    }
    let part = |paths| {
        let mut part = document.clone();
        part["paths"] = Value::Object(paths);
        part
    };
    parts.into_iter().map(part).collect()
}

/// Sends to each route of a description what it allows and what it does not.
async fn try_all(schemathesis: &Path, document: &Value) {
    let service = furnished().await;
    service.write("openapi.json", &document.to_string());

    let said = run(Command::new(schemathesis)
        .current_dir(service.home())
        .env("SCHEMATHESIS_HOOKS", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract/hooks.py"))
        // Beside the hooks nothing is left behind.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--config-file")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract/schemathesis.toml"))
        .arg("run")
        .arg(service.path("openapi.json"))
        .args(["--url", &service.url()])
        .args(["--header", &format!("Authorization:Bearer {}", service.token())])
        .args(["--checks", CHECKS])
        .args(["--phases", "examples,coverage,fuzzing"])
        // No bound of time: what is tried would hang on how fast the machine is.
        .args(["--max-examples", "5"])
        // Below what one token may ask for.
        .args(["--rate-limit", "45/s", "--seed", "1", "--continue-on-failure"])
        .args(["--request-timeout", "40", "--suppress-health-check", "all"])
        .args(["--warnings", "off", "--generation-database", "none", "--output-sanitize", "true"])
        // It would end the credential of the run.
        .args(["--exclude-operation-id", "post_tokens_operator_rotate"])
        // It does not end by itself.
        .args(["--exclude-operation-id", "get_events"]))
    .await;

    assert!(said.contains("No issues found") || said.contains("passed"), "{}", faults(&said));
    let (status, answer) = service.api("GET", "/api/v1/overview", None).await;
    assert_eq!(status, 200, "{answer}");
}

/// OP-07, OP-99: whatever is sent to whichever route, the service does not fail, and answers as it
/// says it does.
#[actix::test]
async fn no_route_answers_otherwise_than_it_says() {
    let Some(schemathesis) = tool("schemathesis") else {
        return;
    };
    let (_, document) = Service::start().await.api("GET", "/api/v1/openapi.json", None).await;

    let parts = parts(&document, RUNS);

    let tried = parts.iter().flat_map(|part| part["paths"].as_object().expect("paths").keys());
    let all = document["paths"].as_object().expect("paths").keys();
    assert_eq!(tried.collect::<BTreeSet<_>>(), all.collect());
    join_all(parts.iter().map(|part| try_all(&schemathesis, part))).await;
}
