//! What a person decides in the page: calls and questions, in the chat and in the inbox.

use super::{
    TURNS, answers, asking, chat, furnished, go, has_no_complaints, send, until_last_turn_is, write,
};

/// What a person is asked for is in sight, whatever came before it.
const IN_SIGHT: &str = "document.querySelector('[data-act=approve]')?.getBoundingClientRect().bottom \
     <= document.querySelector('#scroll')?.getBoundingClientRect().bottom";

/// What stands below a turn that has not ended, with its clock.
const FOOT: &str =
    "[...document.querySelectorAll('.working, .clock')].map(one => one.textContent).join()";

/// OP-51, OP-55, OP-97: a held call is approved where it is asked, and runs.
#[tokio::test]
async fn a_call_is_approved_in_the_chat_and_runs() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    browser.resize(375, 600).await;
    send(&browser, &format!("#reply {}", "A long answer. ".repeat(200))).await;
    until_last_turn_is(&browser, "done").await;
    send(&browser, &write("a.txt")).await;
    browser.until(IN_SIGHT).await;
    // No time is counted that a person takes, before and after a reload.
    browser.until(&format!("{FOOT} === 'Waiting'")).await;
    browser.reload().await;
    browser.until(&format!("{IN_SIGHT} && {FOOT} === 'Waiting'")).await;
    let card = browser.text("hw-approval").await;
    let before = service.path("run/teams/main/a.txt").exists();
    browser.click("[data-act=approve]").await;
    until_last_turn_is(&browser, "done").await;
    browser
        .until("document.querySelector('hw-approval .ask-card')?.dataset.status === 'approved'")
        .await;

    assert!(card.contains("files are seen by everyone"), "{card}");
    assert!(card.contains("\"file_path\": \"a.txt\""), "{card}");
    assert!(!before);
    assert!(service.path("run/teams/main/a.txt").exists());
    let said = answers(&browser).await.to_string();
    assert!(said.contains("Wrote"), "{said}");
    let notes =
        "[...document.querySelectorAll('#turns .note')].map((note) => note.textContent).join()";
    let notes = browser.value(notes).await.to_string();
    assert!(!notes.contains("Waiting"), "{notes}");
    // What is told of the decision makes no second card.
    assert_eq!(browser.value("document.querySelectorAll('hw-approval').length").await, 1);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-55: what a call is given scrolls in a place of its own, so that the decision stays in sight.
#[tokio::test]
async fn a_long_call_leaves_the_decision_in_sight() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let file = serde_json::json!({"file_path": "long.txt", "content": "a long line ".repeat(500)});

    browser.resize(1_000, 800).await;
    let mut client = service.connect().await;
    client.say("long", &format!("#call write {file}")).await;
    client.until(|frame| frame["type"] == "notification" && frame["kind"] == "approval").await;
    go(&browser, "#/approvals").await;
    browser.until("document.querySelector('[data-act=approve]')").await;

    let place =
        "document.querySelector('[data-act=approve]').getBoundingClientRect().bottom < innerHeight";
    assert_eq!(browser.value(place).await, true);
    let rest = "(({scrollHeight, clientHeight}) => scrollHeight > clientHeight)\
        (document.querySelector('hw-approval .fold pre'))";
    assert_eq!(browser.value(rest).await, true);
    browser.close().await;
}

/// OP-51: what a team that is talked to waits for is decided where it was talked to, also after a reload.
#[tokio::test]
async fn a_call_of_a_team_that_is_talked_to_is_approved_there() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    // The team is newer than the page.
    service.make_team("writing", "writes letters").await;
    send(&browser, &format!("@writing {}", write("a.txt"))).await;
    browser.until("location.hash === '#/chat/%40writing'").await;
    browser.until(IN_SIGHT).await;
    browser.reload().await;
    browser.until(&format!("{IN_SIGHT} && {FOOT} === 'Waiting'")).await;
    // Nothing of it waits on the page of a new topic.
    browser.until("!document.querySelector('#nav a[title=Chat] .badge')").await;
    browser.click("[data-act=approve]").await;
    until_last_turn_is(&browser, "done").await;

    assert!(service.path("run/teams/writing/a.txt").exists());
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-36, OP-55: the note of a denial reaches the model.
#[tokio::test]
async fn a_call_is_denied_with_a_note_that_the_model_reads() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, &write("b.txt")).await;
    browser.until("document.querySelector('[data-act=deny]')").await;
    browser.click("[data-act=deny]").await;
    browser.keys("dialog [name=note]", "not in this folder").await;
    browser.click("dialog [type=submit]").await;
    until_last_turn_is(&browser, "done").await;

    browser
        .until(&format!(
            "{TURNS}.at(-1).querySelector('.answer').textContent.includes('not in this folder')"
        ))
        .await;
    assert!(!service.path("run/teams/main/b.txt").exists());
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-55, OP-71: the inbox, its counts, and a decision that another took first.
#[tokio::test]
async fn the_inbox_counts_what_waits_and_says_who_was_first() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let waiting =
        "document.querySelector(\".nav a[href='#/approvals'] .badge\")?.firstChild.textContent";

    go(&browser, "#/approvals").await;
    browser.until(&format!("{waiting} === '2'")).await;
    browser.until("document.querySelector('[data-act=approve]')").await;
    assert!(browser.value("document.title").await.as_str().unwrap().starts_with("(2)"));

    let (_, list) = service.api("GET", "/api/v1/approvals?status=pending", None).await;
    let held = &list["data"][0];
    let path = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
    // The card is held as it is, as if the news had not come yet.
    browser.run("window.button = document.querySelector('[data-act=approve]')").await;
    let word = serde_json::json!({"decision": "deny", "digest": held["digest"]});
    let (status, _) = service.api("POST", &path, Some(word)).await;
    assert_eq!(status, 200);
    browser.run("window.button.click()").await;
    browser
        .until(
            "document.querySelector('.toast[data-bad]')?.textContent.includes('already_resolved')",
        )
        .await;

    go(&browser, "#/approvals/questions").await;
    browser.until("document.querySelector('hw-question [type=radio]')").await;
    browser.click("hw-question .tick:nth-of-type(2)").await;
    browser.click("hw-question [type=submit]").await;
    browser
        .until("document.querySelector('#view .empty')?.textContent.includes('No open question')")
        .await;

    let (_, questions) = service.api("GET", "/api/v1/questions", None).await;
    assert_eq!(questions["data"][0]["answer"]["selected"], serde_json::json!(["Formal"]));

    // What comes in is seen there, and nothing is told over it.
    go(&browser, "#/approvals").await;
    let mut client = service.connect().await;
    client.say("another", &write("c.md")).await;
    client.until(|frame| frame["type"] == "notification" && frame["kind"] == "approval").await;
    browser.until("document.querySelector('[data-act=approve]')").await;
    let told = "window.told.filter(one => one.includes('wants to use')).length";
    assert_eq!(browser.value(told).await, 0);
    browser.close().await;
}
