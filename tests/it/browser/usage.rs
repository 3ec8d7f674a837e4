//! What models cost: over any range, and as figures.

use std::time::{Duration, Instant};

use super::{chat, data, furnished, go, has_no_complaints, press, until_shown};

/// OP-61, OP-69
#[tokio::test]
async fn usage_is_seen_over_a_range_and_as_a_table() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let days = "document.querySelectorAll('.chart-panel')[0]?.querySelectorAll('tbody tr').length";

    go(&browser, "#/usage").await;
    until_shown(&browser, "Tokens by day").await;
    browser.until(&format!("{days} === 14")).await;
    press(&browser, "30 days").await;
    browser.until(&format!("{days} === 30")).await;
    press(&browser, "7 days").await;
    browser.until(&format!("{days} === 7")).await;
    browser.until("location.hash === '#/usage?days=7'").await;

    // Work of the furnished teams may still ask a model: looked at until both agree.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        browser.reload().await;
        browser.until(&format!("{days} === 7")).await;
        let shown = browser.text(".figures").await;
        let rows = data(&service, "/api/v1/usage?group=day").await;
        let requests = rows.as_array().unwrap().iter();
        let requests: u64 = requests.map(|row| row["requests"].as_u64().unwrap()).sum();
        if shown.contains(&requests.to_string()) {
            break;
        }
        assert!(Instant::now() < deadline, "{requests}: {shown}");
    }
    let teams = "[...document.querySelectorAll('.chart-panel')].find(one => one.textContent.startsWith('Tokens by team'))";
    browser.click_on(&format!("{teams}.querySelector('summary')")).await;
    let told = browser.value(&format!("{teams}.querySelector('tbody').innerText")).await;
    let told = told.as_str().unwrap();
    assert!(told.contains("main") && told.contains("research"), "{told}");
    has_no_complaints(&browser).await;
    browser.close().await;
}
