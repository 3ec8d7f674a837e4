//! The command line against the real service.

use std::{fs, process::Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{
    cli::Ended,
    service::{self, Service},
};

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
    let expected = Ended { code: Some(0), out: "yes\n".into(), err: String::new() };
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
    service.until("/api/v1/overview", |overview| overview["tasks"]["running"] == 1).await;
    assert!(asking.try_wait().unwrap().is_none(), "it ended too early");

    service.kill();
    service.launch().await;
    let waiting = tokio::task::spawn_blocking(|| asking.wait_with_output().unwrap());
    let waiting = tokio::time::timeout(crate::service::PATIENCE, waiting).await;
    let ended = Ended::new(waiting.unwrap().unwrap());

    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "survived\n"), "{}", ended.err);
    let remarks: Vec<_> = ended.err.lines().filter(|line| line.contains("connect")).collect();
    assert_eq!(remarks, ["· connection lost; trying again", "· connected again"], "{}", ended.err);
}

const PARTS: [&str; 7] =
    ["store", "sandbox", "vault", "channels", "providers", "scheduler", "teams"];

/// OP-74: a terminal shows how every part stands and a link that logs in, in ten lines at most.
#[tokio::test]
async fn a_terminal_shows_how_everything_stands() {
    let service = Service::prepare();
    let program = service.command(&["serve", "--port", "0"]);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().unwrap()).collect();
    // `script` runs it on a terminal of its own, and hangs up with the pipe.
    let mut terminal = tokio::process::Command::new("script")
        .args(["-qec", &words.join(" "), "/dev/null"])
        .env_remove("ANTHROPIC_API_KEY")
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(terminal.stdout.take().unwrap()).lines();
    let mut lines = Vec::new();
    let reading = async {
        while let Some(line) = shown.next_line().await.unwrap() {
            let line = line.trim_end().to_owned();
            // Lines of the log stand among them, in colours.
            if !line.starts_with('\u{1b}') {
                lines.push(line.clone());
            }
            if line.contains("#code=") {
                return line;
            }
        }
        panic!("it ended: {lines:?}");
    };
    let last = tokio::time::timeout(crate::service::PATIENCE, reading).await;
    let last = last.expect("the link comes in time");

    assert!(lines.len() <= 10, "{lines:#?}");
    assert!(lines[0].starts_with("Hivewright serves on http://127.0.0.1:"));
    for part in PARTS {
        let named = |line: &&String| line.trim_start_matches(['!', ' ']).starts_with(part);
        assert_eq!(lines.iter().filter(named).count(), 1, "{part}: {lines:#?}");
    }
    let link = last.split_whitespace().last().unwrap();
    let (url, code) = link.split_once("/#code=").unwrap();
    let login = crate::service::http().post(format!("{url}/api/v1/session"));
    let login = login.json(&json!({"code": code})).send().await.unwrap();
    assert_eq!(login.status(), 200);
    terminal.kill().await.unwrap();
}

/// OP-74: elsewhere the same is in the log, without the link.
#[tokio::test]
async fn a_log_says_how_everything_stands() {
    let service = Service::start().await;

    service.until_logged("makes a link to the chat").await;

    let log = service.log();
    for part in PARTS {
        assert!(log.contains(&format!("\"part\":\"{part}\"")), "{part}: {log}");
    }
    assert!(!log.contains("#code="), "{log}");
}

/// OP-81: what people gave, wrote and installed is there after a restore into an empty home, and the vault opens once its
/// key is put back, which no backup holds.
#[actix::test]
async fn a_restore_into_an_empty_home_brings_everything_but_keys() {
    let skill = "---\nname: tea\ndescription: How tea is made.\n---\nBoil water.\n";
    let service = Service::prepare()
        .with_file("data/rules/ours.md", "Be kind.")
        .with_file("data/skills/tea/SKILL.md", skill)
        .with_file("letter.txt", "Dear team")
        .started()
        .await;
    let letter = service.path("letter.txt").display().to_string();
    let backup = service.path("copy.tar.zst").display().to_string();
    for (line, input) in [
        (&["send", "#reply read", "--file", &letter][..], ""),
        (&["vault", "set", "API_KEY", "--team", "main"], "hunter2-hunter2"),
        (&["policy", "add", "deny", "tool:bash"], ""),
        (&["plugin", "install", "--mcp", "clock", "--yes", "--", "/bin/true"], ""),
        (&["backup", &backup], ""),
    ] {
        let done = service.run(line, input).await;
        assert_eq!(done.code, Some(0), "{line:?}: {done:?}");
    }

    let mut other = Service::prepare();
    let restored = other.run(&["restore", &backup], "").await;
    let has_keys = other.path("data/secrets/master.key").exists();
    fs::create_dir_all(other.path("data/secrets")).unwrap();
    let key = "data/secrets/master.key";
    fs::copy(service.path(key), other.path(key)).unwrap();
    other.launch().await;

    assert_eq!((restored.code, has_keys), (Some(0), false), "{restored:?}");
    assert!(restored.stderr.contains("vault is locked: there is no master key"), "{restored:?}");
    assert_eq!(fs::read_to_string(other.path("data/rules/ours.md")).unwrap(), "Be kind.");
    assert_eq!(fs::read_to_string(other.path("data/skills/tea/SKILL.md")).unwrap(), skill);
    for (line, shown) in [
        (&["doctor"][..], "ok     vault      its key fits"),
        (&["vault", "show", "API_KEY", "--team", "main"], "API_KEY"),
        (&["policy", "list"], "tool:bash"),
        (&["plugin", "show", "clock"], "loaded"),
    ] {
        let seen = other.run(line, "").await;
        assert!(seen.stdout.contains(shown), "{line:?}: {seen:?}");
    }
    let (_, topics) = other.api("GET", "/api/v1/topics", None).await;
    let topic = topics["data"][0]["id"].as_str().unwrap();
    let (_, said) = other.api("GET", &format!("/api/v1/me/topics/{topic}/messages"), None).await;
    let file = said["data"][0]["files"][0]["id"].as_str().unwrap();
    let file = format!("{}/api/v1/files/{file}", other.url());
    let file = service::http().get(file).bearer_auth(other.token()).send().await.unwrap();
    assert_eq!(file.text().await.unwrap(), "Dear team");
}
