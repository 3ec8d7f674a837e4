//! Decisions for more than one call: a grant that is seen before it is given, and many calls at once.

use serde_json::json;

use super::{
    asking, chat, go, has_no_complaints, press, send, until_last_turn_is, until_told, write,
};
use crate::service::Service;

const HELD: &str = "document.querySelector('hw-approval [data-status=pending]')";

/// Calls of as many people, all waiting.
async fn held(service: &Service, paths: &[&str]) {
    for path in paths {
        let mut client = service.connect().await;
        client.say("held", &write(path)).await;
        client.until(|frame| frame["type"] == "notification" && frame["kind"] == "approval").await;
    }
}

async fn grants(service: &Service) -> serde_json::Value {
    service.api("GET", "/api/v1/grants", None).await.1["data"].clone()
}

/// OP-36, OP-55, PL-83: the exact grant is shown before it is sent, counts down, and is taken back.
#[tokio::test]
async fn a_call_is_approved_more_than_once() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, &write("a.txt")).await;
    browser.until("document.querySelector('[data-act=more]')").await;
    browser.click("[data-act=more]").await;
    browser.run("document.querySelector('dialog [name=times]').value = ''").await;
    browser.keys("dialog [name=times]", "3").await;
    browser
        .until(
            "document.querySelector('dialog .grant')?.textContent.includes('3, this one included')",
        )
        .await;
    let shown = browser.text("dialog .grant").await;
    let before = grants(&service).await;
    browser.click("dialog [type=submit]").await;
    until_last_turn_is(&browser, "done").await;
    send(&browser, &write("a.txt")).await;
    browser.until("document.querySelectorAll('.turn[data-status=done]').length === 2").await;

    assert!(shown.contains("main") && shown.contains("write"), "{shown}");
    assert!(shown.contains("\"file_path\": \"a.txt\""), "{shown}");
    assert_eq!(before, json!([]));
    assert_eq!(grants(&service).await[0]["uses_left"], 1);

    go(&browser, "#/approvals/grants").await;
    browser.until("document.querySelector('hw-grants .rows tbody tr')").await;
    press(&browser, "Revoke").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('hw-grants .empty')").await;
    assert_eq!(grants(&service).await, json!([]));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-55, PL-83
#[tokio::test]
async fn a_call_is_approved_for_always() {
    let service = asking().await;
    held(&service, &["a.md"]).await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/approvals").await;
    browser.until("document.querySelector('[data-act=more]')").await;
    browser.click("[data-act=more]").await;
    browser.click("dialog [value=always]").await;
    browser
        .until("document.querySelector('dialog .grant')?.textContent.includes('any number')")
        .await;
    browser.click("dialog [type=submit]").await;
    browser.until(&format!("!{HELD}")).await;

    let all = grants(&service).await;
    assert_eq!(all[0]["arguments"]["file_path"], "a.md");
    assert_eq!(all[0]["uses_left"], json!(null));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-25, OP-55: many are decided together; one that another decided first is named.
#[tokio::test]
async fn several_calls_are_decided_together() {
    let service = asking().await;
    held(&service, &["a.md", "b.md", "c.md"]).await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/approvals").await;
    browser.until("document.querySelectorAll('.picker').length === 3").await;
    browser.click("[data-act=choose]").await;
    browser.until("document.querySelectorAll('.picker input:checked').length === 3").await;
    browser.click(".pickable:first-child .picker input").await;
    browser
        .until("document.querySelector('[data-act=approve-all]')?.textContent === 'Approve 2 once'")
        .await;
    browser.click("[data-act=approve-all]").await;
    browser
        .until("document.querySelectorAll('hw-approval [data-status=pending]').length === 1")
        .await;
    until_told(&browser, "2 calls decided.").await;
    press(&browser, "Deny").await;
    browser.keys("dialog [name=note]", "not this one").await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('#view .empty')?.textContent.includes('Nothing waits')")
        .await;

    let (_, all) = service.api("GET", "/api/v1/approvals", None).await;
    let statuses: Vec<&str> =
        all["data"].as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(statuses.iter().filter(|one| **one == "approved").count(), 2);
    assert_eq!(statuses.iter().filter(|one| **one == "denied").count(), 1);
    assert!(service.path("run/teams/main/c.md").exists());
    assert!(!service.path("run/teams/main/a.md").exists());
    has_no_complaints(&browser).await;
    browser.close().await;
}
