//! A team that looks back at itself: it proposes, a person decides, and can take it back.

use serde_json::{Value, json};

use crate::service::Service;

/// The rule that the team of [`reflecting`] wants to change.
pub(crate) const RULE: &str = "run/teams/scouts/team-rules/work.md";

/// A team that is set up, learns, and whose reflection proposes always the same.
pub(crate) async fn reflecting() -> (Service, String) {
    let service = Service::start().await;
    let wish = json!({"name": "scouts", "scope_accepts": ["maps"], "init_context": "Draw maps."});
    let (status, made) = service.api("POST", "/api/v1/teams", Some(wish)).await;
    assert_eq!(status, 201, "{made}");
    service.until("/api/v1/teams/scouts", |team| team["phase"] == "ready").await;
    let proposal = json!({
        "file_path": "team-rules/work.md", "reason": "maps were not checked in two tasks",
        "old_string": "Work fast.", "new_string": "Work fast.\nCheck what you did.",
    });
    service.write(RULE, "Work fast.\n");
    service.write(
        "run/teams/scouts/skills/reflection-cycle/SKILL.md",
        &format!(
            "---\nname: reflection-cycle\ndescription: Ours.\n---\n#call propose_change {proposal}\n#reply {{result}}\n"
        ),
    );
    let file = "run/teams/scouts/config.yaml";
    let text = std::fs::read_to_string(service.path(file)).unwrap();
    service.write(file, &format!("{text}learning: true\n"));
    let listed = service
        .until("/api/v1/triggers?team=scouts", |rows| {
            rows.as_array().is_some_and(|rows| rows.len() == 2)
        })
        .await;
    let mut rows = listed.as_array().unwrap().iter();
    let cycle = rows.find(|row| row["name"] == "reflection-cycle").unwrap();
    let id = cycle["id"].as_str().unwrap().to_owned();
    (service, id)
}

/// Fires its reflection.
pub(crate) async fn reflect(service: &Service, id: &str) {
    let run = format!("/api/v1/triggers/{id}/run");
    let (_, fired) = service.api("POST", &run, Some(json!({}))).await;
    assert_eq!(fired["data"]["decision"], "enqueued", "{fired}");
}

async fn ended(service: &Service, id: &str, runs: usize) -> Value {
    let path = format!("/api/v1/triggers/{id}/runs");
    let rows = service
        .until(&path, |rows| {
            let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
            rows.len() == runs && rows[0]["outcome"].is_string()
        })
        .await;
    let task = format!("/api/v1/tasks/{}", rows[0]["task_id"].as_str().unwrap());
    service.api("GET", &task, None).await.1["data"].clone()
}

/// TR-64, TR-65, TR-67
#[actix::test]
async fn a_reflection_changes_a_rule_only_after_a_person_agreed() {
    let (service, id) = reflecting().await;
    let rule = || std::fs::read_to_string(service.path(RULE)).unwrap();

    reflect(&service, &id).await;
    let waiting = service
        .until("/api/v1/approvals?status=pending", |rows| {
            rows.as_array().is_some_and(|rows| rows.len() == 1)
        })
        .await;
    let held = &waiting[0];
    assert_eq!(held["kind"], "self_change", "{held:#}");
    let diff = held["diff"].as_str().unwrap();
    assert!(diff.ends_with(" Work fast.\n+Check what you did.\n"), "{diff}");
    assert_eq!(rule(), "Work fast.\n");

    let decision = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
    let word = json!({"decision": "approve", "digest": held["digest"]});
    let (status, decided) = service.api("POST", &decision, Some(word)).await;
    assert_eq!(status, 200, "{decided}");
    let done = ended(&service, &id, 1).await;
    assert_eq!(rule(), "Work fast.\nCheck what you did.\n", "{done:#}");

    let (_, changes) = service.api("GET", "/api/v1/changes?team=scouts", None).await;
    let change = &changes["data"][0];
    assert_eq!(change["before"], "Work fast.\n", "{changes:#}");
    let back = format!("/api/v1/changes/{}/rollback", change["id"].as_str().unwrap());
    let (status, taken) = service.api("POST", &back, Some(json!({}))).await;
    assert_eq!((status, taken["data"]["rolled_back_by"].is_string()), (200, true));
    assert_eq!(rule(), "Work fast.\n");

    // It would propose the same file again: nobody is asked.
    reflect(&service, &id).await;
    let task = ended(&service, &id, 2).await;
    assert!(task.to_string().contains("same_file"), "{task:#}");
    assert_eq!(rule(), "Work fast.\n");
}
