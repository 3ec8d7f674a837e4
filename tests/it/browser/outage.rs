//! The server goes away while the page is open, and comes back.

use super::{
    ONLINE, TURNS, access, answers, chat, go, has_no_complaints, press, send, until_last_turn_is,
    until_shown, until_told,
};
use crate::service::Service;

/// OP-66, OP-67, OP-97, OP-98: offline is seen, nothing is lost, nothing comes twice.
#[tokio::test]
async fn a_killed_server_comes_back_to_the_same_page() {
    let mut service = Service::start_working().await;
    service.keep_port();
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, "#say The part before.\n#wait 3000\n#reply The part after.").await;
    browser
        .until("document.querySelector('.answer')?.textContent.includes('The part before.')")
        .await;
    service.kill();
    browser.until("document.querySelector('#connection').dataset.state === 'offline'").await;
    assert!(browser.text("#offline").await.starts_with("Offline: the service cannot be reached."));
    service.launch().await;
    browser.until(ONLINE).await;
    until_last_turn_is(&browser, "done").await;

    let said = answers(&browser).await;
    let texts = said[0][1].to_string();
    assert_eq!(said.as_array().unwrap().len(), 1, "{said}");
    assert_eq!(texts.matches("The part before.").count(), 1, "{said}");
    assert_eq!(texts.matches("The part after.").count(), 1, "{said}");

    // What the console says of the outage itself is no complaint.
    browser.complaints().await;
    send(&browser, "#reply Still here.").await;
    browser.until(&format!("{TURNS}.length === 2 && {TURNS}[1].dataset.status === 'done'")).await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-66: what changes something is refused with the reason while the server is away.
#[tokio::test]
async fn nothing_can_be_changed_while_the_server_is_away() {
    let mut service = Service::start().await;
    service.keep_port();
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/memory").await;
    browser.until("document.querySelector('#view .empty')").await;
    browser.click("#view .page-head .primary").await;
    browser.keys("dialog [name=key]", "tone").await;
    browser.keys("dialog [name=content]", "Short letters.").await;
    service.kill();
    browser.until("document.querySelector('#connection').dataset.state === 'offline'").await;
    browser.click("dialog [type=submit]").await;
    browser.until("!document.querySelector('dialog .problem').hidden").await;
    let refused = browser.text("dialog .problem").await;
    service.launch().await;
    browser.until(ONLINE).await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('#view h1')?.textContent === 'tone'").await;

    assert!(refused.contains("cannot be reached"), "{refused}");
    let (_, list) = service.api("GET", "/api/v1/memories", None).await;
    assert_eq!(list["total"], 1);
    browser.close().await;
}

/// OP-66: a script that did not come while the server was away comes at the next try, on the same page.
#[tokio::test]
async fn what_could_not_be_loaded_comes_at_the_next_try() {
    let mut service = Service::start_working().await;
    service.keep_port();
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Hello.").await;
    until_last_turn_is(&browser, "done").await;
    browser.run("window.same = true").await;

    service.kill();
    browser.until("document.querySelector('#connection').dataset.state === 'offline'").await;
    browser.click("#rename").await;
    until_told(&browser, "The service cannot be reached.").await;
    go(&browser, "#/usage").await;
    until_shown(&browser, "The service cannot be reached.").await;
    service.launch().await;
    browser.until(ONLINE).await;
    press(&browser, "Try again").await;
    browser.until("document.querySelector('#view h1')?.textContent === 'Usage'").await;
    browser.run("history.back()").await;
    browser.click("#rename").await;
    browser.until("document.querySelector('dialog[open]')").await;

    assert_eq!(browser.value("window.same").await, true);
    browser.close().await;
}

/// OP-66: a page of the version before says so, loads nothing of the new one, and keeps what is being written.
#[tokio::test]
async fn a_page_of_an_earlier_version_offers_to_reload() {
    const UPDATED: &str = "!document.querySelector('#updated').hidden";
    const TYPED: &str = "document.querySelector('#composer')?.value";
    let mut service = Service::start_working().await;
    service.keep_port();
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.keys("#composer", "half a sentence").await;
    // The files of this page are not those of the service that is started now.
    browser
        .run(
            "const ask = window.fetch; window.fetch = (address, how) => \
             String(address).includes('/ui/v-') ? ask('/ui/v-0/app.js', how) : ask(address, how)",
        )
        .await;

    service.kill();
    browser.until("document.querySelector('#connection').dataset.state === 'offline'").await;
    assert_eq!(browser.value(UPDATED).await, false);
    service.launch().await;
    browser.until(UPDATED).await;
    access::has_no_findings(&browser).await;
    assert_eq!(browser.value(TYPED).await, "half a sentence");
    go(&browser, "#/usage").await;
    until_shown(&browser, "Hivewright was updated. Reload the page").await;
    go(&browser, "#/chat").await;
    browser.until(TYPED).await;
    browser.click("#reload").await;
    browser.until(&format!("!window.told?.length && {ONLINE} && !({UPDATED})")).await;
    browser.until(&format!("{TYPED} === 'half a sentence'")).await;
    browser.close().await;
}
