//! Triggers: made by a form that shows what it comes to, switched, changed, run and deleted.

use serde_json::json;

use super::{
    access::has_no_findings, chat, data, furnished, go, has_no_complaints, order, press, submit,
    until_gone, until_shown, until_told,
};
use crate::service::Service;

/// OP-56: the next times are there before the trigger is.
#[tokio::test]
async fn a_trigger_is_made_by_a_form_that_shows_its_times() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/triggers?new=1").await;
    browser.until("document.querySelector('dialog [name=name]')").await;
    browser.keys("dialog [name=name]", "weekly-report").await;
    browser.keys("dialog [name=task]", "Sum up the week").await;
    // It begins with something that everybody understands.
    let cron = "document.querySelector(\"dialog [name='config.cron']\")";
    browser.until("document.querySelectorAll('.preview .times li').length === 10").await;
    let begins = "document.querySelector(\"dialog [name='said.repeats']\").selectedOptions[0].text";
    assert_eq!(browser.value(begins).await, "Every day");
    assert_eq!(browser.value(&format!("{cron}.checkVisibility()")).await, false);
    browser.choose("dialog [name='said.repeats']", "").await;
    browser.fill("dialog [name='config.cron']", "not a pattern").await;
    browser.until("document.querySelector('.preview')?.dataset.bad === 'true'").await;
    // As people say it.
    browser.choose("dialog [name='said.repeats']", "week").await;
    browser.choose("dialog [name='said.weekday']", "1").await;
    browser.until(&format!("{cron}.value === '0 9 * * 1'")).await;
    browser.until("document.querySelectorAll('.preview .times li').length === 10").await;
    // What could not be read so far was refused, as it should be.
    browser.complaints().await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('#view h1')?.textContent === 'weekly-report'").await;

    let (_, list) = service.api("GET", "/api/v1/triggers", None).await;
    assert_eq!(list["data"][0]["config"], json!({"cron": "0 9 * * 1"}));
    assert_eq!(list["data"][0]["state"], "active");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-56
#[tokio::test]
async fn a_trigger_is_switched_changed_run_and_deleted() {
    let service = furnished().await;
    let list = data(&service, "/api/v1/triggers").await;
    let path = format!("/api/v1/triggers/{}", list[0]["id"].as_str().unwrap());
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/triggers").await;
    browser
        .click_on(
            "[...document.querySelectorAll('.rows a')].find(one => one.textContent === 'weekly')",
        )
        .await;
    press(&browser, "Disable").await;
    until_told(&browser, "Disabled.").await;
    press(&browser, "Enable").await;
    until_told(&browser, "Enabled.").await;
    assert_eq!(data(&service, &path).await["state"], "active");
    press(&browser, "Disable").await;
    until_shown(&browser, "None: it is not active.").await;
    assert_eq!(data(&service, &path).await["state"], "disabled");

    press(&browser, "Edit…").await;
    browser.choose("dialog [name='said.repeats']", "").await;
    browser.fill("dialog [name='config.cron']", "30 10 * * 2").await;
    browser
        .until("document.querySelector('.preview .times li')?.textContent.includes('10:30')")
        .await;
    browser.fill("dialog [name=task]", "Sum up the weekend").await;
    submit(&browser).await;
    until_shown(&browser, "Sum up the weekend").await;
    let changed = data(&service, &path).await;
    assert_eq!(changed["config"], json!({"cron": "30 10 * * 2"}));
    assert_eq!(changed["task"], "Sum up the weekend");

    press(&browser, "Run now").await;
    browser.choose("dialog [name=overlap]", "allow").await;
    submit(&browser).await;
    browser
        .until("document.querySelector('.rows [data-name=Outcome] .pill')?.textContent === 'ok'")
        .await;
    let runs = data(&service, &format!("{path}/runs")).await;
    assert_eq!(runs[0]["cause"], "manual");

    press(&browser, "Cursors").await;
    press(&browser, "Change cursors…").await;
    browser.fill("dialog [name=cursors]", "nonsense").await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('dialog .problem')?.textContent.includes('name = value')")
        .await;
    browser.fill("dialog [name=cursors]", "last_id = 42").await;
    submit(&browser).await;
    until_shown(&browser, "\"last_id\": \"42\"").await;
    assert_eq!(data(&service, &path).await["cursors"], json!({"last_id": "42"}));

    press(&browser, "Delete…").await;
    submit(&browser).await;
    until_shown(&browser, "No triggers yet").await;
    assert_eq!(service.api("GET", &path, None).await.0, 404);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-02, OP-56: filters look at all of them, and a list goes on.
#[tokio::test]
async fn a_trigger_is_found_among_many() {
    let service = Service::start().await;
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    order(&service, "POST", "/api/v1/teams", team).await;
    for (team, most) in [("main", 45), ("research", 20)] {
        for number in 0..most {
            let trigger = json!({
                "team": team, "name": format!("{team}-{number:02}"), "type": "keyword",
                "config": {"pattern": "invoice"}, "task": "Look at it",
            });
            order(&service, "POST", "/api/v1/triggers", trigger).await;
        }
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    let rows = "document.querySelectorAll('.rows tbody tr').length";

    go(&browser, "#/triggers").await;
    until_shown(&browser, "60 of 65 shown.").await;
    browser.choose("[aria-label=Team]", "research").await;
    browser.until(&format!("{rows} === 20")).await;
    browser.fill("#view .search", "-19").await;
    browser.until(&format!("{rows} === 1")).await;
    browser.choose("[aria-label=Type]", "schedule").await;
    until_shown(&browser, "No trigger matches these filters.").await;
    press(&browser, "Show all").await;
    press(&browser, "Show more").await;
    browser.until(&format!("{rows} === 65")).await;
    until_gone(&browser, "Show more").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// TR-59, TR-85: what a webhook brings is allowed in the same form that makes it.
#[tokio::test]
async fn a_webhook_is_made_and_enabled_by_the_form() {
    let service = Service::start().await;
    let secret = json!({"value": "a-secret-of-more-than-24-bytes"});
    order(&service, "PUT", "/api/v1/vault/team:main/HOOK", secret).await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/triggers?new=1").await;
    browser.until("document.querySelector('dialog [name=name]')").await;
    browser.keys("dialog [name=name]", "push").await;
    browser.keys("dialog [name=task]", "Look at it").await;
    browser.choose("dialog [name=type]", "webhook").await;
    browser.fill("dialog [name='config.secret']", "${vault:HOOK}").await;
    browser.click("dialog [name=allow_untrusted]").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('#view h1')?.textContent === 'push'").await;

    let made = data(&service, "/api/v1/triggers").await[0].clone();
    assert_eq!(
        (&made["state"], &made["allow_untrusted"], &made["overlap_policy"]),
        (&json!("active"), &json!(true), &json!("allow"))
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// TR-50, TR-59: what is emptied is cleared, one way of being due takes the place of another, and what the
/// service refuses is not offered, or named.
#[tokio::test]
async fn a_trigger_is_changed_field_by_field() {
    let service = Service::start().await;
    let trigger = json!({
        "team": "main", "name": "weekly", "type": "schedule", "task": "Sum up",
        "config": {"cron": "0 9 * * 1", "timezone": "Europe/Berlin"}, "max_steps": 7,
        "quiet": {"from": "22:00", "to": "07:00"},
    });
    order(&service, "POST", "/api/v1/triggers", trigger).await;
    let made = data(&service, "/api/v1/triggers").await[0].clone();
    let path = format!("/api/v1/triggers/{}", made["id"].as_str().unwrap());
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, &format!("#/triggers/{}", made["id"].as_str().unwrap())).await;
    press(&browser, "Edit…").await;
    browser.until("document.querySelector('dialog [name=priority]')").await;
    let offered = browser
        .value("[...document.querySelectorAll('dialog [name=priority] option')].map(one => one.value).join()")
        .await;
    assert_eq!(offered, "high,normal,low");
    browser.choose("dialog [name='said.repeats']", "").await;
    for emptied in ["config.cron", "config.timezone", "max_steps", "quiet.from", "quiet.to"] {
        let empty = format!("document.querySelector(\"dialog [name='{emptied}']\").value = ''");
        browser.run(&empty).await;
    }
    browser.fill("dialog [name='config.every']", "30m").await;
    browser.run("document.querySelector('dialog details').open = true").await;
    browser.fill("dialog [name=notify_channel]", "ws:nobody").await;
    browser.click("dialog [type=submit]").await;
    browser
        .until("document.querySelector('dialog .problem')?.textContent.includes('no channel ws:nobody')")
        .await;
    browser.complaints().await;
    browser.run("document.querySelector('dialog [name=notify_channel]').value = ''").await;
    submit(&browser).await;
    until_shown(&browser, "30m").await;

    let changed = data(&service, &path).await;
    assert_eq!(changed["config"], json!({"every": "30m"}));
    assert_eq!((&changed["max_steps"], &changed["quiet"]), (&json!(null), &json!(null)));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-127: what is due in the next 24 hours is there by the hour, in the time of whoever looks, and follows what is changed.
#[tokio::test]
async fn the_next_day_of_all_triggers_is_seen_at_a_glance() {
    let service = Service::start().await;
    service.make_team("research", "finds things out").await;
    for (team, name, config, enable) in [
        ("main", "hourly", json!({"cron": "0 * * * *"}), true),
        ("research", "dense", json!({"every": "1m"}), true),
        ("main", "resting", json!({"cron": "5 * * * *"}), false),
    ] {
        let trigger = json!({"team": team, "name": name, "type": "schedule", "config": config, "task": "Look", "enable": enable});
        order(&service, "POST", "/api/v1/triggers", trigger).await;
    }
    let Some(browser) = chat(&service).await else {
        return;
    };
    let of = |name: &str, rest: &str| {
        format!(
            "[...document.querySelectorAll('.due')].filter(one => one.querySelector('strong').textContent === '{name}'){rest}"
        )
    };

    go(&browser, "#/triggers").await;
    browser.until(&of("hourly", ".length >= 24")).await;
    browser.until(&of("resting", ".length >= 24")).await;
    let agenda = data(&service, "/api/v1/triggers/agenda?q=hourly&limit=200").await;
    let stored: Vec<i64> =
        agenda.as_array().unwrap().iter().map(|row| millis(&row["at"])).collect();
    let shown = browser
        .value(&of("hourly", ".map(one => Date.parse(one.querySelector('time').dateTime))"))
        .await;
    let shown: Vec<i64> = serde_json::from_value(shown).unwrap();
    assert!(shown.iter().all(|at| stored.contains(at) || *at < stored[0]), "{shown:?} {stored:?}");
    // The local time, with that of UTC on hover.
    let told = browser.value(&of("hourly", "[0].querySelector('time').title")).await;
    assert!(told.as_str().unwrap().ends_with(":00:00.000Z"), "{told}");
    let dense = browser.value(&of("dense", "[2].textContent")).await;
    assert!(dense.as_str().unwrap().contains("15 times"), "{dense}");
    let off = browser
        .value(&of(
            "resting",
            ".every(one => 'off' in one.dataset && one.textContent.includes('pending'))",
        ))
        .await;
    assert_eq!(off, true);
    has_no_findings(&browser).await;

    order(&service, "POST", "/api/v1/teams/research/pause", json!({})).await;
    browser.until(&of("dense", ".every(one => one.textContent.includes('team paused'))")).await;
    browser.choose("[aria-label=Team]", "main").await;
    browser.until(&of("dense", ".length === 0")).await;
    browser.resize(375, 780).await;
    browser.until("innerWidth === 375").await;
    has_no_findings(&browser).await;
    browser.click_on(&of("hourly", "[0]")).await;
    browser.until("document.querySelector('#view h1')?.textContent === 'hourly'").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

fn millis(at: &serde_json::Value) -> i64 {
    at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond()
}
