//! The chat: streaming, stopping, reloading, several topics, delegated work.

use serde_json::{Value, json};

use super::{ONLINE, TURNS, answers, chat, has_no_complaints, press, send, until_last_turn_is};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
    webdriver::{Browser, key},
};

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
    browser.until("!document.querySelector('#login-error').hidden").await;

    assert_eq!(browser.value("document.querySelector('#app').hidden").await, true);
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
    assert!(folded_out.contains("\"file_path\": \"notes/hello.md\""), "{folded_out}");
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

    send(&browser, "#say Waiting now.\n#wait 30000\n#reply Never said.").await;
    until_last_turn_is(&browser, "running").await;
    browser.keys("#composer", &format!("{}.", key::CONTROL)).await;
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
    let first = "#say The first part.\n#wait 20000\n#reply The first end.";

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
    assert_eq!(said[1], json!(["#reply The second end.", ["The second end."]]));
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// Waits until the turn under way has said something, wherever it is shown.
async fn until_said(service: &Service, words: &str) {
    let said = |snapshot: &Value| {
        let text = &snapshot["running"][0]["active_turn"]["text"];
        text.as_str().is_some_and(|text| text.contains(words))
    };
    service.until("/api/v1/snapshot", said).await;
}

/// OP-67, CH-159: text that streams while the page is loaded anew, or while its connection is cut, is
/// there before the turn ends, without a hole and without a word twice; of earlier steps too.
#[tokio::test]
async fn words_that_stream_during_a_break_are_neither_lost_nor_doubled() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    // Each is a block of text, and so a line of its own.
    let said =
        |from: u32, to: u32| -> String { (from..=to).map(|number| format!("{number};")).collect() };
    let says = |from: u32, to: u32| -> String {
        (from..=to).map(|number| format!("#say {number};\n#wait 100\n")).collect()
    };
    let script = format!(
        "{}#call write {{\"file_path\":\"a.md\",\"content\":\"Hello\"}}\n#then\n{}#wait 60000\n#reply Never said.",
        says(1, 40),
        says(41, 90),
    );
    let shows = |number: u32| {
        format!(
            "document.querySelector('.answer')?.textContent.replace(/\\s/g, '').includes(';{number};')"
        )
    };
    // Status and text at one moment.
    let now = format!(
        "[{TURNS}.at(-1).dataset.status, \
         ...[...document.querySelectorAll('.answer > .markdown')].map(text => text.textContent.replace(/\\s/g, ''))]"
    );

    browser
        .run(&format!(
            "const composer = document.querySelector('#composer'); composer.value = {}; \
             composer.dispatchEvent(new Event('input'))",
            json!(script)
        ))
        .await;
    browser.keys("#composer", key::ENTER).await;
    browser.until(&shows(10)).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until(&shows(25)).await;
    let reloaded = browser.value(&now).await;
    browser.unplug(true).await;
    browser.until("document.querySelector('#connection').dataset.state === 'offline'").await;
    // Somebody else sees the second step begin meanwhile.
    until_said(&service, "\n45;").await;
    browser.unplug(false).await;
    browser.until(ONLINE).await;
    browser.until(&shows(60)).await;
    let returned = browser.value(&now).await;
    browser.until(&shows(90)).await;
    let whole = browser.value(&now).await;

    for (moment, found) in [("reload", &reloaded), ("return", &returned)] {
        let found: Vec<&str> =
            found.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
        assert_eq!(found[0], "running", "{moment}: {found:?}");
        assert!(said(1, 40).starts_with(found[1]), "{moment}: {found:?}");
        if let Some(second) = found.get(2) {
            assert_eq!(found[1], said(1, 40), "{moment}: {found:?}");
            assert!(said(41, 90).starts_with(second), "{moment}: {found:?}");
        }
    }
    assert_eq!(whole, json!(["running", said(1, 40), said(41, 90)]));
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
        "<img src=x> strong bad (javascript:alert(1)) good (https://example.org/)"
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
        .until("document.querySelector('#blocked-text').textContent.startsWith('Offline:')")
        .await;
    browser.keys("#composer", &format!("#reply Back.{}", key::ENTER)).await;

    assert!(browser.text("#blocked").await.starts_with("Offline:"));
    assert_eq!(browser.value("document.querySelector('#send').disabled").await, true);

    browser.unplug(false).await;
    browser.until(ONLINE).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.click("#send").await;
    until_last_turn_is(&browser, "done").await;

    assert_eq!(answers(&browser).await, json!([["#reply Back.", ["Back."]]]));
    browser.close().await;
}

/// OP-51: what is written under "New topic" begins one, also if it would fit into another.
#[tokio::test]
async fn a_new_topic_is_new_for_certain() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let message = "#reply Letters to customers about honey.";

    for topics in 1..=3 {
        browser.click("#new-topic").await;
        send(&browser, message).await;
        browser.until(&format!("document.querySelectorAll('.topic').length === {topics}")).await;
        until_last_turn_is(&browser, "done").await;
    }
    // The way back leads through each.
    let newest = browser.value("location.hash").await;
    browser.run("history.back()").await;
    browser.until(&format!("/t-/.test(location.hash) && location.hash !== {newest}")).await;
    browser.run("history.forward()").await;
    browser.until(&format!("location.hash === {newest} && {TURNS}.length === 1")).await;
    // Each has the one turn, and the list says so after a reload too.
    assert_eq!(browser.value(&format!("{TURNS}.length")).await, 1);
    browser.reload().await;
    browser.until(ONLINE).await;
    until_last_turn_is(&browser, "done").await;

    let names =
        "new Set([...document.querySelectorAll('.topic-name')].map(one => one.textContent)).size";
    assert_eq!(browser.value(names).await, 3);
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;
    assert_eq!(topics["total"], 3, "{topics}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51, CH-59: two topics stream at once, and neither gets a word of the other.
#[tokio::test]
async fn two_topics_answer_at_the_same_time() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let said = |words: &str| {
        format!("{TURNS}.at(-1)?.querySelector('.answer').textContent.includes('{words}')")
    };
    send(&browser, "tulips in the garden").await;
    until_last_turn_is(&browser, "done").await;
    browser.click("#new-topic").await;
    send(&browser, "invoices before april").await;
    until_last_turn_is(&browser, "done").await;
    browser.until("document.querySelectorAll('.topic').length === 2").await;

    let works = |begin: &str, until: &str, end: &str| {
        let wait = json!({"command": format!("until [ -e {until} ]; do sleep 0.1; done")});
        format!("#say {begin}\n#call bash {wait}\n#then\n#reply {end}")
    };
    send(&browser, &works("Sorting invoices.", "sorted", "Invoices sorted.")).await;
    browser.until(&said("Sorting invoices.")).await;
    browser.click(".topic:not([aria-current])").await;
    send(&browser, &works("Watering tulips.", "watered", "Tulips watered.")).await;
    browser.until(&said("Watering tulips.")).await;
    browser
        .until(
            "[...document.querySelectorAll('.topic-marks')] \
             .filter(mark => mark.textContent.includes('Running')).length === 2",
        )
        .await;
    for done in ["watered", "sorted"] {
        service.write(&format!("run/teams/main/{done}"), "");
    }
    until_last_turn_is(&browser, "done").await;
    let tulips = answers(&browser).await.to_string();
    browser.click(".topic:not([aria-current])").await;
    until_last_turn_is(&browser, "done").await;
    let invoices = answers(&browser).await.to_string();

    assert!(tulips.contains("Tulips watered."), "{tulips}");
    assert!(!tulips.contains("nvoices sorted"), "{tulips}");
    assert!(invoices.contains("Invoices sorted."), "{invoices}");
    assert!(!invoices.contains("ulips"), "{invoices}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51: what a turn gave to a team stands below it, with its state and its result.
#[tokio::test]
async fn delegated_work_is_nested_below_its_turn() {
    let service = Service::start().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, "delegate research: Find three books about bees").await;
    until_last_turn_is(&browser, "done").await;
    browser.until("document.querySelector('.turn .given .pill')?.textContent === 'done'").await;

    let card = browser.text(".given").await;
    assert!(card.contains("research"), "{card}");
    assert!(card.contains("Find three books about bees"), "{card}");
    browser.click(".given-link").await;
    browser.until("document.querySelector('.chain')?.textContent.includes('research')").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-69: the choice of a person wins over the system's, and is remembered.
#[tokio::test]
async fn colours_follow_the_system_until_a_person_chooses() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let background = "getComputedStyle(document.body).backgroundColor";

    browser.prefer("light").await;
    let light = browser.value(background).await;
    browser.prefer("dark").await;
    browser.until("document.documentElement.dataset.shade === 'dark'").await;
    let dark = browser.value(background).await;
    browser.click("#theme").await;
    browser.reload().await;
    browser.until(ONLINE).await;
    let chosen = browser.value(background).await;

    assert_ne!(light, dark);
    assert_eq!(chosen, light);
    browser.close().await;
}

/// SE-12, OP-51: an answer that the output limit cut says so, and one click asks for the rest.
#[tokio::test]
async fn an_answer_that_was_cut_goes_on_with_a_click() {
    let model = FakeModel::start();
    model.say([
        Reply::OutputFull("Once upon a".to_owned()),
        Reply::text("time, and that is the end."),
    ]);
    let providers = format!(
        "profiles:\n  default:\n    provider: anthropic\n    api_url: {}\n    api_key: {KEY}\n    model: m\n",
        model.url()
    );
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n")
        .started()
        .await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, "Tell me a story").await;
    browser.until("document.querySelector('.turn .cut')").await;
    let cut = browser.text(".turn .cut").await;
    press(&browser, "Go on").await;
    browser.until(&format!("{TURNS}.length === 2 && {TURNS}[1].dataset.status === 'done'")).await;

    assert_eq!(cut.trim(), "The answer was cut here. Go on");
    assert_eq!(
        answers(&browser).await,
        json!([
            ["Tell me a story", ["Once upon a"]],
            ["Go on where you stopped.", ["time, and that is the end."]],
        ])
    );
    let is_cut = format!("{TURNS}.map(turn => Boolean(turn.querySelector('.cut')))");
    assert_eq!(browser.value(&is_cut).await, json!([true, false]));
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    let asked = requests[1].body.to_string();
    assert!(asked.contains("Once upon a"), "{asked}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-73: a newcomer is led to a model, a message and a team; what has happened is ticked off, and the steps can be left.
#[tokio::test]
async fn a_newcomer_is_shown_the_first_steps() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let done = async |steps: [bool; 3]| {
        let now = "JSON.stringify([...document.querySelectorAll('.start li')].map(step => 'done' in step.dataset))";
        browser.until(&format!("{now} === '{}'", json!(steps))).await;
    };

    browser.resize(375, 812).await;
    done([false, false, false]).await;
    press(&browser, "Say something").await;
    browser.until("document.activeElement.id === 'composer'").await;
    send(&browser, "create team research: finds things out").await;
    done([false, true, true]).await;
    browser.until("!document.querySelector('.start').checkVisibility()").await;
    browser.resize(1280, 800).await;
    browser.click_on("document.querySelector('.start a')").await;
    browser.until("location.hash === '#/settings/models'").await;
    browser.run("history.back()").await;
    done([false, true, true]).await;
    press(&browser, "Skip these steps").await;
    browser.until("!document.querySelector('.start')").await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until("customElements.get('hw-start') && !document.querySelector('.start')").await;

    has_no_complaints(&browser).await;
    browser.close().await;
}
