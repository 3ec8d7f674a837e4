//! Teams over HTTP.

use serde_json::json;

use super::*;

async fn make(bench: &Bench, name: &str, parent: &str) -> Answer {
    let wish =
        json!({"name": name, "parent": parent, "scope_accepts": [name], "description": "Digs."});
    bench.post("/api/v1/teams", &bench.operator(), wish).await
}

async fn delete(bench: &Bench, path: &str) -> Answer {
    let request = request(Method::DELETE, path).insert_header(bearer(&bench.operator()));
    bench.call(request).await
}

/// OP-22, OP-106
#[actix_web::test]
async fn an_operator_makes_sees_and_lets_go_of_teams() {
    let bench = Bench::new().await;
    let operator = bench.operator();

    let made = make(&bench, "scouts", "main").await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["data"]["team"], "scouts");
    assert_eq!(make(&bench, "guides", "scouts").await.status, 201);
    assert!(bench.home.team_file("guides").is_file());

    let rows = bench.get("/api/v1/teams?parent=main", &operator).await.json();
    assert_eq!(rows["total"], 1);
    let row = &rows["data"][0];
    assert_eq!(row["name"], "scouts");
    assert_eq!(row["description"], "Digs.");
    assert_eq!(row["scope"], json!(["guides", "scouts"]));
    assert_eq!((&row["state"], &row["children"]), (&json!("active"), &json!(1)));
    assert_eq!(bench.get("/api/v1/teams", &operator).await.json()["total"], 3);
    let found = bench.get("/api/v1/teams?q=GUIDE", &operator).await.json();
    assert_eq!(found["total"], 3, "main and scouts take on what guides do");

    let one = bench.get("/api/v1/teams/scouts", &operator).await.json();
    assert_eq!(one["data"]["teams"], json!(["guides"]));
    assert_eq!(one["data"]["created_by"], "operator");
    assert_eq!(one["data"]["own_scope"], json!(["scouts"]));
    let tree = bench.get("/api/v1/org", &operator).await.json();
    assert_eq!(tree["data"]["teams"][0]["teams"][0]["name"], "guides");

    let refused = delete(&bench, "/api/v1/teams/scouts").await;
    assert_eq!(refused.refusal(), (409, "has_children".to_owned()));
    let gone = delete(&bench, "/api/v1/teams/scouts?cascade=true").await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    assert_eq!(gone.json()["data"]["removed"], json!(["guides", "scouts"]));
    let missing = bench.get("/api/v1/teams/scouts", &operator).await;
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
    let main = delete(&bench, "/api/v1/teams/main").await;
    assert_eq!(main.refusal(), (403, "not_authorized".to_owned()));
}

/// OR-61, OP-106: secrets that come with a wish are in the vault of the team, and nowhere else.
#[actix_web::test]
async fn a_team_is_made_with_its_secrets() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let wish = |name: &str, value: &str| {
        json!({
            "name": name, "scope_accepts": ["x"], "credentials": {"API_KEY": value},
            "description": format!("Digs with {value}."),
            "init_context": format!("The key is {value}, keep it."),
        })
    };
    let path = "/api/v1/teams";

    let made = bench.post(path, &operator, wish("scouts", "s3cret-value-1")).await;
    let too_short = bench.post(path, &operator, wish("guides", "abc-777")).await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let not_allowed = bench.post(path, &token, wish("guides", "s3cret-value-2")).await;

    assert_eq!(made.status, 201, "{}", made.body);
    let folder = bench.home.team("scouts");
    let context = std::fs::read_to_string(folder.join("team-rules/team-context.md")).unwrap();
    assert_eq!(context.trim(), "The key is ${vault:API_KEY}, keep it.");
    let file = std::fs::read_to_string(folder.join("config.yaml")).unwrap();
    assert!(!file.contains("s3cret-value-1"), "{file}");
    let secrets = bench.state.vault.secrets_of_team(&"scouts".into());
    assert!(!secrets.is_empty());
    assert!(!bench.storage.text().contains("s3cret-value-1"));
    assert_eq!(too_short.refusal(), (400, "invalid_input".to_owned()));
    assert!(!too_short.body.contains("abc-777"), "{}", too_short.body);
    assert_eq!(not_allowed.status, 403);
    assert!(!bench.home.team("guides").exists());
}

/// OP-106: the same rules as for teams, except that nobody is asked.
#[actix_web::test]
async fn a_wish_that_cannot_be_meant_is_refused_by_field() {
    let bench = Bench::new().await;
    let table = [
        (json!({"name": "a1", "scope_accepts": ["x"], "alowed_tools": []}), 400, "invalid_input"),
        (json!({"name": "A1", "scope_accepts": ["x"]}), 400, "invalid_input"),
        (json!({"name": "main", "scope_accepts": ["x"]}), 400, "name_reserved"),
        (json!({"name": "a1", "scope_accepts": []}), 409, "scope_empty"),
        (json!({"name": "a1", "scope_accepts": ["x"], "parent": "nobody"}), 404, "not_found"),
        (
            json!({"name": "a1", "scope_accepts": ["x"], "provider_profile": "no"}),
            400,
            "invalid_input",
        ),
        (
            json!({"name": "a1", "scope_accepts": ["x"], "budgets": {"usd_per_day": -1}}),
            400,
            "invalid_input",
        ),
    ];

    for (wish, status, code) in table {
        let answer = bench.post("/api/v1/teams", &bench.operator(), wish).await;
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{}", answer.body);
    }
    make(&bench, "a1", "main").await;
    assert_eq!(make(&bench, "a1", "main").await.refusal(), (409, "name_taken".to_owned()));
}

/// OP-107, OR-95
#[actix_web::test]
async fn teams_rest_and_work_again() {
    let bench = Bench::new().await;
    make(&bench, "scouts", "main").await;
    let operator = bench.operator();
    let state = async || {
        let row = bench.get("/api/v1/teams/scouts", &operator).await.json();
        row["data"]["state"].clone()
    };

    let answer = bench.post("/api/v1/teams/scouts/pause", &operator, json!({"now": true})).await;
    assert_eq!(answer.json()["data"]["teams"], json!(["scouts"]));
    assert_eq!(state().await, "paused");
    bench.post("/api/v1/teams/scouts/resume", &operator, json!({})).await;
    assert_eq!(state().await, "active");
    let all = bench.post("/api/v1/pause", &operator, json!({})).await;
    assert_eq!(all.json()["data"]["teams"], json!(["main", "scouts"]));
    assert_eq!(state().await, "paused");
    bench.post("/api/v1/resume", &operator, json!({})).await;
    assert_eq!(state().await, "active");
    let missing = bench.post("/api/v1/teams/nobody/pause", &operator, json!({})).await;
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
}

/// OP-106
#[actix_web::test]
async fn a_team_is_changed() {
    let bench = Bench::new().await;
    make(&bench, "scouts", "main").await;
    let request = request(Method::PATCH, "/api/v1/teams/scouts")
        .insert_header(bearer(&bench.operator()))
        .set_json(json!({"scope_add": ["Ore"], "description": "Digs deeper."}));

    let answer = bench.call(request).await;

    assert_eq!(answer.json()["data"]["scope"], json!(["ore", "scouts"]));
    let row = bench.get("/api/v1/teams/scouts", &bench.operator()).await;
    assert_eq!(row.json()["data"]["description"], "Digs deeper.");
}

/// OP-106, OR-30, TR-55: what a team may do beyond its tools is for administrators to say.
#[actix_web::test]
async fn administrators_say_what_a_team_may_do_beyond_its_tools() {
    let bench = Bench::new().await;
    make(&bench, "scouts", "main").await;
    let operates = bench.token("operates", only(Scope::Operate)).await;
    let change = |token: &str, capabilities: &[&str]| {
        request(Method::PATCH, "/api/v1/teams/scouts")
            .insert_header(bearer(token))
            .set_json(json!({ "capabilities": capabilities }))
    };

    let refused = bench.call(change(&operates, &["triggers"])).await;
    assert_eq!(refused.refusal(), (403, "forbidden".to_owned()));
    let unknown = bench.call(change(&bench.operator(), &["magic"])).await;
    assert_eq!(unknown.status, 400);
    let twice = bench.call(change(&bench.operator(), &["triggers", "triggers"])).await;
    assert_eq!(twice.refusal(), (400, "invalid_input".to_owned()));
    assert_eq!(twice.field(), "capabilities[1]");
    let given = bench.call(change(&bench.operator(), &["triggers"])).await;
    assert_eq!(given.json()["data"]["capabilities"], json!(["triggers"]));
    let row = bench.get("/api/v1/teams/scouts", &bench.operator()).await;
    assert_eq!(row.json()["data"]["capabilities"], json!(["triggers"]));
    let taken = bench.call(change(&bench.operator(), &[])).await;

    assert_eq!(taken.json()["data"]["capabilities"], json!([]));
}

/// OR-31: a team whose file is wrong says so.
#[actix_web::test]
async fn a_bad_file_shows() {
    let bench = Bench::new().await;
    make(&bench, "scouts", "main").await;
    std::fs::write(bench.home.team_file("scouts"), "max_steps: many\n").unwrap();

    let row = bench.get("/api/v1/teams/scouts", &bench.operator()).await.json();

    assert_eq!(row["data"]["state"], "degraded");
    assert!(row["data"]["fault"].as_str().unwrap().contains("max_steps"));
}

/// OP-11
#[actix_web::test]
async fn looking_needs_read_and_acting_needs_operate() {
    let bench = Bench::new().await;
    let reader = bench.token("reader", only(Scope::Read)).await;
    let chatter = bench.token("chatter", only(Scope::Chat)).await;

    assert_eq!(bench.get("/api/v1/teams", &reader).await.status, 200);
    assert_eq!(bench.get("/api/v1/tasks", &reader).await.status, 200);
    assert_eq!(bench.get("/api/v1/org", &chatter).await.status, 403);
    for path in [
        "/api/v1/teams",
        "/api/v1/teams/main/pause",
        "/api/v1/pause",
        "/api/v1/tasks/task-1/cancel",
        "/api/v1/tasks/task-1/retry",
    ] {
        let answer = bench.post(path, &reader, json!({})).await;
        assert_eq!(answer.refusal(), (403, "forbidden".to_owned()), "{path}");
    }
}
