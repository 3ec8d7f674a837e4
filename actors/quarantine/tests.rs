//! Damaged records, met by a whole spine.

use std::time::Duration;

use super::*;
use crate::{
    channel::records::{self as outboxes, ChannelRow},
    doubles::{
        client::Client,
        disk::{self, Crash, Disk},
        engine::Play,
        world::World,
    },
    ids::{TeamKey, TriggerId},
    inbox,
    journal::records::Piece,
    router::records::{self as conversations, Undecided},
    scheduler::{
        manage,
        records::{runs, runs_of},
        tests::stage::cron,
    },
    spine::Spine,
    storage::Batch,
    store::{
        keys::key_of,
        reads::{Range, scan, scan_keyed},
    },
    task::{
        outcome::Ending,
        records::{self as tasks, LaneKey},
    },
};

fn world() -> World {
    World::new(|_| vec![Play::Say("Fine."), Play::Answer])
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

/// All frames that a client that returns finds, each once.
async fn heard(world: &World, spine: &Spine, before: &Client) -> Vec<String> {
    let client = world.connect(spine);
    client.resume(&before.channel, before.last_seq.get());
    settle().await;
    let mut heard = Vec::new();
    while let Ok(item) = tokio::time::timeout(Duration::from_millis(1), client.socket.next()).await
    {
        heard.push(client.note(item));
    }
    heard
}

fn kinds(world: &World) -> Vec<NoticeKind> {
    let storage = world.disk.mount(None);
    let mut kinds: Vec<_> =
        disk::notices(&*storage).unwrap().into_iter().map(|notice| notice.kind).collect();
    kinds.sort_by_key(|kind| format!("{kind:?}"));
    kinds
}

/// A process that died with an accepted message, and the client that sent it.
async fn died_with_a_task(world: &World) -> Client {
    let client = world.connect(&world.start_doomed(Crash::After(0)));
    client.say("m1", "water the garden");
    settle().await;
    assert_eq!(world.disk.keys("task/").len(), 1);
    client
}

fn only_task(world: &World) -> Task {
    let id = world.disk.keys("done/").remove(0)["done/".len()..].to_owned();
    let storage = world.disk.mount(None);
    tasks::find(&*storage, &id.as_str().into()).unwrap().unwrap()
}

/// SC-112: accepted work never vanishes, whatever became of its record.
#[actix::test]
async fn a_task_whose_record_is_gone_ends_and_everyone_is_told() {
    let world = world();
    let client = died_with_a_task(&world).await;
    world.disk.damage("task/");

    let frames = heard(&world, &world.start(), &client).await;

    assert!(frames.contains(&"error m1: internal".to_owned()), "{frames:?}");
    assert_eq!(world.disk.keys("task/"), Vec::<String>::new());
    let outcome = only_task(&world).outcome.unwrap();
    assert_eq!(outcome.ending, Ending::Dead);
    assert!(outcome.message.unwrap().contains("lost"));
    assert_eq!(kinds(&world), [NoticeKind::DamagedRecord, NoticeKind::DeadTask]);
    let kept = quarantined(&*world.disk.mount(None)).unwrap();
    assert_eq!(kept.len(), 1);
    assert!(kept[0].record.starts_with("task/"), "{kept:?}");
    assert_eq!(kept[0].text, "?");
}

/// SC-112: what can still be read of a task is kept with it and shown to the operator.
#[actix::test]
async fn what_can_be_read_of_a_damaged_task_is_kept() {
    let world = world();
    let client = died_with_a_task(&world).await;
    world.disk.replace("task/", "\"attempts\":", "\"attempts\":#");

    let frames = heard(&world, &world.start(), &client).await;

    assert!(frames.contains(&"error m1: internal".to_owned()), "{frames:?}");
    let task = only_task(&world);
    assert_eq!(task.body, "water the garden");
    assert!(task.lane.topic.is_some());
    let notices = disk::notices(&*world.disk.mount(None)).unwrap();
    let damaged = |notice: &&Notice| notice.kind == NoticeKind::DamagedRecord;
    let told = &notices.iter().find(damaged).unwrap().text;
    assert!(told.contains("water the garden"), "{told}");
}

/// SC-112: a second start tells nobody again.
#[actix::test]
async fn a_damaged_record_is_told_of_once() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    settle().await;
    world.disk.damage("chan/");

    for _ in 0..2 {
        let spine = world.start();
        let read = spine
            .store
            .read(|storage| scan_keyed::<ChannelRow>(storage, Range::all()))
            .await
            .unwrap();
        settle().await;
        assert_eq!(read, []);
        assert_eq!(kinds(&world), [NoticeKind::DamagedRecord]);
    }
    assert_eq!(world.disk.keys("chan/").len(), 1, "it stays where it is");
}

/// SC-112: a message that had no topic yet is told to be lost, and may be sent again.
#[actix::test]
async fn a_message_without_a_topic_is_told_to_be_lost() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    settle().await;
    let row = Undecided {
        channel: client.channel.clone(),
        id: "m2".into(),
        sender: "ann".to_owned(),
        content: "water the garden".to_owned(),
        topic: None,
        at: Timestamp(1),
        acked: false,
        told: false,
        named: true,
        admission: None,
        label: Label::Trusted,
        cause: None,
        notify: None,
        team: None,
        steers: false,
        files: Vec::new(),
    };
    let stored = Writes::new().put(&row).batch().unwrap();
    world.disk.mount(None).commit(&stored).unwrap();
    world.disk.damage("und/");

    let spine = world.start();
    let frames = heard(&world, &spine, &client).await;

    assert!(frames.contains(&"error m2: internal".to_owned()), "{frames:?}");
    assert_eq!(world.disk.keys("und/"), Vec::<String>::new());
}

/// SC-112: an event is shown as lost.
#[actix::test]
async fn an_event_that_is_damaged_is_shown_as_lost() {
    let world = world();
    let lane = Lane { team: "ops".into(), topic: None };
    let event = InboxEvent {
        id: "e1".to_owned(),
        text: "The well is dry.".to_owned(),
        label: Label::Untrusted,
        at: Timestamp(1),
        audience: None,
    };
    let stored = Writes::new().put_at(&(LaneKey::new(&lane, 1), 7), &event).batch().unwrap();
    world.disk.mount(None).commit(&stored).unwrap();
    world.disk.damage("inbox/");

    let spine = world.start();
    let asked = lane.clone();
    let read = move |storage: &dyn Storage| inbox::waiting(storage, &asked, 1);
    let first = spine.store.read(read.clone()).await.unwrap();
    settle().await;
    let then = spine.store.read(read).await.unwrap();

    assert_eq!(first, []);
    assert_eq!(then.len(), 1);
    assert!(then[0].1.text.contains("is lost"), "{then:?}");
}

/// SC-112: no reader passes over a record in silence.
#[actix::test]
async fn every_reader_reports_what_it_cannot_read() {
    let world = world();
    let client = world.connect(&world.start());
    client.say("m1", "water the garden");
    client.hear_end_of("m1").await;
    settle().await;
    let channel = client.channel.clone();
    type Read = Box<dyn Fn(&dyn Storage)>;
    let readers: Vec<(&str, Read)> = vec![
        ("chan/", Box::new(|storage| drop(scan_keyed::<ChannelRow>(storage, Range::all())))),
        ("topic/", Box::new(|storage| drop(conversations::each_topic(storage, &mut |_, _| {})))),
        ("msg/", {
            let channel = channel.clone();
            Box::new(move |storage| drop(conversations::messages(storage, &channel)))
        }),
        ("out/", {
            let channel = channel.clone();
            Box::new(move |storage| drop(outboxes::outbox(storage, &channel)))
        }),
        (
            "done/",
            Box::new(|storage| {
                let every = |_: &_| true;
                drop(tasks::ended(storage, Timestamp::default(), 9, every, |_| true));
            }),
        ),
        (
            "hist/",
            Box::new(|storage| {
                drop(scan::<Piece<'_>>(storage, Range::all()));
            }),
        ),
    ];
    for (prefix, read) in readers {
        assert!(!world.disk.keys(prefix).is_empty(), "{prefix}");
        world.disk.damage(prefix);
        let storage = world.disk.mount(None);

        read(&*storage);

        let reported = storage.damage_reports().unwrap().take();
        assert!(!reported.is_empty(), "{prefix}");
    }
}

/// SC-112: no single record keeps the service from starting.
#[actix::test]
async fn a_start_gets_past_a_damaged_record_of_any_kind() {
    let world = World::new(|_| vec![Play::Hang]);
    let client = died_with_a_task(&world).await;
    let spine = world.start();
    let create = manage::Create {
        team: TeamKey::first("news"),
        definition: cron("scan", "*"),
        enable: true,
        by: "main".to_owned(),
    };
    spine.scheduler.send(create).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    settle().await;
    let kinds: HashSet<String> = world
        .disk
        .keys("")
        .into_iter()
        .map(|key| match key.strip_prefix("edge/").and_then(|rest| rest.split_once('/')) {
            Some((kind, _)) => format!("edge/{kind}/"),
            None => format!("{}/", key.split('/').next().unwrap_or_default()),
        })
        .collect();
    for kind in ["chan/", "msg/", "task/", "edge/trigger/", "edge/run/", "edge/run.open/"] {
        assert!(kinds.contains(kind), "{kind} {kinds:?}");
    }

    for kind in kinds {
        let disk = world.disk.copied();
        disk.damage(&kind);
        let recovered = crate::spine::recover(&*disk.mount(None));
        assert!(recovered.is_ok(), "{kind}");
        crate::live::boot_counter::next(&*disk.mount(None)).unwrap();
    }
    drop(client);
}

/// SC-112: one damaged end hides no other.
#[actix::test]
async fn a_list_of_ended_tasks_goes_on_past_a_damaged_one() {
    let world = world();
    let client = world.connect(&world.start());
    for message in ["m1", "m2"] {
        client.say(message, "water the garden");
        client.hear_end_of(message).await;
    }
    settle().await;
    let first = world.disk.keys("done/").remove(0);
    world.disk.damage(&first);

    let storage = world.disk.mount(None);
    let every = |_: &_| true;
    let found = tasks::ended(&*storage, Timestamp::default(), 9, every, |_| true).unwrap();

    assert_eq!(found.len(), 1);
}

/// SC-112: the copy of a record with the longest key has a key that the storage takes.
#[test]
fn the_copy_of_a_record_with_a_long_key_has_a_key_of_its_own() {
    let long = |end: u8| [vec![b'k'; 1_023], vec![end]].concat();
    let key = |record: Vec<u8>| key_of(Quarantined::KIND, &RecordKey::of(&record));

    let (one, other) = (key(long(b'a')), key(long(b'b')));

    assert_ne!(one, other);
    assert!(one.len() <= 1_024, "{}", one.len());
}

/// SC-112: a list of runs goes on past a damaged one, which is reported.
#[test]
fn a_damaged_run_of_a_trigger_is_reported() {
    let (team, trigger) = (TeamKey::first("news"), TriggerId::from("trg-1"));
    let (mut key, _) = runs_of(&team, &trigger, None).bounds();
    key.push(b'1');
    let storage = Disk::default().mount(None);
    let changes = vec![(key, Some(b"{".to_vec()))];
    storage.commit(&Batch::from(changes)).unwrap();

    let runs = runs(&*storage, &team, &trigger, None, 9).unwrap();

    assert!(runs.is_empty());
    assert_eq!(storage.damage_reports().unwrap().take().len(), 1);
}
