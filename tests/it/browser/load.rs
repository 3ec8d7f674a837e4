//! How the page is loaded: from this host alone, small, and of use before the rest is there. How long that
//! takes is a figure of the benches.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{chat, go, has_no_complaints};
use crate::{service::Service, webdriver::Browser};

/// OP-64: at most this much crosses the wire before the first view is of use.
const MOST_BYTES: u64 = 200 * 1000;
/// OP-64: in no more answers than this, each counted once.
const MOST_ANSWERS: usize = 70;

/// The page sets it when its composer takes text and its connection is open.
const USABLE: &str = "performance.getEntriesByName('usable')[0]?.startTime";
const LOADED: &str = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')] \
    .map(entry => entry.name)";

/// A first visit: the browser knows nothing of the page.
async fn cold_visit(service: &Service, browser: &Browser) {
    browser.open(&service.login_link().await).await;
    browser.until(USABLE).await;
}

/// What has come in from the service, heads included, and how much each answer is.
fn received(service: &Service, trace: &[(String, Value)]) -> Vec<(u64, String)> {
    let of = |wanted: &'static str| {
        let events = trace.iter();
        events.filter_map(move |(event, told)| (event == wanted).then_some(told))
    };
    let mut asked = HashMap::new();
    for told in of("Network.requestWillBeSent") {
        asked.insert(told["requestId"].as_str(), told["request"]["url"].as_str().unwrap());
    }
    let mut answers: Vec<(u64, String)> = of("Network.loadingFinished")
        .filter_map(|told| {
            let address = asked.get(&told["requestId"].as_str())?;
            let bytes = told["encodedDataLength"].as_f64().unwrap();
            let path = address.strip_prefix(&service.url())?;
            Some((bytes as u64, path.to_owned()))
        })
        .collect();
    answers.sort_by(|one, other| other.cmp(one));
    answers
}

/// OP-64
#[tokio::test]
async fn a_first_visit_is_small() {
    let service = Service::start().await;
    let Some(browser) = Browser::start_with(&[], true).await else {
        return;
    };

    cold_visit(&service, &browser).await;

    let answers = received(&service, &browser.trace().await);
    let bytes: u64 = answers.iter().map(|(bytes, _)| bytes).sum();
    // A browser may ask for the icon of its tab again and again.
    let paths: BTreeSet<&String> = answers.iter().map(|(_, path)| path).collect();
    println!("{bytes} bytes in {} answers", paths.len());
    assert!((20..MOST_ANSWERS).contains(&paths.len()), "{answers:?}");
    assert!(bytes < MOST_BYTES, "{bytes} bytes: {answers:?}");
    browser.close().await;
}

/// OP-64: whatever the machine does besides, one can write before the other views are loaded, and no script
/// is found out only by running another: each one costs a round trip less.
#[tokio::test]
async fn a_first_visit_is_of_use_before_the_rest_is_loaded() {
    let service = Service::start().await;
    let Some(browser) = Browser::start().await else {
        return;
    };

    cold_visit(&service, &browser).await;

    let scripts = "performance.getEntriesByType('resource').filter(entry => entry.name.endsWith('.js')) \
        .map(entry => [entry.name, entry.startTime])";
    let scripts = browser.value(scripts).await;
    let named = "[...document.querySelectorAll('link[rel=modulepreload], script[src]')].map(one => one.href || one.src)";
    let named = browser.value(named).await;
    let usable = browser.value(USABLE).await.as_f64().unwrap();
    let before: Vec<&Value> = scripts
        .as_array()
        .unwrap()
        .iter()
        .filter(|script| script[1].as_f64().unwrap() < usable)
        .map(|script| &script[0])
        .collect();
    assert!(before.len() > 20, "{before:?}");
    for script in before {
        let path = script.as_str().unwrap();
        let is_view = path.contains("/views/") && !path.contains("/views/chat/");
        assert!(!is_view, "{path} is loaded before the page is of use");
        assert!(
            named.as_array().unwrap().contains(script),
            "{path} is not named in the page, and found out late"
        );
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-64: a second visit asks for the page alone; its files are of the same version.
#[tokio::test]
async fn a_second_visit_loads_no_file_again() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.until(USABLE).await;
    browser.open(&service.url()).await;
    browser.until(USABLE).await;

    let again = "performance.getEntriesByType('resource') \
        .filter(entry => entry.name.includes('/ui/') && entry.transferSize > 0).map(entry => entry.name)";
    assert_eq!(browser.value(again).await, serde_json::json!([]));
    browser.close().await;
}

/// OP-64
#[tokio::test]
async fn the_page_asks_nobody_else() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    for hash in [
        "#/tasks",
        "#/approvals",
        "#/org",
        "#/team/main",
        "#/triggers",
        "#/memory",
        "#/vault",
        "#/history",
        "#/usage",
        "#/logs",
        "#/settings",
    ] {
        go(&browser, hash).await;
        browser.until("document.querySelector('#view h1, #view .empty')").await;
    }

    for entry in browser.value(LOADED).await.as_array().unwrap() {
        let name = entry.as_str().unwrap();
        assert!(name.starts_with(&service.url()), "{name}");
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}
