//! Browsers log in and out.

use serde_json::json;

use super::*;

async fn log_in(bench: &Bench, body: Value) -> Answer {
    bench.call(request(Method::POST, "/api/v1/session").set_json(body)).await
}

async fn with_cookie(bench: &Bench, method: Method, cookie: &str, csrf: Option<&str>) -> Answer {
    let mut request = request(method, "/api/v1/session").insert_header(("Cookie", cookie));
    if let Some(csrf) = csrf {
        request = request.insert_header(("X-CSRF-Token", csrf));
    }
    bench.call(request).await
}

/// OP-14, OP-20
#[actix::test]
async fn a_browser_logs_in_with_a_token_and_out_again() {
    let bench = Bench::new().await;

    let answer = log_in(&bench, json!({"token": bench.operator()})).await;

    assert_eq!(answer.status, 200);
    let data = answer.json()["data"].clone();
    let csrf = data["csrf"].as_str().unwrap().to_owned();
    assert_eq!(
        data,
        json!({
            "principal": "operator",
            "scopes": ["read", "chat", "assert_sender", "operate", "approve", "secrets", "admin", "metrics"],
            "teams": null,
            "csrf": csrf,
            "demo": true,
            "version": env!("CARGO_PKG_VERSION"),
        })
    );
    let cookie = answer.cookie();
    assert_eq!(
        answer.header("set-cookie").unwrap(),
        format!("{cookie}; Path=/; HttpOnly; SameSite=Strict")
    );
    assert!(!answer.body.contains(cookie.trim_start_matches("hw_session=")));
    let shown = with_cookie(&bench, Method::GET, &cookie, None).await;
    assert_eq!(shown.json()["data"], data);
    let left = with_cookie(&bench, Method::DELETE, &cookie, Some(&csrf)).await;
    assert_eq!(left.status, 204);
    assert!(left.header("set-cookie").unwrap().starts_with("hw_session=; "));
    assert!(left.header("set-cookie").unwrap().ends_with("; Max-Age=0"));
    let after = with_cookie(&bench, Method::GET, &cookie, None).await;
    assert_eq!(after.refusal(), (401, "unauthenticated".to_owned()));
}

/// OP-63, OP-12: an operator sees who is logged in, and logs one browser out without the others.
#[actix::test]
async fn browsers_that_are_logged_in_are_seen_and_ended_singly() {
    let bench = Bench::new().await;
    let (admin, reader) = (
        bench.token("boss", only(Scope::Admin)).await,
        bench.token("reader", only(Scope::Read)).await,
    );
    let kept = log_in(&bench, json!({"token": bench.operator()})).await;
    bench.clock.advance(Duration::from_secs(60));
    let ended = log_in(&bench, json!({"token": reader})).await;
    let me = request(Method::GET, "/api/v1/logins").insert_header(("Cookie", kept.cookie()));

    let seen = bench.call(me).await.json();
    let id = seen["data"][1]["id"].as_str().unwrap().to_owned();
    let end = format!("/api/v1/logins/{id}");
    let refused = bench.delete(&end, &reader).await;
    let done = bench.delete(&end, &admin).await;
    let again = bench.delete(&end, &admin).await;

    let column = |name: &str| {
        let rows = seen["data"].as_array().unwrap().iter();
        rows.map(|row| row[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(column("principal"), [json!("operator"), json!("reader")]);
    assert_eq!(column("current"), [json!(true), json!(false)]);
    assert!(column("ends_at").iter().all(Value::is_string), "{seen}");
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    assert_eq!((done.status, again.status), (204, 404));
    for (cookie, status) in [(kept.cookie(), 200), (ended.cookie(), 401)] {
        let shown = with_cookie(&bench, Method::GET, &cookie, None).await;
        assert_eq!(shown.status, status);
    }
    // The token itself is as good as before.
    assert_eq!(bench.get("/api/v1/session", &reader).await.status, 200);
    let audit = bench.get("/api/v1/audit?action=logins", &admin).await.json();
    assert!(audit.to_string().contains("logins.delete"), "{audit}");
}

/// OP-11, OP-93: a token for some teams sees and ends the browsers of tokens for those only.
#[actix::test]
async fn browsers_of_other_teams_are_not_seen() {
    let bench = Bench::new().await;
    let mut wish = NewToken {
        name: "garden".to_owned(),
        scopes: Scopes::all().into(),
        teams: Some(vec!["garden".to_owned()]),
        expires: Some(Expiry::Never),
    };
    let operator = bench.auth().token(&bench.operator()).unwrap();
    let garden = bench.auth().mint(wish.clone(), &operator).await.unwrap();
    wish.name = "kitchen".to_owned();
    wish.teams = Some(vec!["kitchen".to_owned()]);
    let kitchen = bench.auth().mint(wish, &operator).await.unwrap();
    let kitchen = kitchen.text.expose();
    log_in(&bench, json!({"token": garden.text.expose()})).await;
    let all = bench.get("/api/v1/logins", &bench.operator()).await.json();
    let id = all["data"][0]["id"].as_str().unwrap();

    let seen = bench.get("/api/v1/logins", kitchen).await.json();
    let ended = bench.delete(&format!("/api/v1/logins/{id}"), kitchen).await;

    assert_eq!(seen["data"], json!([]));
    assert_eq!(ended.status, 404);
}

/// OP-14
#[actix::test]
async fn the_cookie_is_for_encrypted_connections_unless_it_stays_on_the_machine() {
    let bench = Bench::with(Server {
        public_url: Some("https://hive.example.org".parse().unwrap()),
        ..Server::default()
    })
    .await;
    let request = TestRequest::post()
        .uri("/api/v1/session")
        .insert_header(("Host", "hive.example.org"))
        .set_json(json!({"token": bench.operator()}));

    let answer = bench.call(request).await;

    assert!(answer.header("set-cookie").unwrap().contains("; Secure"));
}

/// OP-130
#[actix::test]
async fn a_link_logs_one_browser_in() {
    let bench = Bench::new().await;
    let link = bench.post("/api/v1/session/links", &bench.operator(), json!({})).await;
    assert_eq!(link.status, 201);
    assert_eq!(link.json()["data"]["expires_in_s"], 120);
    let code = link.json()["data"]["code"].clone();

    let first = log_in(&bench, json!({"code": code})).await;
    let second = log_in(&bench, json!({"code": code})).await;

    assert_eq!(first.json()["data"]["principal"], "operator");
    assert_eq!(second.refusal(), (401, "unauthenticated".to_owned()));
    let late = bench.post("/api/v1/session/links", &bench.operator(), json!({})).await;
    bench.clock.advance(std::time::Duration::from_secs(120));
    let late = log_in(&bench, json!({"code": late.json()["data"]["code"]})).await;
    assert_eq!(late.status, 401);
}

/// OP-14
#[actix::test]
async fn a_login_takes_one_credential_that_is_good() {
    let bench = Bench::new().await;
    let token = bench.operator();

    for body in [json!({}), json!({"token": token, "code": "x"}), json!({"token": null})] {
        assert_eq!(log_in(&bench, body).await.refusal(), (400, "invalid_input".to_owned()));
    }
    for body in [json!({"token": ""}), json!({"token": "hwo_x"}), json!({"code": ""})] {
        let answer = log_in(&bench, body).await;
        assert_eq!(answer.refusal(), (401, "unauthenticated".to_owned()));
        assert_eq!(answer.header("set-cookie"), None);
    }
}

/// OP-20
#[actix::test]
async fn a_token_has_no_session_to_end() {
    let bench = Bench::new().await;
    let request =
        request(Method::DELETE, "/api/v1/session").insert_header(bearer(&bench.operator()));

    let answer = bench.call(request).await;

    assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()));
    let shown = bench.get("/api/v1/session", &bench.operator()).await;
    assert_eq!(shown.json()["data"]["csrf"], Value::Null);
}
