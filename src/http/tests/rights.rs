//! Who may do what: every route against a table.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Nothing,
    Login,
    Scope(Scope),
    Everything,
}

/// Every route there is, and what it asks for.
const TABLE: &[(&str, &str, Needs)] = &[
    ("GET", "/", Needs::Nothing),
    ("GET", "/ui/app.js", Needs::Nothing),
    ("GET", "/healthz", Needs::Nothing),
    ("GET", "/readyz", Needs::Nothing),
    ("GET", "/health", Needs::Nothing),
    ("GET", "/metrics", Needs::Scope(Scope::Metrics)),
    ("GET", "/ws", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/session", Needs::Login),
    ("DELETE", "/api/v1/session", Needs::Login),
    ("POST", "/api/v1/session/links", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/tokens", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/tokens", Needs::Scope(Scope::Admin)),
    (
        "DELETE",
        "/api/v1/tokens/token-0",
        Needs::Scope(Scope::Admin),
    ),
    ("POST", "/api/v1/tokens/operator/rotate", Needs::Everything),
    ("GET", "/api/v1/trust", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/trust", Needs::Scope(Scope::Operate)),
    (
        "DELETE",
        "/api/v1/trust/grant-0",
        Needs::Scope(Scope::Operate),
    ),
    ("GET", "/api/v1/trust/audit", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/identities", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/identities", Needs::Scope(Scope::Admin)),
    (
        "DELETE",
        "/api/v1/identities/identity-0",
        Needs::Scope(Scope::Admin),
    ),
    ("GET", "/api/v1/overview", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/events", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/snapshot", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/channels", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/topics", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/topics/t-0", Needs::Scope(Scope::Read)),
    ("PATCH", "/api/v1/topics/t-0", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/topics/t-0/live", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/messages", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/messages/m-0", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/tasks", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/tasks/stats", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/sessions", Needs::Scope(Scope::Read)),
    (
        "GET",
        "/api/v1/sessions/main:main/history",
        Needs::Scope(Scope::Read),
    ),
    (
        "GET",
        "/api/v1/sessions/main:main/export",
        Needs::Scope(Scope::Read),
    ),
    (
        "GET",
        "/api/v1/teams/main/history",
        Needs::Scope(Scope::Read),
    ),
    ("GET", "/api/v1/usage", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/usage/budgets", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/audit", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/logs", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/config", Needs::Scope(Scope::Read)),
    (
        "POST",
        "/api/v1/config/validate",
        Needs::Scope(Scope::Admin),
    ),
    ("POST", "/api/v1/config/reload", Needs::Scope(Scope::Admin)),
    (
        "GET",
        "/api/v1/teams/main/config",
        Needs::Scope(Scope::Read),
    ),
    (
        "PUT",
        "/api/v1/teams/main/config",
        Needs::Scope(Scope::Admin),
    ),
    ("GET", "/api/v1/vault", Needs::Scope(Scope::Secrets)),
    ("GET", "/api/v1/vault/audit", Needs::Scope(Scope::Secrets)),
    ("POST", "/api/v1/vault/rotate", Needs::Scope(Scope::Admin)),
    (
        "GET",
        "/api/v1/vault/system/KEY",
        Needs::Scope(Scope::Secrets),
    ),
    (
        "PUT",
        "/api/v1/vault/system/KEY",
        Needs::Scope(Scope::Secrets),
    ),
    (
        "DELETE",
        "/api/v1/vault/system/KEY",
        Needs::Scope(Scope::Secrets),
    ),
    ("GET", "/api/v1/memories", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/memories", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/memories/mem-0", Needs::Scope(Scope::Read)),
    (
        "PATCH",
        "/api/v1/memories/mem-0",
        Needs::Scope(Scope::Operate),
    ),
    (
        "DELETE",
        "/api/v1/memories/mem-0",
        Needs::Scope(Scope::Operate),
    ),
    (
        "GET",
        "/api/v1/memories/mem-0/chain",
        Needs::Scope(Scope::Read),
    ),
    (
        "POST",
        "/api/v1/memories/mem-0/rollback",
        Needs::Scope(Scope::Operate),
    ),
    (
        "POST",
        "/api/v1/memories/mem-0/review",
        Needs::Scope(Scope::Operate),
    ),
    (
        "POST",
        "/api/v1/memories/mem-0/pin",
        Needs::Scope(Scope::Operate),
    ),
    ("GET", "/api/v1/changes", Needs::Scope(Scope::Read)),
    (
        "POST",
        "/api/v1/changes/chg-0/rollback",
        Needs::Scope(Scope::Operate),
    ),
    ("POST", "/api/v1/backups", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/jobs/job-1", Needs::Scope(Scope::Admin)),
];

fn of_table(method: &str, path: &str) -> TestRequest {
    let request = request(method.parse().unwrap(), path);
    match method {
        "POST" | "PUT" => request.set_json(serde_json::json!({})),
        _ => request,
    }
}

/// SC-01, OP-03, OP-09, OP-12: all sets of scopes on all routes.
#[actix::test]
async fn a_token_opens_what_its_scopes_say_and_nothing_else() {
    let bench = Bench::new().await;
    for bits in 1_u8..=255 {
        let numbered = Scope::ALL.into_iter().enumerate();
        let scopes: Scopes = numbered
            .filter(|(place, _)| bits & (1 << place) != 0)
            .map(|(_, scope)| scope)
            .collect();
        let token = bench.token(&format!("token-{bits}"), scopes).await;
        for (method, path, needs) in TABLE {
            let missing = match needs {
                Needs::Nothing | Needs::Login => None,
                Needs::Scope(scope) => (!scopes.has(*scope)).then_some(*scope),
                Needs::Everything if !scopes.has(Scope::Admin) => Some(Scope::Admin),
                Needs::Everything => Scopes::all().beyond(scopes),
            };

            let answer = bench
                .call(of_table(method, path).insert_header(bearer(&token)))
                .await;

            let case = format!("{method} {path} {scopes:?} {}", answer.status);
            match missing {
                None => assert!(![401, 403].contains(&answer.status), "{case}"),
                Some(scope) => {
                    assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{case}");
                    assert!(answer.body.contains(&format!("`{scope}`")), "{case}");
                }
            }
        }
    }
}

/// OP-09, OP-12, SC-01
#[actix::test]
async fn nothing_but_a_live_credential_opens_a_route() {
    let bench = Bench::new().await;
    let revoked = bench.token("revoked", Scopes::all()).await;
    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().revoke("revoked", &operator).await.unwrap();
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let headers = [
        None,
        Some(("Authorization", "Bearer".to_owned())),
        Some(("Authorization", "Bearer ".to_owned())),
        Some(("Authorization", format!("Bearer {revoked}"))),
        Some(("Authorization", format!("Bearer hwo_{}", "x".repeat(43)))),
        Some(("Authorization", format!("Bearer {}x", bench.operator()))),
        Some(("Authorization", format!("Basic {}", bench.operator()))),
        Some((
            "Authorization",
            format!("Bearer {}", browser.cookie.expose()),
        )),
        Some(("Cookie", format!("hw_session={}", bench.operator()))),
        Some(("Cookie", "hw_session=".to_owned())),
        Some(("Cookie", format!("hw_session2={}", browser.cookie.expose()))),
        Some(("X-Scopes", "admin".to_owned())),
    ];
    for header in &headers {
        for (method, path, needs) in TABLE {
            let mut request =
                of_table(method, path).insert_header(("Origin", "http://localhost:8080"));
            if let Some((name, value)) = header {
                request = request.insert_header((*name, value.as_str()));
            }

            let answer = bench.call(request).await;

            match needs {
                Needs::Nothing => assert_eq!(answer.status, 200, "{header:?} {method} {path}"),
                _ => {
                    assert_eq!(
                        answer.refusal(),
                        (401, "unauthenticated".to_owned()),
                        "{header:?} {method} {path}"
                    );
                    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
                }
            }
        }
    }
}

/// OP-15, OP-16, SC-02
#[actix::test]
async fn a_browser_changes_something_only_with_the_value_its_page_knows() {
    let bench = Bench::new().await;
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let other = bench.auth().log_in(&bench.operator()).await.unwrap();
    let cookie = format!("theme=dark; hw_session={}; x=y", browser.cookie.expose());
    let values = [None, Some(""), Some("x"), Some(other.csrf.as_str())];
    for (method, path, needs) in TABLE {
        if *needs == Needs::Nothing || *method == "GET" {
            continue;
        }
        for value in values {
            let mut request = of_table(method, path).insert_header(("Cookie", cookie.as_str()));
            if let Some(value) = value {
                request = request.insert_header(("X-CSRF-Token", value));
            }

            let answer = bench.call(request).await;

            assert_eq!(
                answer.refusal(),
                (403, "csrf".to_owned()),
                "{method} {path}"
            );
        }
    }
    let read = request(Method::GET, "/api/v1/tokens").insert_header(("Cookie", cookie.as_str()));
    assert_eq!(bench.call(read).await.status, 200);
    let change = request(Method::POST, "/api/v1/session/links")
        .insert_header(("Cookie", cookie.as_str()))
        .insert_header(("X-CSRF-Token", browser.csrf.as_str()));
    assert_eq!(bench.call(change).await.status, 201);
}

/// OP-11, OP-100, SC-01
#[actix::test]
async fn a_token_is_made_shown_once_listed_and_revoked() {
    let bench = Bench::new().await;
    let wish = serde_json::json!({"name": "ci", "scopes": ["chat", "read"], "expires": "1d"});

    let made = bench.post("/api/v1/tokens", &bench.operator(), wish).await;

    assert_eq!(made.status, 201);
    let row = made.json()["data"].clone();
    let (id, token) = (row["id"].as_str().unwrap(), row["token"].as_str().unwrap());
    assert!(token.starts_with("hwt_") && token.len() == 47);
    assert_eq!(row["scopes"], serde_json::json!(["read", "chat"]));
    assert_eq!(row["expires_at"], "2023-11-15T22:13:20.000Z");
    assert_eq!(bench.get("/api/v1/overview", token).await.status, 200);
    let listed = bench.get("/api/v1/tokens", &bench.operator()).await;
    let mut shown = row.clone();
    shown.as_object_mut().unwrap().remove("token");
    shown["last_used_at"] = "2023-11-14T22:13:20.000Z".into();
    assert_eq!(listed.json()["data"][1], shown);
    assert_eq!(listed.json()["total"], 2);
    assert!(!listed.body.contains("hwt_") && !listed.body.contains("hash"));
    let path = format!("/api/v1/tokens/{id}");
    let revoke = request(Method::DELETE, &path).insert_header(bearer(&bench.operator()));
    assert_eq!(bench.call(revoke).await.status, 204);
    assert_eq!(bench.get("/api/v1/overview", token).await.status, 401);
    let again = request(Method::DELETE, &path).insert_header(bearer(&bench.operator()));
    assert_eq!(
        bench.call(again).await.refusal(),
        (404, "not_found".to_owned())
    );
}

/// OP-11, SC-01
#[actix::test]
async fn an_admin_gives_away_only_what_they_have() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let wish = |scopes: &[&str]| serde_json::json!({"name": "new", "scopes": scopes});

    let wider = bench
        .post("/api/v1/tokens", &admin, wish(&["admin", "chat"]))
        .await;
    let equal = bench.post("/api/v1/tokens", &admin, wish(&["admin"])).await;

    assert_eq!(wider.refusal(), (403, "forbidden".to_owned()));
    assert!(wider.body.contains("`chat`"));
    assert_eq!(equal.status, 201);
}

/// OP-10
#[actix::test]
async fn the_operator_token_is_replaced_in_its_file_and_not_shown() {
    let bench = Bench::new().await;
    let former = bench.operator();

    let rotated = bench
        .post("/api/v1/tokens/operator/rotate", &former, Value::Null)
        .await;

    assert_eq!((rotated.status, rotated.body.as_str()), (204, ""));
    assert_ne!(bench.operator(), former);
    assert_eq!(bench.get("/api/v1/session", &former).await.status, 401);
    assert_eq!(
        bench.get("/api/v1/session", &bench.operator()).await.status,
        200
    );
}
