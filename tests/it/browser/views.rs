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

/// OP-72: of a long list only what is near the window is drawn. The rest has its room, and what has the focus stays.
#[tokio::test]
async fn of_ten_thousand_rows_those_near_the_window_are_drawn() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let list = "import('/ui/parts/table.js').then(({table}) => { \
        const cell = (row) => Object.assign(document.createElement('button'), {id: `row-${row}`, textContent: row}); \
        const rows = Array.from({length: 10000}, (_, at) => at); \
        document.querySelector('#view').replaceChildren(table('Numbers', [{name: 'Number', cell}], rows)); \
        done(document.querySelector('hw-rows table').getAttribute('aria-rowcount')); })";
    let few = "document.querySelectorAll('hw-rows tbody tr').length < 200";
    let seen = |row: usize| {
        let place = format!("document.querySelector('#row-{row}')?.getBoundingClientRect()");
        format!("(({{top, bottom}}) => top >= 0 && bottom <= innerHeight)({place} ?? {{}})")
    };

    for (width, height) in [(1280, 800), (375, 812)] {
        browser.resize(width, height).await;
        assert_eq!(browser.wait_for(list).await, json!("10001"));
        browser.until(few).await;
        browser.run("document.querySelector('#row-5').focus()").await;
        browser.run("document.querySelector('hw-rows').scrollIntoView({block: 'end'})").await;
        browser.until(&seen(9_999)).await;
        browser.until(few).await;
        assert_eq!(browser.value("document.activeElement.id").await, json!("row-5"));
        browser.run("document.querySelector('hw-rows').scrollIntoView({block: 'start'})").await;
        browser.until(&seen(5)).await;
        browser.until(few).await;
    }

    has_no_complaints(&browser).await;
    browser.close().await;
}
