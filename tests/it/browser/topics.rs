//! Topics of the chat: renamed, pinned, taken along, answered in and archived.

use serde_json::json;

use super::{
    TURNS, access, asking, chat, data, has_no_complaints, press, send, submit, until_last_turn_is,
    until_told,
};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
    webdriver::{Browser, key},
};

/// OP-51
#[tokio::test]
async fn a_topic_is_renamed_taken_along_and_archived() {
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

    browser.click("#archive-topic").await;
    browser
        .until("document.querySelector('#blocked-text').textContent === 'This topic is archived.'")
        .await;
    assert_eq!(data(&service, &path).await["state"], "done");
    browser.click("#unblock").await;
    browser
        .until(&format!(
            "{TURNS}.length === 1 && !document.querySelector('#blocked-text').textContent"
        ))
        .await;
    assert_eq!(data(&service, &path).await["state"], "active");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// The topics that the list shows, with what each stands under.
const LISTED: &str = "[...document.querySelectorAll('#topics li, #topics summary')].map(one => \
     one.querySelector('.topic-name')?.textContent ?? one.textContent)";

async fn focus_menu_of(browser: &Browser, topic: &str) {
    let label = json!(format!("What to do with {topic}"));
    let button = format!("document.querySelector(`[aria-label=${{JSON.stringify({label})}}]`)");
    browser.run(&format!("{button}.focus()")).await;
}

/// CH-91, OP-51: what is done to a topic in the list of one browser is seen in that of another at once. By keyboard alone, on a
/// narrow page.
#[tokio::test]
async fn topics_are_pinned_renamed_and_archived_in_every_browser() {
    let service = Service::start_working().await;
    let (Some(one), Some(other)) = (chat(&service).await, chat(&service).await) else {
        return;
    };
    send(&one, "bees").await;
    until_last_turn_is(&one, "done").await;
    one.click("#new-topic").await;
    send(&one, "wasps").await;
    one.until(&format!("{LISTED}.join() === 'wasps,bees'")).await;
    until_last_turn_is(&one, "done").await;
    one.resize(375, 800).await;
    one.click("#open-topics").await;

    focus_menu_of(&one, "bees").await;
    one.press(&[key::ENTER]).await;
    one.until("document.activeElement.textContent === 'Pin'").await;
    access::has_no_findings(&one).await;
    one.press(&[key::ENTER]).await;
    for browser in [&one, &other] {
        browser.until(&format!("{LISTED}.join() === 'Pinned,bees,Others,wasps'")).await;
    }
    // The focus stays with the topic, wherever it stands now.
    one.until("document.activeElement.matches('.topic-more')").await;
    one.press(&[key::ENTER]).await;
    one.until("document.activeElement.textContent === 'Unpin'").await;
    one.press(&[key::DOWN, key::ENTER]).await;
    one.fill("dialog [name=name]", "honey").await;
    submit(&one).await;
    other.until(&format!("{LISTED}.join() === 'Pinned,honey,Others,wasps'")).await;
    focus_menu_of(&one, "wasps").await;
    one.press(&[key::ENTER]).await;
    one.until("document.activeElement.textContent === 'Pin'").await;
    one.press(&[key::DOWN, key::DOWN, key::ENTER]).await;
    for browser in [&one, &other] {
        browser.until(&format!("{LISTED}.join() === 'Pinned,honey,Archived (1),wasps'")).await;
    }
    other.reload().await;
    other.until(&format!("{LISTED}.join() === 'Pinned,honey,Archived (1),wasps'")).await;
    other.click("#topics summary").await;
    press(&other, "What to do with wasps").await;
    other.click("[role=menuitem]").await;
    one.until(&format!("{LISTED}.join() === 'Pinned,honey,Others,wasps'")).await;

    for browser in [one, other] {
        has_no_complaints(&browser).await;
        browser.close().await;
    }
}

/// CH-91, OP-51: a topic is deleted with all its versions, and is gone in every browser, also where it is open.
#[tokio::test]
async fn a_topic_is_deleted_in_every_browser() {
    let service = Service::start_working().await;
    let (Some(one), Some(other)) = (chat(&service).await, chat(&service).await) else {
        return;
    };
    send(&one, "wasps").await;
    until_last_turn_is(&one, "done").await;
    one.click("#new-topic").await;
    send(&one, "bees").await;
    one.until(&format!("{LISTED}.join() === 'bees,wasps'")).await;
    until_last_turn_is(&one, "done").await;
    other.click("[data-topic]").await;
    other.until(&format!("{TURNS}.length === 1")).await;
    one.resize(375, 800).await;
    one.click("#open-topics").await;

    focus_menu_of(&one, "bees").await;
    one.press(&[key::ENTER]).await;
    one.until("document.activeElement.textContent === 'Pin'").await;
    one.press(&[key::DOWN, key::DOWN, key::DOWN, key::ENTER]).await;
    one.until("document.querySelector('dialog h2')?.textContent === 'Delete bees?'").await;
    access::has_no_findings(&one).await;
    submit(&one).await;

    for browser in [&one, &other] {
        browser.until(&format!("{LISTED}.join() === 'wasps' && {TURNS}.length === 0")).await;
        browser.until("!location.hash.includes('t-')").await;
    }
    until_told(&other, "The topic is deleted.").await;
    let topics = data(&service, "/api/v1/topics").await;
    assert_eq!(topics.as_array().unwrap().len(), 1, "{topics}");
    for browser in [one, other] {
        has_no_complaints(&browser).await;
        browser.close().await;
    }
}

/// OP-51: a model is chosen for one topic, before it begins and in it, and answers there alone.
#[tokio::test]
async fn a_topic_is_answered_by_the_model_that_was_chosen_for_it() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Yes."));
    let profile = |name: &str, model: &str, url: &str| {
        format!(
            "  {name}: {{provider: anthropic, api_url: \"{url}\", api_key: {KEY}, model: {model}}}\n"
        )
    };
    let (small, large) =
        (profile("default", "small", model.url()), profile("thorough", "large", model.url()));
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &format!("profiles:\n{small}{large}"))
        .started()
        .await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let asked = || model.requests().last().unwrap().body["model"].clone();

    browser.until("!document.querySelector('#model-choice').hidden").await;
    browser.choose("#model", "thorough").await;
    send(&browser, "bees").await;
    until_last_turn_is(&browser, "done").await;
    let first = asked();
    browser.resize(375, 800).await;
    access::has_no_findings(&browser).await;
    browser.until("document.querySelector('#model').value === 'thorough'").await;
    browser.choose("#model", "").await;
    until_told(&browser, "The team’s model answers").await;
    send(&browser, "wasps").await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;

    assert_eq!([first, asked()], ["large", "small"]);
    let usage = data(&service, "/api/v1/usage?group=profile&sort=key").await;
    let used: Vec<_> = usage.as_array().unwrap().iter().map(|row| row["key"].clone()).collect();
    assert_eq!(used, ["default", "thorough"]);
    let hash = browser.value("location.hash").await;
    let path = format!("/api/v1/topics/{}", hash.as_str().unwrap().replace("#/chat/", ""));
    let (status, refusal) = service.api("PATCH", &path, Some(json!({"profile": "thorogh"}))).await;
    assert_eq!((status, &refusal["error"]["field"]), (400, &json!("profile")), "{refusal}");
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
