//! What happens elsewhere, as it happens.

use futures_util::future;
use serde_json::{Value, json};

use super::{ONLINE, asking, chat, go, has_no_complaints, send, until_last_turn_is, write};
use crate::{service::Service, webdriver::Browser};

/// OP-66: views follow without a reload.
#[tokio::test]
async fn what_others_do_is_seen_at_once() {
    let service = asking().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let team = json!({"name": "research", "description": "finds things out", "scope_accepts": ["research"]});
    let trigger = json!({
        "team": "main", "name": "weekly", "type": "schedule", "config": {"cron": "0 9 * * 1"},
        "task": "Sum up the week", "enable": true,
    });
    let memory =
        json!({"team": "main", "key": "tone", "content": "Short letters.", "type": "context"});
    let secret = json!({"value": "a-value-nobody-sees", "secret": true});

    for (hash, method, path, body, seen) in [
        ("#/org", "POST", "/api/v1/teams", team, "[aria-label^='research:']"),
        ("#/triggers", "POST", "/api/v1/triggers", trigger, ".rows tbody tr"),
        ("#/memory?team=main", "POST", "/api/v1/memories", memory, ".rows tbody tr"),
        ("#/vault", "PUT", "/api/v1/vault/system/smtp-password", secret, ".rows tbody tr"),
    ] {
        go(&browser, hash).await;
        browser.until("document.querySelector('#view .empty')").await;
        let (status, answer) = service.api(method, path, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        browser
            .until(&format!("document.querySelector('#view').querySelector({})", json!(seen)))
            .await;
    }
    go(&browser, "#/approvals").await;
    browser.until("document.querySelector('#view .empty')").await;
    let mut client = service.connect().await;
    client.say("held", &write("a.md")).await;
    browser
        .until(
            "document.querySelector('[data-act=approve]') && \
             document.querySelector(\".nav a[href='#/approvals'] .badge\")",
        )
        .await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-51, OP-67: what was thought is there, folded, also after a reload.
#[tokio::test]
async fn thinking_is_folded_away() {
    let service = Service::start().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let thought = "document.querySelector('.turn .thinking:not([open])')?.textContent.includes('Perhaps it is a riddle.')";

    send(&browser, "#think Perhaps it is a riddle.\n#say Hm.\n#reply Yes.").await;
    until_last_turn_is(&browser, "done").await;
    browser.until(thought).await;
    browser.reload().await;
    browser.until(ONLINE).await;
    browser.until(thought).await;

    has_no_complaints(&browser).await;
    browser.close().await;
}

const UNLIMITED: &str = "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n";

/// Takes hold of the state that the page itself keeps, and notes each event that it applies.
const FOLLOW: &str = "
    const app = document.querySelector('script[type=module]').src;
    import(new URL('live/live.js', app)).then(({ live }) => {
      Object.assign(window, { live, heard: [], stale: [], known: live.state.seq });
      live.addEventListener('resync', () => { window.known = live.state.seq; });
      for (const type of ['turn', 'task.changed', 'message', 'topic.changed']) {
        live.addEventListener(type, ({ detail }) => {
          window.heard.push(`${live.state.boot}-${detail.seq}`);
          if (detail.seq <= window.known) window.stale.push(detail.seq);
        });
      }
      done(true);
    });
";
const TOPICS: &str = "[...live.state.topics.values()].map(topic => [topic.id, topic.name]).sort()";

/// Several people talk at once.
async fn talk(service: &Service) {
    let talks = (0..5).map(|number| async move {
        let mut client = service.connect().await;
        let words = format!("person {number} speaks of {}", "many things ".repeat(20));
        let topic = client.open_topic(&words).await;
        for message in 0..10 {
            let id = format!("m-{message}");
            client.say_in(&topic, &id, &words).await;
            client.end_of(&id).await;
        }
    });
    future::join_all(talks).await;
}

/// The page is as far as the service is, and knows the same.
async fn knows_the_same(browser: &Browser, service: &Service) {
    let (_, answer) = service.api("GET", "/api/v1/snapshot", None).await;
    let snapshot = &answer["data"];
    let arrived = format!(
        "live.state.boot === {} && live.state.seq >= {}",
        snapshot["boot"], snapshot["seq"]
    );
    browser.until(&arrived).await;

    let mut topics: Vec<Value> = snapshot["topics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|topic| json!([topic["id"], topic["name"]]))
        .collect();
    topics.sort_by_key(|topic| topic[0].as_str().unwrap().to_owned());
    assert_eq!(browser.value(TOPICS).await, json!(topics));
    assert_eq!(browser.value("live.state.running.size").await, 0);
    assert_eq!(browser.value("stale").await, json!([]));
    let twice = "heard.length - new Set(heard).size";
    assert_eq!(browser.value(twice).await, 0);
}

/// OP-66, OP-95: the state that the page keeps, through a stall, a break and a restart of the service.
#[tokio::test]
async fn the_page_knows_what_the_snapshot_says() {
    let mut service =
        Service::prepare().with_file("data/config/channels.yaml", UNLIMITED).started().await;
    service.keep_port();
    let Some(browser) = chat(&service).await else {
        return;
    };
    browser.wait_for(FOLLOW).await;

    talk(&service).await;
    knows_the_same(&browser, &service).await;
    let stalls = "const end = Date.now() + 3000; while (Date.now() < end);";
    future::join(browser.run(stalls), talk(&service)).await;
    knows_the_same(&browser, &service).await;
    browser.unplug(true).await;
    talk(&service).await;
    browser.unplug(false).await;
    knows_the_same(&browser, &service).await;
    service.kill();
    service.launch().await;
    talk(&service).await;
    knows_the_same(&browser, &service).await;

    let heard = browser.value("heard.length").await;
    assert!(heard.as_u64().unwrap() > 500, "{heard} events");
    browser.close().await;
}
