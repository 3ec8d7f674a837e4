//! Settings: files checked and read again, tokens, trust, identities, rules, backups, the doctor, the audit.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    ASKING, asking, chat, data, go, has_no_complaints, order, press, submit, until_gone,
    until_shown, until_told,
};
use crate::service::{Service, http};

/// What a request with a token is answered with.
async fn status(service: &Service, token: &str) -> u16 {
    let request = http().get(format!("{}/api/v1/overview", service.url()));
    let answer = request.bearer_auth(token).send().await.unwrap();
    answer.status().as_u16()
}

/// OP-11, OP-12, OP-63
#[tokio::test]
async fn a_token_is_made_and_revoked() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/tokens").await;
    press(&browser, "New token").await;
    browser.fill("dialog [name=name]", "nightly-job").await;
    browser.choose("dialog [name=expires]", "30d").await;
    browser.click("dialog [name='scope.metrics']").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('dialog .token code')").await;
    let token = browser.text("dialog .token code").await;
    assert_eq!(status(&service, &token).await, 200);
    submit(&browser).await;
    until_shown(&browser, "nightly-job").await;
    let rows = data(&service, "/api/v1/tokens").await;
    let made = rows.as_array().unwrap().iter().find(|row| row["name"] == "nightly-job");
    assert_eq!(made.unwrap()["scopes"], json!(["read", "metrics"]));
    let everywhere = browser.value("document.documentElement.outerHTML").await;
    assert!(!everywhere.as_str().unwrap().contains(&token));

    press(&browser, "Revoke nightly-job").await;
    submit(&browser).await;
    until_gone(&browser, "nightly-job").await;
    assert_eq!(status(&service, &token).await, 401);

    go(&browser, "#/settings/logins").await;
    until_shown(&browser, "(this browser)").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-63, OP-103: what is wrong with a file is shown with its line, until it is cured.
#[tokio::test]
async fn settings_are_read_again() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/config").await;
    service.write("data/config/config.yaml", &format!("{ASKING}log: {{level: loud}}\n"));
    press(&browser, "Reload files").await;
    browser
        .until("document.querySelector('.toast[data-bad]')?.textContent.includes('config_invalid')")
        .await;
    until_shown(&browser, "config.yaml:8").await;
    // The refusal is one to the browser, too.
    browser.complaints().await;
    service.write("data/config/config.yaml", &format!("{ASKING}log: {{level: debug}}\n"));
    press(&browser, "Reload files").await;
    until_told(&browser, "Reloaded").await;
    until_gone(&browser, "config.yaml:8").await;
    let settings = data(&service, "/api/v1/config").await;
    let fields = settings["fields"].as_array().unwrap();
    let level = fields.iter().find(|row| row["path"] == "log.level");
    assert_eq!(level.unwrap()["value"], "debug");
    browser.fill("#view .search", "log.level").await;
    until_shown(&browser, "debug").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-31, OP-63, OP-115, OP-123
#[tokio::test]
async fn senders_and_rules_are_let_in_and_taken_back() {
    let service = asking().await;
    let wish = json!({"name": "ann", "scopes": ["approve"]});
    order(&service, "POST", "/api/v1/tokens", wish).await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/trust").await;
    press(&browser, "Add a sender").await;
    browser.fill("dialog [name=sender_id]", "8035111").await;
    submit(&browser).await;
    until_shown(&browser, "8035111").await;
    assert_eq!(data(&service, "/api/v1/trust").await[0]["sender_id"], "8035111");
    press(&browser, "Remove 8035111").await;
    submit(&browser).await;
    until_shown(&browser, "No senders added").await;
    assert_eq!(data(&service, "/api/v1/trust").await, json!([]));

    go(&browser, "#/settings/identities").await;
    press(&browser, "Link a sender").await;
    browser.fill("dialog [name=sender_id]", "8035111").await;
    browser.fill("dialog [name=token]", "ann").await;
    submit(&browser).await;
    until_shown(&browser, "8035111").await;
    assert_eq!(data(&service, "/api/v1/identities").await[0]["token"], "ann");
    press(&browser, "Unlink 8035111").await;
    submit(&browser).await;
    until_shown(&browser, "Nobody is linked").await;
    assert_eq!(data(&service, "/api/v1/identities").await, json!([]));

    go(&browser, "#/settings/policy").await;
    press(&browser, "New policy").await;
    // All that the form says it may begin with, and a name that fits each.
    let hint = "dialog label:has([name=resource]) small";
    browser.until(&format!("document.querySelector('{hint}') !== null")).await;
    let hint = browser.text(hint).await;
    let kinds: Vec<&str> = hint.split([' ', ',']).filter(|word| word.ends_with(':')).collect();
    assert_eq!(kinds.len(), 6, "{hint}");
    for (number, kind) in kinds.into_iter().enumerate() {
        let name = match kind {
            "class:" => "memory",
            "host:" => "example.org",
            _ => "docs",
        };
        let rule = json!({"id": format!("rule-{number}"), "effect": "deny", "resource": format!("{kind}{name}")});
        order(&service, "POST", "/api/v1/policies", rule).await;
    }
    browser.fill("dialog [name=id]", "no-shell").await;
    browser.choose("dialog [name=effect]", "deny").await;
    browser.fill("dialog [name=resource]", "tool:bash").await;
    submit(&browser).await;
    until_shown(&browser, "no-shell").await;
    press(&browser, "Test a call…").await;
    browser.fill("dialog [name=tool]", "write").await;
    browser.fill("dialog [name=args]", "{\"file_path\": \"a\", \"content\": \"b\"}").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('#explained')?.textContent.includes('ask-write')").await;
    press(&browser, "Close").await;
    press(&browser, "Delete no-shell").await;
    submit(&browser).await;
    until_gone(&browser, "no-shell").await;
    let rules = data(&service, "/api/v1/policies").await;
    assert!(!rules.to_string().contains("no-shell"), "{rules}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-63, OP-105
#[tokio::test]
async fn the_service_is_backed_up_and_examined() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/backups").await;
    press(&browser, "Back up").await;
    until_told(&browser, "Backup written: ").await;
    let jobs = data(&service, "/api/v1/jobs").await;
    let job = jobs.as_array().unwrap().iter().find(|job| job["kind"] == "backup");
    let job = job.unwrap();
    assert_eq!(job["state"], "done");
    assert!(Path::new(job["message"].as_str().unwrap()).exists());
    until_shown(&browser, job["message"].as_str().unwrap()).await;

    go(&browser, "#/settings/doctor").await;
    press(&browser, "Test the models too").await;
    until_told(&browser, "Checked").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-63: what is kept is shown, whoever made it and when.
#[tokio::test]
async fn backups_of_before_the_start_are_shown() {
    let mut service = asking().await;
    let made = service.run(&["backup", "--json"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    service.kill();
    service.launch().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/backups").await;
    let kept = data(&service, "/api/v1/backups").await;
    until_shown(&browser, kept[0]["file"].as_str().unwrap()).await;

    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-02, OP-63, OP-126: acts are searched on all pages.
#[tokio::test]
async fn an_act_is_found_among_many() {
    let service = asking().await;
    order(&service, "PUT", "/api/v1/vault/system/OLDEST", json!({"value": "a-long-value"})).await;
    for _ in 0..35 {
        for act in ["pause", "resume"] {
            let path = format!("/api/v1/teams/main/{act}");
            order(&service, "POST", &path, json!({})).await;
        }
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    let rows = "document.querySelectorAll('.rows tbody tr').length";

    go(&browser, "#/settings/audit").await;
    browser.until(&format!("{rows} === 60")).await;
    press(&browser, "Show more").await;
    browser.until(&format!("{rows} > 60")).await;
    browser.reload().await;
    browser.until(&format!("{rows} === 60")).await;
    browser.fill("#view .search", "oldest").await;
    until_shown(&browser, "OLDEST").await;
    browser.until(&format!("{rows} < 5")).await;
    let all: Value = data(&service, "/api/v1/audit?q=oldest").await;
    assert!(!all.as_array().unwrap().is_empty());
    has_no_complaints(&browser).await;
    browser.close().await;
}
