//! The store: groups, guards, numbers.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use actix::Arbiter;

use super::*;
use crate::{
    budget::records::ended_tally,
    channel::records::{self as outboxes, OutboxRow, OutboxWrites},
    clock::Timestamp,
    doubles::disk::{Crash, Disk, MemoryStorage},
    frame::{Body, Frame, Progress, ProgressKind},
    ids::{ChannelId, MessageId},
    store::{
        keys::{key_of, prefix_of},
        records::Record,
    },
    task::{
        Lane, Task,
        records::{FinishedTask, LaneKey},
    },
};

struct Opened {
    store: StoreHandle,
    storage: Arc<MemoryStorage>,
    failures: Arc<AtomicUsize>,
    groups: Arc<Mutex<Vec<usize>>>,
}

fn open(disk: &Disk, crash: Option<Crash>) -> Opened {
    let storage = disk.mount(crash);
    let (failures, groups) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<_>>>::default());
    let (failed, grouped) = (failures.clone(), groups.clone());
    let parts = StoreParts {
        on_failure: Box::new(move |_| {
            failed.fetch_add(1, Ordering::Relaxed);
        }),
        on_group: Box::new(move |requests, _| grouped.lock().unwrap().push(requests)),
        ..StoreParts::of(storage.clone())
    };
    let store = Store::start(&Arbiter::current(), parts);
    Opened { store, storage, failures, groups }
}

fn key(name: &str) -> Vec<u8> {
    keys::key_of("edge\0test", name)
}

fn row(name: &str) -> Writes {
    Writes::new().put_json(key(name), &1)
}

fn frame(text: &str) -> Frame {
    Frame {
        topic: None,
        ts: Timestamp(0),
        body: Body::Progress(Progress::new(ProgressKind::Note, text)),
    }
}

fn task(lease: Option<&str>) -> Task {
    Task {
        arrival: 1,
        deadline_at: Timestamp(1),
        attempts: 1,
        lease: lease.map(Into::into),
        ..Task::new(
            "task-1".into(),
            Lane { team: "main".into(), topic: None },
            String::new(),
            String::new(),
            Timestamp(0),
        )
    }
}

/// SC-98, SC-102: what gathered is one commit, and nobody is answered before it.
#[actix::test]
async fn many_requests_are_one_commit_and_are_answered_after_it() {
    let opened = open(&Disk::default(), None);

    let answers: Vec<_> =
        (0..100).map(|number| opened.store.commit(row(&number.to_string()))).collect();
    let before = opened.storage.commits();
    for answer in answers {
        assert_eq!(answer.await, Ok(Vec::new()));
        assert_eq!(opened.storage.commits(), 1);
    }

    assert_eq!(before, 0);
    assert_eq!(*opened.groups.lock().unwrap(), [100]);
    assert_eq!(opened.storage.batches()[0].changes.len(), 100);
}

/// SC-102
#[actix::test]
async fn a_group_holds_at_most_512_requests_or_a_megabyte() {
    let opened = open(&Disk::default(), None);
    let large = |name: &str| Writes::new().put_json(key(name), &"x".repeat(600 * 1024));

    let many: Vec<_> = (0..600).map(|_| opened.store.commit(row("a"))).collect();
    futures_util::future::join_all(many).await;
    let two = ["a", "b", "c"].map(|name| opened.store.commit(large(name)));
    futures_util::future::join_all(two).await;

    assert_eq!(*opened.groups.lock().unwrap(), [512, 88, 2, 1]);
}

/// OR-75, SC-102: an old lease is refused, and no other request of the group with it.
#[actix::test]
async fn a_result_under_an_old_lease_is_refused_alone() {
    let opened = open(&Disk::default(), None);
    let (old, new) = ("lease-1".into(), "lease-2".into());
    let id = TaskId::from("task-1");

    let first = opened.store.commit(Writes::new().put(&task(Some("lease-1"))));
    let second = opened.store.commit(Writes::new().put(&task(Some("lease-2"))));
    let refused = opened.store.commit(row("old").under_lease(&id, &old));
    let taken = opened.store.commit(row("new").under_lease(&id, &new));
    let finished = opened.store.commit(Writes::new().put(&FinishedTask::of(&task(None))));
    let late = opened.store.commit(row("late").under_lease(&id, &new));
    let answers =
        [first.await, second.await, refused.await, taken.await, finished.await, late.await];

    let lost = || Err(StoreError::LeaseLost(id.clone()));
    let done = || Ok(Vec::new());
    assert_eq!(answers, [done(), done(), lost(), done(), done(), lost()]);
    assert_eq!(opened.storage.commits(), 1);
    let kept: Vec<_> = opened.storage.batches()[0]
        .changes
        .iter()
        .filter(|(key, _)| key.starts_with(b"edge"))
        .map(|(key, _)| keys::printable(key))
        .collect();
    assert_eq!(kept, ["edge/test/new"]);
}

/// A lease of a former process is good no more.
#[actix::test]
async fn leases_do_not_outlive_their_process() {
    let disk = Disk::default();
    let first = open(&disk, None);
    let leased = first.store.commit(Writes::new().put(&task(Some("lease-1"))));
    leased.await.unwrap();

    let second = open(&disk, None);
    let refused = second.store.commit(row("a").under_lease(&"task-1".into(), &"lease-1".into()));

    assert_eq!(refused.await, Err(StoreError::LeaseLost("task-1".into())));
}

/// CH-85: each channel counts for itself, without gaps, also over restarts and refusals.
#[actix::test]
async fn ordinals_go_on_without_gaps() {
    let disk = Disk::default();
    let (one, two) = (ChannelId::from("ws:1"), ChannelId::from("ws:2"));
    let ordinals = |numbered: Vec<Numbered>| -> Vec<(String, u64)> {
        let place = |frame: Numbered| (frame.channel.to_string(), frame.ordinal);
        numbered.into_iter().map(place).collect()
    };

    let first = open(&disk, None);
    let writes =
        Writes::new().frame(&one, frame("a")).frame(&two, frame("b")).frame(&one, frame("c"));
    let before = first.store.commit(writes).await.unwrap();
    let refused =
        Writes::new().under_lease(&"task-1".into(), &"none".into()).frame(&one, frame("x"));
    assert!(first.store.commit(refused).await.is_err());
    let second = open(&disk, None);
    let writes = Writes::new().frame(&one, frame("d")).frame(&two, frame("e"));
    let after = second.store.commit(writes).await.unwrap();

    let expected = |list: &[(&str, u64)]| -> Vec<(String, u64)> {
        list.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect()
    };
    assert_eq!(ordinals(before), expected(&[("ws:1", 1), ("ws:2", 1), ("ws:1", 2)]));
    assert_eq!(ordinals(after), expected(&[("ws:1", 3), ("ws:2", 2)]));
}

fn ack(text: &str) -> Frame {
    let ack = crate::frame::Ack {
        content: text.to_owned(),
        message_id: "m1".into(),
        task_id: None,
        generated: true,
        position: 0,
        duplicate: None,
        status: None,
        response_seq: None,
        team: None,
        accepted_at: None,
    };
    Frame { body: Body::Ack(ack), ..frame("") }
}

/// CH-83, CH-89: they are two frames all the same, before and after a restart.
#[actix::test]
async fn an_ack_and_what_stands_directly_behind_it_are_one_record() {
    let disk = Disk::default();
    let (one, two) = (ChannelId::from("ws:1"), ChannelId::from("ws:2"));
    let first = open(&disk, None);
    let writes = Writes::new()
        .frame(&one, ack("a"))
        .frame(&one, frame("b"))
        .frame(&one, ack("c"))
        .frame(&two, ack("d"))
        .frame(&one, frame("e"));
    first.store.commit(writes).await.unwrap();
    first.store.commit(Writes::new().frame(&two, frame("f"))).await.unwrap();

    let again = open(&disk, None);
    let more = Writes::new().frame(&one, frame("g"));
    again.store.commit(more).await.unwrap();

    assert_eq!(disk.keys("out").len(), 6);
    let stored = |channel| outboxes::outbox(&*again.storage, channel).unwrap();
    let frames = |channel| {
        let frames = stored(channel).into_iter();
        frames.map(|stored| (stored.ordinal, stored.frame)).collect::<Vec<_>>()
    };
    assert_eq!(
        frames(&one),
        [(1, ack("a")), (2, frame("b")), (3, ack("c")), (4, frame("e")), (5, frame("g"))]
    );
    assert_eq!(frames(&two), [(1, ack("d")), (2, frame("f"))]);
    let some = outboxes::unsent(&*again.storage, &one, &[1, 4]).unwrap();
    assert_eq!(some, [ack("a"), frame("e")]);
    let gone = Writes::new().drop_frames(&one, [1, 2]);
    again.store.commit(gone).await.unwrap();
    assert_eq!(stored(&one).first().unwrap().ordinal, 3);
}

/// CH-83: messages that joined a turn are acknowledged in one commit with its end.
#[actix::test]
async fn of_several_acks_in_one_commit_none_is_lost() {
    let disk = Disk::default();
    let channel = ChannelId::from("ws:1");
    let opened = open(&disk, None);
    let said = [ack("a"), ack("b"), ack("c"), frame("d")];

    let writes =
        said.iter().cloned().fold(Writes::new(), |writes, frame| writes.frame(&channel, frame));
    opened.store.commit(writes).await.unwrap();

    let stored = outboxes::outbox(&*opened.storage, &channel).unwrap();
    let stored: Vec<_> = stored.into_iter().map(|row| (row.ordinal, row.frame)).collect();
    assert_eq!(stored, (1..).zip(said).collect::<Vec<_>>());
}

/// OP-91: records of former versions hold a frame alone, and marks alone.
#[test]
fn former_records_are_read() {
    let disk = Disk::default();
    let key = key_of(OutboxRow::KIND, &(ChannelId::from("ws:1"), 7));
    let former = serde_json::to_vec(&frame("a")).unwrap();
    let storage = disk.mount(None);
    storage.commit(&Batch::from(vec![(key, Some(former))])).unwrap();

    let frames = outboxes::outbox(&*storage, &"ws:1".into()).unwrap();

    assert_eq!((frames.len(), frames[0].ordinal), (1, 7));
    assert_eq!(frames[0].frame, frame("a"));
    assert_eq!(ended_tally(b"chat"), None);
    assert_eq!(ended_tally(b""), None);
}

/// SC-115
#[actix::test]
async fn a_request_that_is_too_large_is_refused_alone() {
    let opened = open(&Disk::default(), None);
    let huge = Writes::new().put_json(key("huge"), &"x".repeat(LARGEST_COMMIT));

    let refused = opened.store.commit(huge);
    let taken = opened.store.commit(row("small"));

    assert!(matches!(refused.await, Err(StoreError::TooLarge(_))));
    assert_eq!(taken.await, Ok(Vec::new()));
}

/// SC-115: a storage gives up at a key that it cannot hold, so it never gets one.
#[actix::test]
async fn a_key_that_is_too_long_is_refused_alone() {
    let opened = open(&Disk::default(), None);
    let long = "x".repeat(LONGEST_KEY);
    let channel = ChannelId::from(long.as_str());

    let put = opened.store.commit(Writes::new().put_json(key(&long), &1));
    let removed = opened.store.commit(Writes::new().drop_keys([key(&long)]));
    let appended = opened.store.commit(Writes::new().frame(&channel, frame("a")));
    let taken = opened.store.commit(row("small"));

    for refused in [put.await, removed.await, appended.await] {
        assert!(matches!(refused, Err(StoreError::Unwritable(_))), "{refused:?}");
    }
    assert_eq!(taken.await, Ok(Vec::new()));
}

/// SC-101: a commit that cannot be put together is not made, and takes no other with it.
#[actix::test]
async fn a_row_that_does_not_serialise_refuses_its_commit_alone() {
    let opened = open(&Disk::default(), None);
    let bad = std::collections::HashMap::from([((1, 2), 3)]);

    let refused = row("before").and(Writes::new().put_json(key("bad"), &bad));
    let at_rest = refused.clone().batch();
    let refused = opened.store.commit(refused);
    let taken = opened.store.commit(row("small"));

    assert!(matches!(at_rest, Err(StorageError::Write(_))));
    let refused = refused.await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("record {} cannot be written: key must be a string", keys::printable(&key("bad")))
    );
    assert_eq!(taken.await, Ok(Vec::new()));
    for name in ["before", "bad"] {
        assert_eq!(opened.storage.get(&key(name)).unwrap(), None);
    }
    assert_eq!(opened.failures.load(Ordering::Relaxed), 0);
}

/// SC-103: after a failed commit nothing is answered and nothing more is written.
#[actix::test]
async fn a_failing_storage_ends_the_store() {
    let opened = open(&Disk::default(), Some(Crash::Before(1)));
    let healed = Arc::clone(&opened.storage);

    let first = opened.store.commit(row("a")).await;
    let second = opened.store.commit(row("b"));
    let third = opened.store.commit(row("c"));
    let (second, third) = (second.await, third.await);
    let fourth = opened.store.commit(Writes::new()).await;

    assert_eq!(first, Ok(Vec::new()));
    assert_eq!([second, third, fourth], [(); 3].map(|()| Err(StoreError::Gone)));
    assert_eq!(opened.failures.load(Ordering::Relaxed), 1);
    assert_eq!(healed.commits(), 1);
}

/// SC-14: whatever an id holds, its rows are not among those of another.
#[test]
fn no_id_reaches_into_the_keys_of_another() {
    let (own, foreign) = (ChannelId::from("api:ann"), ChannelId::from("api:ann\0x"));
    let lane = |topic: &str| Lane { team: "main".into(), topic: Some(topic.into()) };

    let named = key_of("msg", &(&foreign, &MessageId::from("m-1")));
    let numbered = key_of("out", &(&foreign, 1));
    let journal = prefix_of("hist", &LaneKey::new(&lane("t-1\0x"), 1));

    assert!(!named.starts_with(&prefix_of("msg", &own)));
    assert!(!numbered.starts_with(&prefix_of("out", &own)));
    assert!(!journal.starts_with(&prefix_of("hist", &LaneKey::new(&lane("t-1"), 1))));
    // The keys of other ids are what they were.
    let plain = key_of("msg", &(&own, &MessageId::from("m-1")));
    assert_eq!(plain, b"msg\0api:ann\0m-1");
}

/// SC-115: a full disk refuses nobody and loses nothing: what was handed in is written, in its order, once
/// there is room again.
#[actix::test]
async fn a_group_that_finds_no_room_is_written_when_there_is_some() {
    tokio::time::pause();
    let opened = open(&Disk::default(), None);
    let channel = ChannelId::from("ch-1");
    opened.storage.fill(true);

    let first = tokio::spawn(opened.store.commit(Writes::new().frame(&channel, frame("one"))));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let second = tokio::spawn(opened.store.commit(Writes::new().frame(&channel, frame("two"))));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let answered = [first.is_finished(), second.is_finished()];
    opened.storage.fill(false);
    let ordinals = [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()]
        .map(|numbered| numbered[0].ordinal);

    assert_eq!((answered, ordinals), ([false, false], [1, 2]));
    assert_eq!(opened.failures.load(Ordering::Relaxed), 0);
    assert!(opened.store.is_usable());
    assert_eq!(opened.storage.commits(), 2);
}

/// A storage that shows a group, and has it durable only when it is told to.
struct Slow {
    inner: Arc<MemoryStorage>,
    shown: tokio::sync::Notify,
    durable: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Storage for Slow {
    fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
        self.inner.commit(batch)?;
        self.shown.notify_one();
        self.durable.lock().unwrap().recv().unwrap();
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.get(key)
    }

    fn scan(
        &self,
        start: &[u8],
        end: &[u8],
        order: crate::storage::Order,
        visit: &mut crate::storage::Visit<'_>,
    ) -> Result<(), StorageError> {
        self.inner.scan(start, end, order, visit)
    }
}

/// SC-105: a power cut may take back what is not durable, so nobody is told of it before.
#[actix::test]
async fn a_read_waits_until_what_it_found_is_durable() {
    let (make_durable, durable) = std::sync::mpsc::channel();
    let (inner, shown) = (Disk::default().mount(None), tokio::sync::Notify::new());
    let storage = Arc::new(Slow { inner, shown, durable: Mutex::new(durable) });
    let arbiter = Arbiter::new();
    let store = Store::start(&arbiter.handle(), StoreParts::of(storage.clone()));
    let written = store.commit(row("a"));
    storage.shown.notified().await;
    let (tell, found) = oneshot::channel();
    let mut read = Box::pin(store.read(move |storage| {
        let value = storage.get(&key("a"))?;
        let _ = tell.send(value.is_some());
        Ok(value)
    }));

    let early = tokio::time::timeout(Duration::from_millis(50), &mut read).await;
    let is_found = found.await;
    make_durable.send(()).unwrap();
    let value = read.await;

    assert_eq!((early.is_err(), is_found), (true, Ok(true)));
    assert_eq!(value, Ok(Some(b"1".to_vec())));
    written.await.unwrap();
    // Nothing is under way any more.
    assert_eq!(store.read(|storage| storage.get(&key("b"))).await, Ok(None));
}

/// CH-91: a record that cannot be read now keeps its commit from being made, and no other; one that is damaged for good
/// goes whole.
#[actix::test]
async fn words_that_cannot_be_taken_out_of_a_record_are_not_forgotten() {
    const WORDS: &[Texts] =
        &[Texts { kind: "edge\0test", owner: redact::Owner::Main, fields: &["text"], names: &[] }];
    let opened = open(&Disk::default(), None);
    let words =
        |name: &str| Writes::new().put_json(key(name), &serde_json::json!({"text": "hello"}));
    let all = words("scratched").and(words("damaged")).and(words("sound")).and(row("other"));
    opened.store.commit(all).await.unwrap();
    opened.storage.put(key("damaged"), Some(b"{hello".to_vec()));
    opened.storage.scratch(key("scratched"));
    let empty = |name: &str| Writes::new().empty(key(name), WORDS);

    let refused =
        Writes::new().drop_keys([key("other")]).and(empty("scratched")).and(empty("sound"));
    let (refused, beside) = (opened.store.commit(refused), opened.store.commit(row("beside")));
    let (refused, beside) = (refused.await, beside.await);
    let kept = opened.storage.keys("other").len();
    let damaged = opened.store.commit(empty("damaged").and(empty("nothing"))).await;
    opened.storage.mend();
    let again = opened.store.commit(empty("scratched").and(empty("sound"))).await;

    assert_eq!(
        refused,
        Err(StoreError::Unreadable(StorageError::Read("wrong checksum".to_owned())))
    );
    assert_eq!((beside, kept), (Ok(Vec::new()), 1));
    assert_eq!((damaged, again), (Ok(Vec::new()), Ok(Vec::new())));
    assert_eq!(opened.storage.keys("damaged").len(), 0);
    assert!(!opened.storage.text().contains("hello"), "{}", opened.storage.text());
    assert!(!opened.storage.keys("beside").is_empty());
    assert_eq!(opened.failures.load(Ordering::Relaxed), 0);
}
