//! Tokens that are for some teams only.

use hivewright_actors::{
    approvals::{Propose, requests::Proposal},
    policy::caution::Kind,
    task::cause::Cause,
};
use serde_json::json;

use super::{
    contract::{filled, queried},
    *,
};
use crate::{api::endpoint::Needs, http::routes::table::table};

impl Bench {
    /// A token with all scopes, for one team.
    pub(super) async fn token_for(&self, name: &str, team: &str) -> String {
        let operator = self.auth().token(&self.operator()).unwrap();
        let wish = NewToken {
            name: name.to_owned(),
            scopes: Scopes::all().into(),
            teams: Some(vec![team.to_owned()]),
            expires: Some(Expiry::Never),
        };
        let minted = self.auth().mint(wish, &operator).await.unwrap();
        minted.text.expose().to_owned()
    }
}

/// What the main team has, and a token for it would see.
async fn furnished() -> Bench {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let memory = json!({"team": "main", "key": "office", "content": "Berlin", "type": "context"});
    let trigger = json!({
        "team": "main", "name": "morning", "type": "schedule",
        "config": {"cron": "0 8 * * *"}, "task": "Look.",
    });
    for (path, body) in [("/api/v1/memories", memory), ("/api/v1/triggers", trigger)] {
        let made = bench.post(path, &operator, body).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    for scope in ["system", "team:main"] {
        let path = format!("/api/v1/vault/{scope}/API_KEY");
        let put = request(Method::PUT, &path).insert_header(bearer(&operator));
        let made = bench.call(put.set_json(json!({"value": "a-secret-value"}))).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    bench
}

/// OP-11, OP-93, SC-14: nothing of another team is seen, on any route.
#[actix::test]
async fn a_token_for_another_team_sees_nothing_of_this_one() {
    let bench = furnished().await;
    let app = bench.app().await;
    let (foreign, own) =
        (bench.token_for("foreign", "elsewhere").await, bench.token_for("own", "main").await);
    for resource in table() {
        let described = resource.operations.iter();
        let get = described
            .filter(|(method, _)| *method == Method::GET)
            .find(|(_, operation)| matches!(operation.needs, Needs::Scope(_)));
        let Some((_, operation)) = get else { continue };
        let path = filled(resource.path);
        let query = queried(&path, "");
        let asked = |token: &str| request(Method::GET, &query).insert_header(bearer(token));

        let seen = answer(&app, asked(&foreign)).await;

        match (seen.status, !operation.sorts.is_empty()) {
            (403 | 404, _) => {}
            // Its own row stands among the tokens.
            (200, true) if path == "/api/v1/tokens" => {
                assert_eq!(seen.json()["data"].as_array().unwrap().len(), 1);
            }
            // They are shipped, and of no team.
            (200, true) if path == "/api/v1/team-templates" => {}
            (200, true) => assert_eq!(seen.json()["data"], json!([]), "{path}"),
            (200, false) if path == "/metrics" => {}
            // The names of the columns, and no row.
            (200, false) if path == "/api/v1/usage/export" => {
                assert_eq!(seen.body.lines().count(), 1, "{}", seen.body);
            }
            (status, _) => panic!("{path}: {status} {}", seen.body),
        }
    }
    for (path, rows) in [
        ("/api/v1/memories", 1),
        ("/api/v1/triggers", 1),
        ("/api/v1/vault", 1),
        ("/api/v1/teams", 1),
    ] {
        let seen = bench.get(path, &own).await;
        assert_eq!(seen.json()["data"].as_array().unwrap().len(), rows, "{path}");
    }
}

/// OP-11, OP-93, SC-14
#[actix::test]
async fn a_token_for_another_team_changes_nothing_of_this_one() {
    let bench = furnished().await;
    let foreign = bench.token_for("foreign", "elsewhere").await;
    let first = |listed: Answer| listed.json()["data"][0]["id"].as_str().unwrap().to_owned();
    let memory = first(bench.get("/api/v1/memories", &bench.operator()).await);
    let trigger = first(bench.get("/api/v1/triggers", &bench.operator()).await);
    let before = bench.stored();
    let acts = [
        ("DELETE", format!("/api/v1/memories/{memory}"), json!({})),
        ("PATCH", format!("/api/v1/memories/{memory}"), json!({"content": "Hamburg"})),
        ("POST", format!("/api/v1/memories/{memory}/pin"), json!({"pinned": true})),
        (
            "POST",
            "/api/v1/memories".to_owned(),
            json!({"team": "main", "key": "k", "content": "c"}),
        ),
        ("DELETE", format!("/api/v1/triggers/{trigger}"), json!({})),
        ("POST", format!("/api/v1/triggers/{trigger}/enable"), json!({})),
        ("POST", format!("/api/v1/triggers/{trigger}/run"), json!({})),
        ("DELETE", "/api/v1/vault/team:main/API_KEY".to_owned(), json!({})),
        ("POST", "/api/v1/teams/main/pause".to_owned(), json!({})),
        ("POST", "/api/v1/pause".to_owned(), json!({})),
        ("DELETE", "/api/v1/teams/main".to_owned(), json!({})),
        // Not even a team of its own is hung below this one.
        (
            "POST",
            "/api/v1/teams".to_owned(),
            json!({"name": "elsewhere", "scope_accepts": ["works"]}),
        ),
        (
            "POST",
            "/api/v1/teams".to_owned(),
            json!({"name": "elsewhere", "parent": "main", "scope_accepts": ["works"]}),
        ),
        ("POST", "/api/v1/backups".to_owned(), json!({})),
        ("POST", "/api/v1/tasks".to_owned(), json!({"team": "main", "task": "Tidy up."})),
        ("POST", "/api/v1/messages".to_owned(), json!({"content": "Hello."})),
        ("PATCH", "/api/v1/topics/t-1".to_owned(), json!({"state": "done"})),
        ("PUT", "/api/v1/teams/main/config".to_owned(), json!({"content": "description: mine\n"})),
        ("POST", "/api/v1/config/reload".to_owned(), json!({})),
        ("POST", "/api/v1/changes/chg-0/rollback".to_owned(), json!({})),
        (
            "POST",
            "/api/v1/policies".to_owned(),
            json!({"resource": "tool:bash", "effect": "allow"}),
        ),
        ("POST", "/api/v1/tokens/operator/rotate".to_owned(), json!({})),
    ];

    for (method, path, body) in &acts {
        let act = request(method.parse().unwrap(), path).insert_header(bearer(&foreign));
        let answer = bench.call(act.set_json(body)).await;
        assert!(
            [403, 404].contains(&answer.status),
            "{method} {path}: {} {}",
            answer.status,
            answer.body
        );
    }

    // Only the audit and the token's use were written.
    let added = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !before.contains(*line));
        lines
            .filter(|line| !line.starts_with("audit") && !line.contains("last_used_at"))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(added(&bench.stored()), Vec::<String>::new());
}

/// OP-11, SC-14: a plugin is of no team, so that whoever has one team, and be it the main one, changes none.
#[actix::test]
async fn a_token_for_some_teams_changes_no_plugin() {
    let bench = Bench::new().await;
    let own = bench.token_for("own", "main").await;
    let proposal = Proposal {
        kind: Kind::Plugin,
        team: TeamKey::first("main"),
        requester: Cause::Operator { name: "operator".to_owned() },
        arguments: json!({"plugin": "probe", "version": "2.0.0"}),
        summary: "Plugin `probe` becomes 2.0.0".to_owned(),
        diff: None,
    };
    let held = bench.state.spine.approvals.send(Propose(proposal)).await.unwrap().unwrap();
    let word = json!({"decision": "approve", "digest": held.digest});
    let acts = [
        ("POST", "/api/v1/plugins/check".to_owned(), json!({})),
        ("POST", "/api/v1/plugins".to_owned(), json!({})),
        ("POST", "/api/v1/plugins/probe/approve".to_owned(), json!({"digest": "0".repeat(64)})),
        ("DELETE", "/api/v1/plugins/probe?purge=true".to_owned(), json!({})),
        ("POST", format!("/api/v1/approvals/{}", held.id), word.clone()),
    ];

    for (method, path, body) in acts {
        let act = request(method.parse().unwrap(), &path).insert_header(bearer(&own));
        let refused = bench.call(act.set_json(body)).await;
        assert_eq!(refused.refusal(), (403, "forbidden".to_owned()), "{method} {path}");
    }
    let bob = bench.token("bob", only(Scope::Approve)).await;
    let decided = bench.post(&format!("/api/v1/approvals/{}", held.id), &bob, word).await;
    assert_eq!(decided.status, 200, "{}", decided.body);
}

/// OP-11, SC-14: events are those of a team that is named.
#[actix::test]
async fn a_token_for_some_teams_hears_of_those_only() {
    let bench = Bench::new().await;
    let own = bench.token_for("own", "main").await;
    let status = async |query: &str| {
        let path = format!("/api/v1/events?{query}");
        bench.get(&path, &own).await.status
    };

    assert_eq!(status("team=main").await, 200);
    assert_eq!(status("team=elsewhere").await, 403);
    assert_eq!(status("").await, 403);
}

/// OP-11, SC-01
#[actix::test]
async fn whoever_has_some_teams_gives_no_others() {
    let bench = Bench::new().await;
    let own = bench.token_for("own", "main").await;
    let wish = |name: &str, teams: Value| {
        let mut wish = json!({"name": name, "scopes": ["read"]});
        if !teams.is_null() {
            wish["teams"] = teams;
        }
        wish
    };

    let wider = bench.post("/api/v1/tokens", &own, wish("a", json!(["main", "other"]))).await;
    let same = bench.post("/api/v1/tokens", &own, wish("b", json!(["main"]))).await;
    let unsaid = bench.post("/api/v1/tokens", &own, wish("c", Value::Null)).await;
    let none = bench.post("/api/v1/tokens", &own, wish("d", json!([]))).await;
    let unknown =
        bench.post("/api/v1/tokens", &bench.operator(), wish("e", json!(["other"]))).await;

    assert_eq!(wider.refusal(), (403, "forbidden".to_owned()));
    assert_eq!(wider.field(), "teams");
    assert_eq!(same.json()["data"]["teams"], json!(["main"]));
    assert_eq!(unsaid.json()["data"]["teams"], json!(["main"]));
    assert_eq!(none.refusal().0, 400);
    assert_eq!((unknown.refusal().0, unknown.field()), (400, "teams".to_owned()));
    assert!(unknown.json()["error"]["message"].to_string().contains("`main`"));
    let shown = bench.get("/api/v1/session", &own).await;
    assert_eq!(shown.json()["data"]["teams"], json!(["main"]));
    // A token that reaches more is out of reach.
    let revoked = bench.delete("/api/v1/tokens/operator", &own).await;
    assert_eq!(revoked.refusal(), (404, "not_found".to_owned()));
}
