//! The chat page in a real browser, against the real service with the offline demo provider.

use serde_json::{Value, json};

use crate::{
    service::Service,
    webdriver::{Browser, key},
};

const ONLINE: &str = "document.querySelector('#connection').dataset.state === 'online'";
const TURNS: &str = "[...document.querySelectorAll('.turn')]";

/// A browser that has followed the login link and is connected.
async fn chat(service: &Service) -> Option<Browser> {
    let browser = Browser::start().await?;
    browser.open(&service.login_link().await).await;
    browser.until(ONLINE).await;
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
         [...turn.querySelectorAll('.answer > .markdown')].map(text => text.textContent)])"
    );
    browser.value(&expression).await
}

async fn has_no_complaints(browser: &Browser) {
    assert_eq!(browser.complaints().await, Vec::<String>::new());
}

/// OP-14, OP-64, OP-130
#[tokio::test]
async fn a_link_logs_in_once_and_leaves_no_code_in_the_address() {
    let service = Service::start_working().await;
    let Some(browser) = Browser::start().await else {
        return;
    };
    let link = service.login_link().await;

    browser.open(&link).await;
    browser.until(ONLINE).await;

    assert_eq!(browser.value("location.hash").await, "");
    assert_eq!(browser.value("document.cookie").await, "");
    assert!(browser.text("#demo").await.starts_with("Demo."));
    has_no_complaints(&browser).await;

    browser.forget_cookies().await;
    browser.open(&link).await;
    browser
        .until("!document.querySelector('#login-error').hidden")
        .await;

    assert_eq!(
        browser
            .value("document.querySelector('#chat').hidden")
            .await,
        true
    );
    browser.close().await;
}

/// OP-51, OP-64, CH-59: words come one by one, tool calls in their place, the cost at the end.
#[tokio::test]
async fn an_answer_streams_in_with_its_tool_calls() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser
        .run(
            "window.lengths = new Set(); \
             new MutationObserver(() => window.lengths.add(document.querySelector('.answer')?.textContent.length)) \
             .observe(document.querySelector('#turns'), {subtree: true, childList: true, characterData: true})",
        )
        .await;

    send(
        &browser,
        "#say First I write the note, word by word, and only then do I read it.\n\
         #call write {\"file_path\":\"notes/hello.md\",\"content\":\"Hello\"}\n\
         #then\n\
         #call read {\"file_path\":\"notes/hello.md\"}\n\
         #reply The note is written and was read again.",
    )
    .await;
    until_last_turn_is(&browser, "done").await;

    let order = "[...document.querySelectorAll('.answer > *')].map(block => block.tagName === 'DETAILS' \
                 ? [block.dataset.state, ...['code', '.brief'].map(part => block.querySelector(`summary ${part}`).textContent)].join(' ') \
                 : block.textContent)";
    assert_eq!(
        browser.value(order).await,
        json!([
            "First I write the note, word by word, and only then do I read it.",
            "ok write notes/hello.md",
            "ok read notes/hello.md",
            "The note is written and was read again.",
        ])
    );
    assert!(browser.value("window.lengths.size").await.as_u64().unwrap() >= 3);
    assert!(browser.text(".usage").await.contains(" out · "));

    browser.click(".tool:nth-child(3) summary").await;

    let folded_out = browser.text(".tool:nth-child(3) .tool-body").await;
    assert!(
        folded_out.contains("\"file_path\": \"notes/hello.md\""),
        "{folded_out}"
    );
    assert!(folded_out.contains("Hello"), "{folded_out}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-68, CH-49
#[tokio::test]
async fn ctrl_and_full_stop_ends_the_running_turn() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(
        &browser,
        "#say Waiting now.\n#wait 30000\n#reply Never said.",
    )
    .await;
    until_last_turn_is(&browser, "running").await;
    browser
        .keys("#composer", &format!("{}.", key::CONTROL))
        .await;
    until_last_turn_is(&browser, "cancelled").await;
    send(&browser, "#reply Still here.").await;
    until_last_turn_is(&browser, "done").await;

    let said = answers(&browser).await;
    assert_eq!(said[1], json!(["#reply Still here.", ["Still here."]]));
    assert!(!said[0][1].to_string().contains("Never said."), "{said}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51, OP-67, CH-84: what was there before the reload is there after it, once.
#[tokio::test]
async fn a_reload_in_the_middle_of_a_turn_loses_and_repeats_nothing() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let first = "#say The first part.\n#wait 6000\n#reply The first end.";

    send(&browser, first).await;
    browser
        .until("document.querySelector('.answer').textContent.includes('The first part.')")
        .await;
    send(&browser, "#reply The second end.").await;
    until_last_turn_is(&browser, "queued").await;
    browser.reload().await;
    browser.until(ONLINE).await;

    let statuses = format!("{TURNS}.map(turn => turn.dataset.status)");
    assert_eq!(browser.value(&statuses).await, json!(["running", "queued"]));
    assert!(browser.text(".answer").await.contains("The first part."));

    until_last_turn_is(&browser, "done").await;

    let said = answers(&browser).await;
    let texts = said[0][1].to_string();
    assert_eq!(said.as_array().unwrap().len(), 2, "{said}");
    assert_eq!(said[0][0], first);
    assert_eq!(texts.matches("The first part.").count(), 1, "{said}");
    assert_eq!(texts.matches("The first end.").count(), 1, "{said}");
    assert_eq!(
        said[1],
        json!(["#reply The second end.", ["The second end."]])
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-65
#[tokio::test]
async fn markup_in_an_answer_stays_text() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(
        &browser,
        "#reply <img src=x> **strong** [bad](javascript:alert(1)) [good](https://example.org/)",
    )
    .await;
    until_last_turn_is(&browser, "done").await;

    let answer = "document.querySelector('.answer')";
    assert_eq!(
        browser.value(&format!("{answer}.textContent")).await,
        "<img src=x> strong [bad](javascript:alert(1)) good (https://example.org/)"
    );
    let made = "[...document.querySelectorAll('.answer :is(img, strong, a)')].map(made => \
                [made.tagName, made.getAttribute('href'), made.target, made.rel ?? ''])";
    assert_eq!(
        browser.value(made).await,
        json!([
            ["STRONG", null, null, ""],
            ["A", "https://example.org/", "_blank", "noopener noreferrer"],
        ])
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-66, OP-67
#[tokio::test]
async fn without_a_connection_sending_is_blocked_with_the_reason_and_the_text_is_kept() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    browser.unplug(true).await;
    browser
        .until("document.querySelector('#connection').dataset.state === 'offline'")
        .await;
    browser
        .keys("#composer", &format!("#reply Back.{}", key::ENTER))
        .await;

    assert!(browser.text("#blocked").await.starts_with("Offline:"));
    assert_eq!(
        browser
            .value("document.querySelector('#send').disabled")
            .await,
        true
    );

    browser.unplug(false).await;
    browser.until(ONLINE).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.click("#send").await;
    until_last_turn_is(&browser, "done").await;

    assert_eq!(
        answers(&browser).await,
        json!([["#reply Back.", ["Back."]]])
    );
    browser.close().await;
}

/// CH-85, CH-89: takes the same frames in twice, as after a resume from the start.
const REPLAY: &str = r#"return (async () => {
const { Conversation } = await import("/ui/conversation.js");
const kept = new Map();
const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
const conversation = new Conversation(storage, "someone");
conversation.beginChannel("ws:1");
const turn = conversation.compose("question", "");
const about = { channel_id: "ws:1", topic_id: "t-1", topic_name: "Topic", message_id: turn.id, task_id: "task-1", ts: 5 };
const frames = [
  { ...about, seq: 1, type: "ack", content: "Let me see.", generated: true, position: 0 },
  { ...about, seq: 2, type: "progress", kind: "text_delta", content: "Let me " },
  { ...about, seq: 3, type: "progress", kind: "text_delta", content: "see." },
  { ...about, seq: 5, type: "progress", kind: "tool_call", content: "Using read", tool: "read", call_id: "c", preview: "{}" },
  { ...about, seq: 6, type: "progress", kind: "tool_result", content: "Used read", tool: "read", call_id: "c", ok: true, duration_ms: 7, preview: "text" },
  { ...about, seq: 8, type: "progress", kind: "text_delta", content: "half a sen" },
  { ...about, seq: 9, type: "progress", kind: "note", content: "Trying again", reset: true },
  { ...about, seq: 10, type: "progress", kind: "text_delta", content: "The end" },
  { ...about, seq: 12, type: "response", content: "The end.", status: "done" },
  { ...about, seq: 13, type: "notification", content: "[team] Ready.", team: "team", status: "done", kind: "task", message_id: undefined },
];
const taken = frames.map((frame) => conversation.apply(frame));
const once = JSON.stringify(conversation.logs);
const again = frames.map((frame) => conversation.apply(frame));
conversation.lastSeq = 0;
for (const frame of frames) conversation.apply(frame);
const twice = JSON.stringify(conversation.logs);
conversation.save();
const reopened = JSON.stringify(new Conversation(storage, "someone").logs);
const stranger = new Conversation(storage, "another");
return {
  taken: taken.every(Boolean),
  again: again.some(Boolean),
  same: once === twice && twice === reopened,
  stranger: [stranger.channel, Object.keys(stranger.logs)],
  left: conversation.unacknowledged().length,
  blocks: conversation.turns("t-1").map((one) => one.blocks.map((block) => [block.kind, block.text ?? block.result])),
};
})()"#;

#[tokio::test]
async fn a_frame_that_comes_twice_changes_nothing() {
    let service = Service::start_working().await;
    let Some(browser) = Browser::start().await else {
        return;
    };
    browser.open(&service.url()).await;

    let outcome = browser.run(REPLAY).await;

    assert_eq!(
        outcome,
        json!({
            "taken": true,
            "again": false,
            "same": true,
            "stranger": [null, []],
            "left": 0,
            "blocks": [[
                ["text", "Let me see."],
                ["tool", "text"],
                ["note", "Trying again"],
                ["text", "The end."],
            ]],
        })
    );
    browser.close().await;
}

/// Every visible piece of text with too little contrast to what is behind it, and every control without a name.
const AUDIT: &str = r#"
const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => { const [r, g, b] = numbers(colour); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if ((numbers(colour)[3] ?? 1) > 0.5) return colour;
  }
  return "rgb(255, 255, 255)";
};
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walk.nextNode(); node; node = walk.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest(".hidden, noscript")) continue;
  if (element.closest(":disabled")) continue;
  const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${node.textContent.trim()}`);
}
for (const control of document.querySelectorAll("button, input, textarea, a")) {
  const name = control.getAttribute("aria-label") || control.labels?.[0]?.textContent || control.textContent;
  if (control.checkVisibility() && !name?.trim()) found.push(`no name: ${control.id || control.className}`);
}
return found;
"#;

/// OP-69, OP-70
#[tokio::test]
async fn both_colours_are_readable_and_320_pixels_are_enough() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(
        &browser,
        "#say Some `code`, averylongwordthathasnoplacetobreakbecauseitsimplygoesonandonandon, and a list.\n\
         #call read {\"file_path\":\"a/path/that/is/long/enough/to/need/more/than/the/width/of/a/phone.md\"}\n\
         #reply The end.",
    )
    .await;
    until_last_turn_is(&browser, "done").await;

    let mut backgrounds = Vec::new();
    for colours in ["light", "dark"] {
        browser.prefer(colours).await;
        for (width, height) in [(1280, 800), (320, 640)] {
            browser.resize(width, height).await;
            browser.until(&format!("innerWidth === {width}")).await;

            let too_wide = "[document.documentElement, document.querySelector('#scroll')] \
                            .filter(part => part.scrollWidth > part.clientWidth).length";
            assert_eq!(browser.value(too_wide).await, 0, "{colours} at {width}");
            assert_eq!(browser.run(AUDIT).await, json!([]), "{colours} at {width}");
            assert!(browser.screenshot().await.len() > 5_000);
        }
        backgrounds.push(
            browser
                .value("getComputedStyle(document.body).backgroundColor")
                .await,
        );
    }
    assert_ne!(backgrounds[0], backgrounds[1]);

    // The choice of the person wins over the system's, and is remembered.
    browser.resize(1280, 800).await;
    browser.click("#theme").await;
    browser.reload().await;
    browser.until(ONLINE).await;

    let chosen = browser
        .value("getComputedStyle(document.body).backgroundColor")
        .await;
    assert_eq!(chosen, backgrounds[0]);
    has_no_complaints(&browser).await;
    browser.close().await;
}
