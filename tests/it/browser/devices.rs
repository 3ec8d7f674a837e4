//! One person, several browsers: the conversation is in the store, and all of them show the same.

use serde_json::{Value, json};

use super::{
    ONLINE, TURNS, answers, chat, data, go, has_no_complaints, press, send, until_last_turn_is,
};
use crate::{service::Service, webdriver::Browser};

const UNREAD: &str = "(document.querySelector('.topic .unread')?.firstChild.textContent ?? '')";

/// Waits until so many messages are answered.
async fn until_done(browser: &Browser, count: usize) {
    let done = format!("{TURNS}.filter(turn => turn.dataset.status === 'done').length === {count}");
    browser.until(&done).await;
}

/// Looks at the one topic that there is.
async fn open_topic(browser: &Browser) {
    browser.click(".topic").await;
    browser.until("location.hash.startsWith('#/chat/t-')").await;
}

/// CH-91, CH-160: each sees all, in order, once; live, after a reload, and from a third browser.
#[tokio::test]
async fn two_browsers_that_both_write_show_all_in_order_once() {
    let service = Service::start_working().await;
    let (Some(one), Some(other)) = (chat(&service).await, chat(&service).await) else {
        return;
    };

    // Both are open before anything was said.
    send(&one, "#reply The first.").await;
    until_done(&one, 1).await;
    open_topic(&other).await;
    until_done(&other, 1).await;
    for number in 1..=5 {
        let (left, right) = (format!("#reply Left {number}."), format!("#reply Right {number}."));
        tokio::join!(send(&one, &left), send(&other, &right));
    }
    until_done(&one, 11).await;
    until_done(&other, 11).await;
    let (here, there) = (answers(&one).await, answers(&other).await);
    one.reload().await;
    one.until(ONLINE).await;
    until_done(&one, 11).await;
    let again = answers(&one).await;
    let third = chat(&service).await.unwrap();
    open_topic(&third).await;
    until_done(&third, 11).await;

    assert_eq!(here, there);
    assert_eq!(again, here, "after a reload");
    assert_eq!(answers(&third).await, here, "in a new browser");
    let said = here.to_string();
    for number in 1..=5 {
        for side in ["Left", "Right"] {
            assert_eq!(said.matches(&format!("#reply {side} {number}.")).count(), 1, "{said}");
        }
        // What each side wrote stands in the order in which it was written.
        let place = |number| said.find(&format!("#reply Left {number}."));
        assert!(number == 1 || place(number - 1) < place(number), "{said}");
    }
    for browser in [one, other, third] {
        has_no_complaints(&browser).await;
        browser.close().await;
    }
}

/// CH-160: what streams in one browser streams in the other, also in one that comes in the middle.
#[tokio::test]
async fn a_browser_that_comes_in_the_middle_sees_the_turn_go_on() {
    let service = Service::start_working().await;
    let Some(one) = chat(&service).await else {
        return;
    };
    let other = chat(&service).await.unwrap();
    let script = "#say First I write.\n#call write {\"file_path\":\"a.md\",\"content\":\"Hello\"}\n\
                  #then\n#say Now I wait.\n\
                  #call bash {\"command\":\"until [ -e go ]; do sleep 0.1; done\"}\n\
                  #then\n#reply All is written.";
    let shows =
        |words: &str| format!("document.querySelector('.answer')?.textContent.includes('{words}')");

    send(&one, script).await;
    one.until(&shows("Now I wait.")).await;
    other.reload().await;
    open_topic(&other).await;
    other.until(&shows("Now I wait.")).await;
    other.until("document.querySelectorAll('.answer > details').length === 2").await;
    let status = other.value(&format!("{TURNS}.map(turn => turn.dataset.status)")).await;
    let blocks = "[...document.querySelectorAll('.answer > *')].map(block => block.tagName)";
    let middle = other.value(blocks).await;
    service.write("run/teams/main/go", "");
    until_done(&one, 1).await;
    until_done(&other, 1).await;

    assert_eq!(status, json!(["running"]));
    assert_eq!(middle, json!(["DIV", "DETAILS", "DIV", "DETAILS"]));
    assert_eq!(answers(&one).await, answers(&other).await);
    one.close().await;
    other.close().await;
}

/// CH-160: what is read in one browser is read in the other; what is new is counted by the store.
#[tokio::test]
async fn what_is_read_in_one_browser_is_read_in_the_other() {
    let service = Service::start().await;
    let (Some(one), Some(other)) = (chat(&service).await, chat(&service).await) else {
        return;
    };
    // Neither looks at the topic when its answer comes.
    send(&one, "#wait 6000\n#reply Ready.").await;
    one.until("document.querySelector('.topic')").await;
    one.click("#new-topic").await;
    one.until(&format!("{UNREAD} === '1'")).await;
    other.until(&format!("{UNREAD} === '1'")).await;
    let late = chat(&service).await.unwrap();
    late.until(&format!("{UNREAD} === '1'")).await;

    open_topic(&other).await;
    until_last_turn_is(&other, "done").await;

    for browser in [&one, &late] {
        browser.until(&format!("document.querySelector('.topic') && {UNREAD} === ''")).await;
    }
    let channels = data(&service, "/api/v1/me/channels?home=true").await;
    assert_eq!(channels[0]["unread"], 0, "{channels}");
    for browser in [one, other, late] {
        has_no_complaints(&browser).await;
        browser.close().await;
    }
}

/// CH-160: what a browser keeps is a cache, and a small one.
#[tokio::test]
async fn a_browser_that_lost_what_it_kept_loses_nothing() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply Kept by the service.").await;
    until_last_turn_is(&browser, "done").await;
    let before = answers(&browser).await;
    // What the service has confirmed is not kept any longer.
    let kept = "localStorage['hivewright.conversation.operator']";
    browser.until(&format!("{kept} && !{kept}.includes('Kept by the service.')")).await;

    browser.run("addEventListener('pagehide', () => localStorage.clear())").await;
    browser.reload().await;
    browser.until(ONLINE).await;
    until_last_turn_is(&browser, "done").await;

    assert_eq!(answers(&browser).await, before);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// CH-160: a long conversation comes in parts, and is taken along whole.
#[tokio::test]
async fn what_is_older_is_fetched_when_it_is_wanted() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply 0;").await;
    until_last_turn_is(&browser, "done").await;
    let hash = browser.value("location.hash").await;
    let topic = hash.as_str().unwrap().replace("#/chat/", "");
    let home = data(&service, "/api/v1/me/channels?home=true").await;
    for number in 1..=40 {
        let content = format!("#reply {number};");
        let body = json!({
            "content": content, "channel_id": home[0]["id"], "topic_id": topic, "wait_s": 20,
        });
        let (status, answer) = service.api("POST", "/api/v1/messages", Some(body)).await;
        assert_eq!(status, 200, "{answer}");
    }

    browser.reload().await;
    browser.until(ONLINE).await;
    until_done(&browser, 30).await;
    press(&browser, "Earlier").await;
    until_done(&browser, 41).await;
    browser.until("document.querySelector('#earlier').hidden").await;

    let all = answers(&browser).await;
    let said: Vec<Value> = all.as_array().unwrap().iter().map(|turn| turn[0].clone()).collect();
    let expected: Vec<Value> = (0..=40).map(|number| format!("#reply {number};").into()).collect();
    assert_eq!(said, expected);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// CH-92, CH-152, CH-160: what was told while no browser was open is there in the first that is.
#[tokio::test]
async fn what_was_told_while_nobody_was_there_is_shown() {
    let service = Service::start().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let home = data(&service, "/api/v1/me/channels?home=true").await;
    browser.close().await;

    let channel = home[0]["id"].as_str().unwrap();
    let answer = crate::service::http()
        .post(format!("{}/api/v1/tasks", service.url()))
        .bearer_auth(service.token())
        .header("X-Source-Channel", channel)
        .json(&json!({"team": "research", "task": "#reply Three books."}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 202);
    service
        .until(&format!("/api/v1/me/channels/{channel}/messages"), |rows| {
            rows[0]["type"] == "notification"
        })
        .await;
    let browser = chat(&service).await.unwrap();
    browser.until("document.querySelector('.notice')?.textContent.includes('Three books.')").await;
    service.until("/api/v1/me/channels?home=true", |rows| rows[0]["unread"] == 0).await;
    browser.reload().await;
    browser.until(ONLINE).await;

    // It was seen.
    assert_eq!(browser.value("document.querySelectorAll('.notice').length").await, 0);
    go(&browser, "#/chat").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
