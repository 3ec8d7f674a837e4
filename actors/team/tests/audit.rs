//! The audit of tool calls.

use std::time::Duration;

use crate::{
    approvals::{
        Decide, List,
        record::{Choice, Decider, Resolution, Word},
    },
    audit::{Audit, Decision},
    doubles::{
        disk::MemoryStorage,
        engine::{Play, last_words},
        world::World,
    },
    store::reads::{Range, scan},
};

fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("work", 1) => vec![Play::Call(vec![("c1", "look"), ("c2", "unknown")])],
        ("pay", 1) => vec![Play::Call(vec![("c1", "held-pay")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    })
}

fn rows(storage: &MemoryStorage) -> Vec<Audit> {
    let mut rows = scan::<Audit>(storage, Range::all()).unwrap();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows
}

/// TO-17, SC-30: a call and a refusal are a row each, in the commit that journals their result.
#[actix::test]
async fn every_call_and_every_refusal_is_a_row_beside_its_result() {
    let world = world();
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);

    client.say("m1", "work");
    client.hear_end_of("m1").await;

    let calls: Vec<_> = rows(&storage)
        .into_iter()
        .map(|row| {
            assert_eq!((&*row.action, row.actor.as_str()), ("tool.call", "team:main"));
            let outcome = row.outcome.clone();
            let call = *row.call.unwrap();
            assert_eq!((call.team.as_str(), &call.tool), ("main", &row.target));
            (call.tool, call.decision, call.rule, call.ok, outcome, call.result)
        })
        .collect();
    let of = |tool: &str, decision, rule: Option<&str>, ok, outcome: &str, result: &str| {
        let rule = rule.map(str::to_owned);
        (tool.to_owned(), decision, rule, ok, outcome.to_owned(), result.to_owned())
    };
    assert_eq!(
        calls,
        [
            of("look", Decision::Allow, None, true, "ok", "c1 did"),
            of(
                "unknown",
                Decision::Refuse,
                Some("not_available"),
                false,
                "not_available",
                "no such tool"
            ),
        ]
    );
    let with = |kind: &str| {
        let batches = storage.batches().into_iter();
        let holds = batches.map(|batch| {
            let mut keys = batch.changes.into_iter().map(|(key, _)| key);
            keys.any(|key| key.starts_with(kind.as_bytes()))
        });
        holds.filter(|holds| *holds).count()
    };
    // One with the refusal, one with the result.
    assert_eq!(with("audit\0"), 2);
    let journalled = storage.batches().into_iter().filter(|batch| {
        let mut keys = batch.changes.iter().map(|(key, _)| key);
        keys.any(|key| key.starts_with(b"audit\0"))
    });
    for batch in journalled {
        let mut keys = batch.changes.iter().map(|(key, _)| key);
        assert!(keys.any(|key| key.starts_with(b"hist\0")));
    }
}

/// TO-17: what needs no tool costs nothing more.
#[actix::test]
async fn a_plain_answer_writes_no_row_of_the_audit() {
    let world = world();
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);

    client.say("m1", "hello");
    client.hear_end_of("m1").await;

    assert_eq!(rows(&storage), []);
    assert!(storage.commits() <= 3, "{}", storage.commits());
}

/// TO-17, SC-30: what a person decided is part of it.
#[actix::test]
async fn a_call_that_was_decided_on_says_so() {
    for (choice, decision, ok) in [
        (Choice::Approve, Decision::Approve, true),
        (Choice::Deny, Decision::ApprovalDenied, false),
    ] {
        let world = world();
        let storage = world.disk.mount(None);
        let spine = world.start_on(storage.clone());
        let client = world.connect(&spine);
        client.say("m1", "pay");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let held = spine.approvals.send(List).await.unwrap().0;

        let word = Word {
            which: held[0].id.to_string(),
            choice,
            resolution: Resolution::Once,
            digest: Some(held[0].digest.clone()),
            note: None,
            confirm: None,
            by: Decider::new("bob"),
            via: "api".to_owned(),
        };
        let channel = None;
        let decided = spine.approvals.send(Decide { word, channel }).await;
        decided.unwrap().unwrap();
        client.hear_end_of("m1").await;

        let rows = rows(&storage);
        let call = rows.iter().find_map(|row| row.call.as_ref()).unwrap();
        assert_eq!((call.decision, call.ok), (decision, ok));
    }
}
