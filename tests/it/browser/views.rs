//! Every view, with something to show and without.

use serde_json::json;

use super::{chat, furnished, go, has_no_complaints};
use crate::{service::Service, webdriver::Browser};

/// A view, and what is there once it shows its data.
pub(super) const VIEWS: [(&str, &str); 21] = [
    ("#/chat", "#composer"),
    ("#/tasks", ".task-card"),
    ("#/tasks?as=table", ".rows tbody tr"),
    ("#/approvals", "hw-approval [data-status=pending]"),
    ("#/approvals/questions", "hw-question [data-status=open]"),
    ("#/approvals/memories", ".empty"),
    ("#/approvals/notices", ".notice-row, .empty"),
    ("#/org", ".node + .node"),
    ("#/org?as=list", ".org-list li + li"),
    ("#/team/research", ".figure"),
    ("#/triggers", ".rows tbody tr"),
    ("#/memory", ".rows tbody tr"),
    ("#/vault", ".rows tbody tr"),
    ("#/vault/audit", ".rows tbody tr"),
    ("#/settings", ".facts"),
    ("#/settings/tokens", ".rows tbody tr"),
    ("#/settings/trust", ".empty, .rows"),
    ("#/settings/identities", ".empty"),
    ("#/settings/policy", ".rows tbody tr"),
    ("#/settings/backups", ".panel"),
    ("#/nowhere", "#composer"),
];

/// The same for views that have something to show in every service.
pub(super) const ALWAYS: [(&str, &str); 7] = [
    ("#/search", ".empty"),
    ("#/search?q=reply", ".hits li, .empty"),
    ("#/history", ".session-list li"),
    ("#/usage", ".chart, .empty"),
    ("#/logs", ".log li"),
    ("#/settings/config", ".rows tbody tr, .empty"),
    ("#/settings/doctor", ".checks li"),
];

pub(super) async fn shows(browser: &Browser, hash: &str, what: &str) {
    go(browser, hash).await;
    browser.until(&format!("document.querySelector('#view').querySelector({})", json!(what))).await;
}

/// OP-51 to OP-63, OP-97
#[tokio::test]
async fn every_view_opens_with_data() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    for (hash, what) in VIEWS {
        shows(&browser, hash, what).await;
        let refused =
            browser.value("document.querySelectorAll('#view > * > .failure').length").await;
        assert_eq!(refused, 0, "{hash}");
    }
    for (hash, what) in ALWAYS {
        shows(&browser, hash, what).await;
    }

    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-71: what will appear, and the one next step.
#[tokio::test]
async fn every_view_opens_empty() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    for (hash, words) in [
        ("#/tasks", "No tasks yet"),
        ("#/approvals", "Nothing waits for you"),
        ("#/approvals/questions", "No open question"),
        ("#/approvals/memories", "No memory to review"),
        ("#/approvals/notices", "No notices"),
        ("#/org", "Only the main team so far"),
        ("#/triggers", "No triggers yet"),
        ("#/memory", "Nothing remembered yet"),
        ("#/vault", "The vault is empty"),
        ("#/settings/identities", "Nobody is linked"),
        ("#/settings/trust", "No senders added"),
        ("#/settings/policy", "No policies of your own"),
    ] {
        go(&browser, hash).await;
        let shown = format!(
            "document.querySelector('#view .empty')?.textContent.includes({})",
            json!(words)
        );
        browser.until(&shown).await;
    }

    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-71: code, request id, and a way to try again.
#[tokio::test]
async fn a_refusal_says_what_is_wrong_and_can_be_tried_again() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/tasks/task-0000000000000000").await;
    browser.until("document.querySelector('.failure')").await;

    let words = browser.text(".failure").await;
    assert!(words.contains("not_found · 404"), "{words}");
    assert!(words.contains("request req-"), "{words}");
    assert!(words.contains("Try again"), "{words}");
    browser.close().await;
}
