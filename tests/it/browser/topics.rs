//! Topics of the chat: renamed, taken along, answered in and closed.

use serde_json::json;

use super::{TURNS, asking, chat, data, has_no_complaints, send, submit, until_last_turn_is};

/// OP-51
#[tokio::test]
async fn a_topic_is_renamed_taken_along_and_closed() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Bees make honey.").await;
    until_last_turn_is(&browser, "done").await;
    browser.until("location.hash.startsWith('#/chat/t-')").await;
    let hash = browser.value("location.hash").await;
    let path = format!("/api/v1/topics/{}", hash.as_str().unwrap().replace("#/chat/", ""));

    browser.click("#rename").await;
    browser.fill("dialog [name=name]", "about bees").await;
    submit(&browser).await;
    browser.until("document.querySelector('#topic-name').textContent === 'about bees'").await;
    assert_eq!(data(&service, &path).await["name"], "about bees");

    browser
        .run(
            "const make = URL.createObjectURL.bind(URL); URL.createObjectURL = blob => { \
              blob.text().then(text => { window.saved = text; }); return make(blob); }",
        )
        .await;
    browser.click("#export").await;
    browser
        .until(
            "window.saved?.startsWith('# about bees') && window.saved.includes('Bees make honey.')",
        )
        .await;

    browser.click("#close-topic").await;
    browser
        .until("document.querySelector('#blocked-text').textContent === 'This topic is over.'")
        .await;
    assert_eq!(data(&service, &path).await["state"], "done");
    browser.click("#unblock").await;
    browser
        .until(&format!(
            "{TURNS}.length === 0 && !document.querySelector('#blocked-text').textContent"
        ))
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-38, OP-51: a question is answered where it stands.
#[tokio::test]
async fn a_question_is_answered_in_the_chat() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let question = json!({"question": "Which tone?", "options": ["Friendly", "Formal"]});

    send(&browser, &format!("#call ask_operator {question}\n#reply asked")).await;
    browser.until("document.querySelector('#turns hw-question [type=radio]')").await;
    browser.click("hw-question .tick:nth-of-type(2)").await;
    browser.click("hw-question [type=submit]").await;
    browser.until("document.querySelector('hw-question [data-status=answered]')").await;

    let all = data(&service, "/api/v1/questions").await;
    assert_eq!(all[0]["answer"]["selected"], json!(["Formal"]));
    has_no_complaints(&browser).await;
    browser.close().await;
}
