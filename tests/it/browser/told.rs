//! Told when it matters: notifications of the browser, and a page that can be installed.

use serde_json::json;

use super::{asking, chat, has_no_complaints, send, until_told, write};

/// A browser that nobody looks at, and what it would show of its own.
const ELSEWHERE: &str = "window.shown = []; document.hasFocus = () => false; \
    window.Notification = class { static permission = 'default'; \
        static requestPermission() { this.permission = 'granted'; window.asked = true; } \
        constructor(title) { window.shown.push(title); } }";

/// OP-55: asked for once, at the first thing that waits; from then on approvals are told to whoever looks elsewhere.
#[tokio::test]
async fn whoever_looks_elsewhere_is_told_of_approvals() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.run(ELSEWHERE).await;
    browser.resize(375, 812).await;

    send(&browser, &write("a.md")).await;
    until_told(&browser, "while you look elsewhere?").await;
    // On a phone it takes room of its own.
    let below = "document.querySelector('.toast').getBoundingClientRect().top \
                 >= document.querySelector('#composer').getBoundingClientRect().bottom";
    browser.until(below).await;
    browser.click_on("[...document.querySelectorAll('.toast button.link')].at(-1)").await;
    browser.until("window.asked").await;
    send(&browser, &write("b.md")).await;
    browser.click("[data-act=approve]").await;
    browser.until("window.shown.some(title => title.startsWith('Your approval is needed'))").await;

    let manifest = "fetch(document.querySelector('link[rel=manifest]').href) \
                    .then(answer => answer.json()).then(({name, display}) => done([name, display]))";
    assert_eq!(browser.wait_for(manifest).await, json!(["Hivewright", "standalone"]));
    has_no_complaints(&browser).await;
    browser.close().await;
}
