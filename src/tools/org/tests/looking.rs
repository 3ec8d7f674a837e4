//! What teams see of each other.

use std::time::Duration;

use hivewright_actors::{
    history::{Fact, HistoryEvent},
    task::{WaitReason, cause::Cause, records::FinishedTask},
};

use super::*;

/// OR-51
#[actix_web::test]
async fn a_team_sees_what_is_below_it() {
    let bench = bench().await;
    bench.work.open.lock().unwrap().extend([
        busy("scouts", Kind::Delegate),
        OpenTask { state: TaskState::Accepted, ..busy("scouts", Kind::Query) },
    ]);

    let flat = bench.call("main", "list_teams", json!({})).await;
    let deep = bench.call("main", "list_teams", json!({"recursive": true})).await;

    assert_eq!(
        flat["teams"][0],
        json!({
            "name": "scouts", "description": "", "scope": ["guides", "scouts"], "state": "active",
            "phase": "initializing", "pending": 1, "running": 1,
        })
    );
    let names = |teams: &Value| {
        let teams = teams.as_array().unwrap();
        teams.iter().map(|team| team["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&flat["teams"]), ["scouts", "smiths"]);
    assert_eq!(names(&deep["teams"][0]["children"]), ["guides"]);
    let below = bench.call("guides", "list_teams", json!({})).await;
    assert_eq!(below["teams"], json!([]));
}

/// OR-52
#[actix_web::test]
async fn a_team_sees_what_runs_below_it() {
    let bench = bench().await;
    let wait_reason = Some(WaitReason::Approval);
    bench.work.open.lock().unwrap().extend([
        OpenTask { state: TaskState::Waiting, wait_reason, ..busy("guides", Kind::Trigger) },
        OpenTask { state: TaskState::Accepted, ..busy("guides", Kind::Query) },
    ]);
    bench.place.write(&bench.place.home.team_file("guides"), "budgets: {usd_per_day: 3}\n");
    bench.begins("task-busy", "guides", 3).await;

    let one = bench.call("scouts", "get_status", json!({"team": "guides"})).await;
    let all = bench.call("scouts", "get_status", json!({})).await;

    assert_eq!(
        one["teams"],
        json!([{
            "name": "guides", "state": "active", "phase": "initializing",
            "running": [{"task_id": "task-busy", "type": "trigger", "age_ms": 700_000, "step": 3, "wait_reason": "approval"}],
            "queued": 1, "oldest_wait_ms": 700_000,
            "active_daily_ops": 0, "saturated": false, "org_op_pending": false,
            "budget": {
                "spent": {"usd": 1.5, "tokens": 10},
                "limit": {"usd_per_day": 3.0, "tokens_per_day": null, "usd_per_task": null},
            },
        }])
    );
    assert_eq!(all["teams"].as_array().unwrap().len(), 2);
    // It counts itself.
    let daily = |row: &Value| row["active_daily_ops"].clone();
    assert_eq!([daily(&all["teams"][0]), daily(&all["teams"][1])], [json!(1), json!(0)]);
    let above = bench.call("guides", "get_status", json!({"team": "scouts"})).await;
    assert_eq!(code(&above), "not_authorized");
}

impl super::Bench {
    /// The turn of a task has come so far.
    async fn begins(&self, id: &str, team: &str, step: u32) {
        let lane = Lane { team: team.into(), topic: None };
        let text = String::new();
        let now = self.clock.now();
        let task = Task::new(id.into(), lane.clone(), text.clone(), text.clone(), now);
        let start = Fact::TurnStart {
            task_ids: vec![task.id.clone()],
            team: team.into(),
            topic: None,
            source_channel: None,
            attempt: 1,
            redelivered: false,
            sdk: text.clone(),
            provider: text.clone(),
            model: text.clone(),
            prompt_hash: text.clone(),
            toolset_hash: text.clone(),
            cause: None,
            root: None,
            idle: None,
        };
        let said = Fact::AssistantText { text, step };
        let events: Vec<_> = (1..)
            .zip([start, said])
            .map(|(seq, fact)| HistoryEvent {
                seq,
                turn: "turn-1".into(),
                timestamp: now,
                fact,
                redacted: false,
            })
            .collect();
        let writes = Writes::new().put(&task).events(&lane, 1, &events);
        self.store.commit(writes).await.unwrap();
    }
}

/// OR-59
#[actix_web::test]
async fn finished_work_is_listed_newest_first() {
    let bench = bench().await;
    let finish = async |id: &str, team: &str, generation: u32, text: &str| {
        bench.ends(team, Ending::Done, text);
        let lane = Lane { team: team.into(), topic: None };
        let task = Task {
            generation,
            kind: Kind::Delegate,
            cause: Some(Cause::System),
            outcome: bench.work.ends.lock().unwrap().get(team).cloned(),
            ..Task::new(
                id.into(),
                lane,
                String::new(),
                String::new(),
                Timestamp(bench.clock.now().0 - 1_500),
            )
        };
        bench.store.commit(Writes::new().put(&FinishedTask::of(&task))).await.unwrap();
        bench.clock.advance(Duration::from_secs(24 * 60 * 60));
    };
    finish("task-1", "scouts", 1, "first").await;
    finish("task-2", "scouts", 1, &"x".repeat(300)).await;
    // Of a team that had the name before, and of another one.
    finish("task-3", "scouts", 2, "other life").await;
    finish("task-4", "smiths", 1, "other team").await;
    let list = async |args: Value| {
        let answer = bench.call("main", "list_completed_tasks", args).await;
        let tasks = answer["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["id"].clone()).collect::<Vec<_>>()
    };

    assert_eq!(list(json!({"team": "scouts"})).await, ["task-2", "task-1"]);
    assert_eq!(list(json!({"team": "scouts", "limit": 1})).await, ["task-2"]);
    assert_eq!(list(json!({"team": "scouts", "since": "3d"})).await, ["task-2"]);
    assert_eq!(list(json!({"team": "smiths"})).await, ["task-4"]);
    bench.clock.advance(Duration::from_secs(3 * 24 * 60 * 60 + 1));
    assert_eq!(list(json!({"team": "scouts"})).await, ["task-2"]);
    let answer = bench.call("scouts", "list_completed_tasks", json!({})).await;
    assert_eq!(
        answer["tasks"][0],
        json!({
            "id": "task-2", "team": "scouts", "type": "delegate", "state": "done", "duration_ms": 1_500,
            "result_snippet": "x".repeat(199) + "…", "finished_at": "2023-11-15T22:13:20.000Z",
        })
    );
    let refused = bench.call("scouts", "list_completed_tasks", json!({"team": "smiths"})).await;
    assert_eq!(code(&refused), "not_authorized");
    let refused = bench.call("scouts", "list_completed_tasks", json!({"limit": 201})).await;
    assert_eq!(code(&refused), "invalid_input");
}

/// CH-151: a turn for one person is not shown what another had done.
#[actix_web::test]
async fn finished_work_of_another_person_is_not_listed() {
    let bench = bench().await;
    let own = bench.context("main").caller.cause.clone();
    for (id, cause) in
        [("task-1", own), ("task-2", Cause::sender("ws", "bob")), ("task-3", Cause::System)]
    {
        bench.ends("scouts", Ending::Done, "done");
        let lane = Lane { team: "scouts".into(), topic: None };
        let (words, now) = (String::new(), bench.clock.now());
        let task = Task {
            kind: Kind::Delegate,
            cause: Some(cause),
            outcome: bench.work.ends.lock().unwrap().get("scouts").cloned(),
            ..Task::new(id.into(), lane, words.clone(), words, now)
        };
        let writes = Writes::new().put(&FinishedTask::of(&task));
        bench.store.commit(writes).await.unwrap();
    }

    let answer = bench.call("main", "list_completed_tasks", json!({"team": "scouts"})).await;

    let rows = answer["tasks"].as_array().unwrap();
    let mut ids: Vec<&str> = rows.iter().filter_map(|row| row["id"].as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["task-1", "task-3"]);
}

/// OR-67, CH-151: a turn that a message started is shown what came of messages in its place, and what is for everyone.
#[actix_web::test]
async fn work_that_a_message_started_sees_nothing_of_people_elsewhere() {
    let bench = bench().await;
    let here = bench.context("main").caller.source.clone();
    let there = Some(Source::channel("ws:elsewhere".into()));
    for (id, cause, source) in [
        ("task-ann", Cause::sender("ws", "ann"), there.clone()),
        ("task-heard-here", Cause::System, here.clone()),
        ("task-heard-there", Cause::System, there),
        ("task-timed", Cause::System, None),
    ] {
        bench.ends("scouts", Ending::Done, "done");
        let lane = Lane { team: "scouts".into(), topic: None };
        let (words, now) = (String::new(), bench.clock.now());
        let task = Task {
            kind: Kind::Delegate,
            cause: Some(cause),
            source,
            outcome: bench.work.ends.lock().unwrap().get("scouts").cloned(),
            ..Task::new(id.into(), lane, words.clone(), words, now)
        };
        let writes = Writes::new().put(&FinishedTask::of(&task));
        bench.store.commit(writes).await.unwrap();
    }
    let list = async |source: Option<Source>| {
        let mut context = bench.context_of("main", source);
        context.caller = Arc::new(Caller { cause: Cause::System, ..(*context.caller).clone() });
        let answer =
            bench.call_as(context, "list_completed_tasks", json!({"team": "scouts"})).await;
        let rows = answer["tasks"].as_array().unwrap();
        let mut ids: Vec<String> =
            rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        ids.sort_unstable();
        ids
    };

    assert_eq!(list(here).await, ["task-heard-here", "task-timed"]);
    assert_eq!(list(None).await.len(), 4);
}
