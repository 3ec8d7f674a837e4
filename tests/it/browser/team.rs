//! One team: set up again, described, given work, and its file edited.

use serde_json::{Value, json};

use super::{
    ASKING, TEAM, asking, chat, data, go, has_no_complaints, order, press, submit, until_gone,
    until_shown, until_told,
};
use crate::{service::Service, webdriver::Browser};

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
    press(browser, "Look at the changes").await;
    browser
        .until("document.querySelector('dialog .diff')")
        .await;
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
    until_told(&browser, "Its first work was given to it again.").await;
    until_gone(&browser, "Set up again").await;
    assert_eq!(
        data(&service, "/api/v1/teams/research").await["phase"],
        "ready"
    );

    press(&browser, "Describe…").await;
    browser
        .fill("dialog [name=description]", "reads books")
        .await;
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
    assert_eq!(
        data(&service, "/api/v1/teams/research").await["state"],
        "paused"
    );
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
    let difference = browser.text("dialog .diff .added").await;
    assert_eq!(difference.trim(), "+ # read by nobody else");
    press(&browser, "Save").await;
    browser
        .until("document.querySelector('dialog .line-numbers [data-bad]')?.textContent === '2'")
        .await;
    let said = browser.text("dialog .problems").await;
    assert!(
        said.contains("Line 2") && said.contains("max_steps"),
        "{said}"
    );
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
    press(&browser, "Look at the changes").await;
    press(&browser, "Save").await;
    until_told(&browser, "Saved").await;
    assert_eq!(file(&service).await, "max_steps: 7\n");
    until_shown(&browser, "max_steps: 7").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
