//! Pictures of the views for the documentation: a small office at work.

use std::{env, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{chat, data, order, send, views::shows};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

const SETTINGS: &str = "
store: {durability: process}
policy:
  - id: letters
    effect: require_approval
    resource: tool:write
    note: a person reads letters before they are sent
";

/// Name, team above it, what it is for.
const TEAMS: [(&str, &str, &str); 6] = [
    ("research", "main", "finds things out and sums them up"),
    ("writing", "main", "writes reports and newsletters"),
    ("billing", "main", "sends invoices and reminders"),
    ("support", "main", "answers the mails of customers"),
    ("libraries", "research", "looks things up in catalogues"),
    ("reminders", "billing", "reminds of open invoices"),
];

const LETTER: &str = "Dear Ms Okafor,\n\nour invoice 2041 over 180.00 euros was due on 2 May. \
    Would you have a look whether it got lost?\n\nKind regards";
const BOOKS: &str = "Three books about honey bees:\n\n\
    1. *The Dancing Bees* by Karl von Frisch: how they tell each other where the flowers are.\n\
    2. *Honeybee Democracy* by Thomas Seeley: how a swarm agrees on a new home.\n\
    3. *The Buzz about Bees* by Jürgen Tautz: the colony as one animal, with many photographs.";

/// What a model would say to the last message.
fn reply(request: &Value) -> Reply {
    let said = request["messages"].as_array().and_then(|all| all.last()).map(Value::to_string);
    let said = said.unwrap_or_default();
    let is_about = |words: &str| said.contains(words);
    if is_about("tool_result") {
        Reply::text("Research looks for them. What it finds comes here.")
    } else if is_about("for the newsletter") {
        let task = "Find three books about honey bees, with a sentence on each";
        Reply::call("delegate_task", json!({"team": "research", "task": task}))
    } else if is_about("with a sentence on each") {
        Reply::text(BOOKS)
    } else if is_about("invoice 2041") {
        Reply::call("write", json!({"file_path": "letters/2041-okafor.md", "content": LETTER}))
    } else if is_about("newsletter for May") {
        Reply::Stall("# Spring in the hives".to_owned())
    } else {
        Reply::text("Done.")
    }
}

async fn give(service: &Service, team: &str, task: &str) -> String {
    let made = order(service, "POST", "/api/v1/tasks", json!({"team": team, "task": task})).await;
    made["id"].as_str().unwrap().to_owned()
}

async fn office(model: &FakeModel) -> Service {
    let providers = format!(
        "profiles:\n  default: {{provider: anthropic, api_url: \"{}\", api_key: {KEY}}}\n",
        model.url()
    );
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/config.yaml", SETTINGS)
        .started()
        .await;
    for (name, parent, about) in TEAMS {
        let team = json!({
            "name": name, "parent": parent, "description": about, "scope_accepts": [name],
            "allowed_tools": ["@files", "@org"],
        });
        order(&service, "POST", "/api/v1/teams", team).await;
    }
    give(&service, "support", "Sum up the mails of this week").await;
    give(&service, "libraries", "List what is new about beekeeping this year").await;
    give(&service, "reminders", "Write a reminder for invoice 2041 of Ms Okafor").await;
    give(&service, "writing", "Draft the newsletter for May").await;
    give(&service, "writing", "Translate the price list into French").await;
    let unwanted = give(&service, "writing", "Write to all customers about the new prices").await;
    let path = format!("/api/v1/tasks/{unwanted}/cancel");
    order(&service, "POST", &path, json!({"reason": "after the holidays"})).await;
    service
}

/// They are written where `HIVEWRIGHT_SCREENSHOTS` names a folder.
#[tokio::test]
async fn pictures_for_the_documentation_can_be_taken() {
    let model = FakeModel::start();
    model.title(Reply::text(r#"{"title": "Books about honey bees"}"#));
    model.answer_with(reply);
    let service = office(&model).await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let folder = env::var_os("HIVEWRIGHT_SCREENSHOTS");
    browser.resize(1280, 800).await;
    send(&browser, "Find three books about honey bees for the newsletter").await;
    browser.until("document.querySelector('.notice li')").await;
    browser.until("document.querySelector('#topic-name').textContent.startsWith('Books')").await;

    for (name, hash, what, colours) in [
        ("chat", "", ".notice", "light"),
        ("tasks", "#/tasks", ".lane:nth-child(2) .task-card", "light"),
        ("approvals", "#/approvals", "hw-approval .ask-card", "light"),
        ("teams", "#/org", ".node:nth-of-type(7)", "dark"),
    ] {
        browser.prefer(colours).await;
        if !hash.is_empty() {
            shows(&browser, hash, what).await;
        }
        browser.run("document.querySelector('#toasts').replaceChildren()").await;
        let image = STANDARD.decode(browser.screenshot().await).unwrap();
        assert!(image.starts_with(b"\x89PNG"), "{name}");
        if let Some(folder) = &folder {
            fs::write(Path::new(folder).join(format!("{name}.png")), image).unwrap();
        }
    }
    let waiting = data(&service, "/api/v1/approvals?status=pending").await;
    assert_eq!(waiting[0]["tool"], "write");
    browser.close().await;
}
