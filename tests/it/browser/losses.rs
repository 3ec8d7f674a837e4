//! Nothing that was typed or said is lost: in several tabs, with messages that are too large, at logout, in dialogs.

use serde_json::{Value, json};

use super::{
    ONLINE, TURNS, answers, asking, chat, has_no_complaints, press, send, until_last_turn_is,
};
use crate::{
    service::Service,
    webdriver::{Browser, key},
};

/// Counts how often the connection changed, from now on.
const WATCH: &str = "window.changes = 0; new MutationObserver(() => window.changes++) \
    .observe(document.querySelector('#connection'), {attributes: true, attributeFilter: ['data-state']})";

/// How many connections the service has.
async fn connected(service: &Service) -> Value {
    let (_, overview) = service.api("GET", "/api/v1/channels", None).await;
    let rows = overview["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["type"] == "ws").unwrap();
    row["connected"].clone()
}

/// CH-91, OP-67: both show the same, whoever speaks, and neither takes the connection from the other.
#[tokio::test]
async fn two_tabs_show_the_same_conversation() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply From the first.").await;
    until_last_turn_is(&browser, "done").await;
    let address = browser.value("location.href").await;
    browser.run(WATCH).await;

    let first = browser.new_tab().await;
    browser.open(address.as_str().unwrap()).await;
    browser.until(ONLINE).await;
    browser.run(WATCH).await;
    until_last_turn_is(&browser, "done").await;
    send(&browser, "#say In the middle.\n#wait 1500\n#reply From the second.").await;
    let second = browser.to_tab(&first).await;
    browser.until("document.querySelector('#turns').textContent.includes('In the middle.')").await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;
    let here = answers(&browser).await;
    browser.to_tab(&second).await;
    until_last_turn_is(&browser, "done").await;
    let there = answers(&browser).await;

    assert_eq!(here, there);
    assert_eq!(here[0], json!(["#reply From the first.", ["From the first."]]));
    assert_eq!(connected(&service).await, 2);
    assert_eq!(browser.value("window.changes").await, 0);
    browser.reload().await;
    browser.until(ONLINE).await;
    assert_eq!(answers(&browser).await, there, "after a reload");
    browser.to_tab(&first).await;
    assert_eq!(browser.value("window.changes").await, 0);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// CH-37: a browser hears why its connection was ended.
#[tokio::test]
async fn a_browser_sees_the_close_codes() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    // The page itself would go to its login.
    browser.open(&format!("{}/healthz", service.url())).await;
    let code_of = |act: &str| {
        format!(
            "const socket = new WebSocket(`ws://${{location.host}}/ws`); \
             socket.onopen = () => {{ {act} }}; \
             socket.onclose = (event) => done([event.code, event.wasClean]);"
        )
    };

    let large = code_of("socket.send('x'.repeat(1_100_000));");
    let large = browser.wait_for(&large).await;
    let ended = code_of(
        "fetch('/api/v1/session').then(answer => answer.json()).then(({data}) => \
         fetch('/api/v1/session', {method: 'DELETE', headers: {'X-CSRF-Token': data.csrf}}));",
    );
    let ended = browser.wait_for(&ended).await;

    assert_eq!(large[0], 1009);
    assert_eq!(ended, json!([4401, true]));
    browser.close().await;
}

/// Puts a text into the composer, as pasting does.
async fn paste(browser: &Browser, text: &str) {
    browser
        .run(&format!(
            "const composer = document.querySelector('#composer'); composer.value = {text}; \
             composer.dispatchEvent(new Event('input', {{bubbles: true}}))"
        ))
        .await;
}

/// CH-66: what is too large is refused where it is written, with the number.
#[tokio::test]
async fn a_message_that_is_too_large_is_refused_in_the_composer() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    paste(&browser, "'x'.repeat(1_200_000)").await;
    let said = browser.text("#blocked").await;
    let disabled = browser.value("document.querySelector('#send').disabled").await;
    browser.keys("#composer", key::ENTER).await;
    let turns = browser.value(&format!("{TURNS}.length")).await;
    paste(&browser, "'#reply Short.'").await;
    browser.keys("#composer", key::ENTER).await;
    until_last_turn_is(&browser, "done").await;

    assert!(said.contains("1,200,002 bytes"), "{said}");
    assert_eq!((disabled, turns), (json!(true), json!(0)));
    assert_eq!(connected(&service).await, 1);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// CH-37, CH-66: a message that the service will not read has its end, and can be taken back; the chat goes on.
#[tokio::test]
async fn a_message_that_was_too_large_ends_and_the_chat_goes_on() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Before.").await;
    until_last_turn_is(&browser, "done").await;

    browser.until("localStorage['hivewright.conversation.operator']").await;

    // As an earlier page kept it: it was sent, and would be sent again for ever.
    browser
        .run(
            "window.place = 'hivewright.conversation.operator'; const kept = JSON.parse(localStorage[window.place]); \
             kept.unsent.push({kind: 'turn', id: 'm-large', task: null, text: 'x'.repeat(1_200_000), at: Date.now(), \
             ended: null, status: 'sending', seq: 0, attempted: true, addressed: location.hash.split('/').at(-1), \
             fresh: null, position: 0, waiting: '', opening: '', thinking: '', blocks: [], usage: null, error: null, \
             truncated: false, revision: 0}); window.large = JSON.stringify(kept); \
             addEventListener('pagehide', () => { localStorage[window.place] = window.large; })",
        )
        .await;
    browser.reload().await;
    browser.until(ONLINE).await;
    until_last_turn_is(&browser, "failed").await;
    let said = browser.text(".turn:last-of-type .problem").await;
    press(&browser, "Discard").await;
    browser.until(&format!("{TURNS}.length === 1")).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    send(&browser, "#reply After.").await;
    until_last_turn_is(&browser, "done").await;

    assert!(said.contains("too large"), "{said}");
    assert_eq!(answers(&browser).await[1], json!(["#reply After.", ["After."]]));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51: what is on its way can be taken back, and does not come back with a reload.
#[tokio::test]
async fn a_message_that_is_being_sent_can_be_discarded() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser
        .run("window.real = WebSocket.prototype.send; WebSocket.prototype.send = () => {}")
        .await;

    send(&browser, "#reply Never sent.").await;
    until_last_turn_is(&browser, "sending").await;
    press(&browser, "Discard").await;
    browser.until(&format!("{TURNS}.length === 0")).await;
    browser.reload().await;
    browser.until(ONLINE).await;

    assert_eq!(browser.value(&format!("{TURNS}.length")).await, 0);
    browser.close().await;
}

/// OP-51: logging out takes nothing away, and says what stays where.
#[tokio::test]
async fn a_conversation_is_there_again_after_a_logout() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Kept.").await;
    until_last_turn_is(&browser, "done").await;
    let topic = browser.value("location.hash").await;

    browser.click("#logout").await;
    browser.until("document.querySelector('#login-note')?.checkVisibility()").await;
    let note = browser.text("#login-note").await;
    browser.open(&service.login_link().await).await;
    browser.until(ONLINE).await;
    super::go(&browser, topic.as_str().unwrap()).await;
    until_last_turn_is(&browser, "done").await;

    assert!(note.contains("are kept"), "{note}");
    assert_eq!(answers(&browser).await, json!([["#reply Kept.", ["Kept."]]]));
    browser.close().await;
}

/// OP-65: neither a click beside a dialog nor a selection that is dragged out of it closes it; Escape asks.
#[tokio::test]
async fn a_dialog_keeps_what_was_typed() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply A topic.").await;
    until_last_turn_is(&browser, "done").await;
    browser.until("!document.querySelector('#rename').hidden").await;
    browser.click("#rename").await;
    browser.fill("dialog [name=name]", "Another name").await;
    let typed = "document.querySelector('dialog[open] [name=name]')?.value";

    browser.drag("dialog [name=name]", -500, 200).await;
    let after_drag = browser.value(typed).await;
    browser.drag("#sidebar", 0, 0).await;
    let after_click = browser.value(typed).await;
    browser.press(&[key::ESCAPE]).await;
    browser.until("document.querySelector('dialog').textContent.includes('not saved')").await;
    let asked = browser.value(typed).await;
    press(&browser, "Keep writing").await;
    browser.press(&[key::ESCAPE]).await;
    press(&browser, "Discard it").await;
    browser.until("!document.querySelector('dialog[open]')").await;
    browser.click("#rename").await;
    browser.until(typed).await;
    browser.press(&[key::ESCAPE]).await;
    browser.until("!document.querySelector('dialog[open]')").await;

    assert_eq!(
        [after_drag, after_click, asked],
        [json!("Another name"), json!("Another name"), json!("Another name")]
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}
