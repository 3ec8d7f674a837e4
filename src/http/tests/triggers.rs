//! Triggers over REST.

use hivewright_actors::{
    channel::records::ChannelRow, ids::ChannelId, router::records as conversations,
};
use serde_json::json;

use super::*;

fn morning() -> Value {
    json!({
        "team": "main", "name": "morning", "type": "schedule",
        "config": {"cron": "0 8 * * MON-FRI", "timezone": "Europe/Berlin"},
        "task": "Sum up the news.", "enable": true,
    })
}

async fn patch(bench: &Bench, path: &str, token: &str, body: Value) -> Answer {
    let request = request(Method::PATCH, path).insert_header(bearer(token));
    bench.call(request.set_json(body)).await
}

/// TR-59, TR-60, OP-27, OP-119
#[actix::test]
async fn an_operator_makes_changes_runs_and_removes_a_trigger() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;

    let made = bench.post("/api/v1/triggers", &token, morning()).await;
    let row = made.json()["data"].clone();
    let path = format!("/api/v1/triggers/{}", row["id"].as_str().unwrap());
    // The clock stands on Tuesday 2023-11-14, 22:13 UTC.
    assert_eq!(made.status, 201);
    assert_eq!(
        row["next_due"],
        json!([
            "Wed 2023-11-15 08:00:00 CET",
            "Thu 2023-11-16 08:00:00 CET",
            "Fri 2023-11-17 08:00:00 CET",
        ])
    );
    assert_eq!(row["next_due_at"], "2023-11-15T07:00:00.000Z");
    assert_eq!(
        [&row["state"], &row["deadline"], &row["overlap_policy"], &row["missed"]],
        ["active", "6h", "skip-then-replace", "once"]
    );

    // TR-50: field by field, and null clears.
    let change = json!({"config": {"cron": "30 7 * * *", "timezone": null}, "subagent": "editor"});
    let changed = patch(&bench, &path, &token, change).await;
    let row = changed.json()["data"].clone();
    assert_eq!(row["config"], json!({"cron": "30 7 * * *"}));
    assert_eq!((&row["subagent"], &row["revision"]), (&json!("editor"), &json!(2)));
    let cleared = patch(&bench, &path, &token, json!({"subagent": null})).await;
    assert_eq!(cleared.json()["data"]["subagent"], Value::Null);

    let off = bench.post(&format!("{path}/disable"), &token, json!({"reason": "holidays"})).await;
    assert_eq!(off.json()["data"]["disabled_reason"], "holidays");
    let listed = bench.get("/api/v1/triggers?state=disabled&team=main", &token).await;
    assert_eq!(listed.json()["total"], 1);
    let none = bench.get("/api/v1/triggers?state=active", &token).await;
    assert_eq!(none.json()["total"], 0);

    // TR-54: in any state.
    let run = bench.post(&format!("{path}/run"), &token, json!({})).await;
    assert_eq!((run.status, &run.json()["data"]["decision"]), (202, &json!("enqueued")));
    let runs = bench.get(&format!("{path}/runs"), &token).await;
    assert_eq!(runs.json()["data"][0]["id"], run.json()["data"]["id"]);
    assert_eq!(runs.json()["data"][0]["cause"], "manual");

    let request = request(Method::PUT, &format!("{path}/cursors")).insert_header(bearer(&token));
    let cursors = json!({"cursors": {"last_scan": "7"}});
    let set = bench.call(request.set_json(cursors)).await;
    assert_eq!(set.json()["data"]["cursors"], json!({"last_scan": "7"}));

    assert_eq!(bench.delete(&path, &token).await.status, 204);
    assert_eq!(bench.get(&path, &token).await.status, 404);
}

/// TR-28, OP-04: the caller's key.
#[actix::test]
async fn the_same_key_starts_no_second_run() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let made = bench.post("/api/v1/triggers", &token, morning()).await;
    let id = made.json()["data"]["id"].as_str().unwrap().to_owned();
    let other = bench.token("other", only(Scope::Operate)).await;
    let run = async |token: &str| {
        let request = request(Method::POST, &format!("/api/v1/triggers/{id}/run"));
        let request =
            request.insert_header(bearer(token)).insert_header(("Idempotency-Key", "once"));
        bench.call(request.set_json(json!({}))).await.json()["data"].clone()
    };

    let (first, again) = (run(&token).await, run(&token).await);
    let of_another = run(&other).await;

    assert_eq!(first["decision"], "enqueued");
    assert_eq!(again, first);
    assert_eq!(of_another["decision"], "duplicate");
    assert_eq!(of_another["duplicate_of"], first["id"]);
}

/// TR-02, TR-56, TR-82: the field is named, and nothing is stored.
#[actix::test]
async fn what_is_wrong_is_refused_with_its_field() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let with = |change: Value| {
        let mut form = morning();
        for (name, value) in change.as_object().unwrap() {
            form[name] = value.clone();
        }
        form
    };
    let webhook =
        |config: Value| with(json!({"type": "webhook", "config": config, "enable": false}));
    let cases = [
        (with(json!({"config": {"cron": "0 25 * * *"}})), "config.cron", "invalid_input"),
        (
            with(json!({"config": {"cron": "0 8 * * *", "timezone": "Europe/Berln"}})),
            "config.timezone",
            "invalid_input",
        ),
        (
            with(json!({"type": "message", "config": {"pattern": "a(?=b)"}})),
            "config.pattern",
            "invalid_input",
        ),
        (with(json!({"subagent": "ghost"})), "subagent", "unknown_subagent"),
        (with(json!({"config": {"crom": "0 8 * * *"}})), "config.crom", "invalid_input"),
        (with(json!({"taks": "x"})), "taks", "invalid_input"),
        (with(json!({"config": {"at": "2020-01-01T00:00:00Z"}})), "config.at", "invalid_input"),
        (with(json!({"priority": "critical"})), "priority", "invalid_input"),
        (with(json!({"quiet": {"from": "25:00", "to": "07:00"}})), "quiet.from", "invalid_input"),
        (webhook(json!({"secret": "hunter2-hunter2-hunter2-x"})), "config.secret", "invalid_input"),
        (webhook(json!({"secret": "${vault:NONE}"})), "config.secret", "invalid_input"),
        (webhook(json!({"secret": "${vault:SHORT}"})), "config.secret", "invalid_input"),
        (
            webhook(json!({"secret": "${vault:HOOK}", "pass_headers": ["Cookie"]})),
            "config.pass_headers[0]",
            "invalid_input",
        ),
    ];
    for (form, field, code) in cases {
        let answer = bench.post("/api/v1/triggers", &token, form).await;
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{}", answer.body);
        assert_eq!(answer.field(), field);
        assert!(!answer.body.contains("hunter2"), "{}", answer.body);
    }
    let listed = bench.get("/api/v1/triggers", &token).await;
    assert_eq!(listed.json()["total"], 0);

    let unknown = bench.post("/api/v1/triggers", &token, with(json!({"team": "nobody"}))).await;
    assert_eq!(unknown.refusal(), (404, "not_found".to_owned()));
    bench.post("/api/v1/triggers", &token, morning()).await;
    let taken = bench.post("/api/v1/triggers", &token, morning()).await;
    assert_eq!(taken.refusal(), (409, "name_taken".to_owned()));
    let reserved = bench.post("/api/v1/triggers", &token, with(json!({"name": "heartbeat"}))).await;
    assert_eq!(reserved.refusal(), (409, "name_reserved".to_owned()));
}

/// OP-119
#[actix::test]
async fn a_preview_shows_times_or_whether_a_sample_fits() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let look = async |wish: Value| {
        let answer = bench.post("/api/v1/triggers/preview", &token, wish).await;
        answer.json()["data"].clone()
    };

    let times = look(json!({"type": "schedule", "config": {"cron": "0 8 * * *"}})).await;
    let window = json!({"type": "window", "config": {"watch": "* 9 * * *"}});
    let openings = look(window).await;
    let pattern = json!({"pattern": "/order (?<number>\\d+)/i"});
    let found = look(json!({"type": "keyword", "config": pattern, "sample": "Order 77"})).await;

    assert_eq!(times["due"].as_array().unwrap().len(), 10);
    assert_eq!(times["due"][0]["local"], "Wed 2023-11-15 08:00:00 UTC");
    assert_eq!(openings["due"][0]["local"], "Wed 2023-11-15 09:00:00 UTC");
    assert_eq!(openings["due"][1]["local"], "Thu 2023-11-16 09:00:00 UTC");
    assert_eq!((&found["matches"], &found["captures"]["number"]), (&json!(true), &json!("77")));
}

/// OP-11
#[actix::test]
async fn triggers_need_the_scope_to_operate() {
    let bench = Bench::new().await;
    let reader = bench.token("reader", only(Scope::Read)).await;

    let seen = bench.get("/api/v1/triggers", &reader).await;
    let made = bench.post("/api/v1/triggers", &reader, morning()).await;

    assert_eq!(seen.refusal().0, 403);
    assert_eq!(made.refusal().0, 403);
}

/// TR-59: deleting keeps the runs, for those who reach the team.
#[actix::test]
async fn the_runs_of_a_deleted_trigger_can_be_read() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let made = bench.post("/api/v1/triggers", &token, morning()).await;
    let path = format!("/api/v1/triggers/{}", made.json()["data"]["id"].as_str().unwrap());
    let run = bench.post(&format!("{path}/run"), &token, json!({})).await;
    let run = run.json()["data"]["id"].clone();

    assert_eq!(bench.delete(&path, &token).await.status, 204);
    let runs = bench.get(&format!("{path}/runs"), &token).await;
    let none = bench.get("/api/v1/triggers/trg-none/runs", &token).await;

    assert_eq!(runs.json()["data"][0]["id"], run);
    assert_eq!(none.status, 404);
}

/// TR-02, TR-59: what would be told to nobody is refused, and one that went away since hinders no other change.
#[actix::test]
async fn a_channel_that_does_not_exist_is_refused_with_its_field() {
    let bench = Bench::new().await;
    let token = bench.token("ops", only(Scope::Operate)).await;
    let mut form = morning();
    form["notify_channel"] = json!("ws:nobody");

    let refused = bench.post("/api/v1/triggers", &token, form).await;

    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["field"], "notify_channel");
}

/// TR-59, SC-14: the runs that a deleted trigger left are no more for others than it was.
#[actix::test]
async fn the_runs_of_a_deleted_trigger_are_not_for_a_token_of_another_team() {
    let bench = Bench::new().await;
    let (operator, foreign) = (bench.operator(), bench.token_for("foreign", "elsewhere").await);
    let made = bench.post("/api/v1/triggers", &operator, morning()).await;
    let path = format!("/api/v1/triggers/{}", made.json()["data"]["id"].as_str().unwrap());
    bench.post(&format!("{path}/run"), &operator, json!({})).await;
    assert_eq!(bench.delete(&path, &operator).await.status, 204);

    let own = bench.get(&format!("{path}/runs"), &operator).await;
    let runs = bench.get(&format!("{path}/runs"), &foreign).await;

    assert_eq!(own.status, 200);
    assert_eq!(runs.status, 404);
}

/// TR-02, TR-59
#[actix::test]
async fn a_channel_that_went_away_hinders_no_other_change() {
    let bench = Bench::new().await;
    let (operator, channel) = (bench.operator(), ChannelId::from("ws:1"));
    let store = &bench.state.spine.store;
    let row = ChannelRow {
        principal: "operator".into(),
        grant: None,
        last_seen: bench.auth().now(),
        channel_type: Default::default(),
        begins_anew: false,
        begins_anew_in: None,
    };
    let writes = Writes::new().put_at(&channel, &row);
    store.commit(writes).await.unwrap();
    let mut form = morning();
    form["notify_channel"] = json!(channel);
    let made = bench.post("/api/v1/triggers", &operator, form).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let keys = store.read(move |storage| conversations::channel_keys(storage, &channel));
    let keys = keys.await.unwrap();
    store.commit(Writes::new().drop_keys(keys)).await.unwrap();

    let path = format!("/api/v1/triggers/{}", made.json()["data"]["id"].as_str().unwrap());
    let changed = patch(&bench, &path, &operator, json!({"max_steps": 7})).await;

    assert_eq!(changed.status, 200, "{}", changed.body);
}

/// OP-127: all that is due within a day, in the order of time, by the clocks of its zone, which go forward that night. Times
/// close together are one row, and what does not fire as it stands says so.
#[actix::test]
async fn the_next_24_hours_of_all_triggers_are_listed() {
    let bench = Bench::new().await;
    let token = bench.operator();
    // Saturday 2024-03-30, 22:13:20 UTC.
    bench.clock.set(Timestamp(1_711_836_800_000));
    for (name, config, enable) in [
        ("hourly", json!({"cron": "0 * * * *", "timezone": "Europe/Berlin"}), true),
        ("dense", json!({"cron": "* 6 * * *", "timezone": "UTC"}), false),
        ("later", json!({"cron": "0 8 * * TUE"}), true),
        ("word", json!({"pattern": "invoice"}), true),
    ] {
        let kind = if name == "word" { "keyword" } else { "schedule" };
        let trigger = json!({
            "team": "main", "name": name, "type": kind, "config": config, "task": "Look.", "enable": enable,
        });
        let made = bench.post("/api/v1/triggers", &token, trigger).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let look = async |query: &str| {
        let path = format!("/api/v1/triggers/agenda?limit=200{query}");
        bench.get(&path, &token).await.json()["data"].clone()
    };
    let column = |rows: &Value, name: &str| {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row[name].clone()).collect::<Vec<_>>()
    };

    let hourly = look("&q=hourly").await;
    let dense = look("&q=dense").await;
    let all = look("").await;
    let paused = bench.post("/api/v1/teams/main/pause", &token, json!({})).await;

    let local = column(&hourly, "local");
    assert_eq!(local.len(), 24);
    assert_eq!(
        local[1..4],
        [
            "Sun 2024-03-31 01:00:00 CET",
            "Sun 2024-03-31 03:00:00 CEST",
            "Sun 2024-03-31 04:00:00 CEST"
        ]
    );
    assert_eq!(
        column(&hourly, "at")[1..3],
        ["2024-03-31T00:00:00.000Z", "2024-03-31T01:00:00.000Z"]
    );
    assert_eq!((&hourly[0]["state"], &hourly[0]["held"]), (&json!("active"), &json!(false)));
    assert_eq!(column(&dense, "count"), [15, 15, 15, 15]);
    assert_eq!((&dense[0]["state"], &dense[0]["name"]), (&json!("pending"), &json!("dense")));
    let times = column(&all, "at");
    assert!(times.is_sorted_by_key(|at| at.as_str().unwrap()), "{times:?}");
    assert_eq!(times.len(), 28);
    assert_eq!(paused.status, 200, "{}", paused.body);
    let held = column(&look("&type=schedule&state=active").await, "held");
    assert_eq!((held.len(), held.iter().all(|held| *held == true)), (24, true));
}
