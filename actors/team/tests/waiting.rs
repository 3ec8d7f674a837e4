//! Turns that wait for settings, a credential or a provider.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::crash::{count, heard, settle};
use crate::{
    approvals::{
        Decide, List,
        record::{Choice, Decider, Word},
    },
    doubles::{
        client::Client,
        disk::MemoryStorage,
        engine::{Play, last_words},
        world::World,
    },
    ids::TaskId,
    queue::{parking::UnparkAll, submit::OpenTasks},
    spine::Spine,
    task::{TaskState, WaitReason, outcome::Code, records as tasks},
};

fn fine() -> Vec<Play> {
    vec![Play::Say("Fine."), Play::Answer]
}

/// A model that plays this so often, and then answers.
fn at_first(times: usize, play: Play) -> World {
    let tries = AtomicUsize::new(0);
    World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        try_ if try_ < times => vec![play.clone()],
        _ => fine(),
    })
}

/// The main team gives work to a team, twice.
fn giving() -> World {
    World::new(|request| match (last_words(request), request.step) {
        (words, 1) if words.ends_with("give") => {
            vec![Play::Call(vec![("c1", "give-aa"), ("c2", "give-aa")])]
        }
        _ => fine(),
    })
}

async fn states(spine: &Spine) -> Vec<(TaskState, Option<WaitReason>)> {
    let open = spine.queue.send(OpenTasks { team: None }).await.unwrap();
    open.into_iter().map(|task| (task.state, task.wait_reason)).collect()
}

async fn unpark(spine: &Spine, reason: WaitReason) {
    spine.queue.do_send(UnparkAll { reason, team: None });
    settle().await;
}

/// How often the task of the only message was tried.
async fn attempts(world: &World) -> u32 {
    let storage = world.disk.mount(None);
    let names = world.disk.keys("done");
    let id = names.first().and_then(|key| key.rsplit('/').next());
    let id = TaskId::from(id.unwrap().to_owned());
    tasks::find(&*storage, &id).unwrap().unwrap().attempts
}

/// A process with one client.
struct Process {
    storage: Arc<MemoryStorage>,
    spine: Spine,
    client: Client,
}

impl Process {
    fn of(world: &World) -> Self {
        let storage = world.disk.mount(None);
        let spine = world.start_on(storage.clone());
        let client = world.connect(&spine);
        Self { storage, spine, client }
    }

    /// This process is killed, and another follows.
    async fn next(self, world: &World) -> Self {
        self.storage.lose_after(0);
        let mut next = Self::of(world);
        let (channel, last_seq) = (self.client.channel, self.client.last_seq);
        next.client.resume(&channel, last_seq.get());
        next.client.last_seq.set(last_seq.get());
        next.client.item().await;
        next.client.channel = channel;
        settle().await;
        next
    }
}

/// OR-24, SE-07: work that nobody sits and waits for waits until the file is right.
#[actix::test]
async fn work_for_a_team_with_a_bad_file_waits_until_it_is_cured() {
    let world = giving();
    let wrong = "aa/config.yaml: `model`: unknown";
    world.brief_errors.lock().unwrap().insert("aa", wrong);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "give");
    client.hear_end_of("m1").await;
    settle().await;

    let parked = (TaskState::Waiting, Some(WaitReason::Config));
    assert_eq!(states(&spine).await, [parked, parked]);
    assert_eq!(world.disk.keys("notice").len(), 1);
    world.brief_errors.lock().unwrap().clear();
    unpark(&spine, WaitReason::Config).await;

    let told = heard(&client).await;
    assert_eq!(count(&told, "told"), 2, "{told:#?}");
    assert!(states(&spine).await.is_empty());
    // A later fault is told again.
    world.brief_errors.lock().unwrap().insert("aa", wrong);
    client.say("m2", "give");
    settle().await;
    assert_eq!(world.disk.keys("notice").len(), 2);
}

/// OR-24: a chat with it fails at once, and the operator hears of it too.
#[actix::test]
async fn a_message_to_a_team_with_a_bad_file_fails_at_once() {
    let world = giving();
    world.brief_errors.lock().unwrap().insert("main", "no");
    let client = world.connect(&world.start());
    for id in ["m1", "m2"] {
        client.say(id, "hello");
        let frames = client.hear_end_of(id).await;
        let end = format!("error {id}: config_error");
        assert_eq!(frames.last(), Some(&end));
    }
    settle().await;

    assert_eq!(world.disk.keys("notice").len(), 1);
}

/// OR-24, SE-21: over restarts, cured or not, with one notice.
#[actix::test]
async fn work_that_waits_for_settings_goes_on_after_a_restart() {
    let world = giving();
    world.brief_errors.lock().unwrap().insert("aa", "no");
    let first = Process::of(&world);
    first.client.say("m1", "give");
    first.client.hear_end_of("m1").await;
    settle().await;

    let second = first.next(&world).await;
    let parked = (TaskState::Waiting, Some(WaitReason::Config));
    assert_eq!(states(&second.spine).await, [parked, parked]);
    assert_eq!(world.disk.keys("notice").len(), 1);
    world.brief_errors.lock().unwrap().clear();
    let third = second.next(&world).await;

    let told = heard(&third.client).await;
    assert_eq!(count(&told, "told"), 2, "{told:#?}");
    assert!(states(&third.spine).await.is_empty());
}

/// SE-129: 30 s, 1 min, 2 min; one note, no attempt counted beyond the one that ended it.
#[actix::test]
async fn a_provider_that_is_down_is_waited_for() {
    for code in [Code::Network, Code::Overloaded, Code::Stalled] {
        let world = at_first(3, Play::Fail(code));
        let client = world.connect(&world.start());
        let began = tokio::time::Instant::now();

        client.say("m1", "hello");
        let frames = client.hear_end_of("m1").await;

        assert_eq!(
            frames,
            [
                "ack m1: Working on it.",
                "note m1: the provider failed. Waiting; trying again in 30 s.",
                "delta m1: Fine.",
                "done m1: Fine.",
            ]
        );
        assert_eq!(began.elapsed().as_secs(), 30 + 60 + 120);
        assert_eq!(attempts(&world).await, 1);
    }
}

/// SE-129, OR-82: at most until the task's deadline.
#[actix::test]
async fn a_provider_that_stays_down_is_waited_for_until_the_deadline() {
    let world = World::new(|_| vec![Play::Fail(Code::Network)]);
    let client = world.connect(&world.start());
    let began = tokio::time::Instant::now();

    client.say("m1", "hello");
    let frames = client.hear_end_of("m1").await;

    assert_eq!(frames.last().unwrap(), "error m1: deadline");
    assert_eq!(count(&frames, "note"), 1, "{frames:#?}");
    assert_eq!(began.elapsed().as_secs(), 24 * 60 * 60);
}

/// SE-129, EN-99: as long as the provider says, else about 5 min.
#[actix::test]
async fn a_provider_that_wants_fewer_requests_gets_them() {
    for (play, seconds) in
        [(Play::Limit(Duration::from_secs(7)), 7..=7), (Play::Fail(Code::RateLimited), 240..=360)]
    {
        let world = at_first(1, play);
        let client = world.connect(&world.start());
        let began = tokio::time::Instant::now();

        client.say("m1", "hello");
        let frames = client.hear_end_of("m1").await;

        assert_eq!(frames.last().unwrap(), "done m1: Fine.");
        assert_eq!(count(&frames, "note"), 1, "{frames:#?}");
        assert!(seconds.contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

/// SE-21: no slot is held, and the messages of a topic keep their order.
#[actix::test]
async fn a_turn_that_waits_for_a_provider_holds_its_topic_and_no_slot() {
    let tries = AtomicUsize::new(0);
    let mut world = World::new(move |request| match last_words(request) {
        "first" if tries.fetch_add(1, Ordering::Relaxed) == 0 => vec![Play::Fail(Code::Network)],
        _ => fine(),
    });
    world.limits.running = 1;
    let spine = world.start();
    let (client, other) = (world.connect(&spine), world.connect(&spine));
    client.say("m1", "first");
    let topic = client.topic_of("m1").await;
    client.say_in(&topic, "m2", "second");
    settle().await;

    other.say("m1", "hello");
    let elsewhere = other.hear_end_of("m1").await;
    let mut frames = client.hear_end_of("m1").await;
    frames.extend(client.hear_end_of("m2").await);

    assert_eq!(elsewhere.last().unwrap(), "done m1: Fine.");
    let ends: Vec<_> = frames.iter().filter(|f| f.starts_with("done")).collect();
    assert_eq!(ends, ["done m1: Fine.", "done m2: Fine."], "{frames:#?}");
}

/// SE-132: what waits for a provider can be cancelled, and the next of its topic goes on.
#[actix::test]
async fn a_turn_that_waits_for_a_provider_can_be_cancelled() {
    let world = World::new(|request| match last_words(request) {
        "first" => vec![Play::Fail(Code::Network)],
        _ => fine(),
    });
    let client = world.connect(&world.start());
    client.say("m1", "first");
    let topic = client.topic_of("m1").await;
    settle().await;
    let began = tokio::time::Instant::now();

    client.cancel(&topic, false);
    let frames = client.hear_end_of("m1").await;
    client.say_in(&topic, "m2", "second");
    let next = client.hear_end_of("m2").await;

    assert_eq!(count(&frames, "cancelled m1"), 1, "{frames:#?}");
    assert_eq!(next.last().unwrap(), "done m2: Fine.");
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// SE-21, SE-129: the wait goes on in the next process, where it was.
#[actix::test]
async fn a_wait_for_a_provider_survives_restarts() {
    let world = at_first(2, Play::Fail(Code::Network));
    let first = Process::of(&world);
    let began = tokio::time::Instant::now();
    first.client.say("m1", "hello");
    settle().await;
    let mut frames = heard(&first.client).await;

    let second = first.next(&world).await;
    let parked = (TaskState::Waiting, Some(WaitReason::ProviderDown));
    assert_eq!(states(&second.spine).await, [parked]);
    tokio::time::sleep(Duration::from_secs(30)).await;
    frames.extend(heard(&second.client).await);
    let third = second.next(&world).await;
    frames.extend(third.client.hear_end_of("m1").await);

    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
    assert_eq!(count(&frames, "note"), 1, "{frames:#?}");
    assert_eq!(began.elapsed().as_secs(), 30 + 60);
    assert_eq!(attempts(&world).await, 1);
}

/// SE-126: without a key that is taken, work waits; the operator is told once.
#[actix::test]
async fn a_refused_key_is_waited_for() {
    let refused = Arc::new(AtomicUsize::new(1));
    let key = refused.clone();
    let world = World::new(move |_| match key.load(Ordering::Relaxed) {
        0 => fine(),
        _ => vec![Play::Fail(Code::ProviderAuth)],
    });
    let spine = world.start();
    let (client, other) = (world.connect(&spine), world.connect(&spine));
    client.say("m1", "hello");
    other.say("m1", "hello");
    tokio::time::sleep(Duration::from_secs(3_600)).await;

    let parked = (TaskState::Waiting, Some(WaitReason::Login));
    assert_eq!(states(&spine).await, [parked, parked]);
    assert_eq!(world.disk.keys("notice").len(), 1);
    // Something changed, and it was not the key: nobody hears of it again.
    unpark(&spine, WaitReason::Login).await;
    assert_eq!(states(&spine).await, [parked, parked]);
    refused.store(0, Ordering::Relaxed);
    unpark(&spine, WaitReason::Login).await;

    let frames = client.hear_end_of("m1").await;
    assert_eq!(
        frames,
        [
            "ack m1: Working on it.",
            "note m1: the provider failed. Waiting for a key that is taken; the operator was told.",
            "delta m1: Fine.",
            "done m1: Fine.",
        ]
    );
    assert_eq!(other.hear_end_of("m1").await.last().unwrap(), "done m1: Fine.");
    assert_eq!(world.disk.keys("notice").len(), 1);
}

/// SE-126: a key that was replaced while it was being refused is tried at once.
#[actix::test]
async fn a_cure_during_the_turn_is_not_missed() {
    let tries = AtomicUsize::new(0);
    let world = World::new(move |_| match tries.fetch_add(1, Ordering::Relaxed) {
        0 => vec![Play::Wait(Duration::from_secs(10)), Play::Fail(Code::ProviderAuth)],
        _ => fine(),
    });
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "hello");
    settle().await;

    unpark(&spine, WaitReason::Login).await;
    let frames = client.hear_end_of("m1").await;

    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
}

/// MV-57: a call that needs a secret of a locked vault has not begun; its turn waits, and each call runs
/// once when the vault is open, whatever its effect.
#[actix::test]
async fn a_call_that_needs_the_locked_vault_waits_until_it_is_open() {
    for tool in ["locked-pay", "locked-save", "held-locked-pay"] {
        let world = World::new(move |request| match request.step {
            1 => vec![Play::Call(vec![("c1", tool), ("c2", "look")])],
            _ => fine(),
        });
        world.tools.locked.store(true, Ordering::Relaxed);
        let first = Process::of(&world);
        let spine = &first.spine;
        first.client.say("m1", "hello");
        settle().await;
        for approval in spine.approvals.send(List).await.unwrap().0 {
            let word = Word {
                which: approval.id.to_string(),
                choice: Choice::Approve,
                resolution: crate::approvals::record::Resolution::Once,
                digest: Some(approval.digest.clone()),
                note: None,
                confirm: None,
                by: Decider::new("operator"),
                via: "test".to_owned(),
            };
            let decide = Decide { word, channel: None };
            spine.approvals.send(decide).await.unwrap().unwrap();
        }
        settle().await;

        let parked = (TaskState::Waiting, Some(WaitReason::Config));
        assert_eq!(states(spine).await, [parked], "{tool}");
        // Still locked at the next start.
        let second = first.next(&world).await;
        assert_eq!(states(&second.spine).await, [parked], "{tool}");
        assert_eq!(world.runs(), ["c2"]);
        world.tools.locked.store(false, Ordering::Relaxed);
        let third = second.next(&world).await;

        let frames = third.client.hear_end_of("m1").await;
        assert_eq!(frames.last().unwrap(), "done m1: Fine.", "{tool}");
        assert_eq!(world.runs(), ["c2", "c1"], "{tool}");
        let runs = world.tools.runs.lock().unwrap();
        assert!(!runs[1].rerun, "{tool}");
    }
}

/// MV-57, SE-147: once it has begun, a crash means what it always does.
#[actix::test]
async fn a_call_that_waited_for_the_vault_and_then_began_is_not_begun_twice() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "locked-slow-pay")])],
        _ => fine(),
    });
    world.tools.locked.store(true, Ordering::Relaxed);
    let first = Process::of(&world);
    first.client.say("m1", "hello");
    settle().await;
    world.tools.locked.store(false, Ordering::Relaxed);

    let second = first.next(&world).await;
    assert_eq!(world.runs(), ["c1"]);
    let third = second.next(&world).await;
    let frames = third.client.hear_end_of("m1").await;

    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
    assert_eq!(world.runs(), ["c1"]);
    let asked = format!("{:?}", world.asked.lock().unwrap().last());
    assert!(asked.contains("outcome unknown"), "{asked}");
}
