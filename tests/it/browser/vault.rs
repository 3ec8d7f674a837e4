//! The vault: written, changed, deleted and given another key; never read.

use serde_json::json;

use super::{
    chat, data, furnished, go, has_no_complaints, order, press, submit, until_gone, until_shown,
};
use crate::service::Service;

/// OP-58: what is written into the vault comes back nowhere.
#[tokio::test]
async fn a_secret_can_be_written_but_never_read() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let secret = "correct-horse-battery-staple";

    go(&browser, "#/vault").await;
    browser.until("document.querySelector('#view .empty')").await;
    browser.click("#view .page-head .primary").await;
    browser.keys("dialog [name=key]", "smtp-password").await;
    browser.keys("dialog [name=value]", secret).await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('.rows')?.textContent.includes('smtp-password')").await;

    let everywhere = "document.documentElement.outerHTML + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) \
                      + [...document.querySelectorAll('input')].map(field => field.value) + location.href";
    let everywhere = browser.value(everywhere).await;
    assert!(!everywhere.as_str().unwrap().contains(secret));
    let (status, row) = service.api("GET", "/api/v1/vault/system/smtp-password", None).await;
    assert_eq!((status, &row["data"]["secret"]), (200, &json!(true)));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-58: what it may be used for is changed without its value; a deletion is typed out.
#[tokio::test]
async fn a_secret_is_changed_and_deleted_and_the_key_rotated() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let path = "/api/v1/vault/system/smtp-password";

    go(&browser, "#/vault").await;
    press(&browser, "Change smtp-password").await;
    browser.fill("dialog [name=hosts]", "mail.example.org").await;
    browser.fill("dialog [name=tools]", "web_fetch").await;
    browser.fill("dialog [name=note]", "for letters").await;
    submit(&browser).await;
    until_shown(&browser, "mail.example.org").await;
    let changed = data(&service, path).await;
    assert_eq!(changed["hosts"], json!(["mail.example.org"]));
    assert_eq!(changed["tools"], json!(["web_fetch"]));
    assert_eq!(changed["secret"], true);

    press(&browser, "Change smtp-password").await;
    browser.fill("dialog [name=value]", "another-value-nobody-sees").await;
    submit(&browser).await;
    browser.until("document.querySelector(\"td[data-name=Version]\")?.textContent === '2'").await;
    assert_eq!(data(&service, path).await["version"], 2);

    press(&browser, "Rotate master key…").await;
    submit(&browser).await;
    let rotations = data(&service, "/api/v1/vault/audit?action=rotate").await;
    assert_eq!(rotations.as_array().unwrap().len(), 1, "{rotations}");
    assert_eq!(data(&service, path).await["version"], 2);

    press(&browser, "Delete smtp-password").await;
    browser.fill("dialog [name=typed]", "smtp").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('dialog [name=typed]:invalid')").await;
    assert_eq!(service.api("GET", path, None).await.0, 200);
    browser.fill("dialog [name=typed]", "smtp-password").await;
    submit(&browser).await;
    until_shown(&browser, "The vault is empty").await;
    assert_eq!(service.api("GET", path, None).await.0, 404);
    has_no_complaints(&browser).await;

    go(&browser, "#/vault/audit").await;
    until_shown(&browser, "delete").await;
    browser.close().await;
}

/// OP-02, OP-58: a search looks at all of them, and a list goes on.
#[tokio::test]
async fn a_secret_is_found_among_many() {
    let service = Service::start().await;
    for number in 0..70 {
        let path = format!("/api/v1/vault/system/key-{number:02}");
        let secret = json!({"value": format!("a-value-{number:02}"), "secret": true});
        order(&service, "PUT", &path, secret).await;
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    let rows = "document.querySelectorAll('.rows tbody tr').length";

    go(&browser, "#/vault").await;
    until_shown(&browser, "60 of 70 shown.").await;
    browser.fill("#view .search", "y-69").await;
    browser.until(&format!("{rows} === 1")).await;
    until_shown(&browser, "key-69").await;
    browser.choose("[aria-label=Owner]", "team:main").await;
    until_shown(&browser, "No secret matches.").await;
    press(&browser, "Show all").await;
    press(&browser, "Show more").await;
    browser.until(&format!("{rows} === 70")).await;
    until_gone(&browser, "Show more").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
