//! The log: held, narrowed and taken along.

use serde_json::json;

use super::{asking, chat, has_no_complaints, order, press, until_shown, views::shows};

const SAID: &str = "the settings were read again";

/// OP-62
#[tokio::test]
async fn the_log_is_held_narrowed_and_downloaded() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let shown = format!("document.querySelector('.log')?.textContent.includes({})", json!(SAID));
    shows(&browser, "#/logs", ".log li").await;
    // Hears the same as the page.
    browser
        .run(
            "window.heard = ''; window.ear = new EventSource('/api/v1/events?types=log'); \
              window.ear.addEventListener('log', event => { window.heard += event.data; })",
        )
        .await;
    browser.until("window.ear.readyState === EventSource.OPEN").await;

    press(&browser, "Pause").await;
    browser.until("document.querySelector('[aria-pressed=true]')?.textContent === 'Resume'").await;
    order(&service, "POST", "/api/v1/config/reload", json!({})).await;
    browser.until(&format!("window.heard.includes({})", json!(SAID))).await;
    assert_eq!(browser.value(&shown).await, false);
    press(&browser, "Resume").await;
    browser.until(&shown).await;

    browser
        .run(
            "const make = URL.createObjectURL.bind(URL); URL.createObjectURL = blob => { \
              blob.text().then(text => { window.saved = text; }); return make(blob); }",
        )
        .await;
    press(&browser, "Download").await;
    browser.until(&format!("window.saved?.includes({})", json!(SAID))).await;
    browser.choose("[aria-label=Level]", "error").await;
    browser.until("!document.querySelector('.log li:not([data-level=error])')").await;
    browser.choose("[aria-label=Level]", "info").await;
    browser.fill("#view .search", "settings were read").await;
    browser
        .until(
            "(lines => lines.length && lines.every(line => line.textContent.includes('settings were read'))) \
             ([...document.querySelectorAll('.log li')])",
        )
        .await;
    browser.fill("#view .search", "nobody says this").await;
    until_shown(&browser, "Nothing matches these filters").await;
    press(&browser, "Show all").await;
    browser.until(&shown).await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
