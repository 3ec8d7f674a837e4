//! Plugins on the page of a team: a channel is set up step by step.

use super::{chat, data, go, has_no_complaints, press, submit, until_shown, until_told};
use crate::service::Service;

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
