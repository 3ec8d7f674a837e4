//! The audit of what is done over HTTP, and the notice of a token that was seen.

use std::ops::ControlFlow;

use hivewright_actors::{audit::Audit, store::reads};
use serde_json::json;

use super::{contract::filled, *};
use crate::http::table;

/// All lines, oldest first.
async fn lines(bench: &Bench) -> Vec<Audit> {
    let read = bench.state.spine.store.read(|storage| {
        let mut lines = Vec::new();
        reads::audits(storage, &mut |line| {
            lines.push(line);
            ControlFlow::Continue(())
        })?;
        Ok(lines)
    });
    let mut lines = read.await.unwrap();
    lines.reverse();
    lines
}

/// OP-18, SC-30
#[actix::test]
async fn every_act_leaves_a_line_with_who_what_from_where_and_outcome() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let reader = bench.token("reader", only(Scope::Read)).await;
    let login = |token: &str| {
        let body = json!({ "token": token });
        request(Method::POST, "/api/v1/session").set_json(body)
    };

    bench.call(login(&operator)).await;
    bench.call(login("hwo_wrong")).await;
    let wish = json!({"name": "ci", "scopes": ["read"]});
    bench.post("/api/v1/tokens", &operator, wish.clone()).await;
    bench.post("/api/v1/tokens", &reader, wish).await;
    bench.delete("/api/v1/tokens/ci", &operator).await;
    let cancel = "/api/v1/tasks/task-0/cancel";
    bench.post(cancel, &operator, json!({})).await;
    let put = request(Method::PUT, "/api/v1/vault/system/API_KEY").insert_header(bearer(&operator));
    bench
        .call(put.set_json(json!({"value": "a-secret-value"})))
        .await;
    bench.get("/api/v1/tokens", &operator).await;

    let lines = lines(&bench).await;
    let shown: Vec<(&str, &str, &str, &str)> = lines
        .iter()
        .map(|line| {
            assert_eq!(line.from, "api 127.0.0.1");
            (
                line.actor.as_str(),
                line.action.as_str(),
                line.target.as_str(),
                line.outcome.as_str(),
            )
        })
        .collect();
    let mut expected = vec![
        ("operator", "session.create", "", "ok"),
        ("nobody", "session.create", "", "401"),
        ("operator", "tokens.create", "", "ok"),
        ("reader", "tokens.create", "", "403"),
        ("operator", "tokens.delete", "ci", "ok"),
        ("operator", "tasks.cancel", "task-0", "404"),
        ("operator", "vault.set", "system/API_KEY", "ok"),
    ];
    // The clock stands: lines of one moment have no order.
    let mut sorted = shown.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(!format!("{lines:?}").contains("a-secret-value"));
}

/// OP-18: nothing that can be changed is changed without a line, and neither is what was refused.
#[actix::test]
async fn every_operation_that_changes_something_leaves_a_line() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    let mut seen = 0;
    for resource in table() {
        for (method, operation) in &resource.operations {
            let is_api = resource.path.starts_with("/api/v1/");
            if !is_api || [Method::GET, Method::HEAD].contains(method) {
                continue;
            }
            // It ends what all the others are asked with.
            if resource.path == "/api/v1/tokens/operator/rotate" {
                continue;
            }
            let case = format!("{method} {}", resource.path);
            let body = operation
                .example
                .map_or(json!({}), |text| serde_json::from_str(text).unwrap());
            let before = lines(&bench).await.len();
            let act = request(method.clone(), &filled(resource.path))
                .insert_header(bearer(&operator))
                .set_json(body);

            let answered = answer(&app, act).await;

            let after = lines(&bench).await.len();
            assert!(
                after > before,
                "{case} leaves no line ({})",
                answered.status
            );
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
    let rotate = "/api/v1/tokens/operator/rotate";
    bench.post(rotate, &operator, json!({})).await;
    let last = lines(&bench).await;
    assert!(
        last.iter()
            .any(|line| line.action == "tokens.operator.rotate")
    );
}

/// OP-18: strangers cannot fill the store.
#[actix::test]
async fn strangers_leave_few_lines() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    for _ in 0..200 {
        let login = request(Method::POST, "/api/v1/session").set_json(json!({"token": "x"}));
        assert_eq!(answer(&app, login).await.status, 401);
    }

    assert_eq!(lines(&bench).await.len(), 30);
}

/// OP-13
#[actix::test]
async fn a_token_in_a_url_is_told_to_the_operator() {
    let bench = Bench::new().await;
    let token = bench.token("ci", only(Scope::Read)).await;

    bench
        .call(request(
            Method::GET,
            "/api/v1/overview?token=nothing-of-ours",
        ))
        .await;
    let refused = bench
        .call(request(
            Method::GET,
            &format!("/api/v1/overview?token={token}"),
        ))
        .await;

    assert_eq!(refused.refusal(), (400, "token_in_url".to_owned()));
    let inbox = bench.get("/api/v1/inbox", &bench.operator()).await;
    let rows = inbox.json()["data"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1, "{}", inbox.body);
    assert_eq!(rows[0]["kind"], "token_exposed");
    let text = rows[0]["text"].as_str().unwrap();
    assert!(text.contains("`ci`") && text.contains("hivewright token revoke ci"));
    assert!(!bench.stored().contains(&token));
}

/// OP-18: an act that was done is not called undone because it could not be written down.
#[actix::test]
async fn an_act_without_its_line_is_said_to_be_done() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    bench.storage.refuse("audit");

    let wish = serde_json::json!({"name": "ci", "scopes": ["read"]});
    let made = bench.post("/api/v1/tokens", &operator, wish).await;

    assert_eq!(made.refusal(), (500, "internal".to_owned()));
    assert!(made.body.contains("this was done"), "{}", made.body);
    assert!(bench.auth().grants().iter().any(|grant| grant.name == "ci"));
}
