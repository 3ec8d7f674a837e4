//! Words for neighbours, and problems that go up.

use hivewright_actors::{
    channel::records as outboxes,
    doubles::disk,
    inbox,
    notice::NoticeKind,
    task::{OnResult, Priority, records::FinishedTask},
};

use super::*;

/// OR-56, OR-69
#[actix_web::test]
async fn a_message_wakes_a_neighbour() {
    let bench = bench().await;
    let say = async |from: &str, target: &str| {
        let args = json!({"target": target, "message": "Rain.", "in_reply_to": "m-7"});
        bench.call(from, "send_message", args).await
    };

    let answer = say("guides", "scouts").await;

    let task = bench.last();
    assert_eq!(answer["task_id"], json!(task.id));
    assert!(answer["message_id"].as_str().unwrap().starts_with("m-"));
    assert_eq!((task.kind, task.on_result, task.reply_to), (Kind::Message, OnResult::Silent, None));
    assert!(task.body.contains("from team guides, in reply to m-7:\n\nRain."), "{}", task.body);
    assert_eq!(say("smiths", "scouts").await["success"], true);
    assert_eq!(say("scouts", "main").await["success"], true);
    assert_eq!(bench.last().lane.topic, Some("t-1".into()));
    assert_eq!(code(&say("guides", "main").await), "not_authorized");
    assert_eq!(code(&say("guides", "guides").await), "not_authorized");
    assert_eq!(code(&say("guides", "nobody").await), "not_found");
}

/// OR-56, OR-67
#[actix_web::test]
async fn a_quiet_message_waits_in_the_inbox() {
    let bench = bench().await;
    let args = json!({"target": "scouts", "message": "Rain.", "wake": false});

    let answer = bench.call("main", "send_message", args.clone()).await;

    assert_eq!(answer.get("task_id"), None);
    assert_eq!(bench.given(), 0);
    let lane = Lane { team: "scouts".into(), topic: None };
    assert_eq!(*bench.work.told.lock().unwrap(), std::slice::from_ref(&lane));
    let inbox = bench.store.read(move |storage| inbox::waiting(storage, &lane, 1)).await.unwrap();
    assert_eq!(inbox.len(), 1);
    assert!(inbox[0].1.text.ends_with("Rain."));
    assert_eq!(inbox[0].1.label, Label::Untrusted);
    // OR-39
    let rerun = CallContext { rerun: true, ..bench.context("main") };
    assert_eq!(bench.call_as(rerun, "send_message", args).await, answer);
}

/// OR-57, OR-69
#[actix_web::test]
async fn a_problem_goes_to_the_parent_whose_answer_comes_back() {
    let bench = bench().await;
    let escalate = async |id: Value| {
        let args = json!({"message": "The rope broke.", "reason": "I have no money.", "correlation_id": id});
        bench.call("scouts", "escalate", args).await
    };

    let answer = escalate(Value::Null).await;

    let id = answer["correlation_id"].clone();
    assert_eq!(answer["delivered_to"], "main");
    assert_eq!(answer["state"], "open");
    let mut task = bench.last();
    assert_eq!((task.kind, task.priority), (Kind::Escalation, Priority::High));
    assert_eq!(
        (task.on_result, task.reply_to.clone()),
        (OnResult::Wake, Some(Lane { team: "scouts".into(), topic: None }))
    );
    for part in [id.as_str().unwrap(), "team scouts", "Reason: I have no money.", "The rope broke."]
    {
        assert!(task.body.contains(part), "{}", task.body);
    }

    // What became of it is known when it comes up again.
    assert_eq!(escalate(id.clone()).await["earlier"]["state"], "open");
    for (ending, expected) in
        [(Ending::Done, "answered"), (Ending::Cancelled, "closed"), (Ending::Expired, "expired")]
    {
        task = bench.last();
        bench.ends("main", ending, "");
        task.outcome = bench.work.ends.lock().unwrap().get("main").cloned();
        bench.store.commit(Writes::new().put(&FinishedTask::of(&task))).await.unwrap();
        assert_eq!(escalate(id.clone()).await["earlier"]["state"], expected);
    }
}

/// OR-69
#[actix_web::test]
async fn from_the_main_team_it_goes_to_the_operator_and_the_person() {
    let bench = bench().await;

    let answer = bench.call("main", "escalate", json!({"message": "We are lost."})).await;

    assert_eq!(answer["delivered_to"], "operator");
    assert_eq!(bench.given(), 0);
    let notices = bench.store.read(disk::notices).await.unwrap();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].kind, NoticeKind::Escalation);
    assert_eq!(notices[0].text, "We are lost.");
    let frames =
        bench.store.read(|storage| outboxes::outbox(storage, &"ws:1".into())).await.unwrap();
    assert_eq!(frames.len(), 1);
}

/// OR-41
#[actix_web::test]
async fn texts_have_their_limits() {
    let bench = bench().await;
    let table = [
        ("escalate", json!({"message": ""})),
        ("escalate", json!({"message": "x", "reason": "r".repeat(2_001)})),
        ("escalate", json!({"message": "x".repeat(100_001)})),
        ("send_message", json!({"target": "scouts", "message": "\n"})),
        ("enqueue_parent_task", json!({"task": ""})),
        ("query_team", json!({"team": "scouts", "query": ""})),
    ];

    for (tool, args) in table {
        let answer = bench.call("scouts", tool, args).await;
        assert_eq!(code(&answer), "invalid_input", "{tool}: {answer}");
    }
}

/// OR-88: what makes each task new is no part of its words.
#[actix_web::test]
async fn the_same_words_are_the_same_to_the_queue() {
    let bench = bench().await;
    for (tool, args) in [
        ("send_message", json!({"target": "main", "message": "Rain."})),
        ("escalate", json!({"message": "Rain."})),
        ("enqueue_parent_task", json!({"task": "Rain."})),
    ] {
        bench.work.given.lock().unwrap().clear();
        for key in ["one", "two"] {
            let cx = CallContext { key: format!("{tool}-{key}"), ..bench.context("scouts") };
            bench.call_as(cx, tool, args.clone()).await;
        }

        let given = bench.work.given.lock().unwrap();
        let words: Vec<_> = given
            .iter()
            .filter_map(|given| given.giver.as_ref())
            .map(|giver| giver.words.as_str())
            .collect();
        assert_eq!(words, ["Rain.", "Rain."], "{tool}");
    }
}

fn tree_says(bench: &Bench, team: &str, state: TeamState) -> bool {
    let tree = bench.view.now();
    tree.get(team).is_some_and(|team| team.state == state)
}

/// OR-42: also words that start no work say what becomes of them.
#[actix_web::test]
async fn a_quiet_message_says_that_its_team_rests_or_goes() {
    let bench = bench().await;
    let quietly = async |key: &str| {
        let args = json!({"target": "guides", "message": "Rain.", "wake": false});
        let cx = CallContext { key: key.to_owned(), ..bench.context("scouts") };
        bench.call_as(cx, "send_message", args).await
    };
    let escalated = async |key: &str| {
        let cx = CallContext { key: key.to_owned(), ..bench.context("guides") };
        bench.call_as(cx, "escalate", json!({"message": "Lost."})).await
    };
    assert_eq!(quietly("1").await.get("note"), None);
    assert_eq!(escalated("2").await.get("note"), None);

    let org = bench.org.clone();
    for name in ["guides", "scouts"] {
        let pause =
            org::Pause { team: Some(name.into()), paused: true, now: false, by: operator() };
        org.send(pause).await.unwrap().unwrap();
    }
    let rests = "is paused";
    assert!(quietly("3").await["note"].as_str().unwrap().contains(rests));
    assert!(escalated("4").await["note"].as_str().unwrap().contains(rests));

    let told = bench.work.told.lock().unwrap().len();
    *bench.work.endless.lock().unwrap() = true;
    let shutdown = org::Shutdown {
        name: "guides".into(),
        cascade: false,
        by: org::tree::By::Operator("operator".to_owned()),
        call: None,
    };
    let shutting = actix::spawn(org.send(shutdown));
    while !tree_says(&bench, "guides", TeamState::Draining) {
        assert!(!shutting.is_finished());
        tokio::task::yield_now().await;
    }
    assert_eq!(code(&quietly("5").await), "team_draining");
    assert_eq!(bench.work.told.lock().unwrap().len(), told);
}
