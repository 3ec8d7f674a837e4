use std::time::Duration;

use crate::{
    channel::{Deliver, Shutdown, Tell, records::OutboxWrites},
    clock::Timestamp,
    doubles::{
        adapter::{Answer, Network},
        world::World,
    },
    frame::{Body, ErrorBody, Frame, Notification, NotificationKind},
    notice::{Notice, NoticeKind},
    spine::Spine,
    store::{
        reads::{Range, scan},
        records::Writes,
    },
};

const CHANNEL: &str = "discord:1";

fn world() -> World {
    World::new(|_| Vec::new())
}

fn notification(content: &str) -> Body {
    Body::Notification(Notification {
        content: content.to_owned(),
        team: "main".into(),
        task_id: Some("task-1".into()),
        status: "done".to_owned(),
        kind: NotificationKind::Task,
        ref_id: None,
        truncated: false,
        files: Vec::new(),
        by: None,
    })
}

/// Something that must arrive.
async fn told(spine: &Spine, channel: &str, content: &str) {
    let frame = Frame { topic: None, ts: Timestamp::default(), body: notification(content) };
    let writes = Writes::new().frame(&channel.into(), frame);
    let frames = spine.store.commit(writes).await.unwrap();
    spine.channel.send(Deliver { frames }).await.unwrap();
}

/// Something that need not.
async fn passing(spine: &Spine, code: &str) {
    let body = Body::Error(ErrorBody::refusal(code, "slow down"));
    let frame = Frame { topic: None, ts: Timestamp::default(), body };
    spine.channel.send(Tell { channel: CHANNEL.into(), frame }).await.unwrap();
}

async fn notices(spine: &Spine) -> Vec<Notice> {
    spine.store.read(|storage| scan(storage, Range::all())).await.unwrap()
}

/// CH-14
#[actix::test]
async fn a_frame_that_must_arrive_is_offered_until_it_is_taken_and_the_next_one_waits() {
    let world = world();
    let spine = world.start();
    let hour = Duration::from_secs(3_600);
    let mut seen =
        Network::start(&spine, CHANNEL, [Answer::RetryAfter(hour), Answer::RetryAfter(hour)]);
    let start = tokio::time::Instant::now();

    told(&spine, CHANNEL, "one").await;
    told(&spine, CHANNEL, "two").await;
    let mut offered = Vec::new();
    for _ in 0..4 {
        offered.push(seen.next().await);
    }

    assert_eq!(offered, ["told task: one", "told task: one", "told task: one", "told task: two"]);
    assert!(start.elapsed() >= 2 * hour, "{:?}", start.elapsed());
}

/// CH-14
#[actix::test]
async fn a_frame_that_need_not_arrive_is_offered_once() {
    let world = world();
    let spine = world.start();
    let later = Answer::RetryAfter(Duration::from_secs(1));
    let mut seen = Network::start(&spine, CHANNEL, [Answer::Delivered, later]);
    told(&spine, CHANNEL, "one").await;
    assert_eq!(seen.next().await, "told task: one");

    passing(&spine, "rate_limited").await;
    told(&spine, CHANNEL, "two").await;

    assert_eq!(seen.next().await, "error -: rate_limited");
    assert_eq!(seen.next().await, "told task: two");
}

/// CH-14
#[actix::test]
async fn the_operator_is_told_of_what_cannot_be_delivered_and_the_next_frame_goes_out() {
    let world = world();
    let spine = world.start();
    let mut seen =
        Network::start(&spine, CHANNEL, [Answer::Undeliverable("the channel was deleted")]);

    told(&spine, CHANNEL, "one").await;
    told(&spine, CHANNEL, "two").await;
    assert_eq!(seen.next().await, "told task: one");
    assert_eq!(seen.next().await, "told task: two");

    let notices = notices(&spine).await;
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(notice.kind, NoticeKind::Undelivered);
    assert!(notice.text.contains("`discord:1`: the channel was deleted."), "{}", notice.text);
    assert_eq!(notice.refs, ["task-1"]);
}

/// CH-16
#[actix::test]
async fn an_adapter_that_fails_or_hangs_hurts_no_other() {
    let world = world();
    let spine = world.start();
    let mut broken = Network::start(&spine, CHANNEL, [Answer::Panic, Answer::Delivered]);
    let mut hung = Network::start(&spine, "discord:2", [Answer::Never]);
    let mut good = Network::start(&spine, "discord:3", []);

    for channel in [CHANNEL, "discord:2", "discord:3"] {
        told(&spine, channel, "one").await;
    }
    told(&spine, "discord:3", "two").await;

    assert_eq!(broken.next().await, "told task: one");
    assert_eq!(broken.next().await, "told task: one");
    assert_eq!(hung.next().await, "told task: one");
    assert_eq!(good.next().await, "told task: one");
    assert_eq!(good.next().await, "told task: two");
}

/// CH-147
#[actix::test]
async fn an_adapter_is_told_to_disconnect_behind_what_was_sent_before() {
    let world = world();
    let spine = world.start();
    let mut seen = Network::start(&spine, CHANNEL, []);

    told(&spine, CHANNEL, "one").await;
    spine.channel.send(Shutdown).await.unwrap();

    assert_eq!(seen.next().await, "told task: one");
    assert_eq!(seen.next().await, "disconnect Shutdown");
}
