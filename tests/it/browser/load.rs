//! How the page is loaded: from this host alone, small, and soon of use.

use super::{chat, go, has_no_complaints};
use crate::service::Service;

/// OP-64: at most this much crosses the wire before the first view is of use.
const MOST: u64 = 300 * 1000;

const LOADED: &str = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')] \
    .map(entry => ({ name: entry.name, size: entry.transferSize }))";

/// OP-64
#[tokio::test]
async fn the_page_is_small_and_asks_nobody_else() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    let first = browser.value(LOADED).await;
    let bytes: u64 = first
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["size"].as_u64())
        .sum();
    let ready = browser
        .value("performance.getEntriesByName('interactive')[0]?.startTime")
        .await;
    println!("{bytes} bytes, of use after {ready} ms");
    for hash in [
        "#/tasks",
        "#/approvals",
        "#/org",
        "#/team/main",
        "#/triggers",
        "#/memory",
        "#/vault",
        "#/settings",
    ] {
        go(&browser, hash).await;
        browser
            .until("document.querySelector('#view h1, #view .empty')")
            .await;
    }
    let all = browser.value(LOADED).await;

    assert!(bytes > 0 && bytes <= MOST, "{bytes} bytes");
    assert!(ready.is_number(), "the page never said that it is of use");
    for entry in all.as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        assert!(name.starts_with(&service.url()), "{name}");
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}
