//! One team: set up again, described, given work, and its file edited.

use serde_json::{Value, json};

use super::{
    ASKING, TEAM, asking, chat, data, go, has_no_complaints, order, press, submit, until_gone,
    until_shown, until_told,
};
use crate::{
    learning::{self, RULE},
    service::{Client, Service, WORKS_ITSELF},
    webdriver::Browser,
};

/// A service with a team whose first work was cancelled, so that it is not set up.
async fn half_made() -> Service {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            &format!("{ASKING}runtime: {{max_running_turns: 1}}\n"),
        )
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await;
    // As long as this runs, nothing else does.
    let message = json!({"content": "#wait 60000\n#reply late"});
    let busy = order(&service, "POST", "/api/v1/messages", message).await;
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    order(&service, "POST", "/api/v1/teams", team).await;
    let tasks = data(&service, "/api/v1/tasks?team=research&type=bootstrap").await;
    for id in [&tasks[0]["id"], &busy["task_id"]] {
        let path = format!("/api/v1/tasks/{}/cancel", id.as_str().unwrap());
        order(&service, "POST", &path, json!({})).await;
    }
    service
}

async fn file(service: &Service) -> Value {
    data(service, "/api/v1/teams/research/config").await["content"].clone()
}

/// Writes a text into the editor, and has the changes shown.
async fn rewrite(browser: &Browser, text: &str) {
    browser.fill("dialog [name=content]", text).await;
    press(browser, "Review changes").await;
    browser.until("document.querySelector('dialog .diff')").await;
}

/// OP-53
#[tokio::test]
async fn a_team_is_set_up_again_described_and_given_work() {
    let service = half_made().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/research").await;

    press(&browser, "Set up again").await;
    until_told(&browser, "It is setting itself up again.").await;
    until_gone(&browser, "Set up again").await;
    assert_eq!(data(&service, "/api/v1/teams/research").await["phase"], "ready");

    press(&browser, "Edit description…").await;
    browser.fill("dialog [name=description]", "reads books").await;
    browser.fill("dialog [name=scope]", "books").await;
    submit(&browser).await;
    until_shown(&browser, "reads books").await;
    let team = data(&service, "/api/v1/teams/research").await;
    assert_eq!(team["own_scope"], json!(["books"]));

    press(&browser, "Give a task").await;
    browser.fill("dialog [name=task]", "Find three books").await;
    submit(&browser).await;
    until_shown(&browser, "Find three books").await;
    let tasks = data(&service, "/api/v1/tasks?team=research&q=three").await;
    assert_eq!(tasks[0]["body"], "Find three books");

    press(&browser, "Pause").await;
    until_shown(&browser, "Resume").await;
    assert_eq!(data(&service, "/api/v1/teams/research").await["state"], "paused");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-03, OP-53: what changes is seen before it counts; what is refused is marked at its line.
#[tokio::test]
async fn the_file_of_a_team_is_edited() {
    let service = asking().await;
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    order(&service, "POST", "/api/v1/teams", team).await;
    let before = file(&service).await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/research").await;

    press(&browser, "Edit…").await;
    rewrite(&browser, "# read by nobody else\nmax_steps: many\n").await;
    let difference = "document.querySelector('dialog .diff .added')?.innerText.trim()";
    browser.until(&format!("{difference} === '+ # read by nobody else'")).await;
    press(&browser, "Save").await;
    browser
        .until("document.querySelector('dialog .line-numbers [data-bad]')?.textContent === '2'")
        .await;
    let said = browser.text("dialog .problems").await;
    assert!(said.contains("Line 2") && said.contains("max_steps"), "{said}");
    press(&browser, "Line 2").await;
    let marked = "(() => { const field = document.querySelector('dialog [name=content]'); \
                  return field.value.slice(field.selectionStart, field.selectionEnd); })()";
    let marked = browser.value(marked).await;
    assert!(marked.as_str().unwrap().ends_with("many"), "{marked}");
    assert_eq!(file(&service).await, before);
    // The refusal is one to the browser, too.
    browser.complaints().await;

    rewrite(&browser, "max_steps: 7\n").await;
    press(&browser, "Back to the text").await;
    browser
        .until("document.querySelector('dialog [name=content]')?.value === 'max_steps: 7\\n'")
        .await;
    press(&browser, "Review changes").await;
    press(&browser, "Save").await;
    until_told(&browser, "Saved").await;
    assert_eq!(file(&service).await, "max_steps: 7\n");
    until_shown(&browser, "max_steps: 7").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// TR-67, OP-53: what a team changed about itself is shown with the difference, and is taken back with a click.
#[tokio::test]
async fn what_a_team_changed_by_itself_is_rolled_back() {
    let (service, cycle) = learning::reflecting().await;
    learning::reflect(&service, &cycle).await;
    let waiting = service
        .until("/api/v1/approvals?status=pending", |rows| {
            rows.as_array().is_some_and(|rows| rows.len() == 1)
        })
        .await;
    let path = format!("/api/v1/approvals/{}", waiting[0]["id"].as_str().unwrap());
    let word = json!({"decision": "approve", "digest": waiting[0]["digest"]});
    order(&service, "POST", &path, word).await;
    service
        .until("/api/v1/changes?team=scouts", |rows| {
            rows.as_array().is_some_and(|rows| rows.len() == 1)
        })
        .await;
    let rule = || std::fs::read_to_string(service.path(RULE)).unwrap();
    // The text before is kept first, and listed; then the file changes.
    crate::service::until("the rule says more", async || {
        rule() == "Work fast.\nCheck what you did.\n"
    })
    .await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/scouts").await;

    until_shown(&browser, "maps were not checked in two tasks").await;
    press(&browser, "Roll back…").await;
    // The dialog fades in, and what can't be seen yet has no text for the driver.
    let taken = "document.querySelector('dialog .diff .taken')?.textContent";
    browser.until(&format!("{taken}.includes('Check what you did.')")).await;
    submit(&browser).await;
    until_shown(&browser, "Rolled back").await;
    until_gone(&browser, "Roll back…").await;

    assert_eq!(rule(), "Work fast.\n");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// SC-20, OP-53: files that a stranger's turn wrote are listed at the team, and each is accepted with a click.
#[tokio::test]
async fn an_untrusted_file_is_accepted() {
    let channels = "ws: {enabled: true}\ntrust: {channels: {ws: {policy: allow}}}\n";
    let service = Service::prepare()
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file("data/config/channels.yaml", channels)
        .started()
        .await;
    let wish = json!({"name": "mallory", "scopes": ["chat"]});
    let made = order(&service, "POST", "/api/v1/tokens", wish).await;
    let mut mallory = Client::connect(&service.url(), made["token"].as_str().unwrap()).await;
    for path in ["notes/one.md", "notes/two.md"] {
        let end = mallory.ask(&super::write(path)).await;
        assert_eq!(end["type"], "response", "{end}");
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/main").await;

    until_shown(&browser, "Untrusted files").await;
    until_shown(&browser, "notes/two.md").await;
    press(&browser, "Accept").await;
    until_told(&browser, "Accepted: 1 file.").await;
    browser
        .until(
            "[...document.querySelectorAll('#view .panel')] \
             .find(one => one.querySelector('h2')?.textContent === 'Untrusted files') \
             ?.querySelectorAll('li').length === 1",
        )
        .await;
    let left = data(&service, "/api/v1/teams/main/untrusted-files").await;
    press(&browser, "Accept").await;
    until_gone(&browser, "Untrusted files").await;

    let paths: Vec<_> = left.as_array().unwrap().iter().map(|row| &row["path"]).collect();
    assert_eq!(paths, ["notes/two.md"]);
    let left = data(&service, "/api/v1/teams/main/untrusted-files").await;
    assert_eq!(left, json!([]));
    has_no_complaints(&browser).await;
    browser.close().await;
}
