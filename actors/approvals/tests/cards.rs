//! What is shown in a conversation.

use std::time::Duration;

use serde_json::json;

use super::bench::{Bench, TTL, args, chosen, permits, question, word};
use crate::{
    approvals::{
        Decide, Disbanded, Reply, ShowIn,
        question::{AnswerKind, Question},
        record::{Approval, Choice, Decider},
    },
    channel::records as outboxes,
    ids::ChannelId,
    policy::caution::Kind,
    store::records::Writes,
    tool::Asking,
};

/// PL-85: the card shows tool, arguments, short id and the beginning of the digest.
#[actix::test]
async fn the_card_stands_in_the_conversation_that_the_work_comes_from() {
    let bench = Bench::new();
    let process = bench.start();
    let asking = Asking { summary: "It deletes files.".to_owned(), ..Asking::default() };
    let approval = process.open_with(&bench, asking).await;

    let frames = outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap();
    let card = serde_json::to_value(&frames[0].frame).unwrap();

    assert_eq!(frames.len(), 1);
    assert_eq!(card["topic"]["id"], "t-1");
    let body = &card["body"];
    assert_eq!(body["type"], "notification");
    assert_eq!(body["kind"], "approval");
    assert_eq!(body["status"], "pending");
    assert_eq!(body["ref_id"], approval.id.as_str());
    let digest = &approval.digest[..8];
    let name = &approval.short_id;
    assert_eq!(
        body["content"],
        format!(
            "[main] wants to use bash. It deletes files.\n\
             Arguments: {}\n\
             Digest {digest}. Decide with /approve {name} or /deny {name} <why>.",
            args()
        )
    );
}

/// PL-85: operators see what waits, and what became of it, wherever the work comes from; whoever decides there hears it as
/// the answer to their word.
#[actix::test]
async fn what_waits_is_also_shown_where_operators_are() {
    let bench = Bench::new();
    let process = bench.start();
    let [quiet, desk]: [ChannelId; 2] = ["17".into(), "18".into()];
    process.approvals.send(ShowIn(vec![quiet.clone(), desk.clone()])).await.unwrap();
    let approval = process.open(&bench).await;

    let word = word(&approval, Choice::Deny, "bob");
    let decide = Decide { word, channel: Some(desk.clone()) };
    process.approvals.send(decide).await.unwrap().unwrap();

    let shown = |channel: &ChannelId| {
        let frames = outboxes::outbox(&*process.storage, channel).unwrap().into_iter();
        let told = frames.map(|row| {
            let frame = serde_json::to_value(&row.frame).unwrap();
            (frame["topic"]["id"].clone(), frame["body"]["status"].clone())
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(shown(&quiet), [(json!(null), json!("pending")), (json!(null), json!("denied"))]);
    assert_eq!(shown(&desk), [(json!(null), json!("pending"))]);
    assert_eq!(
        shown(&"ws:1".into()),
        [(json!("t-1"), json!("pending")), (json!("t-1"), json!("denied"))]
    );
}

/// What must not be shown is not stored either, and the digest still binds what runs.
#[actix::test]
async fn arguments_are_stored_as_they_may_be_shown() {
    let bench = Bench::new();
    let process = bench.start();
    let asking = Asking { shown: Some(json!({"command": "[hidden]"})), ..Asking::default() };
    let approval = process.open_with(&bench, asking).await;

    let approved = process.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();

    assert_eq!(approved.arguments, json!({"command": "[hidden]"}));
    assert_eq!(permits(&approved), Ok(()));
}

/// Whoever saw the card hears what became of it, unless they decided there themselves.
#[actix::test]
async fn a_decision_elsewhere_is_told_where_the_card_was() {
    let bench = Bench::new();
    let process = bench.start();
    let here = process.open(&bench).await;
    let decide = |approval: &Approval, channel: Option<&str>| Decide {
        word: word(approval, Choice::Approve, "bob"),
        channel: channel.map(Into::into),
    };
    let frames = || outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap().len();

    process.approvals.send(decide(&here, Some("ws:1"))).await.unwrap().unwrap();
    let after_here = frames();
    let there = process.open(&bench).await;
    process.approvals.send(decide(&there, None)).await.unwrap().unwrap();

    assert_eq!((after_here, frames()), (1, 3));
    let told = outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap().into_iter();
    let by = told.map(|row| serde_json::to_value(&row.frame).unwrap()["body"]["by"].clone());
    assert_eq!(by.collect::<Vec<_>>(), [json!(null), json!(null), json!("bob")]);
}

/// Whoever saw a question hears that it waits no more, unless they answered it there themselves.
#[actix::test]
async fn the_end_of_a_question_is_told_where_it_was_shown() {
    let bench = Bench::new();
    let process = bench.start();
    let expires_at = bench.clock.now() + TTL;
    let [here, there, nowhere] = ["qst-1", "qst-2", "qst-3"].map(|id| Question {
        id: id.into(),
        expires_at,
        ..question(&bench, AnswerKind::Text)
    });
    let left = Question { id: "qst-4".into(), ..question(&bench, AnswerKind::Text) };
    for asked in [&here, &there, &nowhere, &left] {
        process.ask(asked).await;
    }
    let in_chat = Reply {
        question: here.id.clone(),
        answer: chosen("red"),
        by: Decider::new("ann"),
        channel: Some("ws:1".into()),
    };

    process.approvals.send(in_chat).await.unwrap().unwrap();
    process.reply(&there, chosen("blue")).await.unwrap();
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    process.approvals.send(Disbanded { team: left.team.clone() }).await.unwrap();
    process.store.commit(Writes::new()).await.unwrap();

    let told = outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap().into_iter().skip(4);
    let told = told.map(|row| {
        let frame = serde_json::to_value(&row.frame).unwrap();
        let [topic, body] = [&frame["topic"]["id"], &frame["body"]];
        json!([topic, body["ref_id"], body["status"], body["by"], body["content"]])
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            json!([
                "t-1",
                "qst-2",
                "answered",
                "operator",
                "[main] Answered by operator: Which colour? (qst-2)."
            ]),
            json!([
                "t-1",
                "qst-3",
                "expired",
                null,
                "[main] Expired without an answer: Which colour? (qst-3)."
            ]),
            json!(["t-1", "qst-4", "cancelled", null, "[main] Cancelled: Which colour? (qst-4)."]),
        ]
    );
}

/// PL-81: an approval is about what the call is about.
#[actix::test]
async fn a_request_has_the_kind_that_the_call_asks_for() {
    let bench = Bench::new();
    let process = bench.start();
    let kind = |name: &str| {
        let asking = Asking { kind: name.to_owned(), ..Asking::default() };
        process.request(bench.clock.now(), &asking).kind
    };

    for wanted in Kind::ALL {
        assert_eq!(kind(wanted.as_str()), *wanted);
    }
    assert_eq!(kind("unheard of"), Kind::Tool);
}

/// PL-85, CH-60: what is too long for a card is cut, and the card says where all of it is.
#[actix::test]
async fn a_card_that_is_cut_says_where_the_rest_is() {
    let bench = Bench::new();
    let process = bench.start();
    let asking = Asking { diff: Some("- a line\n".repeat(10_000)), ..Asking::default() };
    let approval = process.open_with(&bench, asking).await;

    let frames = outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap();
    let card = serde_json::to_value(&frames[0].frame).unwrap();

    let content = card["body"]["content"].as_str().unwrap();
    let rest = format!("`hivewright approvals show {}`", approval.short_id);
    assert!(content.contains(&rest), "{content}");
    let name = &approval.short_id;
    assert!(content.contains(&format!("/approve {name}")), "{content}");
}
