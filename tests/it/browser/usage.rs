//! What models cost: over any range, and as figures.

use std::time::{Duration, Instant};

use super::{
    access::has_no_findings, chat, data, furnished, go, has_no_complaints, press, until_shown,
};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
};

/// Nobody else asks the model.
const CHANNELS: &str = "ws: {enabled: true}\ntopics: {model: never, titles: false}\n";

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

/// OP-127: what the day and the month will come to is told with how it is reckoned, and a table can be taken along. The name of
/// a model is no formula of a spreadsheet.
#[tokio::test]
async fn a_forecast_is_made_and_a_table_is_taken_along() {
    let model = FakeModel::start();
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{}/v1\", api_key: {KEY}, model: \"=big\", \
         pricing: {{input: 100000, output: 100000, cache_read: 0, cache_write: 0}}}}\n",
        model.url()
    );
    let service = Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file("data/config/channels.yaml", CHANNELS)
        .started()
        .await;
    model.say([Reply::text("Hello.")]);
    service.connect().await.ask("hello").await;
    let path = "/api/v1/usage?group=day";
    let spent = service.until(path, |days| days[0]["usd"].as_f64() > Some(0.0)).await;
    let spent = spent[0]["usd"].as_f64().unwrap();
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/usage").await;
    browser.until("document.querySelectorAll('.forecast .figure').length === 3").await;
    let figures = "[...document.querySelectorAll('.forecast .figure strong')].map(one => one.textContent.match(/[\\d.,]+/g) \
                   .map(text => Number(text.replaceAll(',', ''))))";
    let figures = browser.value(figures).await;
    let figures: Vec<Vec<f64>> = serde_json::from_value(figures).unwrap();
    let (day, month, range) = (figures[0][0], figures[1][0], &figures[2]);
    assert!(day >= spent - 0.01 && month >= day - 0.01, "{spent}: {figures:?}");
    assert!(range[0] <= month + 0.01 && month <= range[1] + 0.01, "{figures:?}");
    until_shown(&browser, "the rest of it at the same rate").await;
    has_no_findings(&browser).await;

    let panel = "[...document.querySelectorAll('.chart-panel')].find(one => one.textContent.startsWith('Tokens by model'))";
    browser.click_on(&format!("{panel}.querySelector('summary')")).await;
    let file = browser
        .wait_for(&format!(
            "fetch({panel}.querySelector('a[download]').href).then(answer => answer.text()).then(done)"
        ))
        .await;
    let lines: Vec<&str> = file.as_str().unwrap().lines().collect();
    assert_eq!(lines.len(), 2, "{file}");
    assert!(lines[0].starts_with("key,input,") && lines[1].starts_with("'=big,"), "{file}");
    // The same in a terminal, byte for byte.
    let told = service.run(&["usage", "--by", "model", "--csv"], "").await;
    assert_eq!(file, told.stdout, "{}", told.stderr);
    has_no_complaints(&browser).await;
    browser.close().await;
}
