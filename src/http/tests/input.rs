//! What makes no sense is refused by name, and nothing breaks by it.

use serde_json::json;

use super::*;

/// Every path with a method it answers.
const PATHS: &[&str] = &[
    "/",
    "/ui/app.js",
    "/healthz",
    "/readyz",
    "/health",
    "/metrics",
    "/api/v1/session",
    "/api/v1/session/links",
    "/api/v1/tokens",
    "/api/v1/tokens/token-1",
    "/api/v1/tokens/operator/rotate",
    "/api/v1/overview",
    "/api/v1/backups",
    "/api/v1/jobs/job-1",
];

/// Every path that reads a body, with one that it takes.
fn bodies() -> [(&'static str, Value); 3] {
    [
        ("/api/v1/session", json!({"token": "x"})),
        ("/api/v1/tokens", json!({"name": "a", "scopes": ["read"]})),
        ("/api/v1/backups", json!({})),
    ]
}

fn post(bench: &Bench, path: &str) -> TestRequest {
    request(Method::POST, path).insert_header(bearer(&bench.operator()))
}

/// OP-01, OP-99
#[actix::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let bench = Bench::new().await;
    for path in PATHS {
        let wrong = request(Method::PATCH, path).insert_header(bearer(&bench.operator()));

        let answer = bench.call(wrong).await;

        assert_eq!(answer.refusal(), (405, "method_not_allowed".to_owned()), "{path}");
        let allowed = answer.header("allow").unwrap();
        for method in allowed.split(", ") {
            let right = request(method.parse().unwrap(), path);
            assert_ne!(bench.call(right).await.status, 405, "{method} {path}");
        }
    }
}

/// OP-01, OP-99
#[actix::test]
async fn an_unknown_path_is_not_found() {
    let bench = Bench::new().await;
    for path in [
        "/x",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v1/session/",
        "/api/v1/tokens/a/b",
        "/api/v2/session",
        "/ui",
        "/ui/",
        "/ui/mod.rs",
        "/ui/../mod.rs",
        "/ui/%2e%2e/mod.rs",
        "//",
    ] {
        let answer = bench.get(path, &bench.operator()).await;

        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{path}");
    }
}

/// SC-76: whatever a body is for, it is looked at before anything of it is built.
#[actix::test]
async fn a_body_that_is_too_deep_or_holds_too_much_is_refused() {
    let bench = Bench::new().await;
    let deep = format!(r#"{{"name": {}1{}}}"#, "[".repeat(64), "]".repeat(64));
    let many = format!(r#"{{"name": [{}1]}}"#, "1,".repeat(100_000));
    for (path, _) in bodies() {
        for (body, reason) in [(&deep, "64 levels"), (&many, "100000 values")] {
            let request = post(&bench, path)
                .insert_header(("Content-Type", "application/json"))
                .set_payload(body.clone());
            let answer = bench.call(request).await;
            assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()));
            assert!(answer.body.contains(reason), "{path} {}", answer.body);
        }
    }
}

/// OP-01, OP-99
#[actix::test]
async fn a_body_that_is_no_json_object_is_refused() {
    let bench = Bench::new().await;
    let deep = "[".repeat(100_000);
    let broken: [&[u8]; 9] = [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b"\"text\"",
        b"{\"token\":\"\xff\"}",
        b"{} {}",
        deep.as_bytes(),
    ];
    for (path, good) in bodies() {
        for body in broken {
            let request = post(&bench, path)
                .insert_header(("Content-Type", "application/json"))
                .set_payload(body.to_vec());
            let answer = bench.call(request).await;
            assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()), "{path}");
        }
        for kind in [None, Some("text/plain"), Some("application/json; charset=latin1")] {
            let mut request = post(&bench, path).set_payload(good.to_string());
            if let Some(kind) = kind {
                request = request.insert_header(("Content-Type", kind));
            }
            let answer = bench.call(request).await;
            assert_eq!(
                answer.refusal(),
                (415, "unsupported_media_type".to_owned()),
                "{path} {kind:?}"
            );
        }
        let request = post(&bench, path)
            .insert_header(("Content-Type", "Application/JSON; charset=\"UTF-8\""))
            .set_payload(good.to_string());
        assert!(![400, 415].contains(&bench.call(request).await.status), "{path}");
    }
    assert_eq!(bench.get("/healthz", "").await.body, "ok");
}

/// OP-01, OP-99
#[actix::test]
async fn an_unknown_field_is_named_with_the_one_that_was_meant() {
    let bench = Bench::new().await;
    for (path, slip, meant) in [
        ("/api/v1/session", "tokn", "token"),
        ("/api/v1/tokens", "scope", "scopes"),
        ("/api/v1/backups", "nmae", "name"),
    ] {
        let answer = bench.post(path, &bench.operator(), json!({slip: 1})).await;

        assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()));
        assert_eq!(answer.field(), slip);
        assert!(answer.body.contains(&format!("did you mean `{meant}`")), "{}", answer.body);
    }
    let far = bench.post("/api/v1/backups", &bench.operator(), json!({"zzzzzzzz": 1})).await;
    assert_eq!(far.field(), "zzzzzzzz");
    let query = bench.get("/api/v1/overview?limt=5", &bench.operator()).await;
    assert_eq!(query.refusal(), (400, "invalid_input".to_owned()));
    assert_eq!(query.field(), "limt");
}

/// OP-99
#[actix::test]
async fn a_field_of_the_wrong_type_is_named_and_its_value_is_not() {
    let bench = Bench::new().await;
    let secret = "hwt_secret-in-the-wrong-place";
    for (path, body, field) in [
        ("/api/v1/session", json!({"token": 5}), "token"),
        ("/api/v1/session", json!({"code": [secret]}), "code"),
        ("/api/v1/tokens", json!({"name": {"a": secret}, "scopes": []}), "name"),
        ("/api/v1/tokens", json!({"name": "a", "scopes": secret}), "scopes"),
        ("/api/v1/tokens", json!({"name": "a", "scopes": [secret]}), "scopes[0]"),
        ("/api/v1/tokens", json!({"name": "a", "scopes": []}), "scopes"),
        ("/api/v1/tokens", json!({"name": secret, "scopes": ["read"]}), "name"),
        ("/api/v1/tokens", json!({"name": "a", "scopes": ["read"], "expires": secret}), "expires"),
        ("/api/v1/tokens", json!({"name": "a", "scopes": ["read"], "expires": "1s"}), "expires"),
        ("/api/v1/backups", json!({"name": 7}), "name"),
        ("/api/v1/backups", json!({"name": "/here"}), "name"),
    ] {
        let answer = bench.post(path, &bench.operator(), body.clone()).await;

        assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()), "{body}");
        assert_eq!(answer.field(), field, "{body} {}", answer.body);
        assert!(!answer.body.contains("wrong-place"), "{}", answer.body);
    }
    let missing = bench.post("/api/v1/tokens", &bench.operator(), json!({"scopes": []})).await;
    assert!(missing.body.contains("missing field `name`"));
}

/// OP-99
#[actix::test]
async fn an_unknown_id_is_not_found() {
    let bench = Bench::new().await;
    let missing = bench.get("/api/v1/jobs/job-99", &bench.operator()).await;

    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
    for id in ["token-0", "%00", "..", &"x".repeat(4_000)] {
        let path = format!("/api/v1/tokens/{id}");
        let request = request(Method::DELETE, &path).insert_header(bearer(&bench.operator()));
        let status = bench.call(request).await.status;
        assert!([404, 405].contains(&status), "{id} {status}");
    }
    let operator =
        request(Method::DELETE, "/api/v1/tokens/operator").insert_header(bearer(&bench.operator()));
    assert_eq!(bench.call(operator).await.refusal(), (409, "conflict".to_owned()));
}

/// OP-13, CH-31
#[actix::test]
async fn a_token_in_a_url_is_refused_wherever_it_stands() {
    let bench = Bench::new().await;
    let token = bench.operator();
    for path in PATHS.iter().chain(&["/ws", "/nowhere"]) {
        for query in [
            format!("token={token}"),
            "access_token=x".to_owned(),
            format!("a=b&q={token}"),
            token.clone(),
        ] {
            let answer = bench.get(&format!("{path}?{query}"), &token).await;

            assert_eq!(answer.refusal(), (400, "token_in_url".to_owned()), "{path}");
            assert!(!answer.body.contains(&token));
        }
    }
}

/// SC-74
#[actix::test]
async fn a_header_that_is_too_long_is_refused() {
    let bench = Bench::new().await;
    let long = request(Method::GET, "/healthz").insert_header(("X-Long", "x".repeat(17_000)));
    let mut many = request(Method::GET, "/healthz");
    for number in 0..100 {
        many = many.insert_header((format!("x-{number}"), "x"));
    }

    for request in [long, many] {
        let answer = bench.call(request).await;
        assert_eq!(answer.refusal(), (431, "header_too_large".to_owned()));
    }
}
