//! Results that cannot be written: no command ends well then, and nothing is lost by it.

use std::{fs::File, process::Stdio};

use serde_json::Value;

use crate::service::Service;

/// Runs a command whose output goes to a full disk. Returns its exit code and its complaints.
fn on_a_full_disk(service: &Service, arguments: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = service.command(arguments);
    let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

async fn tokens(service: &Service) -> Vec<String> {
    let listed = service.run(&["token", "list", "--json"], "").await;
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let rows = listed["data"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

/// OP-84, OP-85
#[actix::test]
async fn a_result_that_cannot_be_written_is_an_error() {
    let mut service = Service::start().await;
    service.run(&["send", "#reply Hello."], "").await;

    let commands: [&[&str]; 7] = [
        &["history", "export", "main"],
        &["status"],
        &["status", "--json"],
        &["send", "#reply Hello."],
        &["tasks", "list"],
        &["token", "list"],
        &["completions", "bash"],
    ];
    let ends = commands.map(|arguments| (arguments, on_a_full_disk(&service, arguments)));
    service.kill();
    let help = on_a_full_disk(&service, &["--help"]);

    for (arguments, (code, said)) in ends {
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot be written"), "{arguments:?}: {said}");
    }
    assert_eq!(help.0, Some(1), "{help:?}");
}

/// OP-82: a token is shown once; one that nobody could read is none.
#[actix::test]
async fn a_token_that_cannot_be_shown_is_revoked() {
    let mut service = Service::start().await;

    let running = on_a_full_disk(&service, &["token", "create", "lost", "--scope", "read"]);
    let names = tokens(&service).await;
    service.kill();
    let stopped = on_a_full_disk(&service, &["token", "create", "gone", "--scope", "read"]);
    let later = tokens(&service).await;

    for (code, said) in [running, stopped] {
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("was revoked"), "{said}");
    }
    for names in [names, later] {
        assert!(!names.iter().any(|name| name == "lost" || name == "gone"), "{names:?}");
    }
}
