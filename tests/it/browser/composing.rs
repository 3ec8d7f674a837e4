//! What is said again, taken back, stopped, and said to other teams than the main one.

use serde_json::json;

use super::{
    ONLINE, TURNS, access, answers, chat, data, go, has_no_complaints, press, send,
    until_last_turn_is, until_shown,
};
use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
    webdriver::key,
};

const TYPED: &str = "document.querySelector('#composer').value";
/// Which version of a message is shown.
const FORK: &str = "document.querySelector('.fork:not([hidden])')?.textContent";
const BUBBLES: &str =
    "[...document.querySelectorAll('.bubble')].map(one => one.textContent).join()";

/// OP-51: words are changed and sent again, asked again and quoted; what waits is taken back.
#[tokio::test]
async fn a_message_is_edited_asked_again_quoted_and_taken_back() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    send(&browser, "#reply First.").await;
    until_last_turn_is(&browser, "done").await;

    press(&browser, "Edit").await;
    browser.until(&format!("{TYPED} === '#reply First.'")).await;
    browser.keys("#composer", &format!(" Better.{}", key::ENTER)).await;
    browser.until(&format!("{FORK} === '‹ 2 of 2 ›'")).await;
    until_last_turn_is(&browser, "done").await;
    browser.click_on(&format!("[...{TURNS}[0].querySelectorAll('.foot button')].at(-1)")).await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;
    assert_eq!(
        answers(&browser).await,
        json!([
            ["#reply First. Better.", ["First. Better."]],
            ["#reply First. Better.", ["First. Better."]],
        ])
    );
    press(&browser, "Quote").await;
    browser.until(&format!("{TYPED}.startsWith('> First.')")).await;
    browser.fill("#composer", "").await;

    send(&browser, "#say Slow.\n#wait 60000\n#reply Never.").await;
    until_last_turn_is(&browser, "running").await;
    send(&browser, "#reply Not yet.").await;
    until_last_turn_is(&browser, "queued").await;
    press(&browser, "Take back").await;
    until_last_turn_is(&browser, "cancelled").await;
    browser.until(&format!("{TYPED} === '#reply Not yet.'")).await;
    browser.click("#stop").await;
    browser
        .until(&format!("{TURNS}.every(turn => turn.getAttribute('aria-busy') === 'false')"))
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// SE-41, OP-51: an edited message begins a branch with what was said before it; the other stays readable, and the model is told only
/// the one that is open.
#[tokio::test]
async fn an_edited_message_begins_a_branch_and_the_former_stays() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Yes."));
    let providers = format!(
        "profiles:\n  default: {{provider: anthropic, api_url: \"{}\", api_key: {KEY}, model: m}}\n",
        model.url()
    );
    let service =
        Service::prepare().with_file("data/config/providers.yaml", &providers).started().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let told = || model.requests().last().unwrap().body["messages"].to_string();
    for (count, words) in [(1, "apples"), (2, "pears"), (3, "plums")] {
        send(&browser, words).await;
        browser.until(&format!("{TURNS}.length === {count}")).await;
        until_last_turn_is(&browser, "done").await;
    }
    browser.keys("#composer", "a draft").await;

    let edit = "[...document.querySelectorAll('.turn')][1].querySelector('.sent button')";
    browser.click_on(edit).await;
    browser.until(&format!("{TYPED} === 'pears'")).await;
    browser.keys("#composer", &format!(" and figs{}", key::ENTER)).await;
    browser.until(&format!("{BUBBLES} === 'apples,pears and figs'")).await;
    until_last_turn_is(&browser, "done").await;
    browser.until(&format!("{FORK} === '‹ 2 of 2 ›'")).await;
    let of_branch = told();
    browser.resize(375, 800).await;
    access::has_no_findings(&browser).await;

    // By keyboard to the other version, which has gone nowhere, and back.
    browser.run("document.querySelector('.fork button').focus()").await;
    browser.press(&[key::ENTER]).await;
    browser.until(&format!("{BUBBLES} === 'apples,pears,plums' && {FORK} === '‹ 1 of 2 ›'")).await;
    browser.until(&format!("{TYPED} === 'a draft'")).await;
    browser.fill("#composer", "").await;
    send(&browser, "cherries").await;
    browser.until(&format!("{TURNS}.length === 4")).await;
    until_last_turn_is(&browser, "done").await;
    let of_first = told();
    browser.run("document.querySelector('.fork button:enabled').focus()").await;
    browser.press(&[key::ENTER]).await;
    browser.until(&format!("{BUBBLES} === 'apples,pears and figs'")).await;
    browser.until("document.activeElement.matches('.fork button')").await;

    // Words that arrive while a version is on its way are drawn before its address is there; the focus goes along all the same.
    for shown in ["apples,pears,plums,cherries", "apples,pears and figs"] {
        browser
            .run("document.activeElement.click(); document.querySelector('hw-chat').redraw()")
            .await;
        browser.until(&format!("{BUBBLES} === '{shown}'")).await;
        browser.until("document.activeElement.matches('.fork button')").await;
    }
    browser.reload().await;
    browser
        .until(&format!("{BUBBLES} === 'apples,pears and figs' && {FORK} === '‹ 2 of 2 ›'"))
        .await;
    assert_eq!(browser.value("document.querySelectorAll('.topic').length").await, 1);
    send(&browser, "dates").await;
    browser.until(&format!("{TURNS}.length === 3")).await;
    until_last_turn_is(&browser, "done").await;
    let on_branch = told();

    let holds = |told: &str, words: &[&str]| words.iter().all(|words| told.contains(words));
    assert!(holds(&of_branch, &["apples", "pears and figs"]), "{of_branch}");
    assert!(!of_branch.contains("plums"), "{of_branch}");
    assert!(holds(&of_first, &["apples", "pears", "plums", "cherries"]), "{of_first}");
    assert!(!of_first.contains("figs"), "{of_first}");
    assert!(holds(&on_branch, &["apples", "pears and figs", "dates"]), "{on_branch}");
    assert!(!on_branch.contains("plums"), "{on_branch}");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// Refuses the next message that the page sends by a request, as a service does that has too much to do.
const REFUSE_NEXT: &str = "const ask = window.fetch; window.fetch = (address, how) => { \
    if (how?.method !== 'POST' || !String(address).endsWith('/messages')) return ask(address, how); \
    window.fetch = ask; \
    const error = {code: 'rate_limited', message: 'too much to do'}; \
    return Promise.resolve(Response.json({error}, {status: 429})); }";

/// OP-51: a message that was refused keeps its branch, its model and its files when its words are changed.
#[tokio::test]
async fn a_refused_message_is_edited_and_stays_what_it_was() {
    let model = FakeModel::start();
    model.otherwise(Reply::text("Yes."));
    let profile = |model_name: &str| {
        let url = model.url();
        format!("{{provider: anthropic, api_url: \"{url}\", api_key: {KEY}, model: {model_name}}}")
    };
    let providers = format!("profiles:\n  default: {}\n  other: {}\n", profile("m"), profile("n"));
    let service =
        Service::prepare().with_file("data/config/providers.yaml", &providers).started().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    for words in ["apples", "pears"] {
        send(&browser, words).await;
        browser.until(&format!("{BUBBLES}.endsWith('{words}')")).await;
        until_last_turn_is(&browser, "done").await;
    }
    browser.keys("#composer", "a draft").await;

    // On a branch.
    browser.click_on(&format!("{TURNS}[1].querySelector('.sent button')")).await;
    browser.until(&format!("{TYPED} === 'pears'")).await;
    browser.run(REFUSE_NEXT).await;
    browser.keys("#composer", &format!(" and figs{}", key::ENTER)).await;
    until_last_turn_is(&browser, "failed").await;
    press(&browser, "Edit").await;
    browser.until(&format!("{TYPED} === 'pears and figs'")).await;
    let editing = browser.text("#editing").await;
    browser.keys("#composer", &format!(" and nuts{}", key::ENTER)).await;
    browser.until(&format!("{BUBBLES} === 'apples,pears and figs and nuts'")).await;
    browser.until(&format!("{FORK} === '‹ 2 of 2 ›'")).await;
    until_last_turn_is(&browser, "done").await;
    assert!(editing.contains("was not taken"), "{editing}");

    // In a new topic, by another model.
    browser.click("#new-topic").await;
    browser.fill("#composer", "").await;
    browser.choose("#model", "other").await;
    browser.run(REFUSE_NEXT).await;
    send(&browser, "plums").await;
    until_last_turn_is(&browser, "failed").await;
    press(&browser, "Edit").await;
    browser.until(&format!("{TYPED} === 'plums'")).await;
    assert_eq!(browser.value("document.querySelector('#model').value").await, "other");
    browser.keys("#composer", &format!(" too{}", key::ENTER)).await;
    browser.until(&format!("{BUBBLES} === 'plums too'")).await;
    until_last_turn_is(&browser, "done").await;
    let asked = model.requests();
    let asked = asked.iter().rfind(|asked| asked.body["messages"].to_string().contains("plums"));
    assert_eq!(asked.unwrap().body["model"], "n");
    browser.close().await;
}

/// OP-51, OP-54: what another team says and calls is seen while it does, in the chat and on the task's page, and stopped there.
#[tokio::test]
async fn delegated_work_is_seen_as_it_happens_and_stopped_in_its_card() {
    let service = Service::start_working().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };

    send(
        &browser,
        "delegate research: #say Looking **around**.\n#call glob {\"pattern\":\"*\"}\n#then\n#say Still at it.\n#wait 60000\n#reply Never.",
    )
    .await;
    let seen = "[document.querySelector('hw-working strong')?.textContent, \
                document.querySelector('hw-working .calls code')?.textContent, \
                document.querySelector('hw-working').textContent.includes('Still at it.')]";
    browser.until("document.querySelector('.given hw-working')").await;
    browser.until(&format!("{seen}.join() === 'around,glob,true'")).await;
    let task = browser.value("document.querySelector('.given-link').hash").await;
    go(&browser, task.as_str().unwrap()).await;
    browser.until("document.querySelector('hw-task, .task-columns')").await;
    browser
        .until(&format!(
            "document.querySelector('hw-working') && {seen}.join() === 'around,glob,true'"
        ))
        .await;
    browser.run("history.back()").await;
    browser.until("document.querySelector('.given button')").await;

    press(&browser, "Stop the work of research").await;
    browser.until("document.querySelector('.given .pill')?.textContent === 'cancelled'").await;

    let rows = data(&service, "/api/v1/tasks?team=research").await;
    assert_eq!(rows[0]["state"], "cancelled");
    assert_eq!(
        browser.value("document.querySelectorAll('hw-working:not([hidden])').length").await,
        0
    );
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51: an edit and its files wait where they were begun, whatever is looked at meanwhile.
#[tokio::test]
async fn an_edit_and_files_are_kept_while_another_view_is_open() {
    let service = Service::start_working().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let path = service.path("kept.txt");
    std::fs::write(&path, "kept").unwrap();
    let attached =
        "[...document.querySelectorAll('.attached')].map(one => one.dataset.state).join()";
    let is_kept = format!(
        "{TYPED} === '#reply First. Better.' && {attached} === 'ready' \
         && !document.querySelector('#editing').hidden"
    );
    send(&browser, "#reply First.").await;
    until_last_turn_is(&browser, "done").await;
    press(&browser, "Edit").await;
    browser.keys("#composer", " Better.").await;
    browser.keys("#choose-files", path.to_str().unwrap()).await;
    browser.until(&is_kept).await;

    go(&browser, "#/tasks").await;
    browser.until("document.querySelector('hw-tasks')").await;
    browser.run("history.back()").await;
    browser.until("document.querySelector('#composer')").await;
    browser.until(&is_kept).await;
    browser.click("#new-topic").await;
    browser.until(&format!("{TYPED} === '' && {attached} === ''")).await;
    browser.click(".topic").await;
    browser.until(&is_kept).await;
    browser.keys("#composer", key::ENTER).await;
    browser.until(&format!("{FORK} === '‹ 2 of 2 ›'")).await;
    until_last_turn_is(&browser, "done").await;

    assert_eq!(browser.value("document.querySelectorAll('.said .file').length").await, 1);
    assert_eq!(browser.value(attached).await, "");
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// The first words of what `/help` lists.
async fn commands(service: &Service) -> String {
    let mut client = service.connect().await;
    client.say("help", "/help").await;
    let help = client.end_of("help").await;
    let lines = help["content"].as_str().unwrap().lines().filter(|line| line.starts_with('/'));
    let mut words: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
    words.sort_unstable();
    words.join(" ")
}

/// OP-51: the composer offers all commands that there are, and teams; a team answers where it was asked, and after a
/// reload too.
#[tokio::test]
async fn any_team_is_talked_to_and_menus_need_no_mouse() {
    let service = Service::start_working().await;
    service.make_team("research", "finds things out").await;
    let commands = commands(&service).await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let offers = "[...document.querySelectorAll('#offers [role=option] strong')].map(one => one.textContent)";

    browser.keys("#composer", "/").await;
    let words = format!("{offers}.map(offer => offer.split(' ')[0]).sort().join(' ')");
    browser.until(&format!("{words} === '{commands}'")).await;
    browser.fill("#composer", "").await;
    browser.keys("#composer", "/ren").await;
    browser.until(&format!("{offers}.join() === '/rename <name>'")).await;
    browser.keys("#composer", key::TAB).await;
    browser.until(&format!("{TYPED} === '/rename '")).await;
    browser.fill("#composer", "").await;
    browser.keys("#composer", "@res").await;
    browser.until(&format!("{offers}.join() === '@research'")).await;
    browser.keys("#composer", key::ESCAPE).await;
    browser.until(&format!("{offers}.length === 0")).await;
    browser.fill("#composer", "").await;
    browser.keys("#composer", "@res").await;
    browser.until(&format!("{offers}.length === 1")).await;
    browser.keys("#composer", key::ENTER).await;
    browser.until("decodeURIComponent(location.hash) === '#/chat/@research'").await;
    until_shown(&browser, "Talk to research").await;

    send(&browser, "#reply From research.").await;
    until_last_turn_is(&browser, "done").await;
    go(&browser, "#/chat?new=1").await;
    browser.until(&format!("{TURNS}.length === 0")).await;
    // Longer than what lists show of a task.
    let long = "Once more, and whole. ".repeat(20);
    let long = long.trim();
    send(&browser, &format!("@research #reply {long}")).await;
    browser.until("decodeURIComponent(location.hash) === '#/chat/@research'").await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    until_last_turn_is(&browser, "done").await;
    let said =
        json!([["#reply From research.", ["From research."]], [format!("#reply {long}"), [long]]]);
    assert_eq!(answers(&browser).await, said);
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until(&format!("{TURNS}.length === 2")).await;

    assert_eq!(answers(&browser).await, said);
    // It is in the list also where nobody has looked at it.
    go(&browser, "#/chat?new=1").await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until("document.querySelector('.topic-name')?.textContent === '@research'").await;
    browser.click(".topic").await;
    browser.until(&format!("{TURNS}.length === 2")).await;
    assert_eq!(answers(&browser).await, said);
    let tasks = data(&service, "/api/v1/tasks?team=research&type=chat").await;
    assert_eq!(tasks.as_array().unwrap().len(), 2);

    // A team has no topics, and what runs there is stopped all the same.
    send(&browser, "#wait 60000\n#reply Never.").await;
    until_last_turn_is(&browser, "running").await;
    browser.keys("#composer", "/st").await;
    browser.until(&format!("{offers}.join() === '/steer <message>,/stop'")).await;
    browser.fill("#composer", "").await;
    send(&browser, "/stop").await;
    browser.until(&format!("{TURNS}[2]?.dataset.status === 'cancelled'")).await;
    has_no_complaints(&browser).await;
    browser.close().await;
}
