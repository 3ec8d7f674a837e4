//! What the `Storage` port promises.

use std::{
    ops::ControlFlow,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use hivewright_actors::storage::{Batch, Order, Storage, StorageError};

use super::*;
use crate::storage::{build, database::Database, parts};

fn keys(storage: &TieredStorage, start: &str, end: &str, order: Order) -> Vec<String> {
    let mut keys = Vec::new();
    storage
        .scan(start.as_bytes(), end.as_bytes(), order, &mut |key, _| {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    keys
}

#[test]
fn what_was_committed_is_there_after_a_new_start() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("a", "1"), put("b", "2"), put("c", "")]);
    commit(&storage, [put("a", "3"), remove("b")]);
    assert_eq!(storage.get(b"a").unwrap().unwrap(), b"3");
    drop(storage);

    let storage = place.open();

    assert_eq!(storage.get(b"a").unwrap(), Some(b"3".to_vec()));
    assert_eq!(storage.get(b"b").unwrap(), None);
    assert_eq!(storage.get(b"c").unwrap(), Some(Vec::new()));
    assert_eq!(storage.records(), 2);
}

/// OP-81: what is opened, copied or renamed right after it was closed is free, however busy the machine is.
#[test]
fn a_closed_store_is_free_at_once() {
    let place = Place::new();
    for round in 0..100 {
        let storage = place.open();
        commit(&storage, [put("k", noise(round, 100 * parts::WHOLE))]);
        drop(storage);

        let database = fs::File::open(place.home.store.join("db")).unwrap();
        assert!(database.try_lock().is_ok(), "round {round}");
    }
}

#[test]
fn a_scan_keeps_to_its_range_in_both_orders() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, ["a", "b", "ba", "c", "d"].map(|key| put(key, key)));

    assert_eq!(keys(&storage, "b", "d", Order::Rising), ["b", "ba", "c"]);
    assert_eq!(keys(&storage, "b", "d", Order::Falling), ["c", "ba", "b"]);
    assert_eq!(keys(&storage, "d", "b", Order::Rising), [""; 0]);
    assert_eq!(keys(&storage, "b", "b", Order::Falling), [""; 0]);
}

#[test]
fn a_visitor_ends_its_scan() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, ["a", "b", "c"].map(|key| put(key, key)));

    let mut seen = 0;
    storage
        .scan(b"", b"z", Order::Rising, &mut |_, _| {
            seen += 1;
            ControlFlow::Break(())
        })
        .unwrap();

    assert_eq!(seen, 1);
}

#[test]
fn the_last_change_of_a_key_in_a_batch_counts() {
    let place = Place::new();
    let storage = place.open();
    let large = noise(1, 3 * parts::WHOLE);

    commit(&storage, [put("a", &large), put("a", "small"), remove("b")]);

    assert_eq!(all(&storage), Records::from([(b"a".to_vec(), b"small".to_vec())]));
    assert_eq!(storage.records(), 1);
}

#[test]
fn large_values_come_back_whole_and_leave_nothing_behind() {
    let place = Place::new();
    let storage = place.open();
    for length in [parts::WHOLE, parts::WHOLE + 1, 5 * parts::WHOLE, 1 << 20] {
        let value = noise(length as u64, length);
        commit(&storage, [put("k", &value), put("k2", &value)]);
        assert_eq!(storage.get(b"k").unwrap().unwrap(), value);
        assert_eq!(all(&storage)[b"k".as_slice()], value);
    }
    let held = |storage: &TieredStorage| storage.hot.database.len();

    commit(&storage, [put("k", noise(1, 2 * parts::WHOLE))]);
    commit(&storage, [remove("k2")]);
    assert_eq!(held(&storage), 1 + 2 + 3, "the record, its parts, and the three about the store");
    commit(&storage, [remove("k")]);
    assert_eq!(held(&storage), 3);
}

/// SC-115
#[test]
fn what_is_too_large_is_refused_and_the_store_goes_on() {
    let place = Place::new();
    let storage = place.open();
    let refused = |key: Vec<u8>, value: Vec<u8>| {
        let changes = vec![put("beside", ""), (key, Some(value))];
        matches!(storage.commit(&Batch::from(changes)), Err(StorageError::Write(_)))
    };

    assert!(refused(b"k".to_vec(), vec![0; parts::LARGEST + 1]));
    assert!(refused(vec![b'k'; parts::LONGEST_KEY + 1], Vec::new()));
    assert!(refused(Vec::new(), Vec::new()));
    assert!(refused(build::schema_key(), Vec::new()));

    assert_eq!(all(&storage), Records::new());
    commit(&storage, [put("k", vec![7; parts::LARGEST])]);
    assert_eq!(storage.get(b"k").unwrap().unwrap().len(), parts::LARGEST);
}

/// SC-101: a page of the largest records still stays inside sled's log.
#[test]
fn no_record_gets_a_file_of_its_own() {
    let place = Place::new();
    let storage = place.open();
    let key = |n: u64| format!("{n:03}{}", "k".repeat(parts::LONGEST_KEY - 3));
    for n in 0..200 {
        let key = key(n * 7919 % 200);
        commit(&storage, [put(&key, noise(n, parts::WHOLE))]);
    }
    for n in (0..200).filter(|n| n % 5 != 0) {
        commit(&storage, [remove(&key(n))]);
    }
    for n in 0..200 {
        commit(&storage, [put(&key(n), noise(n, parts::WHOLE))]);
    }

    let blobs = place.home.store.join("blobs");
    assert_eq!(fs::read_dir(blobs).unwrap().count(), 0);
}

/// SC-111
#[test]
fn a_damaged_record_is_named_and_the_others_go_on() {
    let place = Place::new();
    let storage = place.open();
    let large = noise(1, 2 * parts::WHOLE);
    commit(&storage, [put("a", "1"), put("b", "2"), put("c", &large), put("d", "4")]);
    drop(storage);
    let database = Database::open(&place.home.store).unwrap();
    for key in [b"b".to_vec(), parts::part_key(b"c", 1)] {
        let mut value = database.get(&key).unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 1;
        database.insert(key, value).unwrap();
    }
    database.flush().unwrap();
    drop(database);

    let storage = place.open();
    let mut seen = Vec::new();
    storage
        .scan(b"", b"z", Order::Rising, &mut |key, value| {
            let value = value.map(<[u8]>::to_vec).map_err(|error| error.to_string());
            seen.push((key.escape_ascii().to_string(), value));
            ControlFlow::Continue(())
        })
        .unwrap();

    assert_eq!(
        seen,
        [
            ("a".to_owned(), Ok(b"1".to_vec())),
            ("b".to_owned(), Err("record b is damaged: wrong checksum".to_owned())),
            (
                "c".to_owned(),
                Err(r"record \xffpart/c\x00\x00\x00\x01 is damaged: wrong checksum".to_owned())
            ),
            ("d".to_owned(), Ok(b"4".to_vec())),
        ]
    );
    assert!(matches!(storage.get(b"b"), Err(StorageError::Damaged { .. })));
}

#[test]
fn a_value_in_parts_is_never_seen_half_replaced() {
    let place = Place::new();
    let storage = Arc::new(open(&place.home, Durability::Process, &quiet).unwrap());
    let value = |n: u8| vec![n; 30 * parts::WHOLE];
    commit(&storage, [put("k", value(0))]);
    let reader = thread::spawn({
        let storage = storage.clone();
        move || {
            loop {
                let value = storage.get(b"k").unwrap().unwrap();
                assert!(value.iter().all(|byte| *byte == value[0]));
                if value[0] == 100 {
                    break;
                }
            }
        }
    });

    for n in 1..=100 {
        commit(&storage, [put("k", value(n))]);
    }

    reader.join().unwrap();
}

/// SC-103
#[test]
fn after_a_failed_write_nothing_more_is_acknowledged() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("a", "1")]);
    storage.hot.writing().fail();

    let refused = storage.commit(&Batch::from(vec![put("b", "2")]));

    assert!(matches!(refused, Err(StorageError::Write(_))));
    assert_eq!(storage.get(b"b").unwrap(), None);
}

/// Records that stay hold on to the space of those around them that were replaced, until sled's
/// background round moves them together.
#[test]
fn replaced_records_give_their_space_back() {
    let place = Place::new();
    let storage = open(&place.home, Durability::Process, &quiet).unwrap();
    for number in 0..1500 {
        let hot = put(&format!("hot/{}", number % 7), noise(number, parts::WHOLE));
        let cold = put(&format!("cold/{number:05}"), noise(number, 100));
        commit(&storage, [hot, cold]);
    }
    let size = || fs::metadata(place.home.store.join("db")).unwrap().len();
    // Against all that was written: a slow machine has tidied up part of it by now.
    let written = 1500 * parts::WHOLE as u64;

    let deadline = Instant::now() + Duration::from_secs(60);
    let mut number = 0;
    let less = written / 10 * 9;
    while size() > less && Instant::now() < deadline {
        commit(&storage, [put("hot/0", noise(number, 100))]);
        number += 1;
        thread::sleep(Duration::from_millis(20));
    }

    assert!(size() <= less, "{} of {written} bytes", size());
}
