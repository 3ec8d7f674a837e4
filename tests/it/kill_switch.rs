//! The kill switch: whatever runs is gone, nothing new begins, and nothing is lost.

use std::fs;

use serde_json::{Value, json};

use crate::service::{Service, until};

/// Processes that were started with exactly this argument, on the whole machine.
pub(crate) fn started_with(argument: &str) -> Vec<u32> {
    let found = |entry: fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0);
        let has = words.any(|word| word == argument.as_bytes());
        entry.file_name().to_str()?.parse().ok().filter(|_| has)
    };
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries.filter_map(found).collect()
}

/// How many there are.
pub(crate) fn processes(argument: &str) -> usize {
    started_with(argument).len()
}

/// Waits until so many run.
pub(crate) async fn until_there_are(count: usize, argument: &str) {
    until(&format!("{count} run"), async || processes(argument) == count).await;
}

async fn tasks(service: &Service) -> Vec<Value> {
    let (status, answer) = service.api("GET", "/api/v1/tasks", None).await;
    assert_eq!(status, 200, "{answer}");
    answer["data"].as_array().unwrap().clone()
}

/// SC-15, OP-35, OP-107: a command that runs is gone from the machine, its task waits again, nothing begins
/// until the teams are resumed, and then the turn goes on by the rule for what may have happened.
#[tokio::test]
async fn the_kill_switch_ends_what_runs_and_loses_nothing() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    // A number that no other process has.
    let seconds = format!("{}", 900_000 + std::process::id());
    let script = |reply: &str| {
        format!(
            "#call bash {{\"command\":\"sleep {seconds}; true\",\"timeout\":600}}\n#reply {reply}"
        )
    };
    client.say("m-1", &script("It went on.")).await;
    until_there_are(1, &seconds).await;

    let (status, answer) =
        service.api("POST", "/api/v1/pause", Some(serde_json::json!({ "now": true }))).await;
    until_there_are(0, &seconds).await;
    client.say("m-2", &script("The second.")).await;
    client.until(|frame| frame["message_id"] == "m-2" && frame["type"] == "ack").await;
    let held = tasks(&service).await;
    let begun = processes(&seconds);

    assert!(status < 300, "{answer}");
    assert_eq!(held.len(), 2, "{held:?}");
    for task in &held {
        assert_eq!(task["state"], "accepted", "{task}");
    }
    assert_eq!(begun, 0);

    let (status, answer) = service.api("POST", "/api/v1/resume", Some(serde_json::json!({}))).await;
    assert!(status < 300, "{answer}");
    let end = client.end_of("m-1").await;
    assert_eq!(
        (&end["type"], &end["content"]),
        (&serde_json::json!("response"), &serde_json::json!("It went on."))
    );
    // The call that was cut off is not made again; the one that had not begun is made now.
    until_there_are(1, &seconds).await;
}

/// EN-112, OR-95: in the chat a team is stopped, over a kill of the process, and started again; what waited is done.
#[actix::test]
async fn the_main_team_stops_and_starts_another() {
    let mut service = Service::start().await;
    service.make_team("research", "finds things out").await;
    let control = |action: &str| {
        let args = json!({ "team": "research", "action": action });
        format!("#call control_team {args}\n#then\n#reply {{result}}")
    };

    let paused = service.connect().await.ask(&control("pause")).await;
    let order = json!({"team": "research", "task": "#reply Found."});
    let (_, given) = service.api("POST", "/api/v1/tasks", Some(order)).await;
    let task = format!("/api/v1/tasks/{}", given["data"]["id"].as_str().expect("an id"));
    service.kill();
    service.launch().await;
    let (_, team) = service.api("GET", "/api/v1/teams/research", None).await;
    let (_, waits) = service.api("GET", &task, None).await;
    let resumed = service.connect().await.ask(&control("resume")).await;
    let done = service.until(&task, |task| task["state"] == "done").await;

    let says = |answer: &Value, state: &str| {
        let content = answer["content"].as_str().unwrap_or_default();
        assert!(content.contains(&format!("\"state\":\"{state}\"")), "{answer}");
    };
    says(&paused, "paused");
    assert_eq!(
        (&team["data"]["state"], &team["data"]["paused_by"]),
        (&json!("paused"), &json!("main"))
    );
    assert_eq!(waits["data"]["state"], "accepted", "{waits}");
    says(&resumed, "active");
    assert_eq!(done["outcome"]["result"], "Found.", "{done}");
}
