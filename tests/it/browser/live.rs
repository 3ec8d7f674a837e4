//! What happens elsewhere, as it happens.

use serde_json::json;

use super::{ONLINE, asking, chat, go, has_no_complaints, send, until_last_turn_is, write};
use crate::service::Service;

/// OP-66: views follow without a reload.
#[tokio::test]
async fn what_others_do_is_seen_at_once() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    let trigger = json!({
        "team": "main", "name": "weekly", "type": "schedule", "config": {"cron": "0 9 * * 1"},
        "task": "Sum up the week", "enable": true,
    });
    let memory =
        json!({"team": "main", "key": "tone", "content": "Short letters.", "type": "context"});
    let secret = json!({"value": "a-value-nobody-sees", "secret": true});

    for (hash, method, path, body, seen) in [
        (
            "#/org",
            "POST",
            "/api/v1/teams",
            team,
            "[aria-label^='research:']",
        ),
        (
            "#/triggers",
            "POST",
            "/api/v1/triggers",
            trigger,
            ".rows tbody tr",
        ),
        (
            "#/memory?team=main",
            "POST",
            "/api/v1/memories",
            memory,
            ".rows tbody tr",
        ),
        (
            "#/vault",
            "PUT",
            "/api/v1/vault/system/smtp-password",
            secret,
            ".rows tbody tr",
        ),
    ] {
        go(&browser, hash).await;
        browser
            .until("document.querySelector('#view .empty')")
            .await;
        let (status, answer) = service.api(method, path, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        browser
            .until(&format!(
                "document.querySelector('#view').querySelector({})",
                json!(seen)
            ))
            .await;
    }
    go(&browser, "#/approvals").await;
    browser
        .until("document.querySelector('#view .empty')")
        .await;
    let mut client = service.connect().await;
    client.say("held", &write("a.md")).await;
    browser
        .until(
            "document.querySelector('[data-act=approve]') && \
             document.querySelector(\".nav a[href='#/approvals'] .badge\")",
        )
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51, OP-67: what was thought is there, folded, also after a reload.
#[tokio::test]
async fn thinking_is_folded_away() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let thought = "document.querySelector('.turn .thinking:not([open])')?.textContent.includes('Perhaps it is a riddle.')";

    send(
        &browser,
        "#think Perhaps it is a riddle.\n#say Hm.\n#reply Yes.",
    )
    .await;
    until_last_turn_is(&browser, "done").await;
    browser.until(thought).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until(thought).await;

    has_no_complaints(&browser).await;
    browser.close().await;
}
