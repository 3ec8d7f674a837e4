//! Plugins in the page: a channel is set up step by step, an update waits for a person.

use super::{access, chat, data, go, has_no_complaints, press, submit, until_shown, until_told};
use crate::{plugin_packages, service::Service};

/// PL-54, PL-55, PL-60
#[tokio::test]
async fn a_channel_is_set_up_on_the_page_of_a_team() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/main").await;
    until_shown(&browser, "echo-channel").await;

    press(&browser, "Set up echo-channel").await;
    browser.fill("dialog [name=secret]", "not long enough").await;
    browser.click("dialog[open] [type=submit]").await;
    let problem = "document.querySelector('dialog .problem')?.textContent";
    browser.until(&format!("{problem}?.includes('at least 24 characters')")).await;
    browser.fill("dialog [name=secret]", "long enough for a secret").await;
    submit(&browser).await;

    until_told(&browser, "Echo is set up, and switched on.").await;
    until_shown(&browser, "/hooks/channels/main/echo-channel").await;
    let rows = data(&service, "/api/v1/teams/main/plugins").await;
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "echo-channel").unwrap();
    assert_eq!(row["config"]["channel"]["secret"], "${vault:plugin.echo-channel.channel.secret}");
    has_no_complaints(&browser).await;
}

/// PL-57: an update that asks for more is seen with the plugin, and decided on there.
#[tokio::test]
async fn an_update_that_waits_is_shown_and_decided_on() {
    let service = Service::start().await;
    let (folder, archive) = (service.path("greeter"), service.path("greeter.tar.gz"));
    let first = include_str!("../plugin_packages/greeter/plugin.toml");
    let more = "\n[sandbox]\nnetwork = \"broker\"\nhosts = [\"one.example.org\"]\n";
    service.write("greeter/plugin.toml", first);
    service.write("greeter/main.js", include_str!("../plugin_packages/greeter/main.js"));
    assert_eq!(plugin_packages::send(&service, &folder, &archive).await.0, 201);
    let second = first.replace("version = \"1.0.0\"", "version = \"1.1.0\"");
    service.write("greeter/plugin.toml", &(second + more));
    assert_eq!(plugin_packages::send(&service, &folder, &archive).await.0, 202);
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/settings/plugins").await;
    until_shown(&browser, "Version 1.1.0 asks for more than was agreed to.").await;
    until_shown(&browser, "network: reaches `one.example.org`").await;
    access::has_no_findings(&browser).await;
    browser.click("hw-approval [data-act=approve]").await;

    service.until("/api/v1/plugins/greeter", |row| row["version"] == "1.1.0").await;
    browser
        .until("!document.querySelector('hw-plugins-part').textContent.includes('asks for more')")
        .await;
    until_shown(&browser, "1.1.0").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
