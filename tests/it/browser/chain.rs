//! What led to what: the messages, tasks, results and notifications of one cause, walked through in the order of time.

use serde_json::{Value, json};

use super::{
    access::has_no_findings, chat, data, go, has_no_complaints, order, press, send,
    until_last_turn_is, until_shown,
};
use crate::{
    service::{Service, http},
    triggers::hmac,
    webdriver::{Browser, key},
};

/// A secret is long.
const SECRET: &str = "a-secret-of-more-than-24-bytes";

/// What each box says it is, in the order of the page, and the one that one stands at.
async fn boxes(browser: &Browser) -> (Value, Value) {
    let names = "[...document.querySelectorAll('.cause .cause-name')].map(one => one.textContent)";
    let now = "document.querySelector('.cause[data-now] .cause-name')?.textContent";
    (browser.value(names).await, browser.value(now).await)
}

/// Waits until one stands at the box that says this.
async fn until_at(browser: &Browser, name: &str) {
    let now = "document.querySelector('.cause[data-now] .cause-name')?.textContent";
    browser.until(&format!("{now} === {}", json!(name))).await;
}

/// OP-127, OP-69, OP-70: from a message to all that came of it, by keyboard, drawn and as a list, on a phone too.
#[tokio::test]
async fn what_led_to_what_is_walked_through_in_the_order_of_time() {
    let service = Service::start().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "delegate research: #reply three books").await;
    until_last_turn_is(&browser, "done").await;
    browser.until("document.querySelector('.notice')").await;

    browser.click_on("[...document.querySelectorAll('.foot a')].find(one => one.textContent === 'What led to this')").await;
    browser.until("document.querySelectorAll('.cause').length === 6").await;
    let (names, now) = boxes(&browser).await;
    assert_eq!(names[0], "Message of operator");
    assert_eq!((&names[1], &now), (&json!("Task of main"), &json!("Task of main")));
    // The turn that gave the work away may end after that work.
    let last = names[5].as_str().unwrap();
    assert!(["Notification", "Result of main"].contains(&last), "{names}");
    let lanes = browser
        .value("[...document.querySelectorAll('.lane-name')].map(one => one.textContent)")
        .await;
    assert_eq!(lanes, json!(["Outside", "main", "research"]));
    has_no_findings(&browser).await;

    // What is later than the place one stands at has not happened there yet.
    let later = "document.querySelectorAll('.cause[data-later]').length";
    assert_eq!(browser.value(later).await, 4);
    browser.run("document.querySelector('.cause[data-now]').focus()").await;
    browser.press(&[key::DOWN]).await;
    until_at(&browser, "Task of research").await;
    browser.until(&format!("{later} === 3")).await;
    browser.press(&[key::END]).await;
    until_at(&browser, last).await;
    if last != "Notification" {
        browser.press(&[key::UP]).await;
    }
    until_at(&browser, "Notification").await;
    browser.until("location.hash.includes('at=')").await;
    let led = browser
        .value("[...document.querySelectorAll('.cause[data-led] .cause-name')].map(one => one.textContent)")
        .await;
    assert_eq!(
        led,
        json!([
            "Message of operator",
            "Task of main",
            "Task of research",
            "Result of research",
            "Notification"
        ])
    );
    browser.press(&[key::HOME]).await;
    until_at(&browser, "Message of operator").await;
    press(&browser, "Later").await;
    press(&browser, "Later").await;
    until_at(&browser, "Task of research").await;
    // The place is part of the address.
    browser.reload().await;
    until_at(&browser, "Task of research").await;
    until_shown(&browser, "three books").await;

    press(&browser, "List").await;
    browser.until("document.querySelectorAll('.cause-list li').length === 6").await;
    browser.resize(375, 780).await;
    browser.until("innerWidth === 375 && !document.querySelector('.segments')").await;
    has_no_findings(&browser).await;
    browser.run("document.querySelector('.cause-list [data-now]').focus()").await;
    browser.press(&[key::ENTER]).await;
    browser
        .until("document.querySelector('hw-task h1')?.textContent === '#reply three books'")
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-127: what comes from outside says so in the chain, and an item of a transcript leads there.
#[tokio::test]
async fn a_chain_says_what_is_not_to_be_believed() {
    let service = Service::start().await;
    order(&service, "PUT", "/api/v1/vault/team:main/HOOK", json!({"value": SECRET})).await;
    let trigger = json!({
        "team": "main", "name": "push", "type": "webhook", "task": "#reply looked at it", "enable": true,
        "config": {"secret": "${vault:HOOK}", "scheme": "github"}, "allow_untrusted": true,
    });
    order(&service, "POST", "/api/v1/triggers", trigger).await;
    let called = http()
        .post(format!("{}/hooks/main/push", service.url()))
        .header("content-type", "application/json")
        .header("x-hub-signature-256", format!("sha256={}", hmac(SECRET.as_bytes(), b"{}")))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert!(called.status().is_success(), "{called:?}");
    let tasks =
        service.until("/api/v1/tasks?type=trigger", |tasks| tasks[0]["outcome"].is_object()).await;
    let task = data(&service, &format!("/api/v1/tasks/{}", tasks[0]["id"].as_str().unwrap())).await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    let session = task["session_id"].as_str().unwrap().replace(':', "%3A");
    go(&browser, &format!("#/history/{session}")).await;
    browser.click_on("[...document.querySelectorAll('.moment a')].find(one => one.textContent === 'What led to this')").await;
    browser.until("document.querySelectorAll('.cause').length >= 3").await;
    let (names, _) = boxes(&browser).await;
    assert_eq!((&names[0], &names[1]), (&json!("trigger push"), &json!("Task of main")));
    until_shown(&browser, "! untrusted").await;
    browser.until("document.querySelector('.cause-now')?.textContent.includes('Untrusted')").await;
    browser.click(".cause").await;
    browser
        .until(
            "location.hash === '#/triggers?team=main' && document.querySelector('.rows tbody tr')",
        )
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
