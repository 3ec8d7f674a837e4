//! Calls that a person decides on, from the model's request to its effect.

use std::time::Duration;

use crate::{
    approvals::{
        Decide, List,
        record::{Approval, Choice, Decider, Execution, Status, Word},
        records,
        refusal::NotDecided,
    },
    audit::Audit,
    channel_type::ChannelType,
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words},
        world::World,
    },
    engine::Message,
    router::sender::Sender,
    spine::Spine,
    storage::Storage,
    store::reads::{Range, get, scan},
    task::Task,
};

/// Whoever says `pay` wants something that a person decides on.
fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("pay", 1) => vec![
            Play::Say("I pay."),
            Play::EndText,
            Play::Call(vec![("c1", "look"), ("c2", "held-pay")]),
        ],
        ("pay twice", 1) => vec![Play::Call(vec![("c1", "held-pay"), ("c2", "held-save")])],
        _ => vec![Play::Say("All done."), Play::Answer],
    })
}

/// Lets everything happen that still can.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

fn approver(world: &World, spine: &Spine, name: &str) -> Client {
    let sender = Sender { may_approve: true, ..Sender::of(&name.into(), ChannelType::Ws) };
    world.connect_by(sender, spine)
}

/// What waits, once something does.
async fn waiting(spine: &Spine) -> Vec<Approval> {
    settle().await;
    spine.approvals.send(List).await.unwrap().0
}

async fn decide(
    spine: &Spine,
    approval: &Approval,
    choice: Choice,
    note: Option<&str>,
) -> Result<Approval, NotDecided> {
    let word = Word {
        which: approval.id.to_string(),
        choice,
        resolution: crate::approvals::record::Resolution::Once,
        digest: Some(approval.digest.clone()),
        note: note.map(str::to_owned),
        confirm: None,
        by: Decider::new("bob"),
        via: "api".to_owned(),
    };
    let channel = None;
    spine.approvals.send(Decide { word, channel }).await.unwrap()
}

fn row(storage: &dyn Storage, approval: &Approval) -> Approval {
    get::<Approval>(storage, &approval.id).unwrap().unwrap()
}

/// What the model last read as the result of a call.
fn last_result(world: &World) -> String {
    let asked = world.asked.lock().unwrap();
    let last = asked.last().unwrap().last().unwrap();
    match last {
        Message::ToolResults(results) => results.last().unwrap().content.clone(),
        other => unreachable!("{other:?}"),
    }
}

/// PL-76, PL-79
#[actix::test]
async fn an_approved_call_runs_in_place_and_the_turn_goes_on() {
    let world = world();
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);

    client.say("m1", "pay");
    let held = waiting(&spine).await;
    let before = world.runs();
    decide(&spine, &held[0], Choice::Approve, None).await.unwrap();
    let heard = client.hear_end_of("m1").await;

    assert_eq!(held.len(), 1);
    assert_eq!(
        (before, world.runs()),
        (vec!["c1".to_owned()], vec!["c1".to_owned(), "c2".to_owned()])
    );
    assert_eq!(heard.last().unwrap(), "done m1: All done.");
    assert_eq!(last_result(&world), "c2 did");
    assert_eq!(row(&*storage, &held[0]).execution, Execution::Done);
}

/// PL-76: each call is decided on its own.
#[actix::test]
async fn of_two_held_calls_each_gets_its_own_decision() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "pay twice");
    let held = waiting(&spine).await;
    let of = |tool: &str| {
        let found = held.iter().find(|held| held.tool.as_deref() == Some(tool));
        found.unwrap().clone()
    };

    decide(&spine, &of("held-save"), Choice::Approve, None).await.unwrap();
    let left = waiting(&spine).await;
    let early = world.runs();
    decide(&spine, &of("held-pay"), Choice::Deny, None).await.unwrap();
    client.hear_end_of("m1").await;

    assert_eq!(left.len(), 1);
    assert_eq!(early, ["c2"], "what was approved does not wait for the other");
    assert_eq!(world.runs(), ["c2"]);
}

/// PL-76, SC-08: a restart loses nothing that waits.
#[actix::test]
async fn what_waits_is_decided_after_a_restart() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "pay");
    settle().await;

    let spine = world.start();
    let held = waiting(&spine).await;
    let next = world.connect(&spine);
    next.resume(&client.channel, 0);
    next.item().await;
    decide(&spine, &held[0], Choice::Approve, None).await.unwrap();
    let heard = next.hear_end_of("m1").await;

    assert_eq!(world.runs(), ["c1", "c2"]);
    assert_eq!(heard.last().unwrap(), "done m1: All done.");
}

/// PL-95: a process that dies at any commit of ask, decide or execute: an approved effect happens at
/// most once, and only once it was approved; nothing that waits is lost.
#[actix::test]
async fn a_crash_at_any_commit_runs_an_approved_call_at_most_once() {
    let commits = {
        let world = world();
        let storage = world.disk.mount(None);
        let spine = world.start_on(storage.clone());
        let client = world.connect(&spine);
        client.say("m1", "pay");
        let held = waiting(&spine).await;
        decide(&spine, &held[0], Choice::Approve, None).await.unwrap();
        client.hear_end_of("m1").await;
        settle().await;
        storage.commits()
    };
    assert!(commits > 8, "{commits}");
    for cut in (1..commits).flat_map(|n| [Crash::Before(n), Crash::After(n)]) {
        let world = world();
        let spine = world.start_doomed(cut);
        let client = world.connect(&spine);
        client.say("m1", "pay");
        let mut approved = false;
        if let [held] = &waiting(&spine).await[..] {
            let word = decide(&spine, held, Choice::Approve, None);
            let word = tokio::time::timeout(Duration::from_secs(1), word).await;
            approved = matches!(word, Ok(Ok(_)));
        }
        settle().await;

        let spine = world.start();
        let next = world.connect(&spine);
        next.resume(&client.channel, client.last_seq.get());
        next.last_seq.set(client.last_seq.get());
        for held in waiting(&spine).await {
            assert!(!approved, "{cut:?}: decided and still waiting");
            let paid = world.runs().iter().filter(|id| *id == "c2").count();
            assert_eq!(paid, 0, "{cut:?}: ran before anyone decided");
            decide(&spine, &held, Choice::Approve, None).await.unwrap();
        }
        settle().await;

        let paid = world.runs().iter().filter(|id| *id == "c2").count();
        assert!(paid <= 1, "{cut:?}: {paid} times");
        let storage = world.disk.mount(None);
        let rows = records::all::<Approval>(&*storage).unwrap();
        assert_eq!(rows.len(), 1, "{cut:?}: {rows:#?}");
        let expected = match paid {
            1 => [Execution::Done, Execution::Unknown],
            _ => [Execution::Unknown, Execution::Unknown],
        };
        assert_eq!(rows[0].status, Status::Approved, "{cut:?}");
        assert!(expected.contains(&rows[0].execution), "{cut:?}: {:?}", rows[0].execution);
        assert!(scan::<Task>(&*storage, Range::all()).unwrap().is_empty(), "{cut:?}");
    }
}

/// PL-85, PL-77, CH-106: the whole message is the command, and it is answered by one response.
#[actix::test]
async fn a_person_decides_by_text() {
    let world = world();
    let spine = world.start();
    let client = approver(&world, &spine, "bob");
    client.say("m1", "pay");
    let held = waiting(&spine).await;
    let name = held[0].short_id.clone();

    client.say("m2", "/approvals");
    let listed = client.hear_end_of("m2").await;
    client.say("m3", &format!("/deny {name}"));
    let usage = client.hear_end_of("m3").await;
    client.say("m4", &format!("/deny {name} far too much"));
    let denied = client.hear_end_of("m4").await;
    client.say("m5", &format!("/approve {name}"));
    let late = client.hear_end_of("m5").await;
    client.say("m6", "/approve zzzzzz");
    let unknown = client.hear_end_of("m6").await;
    settle().await;

    let last = |heard: &Vec<String>| heard.last().unwrap().clone();
    assert!(last(&listed).starts_with(&format!("done m2: {name}: held-pay of main")), "{listed:?}");
    assert!(last(&usage).starts_with("done m3: Say /deny <id> <why>"), "{usage:?}");
    assert_eq!(last(&denied), "done m4: Denied: held-pay.");
    assert_eq!(last(&late), "done m5: It is denied already, by bob.");
    assert!(last(&unknown).starts_with("done m6: Nothing with that id waits"), "{unknown:?}");
    assert_eq!(last_result(&world), "denied by bob: far too much");
}

/// PL-77, PL-85: anyone else is not authorized, and that leaves a row.
#[actix::test]
async fn whoever_may_not_decide_is_told_so_and_leaves_a_row() {
    let world = world();
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);
    client.say("m1", "pay");
    let held = waiting(&spine).await;

    client.say("m2", &format!("/approve {}", held[0].short_id));
    let refused = client.hear_end_of("m2").await;
    let left = waiting(&spine).await;

    assert_eq!(refused.last().unwrap(), "done m2: Not authorized.");
    assert_eq!(left, held);
    let mut rows = scan::<Audit>(&*storage, Range::all()).unwrap();
    // Calls leave lines of their own.
    rows.retain(|row| row.call.is_none());
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].action, "approval.decide");
    assert_eq!(rows[0].target, held[0].short_id);
    assert!(rows[0].outcome.starts_with("refused"), "{:?}", rows[0]);
}
