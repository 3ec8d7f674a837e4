//! Requests that are sent again under the same `Idempotency-Key`.

use serde_json::json;

use super::*;

async fn keyed(bench: &Bench, path: &str, token: &str, key: &str, body: Value) -> Answer {
    let request = request(Method::POST, path)
        .insert_header(bearer(token))
        .insert_header(("Idempotency-Key", key));
    bench.call(request.set_json(body)).await
}

fn rule(resource: &str) -> Value {
    json!({"resource": resource, "effect": "deny"})
}

async fn rules(bench: &Bench) -> usize {
    let listed = bench.get("/api/v1/policies", &bench.operator()).await;
    listed.json()["data"].as_array().unwrap().len()
}

/// OP-04
#[actix::test]
async fn a_repeat_returns_the_first_answer_and_does_nothing() {
    let bench = Bench::new().await;
    let operator = bench.operator();

    let first = keyed(&bench, "/api/v1/policies", &operator, "k1", rule("tool:bash")).await;
    let again = keyed(&bench, "/api/v1/policies", &operator, "k1", rule("tool:bash")).await;
    let other = keyed(&bench, "/api/v1/policies", &operator, "k1", rule("tool:read")).await;
    let elsewhere = keyed(&bench, "/api/v1/policies", &operator, "k2", rule("tool:bash")).await;

    assert_eq!(first.status, 201, "{}", first.body);
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.header("content-type"), first.header("content-type"));
    assert_eq!(other.refusal(), (409, "conflict".to_owned()));
    assert_eq!(elsewhere.status, 201);
    assert_eq!(rules(&bench).await, 2);
}

/// OP-04
#[actix::test]
async fn a_key_belongs_to_a_token_and_ends_after_a_day() {
    let bench = Bench::new().await;
    let (operator, admin) = (bench.operator(), bench.token("admin", only(Scope::Admin)).await);
    let path = "/api/v1/policies";
    keyed(&bench, path, &operator, "k", rule("tool:bash")).await;

    let of_another = keyed(&bench, path, &admin, "k", rule("tool:bash")).await;
    bench.clock.advance(Duration::from_secs(23 * 60 * 60));
    let same_day = keyed(&bench, path, &operator, "k", rule("tool:bash")).await;
    bench.clock.advance(Duration::from_secs(2 * 60 * 60));
    let next_day = keyed(&bench, path, &operator, "k", rule("tool:bash")).await;

    assert!(of_another.header("idempotency-replayed").is_none());
    assert_eq!(same_day.header("idempotency-replayed"), Some("true"));
    assert!(next_day.header("idempotency-replayed").is_none());
    assert_eq!(rules(&bench).await, 3);
}

/// OP-04
#[actix::test]
async fn a_refusal_is_not_kept() {
    let bench = Bench::new().await;
    let operator = bench.operator();

    let wrong = keyed(&bench, "/api/v1/policies", &operator, "k", json!({})).await;
    let right = keyed(&bench, "/api/v1/policies", &operator, "k", rule("tool:bash")).await;
    let long = keyed(&bench, "/api/v1/policies", &operator, &"k".repeat(129), json!({})).await;

    assert_eq!(wrong.status, 400);
    assert_eq!(right.status, 201, "{}", right.body);
    assert_eq!(long.refusal().0, 400);
    assert_eq!(long.field(), "Idempotency-Key");
}

/// OP-04, OP-11: what is shown once is not stored to be shown again.
#[actix::test]
async fn an_answer_with_a_secret_is_not_kept() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let wish = json!({"name": "ci", "scopes": ["read"]});

    let first = keyed(&bench, "/api/v1/tokens", &operator, "k", wish.clone()).await;
    let again = keyed(&bench, "/api/v1/tokens", &operator, "k", wish).await;

    let token = first.json()["data"]["token"].as_str().unwrap().to_owned();
    assert_eq!(again.refusal(), (409, "conflict".to_owned()));
    assert!(!bench.stored().contains(&token));
    let encoded =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, first.body.as_bytes());
    assert!(!bench.stored().contains(&encoded));
}

/// OP-04, OP-12
#[actix::test]
async fn a_repeat_needs_a_live_credential_too() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    keyed(&bench, "/api/v1/policies", &admin, "k", rule("tool:bash")).await;
    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().revoke("admin", false, &operator).await.unwrap();

    let again = keyed(&bench, "/api/v1/policies", &admin, "k", rule("tool:bash")).await;

    assert_eq!(again.refusal(), (401, "unauthenticated".to_owned()));
}

/// OP-04: whoever only lost their patience does not know what was done, and it is not done again.
#[actix::test]
async fn what_failed_after_the_act_is_not_done_twice() {
    let bench = Bench::new().await;
    let operator = bench.operator();

    let failed = keyed(&bench, "/late", &operator, "k", json!({})).await;
    let again = keyed(&bench, "/late", &operator, "k", json!({})).await;

    assert_eq!(failed.refusal(), (500, "internal".to_owned()));
    assert_eq!(again.refusal(), (409, "conflict".to_owned()));
    assert!(again.body.contains("what came of it is not known"));
    assert_eq!(bench.stored().matches("edge\0late\0").count(), 1);
}

/// OP-04: whoever lost the connection learns by asking again what came of it.
#[actix::test]
async fn a_request_goes_on_when_its_connection_breaks() {
    let bench = Bench::new().await;
    let (app, operator) = (bench.app().await, bench.operator());
    let sent = request(Method::POST, "/slow")
        .insert_header(bearer(&operator))
        .insert_header(("Idempotency-Key", "k"))
        .set_json(json!({}))
        .peer_addr("127.0.0.1:9".parse().unwrap());
    let mut broken = Box::pin(dev::Service::call(&app, sent.to_request()));

    while !bench.stored().contains("edge\0slow\0") {
        assert!(futures_util::poll!(&mut broken).is_pending());
        tokio::task::yield_now().await;
    }
    drop(broken);
    let again = loop {
        let again = keyed(&bench, "/slow", &operator, "k", json!({})).await;
        if !again.body.contains("is under way") {
            break again;
        }
        tokio::task::yield_now().await;
    };

    assert_eq!((again.status, again.body.as_str()), (201, "\"done\""));
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
}

/// OP-18: with a key and without.
#[actix::test]
async fn what_was_done_is_in_the_audit_also_if_its_connection_breaks() {
    for key in [None, Some(("Idempotency-Key", "k"))] {
        let bench = Bench::new().await;
        let app = bench.app().await;
        let sent = request(Method::POST, "/api/v1/tokens")
            .insert_header(bearer(&bench.operator()))
            .set_json(json!({"name": "left-behind", "scopes": ["read"]}))
            .peer_addr("127.0.0.1:9".parse().unwrap());
        let sent = if let Some(key) = key { sent.insert_header(key) } else { sent };
        let mut broken = Box::pin(dev::Service::call(&app, sent.to_request()));

        while !bench.stored().contains("left-behind") {
            assert!(futures_util::poll!(&mut broken).is_pending());
            tokio::task::yield_now().await;
        }
        drop(broken);

        let told = async {
            while !bench.stored().contains("tokens.create") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), told).await.expect("a line of the audit");
    }
}

/// OP-04
#[actix::test]
async fn a_service_that_stops_has_done_nothing() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let send = async || {
        let body = json!({"content": "hello there"});
        keyed(&bench, "/api/v1/messages", &operator, "k", body).await
    };

    bench.surroundings.draining.store(true, Ordering::SeqCst);
    let refused = send().await;
    bench.surroundings.draining.store(false, Ordering::SeqCst);
    let taken = send().await;

    assert_eq!(refused.refusal(), (503, "draining".to_owned()));
    assert_eq!(taken.status, 202, "{}", taken.body);
}
