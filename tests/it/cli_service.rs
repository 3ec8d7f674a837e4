//! The command line against the real service.

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use crate::{cli::Ended, service::Service};

async fn run(service: &Service, arguments: &[&str]) -> Ended {
    let mut command = service.command(arguments);
    let running = tokio::task::spawn_blocking(move || command.output().unwrap());
    Ended::new(running.await.unwrap())
}

/// OP-77, OP-78, OP-82, OP-84
#[tokio::test]
async fn every_command_finds_the_running_service_by_itself() {
    let service = Service::start().await;

    let status = run(&service, &["status"]).await;
    let answer = run(&service, &["send", "#reply yes", "--quiet"]).await;
    let made = run(&service, &["token", "create", "ci", "--scope", "chat"]).await;
    let token = service.path("token");
    fs::write(&token, &made.out).unwrap();
    let as_ci = ["--token-file", token.to_str().unwrap()];
    let allowed = run(&service, &["send", "#reply you too", as_ci[0], as_ci[1]]).await;
    let refused = run(&service, &["status", as_ci[0], as_ci[1]]).await;
    let revoked = run(&service, &["token", "revoke", "ci"]).await;
    let ended = run(&service, &["send", "hello", as_ci[0], as_ci[1]]).await;
    let link = run(&service, &["token", "link"]).await;
    let before = service.token();
    let rotated = run(&service, &["token", "rotate-operator"]).await;
    let listed = run(&service, &["token", "list", "--json"]).await;

    assert!(status.out.starts_with("service          running, version"));
    let expected = Ended {
        code: Some(0),
        out: "yes\n".into(),
        err: String::new(),
    };
    assert_eq!(answer, expected);
    assert_eq!(allowed.out, "you too\n");
    assert_eq!((refused.code, ended.code), (Some(4), Some(4)));
    assert!(refused.err.contains("`read`"), "{}", refused.err);
    assert_eq!((revoked.code, rotated.code), (Some(0), Some(0)));
    assert!(link.out.starts_with(&format!("{}/#code=", service.url())));
    assert_ne!(before, service.token());
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed["total"], 1);
}

/// OP-81, OP-86
#[tokio::test]
async fn a_running_service_is_backed_up_and_not_restored() {
    let service = Service::start().await;
    let file = service.path("copy.tar.zst");
    let file = file.to_str().unwrap();

    let made = run(&service, &["backup", file, "--json"]).await;
    let refused = run(&service, &["restore", file, "--force"]).await;
    let healthy = run(&service, &["doctor"]).await;

    let document: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(document, json!({"data": {"file": file}}));
    assert!(fs::metadata(file).unwrap().len() > 0);
    assert_eq!(refused.code, Some(6));
    assert!(refused.err.contains("stop the service first"));
    assert!(healthy.out.contains("runs and is ready"), "{healthy:?}");
}

/// OP-78: the work is done once, and its answer is not lost with the process.
#[tokio::test]
async fn an_answer_outlives_the_service_that_was_asked() {
    let mut service = Service::start().await;
    let mut asking = service
        .command(&["send", "#wait 300\n#reply survived"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Something must be accepted before it can be lost.
    while service.api("GET", "/api/v1/overview", None).await.1["data"]["tasks"]["running"] == 0 {
        assert!(asking.try_wait().unwrap().is_none(), "it ended too early");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }

    service.kill();
    service.launch().await;
    let waiting = tokio::task::spawn_blocking(|| asking.wait_with_output().unwrap());
    let waiting = tokio::time::timeout(crate::service::PATIENCE, waiting).await;
    let ended = Ended::new(waiting.unwrap().unwrap());

    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "survived\n"),
        "{}",
        ended.err
    );
    let remarks: Vec<_> = ended
        .err
        .lines()
        .filter(|line| line.contains("connect"))
        .collect();
    assert_eq!(
        remarks,
        ["· connection lost; trying again", "· connected again"],
        "{}",
        ended.err
    );
}
