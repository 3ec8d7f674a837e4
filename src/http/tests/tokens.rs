//! Tokens that tokens make.

use serde_json::json;

use super::*;

const PATH: &str = "/api/v1/tokens";

/// A token that someone made, as the answer shows it.
async fn made(bench: &Bench, by: &str, wish: Value) -> Value {
    let answer = bench.post(PATH, by, wish).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json()["data"].clone()
}

fn text(row: &Value) -> String {
    row["token"].as_str().unwrap().to_owned()
}

/// OP-11, SC-01
#[actix::test]
async fn a_token_lives_no_longer_than_the_one_that_made_it() {
    let bench = Bench::new().await;
    let wish = json!({"name": "short", "scopes": ["admin", "read"], "expires": "90s"});
    let maker = made(&bench, &bench.operator(), wish).await;
    let by = text(&maker);

    let never = json!({"name": "never", "scopes": ["admin"], "expires": "never"});
    let never = made(&bench, &by, never).await;
    let usual = made(&bench, &by, json!({"name": "usual", "scopes": ["read"]})).await;
    let grandchild = json!({"name": "child", "scopes": ["admin"], "expires": "1d"});
    let grandchild = made(&bench, &text(&never), grandchild).await;
    let sooner = json!({"name": "sooner", "scopes": ["read"], "expires": "60s"});
    let sooner = made(&bench, &by, sooner).await;

    for row in [&never, &usual, &grandchild] {
        assert_eq!(row["expires_at"], maker["expires_at"], "{row}");
    }
    assert!(sooner["expires_at"].as_str() < maker["expires_at"].as_str());
    assert_eq!(bench.get(PATH, &text(&grandchild)).await.status, 200);
    bench.clock.advance(Duration::from_secs(90));
    for row in [&never, &usual, &grandchild] {
        assert_eq!(bench.get(PATH, &text(row)).await.status, 401);
    }
}

/// OP-12
#[actix::test]
async fn a_token_says_who_made_it_and_what_it_made_can_end_with_it() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let admin = |name: &str| json!({"name": name, "scopes": ["admin"]});
    let mother = made(&bench, &operator, admin("mother")).await;
    let daughter = made(&bench, &text(&mother), admin("daughter")).await;
    let granddaughter = made(&bench, &text(&daughter), admin("granddaughter")).await;
    let other = made(&bench, &operator, admin("other")).await;
    let names = async || {
        let listed = bench.get(PATH, &operator).await.json();
        let rows = listed["data"].as_array().unwrap().clone();
        let names = rows.iter().map(|row| row["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };

    let maker = |row: &Value| row["minted_by"].clone();
    assert_eq!(maker(&mother)["name"], "operator");
    assert_eq!(maker(&daughter), json!({"id": mother["id"], "name": "mother"}));
    let listed = bench.get(PATH, &operator).await.json();
    let rows = listed["data"].as_array().unwrap();
    let shown = rows.iter().find(|row| row["name"] == "granddaughter");
    assert_eq!(maker(shown.unwrap()), maker(&granddaughter));

    // Its own children stay unless it is said.
    let alone = bench.delete("/api/v1/tokens/other", &operator).await;
    assert_eq!(alone.status, 204);
    assert_eq!(names().await.len(), 4);
    let all = bench.delete("/api/v1/tokens/mother?minted=true", &operator).await;
    assert_eq!(all.status, 204, "{}", all.body);
    assert_eq!(names().await, ["operator"]);
    for row in [&mother, &daughter, &granddaughter, &other] {
        assert_eq!(bench.get(PATH, &text(row)).await.status, 401);
    }
}

/// OP-12, OP-18: what the audit and the trust gate call somebody is nobody's name.
#[actix::test]
async fn a_token_has_no_name_that_means_somebody_else() {
    let bench = Bench::new().await;
    for name in [
        "operator",
        "ws-client",
        "nobody",
        "system",
        "service",
        "everybody",
        "anyone",
        "any",
        "team",
        "trigger",
        "webhook",
        "model",
        "plugin",
        "cli",
        "api",
        "hivewright",
    ] {
        let wish = json!({"name": name, "scopes": ["read"]});
        let refused = bench.post(PATH, &bench.operator(), wish).await;

        assert_eq!(refused.refusal(), (400, "invalid_input".to_owned()), "{name}");
        assert_eq!(refused.field(), "name");
    }
}

/// OP-12, OP-130: a browser that logged in with a token is out when that token is.
#[actix::test]
async fn a_browser_is_logged_out_when_its_token_expires_however_busy_it_is() {
    let bench = Bench::new().await;
    let wish = json!({"name": "day", "scopes": ["read"], "expires": "1d"});
    let token = text(&made(&bench, &bench.operator(), wish).await);
    let login = request(Method::POST, "/api/v1/session").set_json(json!({ "token": token }));
    let cookie = bench.call(login).await.cookie();
    let look = async || {
        let look =
            request(Method::GET, "/api/v1/overview").insert_header(("Cookie", cookie.as_str()));
        bench.call(look).await.status
    };

    for _ in 0..23 {
        bench.clock.advance(Duration::from_secs(60 * 60));
        assert_eq!(look().await, 200);
    }
    bench.clock.advance(Duration::from_secs(60 * 60));

    assert_eq!(look().await, 401);
}
