//! What every view shows while data is on its way, when it does not come, and under a finger.

use serde_json::{Value, json};

use super::{
    chat, data, furnished, go, order, send, until_last_turn_is, until_told,
    views::{ALWAYS, VIEWS, shows},
};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

/// Everything that is read from the API is answered so from now on; scripts come.
const REFUSES: &str = "window.answered ??= window.fetch; window.fetch = async (address, how) => \
    String(address).includes('/ui/') ? window.answered(address, how) : new Response( \
    JSON.stringify({error: {code: 'internal', message: 'It broke.', request_id: 'req-tested'}}), \
    {status: 500, headers: {'Content-Type': 'application/json'}})";
const SILENT: &str = "window.answered ??= window.fetch; window.fetch = (address, how) => \
    String(address).includes('/ui/') ? window.answered(address, how) : new Promise(() => {})";
const ANSWERS: &str = "window.fetch = window.answered";

/// Those that show what they fetched, once each.
fn fetched() -> impl Iterator<Item = (&'static str, &'static str)> {
    VIEWS
        .into_iter()
        .chain(ALWAYS)
        // The chat has words of its own for a connection that is not there, and backups are told by events.
        // A search for nothing asks for nothing.
        .filter(|(hash, _)| {
            !["#/chat", "#/nowhere", "#/search", "#/settings/backups"].contains(hash)
        })
}

/// OP-71: that it is on its way, then why it does not come, with a way to try again.
#[tokio::test]
async fn every_view_says_that_it_loads_and_why_it_failed() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    for (hash, what) in fetched() {
        go(&browser, "#/chat").await;
        browser.until("document.querySelector('#composer')").await;
        browser.run(SILENT).await;
        go(&browser, hash).await;
        browser
            .until("document.querySelector('#view .loading')?.textContent.includes('Loading')")
            .await;
        go(&browser, "#/chat").await;
        browser.until("document.querySelector('#composer')").await;
        browser.run(REFUSES).await;
        go(&browser, hash).await;
        browser.until("document.querySelector('#view .failure')").await;
        let words = browser.text("#view .failure").await;
        for part in ["It broke.", "internal · 500", "request req-tested", "Try again"] {
            assert!(words.contains(part), "{hash}: {words}");
        }
        browser.run(ANSWERS).await;
        browser.run("document.querySelector('#view .failure button').click()").await;
        shows(&browser, hash, what).await;
        browser.until("!document.querySelector('#view .failure')").await;
    }
    browser.close().await;
}

/// OP-71: the same while the script of a view is on its way, and when it does not come.
#[tokio::test]
async fn a_view_whose_script_does_not_come_says_so_too() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let has = |state: &str| {
        format!("getComputedStyle(document.querySelector('#view {state}')).display === 'flex'")
    };
    let opened = "document.querySelector('#view hw-tasks')";

    browser.run("window.answered = window.fetch; window.fetch = () => new Promise(() => {})").await;
    go(&browser, "#/triggers").await;
    browser.until(&has(".loading")).await;
    browser.run("window.fetch = () => Promise.reject(new TypeError('gone'))").await;
    go(&browser, "#/tasks").await;
    browser.until(&has(".failure")).await;
    browser.run(ANSWERS).await;
    browser.run("document.querySelector('#view .failure button').click()").await;

    browser.until(opened).await;
    browser.until("!document.querySelector('#view .failure')").await;
    browser.close().await;
}

/// What can be pressed and is smaller than a finger, except where it stands in a line of text.
const SMALL: &str = "[...document.querySelectorAll('#app button, #app a[href], #app select, #app input, #app summary, #app textarea')] \
    .filter(one => one.offsetParent && !one.closest('.markdown') && getComputedStyle(one).display !== 'inline') \
    .map(one => [one, (one.closest('label') ?? one).getBoundingClientRect()]) \
    .filter(([, box]) => box.width && (box.height < 43.5 || box.width < 43.5)) \
    .map(([one, box]) => `${one.localName}.${one.className} ${(one.ariaLabel ?? one.textContent).trim().slice(0, 24)} ${Math.round(box.width)}x${Math.round(box.height)}`)";

/// OP-70
#[tokio::test]
async fn what_is_touched_is_as_large_as_a_finger() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.touch(375, 780).await;
    browser.until("innerWidth === 375 && matchMedia('(pointer: coarse)').matches").await;

    let mut small = Vec::new();
    for (hash, what) in VIEWS.into_iter().chain(ALWAYS) {
        let what = match hash {
            "#/org" => ".org-list li + li",
            _ => what,
        };
        shows(&browser, hash, what).await;
        browser.until("!document.querySelector('#view .loading')").await;
        let Value::Array(found) = browser.value(SMALL).await else {
            panic!("no answer for {hash}");
        };
        small.extend(found.iter().map(|one| format!("{hash}: {one}")));
    }

    assert_eq!(json!(small), json!([]));
    browser.close().await;
}

/// OP-70: so are lists that open, and what they offer.
#[tokio::test]
async fn what_opens_is_as_large_as_a_finger() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("ready"));
    let profile = format!(
        "{{provider: openai, api_url: '{}/v1', api_key: {KEY}, model: small-one}}",
        model.url()
    );
    let service = Service::prepare()
        .with_file(
            "data/config/providers.yaml",
            &format!("profiles:\n  default: {profile}\n  other: {profile}\n"),
        )
        .started()
        .await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "bees").await;
    until_last_turn_is(&browser, "done").await;
    let topic = data(&service, "/api/v1/topics").await[0]["id"].clone();
    let path = format!("/api/v1/topics/{}", topic.as_str().unwrap());
    order(&service, "PATCH", &path, json!({"state": "done"})).await;
    browser.click("#new-topic").await;
    send(&browser, "wasps").await;
    until_last_turn_is(&browser, "done").await;
    browser.touch(375, 780).await;
    browser.until("innerWidth === 375 && matchMedia('(pointer: coarse)').matches").await;
    let heights = |selector: &str| {
        let all =
            format!("[...document.querySelectorAll('{selector}')].filter(one => one.offsetParent)");
        format!("(all => all.length > 0 && all.every(one => one.offsetHeight >= 44))({all})")
    };

    browser.until(&heights(".model-choice select")).await;
    browser.keys("#composer", "/").await;
    browser.until(&heights(".offers li")).await;
    browser.fill("#composer", "").await;
    browser.click("#open-topics").await;
    browser.until(&heights(".topics summary")).await;
    browser.click(".topic-more").await;
    browser.until(&heights(".act-menu button").replace("one.offsetParent", "true")).await;
    browser.close().await;
}

/// OP-71: an action that is on its way shows it, and is not sent again.
#[tokio::test]
async fn an_action_under_way_is_not_sent_again() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    shows(&browser, "#/org?as=list", "[aria-label='Pause research']").await;
    browser
        .run("const ask = window.fetch; window.sent = []; window.fetch = async (address, options) => { \
              if (options?.method === 'POST') { window.sent.push(address); await new Promise(go => { window.go = go; }); } \
              return ask(address, options); }")
        .await;

    browser
        .run(
            "window.pressed = document.querySelector(\"[aria-label='Pause research']\"); \
              window.pressed.click(); window.pressed.click()",
        )
        .await;
    browser
        .until("window.pressed.getAttribute('aria-busy') === 'true' && window.pressed.disabled")
        .await;
    browser.run("window.pressed.click(); window.go()").await;
    until_told(&browser, "research is paused.").await;

    let sent = browser.value("window.sent").await;
    assert_eq!(sent, json!(["/api/v1/teams/research/pause"]));
    browser.close().await;
}

/// OP-70: a row becomes a card, with its names beside its values.
#[tokio::test]
async fn tables_become_cards_where_there_is_little_room() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let layout = "(() => { const row = document.querySelector('.rows tbody tr'); \
                  return [getComputedStyle(row).display, getComputedStyle(row.cells[0], '::before').content]; })()";

    browser.resize(700, 700).await;
    browser.until("innerWidth === 700").await;
    shows(&browser, "#/triggers", ".rows tbody tr").await;
    let wide = browser.value(layout).await;
    browser.resize(639, 700).await;
    browser.until("innerWidth === 639").await;
    let narrow = browser.value(layout).await;

    assert_eq!(wide, json!(["table-row", "none"]));
    assert_ne!(narrow[0], "table-row");
    assert_ne!(narrow[1], "none");
    browser.close().await;
}
