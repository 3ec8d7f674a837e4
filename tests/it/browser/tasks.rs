//! Tasks: given, stopped, tried again, and found.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::{
    asking, chat, data, go, has_no_complaints, order, press, submit, until_shown, until_told,
};
use crate::{engines::home, service::Service, webdriver::Browser};

/// Longer than any test.
const LONG: &str = "#wait 60000\n#reply late";

/// Begins as Claude Code does, says something that is no part of that, and waits for ever.
const WAITING_AGENT: &str = r#"#!/bin/sh
[ "$1" = --version ] && echo "2.1.325 (Claude Code)" && exit
read -r _
echo '{"type":"control_response","response":{"subtype":"success","request_id":"initialize"}}'
read -r _
echo 'waiting for the proxy'
read -r _
"#;

/// Work given to a team at work is asked about first, and its setup is work: so this waits for it.
async fn started() -> Service {
    let service = asking().await;
    service.make_team("research", "finds things out").await;
    service
}

/// The id of the task on the page.
async fn on_page(browser: &Browser) -> String {
    browser
        .until("location.hash.startsWith('#/tasks/') && document.querySelector('hw-task h1')")
        .await;
    let hash = browser.value("location.hash").await;
    hash.as_str().unwrap().replace("#/tasks/", "")
}

async fn until_it_is(browser: &Browser, state: &str) {
    browser
        .until(&format!(
            "document.querySelector('hw-task .page-head .pill')?.textContent === {}",
            json!(state)
        ))
        .await;
}

async fn state(service: &Service, id: &str) -> serde_json::Value {
    data(service, &format!("/api/v1/tasks/{id}")).await["state"].clone()
}

/// OP-54
#[tokio::test]
async fn a_task_is_given_cancelled_and_tried_again() {
    let service = started().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/tasks").await;
    press(&browser, "New task").await;
    browser.fill("dialog [name=task]", LONG).await;
    browser.choose("dialog [name=team]", "research").await;
    browser.choose("dialog [name=priority]", "high").await;
    submit(&browser).await;
    let first = on_page(&browser).await;
    until_it_is(&browser, "running").await;
    let given = data(&service, &format!("/api/v1/tasks/{first}")).await;
    assert_eq!(given["priority"], "high");
    assert_eq!(given["team"], "research");
    assert_eq!(given["body"], LONG);

    press(&browser, "Cancel…").await;
    browser.fill("dialog [name=reason]", "not today").await;
    submit(&browser).await;
    until_it_is(&browser, "cancelled").await;
    assert_eq!(state(&service, &first).await, "cancelled");

    press(&browser, "Try again").await;
    until_told(&browser, "Started again as a new task.").await;
    browser.until(&format!("!location.hash.endsWith({})", json!(first))).await;
    let second = on_page(&browser).await;
    until_it_is(&browser, "running").await;
    assert_eq!(state(&service, &second).await, "running");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-34, OP-54: work that was given on ends with it.
#[tokio::test]
async fn a_task_is_cancelled_with_all_that_it_led_to() {
    let service = started().await;
    let given_on = json!({"team": "research", "task": LONG});
    let message = format!("#call delegate_task {given_on}\n#then\n{LONG}");
    let message = json!({"content": message});
    let sent = order(&service, "POST", "/api/v1/messages", message).await;
    let root = sent["task_id"].as_str().unwrap().to_owned();
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, &format!("#/tasks/{root}")).await;
    browser.until("document.querySelectorAll('.chain-node').length === 2").await;
    press(&browser, "Cancel…").await;
    browser.click("dialog [name=cascade]").await;
    submit(&browser).await;
    until_it_is(&browser, "cancelled").await;
    browser
        .until("[...document.querySelectorAll('.chain-node .pill')].every(one => one.textContent === 'cancelled')")
        .await;

    let all = data(&service, &format!("/api/v1/tasks?root={root}")).await;
    let states: Vec<&str> =
        all.as_array().unwrap().iter().map(|task| task["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["cancelled", "cancelled"]);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-02, OP-54: the board, the table, the filters, and more than a page.
#[tokio::test]
async fn tasks_are_found_among_many() {
    let service = started().await;
    order(&service, "POST", "/api/v1/teams/research/pause", json!({})).await;
    for number in 0..70 {
        let task =
            json!({"team": "research", "task": format!("count to {number}"), "priority": "low"});
        order(&service, "POST", "/api/v1/tasks", task).await;
    }
    let urgent = json!({"team": "research", "task": "put the fire out", "priority": "high"});
    order(&service, "POST", "/api/v1/tasks", urgent).await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let cards = "document.querySelectorAll('.task-card').length";
    let rows = "document.querySelectorAll('.rows tbody tr').length";

    go(&browser, "#/tasks").await;
    // Its marks are whole: another drawing has dashed lines of the same name.
    let dashes = "document.querySelector('.task-card .pill .icon') \
                  && getComputedStyle(document.querySelector('.task-card .pill .icon')).strokeDasharray";
    browser.until(&format!("{dashes} === 'none'")).await;
    browser.until(&format!("{cards} === 60")).await;
    let all = service.api("GET", "/api/v1/tasks", None).await.1["total"].clone();
    until_shown(&browser, &format!("60 of {all} shown.")).await;
    press(&browser, "Show more").await;
    browser.until(&format!("{cards} === {all}")).await;
    browser.until("!document.querySelector('#view .remainder')").await;

    browser.choose("[aria-label=Priority]", "high").await;
    browser.until(&format!("{cards} === 1")).await;
    until_shown(&browser, "put the fire out").await;
    press(&browser, "Table").await;
    browser.until(&format!("{rows} === 1")).await;
    browser.choose("[aria-label=State]", "done").await;
    until_shown(&browser, "No task matches these filters.").await;
    press(&browser, "Show all").await;
    browser.until(&format!("{rows} === {all}")).await;
    browser.fill("#view .search", "count to 42").await;
    browser.until(&format!("{rows} === 1")).await;
    browser.choose("[aria-label=Type]", "chat").await;
    until_shown(&browser, "No task matches these filters.").await;
    // What is looked for is in the address.
    browser.reload().await;
    until_shown(&browser, "No task matches these filters.").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// EN-120: what an agent says beside its answer stands with its task, and how it reaches its model with the doctor.
#[tokio::test]
async fn the_last_note_of_an_agent_stands_with_its_task() {
    let folder = tempfile::tempdir().expect("a folder");
    let agent = folder.path().join("claude");
    std::fs::write(&agent, WAITING_AGENT).expect("a program");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let service = home(folder.path(), "claude", "").started().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    let order = json!({"team": "main", "task": "wait"});
    let (_, given) = service.api("POST", "/api/v1/tasks", Some(order)).await;
    let id = given["data"]["id"].as_str().expect("an id").to_owned();
    go(&browser, &format!("#/tasks/{id}")).await;
    until_shown(&browser, "waiting for the proxy").await;
    go(&browser, "#/settings/doctor").await;
    until_shown(&browser, "reaches demo through the relay with profile default").await;

    has_no_complaints(&browser).await;
    browser.close().await;
}
