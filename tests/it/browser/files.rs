//! Files in the chat: chosen, dropped, pasted; shown and downloaded, never opened.

use std::fs;

use serde_json::json;

use super::{chat, has_no_complaints, send, until_last_turn_is};
use crate::service::Service;

/// One pixel, for the page.
const PIXEL: &str = "Uint8Array.from(atob('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\
                     +M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='), letter => letter.charCodeAt(0))";

fn gives(event: &str, on: &str, field: &str, name: &str, content: &str, kind: &str) -> String {
    format!(
        "const data = new DataTransfer(); \
         data.items.add(new File([{content}], '{name}', {{type: '{kind}'}})); \
         const event = new {event}; Object.defineProperty(event, '{field}', {{value: data}}); \
         document.querySelector('{on}').dispatchEvent(event)"
    )
}

const READY: &str = "[...document.querySelectorAll('.attached')].map(one => one.dataset.state)";

/// OP-64: a person chooses, drops and pastes files, takes one back, and sends the others.
#[tokio::test]
async fn files_are_chosen_dropped_and_pasted() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let path = service.path("chosen.txt");
    fs::write(&path, "chosen").unwrap();

    browser.keys("#choose-files", path.to_str().unwrap()).await;
    let drop = "DragEvent('drop', {bubbles: true, cancelable: true})";
    browser
        .run(&gives(drop, "#scroll", "dataTransfer", "dropped.txt", "'dropped'", "text/plain"))
        .await;
    browser
        .run(&gives(drop, "#scroll", "dataTransfer", "wrong.txt", "'wrong'", "text/plain"))
        .await;
    let paste = "ClipboardEvent('paste', {bubbles: true, cancelable: true})";
    browser.run(&gives(paste, "#composer", "clipboardData", "image.png", PIXEL, "image/png")).await;
    browser.until(&format!("{READY}.join() === 'ready,ready,ready,ready'")).await;
    browser.click("[aria-label='Remove wrong.txt']").await;
    send(&browser, "#call glob {\"pattern\":\"inbox/*\"}\n#reply {result}").await;
    until_last_turn_is(&browser, "done").await;

    let names = "[...document.querySelectorAll('.said .file')].map(file => file.download)";
    let expected = json!(["chosen.txt", "dropped.txt", "image.png"]);
    assert_eq!(browser.value(names).await, expected);
    let inbox = service.path("run/teams/main/inbox");
    assert_eq!(fs::read_to_string(inbox.join("chosen.txt")).unwrap(), "chosen");
    assert_eq!(fs::read_to_string(inbox.join("dropped.txt")).unwrap(), "dropped");
    assert!(!inbox.join("wrong.txt").exists());
    browser.until("document.querySelector('.said .picture img')?.naturalWidth === 1").await;
    assert_eq!(browser.value("document.querySelectorAll('.attached').length").await, 0);

    browser.reload().await;
    browser.until("document.querySelector('.said .picture img')?.naturalWidth === 1").await;
    assert_eq!(browser.value(names).await, expected);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// A file that comes without words is a message; one that is too large says why and keeps the rest from being sent.
#[tokio::test]
async fn a_file_alone_is_a_message_and_one_that_is_refused_says_why() {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", "limits: {file: 1MiB}\n")
        .started()
        .await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let (large, small) = (service.path("large.bin"), service.path("small.txt"));
    fs::write(&large, vec![1; 2 << 20]).unwrap();
    fs::write(&small, "small").unwrap();

    browser.keys("#choose-files", large.to_str().unwrap()).await;
    browser.until(&format!("{READY}.join() === 'failed'")).await;
    let said = browser.text(".attached").await;
    assert_eq!(browser.value("document.querySelector('#send').disabled").await, true);
    browser.click("[aria-label='Remove large.bin']").await;
    browser.keys("#choose-files", small.to_str().unwrap()).await;
    browser.until(&format!("{READY}.join() === 'ready'")).await;
    browser.click("#send").await;
    until_last_turn_is(&browser, "done").await;

    assert!(said.contains("limits.file"), "{said}");
    assert_eq!(browser.text(".bubble").await, "small.txt");
    browser.close().await;
}

/// SC-66: what a team sends is shown behind its call, a picture as one; it is downloaded, and its page runs nothing.
#[tokio::test]
async fn what_a_team_sends_is_shown_and_downloaded() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let page =
        json!({ "file_path": "page.html", "content": "<script>document.title = 'taken'</script>" });
    let sent = json!({ "file_path": "page.html" });

    send(&browser, &format!("#call write {page}\n#then\n#call send_file {sent}\n#reply Sent."))
        .await;
    until_last_turn_is(&browser, "done").await;

    let link = "document.querySelector('.answer .file')";
    assert_eq!(browser.value(&format!("{link}.download")).await, "page.html");
    let got = browser
        .wait_for(&format!(
            "fetch({link}.href).then(async answer => done([answer.status, \
             answer.headers.get('content-type'), answer.headers.get('content-disposition').split(';')[0], \
             await answer.text()]))"
        ))
        .await;
    assert_eq!(got, json!([200, "text/plain; charset=utf-8", "attachment", page["content"]]));
    let order = "[...document.querySelectorAll('.answer > *')].map(block => block.className)";
    assert_eq!(browser.value(order).await, json!(["tool", "tool", "files", "markdown"]));
    has_no_complaints(&browser).await;
    browser.close().await;
}
