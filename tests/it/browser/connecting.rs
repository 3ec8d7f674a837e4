//! Discord and MCP servers are connected in the page.

use serde_json::{Value, json};

use super::{asking, chat, data, go, has_no_complaints, press, submit, until_shown, until_told};
use crate::{
    fake_discord::{FakeDiscord, TOKEN},
    mcp::far,
    service::Service,
    web_server::WebServer,
    webdriver::Browser,
};

/// What the form says of its trial.
async fn until_tried(browser: &Browser, words: &str) {
    let words = json!(words);
    browser
        .until(&format!("document.querySelector('dialog .tried')?.textContent.includes({words})"))
        .await;
}

async fn holds(browser: &Browser, secret: &str) -> bool {
    let page = browser.value("document.documentElement.outerHTML").await;
    page.as_str().unwrap().contains(secret)
}

/// OP-63, OP-75: the token is tried and goes into the vault, the setting is seen before it is written, and the bot answers
/// who was named.
#[tokio::test]
async fn discord_is_tried_and_connected_in_the_page() {
    let discord = FakeDiscord::start();
    let channels = format!(
        "ws:\n  enabled: true\ndiscord:\n  # token: none yet\n  api_url: '{}'\ntopics: {{model: never}}\n",
        discord.url()
    );
    let service = Service::prepare()
        .with_file("data/config/channels.yaml", &channels)
        .with_file("run/teams/main/config.yaml", crate::service::WORKS_ITSELF)
        .started()
        .await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/settings/service").await;

    press(&browser, "Connect Discord…").await;
    browser.fill("dialog [name=token]", "wrong-token").await;
    press(&browser, "Try it").await;
    until_tried(&browser, "Discord does not accept the bot's token").await;
    browser.fill("dialog [name=token]", TOKEN).await;
    browser.fill("dialog [name=people]", "4001").await;
    press(&browser, "Try it").await;
    until_tried(&browser, "The token belongs to hive").await;
    press(&browser, "Review changes").await;
    browser.until("document.querySelector('dialog .diff .added')").await;
    let added = browser.text("dialog .diff .added").await;
    assert_eq!(added.trim(), "+   token: ${vault:discord.token}");
    // Whoever only looks has changed nothing.
    assert_eq!(data(&service, "/api/v1/vault").await, json!([]));
    submit(&browser).await;
    until_told(&browser, "Saved. The bot connects now.").await;

    discord.connected(1).await;
    service.until("/api/v1/trust", |rows| rows[0]["sender_id"] == "4001").await;
    discord.say(5_001, 4_001, "#reply Welcome.");
    discord.post_with("Welcome.").await;
    until_shown(&browser, "connected").await;
    press(&browser, "Connect Discord…").await;
    browser.fill("dialog [name=token]", "another-token").await;
    press(&browser, "Review changes").await;
    browser.until("document.querySelector('dialog h2')?.textContent.startsWith('Replace')").await;
    press(&browser, "Cancel").await;
    let kept = data(&service, "/api/v1/vault/system/discord.token").await;
    assert_eq!(kept["version"], 1);
    let file = std::fs::read_to_string(service.path("data/config/channels.yaml")).unwrap();
    assert!(!file.contains(TOKEN) && !holds(&browser, TOKEN).await, "{file}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-53, OP-63: a server is tried with its key, which is kept in the vault of the team, and its tools are there then.
#[actix::test]
async fn an_mcp_server_is_tried_and_connected_in_the_page() {
    const KEY: &str = "a-key-of-the-far-server";
    let far = WebServer::start(far::answer).await;
    let url = far.url("/mcp");
    let host = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let service = asking().await;
    service.write(
        "run/teams/main/config.yaml",
        &format!(
            "allowed_tools: [\"@files\"]\negress:\n  allow_private: ['{host}']\nmcp_servers: {{}}\n"
        ),
    );
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/team/main").await;

    press(&browser, "Connect an MCP server…").await;
    browser.fill("dialog [name=name]", "far").await;
    browser.fill("dialog [name=url]", "http://127.0.0.1:9/mcp").await;
    press(&browser, "Try it").await;
    browser.until("document.querySelector('dialog .tried .problem')").await;
    browser.fill("dialog [name=url]", &url).await;
    browser.fill("dialog [name=key]", KEY).await;
    press(&browser, "Try it").await;
    until_tried(&browser, "It offers 4 tools: cut, echo, stop, wait").await;
    press(&browser, "Review changes").await;
    browser.until("document.querySelector('dialog .diff .added')").await;
    assert_eq!(data(&service, "/api/v1/vault").await, json!([]));
    submit(&browser).await;
    until_told(&browser, "Saved").await;
    until_shown(&browser, "not trusted").await;

    let file = data(&service, "/api/v1/teams/main/config").await;
    let text = file["content"].as_str().unwrap();
    assert!(text.contains("\"@files\", \"mcp.far.*\""), "{text}");
    assert!(text.contains("Bearer ${vault:mcp-far}"), "{text}");
    assert_eq!(file["problems"], Value::Array(Vec::new()));
    let sent = far.requests().join("\n").to_lowercase();
    assert!(sent.contains(&format!("authorization: bearer {KEY}")), "{sent}");
    assert!(!holds(&browser, KEY).await);
    has_no_complaints(&browser).await;
    browser.close().await;
}
