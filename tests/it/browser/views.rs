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
pub(super) const ALWAYS: [(&str, &str); 5] = [
    ("#/history", ".session-list li"),
    ("#/usage", ".chart, .empty"),
    ("#/logs", ".log li"),
    ("#/settings/config", ".rows tbody tr, .empty"),
    ("#/settings/doctor", ".checks li"),
];

pub(super) async fn shows(browser: &Browser, hash: &str, what: &str) {
    go(browser, hash).await;
    browser
        .until(&format!(
            "document.querySelector('#view').querySelector({})",
            json!(what)
        ))
        .await;
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
        let refused = browser
            .value("document.querySelectorAll('#view > * > .failure').length")
            .await;
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
        ("#/settings/trust", "No grants"),
        ("#/settings/policy", "No rules of your own"),
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

/// OP-58: what is written into the vault comes back nowhere.
#[tokio::test]
async fn a_secret_can_be_written_but_never_read() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let secret = "correct-horse-battery-staple";

    go(&browser, "#/vault").await;
    browser
        .until("document.querySelector('#view .empty')")
        .await;
    browser.click("#view .page-head .primary").await;
    browser.keys("dialog [name=key]", "smtp-password").await;
    browser.keys("dialog [name=value]", secret).await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('.rows')?.textContent.includes('smtp-password')")
        .await;

    let everywhere = "document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) \
                      + [...document.querySelectorAll('input')].map(field => field.value) + location.href";
    let everywhere = browser.value(everywhere).await;
    assert!(!everywhere.as_str().unwrap().contains(secret));
    let (status, row) = service
        .api("GET", "/api/v1/vault/system/smtp-password", None)
        .await;
    assert_eq!((status, &row["data"]["secret"]), (200, &json!(true)));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-56: the next times are there before the trigger is.
#[tokio::test]
async fn a_trigger_is_made_by_a_form_that_shows_its_times() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/triggers?new=1").await;
    browser
        .until("document.querySelector('dialog [name=name]')")
        .await;
    browser.keys("dialog [name=name]", "weekly-report").await;
    browser.keys("dialog [name=task]", "Sum up the week").await;
    browser
        .keys("dialog [name='config.cron']", "not a pattern")
        .await;
    browser
        .until("document.querySelector('.preview')?.dataset.bad === 'true'")
        .await;
    browser
        .run("document.querySelector(\"dialog [name='config.cron']\").value = ''")
        .await;
    browser
        .keys("dialog [name='config.cron']", "0 9 * * 1")
        .await;
    browser
        .until("document.querySelectorAll('.preview .times li').length === 10")
        .await;
    // What could not be read so far was refused, as it should be.
    browser.complaints().await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('#view h1')?.textContent === 'weekly-report'")
        .await;

    let (_, list) = service.api("GET", "/api/v1/triggers", None).await;
    assert_eq!(list["data"][0]["config"], json!({"cron": "0 9 * * 1"}));
    assert_eq!(list["data"][0]["state"], "active");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-57: a correction is a new version, and the old one can be brought back.
#[tokio::test]
async fn a_memory_is_corrected_and_brought_back() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/memory").await;
    browser
        .until("document.querySelector('.rows')?.textContent.includes('tone')")
        .await;
    browser
        .run("[...document.querySelectorAll('.rows a')].find(link => link.textContent === 'tone').click()")
        .await;
    browser.until("document.querySelector('.versions')").await;
    browser
        .run("[...document.querySelectorAll('.actions button')].find(one => one.textContent === 'Edit…').click()")
        .await;
    browser
        .run("document.querySelector('dialog [name=content]').value = 'Long letters.'")
        .await;
    browser.keys("dialog [name=reason]", "asked for").await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('.versions .added')?.textContent.includes('Long letters.')")
        .await;
    browser
        .run("[...document.querySelectorAll('.versions button')].find(one => one.textContent === 'Bring back').click()")
        .await;
    browser
        .until("document.querySelectorAll('.versions > li').length === 3")
        .await;

    let (_, list) = service
        .api("GET", "/api/v1/memories?key=tone&active=true", None)
        .await;
    assert_eq!(list["data"][0]["version"], 3);
    has_no_complaints(&browser).await;
    browser.close().await;
}
