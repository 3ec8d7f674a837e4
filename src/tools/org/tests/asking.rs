//! Questions that are waited for.

use std::time::Duration;

use hivewright_actors::{
    org::{Degrade, record::TeamState},
    task::{OnResult, Priority},
};

use super::*;

fn question(team: &str) -> Value {
    json!({"team": team, "query": "How deep?", "timeout_ms": 50})
}

/// OR-54, OR-68
#[actix_web::test]
async fn an_answer_comes_back_to_whoever_asked() {
    let bench = bench().await;
    bench.ends("scouts", Ending::Done, "Six feet.");

    let answer = bench.call("main", "query_team", question("scouts")).await;

    let task = bench.last();
    assert_eq!(answer, json!({"success": true, "response": "Six feet.", "task_id": task.id}));
    assert_eq!((task.kind, task.priority), (Kind::Query, Priority::High));
    // Nobody but the caller hears of it.
    assert_eq!((task.reply_to, task.on_result), (None, OnResult::Silent));
    assert_eq!(*bench.work.cancelled.lock().unwrap(), [] as [TaskId; 0]);
}

/// OR-54
#[actix_web::test]
async fn a_question_without_an_answer_says_why() {
    let bench = bench().await;
    let table = [
        (Ending::Done, " ", "empty_response"),
        (Ending::Failed, "", "team_failed"),
        (Ending::Cancelled, "", "team_failed"),
        (Ending::Dead, "", "team_failed"),
        (Ending::Expired, "", "timeout"),
    ];

    for (ending, text, expected) in table {
        bench.ends("scouts", ending, text);
        let answer = bench.call("main", "query_team", question("scouts")).await;
        assert_eq!(code(&answer), expected);
        assert_eq!(answer["task_id"], json!(bench.last().id));
    }
    let foreign = bench.call("main", "query_team", question("guides")).await;
    assert_eq!(code(&foreign), "not_authorized");
    let long = json!({"team": "scouts", "query": "x", "timeout_ms": 600_001});
    assert_eq!(code(&bench.call("main", "query_team", long).await), "invalid_input");
}

/// OR-68: the question is withdrawn, and the caller learns what the team does.
#[actix_web::test]
async fn a_question_that_takes_too_long_is_withdrawn() {
    let bench = bench().await;
    bench.work.open.lock().unwrap().push(busy("scouts", Kind::Trigger));

    let answer = bench.call("main", "query_team", question("scouts")).await;

    assert_eq!(code(&answer), "timeout");
    assert!(answer["message"].as_str().unwrap().contains("delegate_task"));
    assert_eq!(answer["current_task"]["type"], "trigger");
    assert_eq!(*bench.work.cancelled.lock().unwrap(), [bench.last().id]);
}

/// OR-68: a turn that is stopped takes its question along.
#[actix_web::test]
async fn a_stopped_turn_withdraws_its_question() {
    let bench = bench().await;
    let cx = bench.context("main");
    let stop = cx.cancel.clone();
    let args = json!({"team": "scouts", "query": "How deep?"});
    let tools = bench.tools("main");
    let running = actix_web::rt::spawn(tools.run(call("query_team", args), cx));
    while bench.given() == 0 {
        tokio::task::yield_now().await;
    }

    stop.cancel();
    let reply = running.await.unwrap();

    assert_eq!(reply.fault, Some(hivewright_actors::tool::ToolFault::Cancelled));
    assert_eq!(*bench.work.cancelled.lock().unwrap(), [bench.last().id]);
}

/// OR-39: after a crash the same question is waited for, not asked again.
#[actix_web::test]
async fn a_question_that_was_asked_is_waited_for_after_a_restart() {
    let bench = bench().await;
    bench.ends("scouts", Ending::Done, "Six feet.");
    let first = bench.call("main", "query_team", question("scouts")).await;

    let rerun = CallContext { rerun: true, ..bench.context("main") };
    let again = bench.call_as(rerun, "query_team", question("scouts")).await;

    assert_eq!(again, first);
    assert_eq!(bench.given(), 1);
}

/// OR-55
#[actix_web::test]
async fn one_that_fails_leaves_the_others_alone() {
    let bench = bench().await;
    bench.ends("scouts", Ending::Done, "Six feet.");
    let ask = async |teams: &[&str]| {
        let args = json!({"teams": teams, "query": "How deep?", "timeout_ms": 50});
        bench.call("main", "query_teams", args).await
    };

    let answer = ask(&["smiths", "scouts"]).await;

    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0]["team"], "smiths");
    assert_eq!((&results[0]["ok"], &results[0]["error"]), (&json!(false), &json!("timeout")));
    assert_eq!((&results[1]["ok"], &results[1]["response"]), (&json!(true), &json!("Six feet.")));
    assert_eq!(bench.work.cancelled.lock().unwrap().len(), 1);

    bench.ends("smiths", Ending::Failed, "");
    bench.ends("scouts", Ending::Failed, "");
    let none = ask(&["smiths", "scouts"]).await;
    assert_eq!(code(&none), "team_failed");
    assert_eq!(none["results"].as_array().unwrap().len(), 2);
}

/// OR-55
#[actix_web::test]
async fn one_to_five_different_children_can_be_asked_at_once() {
    let bench = bench().await;
    let ask = async |teams: &[&str]| {
        let args = json!({"teams": teams, "query": "How deep?"});
        bench.call("main", "query_teams", args).await
    };

    assert_eq!(code(&ask(&[]).await), "invalid_input");
    assert_eq!(code(&ask(&["scouts", "scouts"]).await), "invalid_input");
    assert_eq!(code(&ask(&["a1", "a2", "a3", "a4", "a5", "a6"]).await), "fanout_limit");
    assert_eq!(code(&ask(&["scouts", "guides"]).await), "not_authorized");
    assert_eq!(bench.given(), 0);
    // The host gives it the time that it asks for, and some to say what happened.
    let args = json!({"team": "scouts", "query": "x", "timeout_ms": 600_000});
    let checked = bench.check("main", &call("query_team", args)).unwrap();
    assert_eq!(checked.limit, Duration::from_secs(600));
    let args = json!({"teams": ["scouts"], "query": "x"});
    let checked = bench.check("main", &call("query_teams", args)).unwrap();
    assert_eq!(checked.limit, Duration::from_secs(35));
}

/// MV-13: an answer is believed as far as the turn that gave it, also where it is listed later.
#[actix_web::test]
async fn whoever_reads_an_untrusted_answer_is_not_believed_any_more() {
    let bench = bench().await;
    bench.ends("scouts", Ending::Done, "Six feet.");
    bench.ends("smiths", Ending::Failed, "");
    let calls = [
        ("query_team", question("scouts")),
        ("query_team", question("smiths")),
        ("query_teams", json!({"teams": ["scouts"], "query": "How deep?"})),
        ("list_completed_tasks", json!({"team": "scouts"})),
    ];

    for label in [Label::Trusted, Label::Untrusted] {
        *bench.work.label.lock().unwrap() = label;
        for (tool, args) in &calls {
            let tools = bench.tools("main");
            let reply = tools.run(call(tool, args.clone()), bench.context("main")).await;

            let taints = label == Label::Untrusted;
            assert_eq!(reply.taints, taints, "{tool} {args}: {reply:?}");
        }
    }
}

fn deadly(team: &str) -> Degrade {
    Degrade { team: team.into(), deaths: 5, within: Duration::from_secs(600) }
}

/// OR-24, OR-42: a team that keeps dying rests for minutes; whoever asks it is told at once.
#[actix_web::test]
async fn a_question_to_a_team_that_keeps_dying_fails_at_once() {
    let bench = bench().await;
    let args = json!({"team": "scouts", "query": "How deep?", "timeout_ms": 600_000});
    let tools = bench.tools("main");
    let cx = bench.context("main");
    let asked = actix_web::rt::spawn(tools.run(call("query_team", args.clone()), cx));
    while bench.given() == 0 {
        tokio::task::yield_now().await;
    }
    let deadline = Duration::from_secs(60);

    bench.org.send(deadly("scouts")).await.unwrap();
    let under_way = tokio::time::timeout(deadline, asked).await.unwrap().unwrap();
    let later = tokio::time::timeout(deadline, bench.call("main", "query_team", args)).await;

    assert_eq!(*bench.work.cancelled.lock().unwrap(), [bench.last().id]);
    assert!(under_way.content.contains("team_failed"), "{}", under_way.content);
    assert!(under_way.content.contains("degraded"), "{}", under_way.content);
    let later = later.unwrap();
    assert_eq!(code(&later), "team_failed");
    assert!(later["message"].as_str().unwrap().contains("degraded"));
    // The second was never asked.
    assert_eq!(bench.given(), 1);
    let state = bench.view.now().get("scouts").unwrap().state;
    assert_eq!(state, TeamState::Degraded);
    let both = json!({"teams": ["scouts", "smiths"], "query": "How deep?"});
    bench.ends("smiths", Ending::Done, "Six feet.");
    let both = bench.call("main", "query_teams", both).await;
    assert_eq!(both["results"][0]["error"], "team_failed");
    assert_eq!(both["results"][1]["ok"], true);
}
