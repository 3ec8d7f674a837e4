//! Work for others.

use std::time::Duration;

use hivewright_actors::{
    org::Pause,
    queue::{causes::Runaway, submit::Overlap},
    task::{OnResult, Priority},
    tool::Verdict,
};

use super::*;
use crate::vault::{entry::Put, tests as doubles};

fn work(team: &str) -> Value {
    json!({"team": team, "task": "Dig."})
}

/// OR-53, OR-40
#[actix_web::test]
async fn a_task_for_a_child_carries_on_what_it_comes_from() {
    let bench = bench().await;

    let answer = bench
        .call(
            "main",
            "delegate_task",
            json!({
                "team": "scouts", "task": "Dig.", "priority": "high", "deadline": "10m",
                "subagent": "miner", "max_steps": 7,
            }),
        )
        .await;

    let task = bench.last();
    assert_eq!(
        answer,
        json!({
            "success": true, "task_id": task.id, "enqueued": true,
            "overlap_policy_applied": "confirm", "in_flight": [],
        })
    );
    let caller = bench.context("main").caller;
    assert_eq!(task.team(), TeamKey::first("scouts"));
    assert_eq!((task.kind, task.priority), (Kind::Delegate, Priority::High));
    assert_eq!(task.body, "Dig.");
    assert_eq!(task.from, "main");
    assert_eq!(task.reply_to, Some(caller.lane.clone()));
    assert_eq!(task.on_result, OnResult::Notify);
    assert_eq!(task.lineage, Some(caller.lineage.clone()));
    assert_eq!(task.cause, Some(caller.cause.clone()));
    assert_eq!(task.label, Label::Untrusted);
    assert_eq!(task.options.subagent.as_deref(), Some("miner"));
    assert_eq!(task.options.max_steps, Some(7));
    assert_eq!(task.deadline_at, bench.clock.now() + Duration::from_secs(600));
    let given = bench.work.given.lock().unwrap();
    assert_eq!(given[0].overlap, Some(Overlap::Confirm));
    let giver = given[0].giver.clone().unwrap();
    assert_eq!((giver.task, giver.step), ("task-caller".into(), 3));
}

/// OR-40, OR-82: a task never outlives the one it comes from.
#[actix_web::test]
async fn a_later_deadline_than_the_callers_does_not_count() {
    let bench = bench().await;
    let args = json!({"team": "scouts", "task": "Dig.", "deadline": "5h"});

    bench.call("main", "delegate_task", args).await;

    assert_eq!(bench.last().deadline_at, bench.context("main").caller.deadline_at);
    for deadline in ["tomorrow", "0s", "2001-01-01T00:00:00Z"] {
        let args = json!({"team": "scouts", "task": "Dig.", "deadline": deadline});
        let refused = bench.call("main", "delegate_task", args).await;
        assert_eq!(code(&refused), "invalid_input", "{deadline}");
    }
}

/// OR-66
#[actix_web::test]
async fn without_a_person_the_result_wakes_the_caller() {
    let bench = bench().await;
    let cx = || bench.context_of("main", None);

    bench.call_as(cx(), "delegate_task", work("scouts")).await;
    assert_eq!(bench.last().on_result, OnResult::Wake);
    let mut args = work("scouts");
    args["on_result"] = "silent".into();
    bench.call_as(cx(), "delegate_task", args).await;
    assert_eq!(bench.last().on_result, OnResult::Silent);
}

/// OR-65
#[actix_web::test]
async fn a_busy_team_is_left_or_asked_about_as_the_policy_says() {
    let bench = bench().await;
    let in_flight = vec![busy("scouts", Kind::Delegate)];
    let shown = json!([{
        "task_id": "task-busy", "type": "delegate", "state": "running", "age_ms": 700_000, "stale": true,
    }]);
    let says = |submission| *bench.work.says.lock().unwrap() = Some(Ok(submission));
    let ask = async |policy: &str| {
        let mut args = work("scouts");
        args["overlap_policy"] = policy.into();
        bench.call("main", "delegate_task", args).await
    };

    says(Submission::Skipped { in_flight: in_flight.clone() });
    assert_eq!(
        ask("skip").await,
        json!({"success": true, "enqueued": false, "overlap_policy_applied": "skip", "in_flight": shown})
    );
    says(Submission::NeedsConfirmation { in_flight: in_flight.clone(), reason: None });
    assert_eq!(
        ask("confirm").await,
        json!({
            "success": true, "enqueued": false, "overlap_policy_applied": "confirm",
            "requires_confirmation": true, "in_flight": shown,
        })
    );
    says(Submission::NeedsConfirmation {
        in_flight: in_flight.clone(),
        reason: Some("replace_targets_other_work"),
    });
    assert_eq!(ask("replace").await["reason"], "replace_targets_other_work");
    says(Submission::Enqueued { in_flight });
    let allowed = ask("allow").await;
    assert_eq!((&allowed["enqueued"], &allowed["in_flight"]), (&json!(true), &shown));
}

/// OR-42, OR-46, OR-86 to OR-88
#[actix_web::test]
async fn a_refusal_of_the_queue_has_its_code() {
    let bench = bench().await;
    let table = [
        (Refusal::QueueFull(10_000), "queue_full"),
        (Refusal::TeamDraining, "team_draining"),
        (Refusal::Runaway(Runaway::Hops(17)), "hop_limit"),
        (Refusal::Runaway(Runaway::Fanout("much".into())), "fanout_limit"),
        (Refusal::Runaway(Runaway::Loop("round".into())), "loop_detected"),
    ];

    for (refusal, expected) in table {
        *bench.work.says.lock().unwrap() = Some(Err(refusal));
        let answer = bench.call("main", "delegate_task", work("scouts")).await;
        assert_eq!(code(&answer), expected);
        assert!(answer["message"].as_str().unwrap().contains("`scouts`"));
    }
}

/// OR-37, OR-41, OR-53
#[actix_web::test]
async fn work_goes_to_a_child_that_is_there() {
    let bench = bench().await;
    let table = [
        ("main", work("guides"), "not_authorized"),
        ("scouts", work("smiths"), "not_authorized"),
        ("guides", work("guides"), "not_authorized"),
        ("main", work("nobody"), "not_found"),
        ("main", json!({"team": "scouts", "task": " "}), "invalid_input"),
        ("main", json!({"team": "scouts", "task": "x".repeat(100_001)}), "invalid_input"),
        ("main", json!({"team": "scouts", "task": "x", "max_steps": 501}), "invalid_input"),
        ("main", json!({"team": "scouts", "task": "x", "prority": "low"}), "invalid_input"),
    ];

    for (team, args, expected) in table {
        let answer = bench.call(team, "delegate_task", args).await;
        assert_eq!(code(&answer), expected, "{answer}");
    }
    let args = json!({"team": "scouts", "task": "x", "subagent": "cook"});
    let answer = bench.call("main", "delegate_task", args).await;
    assert_eq!(code(&answer), "unknown_subagent");
    assert_eq!(answer["known"], json!(["miner", "welder"]));
    assert_eq!(bench.given(), 0);
}

/// OR-42
#[actix_web::test]
async fn a_team_that_rests_takes_work_and_says_so() {
    let bench = bench().await;
    let paused = Pause { team: Some("scouts".into()), paused: true, now: false, by: operator() };
    bench.org.send(paused).await.unwrap().unwrap();
    bench.place.write(&bench.place.home.team_file("smiths"), "max_steps: many\n");

    let resting = bench.call("main", "delegate_task", work("scouts")).await;
    let broken = bench.call("main", "delegate_task", work("smiths")).await;

    assert_eq!(resting["enqueued"], true);
    assert!(resting["note"].as_str().unwrap().contains("paused"));
    assert!(broken["note"].as_str().unwrap().contains("degraded"));
}

/// OR-53, OR-39
#[actix_web::test]
async fn the_same_key_gives_the_first_task() {
    let bench = bench().await;
    let args = |task: &str| json!({"team": "scouts", "task": task, "idempotency_key": "k"});
    let first = bench.call("main", "delegate_task", args("Dig.")).await;

    let again = bench.call("main", "delegate_task", args("Dig.")).await;
    let other = bench.call("main", "delegate_task", args("Don't.")).await;

    assert_eq!(again["task_id"], first["task_id"]);
    assert_eq!((&again["duplicate"], &again["enqueued"]), (&json!(true), &json!(false)));
    assert_eq!(code(&other), "idempotency_conflict");
    assert_eq!(bench.given(), 1);
    bench.clock.advance(Duration::from_secs(24 * 60 * 60));
    let next_day = bench.call("main", "delegate_task", args("Don't.")).await;
    assert_eq!(next_day["enqueued"], true);
    let rerun = CallContext { rerun: true, ..bench.context("main") };
    let repeated = bench.call_as(rerun, "delegate_task", args("Don't.")).await;
    assert_eq!(repeated["task_id"], next_day["task_id"]);
    assert_eq!(bench.given(), 2);
}

/// OR-58, OR-70
#[actix_web::test]
async fn work_that_is_handed_up_keeps_its_parts_apart() {
    let bench = bench().await;

    let answer = bench
        .call(
            "scouts",
            "enqueue_parent_task",
            json!({
                "task": "Buy rope.", "priority": "low", "context": "Ours is torn.",
                "message_for_user": "We need rope.", "correlation_id": "rope",
            }),
        )
        .await;

    let task = bench.last();
    assert_eq!(answer, json!({"success": true, "task_id": task.id, "correlation_id": "rope"}));
    assert_eq!((task.kind, task.priority), (Kind::Handoff, Priority::Low));
    // The topic of the person, not of the team.
    assert_eq!(task.lane, Lane { team: "main".into(), topic: Some("t-1".into()) });
    for part in ["team scouts", "Task: Buy rope.", "Context: Ours is torn.", "told: We need rope."]
    {
        assert!(task.body.contains(part), "{}", task.body);
    }
    let stored = bench.storage.text();
    assert!(stored.contains("[scouts] We need rope."), "{stored}");
}

/// SC-39, PL-70: what a stranger wrote goes up to a team with secrets by an operator's word alone.
#[actix_web::test]
async fn an_untrusted_turn_asks_before_work_goes_up_to_a_team_with_secrets() {
    let vault = doubles::Bench::new();
    let (main, by) = (doubles::team("main"), doubles::operator());
    vault.vault.set(&main, "TOKEN", Put::secret("canary-value-1"), &by).await.unwrap();
    let bench = Bench { vault: vault.vault.clone(), ..bench().await };
    let asks = |team: &str, call: &ToolCall, label: Label| {
        let checked = bench.tools(team).check(call, &bench.context(team).caller, label).unwrap();
        matches!(checked.verdict, Verdict::Ask(_))
    };

    for (tool, args) in [
        ("enqueue_parent_task", json!({"task": "Buy rope."})),
        ("escalate", json!({"message": "No rope."})),
    ] {
        let call = call(tool, args);
        assert!(asks("scouts", &call, Label::Untrusted), "{tool}");
        assert!(!asks("scouts", &call, Label::Trusted), "{tool}");
        // Above these is a team without secrets.
        assert!(!asks("guides", &call, Label::Untrusted), "{tool}");
    }
    assert!(!asks("main", &call("escalate", json!({"message": "No rope."})), Label::Untrusted));
}

/// OR-58: counted in the store, so that a restart does not open the door.
#[actix_web::test]
async fn five_tasks_a_minute_go_up() {
    let bench = bench().await;
    let hand = async |id: &str| {
        let args = json!({"task": "Buy rope.", "correlation_id": id});
        bench.call("scouts", "enqueue_parent_task", args).await
    };

    for id in ["a", "b", "c", "d", "e"] {
        assert_eq!(hand(id).await["success"], true);
        bench.clock.advance(Duration::from_secs(1));
    }
    let refused = hand("f").await;
    assert_eq!(code(&refused), "rate_limited");
    assert_eq!(refused["retry_after_ms"], 55_000);
    bench.clock.advance(Duration::from_secs(56));
    assert_eq!(hand("f").await["success"], true);
    assert_eq!(code(&hand("b").await), "duplicate_correlation_id");
    bench.clock.advance(Duration::from_secs(300));
    assert_eq!(hand("b").await["success"], true);
    let refused = bench.call("main", "enqueue_parent_task", json!({"task": "Rest."})).await;
    assert_eq!(code(&refused), "no_parent");
}
