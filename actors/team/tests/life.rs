//! Teams come and go.

use std::time::Duration;

use crate::{
    doubles::{
        engine::{Play, last_words, seconds},
        world::World,
    },
    queue::{self, parking::SetState},
    spine::Spine,
    supervisor,
    task::MAX_ATTEMPTS,
};

fn set_paused(spine: &Spine, paused: bool) {
    spine.queue.do_send(SetState { team: "main".into(), paused, draining: false });
}

/// SE-05
#[actix::test]
async fn an_idle_team_is_put_away_and_comes_back_for_work() {
    let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    assert_eq!(spine.directory.len(), 1);

    tokio::time::sleep(Duration::from_secs(11 * 60)).await;
    let living = spine.directory.len();
    client.say("m2", "water the garden");
    let heard = client.hear_end_of("m2").await;

    assert_eq!(living, 0);
    assert_eq!(heard.last().unwrap(), "done m2: Fine.");
    let restarts = spine.supervisor.send(supervisor::CountRestarts).await;
    assert_eq!(restarts.unwrap(), []);
    assert_eq!(world.shown_before(), ["water the garden", "Fine."]);
}

/// OR-93, SE-133: a drained task goes on in the next process, and the attempt is not counted.
#[actix::test]
async fn a_drain_gives_leases_back_at_the_next_commit_point() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "slow-save"), ("c2", "save")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    let channel = client.channel.clone();
    client.topic_of("m1").await;

    spine.queue.do_send(queue::Drain);
    spine.supervisor.do_send(supervisor::Drain);
    client.hears_result("c1").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counts = spine.queue.send(queue::Count).await.unwrap();
    let storage = world.disk.mount(None);
    let left = crate::spine::recover(&*storage).unwrap().tasks;
    let next = world.connect(&world.start());
    next.resume(&channel, client.last_seq.get());
    next.item().await;
    let heard = next.hear_end_of("m1").await;

    assert_eq!(counts.teams, [("main".into(), 1, 0)]);
    assert_eq!((left[0].attempts, &left[0].lease), (0, &None));
    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
    assert_eq!(world.runs(), ["c1", "c2"]);
}

/// SE-133, OR-93: a call that outlasts the drain goes on after the next start as often as it must: a stop in good
/// order counts no attempt.
#[actix::test]
async fn a_call_that_outlasts_every_drain_is_not_given_up() {
    let world = World::new(|request| match request.step {
        1 => vec![Play::Call(vec![("c1", "slow-save")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let first = world.connect(&spine);
    first.say("m1", "water the garden");
    first.topic_of("m1").await;

    let mut spine = spine;
    for restart in 1..=MAX_ATTEMPTS as usize + 1 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(world.runs().len(), restart);
        spine.queue.do_send(queue::Drain);
        spine.supervisor.do_send(supervisor::Drain);
        spine.queue.send(queue::UncountLeased).await.unwrap();
        let left = crate::spine::recover(&*world.disk.mount(None)).unwrap().tasks;
        assert_eq!((left[0].attempts, left[0].lease.is_some()), (0, true));
        spine = world.start();
    }
    let next = world.connect(&spine);
    next.resume(&first.channel, first.last_seq.get());
    next.item().await;
    let heard = next.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
}

/// OR-93: more calls than run at once: those that run are recorded, the others wait for the next
/// process.
#[actix::test]
async fn a_drain_in_the_middle_of_many_calls_loses_no_result() {
    let ids: Vec<&'static str> = vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let all = ids.clone();
    let world = World::new(move |request| match request.step {
        1 => {
            let mut calls: Vec<_> = all.iter().map(|id| (*id, "slow-save")).collect();
            calls[0].1 = "save";
            vec![Play::Call(calls)]
        }
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    let channel = client.channel.clone();
    client.hears_result("a").await;
    // Now `b` to `i` run, and `j` waits for one of them.

    spine.queue.do_send(queue::Drain);
    spine.supervisor.do_send(supervisor::Drain);
    tokio::time::sleep(Duration::from_secs(90)).await;
    let next = world.connect(&world.start());
    next.resume(&channel, client.last_seq.get());
    next.item().await;
    let heard = next.hear_end_of("m1").await;

    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
    assert_eq!(world.runs(), ids);
}

/// OR-93: messages are still stored while the process stops.
#[actix::test]
async fn a_message_during_the_drain_is_answered_by_the_next_process() {
    let world = World::new(|_| vec![seconds(1), Play::Say("Fine."), Play::Answer]);
    let spine = world.start();
    let client = world.connect(&spine);
    spine.queue.do_send(queue::Drain);
    spine.supervisor.do_send(supervisor::Drain);

    client.say("m1", "water the garden");
    let ack = client.hear().await;
    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let heard = next.hear_end_of("m1").await;

    assert!(ack.starts_with("ack m1: Waiting: the service stops"), "{ack}");
    assert_eq!(heard.last().unwrap(), "done m1: Fine.");
}

/// CH-82: whoever writes to a team that is paused, or whose turns wait, is told what for.
#[actix::test]
async fn a_message_to_a_team_that_does_not_work_is_told_why() {
    let mut world = World::new(|request| match last_words(request) {
        "unheard" => vec![Play::Fail(crate::task::outcome::Code::Overloaded)],
        "long" => vec![seconds(60), Play::Say("Fine."), Play::Answer],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    world.limits.running = 1;
    let spine = world.start();
    let [paused, parked, busy] = [(); 3].map(|()| world.connect(&spine));
    let ack = async |client: &crate::doubles::client::Client, id: &str| loop {
        let frame = client.frame().await;
        if frame["type"] == "ack" && frame["message_id"] == id {
            break (frame["content"].clone(), frame["position"].clone());
        }
    };

    set_paused(&spine, true);
    paused.say("m1", "water the garden");
    let of_paused = ack(&paused, "m1").await;
    set_paused(&spine, false);
    paused.hear_end_of("m1").await;
    parked.say("m1", "unheard");
    let topic = parked.topic_of("m1").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    parked.say_in(&topic, "m2", "and then");
    let of_parked = ack(&parked, "m2").await;
    busy.say("m1", "long");
    tokio::time::sleep(Duration::from_secs(2)).await;
    paused.say("m2", "pay the invoice");
    let of_busy = ack(&paused, "m2").await;

    assert_eq!(of_paused.0, "Waiting: the team is paused.");
    assert_eq!(of_parked.0, "Waiting: the model's provider cannot be reached.");
    assert_eq!(of_busy.0, "Waiting: as many turns as may run at once are running.");
    assert_eq!([of_paused.1, of_parked.1, of_busy.1], [1, 1, 1]);
}

/// SC-15, OP-35, OR-95: the kill switch. Whatever runs, also what does not hear, is gone within a second; all
/// tasks are back, the attempt does not count, and each call goes on by its effect class.
#[actix::test]
async fn a_team_that_is_stopped_at_once_gives_everything_back() {
    let world = World::new(|request| match (last_words(request), request.step) {
        ("think", _) => vec![Play::Say("Hm."), Play::Hang],
        ("deaf", _) => vec![Play::Call(vec![("c3", "deaf")])],
        ("work", 1) => vec![Play::Call(vec![("c1", "slow-save"), ("c2", "slow-pay")])],
        _ => vec![Play::Say("Fine."), Play::Answer],
    });
    let spine = world.start();
    let clients = ["work", "deaf", "think"].map(|words| {
        let client = world.connect(&spine);
        client.say("m1", words);
        client
    });
    tokio::time::sleep(Duration::from_secs(5)).await;

    set_paused(&spine, true);
    spine.queue.do_send(queue::Dismiss { team: "main".into() });
    tokio::time::sleep(Duration::from_secs(1)).await;

    let sorted = |mut calls: Vec<String>| {
        calls.sort();
        calls
    };
    let runs = world.runs();
    assert_eq!(sorted(runs.clone()), ["c1", "c2", "c3"]);
    let ended = world.tools.ended.lock().unwrap().clone();
    assert_eq!(sorted(ended), ["c1", "c2", "c3"]);
    assert_eq!(spine.directory.len(), 0);
    let storage = world.disk.mount(None);
    let left = crate::spine::recover(&*storage).unwrap().tasks;
    let left: Vec<_> = left.iter().map(|task| (task.attempts, &task.lease)).collect();
    assert_eq!(left, [(0, &None), (0, &None), (0, &None)]);
    let asked = world.asked.lock().unwrap().len();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(world.asked.lock().unwrap().len(), asked);

    set_paused(&spine, false);
    let frames = clients[0].hear_end_of("m1").await;
    assert_eq!(frames.last().unwrap(), "done m1: Fine.");
    // What may be repeated is; what may not is left to the model to find out.
    let again = world.runs().split_off(runs.len());
    assert_eq!(sorted(again), ["c1", "c3"]);
}
