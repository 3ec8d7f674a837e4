//! Who may do what: every route against a table.

use std::collections::BTreeSet;

use super::{contract::filled, *};
use crate::http::routes::table::table;

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
    ("GET", "/ui/{file}", Needs::Nothing),
    ("GET", "/healthz", Needs::Nothing),
    ("GET", "/readyz", Needs::Nothing),
    ("GET", "/health", Needs::Nothing),
    ("GET", "/metrics", Needs::Scope(Scope::Metrics)),
    ("POST", "/hooks/{team}/{name}", Needs::Nothing),
    ("POST", "/hooks/channels/{team}/{key}", Needs::Nothing),
    ("GET", "/api/v1/session", Needs::Login),
    ("POST", "/api/v1/session", Needs::Nothing),
    ("DELETE", "/api/v1/session", Needs::Login),
    ("POST", "/api/v1/session/links", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/tokens", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/tokens", Needs::Scope(Scope::Admin)),
    ("DELETE", "/api/v1/tokens/{id}", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/tokens/operator/rotate", Needs::Everything),
    ("GET", "/api/v1/logins", Needs::Scope(Scope::Admin)),
    ("DELETE", "/api/v1/logins/{id}", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/trust", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/trust", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/trust/{id}", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/trust/audit", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/identities", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/identities", Needs::Scope(Scope::Admin)),
    ("DELETE", "/api/v1/identities/{id}", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/overview", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/events", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/snapshot", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/channels", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/channels/{type}/reconnect", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/topics", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/topics/{id}", Needs::Scope(Scope::Read)),
    ("PATCH", "/api/v1/topics/{id}", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/topics/{id}", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/topics/{id}/live", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/me/channels", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/me/channels/{id}/messages", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/me/topics/{id}/messages", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/me/teams/{name}/messages", Needs::Scope(Scope::Chat)),
    ("POST", "/api/v1/files", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/files/{id}", Needs::Login),
    ("POST", "/api/v1/messages", Needs::Scope(Scope::Chat)),
    ("GET", "/api/v1/messages/{id}", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/tasks", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/tasks/stats", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/sessions", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/sessions/{id}/reset", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/sessions/{id}/compact", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/sessions/{id}/history", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/sessions/{id}/export", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/teams/{name}/history", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/usage", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/usage/budgets", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/usage/export", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/search", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/audit", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/logs", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/config", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/config/validate", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/config/reload", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/config/{file}", Needs::Scope(Scope::Admin)),
    ("PUT", "/api/v1/config/{file}", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/teams/{name}/instructions", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/teams/{team}/instructions/{kind}/{name}", Needs::Scope(Scope::Read)),
    ("PUT", "/api/v1/teams/{team}/instructions/{kind}/{name}", Needs::Scope(Scope::Admin)),
    ("DELETE", "/api/v1/teams/{team}/instructions/{kind}/{name}", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/team-templates", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/mcp/try", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/channels/discord/try", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/models", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/profiles", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/models/try", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/markdown", Needs::Login),
    ("GET", "/api/v1/teams/{name}/config", Needs::Scope(Scope::Read)),
    ("PUT", "/api/v1/teams/{name}/config", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/doctor", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/doctor", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/teams/{name}/untrusted-files", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/teams/{name}/untrusted-files/accept", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/mcp", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/plugins", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/plugins", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/plugins/check", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/plugins/{key}", Needs::Scope(Scope::Read)),
    ("DELETE", "/api/v1/plugins/{key}", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/plugins/{key}/approve", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/teams/{name}/plugins", Needs::Scope(Scope::Read)),
    ("PUT", "/api/v1/teams/{team}/plugins/{key}", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{team}/plugins/{key}/restart", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{team}/plugins/{key}/setup/begin", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{team}/plugins/{key}/setup/poll", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{team}/plugins/{key}/setup/submit", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{team}/plugins/{key}/setup/cancel", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/mcp/{team}/{server}/restart", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/plugin-tools", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/plugin-tools/{team}/{tool}", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/plugin-tools/{team}/{tool}/deprecate", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/plugin-tools/{team}/{tool}", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/changes", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/changes/{id}/rollback", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/openapi.json", Needs::Login),
    ("GET", "/api/v1/docs", Needs::Login),
    ("GET", "/api/v1/teams", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/teams", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/teams/{name}", Needs::Scope(Scope::Read)),
    ("PATCH", "/api/v1/teams/{name}", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/teams/{name}", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{name}/pause", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{name}/resume", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/teams/{name}/bootstrap", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/pause", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/resume", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/org", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/tasks", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/tasks/{id}", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/tasks/{id}/cancel", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/tasks/{id}/retry", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/approvals", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/approvals/{id}", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/approvals/{id}", Needs::Scope(Scope::Approve)),
    ("POST", "/api/v1/approvals/batch", Needs::Scope(Scope::Approve)),
    ("GET", "/api/v1/grants", Needs::Scope(Scope::Read)),
    ("DELETE", "/api/v1/grants/{id}", Needs::Scope(Scope::Approve)),
    ("GET", "/api/v1/questions", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/questions/{id}", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/questions/{id}/answer", Needs::Scope(Scope::Approve)),
    ("GET", "/api/v1/policies", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/policies", Needs::Scope(Scope::Admin)),
    ("DELETE", "/api/v1/policies/{id}", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/policies/explain", Needs::Scope(Scope::Read)),
    ("GET", "/api/v1/inbox", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/inbox/{id}/read", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/inbox/read-all", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/triggers", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/triggers", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/triggers/agenda", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/triggers/{id}", Needs::Scope(Scope::Operate)),
    ("PATCH", "/api/v1/triggers/{id}", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/triggers/{id}", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/triggers/preview", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/triggers/{id}/enable", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/triggers/{id}/disable", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/triggers/{id}/run", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/triggers/{id}/runs", Needs::Scope(Scope::Operate)),
    ("PUT", "/api/v1/triggers/{id}/cursors", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/memories", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/memories", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/memories/{id}", Needs::Scope(Scope::Read)),
    ("PATCH", "/api/v1/memories/{id}", Needs::Scope(Scope::Operate)),
    ("DELETE", "/api/v1/memories/{id}", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/memories/{id}/chain", Needs::Scope(Scope::Read)),
    ("POST", "/api/v1/memories/{id}/rollback", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/memories/{id}/review", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/memories/{id}/pin", Needs::Scope(Scope::Operate)),
    ("POST", "/api/v1/memories/review", Needs::Scope(Scope::Operate)),
    ("GET", "/api/v1/vault", Needs::Scope(Scope::Secrets)),
    ("GET", "/api/v1/vault/audit", Needs::Scope(Scope::Secrets)),
    ("POST", "/api/v1/vault/rotate", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/vault/{scope}/{key}", Needs::Scope(Scope::Secrets)),
    ("PUT", "/api/v1/vault/{scope}/{key}", Needs::Scope(Scope::Secrets)),
    ("DELETE", "/api/v1/vault/{scope}/{key}", Needs::Scope(Scope::Secrets)),
    ("GET", "/api/v1/backups", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/backups", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/jobs", Needs::Scope(Scope::Admin)),
    ("GET", "/api/v1/jobs/{id}", Needs::Scope(Scope::Admin)),
    ("POST", "/api/v1/jobs/{id}/cancel", Needs::Scope(Scope::Admin)),
];

/// Those, and what lives elsewhere.
fn all() -> impl Iterator<Item = (&'static str, String, Needs)> {
    let socket = ("GET", "/ws", Needs::Scope(Scope::Chat));
    let rows = TABLE.iter().copied().chain([socket]);
    rows.map(|(method, path, needs)| (method, filled(path), needs))
}

fn of_table(method: &str, path: &str) -> TestRequest {
    let request = request(method.parse().unwrap(), path);
    match method {
        "POST" | "PUT" | "PATCH" => request.set_json(serde_json::json!({})),
        _ => request,
    }
}

/// OP-07, OP-93: no route is missing here, and none is described otherwise.
#[test]
fn the_routes_are_those_of_the_table() {
    let described: BTreeSet<(String, &str, String)> = table()
        .iter()
        .flat_map(|resource| {
            let operations = resource.operations.iter();
            operations.map(|(method, operation)| {
                let needs = format!("{:?}", operation.needs);
                (method.to_string(), resource.path, needs)
            })
        })
        .collect();

    let expected = TABLE.iter().map(|(method, path, needs)| {
        let needs = match needs {
            Needs::Everything => Needs::Scope(Scope::Admin),
            needs => *needs,
        };
        ((*method).to_owned(), *path, format!("{needs:?}"))
    });
    assert_eq!(described, expected.collect());
}

/// SC-01, OP-03, OP-09, OP-12, OP-93: every scope alone, and all but one.
#[actix::test]
async fn a_token_opens_what_its_scopes_say_and_nothing_else() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let mut sets = vec![Scopes::all()];
    for &scope in Scope::ALL {
        sets.push(only(scope));
        sets.push(Scopes::all().iter().filter(|one| *one != scope).collect());
    }
    for (number, scopes) in sets.into_iter().enumerate() {
        let token = bench.token(&format!("token-{number}"), scopes).await;
        for (method, path, needs) in all() {
            let missing = match needs {
                Needs::Nothing | Needs::Login => None,
                Needs::Scope(scope) => (!scopes.has(scope)).then_some(scope),
                Needs::Everything if !scopes.has(Scope::Admin) => Some(Scope::Admin),
                Needs::Everything => Scopes::all().beyond(scopes),
            };

            let request = of_table(method, &path).insert_header(bearer(&token));
            let answer = answer(&app, request).await;

            let case = format!("{method} {path} {scopes:?} {}", answer.status);
            match missing {
                None if path == "/api/v1/session" && method == "POST" => {
                    assert_eq!(answer.status, 400, "{case}");
                }
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
    let app = bench.app().await;
    let revoked = bench.token("revoked", Scopes::all()).await;
    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().revoke("revoked", false, &operator).await.unwrap();
    let browser = bench.auth().log_in(&bench.operator()).await.unwrap();
    let headers = [
        None,
        Some(("Authorization", "Bearer".to_owned())),
        Some(("Authorization", "Bearer ".to_owned())),
        Some(("Authorization", format!("Bearer {revoked}"))),
        Some(("Authorization", format!("Bearer hwo_{}", "x".repeat(43)))),
        Some(("Authorization", format!("Bearer {}x", bench.operator()))),
        Some(("Authorization", format!("Basic {}", bench.operator()))),
        Some(("Authorization", format!("Bearer {}", browser.cookie.expose()))),
        Some(("Cookie", format!("hw_session={}", bench.operator()))),
        Some(("Cookie", "hw_session=".to_owned())),
        Some(("Cookie", format!("hw_session2={}", browser.cookie.expose()))),
        Some(("X-Scopes", "admin".to_owned())),
    ];
    for header in &headers {
        for (method, path, needs) in all() {
            let mut request =
                of_table(method, &path).insert_header(("Origin", "http://localhost:8080"));
            if let Some((name, value)) = header {
                request = request.insert_header((*name, value.as_str()));
            }

            let answer = answer(&app, request).await;

            match needs {
                Needs::Nothing => {
                    assert!([200, 400, 404].contains(&answer.status), "{header:?} {method} {path}")
                }
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
    let app = bench.app().await;
    for (method, path, needs) in all() {
        if needs == Needs::Nothing || method == "GET" {
            continue;
        }
        for value in values {
            let mut request = of_table(method, &path).insert_header(("Cookie", cookie.as_str()));
            if let Some(value) = value {
                request = request.insert_header(("X-CSRF-Token", value));
            }

            let answer = answer(&app, request).await;

            assert_eq!(answer.refusal(), (403, "csrf".to_owned()), "{method} {path}");
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
    assert_eq!(bench.call(again).await.refusal(), (404, "not_found".to_owned()));
}

/// OP-11, SC-01
#[actix::test]
async fn an_admin_gives_away_only_what_they_have() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;
    let wish = |scopes: &[&str]| serde_json::json!({"name": "new", "scopes": scopes});

    let wider = bench.post("/api/v1/tokens", &admin, wish(&["admin", "chat"])).await;
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

    let rotated =
        bench.post("/api/v1/tokens/operator/rotate", &former, serde_json::json!({})).await;

    assert_eq!((rotated.status, rotated.body.as_str()), (204, ""));
    assert_ne!(bench.operator(), former);
    assert_eq!(bench.get("/api/v1/session", &former).await.status, 401);
    assert_eq!(bench.get("/api/v1/session", &bench.operator()).await.status, 200);
}

/// OP-12, OP-93, SC-128
#[actix::test]
async fn a_request_ends_with_its_credential() {
    let bench = Bench::new().await;
    let token = bench.token("ci", only(Scope::Read)).await;
    let operator = bench.auth().token(&bench.operator()).unwrap();

    let (cut, revoked) =
        tokio::join!(bench.get("/endless", &token), bench.auth().revoke("ci", false, &operator));

    revoked.unwrap();
    assert_eq!(cut.refusal(), (401, "unauthenticated".to_owned()));
}

/// OP-12, SC-128: also a body that is on its way breaks off, and does not seem whole.
#[actix::test]
async fn a_download_ends_with_its_credential() {
    let bench = Bench::new().await;
    bench.turns("t-1", 1).await;
    let scopes = [Scope::Read, Scope::Chat].into_iter().collect();
    let token = bench.token("ci", scopes).await;
    let upload = request(Method::POST, "/api/v1/files?name=a.txt").insert_header(bearer(&token));
    let file = bench.call(upload.set_payload("words")).await.json()["data"]["id"].clone();
    let file = format!("/api/v1/files/{}", file.as_str().unwrap());
    let app = bench.app().await;
    let mut begun = Vec::new();
    for path in ["/api/v1/sessions/main:t-1/export", "/api/v1/usage/export", file.as_str()] {
        let asked = request(Method::GET, path).insert_header(bearer(&token));
        let asked = asked.peer_addr("127.0.0.1:9".parse().unwrap());
        let response = test::call_service(&app, asked.to_request()).await;
        assert_eq!(response.status(), 200, "{path}");
        begun.push((path, response.into_body()));
    }

    let operator = bench.auth().token(&bench.operator()).unwrap();
    bench.auth().revoke("ci", false, &operator).await.unwrap();

    for (path, body) in begun {
        assert!(actix_web::body::to_bytes(body).await.is_err(), "{path}");
    }
}

/// OP-12: whoever ends their own credential is told that it is done.
#[actix::test]
async fn a_request_that_ends_its_own_credential_is_answered() {
    let bench = Bench::new().await;
    let admin = bench.token("admin", only(Scope::Admin)).await;

    let revoked = bench.delete("/api/v1/tokens/admin", &admin).await;

    assert_eq!(revoked.status, 204);
    assert_eq!(bench.get("/api/v1/tokens", &admin).await.status, 401);
}
