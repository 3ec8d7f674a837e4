//! What is said again, taken back, stopped, and said to other teams than the main one.

use serde_json::json;

use super::{
    ONLINE, TURNS, answers, chat, data, go, has_no_complaints, press, send, until_last_turn_is,
    until_shown,
};
use crate::{service::Service, webdriver::key};

const TYPED: &str = "document.querySelector('#composer').value";

/// OP-51: words are changed and sent again, asked again and quoted; what waits is taken back. The former stays readable.
#[tokio::test]
async fn a_message_is_edited_asked_again_quoted_and_taken_back() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply First.").await;
    until_last_turn_is(&browser, "done").await;

    press(&browser, "Edit").await;
    browser.until(&format!("{TYPED} === '#reply First.'")).await;
    browser.keys("#composer", &format!(" Better.{}", key::ENTER)).await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;
    browser.click_on(&format!("[...{TURNS}[1].querySelectorAll('.foot button')].at(-1)")).await;
    browser.until(&format!("{TURNS}.length === 3")).await;
    until_last_turn_is(&browser, "done").await;
    assert_eq!(
        answers(&browser).await,
        json!([
            ["#reply First.", ["First."]],
            ["#reply First. Better.", ["First. Better."]],
            ["#reply First. Better.", ["First. Better."]],
        ])
    );
    press(&browser, "Quote").await;
    browser.until(&format!("{TYPED}.startsWith('> First.')")).await;
    browser.fill("#composer", "").await;

    send(&browser, "#say Slow.\n#wait 60000\n#reply Never.").await;
    until_last_turn_is(&browser, "running").await;
    send(&browser, "#reply Not yet.").await;
    until_last_turn_is(&browser, "queued").await;
    press(&browser, "Take back").await;
    until_last_turn_is(&browser, "cancelled").await;
    browser.until(&format!("{TYPED} === '#reply Not yet.'")).await;
    browser.click("#stop").await;
    browser
        .until(&format!("{TURNS}.every(turn => turn.getAttribute('aria-busy') === 'false')"))
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51, OP-54: what another team says and calls is seen while it does, in the chat and on the task's page, and stopped there.
#[tokio::test]
async fn delegated_work_is_seen_as_it_happens_and_stopped_in_its_card() {
    let service = Service::start_working().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(
        &browser,
        "delegate research: #say Looking **around**.\n#call glob {\"pattern\":\"*\"}\n#then\n#say Still at it.\n#wait 60000\n#reply Never.",
    )
    .await;
    let seen = "[document.querySelector('hw-working strong')?.textContent, \
                document.querySelector('hw-working .calls code')?.textContent, \
                document.querySelector('hw-working').textContent.includes('Still at it.')]";
    browser.until("document.querySelector('.given hw-working')").await;
    browser.until(&format!("{seen}.join() === 'around,glob,true'")).await;
    let task = browser.value("document.querySelector('.given-link').hash").await;
    go(&browser, task.as_str().unwrap()).await;
    browser.until("document.querySelector('hw-task, .task-columns')").await;
    browser
        .until(&format!(
            "document.querySelector('hw-working') && {seen}.join() === 'around,glob,true'"
        ))
        .await;
    browser.run("history.back()").await;
    browser.until("document.querySelector('.given button')").await;

    press(&browser, "Stop the work of research").await;
    browser.until("document.querySelector('.given .pill')?.textContent === 'cancelled'").await;

    let rows = data(&service, "/api/v1/tasks?team=research").await;
    assert_eq!(rows[0]["state"], "cancelled");
    assert_eq!(
        browser.value("document.querySelectorAll('hw-working:not([hidden])').length").await,
        0
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51: the composer offers commands and teams; a team answers where it was asked, and after a reload too.
#[tokio::test]
async fn any_team_is_talked_to_and_menus_need_no_mouse() {
    let service = Service::start_working().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let offers = "[...document.querySelectorAll('#offers [role=option] strong')].map(one => one.textContent)";

    browser.keys("#composer", "/re").await;
    browser.until(&format!("{offers}.join() === '/rename <name>'")).await;
    browser.keys("#composer", key::TAB).await;
    browser.until(&format!("{TYPED} === '/rename '")).await;
    browser.fill("#composer", "").await;
    browser.keys("#composer", "@res").await;
    browser.until(&format!("{offers}.join() === '@research'")).await;
    browser.keys("#composer", key::ESCAPE).await;
    browser.until(&format!("{offers}.length === 0")).await;
    browser.fill("#composer", "").await;
    browser.keys("#composer", "@res").await;
    browser.until(&format!("{offers}.length === 1")).await;
    browser.keys("#composer", key::ENTER).await;
    browser.until("decodeURIComponent(location.hash) === '#/chat/@research'").await;
    until_shown(&browser, "Talk to research").await;

    send(&browser, "#reply From research.").await;
    until_last_turn_is(&browser, "done").await;
    go(&browser, "#/chat?new=1").await;
    browser.until(&format!("{TURNS}.length === 0")).await;
    send(&browser, "@research #reply Once more.").await;
    browser.until("decodeURIComponent(location.hash) === '#/chat/@research'").await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;
    let said = json!([
        ["#reply From research.", ["From research."]],
        ["#reply Once more.", ["Once more."]]
    ]);
    assert_eq!(answers(&browser).await, said);
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until(&format!("{TURNS}.length === 2")).await;

    assert_eq!(answers(&browser).await, said);
    let tasks = data(&service, "/api/v1/tasks?team=research&type=chat").await;
    assert_eq!(tasks.as_array().unwrap().len(), 2);
    has_no_complaints(&browser).await;
    browser.close().await;
}
