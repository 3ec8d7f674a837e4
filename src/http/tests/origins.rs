//! Pages of other origins: what they try with the browser of a person who is logged in here.

use serde_json::json;

use super::{contract::filled, *};
use crate::http::routes::table::table;

const EVIL: &str = "https://evil.example";

type Header = (&'static str, &'static str);

/// What a browser would send for such a page, if it sent the cookie at all.
fn attempts() -> Vec<(&'static str, Method, Vec<Header>)> {
    let site = ("Sec-Fetch-Site", "cross-site");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let plain = ("Content-Type", "text/plain");
    vec![
        ("form", Method::POST, vec![("Origin", EVIL), site, form]),
        ("sandboxed form", Method::POST, vec![("Origin", "null"), form]),
        ("fetch", Method::POST, vec![("Origin", EVIL), plain]),
        ("fetch", Method::PUT, vec![("Origin", EVIL), site]),
        ("fetch", Method::PATCH, vec![("Origin", EVIL), site]),
        ("fetch", Method::DELETE, vec![("Origin", EVIL), site]),
        ("fetch", Method::GET, vec![("Origin", EVIL), site, ("Sec-Fetch-Mode", "cors")]),
        (
            "image",
            Method::GET,
            vec![site, ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
        ),
        ("script", Method::GET, vec![site, ("Sec-Fetch-Dest", "script")]),
        (
            "event stream",
            Method::GET,
            vec![("Origin", EVIL), site, ("Accept", "text/event-stream")],
        ),
        (
            "frame",
            Method::GET,
            vec![site, ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "iframe")],
        ),
        (
            "WebSocket",
            Method::GET,
            vec![("Origin", EVIL), ("Connection", "Upgrade"), ("Upgrade", "websocket")],
        ),
        (
            "preflight",
            Method::OPTIONS,
            vec![("Origin", EVIL), ("Access-Control-Request-Method", "POST"), site],
        ),
    ]
}

/// What is stored beside the audit and the times of use.
fn lasting(bench: &Bench) -> Vec<String> {
    let stored = bench.stored();
    let lines = stored.lines().filter(|line| !line.starts_with("audit"));
    let lines = lines.filter(|line| !line.contains("last_used_at"));
    lines.map(str::to_owned).collect()
}

/// OP-92, OP-15, OP-16, SC-02: on every route, nothing is read and nothing changes.
#[actix::test]
async fn a_page_of_another_origin_reads_nothing_and_changes_nothing() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let cookie = format!("hw_session={}", browser.cookie.expose());
    let before = lasting(&bench);
    let mut paths: Vec<String> = table().iter().map(|one| filled(one.path)).collect();
    paths.push("/ws".to_owned());

    for path in &paths {
        for (how, method, headers) in attempts() {
            let mut attempt = request(method.clone(), path)
                .insert_header(("Cookie", cookie.as_str()))
                .set_payload(json!({"now": true}).to_string());
            for header in headers {
                attempt = attempt.insert_header(header);
            }

            let answer = answer(&app, attempt).await;

            let case = format!("{how}: {method} {path} {}", answer.status);
            assert_eq!(answer.refusal(), (403, "origin".to_owned()), "{case}");
            assert_eq!(answer.header("access-control-allow-origin"), None, "{case}");
        }
    }

    assert_eq!(lasting(&bench), before);
}

/// OP-92, OP-16: a browser without `Sec-Fetch-Site` may fetch, but its page is not shown the answer.
#[actix::test]
async fn no_answer_is_shared_with_another_origin() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let cookie = format!("hw_session={}", browser.cookie.expose());
    for resource in table() {
        let asked = request(Method::GET, &filled(resource.path))
            .insert_header(("Cookie", cookie.as_str()))
            .insert_header(("Origin", EVIL));

        let answer = answer(&app, asked).await;

        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
    }
}

/// OP-92, OP-16, SC-02: another name for this machine.
#[actix::test]
async fn a_rebound_name_reaches_nothing() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    for resource in table() {
        for (method, _) in &resource.operations {
            for host in ["evil.example", "evil.example:8080", "localhost.evil.example"] {
                let asked = TestRequest::with_uri(&filled(resource.path))
                    .method(method.clone())
                    .insert_header(("Host", host))
                    .insert_header(bearer(&bench.operator()))
                    .set_json(json!({}));

                let answer = answer(&app, asked).await;

                let case = format!("{host} {method} {}", resource.path);
                assert_eq!(answer.refusal(), (421, "unknown_host".to_owned()), "{case}");
            }
        }
    }
}

/// OP-92, OP-64
#[actix::test]
async fn no_page_can_be_framed() {
    let bench = Bench::new().await;
    for path in ["/", "/api/v1/docs"] {
        let page = bench.get(path, &bench.operator()).await;

        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(policy.contains("default-src 'self'"), "{path}");
    }
}
