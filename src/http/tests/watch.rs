//! What whoever watches the service sees.

use hivewright_actors::{audit::Audit, clock::Clock, room::Space, store::records::Writes};
use serde_json::json;

use super::*;

/// OP-47
#[actix::test]
async fn health_is_told_to_everyone_and_detail_to_whoever_is_logged_in() {
    let bench = Bench::new().await;
    let open = |path| bench.call(request(Method::GET, path));

    let (alive, ready, counts) =
        (open("/healthz").await, open("/readyz").await, open("/health").await);
    let detail = bench.get("/readyz", &bench.operator()).await;

    assert_eq!((alive.status, alive.body.as_str()), (200, "ok"));
    assert_eq!((ready.status, ready.json()), (200, json!({"ready": true})));
    assert_eq!(
        counts.json(),
        json!({
            "storage": {"ok": true},
            "sessions": {"active": 0},
            "triggers": {"registered": 0},
            "channels": {"connected": 0},
        })
    );
    assert_eq!(
        detail.json(),
        json!({"ready": true, "checks": {
            "store": "ok", "settings": "ok", "vault": "ok", "scheduler": "ok", "channels": "ok",
            "providers": "demo", "drain": "ok", "disk": "ok",
        }})
    );
}

/// SC-115: monitors hear of a disk that fills up before and while it is full; the service serves.
#[actix::test]
async fn a_disk_without_room_is_told_to_everyone_and_the_service_stays_ready() {
    let bench = Bench::new().await;
    let mut told = Vec::new();

    for space in [Space::Low, Space::Full, Space::Enough] {
        bench.state.spine.store.room().set(space);
        let ready = bench.call(request(Method::GET, "/readyz")).await;
        let seen = bench.get("/api/v1/overview", &bench.operator()).await;
        told.push((ready.status, ready.json(), seen.json()["data"]["disk"].clone()));
    }

    let expected = [
        (200, json!({"ready": true, "disk": "low"}), json!("low")),
        (200, json!({"ready": true, "disk": "full"}), json!("full")),
        (200, json!({"ready": true}), json!("ok")),
    ];
    assert_eq!(told, expected);
}

/// SC-115: nothing is stored of what is refused, and the same request is taken in when there is room.
#[actix::test]
async fn without_room_new_work_is_refused_by_name() {
    let bench = Bench::new().await;
    let token = bench.operator();
    let words = || json!({"content": "water the garden"});
    bench.state.spine.store.room().set(Space::Full);

    let message = bench.post("/api/v1/messages", &token, words()).await;
    let team =
        json!({"name": "scouts", "description": "Looks around.", "scope_accepts": ["looking"]});
    let team = bench.post("/api/v1/teams", &token, team).await;
    let read = bench.get("/api/v1/tasks", &token).await;
    bench.state.spine.store.room().set(Space::Enough);
    let again = bench.post("/api/v1/messages", &token, words()).await;

    for refused in [message, team] {
        let code = refused.json()["error"]["code"].clone();
        assert_eq!((refused.status, code), (503, json!("disk_full")), "{}", refused.body);
    }
    assert_eq!((read.status, read.json()["total"].clone()), (200, json!(0)));
    assert_eq!(again.status, 202, "{}", again.body);
}

/// OP-47: what is wrong elsewhere is detail: the service can serve.
#[actix::test]
async fn faults_of_the_settings_are_detail() {
    let bench = Bench::new().await;
    bench.surroundings.faulty.store(true, Ordering::SeqCst);

    let detail = bench.get("/readyz", &bench.operator()).await;

    assert_eq!(detail.status, 200);
    let checks = detail.json()["checks"].clone();
    for part in ["settings", "channels", "providers"] {
        assert_eq!(checks[part], "error", "{checks}");
    }
    assert!(!detail.body.contains("is wrong"), "{}", detail.body);
}

/// OP-47: a store that cannot be written is not ready, though it can be read; nobody waits for a disk
/// to say so.
#[actix::test]
async fn a_store_that_cannot_be_written_is_not_ready() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let before = bench.call(request(Method::GET, "/readyz")).await;
    bench.storage.refuse("");
    let store = bench.state.spine.store.clone();
    // Nobody is answered any more after that.
    let lost = store.commit(Writes::new().put(&audit()));
    let lost = tokio::time::timeout(Duration::from_secs(10), async {
        while store.is_usable() {
            tokio::task::yield_now().await;
        }
        drop(lost);
    });
    lost.await.unwrap();

    let after = bench.call(request(Method::GET, "/readyz")).await;
    let detail = bench.get("/readyz", &operator).await;
    let counts = bench.call(request(Method::GET, "/health")).await;

    assert_eq!(before.status, 200);
    assert_eq!((after.status, after.json()), (503, json!({"ready": false})));
    assert_eq!(detail.json()["checks"]["store"], "error");
    assert_eq!(counts.json()["storage"], json!({"ok": false}));
}

/// OP-47: work that blocks all threads that may block does not make the service look broken.
#[actix::test]
async fn readiness_waits_for_no_thread() {
    let bench = Bench::new().await;
    let (gate, shut) = std::sync::mpsc::channel::<()>();
    let shut = Arc::new(std::sync::Mutex::new(shut));
    let threads = 1_024;
    for _ in 0..threads {
        let shut = shut.clone();
        tokio::task::spawn_blocking(move || {
            let _ = shut.lock().unwrap().recv();
        });
    }

    let ready = bench.call(request(Method::GET, "/readyz")).await;
    drop(gate);

    assert_eq!((ready.status, ready.json()), (200, json!({"ready": true})));
}

fn audit() -> Audit {
    Audit {
        id: "a1".to_owned(),
        at: Timestamp(1),
        actor: "test".into(),
        action: "test".to_owned(),
        target: String::new(),
        from: String::new(),
        outcome: "ok".to_owned(),
        call: None,
    }
}

/// OP-47
#[actix::test]
async fn a_service_that_stops_is_alive_and_not_ready() {
    let bench = Bench::new().await;
    bench.surroundings.draining.store(true, Ordering::SeqCst);

    let ready = bench.call(request(Method::GET, "/readyz")).await;
    let alive = bench.call(request(Method::GET, "/healthz")).await;

    assert_eq!((ready.status, ready.json()), (503, json!({"ready": false})));
    assert_eq!(alive.status, 200);
}

/// OP-21
#[actix::test]
async fn the_overview_shows_the_service_at_a_glance() {
    let bench = Bench::new().await;

    let answer = bench.get("/api/v1/overview", &bench.operator()).await;

    let mut data = answer.json()["data"].clone();
    assert!(data["uptime_s"].take().as_u64().is_some_and(|seconds| seconds < 60));
    assert_eq!(
        data,
        json!({
            "uptime_s": null,
            "version": env!("CARGO_PKG_VERSION"),
            "demo": true,
            "store_bytes": 4096,
            "disk": "ok",
            "free_bytes": null,
            "teams": {"total": 1, "active": 1, "paused": 0, "degraded": 0, "alive": 0},
            "tasks": {"queued": 0, "running": 0, "waiting": 0},
            "triggers": {"total": 0, "active": 0, "disabled": 0},
            "channels": [{"type": "ws", "state": "on", "connected": 0}],
            "drain": false,
            "approvals_open": 0,
            "questions_open": 0,
            "inbox_unread": 0,
            "spend_today_usd": 0.0,
            "today": &bench.clock.now().date()[..10],
            "today_ends_at": "2023-11-15T00:00:00.000Z",
        })
    );
}

/// OP-21, OP-47: those that fire, those that were switched off, and those that were never on.
#[actix::test]
async fn triggers_are_counted_as_they_are() {
    let bench = Bench::new().await;
    let token = bench.operator();
    for (name, enable) in [("one", true), ("two", true), ("three", false)] {
        let trigger = json!({
            "team": "main", "name": name, "type": "schedule", "config": {"cron": "0 8 * * *"},
            "task": "Look.", "enable": enable,
        });
        let made = bench.post("/api/v1/triggers", &token, trigger).await;
        assert_eq!(made.status, 201, "{}", made.body);
        if name == "two" {
            let id = made.json()["data"]["id"].clone();
            let off = format!("/api/v1/triggers/{}/disable", id.as_str().unwrap());
            assert_eq!(bench.post(&off, &token, json!({})).await.status, 200);
        }
    }

    let overview = bench.get("/api/v1/overview", &token).await.json();
    let health = bench.call(request(Method::GET, "/health")).await.json();

    assert_eq!(overview["data"]["triggers"], json!({"total": 3, "active": 1, "disabled": 1}));
    assert_eq!(health["triggers"], json!({"registered": 3}));
}

/// OP-48
#[actix::test]
async fn the_figures_are_prometheus_text() {
    let bench = Bench::new().await;

    let answer = bench.get("/metrics", &bench.operator()).await;

    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(answer.body.contains("hivewright_ws_connections 0\n"));
    assert!(answer.body.contains("hivewright_store_commit_seconds_count "));
    assert!(!answer.body.contains("hivewright_store_commit_seconds_count 0\n"));
    assert!(!answer.body.contains("operator"));
}

async fn finished(bench: &Bench, id: &str) -> Value {
    let path = format!("/api/v1/jobs/{id}");
    let wait = async {
        loop {
            let job = bench.get(&path, &bench.operator()).await.json()["data"].clone();
            if job["state"] != "running" {
                return job;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), wait).await.unwrap()
}

/// OP-105: its name is of this boot, the third.
#[actix::test]
async fn a_backup_is_a_job_that_is_followed() {
    let bench = Bench::new().await;
    let start = async |body| bench.post("/api/v1/backups", &bench.operator(), body).await;

    let regular = start(json!({})).await;
    let regular_job = finished(&bench, "job-3-1").await;
    let named = start(json!({"name": "full"})).await;
    let failed_job = finished(&bench, "job-3-2").await;

    assert_eq!((regular.status, regular.json()), (202, json!({"data": {"job_id": "job-3-1"}})));
    assert_eq!(
        regular_job,
        json!({
            "id": "job-3-1",
            "kind": "backup",
            "state": "done",
            "done": 2,
            "total": 2,
            "unit": "records",
            "message": "/backups/1.tar.zst",
            "started_at": "2023-11-14T22:13:20.000Z",
        })
    );
    assert_eq!(named.status, 202);
    assert_eq!(
        (&failed_job["state"], &failed_job["message"]),
        (&json!("failed"), &json!("the disk is full"))
    );
}

/// OP-105
#[actix::test]
async fn one_backup_is_made_at_a_time_and_one_that_panics_has_failed() {
    let bench = Bench::new().await;
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let jobs = &bench.state.jobs;
    let id = jobs
        .start("backup", move |_| {
            wait.recv().ok();
            panic!("as planned")
        })
        .unwrap();

    let second = bench.post("/api/v1/backups", &bench.operator(), json!({})).await;
    go.send(()).unwrap();

    assert_eq!(second.refusal(), (409, "conflict".to_owned()));
    let job = finished(&bench, &id).await;
    assert_eq!(job["state"], "failed");
    assert_eq!(bench.post("/api/v1/backups", &bench.operator(), json!({})).await.status, 202);
}

/// OP-105: a job that hears of it stops, and is not said to have failed.
#[actix::test]
async fn a_job_is_cancelled_at_the_next_safe_point() {
    let bench = Bench::new().await;
    let operator = bench.operator();
    let id = bench.state.jobs.start("backup", |work| {
        let patience = Instant::now() + Duration::from_secs(5);
        while !work.is_cancelled() && Instant::now() < patience {
            std::thread::yield_now();
        }
        Err("stopped by the operator".to_owned())
    });
    let id = id.unwrap();
    let path = format!("/api/v1/jobs/{id}/cancel");

    let asked = bench.post(&path, &operator, json!({})).await;
    let job = finished(&bench, &id).await;
    let again = bench.post(&path, &operator, json!({})).await;
    let backup = bench.post("/api/v1/backups", &operator, json!({})).await;
    let backup = backup.json()["data"]["job_id"].as_str().unwrap().to_owned();
    finished(&bench, &backup).await;
    let path = format!("/api/v1/jobs/{backup}/cancel");
    let late = bench.post(&path, &operator, json!({}));

    assert_eq!((asked.status, again.status), (202, 202));
    assert_eq!(job["state"], "cancelled");
    assert_eq!(late.await.refusal(), (409, "final".to_owned()));
    let listed = bench.get("/api/v1/jobs?state=cancelled", &operator).await;
    assert_eq!(listed.json()["total"], 1);
}

/// OP-105
#[actix::test]
async fn backups_that_are_kept_are_listed() {
    let bench = Bench::new().await;

    let listed = bench.get("/api/v1/backups?limit=1", &bench.operator()).await;

    let newest = json!({
        "file": "/backups/2.tar.zst",
        "bytes": 200,
        "created_at": "2023-11-14T22:13:20.002Z",
        "holds_redacted": false,
    });
    assert_eq!(listed.json()["data"], json!([newest]));
    assert_eq!(listed.json()["total"], 2);
}
