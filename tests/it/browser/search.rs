//! Search in all history: words typed, the hit followed, the place seen.

use super::{
    chat, go, has_no_complaints, key, send, until_last_turn_is, until_shown, views::shows,
};
use crate::service::Service;

#[tokio::test]
async fn what_was_said_is_searched_for_and_seen_in_its_place() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    for _ in 0..3 {
        client.ask("#call bash {\"command\": \"echo quagga\"}\n#reply seen").await;
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply The okapi is here.").await;
    until_last_turn_is(&browser, "done").await;

    // By the palette to the answer, and on to its task.
    browser.press(&[key::CONTROL, "k"]).await;
    browser.until("document.querySelector('dialog.palette input')").await;
    browser.write("okapi here").await;
    let offered = "document.querySelector('dialog.palette').textContent.includes('Search everything for “okapi here”')";
    browser.until(offered).await;
    browser.press(&[key::ENTER]).await;
    browser.until("document.querySelector('hw-search .hits mark')").await;
    let marked = browser
        .value("[...document.querySelectorAll('.hits mark')].map(one => one.textContent)")
        .await;
    assert_eq!(marked, serde_json::json!(["okapi", "here"]));
    browser.click(".hits a").await;
    browser.until("location.hash.startsWith('#/tasks/task-')").await;
    until_shown(&browser, "The okapi is here.").await;

    // By the view to a step, with keys, and on to its place in the transcript.
    shows(&browser, "#/search", ".empty").await;
    browser.fill("hw-search .search", "quokka").await;
    until_shown(&browser, "Nothing found").await;
    browser.fill("hw-search .search", "quagga").await;
    browser
        .until("document.querySelector('.hits a[data-part=call], .hits a[data-part=result]')")
        .await;
    browser.run("document.querySelector('hw-search .search').focus()").await;
    browser.press(&[key::DOWN]).await;
    browser.until("document.activeElement.matches('.hits li:first-child a')").await;
    browser
        .run("document.querySelector('.hits a[data-part=call], .hits a[data-part=result]').focus()")
        .await;
    browser.press(&[key::ENTER]).await;
    browser
        .until("document.querySelector('hw-history .moment[data-found]')?.textContent.includes('quagga')")
        .await;

    // Words that are none are no error.
    go(&browser, "#/search?q=%22").await;
    browser.until("document.querySelector('hw-search .empty')").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
