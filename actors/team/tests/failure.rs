//! Errors and panics of what a turn calls.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tracing::{
    field::{Field, Visit},
    span,
};

use super::crash::settle;
use crate::{
    doubles::{
        disk,
        engine::{Play, last_words},
        world::World,
    },
    ids::TeamKey,
    notice::NoticeKind,
    org::{
        Pause,
        record::{TeamRecord, TeamState},
        roster::{Availability, Roster},
        tree::By,
    },
    spine::Spine,
    store::reads::{Range, scan},
    supervisor::CountRestarts,
    task::outcome::Code,
};

/// SE-85, TO-07
#[actix::test]
async fn a_tool_that_panics_is_an_error_result() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "bomb"), ("c2", "look")])],
        _ => vec![Play::Say("Sorry."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "done m1: Sorry.");
    assert_eq!(world.runs(), ["c1", "c2"]);
}

/// SE-16
#[actix::test]
async fn an_engine_that_panics_fails_the_turn_alone() {
    let world = World::new(|request| match last_words(request) {
        "water the garden" => vec![Play::Panic],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);

    client.say("m1", "water the garden");
    let first = client.hear_end_of("m1").await;
    client.say("m2", "pay the invoice");
    let second = client.hear_end_of("m2").await;

    assert_eq!(first, ["ack m1: Working on it.", "error m1: internal"]);
    assert_eq!(second.last().unwrap(), "done m2: Fine.");
    assert_eq!(spine.supervisor.send(CountRestarts).await.unwrap(), []);
}

/// SE-07, SE-13
#[actix::test]
async fn a_brief_that_cannot_be_made_fails_the_turn() {
    let world = World::new(|_| vec![Play::Answer]);
    let wrong = "team.yaml: `model` is unknown";
    world.brief_errors.lock().unwrap().insert("main", wrong);
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    let heard = client.frame().await;
    let end = client.frame().await;

    assert_eq!(heard["type"], "ack");
    assert_eq!(end["error"], "team.yaml: `model` is unknown");
    assert_eq!(end["code"], "config_error");
}

/// SE-20: after 30 s, then after 2 min.
#[actix::test]
async fn a_passing_failure_is_tried_again_and_given_up_after_three_attempts() {
    let world = World::new(|_| vec![Play::Break(Code::Overloaded)]);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "error m1: overloaded");
    assert_eq!(began.elapsed().as_secs(), 150);
    assert_eq!(world.asked.lock().unwrap().len(), 3);
}

/// OR-96, OR-73: the team starts again and the task goes on. Nobody had heard anything of it.
#[actix::test]
async fn a_team_that_dies_is_started_again_and_gets_its_task_back() {
    let tries = AtomicUsize::new(0);
    let world = World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Play::Call(vec![("c1", "mine")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard, ["ack m1: Fine.", "done m1: Fine."]);
    assert_eq!(began.elapsed().as_secs(), 1);
    let restarts = spine.supervisor.send(CountRestarts).await.unwrap();
    assert_eq!(restarts, [("main".into(), 1)]);
}

/// OR-96: the pause is the team's, not only that of the task which killed it.
#[actix::test]
async fn a_dead_team_rests_whoever_has_work_for_it() {
    let world = World::new(|request| match last_words(request) {
        "water the garden" => vec![Play::Call(vec![("c1", "mine")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let (client, other) = (world.connect(&spine), world.connect(&spine));
    client.say("m1", "water the garden");
    while spine.supervisor.send(CountRestarts).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let died = tokio::time::Instant::now();

    other.say("m1", "pay the invoice");
    other.hear_end_of("m1").await;

    assert!(died.elapsed() >= Duration::from_millis(990), "{:?}", died.elapsed());
}

/// OR-96: five deaths, then a long rest. OR-75: a task that kills its team three times is dead.
#[actix::test]
async fn a_team_that_keeps_dying_rests_for_ten_minutes() {
    let world = World::new(|_| vec![Play::Call(vec![("c1", "mine")])]);
    let spine = world.start();
    let client = world.connect(&spine);
    let began = tokio::time::Instant::now();

    client.say("m1", "water the garden");
    let first = client.hear_end_of("m1").await;
    let first_took = began.elapsed();
    client.say("m2", "water the garden again");
    let second = client.hear_end_of("m2").await;

    assert_eq!(first.last().unwrap(), "error m1: crash");
    assert_eq!(first_took.as_secs(), 1 + 2 + 4);
    assert_eq!(second.last().unwrap(), "error m2: crash");
    assert!(began.elapsed().as_secs() >= 1 + 2 + 4 + 8 + 600, "{:?}", began.elapsed());
}

/// OR-96: the operator hears of a team that keeps dying, and sees that it rests.
#[actix::test]
async fn a_team_that_keeps_dying_is_degraded_until_it_has_rested() {
    let world = World::new(|_| vec![Play::Call(vec![("c1", "mine")])]);
    let spine = world.start();
    let client = world.connect(&spine);
    let state = || spine.view.now().get("main").map(|team| team.state);

    client.say("m1", "water the garden");
    client.say("m2", "water the garden again");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if state() == Some(TeamState::Degraded) {
            break;
        }
    }

    assert_eq!(state(), Some(TeamState::Degraded));
    let notices = spine.store.read(disk::notices).await.unwrap();
    let degraded: Vec<_> =
        notices.iter().filter(|notice| notice.kind == NoticeKind::TeamDegraded).collect();
    assert_eq!(degraded.len(), 1);
    assert_eq!(degraded[0].team, Some("main".into()));
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(state(), Some(TeamState::Active));
}

/// A team whose tasks kill it as long as the garden is mined, unless they pay invoices.
fn mined() -> (World, Arc<AtomicBool>) {
    let mines = Arc::new(AtomicBool::new(true));
    let there = mines.clone();
    let world = World::new(move |request| match last_words(request) {
        "pay the invoice" => vec![Play::Say("Fine."), Play::Answer],
        _ if there.load(Ordering::Relaxed) => vec![Play::Call(vec![("c1", "mine")])],
        _ => vec![Play::Say("Watered."), Play::Answer],
    });
    (world, mines)
}

fn availability(spine: &Spine) -> (TeamState, Availability) {
    let state = spine.view.now().get("main").unwrap().state;
    (state, spine.view.availability(&TeamKey::first("main")))
}

/// It dies five times, and is found degraded.
async fn degrade(world: &World, spine: &Spine) {
    let client = world.connect(spine);
    client.say("m1", "water the garden");
    client.say("m2", "water the garden again");
    tokio::time::timeout(Duration::from_secs(100), async {
        while availability(spine).0 != TeamState::Degraded {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
    settle().await;
}

/// OR-96: the rest ends when it would have ended, and with it the silence of the team's triggers.
#[actix::test]
async fn a_degraded_team_has_rested_at_the_same_moment_after_a_restart() {
    let (world, _mines) = mined();
    let storage = world.disk.mount(None);
    let first = world.start_on(storage.clone());
    degrade(&world, &first).await;
    let began = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(300)).await;
    storage.lose_after(0);

    let next = world.start();
    let client = world.connect(&next);
    assert_eq!(availability(&next), (TeamState::Degraded, Availability::Paused));
    client.say("m1", "pay the invoice");
    let heard = client.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
    let rested = began.elapsed().as_secs();
    // It was found at rest up to a tenth of a second late, and left alone for five seconds.
    assert!((594..=601).contains(&rested), "{rested}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(availability(&next), (TeamState::Active, Availability::Active));
    let read = next.store.read(|storage| scan::<TeamRecord>(storage, Range::all()));
    let stored = read.await.unwrap();
    assert_eq!(stored[0].state, TeamState::Active);
    assert_eq!(stored[0].rested_at, None);
}

/// OR-96: to let all teams work again is to let this one work again too, at once.
#[actix::test]
async fn a_degraded_team_is_among_all_that_are_resumed() {
    let (world, mines) = mined();
    let spine = world.start();
    degrade(&world, &spine).await;
    let began = tokio::time::Instant::now();
    let client = world.connect(&spine);
    client.say("m1", "pay the invoice");
    settle().await;
    mines.store(false, Ordering::Relaxed);

    let by = By::Operator("ann".to_owned());
    let all = Pause { team: None, paused: false, now: false, by };
    let resumed = spine.org.send(all).await.unwrap().unwrap();
    let heard = client.hear_end_of("m1").await;

    assert!(resumed.contains(&"main".into()), "{resumed:?}");
    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// OR-96: the end of an earlier rest does not end a later one, nor an operator's pause.
#[actix::test]
async fn a_paused_team_stays_paused_when_it_would_have_rested() {
    let (world, _mines) = mined();
    let spine = world.start();
    degrade(&world, &spine).await;

    let by = By::Operator("ann".to_owned());
    let pause = Pause { team: Some("main".into()), paused: true, now: false, by };
    spine.org.send(pause).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(700)).await;

    assert_eq!(availability(&spine).0, TeamState::Paused);
}

/// The spans that were entered, with their fields.
#[derive(Default)]
struct Spans {
    opened: Mutex<Vec<String>>,
    entered: Mutex<Vec<String>>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        let mut opened = self.opened.lock().unwrap();
        opened.push(text);
        span::Id::from_u64(opened.len() as u64)
    }

    fn enter(&self, id: &span::Id) {
        let opened = self.opened.lock().unwrap();
        let place = usize::try_from(id.into_u64()).unwrap() - 1;
        self.entered.lock().unwrap().push(opened[place].clone());
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn exit(&self, _: &span::Id) {}
}

/// OR-96, MV-50: a model call and a tool run where the log names their team and task: a panic in them has nothing
/// else to go by.
#[actix::test]
async fn what_a_turn_calls_runs_in_a_span_of_its_team_and_task() {
    let spans = Arc::new(Spans::default());
    let _told = tracing::subscriber::set_default(Arc::clone(&spans));
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "look")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    // Tests beside this one listen to no spans: whoever opened one first has decided for all.
    tracing::callsite::rebuild_interest_cache();
    let before = spans.opened.lock().unwrap().len();
    client.say("m2", "pay the invoice");
    client.hear_end_of("m2").await;

    // Two model calls and a tool.
    let opened = spans.opened.lock().unwrap()[before..].to_vec();
    let turns = opened.iter().filter(|span| span.starts_with("turn "));
    let turns: Vec<_> = turns.collect();
    assert_eq!(turns.len(), 3, "{opened:?}");
    let entered = spans.entered.lock().unwrap();
    for turn in turns {
        assert!(turn.starts_with("turn team=main task=task-"), "{turn}");
        assert!(entered.contains(turn), "{entered:?}");
    }
}
