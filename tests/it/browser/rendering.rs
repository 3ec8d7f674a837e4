//! Finished messages: Markdown by its specification, GitHub's additions, colours of code.

use std::{collections::BTreeSet, fs, ops::RangeInclusive, path::Path};

use serde_json::{Value, json};

use super::{chat, has_no_complaints, send, until_last_turn_is};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
    webdriver::{Browser, is_quick},
};

/// `./tests/run` puts it there, at the version that `tests/ui/package.json` names.
const SPECIFICATION: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/target/ui/node_modules/commonmark-spec/spec.txt");

/// HTML is shown as text on purpose, so these look other than the specification says.
const HTML: [RangeInclusive<u64>; 15] = [
    21..=21,
    31..=31,
    148..=191,
    201..=201,
    308..=309,
    344..=344,
    475..=477,
    491..=491,
    494..=494,
    524..=524,
    536..=536,
    613..=617,
    623..=623,
    625..=631,
    642..=643,
];
/// A link without words shows its address; and GitHub's Markdown makes links of addresses.
const ADDRESSES: [u64; 3] = [484, 608, 611];

/// Texts and what becomes of them by the rules of GitHub's Markdown.
const GITHUB: [(&str, &str); 9] = [
    (
        "| left | middle | right |\n|:--|:-:|--:|\n| a | b | c |",
        "<table><thead><tr><th align=left>left</th><th align=center>middle</th><th align=right>right</th></tr></thead>\
         <tbody><tr><td align=left>a</td><td align=center>b</td><td align=right>c</td></tr></tbody></table>",
    ),
    (
        "a | b\n-|-\n`x \\| y` | **z**",
        "<table><thead><tr><th>a</th><th>b</th></tr></thead>\
         <tbody><tr><td><code>x | y</code></td><td><strong>z</strong></td></tr></tbody></table>",
    ),
    (
        "| a | b |\n|---|---|\n| short |\n| much | too | long |\n> quote",
        "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>short</td><td></td></tr>\
         <tr><td>much</td><td>too</td></tr></tbody></table><blockquote><p>quote</p></blockquote>",
    ),
    (
        "| only | a head |\n|---|---|",
        "<table><thead><tr><th>only</th><th>a head</th></tr></thead></table>",
    ),
    ("| a | b |\n|---|", "<p>| a | b | |---|</p>"),
    (
        "- [ ] open\n- [x] done\n  - [X] *below*",
        "<ul><li><input type=checkbox> open</li><li><input type=checkbox checked> done\
         <ul><li><input type=checkbox checked> <em>below</em></li></ul></li></ul>",
    ),
    ("~~gone~~ and ~this~", "<p><del>gone</del> and <del>this</del></p>"),
    (
        "See https://a.example/b_(c)?d=e. Or www.a.example!",
        "<p>See <a href='https://a.example/b_(c)?d=e'>https://a.example/b_(c)?d=e</a>. \
         Or <a href='http://www.a.example'>www.a.example</a>!</p>",
    ),
    (
        "1. one\n2. two\n\n   more\n3. three",
        "<ol><li><p>one</p></li><li><p>two</p><p>more</p></li><li><p>three</p></li></ol>",
    ),
];

/// The examples of the specification, each with its number, text and HTML.
fn examples(specification: &str) -> Vec<(u64, String, String)> {
    let fence = "`".repeat(32);
    let [begins, ends] = [format!("\n{fence} example\n"), format!("\n{fence}")];
    let parts = specification.split(&begins).skip(1).map(|chunk| {
        let (example, _) = chunk.split_once(&ends).unwrap();
        let (text, html) = format!("\n{example}\n")
            .split_once("\n.\n")
            .map(|(text, html)| (text.replace('→', "\t"), html.replace('→', "\t")))
            .unwrap();
        (text.strip_prefix('\n').unwrap().to_owned() + "\n", html)
    });
    parts.zip(1..).map(|((text, html), number)| (number, text, html)).collect()
}

/// The examples that look other than they should: number, text, what was wanted, what is shown.
async fn differing(browser: &Browser, examples: &Value) -> Vec<Value> {
    let script = include_str!("../../ui/spec.js");
    let answer = browser.wait_for(&format!("const examples = {examples}; {script}")).await;
    answer.as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

/// OP-65: what a model writes means what CommonMark and GitHub say it means.
#[tokio::test]
async fn the_examples_of_the_specification_look_as_it_says() {
    if !Path::new(SPECIFICATION).exists() {
        assert!(is_quick(), "commonmark-spec is missing: run ./tests/run once");
        println!("skipped: no commonmark-spec in target/ui");
        return;
    }
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let examples = examples(&fs::read_to_string(SPECIFICATION).unwrap());
    assert!(examples.len() > 600, "{} examples", examples.len());

    let found = differing(&browser, &json!(examples)).await;

    let refused: BTreeSet<u64> = HTML.into_iter().flatten().chain(ADDRESSES).collect();
    let is_meant = |one: &&Value| one[0].as_u64().is_some_and(|number| refused.contains(&number));
    let (meant, wrong): (Vec<&Value>, Vec<&Value>) = found.iter().partition(is_meant);
    let report: Vec<String> =
        wrong.iter().map(|one| serde_json::to_string_pretty(one).unwrap()).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", report.len(), report.join("\n"));
    assert_eq!(meant.len(), refused.len(), "some are no longer refused");
    has_no_complaints(&browser).await;

    let github: Vec<Value> = GITHUB.iter().map(|(text, html)| json!([text, text, html])).collect();
    let found = differing(&browser, &json!(github)).await;
    assert_eq!(found, Vec::<Value>::new());
    browser.close().await;
}

/// OP-65: a finished message is parsed by the service, after a reload too; code has colours, and what could do harm is text.
#[tokio::test]
async fn a_finished_message_is_shown_as_it_is_meant() {
    let text = "- one\n\n      indented code\n- [x] done\n\n&copy; <b onclick=alert(1)>bold</b> [bad](javascript:alert(1))\n\n\
                ```rust\n// says so\nlet x = \"y\"; // 1\n```";
    let model = FakeModel::start();
    model.otherwise(Reply::text(text));
    let profile = format!(
        "profiles:\n  default:\n    provider: anthropic\n    api_url: {}\n    api_key: {KEY}\n    model: m\n",
        model.url()
    );
    let service =
        Service::prepare().with_file("data/config/providers.yaml", &profile).started().await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(&browser, "Show me.").await;
    until_last_turn_is(&browser, "done").await;

    for _ in 0..2 {
        browser.until("document.querySelector('.answer li figure.code')").await;
        // What colours code is loaded when there is code to colour.
        browser.until("document.querySelector('.answer .code-string')").await;
        let shown = browser
            .value(
                "(answer => [answer.querySelector('li.task input').checked, answer.textContent.includes('© <b onclick'), \
                 answer.querySelectorAll('.markdown b, .markdown a').length, [...answer.querySelectorAll('.code [class^=code-]')].map(part => \
                 `${part.className} ${part.textContent}`)])(document.querySelector('.answer'))",
            )
            .await;
        let coloured = json!([
            "code-comment // says so",
            "code-word let",
            "code-string \"y\"",
            "code-comment // 1"
        ]);
        assert_eq!(shown, json!([true, true, 0, coloured]));
        browser.reload().await;
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}
