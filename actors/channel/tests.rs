//! The way out: resume, several connections, frames that nobody announced.

use std::{ops::ControlFlow, time::Duration};

use super::{renumber::Renumbering, *};
use crate::{
    channel::records::OutboxWrites,
    channel_type::ChannelType,
    doubles::{
        client::Client,
        disk::Disk,
        engine::{Play, seconds},
        world::World,
    },
    frame::{ErrorBody, Notification, Progress, ProgressKind},
    notice::{Notice, NoticeKind},
    router::{Inbound, sender::Sender},
    storage::{Batch, Order, Storage, StorageError},
    store::reads::Range,
    task::records as tasks,
};

fn world() -> World {
    World::new(|_| vec![seconds(10), Play::Say("Done."), Play::Answer])
}

fn notice(text: &str) -> Frame {
    Frame {
        topic: None,
        ts: crate::clock::Timestamp(1_000_000_000),
        body: Body::Notification(Notification {
            content: text.to_owned(),
            team: "main".into(),
            task_id: None,
            status: "done".to_owned(),
            kind: crate::frame::NotificationKind::Task,
            ref_id: None,
            truncated: false,
            files: Vec::new(),
            by: None,
        }),
    }
}

/// Stores frames without telling anyone.
async fn store(client: &Client, texts: &[&str]) -> Vec<Numbered> {
    let writes = texts
        .iter()
        .fold(Writes::new(), |writes, text| writes.frame(&client.channel, notice(text)));
    client.spine.store.commit(writes).await.unwrap()
}

async fn adopted(client: &Client, channel: &ChannelId) {
    assert_eq!(client.item().await, Item::Adopted(channel.clone()));
}

async fn contents(client: &Client, count: usize) -> Vec<String> {
    let mut contents = Vec::new();
    for _ in 0..count {
        let frame = client.frame().await;
        contents.push(frame["content"].as_str().unwrap().to_owned());
    }
    contents
}

/// CH-89, CH-90, CH-92
#[actix::test]
async fn a_client_that_comes_back_gets_what_it_missed_and_no_more() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.topic_of("m1").await;
    client.close();
    tokio::time::sleep(Duration::from_secs(60)).await;

    let next = world.connect(&spine);
    next.resume(&client.channel, client.last_seq.get());
    adopted(&next, &client.channel).await;
    let missed = next.hear().await;
    let again = world.connect(&spine);
    again.resume(&client.channel, 0);
    adopted(&again, &client.channel).await;
    let all = [again.hear().await, again.hear().await, again.hear().await];

    assert_eq!(missed, "done m1: Done.");
    // Another device of the same person may have had none of it.
    let expected =
        ["user_message m1: water the garden", "ack m1: Working on it.", "done m1: Done."];
    assert_eq!(all, expected);
    again.hears_nothing_for(Duration::from_secs(60)).await;
}

/// A further connection of a client's channel, as one that has all up to a number.
async fn join(world: &World, client: &Client, last_seq: u64) -> Client {
    let next = world.connect(&client.spine);
    next.resume(&client.channel, last_seq);
    adopted(&next, &client.channel).await;
    next.last_seq.set(last_seq);
    Client { channel: client.channel.clone(), ..next }
}

/// CH-91: each hears everything, and of what the other said.
#[actix::test]
async fn connections_of_one_channel_hear_the_same() {
    let world = world();
    let spine = world.start();
    let one = world.connect(&spine);
    one.say("m1", "water the garden");
    one.topic_of("m1").await;

    let other = join(&world, &one, one.last_seq.get()).await;
    let ends = (one.hear_end_of("m1").await, other.hear_end_of("m1").await);
    other.say("m2", "pay the invoice");
    let (told, answered) = (one.hear_end_of("m2").await, other.hear_end_of("m2").await);

    assert_eq!(ends.0, ends.1);
    assert_eq!(ends.0.last().unwrap(), "done m1: Done.");
    assert_eq!(told[0], "user_message m2: pay the invoice");
    // Whoever said it is not told of it; all else is the same.
    assert_eq!(told[1..], answered);
    assert_eq!(one.last_seq, other.last_seq);
    assert_eq!(spine.channel.send(CountConnections).await.unwrap(), 2);
}

/// CH-91: the words of one are there for another that comes later, also those whose topic took time.
#[actix::test]
async fn what_was_said_is_kept_for_connections_that_come_later() {
    let world = world();
    let spine = world.start();
    let one = world.connect(&spine);
    one.say("m1", "water the garden");
    one.hear_end_of("m1").await;
    one.say("m2", "/help");
    one.hear_end_of("m2").await;

    let other = join(&world, &one, 0).await;
    let heard = other.hear_end_of("m2").await;

    let said: Vec<_> = heard.iter().filter(|frame| frame.starts_with("user_message")).collect();
    assert_eq!(said, ["user_message m1: water the garden", "user_message m2: /help"]);
}

/// CH-91: what the others are told does not depend on when one of them comes or goes.
#[actix::test]
async fn whoever_comes_and_goes_disturbs_nobody() {
    let world = talkative();
    let spine = world.start();
    let one = world.connect(&spine);
    let mut shown = Vec::new();
    one.say("m1", "count");
    for _ in 0..20 {
        if read(&one, &mut shown, Duration::from_millis(400)).await {
            break;
        }
        let guest = join(&world, &one, 0).await;
        guest.close();
    }
    read(&one, &mut shown, Duration::from_secs(60)).await;

    assert_eq!(shown, ["One, two, three.", "<c1>", "Four, five, six."]);
    assert_eq!(spine.channel.send(CountConnections).await.unwrap(), 1);
}

/// CH-91: a connection that ends before it knows that it has joined holds no place.
#[actix::test]
async fn a_channel_has_sixteen_connections() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;
    for _ in 0..40 {
        let hasty = world.connect(&spine);
        hasty.resume(&client.channel, 0);
        hasty.close();
    }
    let mut guests = Vec::new();
    for _ in 1..MOST_CONNECTIONS {
        guests.push(join(&world, &client, 0).await);
    }

    let late = world.connect(&spine);
    late.resume(&client.channel, 0);
    let refused = late.item().await;
    guests.pop().unwrap().close();
    let next = join(&world, &client, 0).await;

    assert_eq!(refused, Item::Close(Closing::Crowded));
    next.hear_end_of("m1").await;
}

/// CH-91: a frame that cannot be read is answered where it came from, and ends no other connection.
#[actix::test]
async fn a_fault_of_one_connection_is_its_own() {
    let world = world();
    let spine = world.start();
    let one = world.connect(&spine);
    one.say("m1", "/help");
    one.hear_end_of("m1").await;
    let other = join(&world, &one, one.last_seq.get()).await;

    let error = ErrorBody::refusal("frame_too_large", "too large");
    other.send(Inbound::Malformed(error, Some(Closing::TooBig)));
    let told = (other.hear().await, other.item().await);
    one.say("m2", "/topics");
    let heard = one.hear_end_of("m2").await;

    let expected = "error -: frame_too_large".to_owned();
    assert_eq!(told, (expected, Item::Close(Closing::TooBig)));
    assert_eq!(heard.len(), 1, "{heard:?}");
}

/// CH-91: what was said over a connection is said by whoever is at its end.
#[actix::test]
async fn each_connection_speaks_for_its_own_sender() {
    let world = world();
    let spine = world.start();
    let sender = |name: &str| Sender {
        asserted_by: Some("bridge".into()),
        ..Sender::of(&name.into(), ChannelType::Ws)
    };
    let owner = || crate::identities::Owner {
        principal: "bridge".into(),
        grant: "bridge".into(),
        since: Timestamp::default(),
    };
    let alice = world.connect_of(owner(), sender("alice"), &spine);
    alice.say("m1", "water the garden");
    alice.hear_end_of("m1").await;
    let bob = world.connect_of(owner(), sender("bob"), &spine);
    bob.resume(&alice.channel, alice.last_seq.get());
    adopted(&bob, &alice.channel).await;

    alice.say("m2", "water the garden again");
    alice.hear_end_of("m2").await;

    let from = spine.store.read(|storage| {
        let mut from = Vec::new();
        tasks::each_ended(storage, Timestamp::default(), |_| true, &mut |_, task| {
            from.push(task.from);
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(from)
    });
    assert_eq!(from.await.unwrap(), ["alice", "alice"]);
}

/// CH-37: what cannot be read is not told as something that is not there.
#[actix::test]
async fn a_store_that_cannot_be_read_ends_the_connection() {
    let world = world();
    let storage = world.disk.mount(None);
    let spine = world.start_on(storage.clone());
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;

    storage.fail_scans(Some(b"out\0"));
    let next = world.connect(&spine);
    next.resume(&client.channel, 0);
    let unread = next.item().await;
    storage.fail_scans(None);

    assert_eq!(unread, Item::Close(Closing::Internal));
}

/// CH-88, CH-90
#[actix::test]
async fn a_channel_that_is_not_ones_own_cannot_be_resumed() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.topic_of("m1").await;
    let newest = client.last_seq.get();

    let stranger = world.connect_as("stranger", &spine);
    stranger.resume(&client.channel, 0);
    let foreign = (stranger.item().await, stranger.hear().await);
    let mine = world.connect(&spine);
    mine.resume(&"ws:unknown".into(), 0);
    let unknown = (mine.item().await, mine.hear().await);
    mine.resume(&client.channel, newest + outbox::seq(1));
    let ahead = (mine.item().await, mine.hear().await);
    mine.say("m1", "pay the invoice");
    let usable = mine.hear_end_of("m1").await;

    let refused = |code: &str| (Item::NotAdopted, format!("error -: {code}"));
    assert_eq!(foreign, refused("cannot_resume"));
    assert_eq!(unknown, refused("cannot_resume"));
    assert_eq!(ahead, refused("bad_resume"));
    assert_eq!(usable.last().unwrap(), "done m1: Done.");
}

/// A disk as a restore makes it from a backup.
fn restored(backup: &Disk, at: Timestamp) -> Disk {
    let disk = backup.copied();
    let storage = disk.mount(None);
    let mut numbers = Renumbering::default();
    let mut visit = |key: &[u8], _: Result<&[u8], StorageError>| {
        numbers.saw(key);
        ControlFlow::Continue(())
    };
    storage.scan(b"", b"\xff", Order::Rising, &mut visit).unwrap();
    let records = numbers.records(at).map(Result::unwrap);
    let changes: Vec<_> = records.map(|(key, value)| (key, Some(value))).collect();
    storage.commit(&Batch::from(changes)).unwrap();
    disk
}

/// SC-110, CH-85: numbers that clients have seen since the backup are not given again, so that nobody
/// takes a new frame for one that they have.
#[actix::test]
async fn after_a_restore_no_frame_has_a_number_that_was_seen() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    let backup = world.disk.copied();
    client.say("m2", "water the garden again");
    client.hear_end_of("m2").await;
    let seen = client.last_seq.get();

    let disk = restored(&backup, world.clock.now());
    let spine = world.start_on(disk.mount(None));
    let elsewhere = world.connect(&spine);
    elsewhere.resume(&client.channel, outbox::seq(1));
    adopted(&elsewhere, &client.channel).await;
    for message in ["m3", "m4"] {
        let elsewhere = Client {
            channel: client.channel.clone(),
            socket: elsewhere.socket.clone(),
            spine: spine.clone(),
            last_seq: std::cell::Cell::new(elsewhere.last_seq.get()),
        };
        elsewhere.say(message, "water the garden once more");
        elsewhere.hear_end_of(message).await;
    }
    let next = world.connect(&spine);
    next.resume(&client.channel, seen);
    adopted(&next, &client.channel).await;
    next.last_seq.set(seen);
    let note = next.frame().await;
    let mut heard = next.hear_end_of("m3").await;
    heard.extend(next.hear_end_of("m4").await);

    assert_eq!((&note["kind"], &note["gap"]["dropped"]), (&"note".into(), &0.into()));
    assert_eq!(note["gap"]["to_seq"], note["seq"]);
    let ends: Vec<_> = heard.iter().filter(|line| line.starts_with("done")).collect();
    assert_eq!(ends, ["done m3: Done.", "done m4: Done."]);
}

/// CH-86: what is stored arrives, also if whoever stored it died before it could say so.
#[actix::test]
async fn frames_that_nobody_announced_are_looked_up() {
    let world = world();
    let client = world.connect(&world.start());
    let stored = store(&client, &["one", "two", "three"]).await;

    let last = stored[2..].to_vec();
    client.spine.channel.do_send(Deliver { frames: last });
    let heard = contents(&client, 3).await;
    client.spine.channel.do_send(Deliver { frames: stored });
    store(&client, &["four"]).await;
    client.spine.channel.do_send(Recheck { channel: client.channel.clone() });
    let more = contents(&client, 1).await;

    assert_eq!(heard, ["one", "two", "three"]);
    assert_eq!(more, ["four"]);
    client.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-85: a lookup that races with the announcement sends nothing twice, and a fruitless one resets
/// no number.
#[actix::test]
async fn a_lookup_and_an_announcement_do_not_double_frames() {
    let world = world();
    let client = world.connect(&world.start());
    let stored = store(&client, &["one", "two"]).await;

    let channel = client.channel.clone();
    client.spine.channel.do_send(Recheck { channel: channel.clone() });
    client.spine.channel.do_send(Deliver { frames: stored });
    let heard = contents(&client, 2).await;
    client.send(Inbound::TopicList);
    client.frame().await;
    client.spine.channel.do_send(Recheck { channel });
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.send(Inbound::TopicList);
    client.frame().await;

    assert_eq!(heard, ["one", "two"]);
    client.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-90: only a resume confirms. A lookup in between leaves the store alone.
#[actix::test]
async fn a_lookup_confirms_nothing() {
    let world = world();
    let client = world.connect(&world.start());
    let stored = store(&client, &["one", "two", "three"]).await;
    client.spine.channel.do_send(Deliver { frames: stored[..1].to_vec() });
    client.spine.channel.do_send(Deliver { frames: stored[2..].to_vec() });
    contents(&client, 3).await;

    tokio::time::sleep(Duration::from_secs(5)).await;

    assert_eq!(world.disk.keys("out").len(), 3);
}

/// CH-86, CH-89: a frame that is stored while the outbox is being read for a client is not lost.
#[actix::test]
async fn a_frame_stored_during_a_resume_arrives() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;
    let socket = Arc::new(Socket::new(1_000));
    let last_seq = client.last_seq.get();
    let stored = store(&client, &["two"]).await;
    let storage = client.spine.store.clone();
    let channel = client.channel.clone();
    // As if the row was not there yet when the outbox was read.
    let gone = Writes::new().drop_frames(&channel, [stored[0].ordinal]);
    storage.commit(gone).await.unwrap();

    let next = Client {
        spine: spine.clone(),
        channel: channel.clone(),
        socket: socket.clone(),
        last_seq: std::cell::Cell::new(last_seq),
    };
    spine.channel.do_send(Adopt { channel, socket, last_seq });
    spine.channel.do_send(Deliver { frames: stored });
    adopted(&next, &client.channel).await;

    assert_eq!(contents(&next, 1).await, ["two"]);
}

/// CH-45, CH-79: an answer that is given while the outbox is being read for a client is not lost, nor is what is wrong with
/// something that it sent.
#[actix::test]
async fn an_answer_during_a_resume_arrives() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;
    let (channel, last_seq) = (client.channel.clone(), client.last_seq.get());
    let socket = Arc::new(Socket::new(1_000));
    let next = Client {
        spine: spine.clone(),
        channel: channel.clone(),
        socket: socket.clone(),
        last_seq: std::cell::Cell::new(last_seq),
    };

    spine.channel.do_send(Adopt { channel: channel.clone(), socket, last_seq });
    spine.channel.do_send(Tell { channel: channel.clone(), frame: notice("to all") });
    spine.channel.do_send(Reply { channel, connection: 1_000, frame: notice("to one") });
    adopted(&next, &client.channel).await;

    assert_eq!(contents(&next, 2).await, ["to all", "to one"]);
    assert_eq!(contents(&client, 1).await, ["to all"]);
}

/// CH-145: a chat network is no client. It is not counted with them, nor sent away with them.
#[actix::test]
async fn a_chat_network_is_not_a_client() {
    let world = world();
    let spine = world.start();
    let socket = Arc::new(Socket::of_network());
    let channel: ChannelId = "42".into();
    let adopt = Adopt { channel: channel.clone(), socket: socket.clone(), last_seq: 0 };
    spine.channel.send(adopt).await.unwrap();
    assert_eq!(socket.next().await, Item::Adopted(channel.clone()));

    let counted = spine.channel.send(CountConnections).await.unwrap();
    let closed = spine.channel.send(Reconnect).await.unwrap();
    spine.channel.send(Forget { channel }).await.unwrap();

    assert_eq!((counted, closed), (0, 0));
    // Its numbers begin anew, so that it has to come again.
    assert_eq!(socket.next().await, Item::Close(Closing::Reconnect));
}

async fn notices(spine: &crate::spine::Spine) -> Vec<Notice> {
    let read = spine.store.read(|storage| {
        let mut notices = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| notices.push(notice))?;
        Ok(notices)
    });
    read.await.unwrap()
}

/// Tells a channel that nobody listens to so many things.
async fn tell(world: &World, client: &Client, count: usize) {
    let frame = |number: usize| {
        let mut frame = notice("so");
        frame.ts = world.clock.now();
        if let Body::Notification(body) = &mut frame.body {
            body.task_id = Some(format!("task-{number}").as_str().into());
        }
        frame
    };
    let writes = (0..count)
        .fold(Writes::new(), |writes, number| writes.frame(&client.channel, frame(number)));
    let frames = client.spine.store.commit(writes).await.unwrap();
    client.spine.channel.do_send(Deliver { frames });
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// CH-87, OP-39: an outbox that nobody reads is bounded too, and what it drops is reported with what
/// it was about, in one notice. What the client had before is not.
#[actix::test]
async fn what_nobody_had_is_reported_when_it_is_dropped() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "/help");
    client.frame().await;
    client.close();
    tokio::time::sleep(Duration::from_secs(1)).await;

    tell(&world, &client, 998).await;
    let pending = client.spine.channel.send(CountPending).await.unwrap();
    let before = notices(&client.spine).await;
    tell(&world, &client, 1).await;
    let told = notices(&client.spine).await;

    assert_eq!((before, pending), (Vec::new(), 998));
    let [told] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert_eq!(told.kind, NoticeKind::Undelivered);
    assert!(told.text.starts_with("63 answers"), "{}", told.text);
    assert!(told.text.contains(client.channel.as_str()), "{}", told.text);
    assert_eq!(told.refs[..2], ["task-0", "task-1"]);
    assert_eq!(world.disk.keys("out").len(), 936);
}

/// CH-87: what is fetched is kept within the same bounds, and is not undelivered.
#[actix::test]
async fn what_is_fetched_is_dropped_without_a_word() {
    let world = world();
    let sender = Sender::of(&"operator".into(), ChannelType::Cli);
    let client = world.connect_by(sender, &world.start());
    client.say("m1", "/help");
    client.frame().await;
    client.close();
    tokio::time::sleep(Duration::from_secs(1)).await;

    tell(&world, &client, 1_000).await;

    assert_eq!(world.disk.keys("out").len(), 936);
    assert_eq!(notices(&client.spine).await, Vec::new());
    let pending = client.spine.channel.send(CountPending).await.unwrap();
    assert_eq!(pending, 0);
}

/// CH-87, CH-89: whoever comes back gets what is left, and hears of the gap.
#[actix::test]
async fn a_client_that_comes_back_late_gets_what_is_left() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;
    client.close();
    tokio::time::sleep(Duration::from_secs(1)).await;
    tell(&world, &client, 1_000).await;

    let next = world.connect(&spine);
    next.resume(&client.channel, client.last_seq.get());
    adopted(&next, &client.channel).await;
    let note = next.frame().await;
    let rest = contents(&next, 936).await;

    assert_eq!(note["gap"]["dropped"], 64);
    assert_eq!(rest.len(), 936);
    next.hears_nothing_for(Duration::from_secs(60)).await;
}

/// CH-89
#[actix::test]
async fn a_gap_is_reported_with_its_numbers() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "/help");
    client.frame().await;
    store(&client, &["two", "three", "four"]).await;
    let lost = Writes::new().drop_frames(&client.channel, [3, 4]);
    spine.store.commit(lost).await.unwrap();

    let next = world.connect(&spine);
    next.resume(&client.channel, client.last_seq.get());
    adopted(&next, &client.channel).await;
    let note = next.frame().await;
    let rest = contents(&next, 1).await;

    assert_eq!(note["gap"]["from_seq"], outbox::seq(3));
    assert_eq!(note["gap"]["to_seq"], outbox::seq(4));
    assert_eq!(note["gap"]["dropped"], 2);
    assert_eq!(note["seq"], note["gap"]["to_seq"]);
    assert_eq!(rest, ["four"]);
}

/// Two steps with a tool call between them, said in the course of ten seconds.
fn talkative() -> World {
    World::new(|request| match request.step {
        1 => vec![
            Play::Say("One, "),
            seconds(2),
            Play::Say("two, "),
            seconds(2),
            Play::Say("three."),
            Play::EndText,
            Play::Call(vec![("c1", "look")]),
        ],
        _ => vec![
            Play::Say("Four, "),
            seconds(2),
            Play::Say("five, "),
            seconds(4),
            Play::Say("six."),
            seconds(1),
            Play::Answer,
        ],
    })
}

/// Shows a frame as a client does: text in pieces, parted by calls.
fn show(shown: &mut Vec<String>, frame: &serde_json::Value) {
    let content = frame["content"].as_str().unwrap();
    match frame["kind"].as_str() {
        Some("text_delta") => {
            let text = shown.last_mut().filter(|last| !last.starts_with('<'));
            match (text, frame["snapshot"] == true) {
                (Some(text), true) => *text = content.to_owned(),
                (Some(text), false) => text.push_str(content),
                (None, _) => shown.push(content.to_owned()),
            }
        }
        Some("tool_call") => shown.push(format!("<{}>", frame["call_id"].as_str().unwrap())),
        // The answer completes what was said last.
        None if frame["type"] == "response" => match shown.last_mut() {
            Some(last) if content.starts_with(last.as_str()) => *last = content.to_owned(),
            _ => shown.push(content.to_owned()),
        },
        _ => {}
    }
}

/// Reads for a while, or until the answer is there.
async fn read(client: &Client, shown: &mut Vec<String>, time: Duration) -> bool {
    let end = tokio::time::Instant::now() + time;
    while let Ok(frame) = tokio::time::timeout_at(end, client.frame()).await {
        show(shown, &frame);
        if frame["type"] == "response" {
            return true;
        }
    }
    false
}

/// CH-159, OP-67: what was said meanwhile stands where it was said, in one piece.
#[actix::test]
async fn a_client_that_comes_back_in_the_middle_gets_the_text_it_missed() {
    let world = talkative();
    let spine = world.start();
    let client = world.connect(&spine);
    client.say("m1", "count");
    let mut before = Vec::new();
    read(&client, &mut before, Duration::from_secs(1)).await;
    client.close();
    tokio::time::sleep(Duration::from_secs(7)).await;

    let next = world.connect(&spine);
    next.resume(&client.channel, client.last_seq.get());
    adopted(&next, &client.channel).await;
    let mut heard = Vec::new();
    for _ in 0..6 {
        let frame = next.frame().await;
        let whole = if frame["snapshot"] == true { "whole " } else { "" };
        heard.push(format!("{whole}{}", crate::doubles::client::short(&frame)));
    }

    assert_eq!(before, ["One, "]);
    assert_eq!(
        heard,
        [
            "whole delta m1: One, two, three.",
            "tool_call m1: c1",
            "tool_result m1: c1",
            "whole delta m1: Four, five, ",
            "delta m1: six.",
            "done m1: Four, five, six.",
        ]
    );
}

/// CH-159, OP-67: wherever the connection breaks, and however long it is away, nothing that was
/// said is missing or doubled before the end.
#[actix::test]
async fn no_break_of_the_connection_leaves_a_hole_in_the_text() {
    for broken_at in (0..44).map(|quarter| Duration::from_millis(100 + 250 * quarter)) {
        for away in [0, 20, 700, 3_000, 30_000].map(Duration::from_millis) {
            let world = talkative();
            let spine = world.start();
            let mut client = world.connect(&spine);
            let mut shown = Vec::new();
            client.say("m1", "count");
            let mut ended = read(&client, &mut shown, broken_at).await;
            // A second break, soon after the first.
            for pause in [Duration::from_millis(300), Duration::from_secs(60)] {
                if ended {
                    break;
                }
                client.close();
                tokio::time::sleep(away).await;
                let next = world.connect(&spine);
                next.resume(&client.channel, client.last_seq.get());
                adopted(&next, &client.channel).await;
                next.last_seq.set(client.last_seq.get());
                let channel = client.channel.clone();
                client = Client { channel, ..next };
                ended = read(&client, &mut shown, pause).await;
            }

            assert!(ended, "{broken_at:?} {away:?}");
            assert_eq!(
                shown,
                ["One, two, three.", "<c1>", "Four, five, six."],
                "{broken_at:?} {away:?}"
            );
        }
    }
}

/// What is held for channels that nobody listens to is let go when they have been quiet for long.
#[actix::test]
async fn quiet_channels_are_let_go() {
    let world = world();
    let spine = world.start();
    let mut channel = Channel::new(
        spine.store.clone(),
        world.clock.clone(),
        Ids::new(std::sync::Arc::new(crate::doubles::entropy::Sequence::from(0))),
    );
    let piece = |task: &str| Frame {
        topic: None,
        ts: Timestamp(1_000_000_000),
        body: Body::Progress(Progress {
            task_id: Some(task.into()),
            ..Progress::new(ProgressKind::TextDelta, "one")
        }),
    };
    let end = |task: &str| Frame {
        body: Body::Error(ErrorBody {
            task_id: Some(task.into()),
            ..ErrorBody::refusal("stopped", "it was stopped")
        }),
        ..piece(task)
    };
    for (id, has_ended) in [("ended", true), ("open", false)] {
        let partial_output = channel.partial_output.entry(id.into()).or_default();
        let frame = piece(id);
        partial_output.said(&frame, partial_output::text(&frame).unwrap());
        if has_ended {
            partial_output.stored(1, &end(id));
        }
        let mut offline = OfflineChannel { loaded: true, ..OfflineChannel::default() };
        offline.outbox.keep(1, 100, &end(id));
        channel.offline.insert(id.into(), offline);
    }
    let held = |channel: &Channel| {
        let mut partial_output: Vec<_> =
            channel.partial_output.keys().map(ToString::to_string).collect();
        partial_output.sort();
        (partial_output, channel.offline.len())
    };
    let after = |seconds| Timestamp(1_000_000_000) + Duration::from_secs(seconds);

    channel.forget_quiet(after(60));
    assert_eq!(held(&channel), (vec!["ended".to_owned(), "open".to_owned()], 2));
    channel.forget_quiet(after(3_600));
    assert_eq!(held(&channel), (vec!["open".to_owned()], 2));
    channel.forget_quiet(after(90_000));
    assert_eq!(held(&channel), (Vec::new(), 0));
}
