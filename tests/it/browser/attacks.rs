//! A page of another origin, in the browser of a person who is logged in here.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{ONLINE, furnished};
use crate::{
    service::Service,
    webdriver::{Browser, key},
};

/// Names that lead to this machine without being its name.
const NAMES: &str = "--host-resolver-rules=MAP evil.example 127.0.0.1";

/// Tries everything that a page can try, and says what it could read of each attempt. `TARGET` is the service.
const ATTEMPTS: &str = r##"
const seen = {};
const soon = (promise) => Promise.race([promise, new Promise(resolve => setTimeout(resolve, 4000, "nothing"))]);
const attempt = (name, promise) => soon(promise).then(read => seen[name] = read ?? "nothing", () => seen[name] = "nothing");
const words = JSON.stringify({name: "intruder", description: "x", scope_accepts: ["x"]});
const text = async (answer) => answer.type === "opaque" ? "nothing" : (await answer.text()) || "nothing";
const get = (path, more) => fetch(TARGET + path, {credentials: "include", ...more}).then(text);
const element = (tag, attributes) => new Promise(resolve => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.onload = () => resolve(tag === "iframe" ? inside(made) : "loaded");
  made.onerror = () => resolve("nothing");
  document.body.append(made);
});
const inside = (frame) => { try { return frame.contentDocument?.body.innerText || "nothing"; } catch { return "nothing"; } };
const form = (path, type, fields) => new Promise(resolve => {
  const frame = document.createElement("iframe");
  frame.name = "frame" + Math.random();
  const made = Object.assign(document.createElement("form"), {method: "post", action: TARGET + path, enctype: type, target: frame.name});
  for (const [name, value] of Object.entries(fields)) made.append(Object.assign(document.createElement("input"), {name, value}));
  document.body.append(frame, made);
  frame.onload = () => resolve(inside(frame));
  made.submit();
});
const socket = new Promise(resolve => {
  const made = new WebSocket(TARGET.replace("http", "ws") + "/ws");
  made.onopen = () => made.send(JSON.stringify({content: "#reply from elsewhere"}));
  made.onmessage = (event) => resolve(event.data);
  made.onerror = made.onclose = () => resolve("nothing");
});
const stream = new Promise(resolve => {
  const made = new EventSource(TARGET + "/api/v1/events", {withCredentials: true});
  made.onopen = () => resolve("opened");
  made.onerror = () => (made.close(), resolve("nothing"));
});
Promise.all([
  attempt("fetch", get("/api/v1/snapshot")),
  attempt("simple fetch", get("/api/v1/teams", {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: words})),
  attempt("fetch with JSON", get("/api/v1/teams", {method: "POST", headers: {"Content-Type": "application/json"}, body: words})),
  attempt("delete", get("/api/v1/teams/research", {method: "DELETE"})),
  attempt("beacon", Promise.resolve(navigator.sendBeacon(TARGET + "/api/v1/pause", "{}") && "nothing")),
  attempt("form", form("/api/v1/pause", "application/x-www-form-urlencoded", {now: "true"})),
  attempt("form as text", form("/api/v1/teams", "text/plain", {'{"name":"intruder","description":"': 'x","scope_accepts":["x"]}'})),
  attempt("image", element("img", {src: TARGET + "/ui/icon.svg"})),
  attempt("picture of an answer", element("img", {src: TARGET + "/api/v1/snapshot"})),
  attempt("script", element("script", {src: TARGET + "/api/v1/snapshot"})),
  attempt("frame", element("iframe", {src: TARGET + "/"})),
  attempt("WebSocket", socket),
  attempt("event stream", stream),
]).then(() => done(seen));
"##;

/// A server of somebody else: an empty page at every path. It keeps the heads of all requests.
struct Elsewhere {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    kept.lock().unwrap().push(head);
                    let page = "<!doctype html><title>elsewhere</title><body>";
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                        page.len()
                    );
                    // A browser that has gone needs no answer.
                    let _gone = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { port, heads }
    }
}

/// All that an attack could change.
async fn state(service: &Service) -> Vec<Value> {
    let mut all = Vec::new();
    for path in [
        "teams",
        "tasks",
        "topics",
        "approvals",
        "questions",
        "memories",
        "triggers",
        "tokens",
        "trust",
        "policies",
        "vault",
    ] {
        let (status, mut answer) = service.api("GET", &format!("/api/v1/{path}"), None).await;
        assert_eq!(status, 200, "{path}: {answer}");
        // What only tells the time.
        for row in answer["data"].as_array_mut().unwrap() {
            for moves in ["last_used_at", "time_left_ms", "age_ms"] {
                row.as_object_mut().unwrap().remove(moves);
            }
        }
        all.push(answer["data"].take());
    }
    all
}

/// OP-92, OP-16: whatever a page elsewhere tries, nothing changes and nothing is read.
#[tokio::test]
async fn a_page_elsewhere_changes_and_reads_nothing() {
    let service = furnished().await;
    let elsewhere = Elsewhere::open().await;
    let Some(browser) = Browser::start_with(&[NAMES], false).await else {
        return;
    };
    browser.open(&service.login_link().await).await;
    browser.until(ONLINE).await;
    let before = state(&service).await;

    // Another port is another origin of the same site, which a browser gives its cookies to; the others are other sites.
    for host in ["127.0.0.1", "localhost", "evil.example"] {
        browser.open(&format!("http://{host}:{}/", elsewhere.port)).await;
        let target = json!(service.url());
        let seen = browser.wait_for(&format!("const TARGET = {target};{ATTEMPTS}")).await;

        for (attempt, read) in seen.as_object().unwrap() {
            assert_eq!(read, "nothing", "{attempt} from {host}");
        }
        assert_eq!(seen.as_object().unwrap().len(), 13, "{seen}");
        assert_eq!(state(&service).await, before, "from {host}");
    }
    browser.close().await;
}

/// OP-92, OP-16, SC-02: a name that suddenly leads here is not ours.
#[tokio::test]
async fn a_rebound_name_shows_nothing() {
    let service = furnished().await;
    let Some(browser) = Browser::start_with(&[NAMES], false).await else {
        return;
    };
    browser.open(&service.login_link().await).await;
    browser.until(ONLINE).await;
    let before = state(&service).await;
    let rebound = service.url().replace("127.0.0.1", "evil.example");

    browser.open(&format!("{rebound}/")).await;
    let page = browser.value("document.body.innerText").await;
    let tried = r#"
        const words = JSON.stringify({name: "intruder", description: "x", scope_accepts: ["x"]});
        const post = {method: "POST", headers: {"Content-Type": "application/json"}, body: words};
        const open = new Promise(resolve => {
          const socket = new WebSocket(location.origin.replace("http", "ws") + "/ws");
          socket.onopen = () => resolve("opened");
          socket.onerror = () => resolve("refused");
        });
        const ask = (path, more) => fetch(path, more).then(answer => answer.status);
        Promise.all([ask("/"), ask("/healthz"), ask("/api/v1/snapshot"), ask("/api/v1/teams", post), ask("/api/v1/session", post), open])
          .then(done);
    "#;
    let tried = browser.wait_for(tried).await;

    assert!(page.as_str().unwrap().contains("unknown_host"), "{page}");
    assert_eq!(tried, json!([421, 421, 421, 421, 421, "refused"]));
    assert_eq!(state(&service).await, before);
    browser.close().await;
}

/// OP-92, OP-64, SC-02: what logs a person in is in no address, no referrer and no log.
#[tokio::test]
async fn what_logs_in_is_told_to_nobody() {
    let service = Service::start().await;
    let elsewhere = Elsewhere::open().await;
    let Some(browser) = Browser::start_with(&[], true).await else {
        return;
    };
    let link = service.login_link().await;
    let (_, code) = link.split_once("#code=").unwrap();
    let token = service.token();

    browser.open(&link).await;
    browser.until(ONLINE).await;
    let away = format!("http://127.0.0.1:{}/", elsewhere.port);
    let leave = format!(
        "document.body.append(Object.assign(document.createElement('a'), {{href: {}, id: 'away', textContent: 'away'}}))",
        json!(away)
    );
    browser.run(&leave).await;
    browser.run("document.querySelector('#away').click()").await;
    browser.until("document.title === 'elsewhere'").await;
    browser.forget_cookies().await;
    browser.open(&service.url()).await;
    browser.until("!document.querySelector('#login').hidden").await;
    browser.keys("#token", &format!("{token}{}", key::ENTER)).await;
    browser.until(ONLINE).await;

    let heads = elsewhere.heads.lock().unwrap().clone();
    assert!(!heads.is_empty());
    for head in heads {
        assert!(!head.contains(&format!("Referer: {}", service.url())), "{head}");
        assert!(!head.contains(code) && !head.contains(&token), "{head}");
    }
    for (event, told) in browser.trace().await {
        if event != "Network.requestWillBeSent" && event != "Network.webSocketCreated" {
            continue;
        }
        let address = match event.as_str() {
            "Network.webSocketCreated" => &told["url"],
            _ => &told["request"]["url"],
        };
        let address = address.as_str().unwrap();
        assert!(!address.contains(code) && !address.contains(&token), "{address}");
        let referrer = told["request"]["headers"]["Referer"].to_string();
        assert!(!referrer.contains(&service.url()), "{address}: {referrer}");
    }
    let log = service.log();
    assert!(!log.contains(code) && !log.contains(&token));
    browser.close().await;
}
