//! Repeats, limits, what is forgotten.

use std::time::Duration;

use crate::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    clock::Clock,
    doubles::{
        disk::Crash,
        engine::{Play, seconds},
        world::{World, owner},
    },
    frame::{Notification, NotificationKind},
    identities::Owner,
    ids::ChannelId,
    interactions::Interaction,
    notice::{Notice, NoticeKind},
    queue::schedule::Limits,
    router::{
        granting::ListGrants,
        posted_messages::{PostMessage, TopicChoice},
        rate::Rate,
        records,
        sender::Sender,
        topics::Topic,
    },
    store::{
        reads::{Range, get},
        records::Writes,
    },
    task::Label,
};

fn slow() -> World {
    World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer])
}

/// CH-47
#[actix::test]
async fn a_repeated_message_is_not_run_again_and_hears_what_became_of_it() {
    let world = slow();
    let client = world.connect(&world.start());

    client.say("m1", "water the garden");
    client.say("m1", "water the garden");
    let at_once = client.hear().await;
    client.topic_of("m1").await;
    client.say("m1", "water the garden");
    let running = client.hear().await;
    client.hear_end_of("m1").await;
    let response_seq = client.last_seq.get();
    client.say("m1", "water the garden");
    let done = client.frame().await;
    client.say("m1", "something else");
    let conflict = client.hear().await;

    // Whether it is stored yet or not, it is not done.
    let accepted = ["queued", "running"]
        .map(|status| format!("ack m1 known {status}: This message is known already."));
    assert!(accepted.contains(&at_once), "{at_once}");
    assert_eq!(running, "ack m1 known running: This message is known already.");
    assert_eq!((&done["status"], &done["duplicate"]), (&"done".into(), &true.into()));
    assert_eq!(done["response_seq"], response_seq);
    assert_eq!(conflict, "error m1: message_id_conflict");
    assert_eq!(world.asked.lock().unwrap().len(), 1);
}

/// CH-47, CH-80: also after a restart.
#[actix::test]
async fn a_message_is_known_to_the_next_process() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;

    let next = world.connect(&world.start());
    next.resume(&client.channel, client.last_seq.get());
    next.item().await;
    let next = crate::doubles::client::Client { channel: client.channel.clone(), ..next };
    next.say("m1", "water the garden");

    assert_eq!(next.hear().await, "ack m1 known done: This message is known already.");
}

/// CH-67, OR-80: a refusal leaves a channel that can be used, and resumed after a restart.
#[actix::test]
async fn a_full_queue_refuses_and_the_message_may_be_sent_again() {
    let mut world = slow();
    world.limits = Limits { running: 1, waiting: 1, ..Limits::default() };
    let spine = world.start();
    let (busy, client) = (world.connect(&spine), world.connect(&spine));
    busy.say("m1", "water the garden");
    let topic = busy.topic_of("m1").await;
    busy.say_in(&topic, "m2", "again");
    busy.topic_of("m2").await;

    client.say("m1", "pay the invoice");
    let refused = client.hear().await;
    busy.hear_end_of("m2").await;
    client.say("m1", "pay the invoice");
    client.hear_end_of("m1").await;
    let next = world.connect(&world.start());
    next.resume(&client.channel, 0);
    next.item().await;

    assert_eq!(refused, "error m1: queue_full");
    let mut again = Vec::new();
    while again.last().is_none_or(|frame: &String| !frame.starts_with("done")) {
        again.push(next.hear().await);
    }
    assert_eq!(again.first().unwrap(), "error m1: queue_full");
}

/// CH-67
#[actix::test]
async fn a_full_topic_refuses() {
    let mut world = slow();
    world.limits.waiting_in_topic = 1;
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;

    client.say_in(&topic, "m2", "again");
    client.say_in(&topic, "m3", "and again");
    let refused = loop {
        let frame = client.frame().await;
        if frame["type"] == "error" {
            break frame;
        }
    };

    assert_eq!([&refused["message_id"], &refused["code"]], ["m3", "topic_queue_full"]);
    // A channel that was told that the message is accepted knows by it that this is not the same refusal once more.
    assert!(refused["task_id"].is_string(), "{refused}");
}

/// CH-69
#[actix::test]
async fn a_sender_that_is_too_fast_is_told_when_to_try_again() {
    let mut world = slow();
    world.settings.rate = Rate { per_minute: 60, burst: 1 };
    let spine = world.start();
    let (client, other) = (world.connect(&spine), world.connect(&spine));

    client.say("m1", "water the garden");
    other.say("m1", "water the garden");
    let refused = other.frame().await;

    assert_eq!(refused["code"], "rate_limited");
    assert_eq!(refused["retry_after_ms"], 1_000);
}

/// CH-92, CH-88, CH-122: a channel and its topics are kept as long as history is; frames that nobody came for go after
/// a day, but for the newest.
#[actix::test]
async fn a_channel_stays_with_its_topics_as_long_as_its_history() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    let topic = client.topic_of("m1").await;
    client.hear_end_of("m1").await;
    client.close();

    // Of a former process: nothing of it is in memory.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let spine = world.start();
    tokio::time::sleep(Duration::from_secs(6 * 24 * 60 * 60)).await;
    let frames = world.disk.keys("out").len();
    let mut back = world.connect(&spine);
    back.resume(&client.channel, client.last_seq.get());
    back.last_seq.set(client.last_seq.get());
    back.item().await;
    back.channel = client.channel.clone();
    back.say_in(&topic, "m2", "and now");
    let answered = back.hear_end_of("m2").await;
    back.close();
    tokio::time::sleep(Duration::from_secs(8 * 24 * 60 * 60)).await;
    let late = world.connect(&spine);
    late.resume(&client.channel, back.last_seq.get());
    late.item().await;

    assert!(frames <= 1, "{frames}");
    assert_eq!(answered.last().unwrap(), "done m2: Done.");
    assert_eq!(late.hear().await, "error -: cannot_resume");
    for prefix in ["chan", "topic", "msg", "out", "log", "conv", "read", "notice"] {
        assert_eq!(world.disk.keys(prefix), Vec::<String>::new());
    }
}

/// CH-92, OP-33: one that is used every day without a connection is in use.
#[actix::test]
async fn a_channel_that_is_spoken_on_every_day_stays() {
    let world = slow();
    let spine = world.start();
    let mut topics = Vec::new();
    for day in 0..4 {
        let say = PostMessage {
            channel: "api:bob".into(),
            may_open: true,
            owner: owner("bob"),
            sender: Sender::of(&"bob".into(), ChannelType::Ws),
            content: "water the garden".to_owned(),
            team: None,
            topic: Some(TopicChoice::Name("garden".to_owned())),
            id: format!("m{day}").as_str().into(),
            notify: None,
            files: Vec::new(),
        };
        let accepted = spine.router.send(say).await.unwrap().unwrap();
        topics.push(accepted.topic.unwrap());
        tokio::time::sleep(Duration::from_secs(20 * 60 * 60)).await;
    }

    assert_eq!(topics[1..], vec![topics[0].clone(); 3]);
}

/// CH-88: a name may be another's by now.
#[actix::test]
async fn a_later_token_of_the_same_name_resumes_nothing() {
    let world = slow();
    let spine = world.start();
    let connect = |grant: &str| {
        let owner = Owner { grant: grant.into(), ..owner("bob") };
        world.connect_of(owner, Sender::of(&"bob".into(), ChannelType::Ws), &spine)
    };
    let client = connect("token-1");
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    client.close();

    let (later, same) = (connect("token-2"), connect("token-1"));
    later.resume(&client.channel, client.last_seq.get());
    later.item().await;
    let refused = later.hear().await;
    same.resume(&client.channel, client.last_seq.get());

    assert_eq!(refused, "error -: cannot_resume");
    let adopted = crate::channel::socket::Item::Adopted(client.channel.clone());
    assert_eq!(same.item().await, adopted);
}

/// CH-88: a row of a former version knows a name only, and when the channel was last seen.
#[actix::test]
async fn a_channel_of_a_former_version_is_resumed_by_the_token_of_that_time() {
    let world = slow();
    let spine = world.start();
    let channel = ChannelId::from("ws:1");
    let row = ChannelRow {
        principal: "bob".into(),
        grant: None,
        last_seen: world.clock.now(),
        channel_type: ChannelType::Ws,
        begins_anew: false,
        begins_anew_in: None,
    };
    let writes = Writes::new().put_at(&channel, &row);
    spine.store.commit(writes).await.unwrap();
    let connect = |grant: &str, since| {
        let owner = Owner { grant: grant.into(), since, ..owner("bob") };
        world.connect_of(owner, Sender::of(&"bob".into(), ChannelType::Ws), &spine)
    };
    let later = connect("token-2", row.last_seen + Duration::from_millis(1));
    let same = connect("token-1", row.last_seen);

    later.resume(&channel, 0);
    later.item().await;
    let refused = later.hear().await;
    same.resume(&channel, 0);
    let adopted = same.item().await;
    same.close();

    assert_eq!(refused, "error -: cannot_resume");
    assert_eq!(adopted, crate::channel::socket::Item::Adopted(channel.clone()));
    // From now on it is known whose it is.
    spine.router.send(ListGrants).await.unwrap().unwrap();
    spine.store.commit(Writes::new()).await.unwrap();
    let stored = spine.store.read(move |storage| get::<ChannelRow>(storage, &channel));
    let stored = stored.await.unwrap().unwrap();
    assert_eq!(stored.grant, Some("token-1".into()));
}

/// CH-87, OP-39: an answer that goes with its channel before anyone had it is reported.
#[actix::test]
async fn an_answer_that_nobody_came_back_for_is_reported() {
    let world = slow();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.topic_of("m1").await;
    client.close();

    tokio::time::sleep(Duration::from_secs(8 * 24 * 60 * 60)).await;

    let read = spine.store.read(|storage| {
        let mut notices = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| notices.push(notice))?;
        Ok(notices)
    });
    let told = read.await.unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    let told = &told[0];
    assert_eq!(told.kind, NoticeKind::Undelivered);
    assert!(told.text.starts_with("1 answer or"), "{}", told.text);
    assert_eq!(told.refs.len(), 1);
    assert_eq!(world.disk.keys("out"), Vec::<String>::new());
}

/// CH-92: a channel that was connected until the process died is not taken for an old one.
#[actix::test]
async fn a_channel_in_use_outlives_a_crash() {
    let world = slow();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    tokio::time::sleep(Duration::from_secs(30 * 60 * 60)).await;

    let next = world.connect(&world.start());
    tokio::time::sleep(Duration::from_secs(10)).await;
    next.resume(&client.channel, client.last_seq.get());

    let adopted = crate::channel::socket::Item::Adopted(client.channel.clone());
    assert_eq!(next.item().await, adopted);
}

/// CH-150
#[actix::test]
async fn interactions_are_kept_for_a_day() {
    let world = slow();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    let text = "The garden is wet.".to_owned();
    let told = Notification::new(NotificationKind::Task, "garden".into(), text, "");
    let now = world.clock.now();
    let row = Interaction::told(&client.channel, None, Label::Trusted, now, &told);
    spine.store.commit(Writes::new().put(&row)).await.unwrap();

    let fresh = world.disk.keys("log").len();
    tokio::time::sleep(Duration::from_secs(26 * 60 * 60)).await;

    assert_eq!(fresh, 1);
    assert_eq!(world.disk.keys("log"), Vec::<String>::new());
    assert_eq!(world.disk.keys("chan").len(), 1);
}

/// OR-82, SE-06: a task whose deadline passed while no process ran is not begun.
#[actix::test]
async fn an_overdue_task_expires_without_a_model_call() {
    let world = slow();
    let client = world.connect(&world.start_doomed(Crash::After(0)));
    client.say("m1", "water the garden");
    tokio::time::sleep(Duration::from_secs(25 * 60 * 60)).await;

    let next = world.connect(&world.start());
    next.resume(&client.channel, 0);
    next.item().await;
    let mut heard = next.hear_end_of("m1").await;

    // The words themselves are a day old, and by then may have left the outbox (CH-87).
    heard.retain(|line| !line.starts_with("user_message"));
    assert_eq!(heard, ["ack m1: Working on it.", "error m1: deadline"]);
    assert_eq!(world.asked.lock().unwrap().len(), 0);
}

/// What was said in topics that are over is not read with every message.
#[actix::test]
async fn words_are_read_of_topics_that_are_not_over() {
    let world = World::new(|_| vec![Play::Say("Done."), Play::Answer]);
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    let (storage, now) = (world.disk.mount(None), world.clock.now());
    let idle_after = world.settings.topics.idle_after;

    let said_at = |now| {
        let since = Topic::over_before(now, idle_after);
        records::channel(&*storage, &client.channel, since).unwrap().unwrap().said.len()
    };

    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    assert_eq!([said_at(now + days(6)), said_at(now + idle_after + days(8))], [1, 0]);
}
