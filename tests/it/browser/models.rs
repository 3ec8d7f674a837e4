//! A model is connected in the page.

use super::{
    answers, chat, go, has_no_complaints, press, send, submit, until_last_turn_is, until_shown,
};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

/// OP-73, OP-63: tried with a real request, key into the vault, profile into the file; the next message goes to it.
#[tokio::test]
async fn a_model_is_tried_and_connected_in_the_page() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("ready"));
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    assert_eq!(browser.value("document.querySelector('#demo').hidden").await, false);

    go(&browser, "#/settings/models").await;
    press(&browser, "Connect a model").await;
    browser.choose("dialog [name=vendor]", "other").await;
    let address = format!("{}/v1", model.url().trim_start_matches("http://"));
    browser.fill("dialog [name=api_url]", &address).await;
    browser.fill("dialog [name=api_key]", "wrong-key-0123456789").await;
    press(&browser, "Try it").await;
    browser.until("document.querySelector('.tried .problem')").await;
    browser.fill("dialog [name=api_key]", KEY).await;
    press(&browser, "Try it").await;
    browser
        .until("document.querySelector('.tried')?.textContent.includes('answered: ready')")
        .await;
    let offered = "[...document.querySelectorAll('#models option')].map(one => one.value).join()";
    assert_eq!(browser.value(offered).await, "large-one,small-one");
    // There is no default that every server has.
    let filled = "document.querySelector('dialog [name=model]').value";
    assert_eq!(browser.value(filled).await, "large-one");
    assert_eq!(browser.text(".tried strong").await, "large-one");
    browser.fill("dialog [name=model]", "small-one").await;
    submit(&browser).await;
    until_shown(&browser, "small-one").await;
    browser.until("document.querySelector('#demo').hidden").await;

    let file = service.path("data/config/providers.yaml");
    let file = std::fs::read_to_string(file).unwrap();
    assert!(file.contains("api_key: ${vault:model-default}"), "{file}");
    assert!(!file.contains(KEY));
    let page = browser.value("document.documentElement.outerHTML").await;
    assert!(!page.as_str().unwrap().contains(KEY));
    model.otherwise(Reply::text("A real answer."));
    go(&browser, "#/chat").await;
    send(&browser, "hello").await;
    until_last_turn_is(&browser, "done").await;
    assert_eq!(answers(&browser).await[0][1][0], "A real answer.");
    has_no_complaints(&browser).await;
    browser.close().await;
}
