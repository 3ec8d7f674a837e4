//! The web page in a real browser, against the real service with the offline demo provider.

use serde_json::{Value, json};

use crate::{
    service::Service,
    webdriver::{Browser, key},
};

mod access;
mod attacks;
mod authority;
mod chain;
mod chat;
mod composing;
mod connecting;
mod deciding;
mod devices;
mod files;
mod granting;
mod history;
mod instructions;
mod keyboard;
mod live;
mod load;
mod logs;
mod losses;
mod memory;
mod models;
mod organisation;
mod outage;
mod pictures;
mod plugins;
mod rendering;
mod search;
mod settings;
mod states;
mod tasks;
mod team;
mod told;
mod topics;
mod triggers;
mod usage;
mod vault;
mod views;

const ONLINE: &str = "document.querySelector('#connection')?.dataset.state === 'online'";
const TURNS: &str = "[...document.querySelectorAll('.turn')]";

/// Files are written only after somebody was asked.
const ASKING: &str = "
store: {durability: process}
policy:
  - id: ask-write
    effect: require_approval
    resource: tool:write
    note: files are seen by everyone
";
const TEAM: &str = "allowed_tools: [\"@files\", \"@shell\", \"@org\", \"@memory\", \"@vault\"]\n";

/// A browser that has followed the login link and is connected.
async fn chat(service: &Service) -> Option<Browser> {
    let browser = Browser::start().await?;
    browser.open(&service.login_link().await).await;
    browser.until(ONLINE).await;
    browser.until("document.querySelector('#composer')").await;
    Some(browser)
}

/// Types a message and sends it with Enter; lines are parted with Shift+Enter.
async fn send(browser: &Browser, message: &str) {
    let new_line = format!("{}{}{}", key::SHIFT, key::ENTER, key::SHIFT);
    let typed = message.replace('\n', &new_line);
    browser.keys("#composer", &(typed + key::ENTER)).await;
}

async fn until_last_turn_is(browser: &Browser, status: &str) {
    let expression = format!("{TURNS}.at(-1)?.dataset.status === '{status}'");
    browser.until(&expression).await;
}

async fn answers(browser: &Browser) -> Value {
    let expression = format!(
        "{TURNS}.map(turn => [turn.querySelector('.bubble').textContent, \
         [...turn.querySelectorAll('.answer > .markdown')].map(text => text.innerText)])"
    );
    browser.value(&expression).await
}

/// Goes to a view as a link would.
async fn go(browser: &Browser, hash: &str) {
    browser.run(&format!("location.hash = {}", json!(hash))).await;
}

/// Presses the button that says this, in the dialog if there is one.
async fn press(browser: &Browser, word: &str) {
    let word = json!(word);
    let button = format!(
        "[...(document.querySelector('dialog[open]') ?? document.querySelector('#view')) \
         .querySelectorAll('button, a.button, summary')].find(one => !one.disabled \
         && (one.getAttribute('aria-label') ?? one.textContent).trim().startsWith({word}))"
    );
    browser.click_on(&button).await;
}

/// Sends the form of the dialog, which is over then.
async fn submit(browser: &Browser) {
    browser.click("dialog[open] [type=submit]").await;
    browser.until("!document.querySelector('dialog[open]')").await;
}

/// Waits until the view says something.
async fn until_shown(browser: &Browser, words: &str) {
    let words = json!(words);
    browser.until(&format!("document.querySelector('#view').textContent.includes({words})")).await;
}

/// Waits until the view says something no more.
async fn until_gone(browser: &Browser, words: &str) {
    let words = json!(words);
    browser.until(&format!("!document.querySelector('#view').textContent.includes({words})")).await;
}

/// Waits until the page reports that.
async fn until_told(browser: &Browser, words: &str) {
    let words = json!(words);
    browser
        .until(&format!(
            "(() => {{ const at = window.told.findIndex(one => one.includes({words})); \
             return at >= 0 && window.told.splice(at, 1); }})()"
        ))
        .await;
}

/// What the service says of a thing.
async fn data(service: &Service, path: &str) -> Value {
    let (status, mut answer) = service.api("GET", path, None).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer["data"].take()
}

/// Tells the service to do something.
async fn order(service: &Service, method: &str, path: &str, body: Value) -> Value {
    let (status, mut answer) = service.api(method, path, Some(body)).await;
    assert!(status < 300, "{path}: {status} {answer}");
    answer["data"].take()
}

async fn has_no_complaints(browser: &Browser) {
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// A service whose writing is asked for.
async fn asking() -> Service {
    Service::prepare()
        .with_file("data/config/config.yaml", ASKING)
        .with_file("run/teams/main/config.yaml", TEAM)
        .started()
        .await
}

/// A service that has something to show in every view.
async fn furnished() -> Service {
    let service = asking().await;
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    let trigger = json!({
        "team": "main", "name": "weekly", "type": "schedule", "config": {"cron": "0 9 * * 1"},
        "task": "Sum up the week", "enable": true,
    });
    let memory =
        json!({"team": "main", "key": "tone", "content": "Short letters.", "type": "context"});
    let secret = json!({"value": "a-value-nobody-sees", "secret": true});
    for (method, path, body) in [
        ("POST", "/api/v1/teams", team),
        ("POST", "/api/v1/triggers", trigger),
        ("POST", "/api/v1/memories", memory),
        ("PUT", "/api/v1/vault/system/smtp-password", secret),
    ] {
        order(&service, method, path, body).await;
    }
    let mut client = service.connect().await;
    client.ask("hello").await;
    client.say("held", &write("a.md")).await;
    client.until(|frame| frame["type"] == "notification" && frame["kind"] == "approval").await;
    let question = json!({"question": "Which tone?", "options": ["Friendly", "Formal"]});
    client.say("asked", &format!("#call ask_operator {question}\n#reply asked")).await;
    client.end_of("asked").await;
    service
}

/// A message that makes the demo write a file.
fn write(path: &str) -> String {
    let file = json!({"file_path": path, "content": "written"});
    format!("#call write {file}\n#reply {{result}}")
}
