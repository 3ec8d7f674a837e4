//! Home: the channel that the connections of one owner share.

use std::time::Duration;

use serde_json::json;

use crate::{
    channel::{outbox, socket::Item},
    channel_type::ChannelType,
    doubles::{
        client::Client,
        engine::Play,
        world::{World, owner},
    },
    ids::ChannelId,
    retention::terms::Terms,
    router::{
        managing::{ChangeTopic, TopicPatch},
        sender::Sender,
    },
    spine::Spine,
};

fn world() -> World {
    World::new(|_| vec![Play::Say("Done."), Play::Answer])
}

/// A client that has the channel it was given.
fn settled(client: Client, item: Item) -> Client {
    match item {
        Item::Adopted(channel) => Client { channel, ..client },
        Item::NotAdopted => client,
        other => panic!("{other:?}"),
    }
}

/// A further device of the same person.
async fn device(world: &World, spine: &Spine, former: Option<&ChannelId>, seq: u64) -> Client {
    let client = world.connect(spine);
    client.go_home(former, seq);
    let item = client.item().await;
    settled(client, item)
}

/// CH-91, CH-160: whoever comes second finds it, though nothing was said yet.
#[actix::test]
async fn devices_share_a_channel_before_anything_was_said() {
    let world = world();
    let spine = world.start();

    let one = device(&world, &spine, None, 0).await;
    let other = device(&world, &spine, None, 0).await;
    one.say("m1", "water the garden");
    let (own, told) = (one.hear_end_of("m1").await, other.hear_end_of("m1").await);

    assert_eq!(one.channel, other.channel);
    assert_eq!(told[0], "user_message m1: water the garden");
    assert_eq!(told[1..], own);
}

/// CH-91: a connection that goes on with another channel leaves those alone that shared its former one.
#[actix::test]
async fn a_second_resume_leaves_the_other_connections_alone() {
    let world = world();
    let spine = world.start();
    let elsewhere = world.connect(&spine);
    elsewhere.say("m1", "pay the invoice");
    elsewhere.hear_end_of("m1").await;
    let one = device(&world, &spine, None, 0).await;
    let other = device(&world, &spine, None, 0).await;

    other.resume(&elsewhere.channel, 0);
    assert_eq!(other.item().await, Item::Adopted(elsewhere.channel.clone()));
    one.say("m2", "water the garden");
    let heard = one.hear_end_of("m2").await;
    // It may not know yet where it is.
    other.say("m3", "pay it twice");
    let further = other.hear_end_of("m3").await;

    assert_eq!(heard.last().unwrap(), "done m2: Done.");
    assert_eq!(further.last().unwrap(), "done m3: Done.");
    assert!(!further.iter().any(|frame| frame.contains("m2")), "{further:?}");
}

/// CH-160: there is one, however close together they come.
#[actix::test]
async fn devices_that_come_at_once_get_the_same_channel() {
    let world = world();
    let spine = world.start();
    let clients: Vec<Client> = (0..5).map(|_| world.connect(&spine)).collect();
    for client in &clients {
        client.go_home(None, 0);
    }

    let mut channels = Vec::new();
    for client in clients {
        let item = client.item().await;
        channels.push(settled(client, item).channel);
    }

    assert!(channels.iter().all(|channel| *channel == channels[0]), "{channels:?}");
    assert_eq!(world.disk.keys("chan").len(), 1);
}

/// CH-92, CH-160: it outlives the process, and its devices.
#[actix::test]
async fn a_shared_channel_is_the_same_in_the_next_process() {
    let world = world();
    let first = device(&world, &world.start(), None, 0).await;
    first.say("m1", "water the garden");
    first.hear_end_of("m1").await;
    let (channel, seq) = (first.channel.clone(), first.last_seq.get());

    let spine = world.start();
    let next = device(&world, &spine, Some(&channel), seq).await;
    let fresh = device(&world, &spine, None, 0).await;
    let replayed = fresh.hear_end_of("m1").await;

    assert_eq!((&next.channel, &fresh.channel), (&channel, &channel));
    next.hears_nothing_for(Duration::from_secs(60)).await;
    assert_eq!(replayed[0], "user_message m1: water the garden");
}

/// CH-160: a browser of a former version brings its channel along, and its topics with it.
#[actix::test]
async fn a_channel_that_a_device_had_before_becomes_the_shared_one() {
    let world = world();
    let spine = world.start();
    let old = world.connect(&spine);
    old.say("m1", "water the garden");
    old.hear_end_of("m1").await;

    let upgraded = device(&world, &spine, Some(&old.channel), old.last_seq.get()).await;
    let other = device(&world, &spine, None, 0).await;
    let late = world.connect(&spine);
    late.say("m2", "pay the invoice");
    late.hear_end_of("m2").await;
    let third = device(&world, &spine, Some(&late.channel), late.last_seq.get()).await;

    assert_eq!(upgraded.channel, old.channel);
    assert_eq!(other.channel, old.channel);
    // There is one already; the numbers of the other channel say nothing about it.
    assert_eq!(third.channel, old.channel);
    assert_eq!(third.hear().await, "user_message m1: water the garden");
}

/// CH-88: what a stranger proposes is not theirs, and each has their own.
#[actix::test]
async fn people_share_nothing() {
    let world = world();
    let spine = world.start();
    let mine = device(&world, &spine, None, 0).await;
    mine.say("m1", "water the garden");
    mine.hear_end_of("m1").await;

    let stranger = world.connect_as("stranger", &spine);
    stranger.go_home(Some(&mine.channel), 0);
    let item = stranger.item().await;
    let stranger = settled(stranger, item);
    let claimed = Sender {
        asserted_by: Some("someone".into()),
        ..Sender::of(&"alice".into(), ChannelType::Ws)
    };
    let claimed = world.connect_of(owner("someone"), claimed, &spine);
    claimed.go_home(None, 0);
    let refused = (claimed.item().await, claimed.hear().await);

    assert_ne!(stranger.channel, mine.channel);
    stranger.hears_nothing_for(Duration::from_secs(60)).await;
    assert_eq!(refused, (Item::NotAdopted, "error -: cannot_resume".to_owned()));
}

/// CH-92: a topic in which nothing was said for as long as history is kept goes, though its channel lives on; one that
/// somebody pinned stays.
#[actix::test]
async fn a_topic_of_a_channel_in_use_goes_with_its_history() {
    let world = world();
    let day = Duration::from_secs(24 * 60 * 60);
    *world.outside.keeps.terms.lock().unwrap() = Ok(Terms { tasks: 7 * day, ..Terms::default() });
    let spine = world.start();
    let client = world.connect(&spine);
    let mut topics = Vec::new();
    for (id, words) in [("m1", "/new water the garden"), ("m2", "/new pay the invoice")] {
        client.say(id, words);
        topics.push(client.topic_of(id).await);
        client.hear_end_of(id).await;
    }
    let change = TopicPatch { pinned: Some(true), ..TopicPatch::default() };
    let (channel, topic) = (client.channel.clone(), topics[1].as_str().into());
    spine.router.send(ChangeTopic { channel, topic, change }).await.unwrap().unwrap();

    tokio::time::sleep(6 * day).await;
    let before = world.disk.keys("topic/").len();
    tokio::time::sleep(3 * day).await;
    let deleted = loop {
        let mut frame = client.frame().await;
        if frame["deleted"][0].is_string() {
            break frame["deleted"].take();
        }
    };

    assert_eq!((before, deleted), (2, json!([topics[0]])));
    assert_eq!(world.disk.keys("topic/"), [format!("topic/{}/{}", client.channel, topics[1])]);
    assert_eq!(world.disk.keys("tchan/"), [format!("tchan/{}", topics[1])]);
    let of_garden = |key: &&String| key.contains(&topics[0]);
    assert_eq!(world.disk.keys("hist/").iter().find(of_garden), None);
    assert_eq!(world.disk.keys("chan/").len(), 1);
}

/// CH-92: one that nobody used for as long as history is kept is gone, and the next device begins another.
#[actix::test]
async fn a_shared_channel_that_is_forgotten_is_made_anew() {
    let world = world();
    let spine = world.start();
    let first = device(&world, &spine, None, 0).await;
    first.say("m1", "water the garden");
    first.hear_end_of("m1").await;
    first.close();
    tokio::time::sleep(Duration::from_secs(9 * 24 * 60 * 60)).await;
    let kinds = ["chan/", "topic/", "tchan/", "home/", "read/", "conv/", "msg/", "out/"];
    let left: Vec<String> = kinds.iter().flat_map(|kind| world.disk.keys(kind)).collect();

    let next = device(&world, &spine, Some(&first.channel), outbox::seq(1)).await;
    next.say("m2", "pay the invoice");
    let heard = next.hear_end_of("m2").await;

    assert_eq!(left, Vec::<String>::new());
    assert_ne!(next.channel, first.channel);
    assert_eq!(heard.last().unwrap(), "done m2: Done.");
}
