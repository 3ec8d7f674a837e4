//! For everyone: an automated check of every view, in both colours, wide and narrow.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{
    chat, furnished, has_no_complaints,
    views::{ALWAYS, VIEWS, shows},
};
use crate::webdriver::{Browser, is_quick};

/// `./tests/run` puts it there, at the version that `tests/ui/package.json` names.
const AXE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/target/ui/node_modules/axe-core/axe.min.js");

const AUDIT: &str = "return axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']}) \
    .then(found => found.violations.filter(one => ['serious', 'critical'].includes(one.impact)) \
    .map(one => [one.id, ...one.nodes.map(node => node.target.join(' '))].join(' ')))";

const TOO_WIDE: &str = "[document.documentElement, document.querySelector('#view')] \
    .filter(part => part.scrollWidth > part.clientWidth).length";

/// Nothing is on its way from one colour or place to another: what passes is not what is seen.
const STILL: &str = "document.getAnimations().every(one => one.playState !== 'running' \
    || one.effect.getComputedTiming().iterations === Infinity)";

/// What the page shows now has no serious finding.
pub(super) async fn has_no_findings(browser: &Browser) {
    let Ok(axe) = fs::read_to_string(AXE) else {
        assert!(is_quick(), "axe-core is missing: run ./tests/run once");
        return;
    };
    browser.run(&axe).await;
    browser.until(STILL).await;
    assert_eq!(browser.run(AUDIT).await, json!([]));
    assert_eq!(browser.value(TOO_WIDE).await, 0);
}

/// OP-69, OP-70, OP-129: no serious finding, no sideways scrolling.
#[tokio::test]
async fn every_view_passes_an_accessibility_check_in_all_sizes() {
    if !Path::new(AXE).exists() {
        assert!(is_quick(), "axe-core is missing: run ./tests/run once");
        println!("skipped: no axe-core in target/ui");
        return;
    }
    let axe = fs::read_to_string(AXE).unwrap();
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.run(&axe).await;

    let mut found: Vec<String> = Vec::new();
    for (width, height, colours) in
        [(1280, 800, "light"), (1280, 800, "dark"), (375, 780, "light"), (320, 640, "dark")]
    {
        browser.resize(width, height).await;
        browser.prefer(colours).await;
        browser.until(&format!("innerWidth === {width}")).await;
        for (hash, what) in VIEWS.into_iter().chain(ALWAYS) {
            // The drawing needs room; without it the list is shown.
            let what = match (hash, width) {
                ("#/org", ..=760) => ".org-list li + li",
                _ => what,
            };
            shows(&browser, hash, what).await;
            browser.until("!document.querySelector('#view .loading')").await;
            browser.until(STILL).await;
            let place = format!("{hash} at {width}, {colours}");
            if browser.value(TOO_WIDE).await != 0 {
                found.push(format!("{place}: too wide"));
            }
            let Value::Array(findings) = browser.run(AUDIT).await else {
                panic!("no answer for {place}");
            };
            found.extend(findings.iter().map(|one| format!("{place}: {one}")));
        }
    }

    assert_eq!(found, Vec::<String>::new());
    has_no_complaints(&browser).await;
    browser.close().await;
}
