//! What teams are told, edited in the page: settings files, rules, skills and subagents, and templates of teams.

use serde_json::json;

use super::{
    ASKING, asking, chat, data, go, has_no_complaints, order, press, submit, until_gone,
    until_shown, until_told,
};
use crate::{service::Service, webdriver::Browser};

/// Writes a text into the editor, and has the changes shown.
async fn rewrite(browser: &Browser, text: &str) {
    browser.until("document.querySelector('dialog [name=content]')").await;
    browser.fill("dialog [name=content]", text).await;
    press(browser, "Review changes").await;
    browser.until("document.querySelector('dialog .diff')").await;
}

/// The line that the editor marks.
async fn until_marked(browser: &Browser, line: usize) {
    let marked = format!(
        "document.querySelector('dialog .line-numbers [data-bad]')?.textContent === '{line}'"
    );
    browser.until(&marked).await;
}

async fn level(service: &Service) -> String {
    let settings = data(service, "/api/v1/config").await;
    let fields = settings["fields"].as_array().unwrap().iter();
    let mut found = fields.filter(|row| row["path"] == "log.level");
    found.next().unwrap()["value"].as_str().unwrap().to_owned()
}

/// OP-63, OP-103: a setting is changed with check and difference, and counts at once. Whoever edited what is not there
/// any more changes nothing.
#[tokio::test]
async fn settings_are_changed_in_the_page() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    go(&browser, "#/settings/config").await;

    press(&browser, "Edit config.yaml…").await;
    rewrite(&browser, &format!("{ASKING}log: {{level: loud}}\n")).await;
    press(&browser, "Save").await;
    until_marked(&browser, 8).await;
    // The refusal is one to the browser, too.
    browser.complaints().await;
    rewrite(&browser, &format!("{ASKING}log:\n  level: debug\n")).await;
    let added = browser.text("dialog .diff .added").await;
    assert_eq!(added.trim(), "+ log:");
    submit(&browser).await;
    until_told(&browser, "Saved and in use").await;
    until_shown(&browser, "log.level").await;
    assert_eq!(level(&service).await, "debug");

    // One that nobody has set is written beside the others of its section.
    press(&browser, "All").await;
    browser.fill("#view .search", "approvals.ttl").await;
    press(&browser, "Change approvals.ttl").await;
    press(&browser, "Review changes").await;
    browser.until("document.querySelector('dialog .diff')").await;
    let shown = "[...document.querySelectorAll('dialog .diff .added')].map(one => one.textContent.trim()).join('|')";
    let shown = browser.value(shown).await;
    assert!(shown.as_str().unwrap().contains("+ approvals:|+   ttl:"), "{shown}");
    service.write("data/config/config.yaml", &format!("{ASKING}log: {{level: warn}}\n"));
    press(&browser, "Save").await;
    // What somebody else saved meanwhile is shown before it is lost.
    browser
        .until("document.querySelector('dialog .problem:not([hidden])')?.textContent.includes('Somebody else')")
        .await;
    let lost = browser.text("dialog .diff .taken").await;
    assert_eq!(lost.trim(), "- log: {level: warn}");
    browser.complaints().await;
    press(&browser, "Back to the text").await;
    browser.until("document.querySelector('dialog textarea')?.value.includes('ttl:')").await;
    press(&browser, "Cancel").await;
    assert_eq!(level(&service).await, "warn");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-53, OP-63: what a team is told is written with check and difference, on a phone too, and goes to the trash.
#[tokio::test]
async fn rules_skills_and_subagents_are_edited() {
    let service = asking().await;
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    order(&service, "POST", "/api/v1/teams", team).await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.resize(375, 812).await;
    go(&browser, "#/team/research").await;
    let file = |name: &str| service.path("run/teams/research").join(name);
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();

    press(&browser, "New rule…").await;
    browser.fill("dialog [name=name]", "short").await;
    press(&browser, "Continue").await;
    rewrite(&browser, "---\naudience: everyone\n---\nBe short.\n").await;
    press(&browser, "Save").await;
    until_marked(&browser, 2).await;
    browser.complaints().await;
    rewrite(&browser, "Be short.\n").await;
    submit(&browser).await;
    until_told(&browser, "Saved").await;
    until_shown(&browser, "Be short.").await;
    assert_eq!(read("team-rules/short.md"), "Be short.\n");

    press(&browser, "New skill…").await;
    browser.fill("dialog [name=name]", "cite").await;
    press(&browser, "Continue").await;
    browser.until("document.querySelector('dialog [name=content]')").await;
    press(&browser, "Review changes").await;
    submit(&browser).await;
    until_shown(&browser, "What it does, and when to use it.").await;
    assert!(read("skills/cite/SKILL.md").starts_with("---\nname: cite\n"));
    press(&browser, "New subagent…").await;
    browser.fill("dialog [name=name]", "reader").await;
    press(&browser, "Continue").await;
    browser.until("document.querySelector('dialog [name=content]')").await;
    press(&browser, "Review changes").await;
    submit(&browser).await;
    until_shown(&browser, "What it does for the team.").await;
    let known = data(&service, "/api/v1/teams/research").await;
    assert!(known["subagents"].to_string().contains("reader"), "{known}");

    // One that is wrong is in no list of the team, and can still be cured.
    service.write("run/teams/research/subagents/broken.md", "---\nmax_steps: 0\n---\n");
    browser.reload().await;
    until_shown(&browser, "Not in use: ").await;
    press(&browser, "Edit subagents/broken.md").await;
    until_marked(&browser, 2).await;
    press(&browser, "Cancel").await;
    press(&browser, "Delete subagents/broken.md").await;
    submit(&browser).await;
    until_gone(&browser, "Not in use: ").await;
    assert!(!file("subagents/broken.md").exists());
    press(&browser, "Delete skills/cite/SKILL.md").await;
    submit(&browser).await;
    until_gone(&browser, "What it does, and when to use it.").await;
    let wide = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.value(wide).await, true);
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-53: of two people who change the same file, the second sees what the first did, and keeps their own text.
#[tokio::test]
async fn two_people_edit_the_same_rule() {
    let service = asking().await;
    service.write("run/teams/main/team-rules/tone.md", "Be kind.\n");
    let (Some(ann), Some(bob)) = (chat(&service).await, chat(&service).await) else {
        return;
    };
    let rule = service.path("run/teams/main/team-rules/tone.md");
    let read = || std::fs::read_to_string(&rule).unwrap();
    for browser in [&ann, &bob] {
        go(browser, "#/team/main").await;
        press(browser, "Edit team-rules/tone.md").await;
    }
    let save = async |browser: &Browser, text: &str| {
        rewrite(browser, text).await;
        submit(browser).await;
        until_told(browser, "Saved").await;
    };
    let refused = async |browser: &Browser, why: &str| {
        press(browser, "Save").await;
        let told = "document.querySelector('dialog .problem:not([hidden])')?.textContent";
        browser.until(&format!("{told}?.startsWith('{why}')")).await;
        // The refusal is one to the browser, too.
        browser.complaints().await;
    };

    save(&ann, "Be kind and short.\n").await;
    rewrite(&bob, "Be kind and clear.\n").await;
    refused(&bob, "Somebody else changed this file").await;
    assert_eq!(bob.text("dialog .diff .taken").await.trim(), "- Be kind and short.");
    assert_eq!(read(), "Be kind and short.\n");
    press(&bob, "Back to the text").await;
    save(&bob, "Be kind, short and clear.\n").await;
    assert_eq!(read(), "Be kind, short and clear.\n");

    // What the other deletes is written again by whoever still wants it.
    press(&ann, "Edit team-rules/tone.md").await;
    rewrite(&ann, "Be brief.\n").await;
    press(&bob, "Delete team-rules/tone.md").await;
    submit(&bob).await;
    refused(&ann, "Somebody else deleted this file").await;
    assert!(!rule.exists());
    submit(&ann).await;
    until_told(&ann, "Saved").await;
    assert_eq!(read(), "Be brief.\n");
    // The other page shows it at once.
    until_shown(&bob, "Be brief.").await;
    for browser in [ann, bob] {
        has_no_complaints(&browser).await;
        browser.close().await;
    }
}

/// OR-60, OP-52: a template fills in what is not said, in the page and at the terminal.
#[tokio::test]
async fn a_team_is_made_from_a_template() {
    let service = asking().await;
    let made = service.run(&["teams", "create", "coders", "--template", "coder"], "").await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let Some(browser) = chat(&service).await else {
        return;
    };

    go(&browser, "#/org").await;
    press(&browser, "New team").await;
    browser.fill("dialog [name=name]", "finders").await;
    browser.fill("dialog [name=description]", "finds books").await;
    browser.choose("dialog [name=template]", "coder").await;
    browser.choose("dialog [name=template]", "researcher").await;
    submit(&browser).await;
    until_told(&browser, "Team finders is being set up.").await;

    let finders = data(&service, "/api/v1/teams/finders").await;
    assert_eq!(finders["description"], "finds books");
    assert_eq!(finders["own_scope"], json!(["comparisons", "facts", "research", "sources"]));
    let context = |team: &str| {
        let file = service.path("run/teams").join(team).join("team-rules/team-context.md");
        std::fs::read_to_string(file).unwrap()
    };
    assert!(context("finders").contains("more than one source"));
    assert!(context("coders").contains("Run the tests"));
    let file = data(&service, "/api/v1/teams/coders/config").await["content"].to_string();
    assert!(file.contains("@shell"), "{file}");
    has_no_complaints(&browser).await;
    browser.close().await;
}
