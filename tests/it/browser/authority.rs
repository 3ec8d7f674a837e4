//! What the page asks before something is lost or decided alone.

use serde_json::json;

use super::{
    chat, data, furnished, go, has_no_complaints, order, press, submit, until_gone, until_shown,
};
use crate::{service::Service, webdriver::Browser};

async fn dialog_says(browser: &Browser, words: &str) {
    let words = json!(words);
    browser
        .until(&format!("document.querySelector('dialog')?.textContent.includes({words})"))
        .await;
}

/// OP-50: whoever may only look is offered what they can look at, and nothing that refuses them.
#[tokio::test]
async fn a_token_is_offered_the_views_that_it_may_see() {
    let service = furnished().await;
    let wish = json!({"name": "watcher", "scopes": ["read"]});
    let token = order(&service, "POST", "/api/v1/tokens", wish).await["token"].clone();
    let Some(browser) = Browser::start().await else {
        return;
    };

    browser.open(&service.url()).await;
    browser.fill("#token", "hwt_half-of-a-token").await;
    browser.click("#login-button").await;
    let refusal = "document.querySelector('#login-error')?.textContent";
    browser.until(&format!("{refusal}.includes('not known here')")).await;
    browser.fill("#token", token.as_str().unwrap()).await;
    browser.click("#login-button").await;
    browser.until("location.hash === '#/tasks'").await;
    // Who is logged in was asked before somebody was.
    browser.complaints().await;
    let links = "[...document.querySelectorAll('#nav a')].map(one => one.getAttribute('href'))";
    browser.until(&format!("{links}.length > 5")).await;
    let links = browser.value(links).await;
    let settings =
        "[...document.querySelectorAll('.tabbar a')].map(one => one.getAttribute('href'))";
    go(&browser, "#/settings").await;
    browser.until("document.querySelectorAll('.tabbar a').length > 3").await;
    let parts = browser.value(settings).await;
    go(&browser, "#/approvals").await;
    browser.until("document.querySelector('.tabbar a[href=\"#/approvals/grants\"]')").await;
    let approvals = browser.value(settings).await;
    let mut places: Vec<&str> = Vec::new();
    for list in [&links, &parts, &approvals] {
        places.extend(list.as_array().unwrap().iter().filter_map(|one| one.as_str()));
    }
    // A view that there is not is the first that they may see.
    places.extend(["#/team/research", "#/nowhere"]);
    for place in &places {
        go(&browser, place).await;
        browser
            .until("!document.querySelector('.loading') && document.querySelector('#view h1')")
            .await;
        browser.until("document.querySelector('#view h1')?.getClientRects().length").await;
        assert_eq!(
            browser.value("document.querySelectorAll('.failure').length").await,
            0,
            "{place}"
        );
    }

    for hidden in ["#/chat", "#/vault", "#/triggers", "#/settings/tokens", "#/approvals/notices"] {
        assert!(!places.contains(&hidden), "{places:?}");
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-58: a new secret takes the place of none without a word, and keeps what the old one was for.
#[tokio::test]
async fn a_new_secret_under_a_key_that_exists_asks_first() {
    let service = Service::start().await;
    let path = "/api/v1/vault/system/smtp-password";
    let first =
        json!({"value": "correct-horse-battery", "tools": ["web_fetch"], "note": "for letters"});
    let (made, _) = service.api("PUT", path, Some(first)).await;
    assert_eq!(made, 201);
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/vault").await;
    until_shown(&browser, "smtp-password").await;
    browser.click("#view .page-head .primary").await;
    browser.keys("dialog [name=key]", "smtp-password").await;
    browser.keys("dialog [name=value]", "another-value-here").await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("[...document.querySelectorAll('dialog h2')].some(title => title.textContent.includes('Replace'))")
        .await;
    assert_eq!(data(&service, path).await["version"], 1);
    browser.click("dialog:last-of-type [type=submit]").await;
    browser.until("!document.querySelector('dialog')").await;

    let replaced = data(&service, path).await;
    assert_eq!(replaced["version"], 2);
    assert_eq!(
        (&replaced["tools"], &replaced["note"]),
        (&json!(["web_fetch"]), &json!("for letters"))
    );
    browser.close().await;
}

/// OP-12: whoever revokes a token sees what it made, and ends that with it.
#[tokio::test]
async fn revoking_a_token_offers_what_it_made() {
    let service = Service::start().await;
    let made = service.run(&["token", "create", "mother", "--scope", "admin"], "").await;
    let mother = made.stdout.trim().to_owned();
    let answer = crate::service::http()
        .post(format!("{}/api/v1/tokens", service.url()))
        .bearer_auth(&mother)
        .json(&json!({"name": "daughter", "scopes": ["admin"]}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 201);
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/tokens").await;
    until_shown(&browser, "daughter").await;
    press(&browser, "Revoke mother").await;
    dialog_says(&browser, "Also revoke the tokens it created: daughter").await;
    submit(&browser).await;

    until_gone(&browser, "daughter").await;
    let left = data(&service, "/api/v1/tokens").await;
    assert_eq!(left.as_array().unwrap().len(), 1);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// PL-77: the one person there is decides by typing the short id.
#[tokio::test]
async fn a_lone_person_decides_by_typing_the_short_id() {
    let service = Service::prepare()
        .with_file(
            "data/config/config.yaml",
            "policy: [{id: risky, resource: \"tool:write\", effect: require_approval, risk: high}]\n",
        )
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\"]\n")
        .started()
        .await;
    let mut client = service.connect().await;
    client
        .say("m1", "#call write {\"file_path\":\"a.md\",\"content\":\"x\"}\n#reply Wrote it.")
        .await;
    let card =
        client.until(|frame| frame["kind"] == "approval" && frame["status"] == "pending").await;
    let id = card["ref_id"].as_str().unwrap().to_owned();
    let row = data(&service, &format!("/api/v1/approvals/{id}")).await;
    let short = row["short_id"].as_str().unwrap().to_owned();
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/approvals").await;
    browser.until("document.querySelector('[data-act=approve]')").await;
    browser.click("[data-act=approve]").await;
    dialog_says(&browser, "nobody else could decide").await;
    browser.keys("dialog [name=typed]", &short).await;
    submit(&browser).await;
    client.end_of("m1").await;

    let row = data(&service, &format!("/api/v1/approvals/{id}")).await;
    assert_eq!((&row["status"], &row["alone"]), (&json!("approved"), &json!(true)));
    browser.close().await;
}
