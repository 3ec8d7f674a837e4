//! Everything without a mouse.

use super::{
    ONLINE, TURNS, asking, chat, furnished, has_no_complaints, send, until_last_turn_is, write,
};
use crate::{
    service::Service,
    webdriver::{Browser, key},
};

/// Goes forward with Tab until an element of this kind has the focus.
async fn tab_to(browser: &Browser, selector: &str) {
    let arrived = format!("document.activeElement?.matches({})", serde_json::json!(selector));
    for _ in 0..80 {
        if browser.value(&arrived).await == true {
            return;
        }
        browser.press(&[key::TAB]).await;
        let seen = "(() => { const at = document.activeElement; if (!at || at === document.body) return true; \
                    const box = at.getBoundingClientRect(); return box.width > 0 && box.height > 0; })()";
        assert_eq!(browser.value(seen).await, true, "the focus is nowhere to be seen");
    }
    panic!("{selector} cannot be reached with Tab");
}

async fn go_by_palette(browser: &Browser, word: &str, there: &str) {
    browser.press(&[key::CONTROL, "k"]).await;
    browser.until("document.activeElement?.closest('dialog.palette')").await;
    browser.write(word).await;
    browser.press(&[key::ENTER]).await;
    browser
        .until(&format!(
            "document.querySelector('#view').querySelector({})",
            serde_json::json!(there)
        ))
        .await;
}

/// OP-68, OP-129
#[tokio::test]
async fn the_palette_opens_every_view_and_gives_the_focus_back() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    for (word, there) in [
        ("tasks", "hw-tasks .task-card"),
        ("appr", "hw-approvals"),
        ("teams", "hw-org .node"),
        ("trig", "hw-triggers"),
        ("memo", "hw-memory"),
        ("vau", "hw-vault"),
        ("hist", "hw-history"),
        ("sear", "hw-search"),
        ("usa", "hw-usage"),
        ("logs", "hw-logs"),
        ("sett", "hw-settings"),
        ("research", "hw-team .figure"),
        ("chat", "#composer"),
    ] {
        go_by_palette(&browser, word, there).await;
    }
    browser.run("document.querySelector('#composer').focus()").await;
    browser.press(&[key::CONTROL, "k"]).await;
    browser.until("document.querySelector('dialog.palette')").await;
    browser.press(&[key::ESCAPE]).await;

    browser
        .until("!document.querySelector('dialog') && document.activeElement.id === 'composer'")
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-68, OP-129: write, send, approve, look at the team: with keys only.
#[tokio::test]
async fn a_call_is_sent_and_approved_with_keys_only() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.until(ONLINE).await;

    tab_to(&browser, "#composer").await;
    let message = write("a.txt");
    let mut lines = message.lines();
    browser.write(lines.next().unwrap()).await;
    for line in lines {
        browser.press(&[key::SHIFT, key::ENTER]).await;
        browser.write(line).await;
    }
    browser.press(&[key::CONTROL, key::ENTER]).await;
    browser.until("document.querySelector('[data-act=approve]')").await;
    browser.run("document.querySelector('#scroll').focus()").await;
    tab_to(&browser, "[data-act=approve]").await;
    browser.press(&[key::ENTER]).await;
    browser.until(&format!("{TURNS}.at(-1)?.dataset.status === 'done'")).await;

    assert!(service.path("run/teams/main/a.txt").exists());
    go_by_palette(&browser, "teams", "hw-org .node").await;
    browser.run("document.querySelector('#view').focus()").await;
    tab_to(&browser, ".node-cell").await;
    browser.press(&[key::ENTER]).await;
    browser.until("document.querySelector('.team-panel h2')?.textContent === 'main'").await;
    tab_to(&browser, ".team-panel a.primary").await;
    browser.press(&[key::ENTER]).await;
    browser.until("document.querySelector('hw-team h1')?.textContent === 'main'").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-68: what has the focus may go away; whoever had it goes on where they write.
#[tokio::test]
async fn the_focus_outlives_what_had_it() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Hello.").await;
    until_last_turn_is(&browser, "done").await;

    for button in ["#archive-topic", "#unblock"] {
        browser.until(&format!("!document.querySelector('{button}').hidden")).await;
        browser.run(&format!("document.querySelector('{button}').focus()")).await;
        browser.press(&[key::ENTER]).await;
        browser.until(&format!("document.querySelector('{button}').hidden")).await;
        browser.until("document.activeElement.id === 'composer'").await;
    }

    has_no_complaints(&browser).await;
    browser.close().await;
}
