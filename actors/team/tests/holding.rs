//! Turns that wait for a person or for money.

use std::{sync::Arc, time::Duration};

use super::crash::{count, heard, settle};
use crate::{
    approvals::{
        Decide, List,
        record::{Approval, Choice, Decider, Execution, Word},
        refusal::NotDecided,
    },
    briefing::QueueMode,
    budget::{
        Caps, Days, SpentRow,
        records::{self as spending, Raised},
    },
    clock::Timestamp,
    doubles::{
        client::Client,
        disk::Crash,
        engine::{Play, last_words, seconds},
        world::{OneDay, World},
    },
    engine::{EngineEvent, Paid},
    ids::TeamKey,
    queue::submit::CancelTask,
    spine::Spine,
    store::reads::{Range, get, scan},
    task::{Task, outcome::Code, records as tasks},
    usage::Usage,
};

fn world() -> World {
    World::new(|request| match (last_words(request), request.step) {
        ("short", _) => vec![Play::Say("Fine."), Play::Answer],
        (_, 1) => vec![Play::Call(vec![("c1", "held-pay"), ("c2", "look")])],
        _ => vec![Play::Say("All done."), Play::Answer],
    })
}

async fn pending(spine: &Spine) -> Vec<Approval> {
    spine.approvals.send(List).await.unwrap().0
}

async fn decide(
    spine: &Spine,
    approval: &Approval,
    choice: Choice,
    note: &str,
) -> Result<Approval, NotDecided> {
    let word = Word {
        which: approval.id.to_string(),
        choice,
        resolution: crate::approvals::record::Resolution::Once,
        digest: Some(approval.digest.clone()),
        note: Some(note.to_owned()),
        confirm: None,
        by: Decider::new("operator"),
        via: "test".to_owned(),
    };
    let decide = Decide { word, channel: None };
    spine.approvals.send(decide).await.unwrap()
}

fn result_of(world: &World, call: &str) -> String {
    let asked = world.asked.lock().unwrap();
    let last = format!("{:?}", asked.last());
    let from = last.find(&format!("id: {call:?}")).unwrap_or(0);
    last[from..].to_owned()
}

/// PL-79, PL-81: the call waits, the lane does not.
#[actix::test]
async fn a_held_call_waits_while_its_lane_goes_on() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "long");
    let topic = client.topic_of("m1").await;
    settle().await;

    client.say_in(&topic, "m2", "short");
    let meanwhile = client.hear_end_of("m2").await;

    assert_eq!(count(&meanwhile, "done m1"), 0, "{meanwhile:#?}");
    assert_eq!(world.runs(), ["c2"]);
    let held = pending(&spine).await;
    assert_eq!(held.len(), 1);
    decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
    let after = client.hear_end_of("m1").await;
    assert_eq!(count(&after, "done m1: All done."), 1, "{after:#?}");
    assert_eq!(world.runs(), ["c2", "c1"]);
}

/// PL-82: the model reads who denied it and why.
#[actix::test]
async fn a_denied_call_is_an_error_result_with_the_note() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "long");
    settle().await;

    let held = pending(&spine).await;
    decide(&spine, &held[0], Choice::Deny, "too dear").await.unwrap();
    client.hear_end_of("m1").await;

    assert_eq!(world.runs(), ["c2"]);
    let result = result_of(&world, "c1");
    assert!(result.contains("denied by operator: too dear"), "{result}");
    // Nothing need be kept for it any more.
    assert_eq!(*world.tools.settled.lock().unwrap(), ["c2", "c1"]);
}

/// PL-75: what was approved is compared with what is about to run when it runs, not when the turn is
/// taken up.
#[actix::test]
async fn an_approved_call_whose_secret_changes_while_another_runs_does_not_run() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "held-slow-alone"), ("c2", "held-alone")])],
        _ => vec![Play::Say("All done."), Play::Answer],
    });
    let versions = |version: u64| [("TOKEN".to_owned(), version)].into();
    *world.tools.secrets.lock().unwrap() = versions(1);
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);
    client.say("m1", "both");
    settle().await;
    let held = pending(&spine).await;
    // Both are decided before the turn is taken up.
    let yes = |approval| decide(&spine, approval, Choice::Approve, "");
    let (one, other) = futures_util::future::join(yes(&held[0]), yes(&held[1])).await;
    assert!(one.is_ok() && other.is_ok());
    settle().await;
    assert_eq!(world.runs(), ["c1"]);

    *world.tools.secrets.lock().unwrap() = versions(2);
    client.hear_end_of("m1").await;

    assert_eq!(world.runs(), ["c1"]);
    let result = result_of(&world, "c2");
    assert!(result.contains("digest_mismatch"), "{result}");
    let ends = held.iter().map(|approval| {
        let row = get::<Approval>(&*storage, &approval.id).unwrap().unwrap();
        (row.tool.unwrap(), row.execution)
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by_key(|(tool, _)| tool.len());
    let expected = [
        ("held-alone".to_owned(), Execution::Failed),
        ("held-slow-alone".to_owned(), Execution::Done),
    ];
    assert_eq!(ends, expected);
}

/// PL-78: no decision is a denial.
#[actix::test]
async fn an_expired_request_is_a_denial() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "long");
    // The task's own deadline is the same day: the message is answered one way or the other.
    let frames = client.hear_end_of("m1").await;

    assert_eq!(world.runs(), ["c2"], "{frames:#?}");
}

/// PL-79: the end of the task is the end of the request.
#[actix::test]
async fn a_cancelled_task_takes_its_request_with_it() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "long");
    let topic = client.topic_of("m1").await;
    settle().await;
    assert_eq!(pending(&spine).await.len(), 1);

    client.cancel(&topic, true);
    let frames = client.hear_end_of("m1").await;
    settle().await;

    assert_eq!(count(&frames, "cancelled m1"), 1, "{frames:#?}");
    assert!(pending(&spine).await.is_empty());
    assert_eq!(world.runs(), ["c2"]);
}

async fn go_on(world: &World, former: &Client) -> (Spine, Client) {
    let spine = world.start();
    let next = world.connect(&spine);
    next.resume(&former.channel, former.last_seq.get());
    next.last_seq.set(former.last_seq.get());
    settle().await;
    (spine, next)
}

/// PL-76, PL-95, SE-149: at every commit of asking, deciding and running, the approved call runs once,
/// and no request is lost.
#[actix::test]
async fn a_crash_at_any_commit_runs_an_approved_call_once() {
    let commits = {
        let world = world();
        let storage = world.disk.mount(None);
        let spine = world.start_on(storage.clone());
        let client = world.connect(&spine);
        client.say("m1", "long");
        settle().await;
        let held = pending(&spine).await;
        decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
        client.hear_end_of("m1").await;
        settle().await;
        storage.commits()
    };
    for number in 1..commits {
        for crash in [Crash::Before(number), Crash::After(number)] {
            let world = world();
            let spine = world.start_doomed(crash);
            let client = world.connect(&spine);
            client.say("m1", "long");
            settle().await;
            for held in pending(&spine).await {
                let patience = Duration::from_secs(5);
                let _ = tokio::time::timeout(patience, decide(&spine, &held, Choice::Approve, ""))
                    .await;
            }
            settle().await;
            let mut frames = heard(&client).await;

            let (spine, next) = go_on(&world, &client).await;
            for held in pending(&spine).await {
                decide(&spine, &held, Choice::Approve, "").await.unwrap();
            }
            settle().await;
            frames.extend(heard(&next).await);

            let runs = world.runs();
            let paid = runs.iter().filter(|run| *run == "c1").count();
            assert!(paid <= 1, "{crash:?}: {runs:?}");
            assert_eq!(count(&frames, "done m1"), 1, "{crash:?}: {frames:#?}");
            if paid == 0 {
                let result = result_of(&world, "c1");
                assert!(result.contains("outcome unknown"), "{crash:?}: {result}");
            }
        }
    }
}

/// SC-15, SE-141, SE-143: a call that does not fit is not made; the turn waits, the operator is asked once,
/// and it goes on from its journal when they agree.
#[actix::test]
async fn a_turn_without_money_waits_for_the_operator() {
    let mut world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "pay")])],
        _ => vec![Play::Say("Paid."), Play::Answer],
    });
    let caps = Caps { tokens_per_day: Some(101), ..Caps::default() };
    world.budget = Arc::from([("main".into(), caps)]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "long");
    settle().await;
    let before = heard(&client).await;

    let held = pending(&spine).await;
    assert_eq!(held.len(), 1, "{before:#?}");
    assert_eq!(count(&before, "done"), 0, "{before:#?}");
    assert_eq!(world.asked.lock().unwrap().len(), 1);
    assert_eq!(world.disk.keys("notice").len(), 1);
    decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
    let after = client.hear_end_of("m1").await;

    assert_eq!(count(&after, "done m1: Paid."), 1, "{after:#?}");
    assert_eq!(world.runs(), ["c1"]);
}

/// SE-143: the request belongs to all who wait: it outlives the one who asked.
#[actix::test]
async fn the_operator_is_asked_again_when_the_one_who_asked_is_stopped() {
    let mut world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "pay")])],
        _ => vec![Play::Say("Paid."), Play::Answer],
    });
    let caps = Caps { tokens_per_day: Some(101), ..Caps::default() };
    world.budget = Arc::from([("main".into(), caps)]);
    let spine = world.start();
    let first = world.connect(&spine);
    let second = world.connect_as("other", &spine);
    first.say("m1", "long");
    settle().await;
    second.say("m2", "long as well");
    settle().await;
    let held = pending(&spine).await;
    assert_eq!(held.len(), 1);
    let asker = held[0].task.clone().unwrap();

    let stopped = CancelTask { task: asker, reason: "enough".to_owned() };
    assert!(spine.queue.send(stopped).await.unwrap());
    settle().await;
    let again = pending(&spine).await;

    assert_eq!(again.len(), 1);
    assert_ne!(again[0].id, held[0].id);
    decide(&spine, &again[0], Choice::Approve, "").await.unwrap();
    let after = second.hear_end_of("m2").await;
    assert_eq!(count(&after, "done m2: Paid."), 1, "{after:#?}");
}

/// SE-143: one yes is one yes, whatever happens to the process.
#[actix::test]
async fn an_agreement_counts_once_however_often_the_process_ends() {
    let mut world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "pay")])],
        _ => vec![Play::Say("Paid."), Play::Answer],
    });
    let caps = Caps { tokens_per_day: Some(101), ..Caps::default() };
    world.budget = Arc::from([("main".into(), caps)]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "long");
    settle().await;
    let held = pending(&spine).await;

    decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
    settle().await;

    let storage = world.disk.mount(None);
    let raised = spending::of_day::<Raised>(&*storage, OneDay.day_of(Timestamp(0))).unwrap();
    assert_eq!(raised, [(TeamKey::first("main"), Raised(1))]);
    let row = get::<Approval>(&*storage, &held[0].id).unwrap().unwrap();
    assert_eq!(row.execution, Execution::Done);
}

/// PL-74, SE-132: a turn that is stopped during an approved call says what became of the call.
#[actix::test]
async fn an_approved_call_that_is_stopped_does_not_run_for_ever() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "held-slow-pay")])],
        _ => vec![Play::Say("All done."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "pay");
    let topic = client.topic_of("m1").await;
    settle().await;
    let held = pending(&spine).await.remove(0);
    decide(&spine, &held, Choice::Approve, "").await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let execution = |world: &World| {
        get::<Approval>(&*world.disk.mount(None), &held.id).unwrap().unwrap().execution
    };
    assert_eq!(execution(&world), Execution::Running);

    client.cancel(&topic, false);
    client.hear_end_of("m1").await;

    assert_eq!(execution(&world), Execution::Failed);
}

/// SE-139: a call that failed or was stopped has cost what it cost.
#[actix::test]
async fn calls_without_an_answer_count() {
    let lost = |tokens| {
        Play::Report(EngineEvent::Spent(Paid {
            profile: "default".to_owned(),
            model: "scripted".to_owned(),
            usage: Usage { input: tokens, ..Usage::default() },
        }))
    };
    let mut world = World::new(move |request| match last_words(request) {
        "fail" => vec![lost(50), Play::Fail(Code::ProviderError)],
        _ => vec![lost(7), Play::Say("one two three four five six seven eight"), Play::Hang],
    });
    let caps = Caps { tokens_per_day: Some(10_000), ..Caps::default() };
    world.budget = Arc::from([("main".into(), caps)]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "fail");
    client.hear_end_of("m1").await;
    let ended = |world: &World| {
        let storage = world.disk.mount(None);
        let rows = spending::of_day::<SpentRow>(&*storage, OneDay.day_of(Timestamp(0))).unwrap();
        rows[0].1.own.tokens
    };
    let failed = ended(&world);
    client.say("m2", "stop");
    settle().await;
    let open = spine.store.read(|storage| scan::<Task>(storage, Range::all())).await.unwrap();
    let stopped = CancelTask { task: open[0].id.clone(), reason: "enough".to_owned() };
    assert!(spine.queue.send(stopped).await.unwrap());
    settle().await;

    assert_eq!(failed, 50);
    assert!(ended(&world) > 50 + 7 + 9, "{}", ended(&world));
    let mut tallies = Vec::new();
    let day = OneDay.day_of(Timestamp(0)).number;
    let storage = world.disk.mount(None);
    spending::each_call(&*storage, day, day, &mut |_, caller, tally| tallies.push((caller, tally)))
        .unwrap();
    // The day knows by profile and model what the team has spent.
    let tokens: u64 = tallies.iter().map(|(_, tally)| tally.spent().tokens).sum();
    assert_eq!(tokens, ended(&world), "{tallies:?}");
    let task = spine.store.read(move |storage| tasks::find(storage, &open[0].id));
    let usage = task.await.unwrap().unwrap().outcome.unwrap().usage;
    assert!(usage.estimated && usage.output >= 9, "{usage:?}");
}

/// EN-28, EN-101, SE-139: of a step that is stopped, what was over is booked as it was told, and once; before that it
/// counts for what the step may still spend.
#[actix::test]
async fn completed_calls_of_a_stopped_step_count_once() {
    let paid = Paid {
        profile: "default".to_owned(),
        model: "scripted".to_owned(),
        usage: Usage { input: 100, output: 20, ..Usage::default() },
    };
    let (told, usage) = (paid.clone(), paid.usage);
    let (refusals, refused) = std::sync::mpsc::channel();
    let mut world = World::new(move |request| {
        let is_refused = || request.unbooked.affords_another().is_err();
        let before = is_refused();
        request.unbooked.add(told.clone());
        refusals.send((before, is_refused())).unwrap();
        vec![Play::Say("one two three four"), Play::Hang]
    });
    // Enough for what the step is expected to cost, and not for two such.
    let caps = Caps { tokens_per_day: Some(215), ..Caps::default() };
    world.budget = Arc::from([("main".into(), caps)]);
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "work");
    settle().await;
    let open = spine.store.read(|storage| scan::<Task>(storage, Range::all())).await.unwrap();
    let stopped = CancelTask { task: open[0].id.clone(), reason: "enough".to_owned() };
    assert!(spine.queue.send(stopped).await.unwrap());
    settle().await;

    assert_eq!(refused.try_recv(), Ok((false, true)));
    let task = spine.store.read(move |storage| tasks::find(storage, &open[0].id));
    assert_eq!(task.await.unwrap().unwrap().outcome.unwrap().usage, usage);
    let storage = world.disk.mount(None);
    let day = OneDay.day_of(Timestamp(0));
    let rows = spending::of_day::<SpentRow>(&*storage, day).unwrap();
    assert_eq!(rows[0].1.own.tokens, 120);
    let mut tallied = 0;
    spending::each_call(&*storage, day.number, day.number, &mut |_, _, tally| {
        tallied += tally.spent().tokens;
    })
    .unwrap();
    assert_eq!(tallied, 120);
}

fn for_money(caps: Caps) -> World {
    let mut world = World::new(|request| match (last_words(request), request.step) {
        ("give", 1) => vec![Play::Cost(0.5), Play::Call(vec![("c1", "wake-aa")])],
        ("long", 1) => vec![Play::Cost(0.9), Play::Call(vec![("c1", "slow-save")])],
        ("long", 2) => vec![Play::Cost(0.2), Play::Call(vec![("c2", "look")])],
        (other, _) if other.starts_with("work") => vec![Play::Cost(0.6), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.budget = Arc::from([("main".into(), caps)]);
    world
}

/// SE-140, SE-143: what a task has cost before a restart counts after it, and is forgotten with it.
#[actix::test]
async fn the_cap_of_a_task_holds_over_a_restart() {
    let world = for_money(Caps { usd_per_task: Some(1.0), ..Caps::default() });
    let storage = world.disk.mount(None);
    let client = world.connect(&world.start_on(storage.clone()));
    client.say("m1", "long");
    settle().await;

    storage.lose_after(0);
    let (spine, next) = go_on(&world, &client).await;
    tokio::time::sleep(Duration::from_secs(90)).await;

    let held = pending(&spine).await;
    assert_eq!(held.len(), 1, "{:#?}", heard(&next).await);
    assert_eq!(world.asked.lock().unwrap().len(), 2);
    assert_eq!(world.disk.keys("cost").len(), 1);
    assert_eq!(world.disk.keys("use-task").len(), 1);
    decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
    settle().await;
    let after = heard(&next).await;
    assert_eq!(count(&after, "done m1"), 1, "{after:#?}");
    assert_eq!(world.disk.keys("cost"), Vec::<String>::new());
    assert_eq!(world.disk.keys("use-task"), Vec::<String>::new());
}

/// OR-47, SE-140: what a task led to counts as its own.
#[actix::test]
async fn the_cap_of_a_task_covers_what_it_led_to() {
    let world = for_money(Caps { usd_per_task: Some(1.0), ..Caps::default() });
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "give");
    settle().await;

    // 0.5 by the task and 0.6 by the one it gave: the turn that hears of its end makes no call.
    assert_eq!(world.asked.lock().unwrap().len(), 3);
    assert_eq!(pending(&spine).await.len(), 1);
}

/// SE-142: once a day, to the operator and where the work comes from, over a restart too.
#[actix::test]
async fn a_budget_that_is_nearly_spent_is_told_once() {
    let world = for_money(Caps { usd_per_day: Some(1.2), ..Caps::default() });
    let storage = world.disk.mount(None);
    let client = world.connect(&world.start_on(storage.clone()));
    client.say("m1", "short");
    client.hear_end_of("m1").await;
    assert_eq!(world.disk.keys("notice").len(), 0);
    client.say("m2", "long");
    settle().await;
    let first = heard(&client).await;

    let warning = "told budget: [main] the budget of team main is nearly spent: 0.90 of 1.20 USD";
    assert_eq!(count(&first, "told budget"), 0, "0.9 is no 80 %: {first:#?}");
    storage.lose_after(0);
    let (_, mut next) = go_on(&world, &client).await;
    next.channel = client.channel.clone();
    next.item().await;
    let mut frames = next.hear_end_of("m2").await;
    next.say("m3", "short");
    frames.extend(next.hear_end_of("m3").await);

    let warning = warning.replace("0.90", "1.10");
    assert_eq!(count(&frames, &warning), 1, "{frames:#?}");
    assert_eq!(count(&frames, "told budget"), 1, "{frames:#?}");
    assert_eq!(world.disk.keys("notice").len(), 1);
}

/// A turn that a message joins, and that then waits for a person. A turn of its own would answer the message otherwise.
fn joined_world() -> World {
    let mut world = World::new(|request| match (last_words(request), request.step) {
        ("water the garden", 1) => vec![seconds(10), Play::Call(vec![("c1", "look")])],
        ("and the roof", 2) => vec![Play::Call(vec![("c2", "held-pay")])],
        ("and the roof", 1) => vec![Play::Say("Again."), Play::Answer],
        _ => vec![Play::Say("Both."), Play::Answer],
    });
    world.queue_mode = QueueMode::Steer;
    world
}

/// A message has joined the turn of another, which waits. Returns the topic.
async fn join_and_wait(client: &Client) -> String {
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "and the roof");
    tokio::time::sleep(Duration::from_secs(20)).await;
    topic
}

/// EN-26, CH-80: a message that joined a turn waits with it and ends with it: nobody acts on its words twice, also after
/// a restart.
#[actix::test]
async fn a_message_that_joined_a_turn_that_waits_gets_no_turn_of_its_own() {
    for restarts in [false, true] {
        let world = joined_world();
        let storage = world.disk.mount(None);
        let mut spine = world.start_on(storage.clone());
        let mut client = world.connect(&spine);
        join_and_wait(&client).await;
        let mut frames = heard(&client).await;
        if restarts {
            storage.lose_after(0);
            spine = world.start();
            let next = world.connect(&spine);
            next.resume(&client.channel, client.last_seq.get());
            next.last_seq.set(client.last_seq.get());
            client = next;
            settle().await;
        }

        let held = pending(&spine).await;
        decide(&spine, &held[0], Choice::Approve, "").await.unwrap();
        settle().await;
        frames.extend(heard(&client).await);

        for message in ["m1", "m2"] {
            assert_eq!(count(&frames, &format!("done {message}: Both.")), 1, "{frames:#?}");
        }
        assert_eq!(world.asked.lock().unwrap().len(), 3, "{frames:#?}");
        assert_eq!(world.runs(), ["c1", "c2"]);
    }
}

/// EN-26, CH-49: what joined a turn that waits ends with it if what waits is cancelled too; else it gets a turn of its own.
#[actix::test]
async fn a_message_that_joined_a_turn_that_waits_outlives_it_unless_it_is_cancelled_too() {
    for (queued, end) in [(false, "done m2: Again."), (true, "cancelled m2")] {
        let world = joined_world();
        let client = world.connect(&world.start());
        let topic = join_and_wait(&client).await;

        client.cancel(&topic, queued);
        settle().await;

        let frames = heard(&client).await;
        assert_eq!(count(&frames, "cancelled m1"), 1, "{frames:#?}");
        assert_eq!(count(&frames, end), 1, "{frames:#?}");
    }
}
