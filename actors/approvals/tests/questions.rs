//! Questions and their answers.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::future::join;
use serde_json::{Value, json};

use super::bench::{Bench, chosen, question, words};
use crate::{
    approvals::{
        Disbanded, List, Reply,
        question::{Answer, AnswerKind, DEFAULT_TTL, Question, QuestionStatus, Unfit},
        record::{Decider, Status},
        refusal::NotAnswered,
    },
    channel::records as outboxes,
    queue::refusal::Refusal,
    store::reads::get,
    task::{Kind, Label},
};

/// PL-88: the first answer wins; it is stored with the task that brings it to the lane that asked.
#[actix::test]
async fn an_answer_becomes_a_task_of_the_lane_that_asked() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;

    let answered = process.reply(&asked, chosen("blue")).await.unwrap();
    let second = process.reply(&asked, chosen("red")).await;

    let row = get::<Question>(&*process.storage, &asked.id).unwrap().unwrap();
    assert_eq!(row, answered);
    assert_eq!(second, Err(NotAnswered::AlreadyAnswered(Box::new(row))));
    let tasks = bench.enqueued.lock().unwrap().clone();
    let [task] = &tasks[..] else { unreachable!("one answer, one task") };
    assert_eq!((task.kind, &task.lane, task.label), (Kind::Result, &asked.lane, Label::Untrusted));
    assert_eq!(task.source.as_ref().unwrap().message, None);
    assert_eq!(
        serde_json::from_str::<Value>(&task.body).unwrap(),
        json!({
            "event": "operator_answered",
            "question_id": "qst-1",
            "question": "Which colour?",
            "by": "operator",
            "selected": ["blue"],
            "text": "",
        })
    );
    assert_eq!(bench.disk.keys("qst-open"), Vec::<String>::new());
}

/// PL-88, OP-38
#[actix::test]
async fn an_answer_that_does_not_fit_is_refused_and_the_question_stays() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    let both = Answer { selected: vec!["red".to_owned(), "blue".to_owned()], text: String::new() };

    let unknown = process.reply(&asked, chosen("green")).await;
    let several = process.reply(&asked, both).await;
    let nothing = process.reply(&asked, words(" ")).await;
    let free = process.reply(&asked, words("green, please")).await;

    let field = |refused: Result<Question, NotAnswered>| match refused {
        Err(NotAnswered::Unfit(Unfit { field, .. })) => field,
        other => unreachable!("{other:?}"),
    };
    assert_eq!([unknown, several, nothing].map(field), ["selected", "selected", "text"]);
    assert_eq!(free.unwrap().answer, Some(words("green, please")));
}

/// PL-87, PL-88: a secret goes into the vault and nowhere else.
#[actix::test]
async fn a_secret_answer_leaves_only_its_reference() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    let (first, second) = join(
        process.reply(&asked, words("hunter2-canary")),
        process.reply(&asked, words("other-canary")),
    )
    .await;

    assert_eq!(second, Err(NotAnswered::Busy));
    assert_eq!(first.unwrap().answer, None);
    assert_eq!(
        *bench.vault.kept.lock().unwrap(),
        [("main~1/API_KEY".to_owned(), "hunter2-canary".to_owned())]
    );
    // MV-65
    assert_eq!(bench.vault.by.lock().unwrap().len(), 1);
    let batches = process.storage.batches();
    let values =
        batches.iter().flat_map(|batch| &batch.changes).filter_map(|(_, value)| value.as_ref());
    for value in values {
        let text = String::from_utf8_lossy(value);
        assert!(!text.contains("canary"), "{text}");
    }
    let tasks = bench.enqueued.lock().unwrap();
    assert!(tasks[0].body.contains("${vault:API_KEY}"), "{}", tasks[0].body);
}

/// PL-88: never for `secret` in a chat.
#[actix::test]
async fn a_secret_is_not_taken_from_a_conversation() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    let reply = Reply {
        question: asked.id.clone(),
        answer: words("hunter2"),
        by: Decider::new("operator"),
        channel: Some("ws:1".into()),
    };
    let refused = process.approvals.send(reply).await.unwrap();

    assert_eq!(refused, Err(NotAnswered::SecretInChat));
    assert_eq!(*bench.vault.kept.lock().unwrap(), []);
}

#[actix::test]
async fn a_vault_that_refuses_leaves_the_question_open() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Secret);
    process.ask(&asked).await;

    bench.vault.locked.store(true, Ordering::Relaxed);
    let refused = process.reply(&asked, words("hunter2")).await;
    bench.vault.locked.store(false, Ordering::Relaxed);
    let taken = process.reply(&asked, words("hunter2")).await;

    assert_eq!(refused, Err(NotAnswered::Vault("the vault is locked".to_owned())));
    assert_eq!(taken.unwrap().status, QuestionStatus::Answered);
}

/// PL-88: expiry delivers the same with `expired:true`.
#[actix::test]
async fn a_question_that_nobody_answers_tells_its_lane_so() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    bench.full.store(true, Ordering::Relaxed);

    tokio::time::sleep(DEFAULT_TTL + Duration::from_secs(1)).await;
    let while_full = bench.enqueued.lock().unwrap().len();
    bench.full.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let late = process.reply(&asked, chosen("red")).await;

    let tasks = bench.enqueued.lock().unwrap();
    let body: Value = serde_json::from_str(&tasks[0].body).unwrap();
    assert_eq!((while_full, tasks.len()), (0, 1));
    assert_eq!(body["expired"], true);
    assert_eq!(late, Err(NotAnswered::Expired));
}

#[actix::test]
async fn an_answer_that_finds_no_room_can_be_given_again() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;

    bench.full.store(true, Ordering::Relaxed);
    let refused = process.reply(&asked, chosen("red")).await;
    bench.full.store(false, Ordering::Relaxed);
    let taken = process.reply(&asked, chosen("blue")).await;

    assert_eq!(refused, Err(NotAnswered::Refused(Refusal::QueueFull(1))));
    assert_eq!(taken.unwrap().answer, Some(chosen("blue")));
}

/// PL-88: team shutdown cancels.
#[actix::test]
async fn nobody_answers_a_team_that_is_gone() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);
    process.ask(&asked).await;
    let approval = process.open(&bench).await;

    process.approvals.send(Disbanded { team: asked.team.clone() }).await.unwrap();
    let late = process.reply(&asked, chosen("red")).await;

    assert_eq!(late, Err(NotAnswered::Cancelled));
    assert_eq!(bench.row(&process, &approval).status, Status::Cancelled);
    assert_eq!(process.approvals.send(List).await.unwrap().1, []);
}

/// TO-05: a call that is made again after a crash asks nothing new.
#[actix::test]
async fn the_same_question_is_asked_once() {
    let bench = Bench::new();
    let process = bench.start();
    let asked = question(&bench, AnswerKind::Text);

    process.ask(&asked).await;
    process.ask(&asked).await;
    let later = bench.start();
    later.ask(&asked).await;

    assert_eq!(later.approvals.send(List).await.unwrap().1, [asked]);
    assert_eq!(outboxes::outbox(&*later.storage, &"ws:1".into()).unwrap().len(), 1);
}
