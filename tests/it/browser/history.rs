//! Transcripts: found, read in full and in short, jumped into and taken along.

use serde_json::json;

use super::{chat, data, furnished, go, has_no_complaints, press, until_shown, views::shows};

const MOMENTS: &str = "document.querySelectorAll('.transcript .moment').length";

/// OP-40, OP-60
#[tokio::test]
async fn a_transcript_is_found_read_and_taken_along() {
    let service = furnished().await;
    let mut client = service.connect().await;
    client
        .ask("#think about bees\n#say Bees.\n#call read {\"file_path\": \"nowhere.md\"}\n#reply no honey")
        .await;
    let topic = client.ask("#reply again").await["topic_id"].clone();
    let Some(browser) = chat(&service).await else {
        return;
    };
    let session = format!("main:{}", topic.as_str().unwrap());

    shows(&browser, "#/history", ".session-list li").await;
    browser.choose("[aria-label=Team]", "research").await;
    browser
        .until("[...document.querySelectorAll('.session-list li small')].every(one => one.textContent.startsWith('research'))")
        .await;
    browser.choose("[aria-label=Team]", "main").await;
    browser
        .until(&format!(
            "[...document.querySelectorAll('.session-list a')].some(one => one.hash.includes(encodeURIComponent({})))",
            json!(session)
        ))
        .await;
    browser.fill(".session-list .search", "not in any name").await;
    until_shown(&browser, "Nothing matches among those shown.").await;

    go(&browser, &format!("#/history/{}", session.replace(':', "%3A"))).await;
    until_shown(&browser, "no honey").await;
    until_shown(&browser, "about bees").await;
    let stored = format!("/api/v1/sessions/{session}/history");
    let full = data(&service, &format!("{stored}?view=full&limit=200")).await;
    let full = full.as_array().unwrap().len();
    browser.until(&format!("{MOMENTS} === {full}")).await;
    press(&browser, "Only words").await;
    let simple = data(&service, &format!("{stored}?view=simple&limit=200")).await;
    let simple = simple.as_array().unwrap().len();
    assert!(simple < full, "{simple} of {full}");
    browser.until(&format!("{MOMENTS} === {simple}")).await;
    press(&browser, "Everything").await;
    browser.until(&format!("{MOMENTS} === {full}")).await;
    browser.click(".moment .item-link").await;
    browser
        .until("location.hash.includes('item=') && document.querySelector('.moment[data-found]')")
        .await;

    let exported = browser
        .wait_for("fetch(document.querySelector('a[download]').href).then(answer => answer.text()).then(done)")
        .await;
    let lines: Vec<serde_json::Value> = exported
        .as_str()
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 4, "{exported}");
    assert!(exported.as_str().unwrap().contains("no honey"));
    has_no_complaints(&browser).await;
    browser.close().await;
}
