//! Two tiers that read as one store, whatever has moved.

use hivewright_actors::archive::Archive;
use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof, proptest},
    test_runner::Config,
};

use super::{super::pending::Oldest, *};

/// Moves what there is to move, in as many batches as it takes.
fn archive(storage: &TieredStorage) {
    while storage.take_next().unwrap() {}
    storage.empty_log().unwrap();
}

/// The second half of a move: the archive has taken records in.
fn has_moved(storage: &TieredStorage, (oldest, number): (Oldest, u64)) {
    storage.has_moved(&storage.pending.begin_moving(), oldest, number);
}

/// All keys of sled, but for those that tell of the store.
fn hot(storage: &TieredStorage) -> Vec<Vec<u8>> {
    let keys = storage.hot.database.iter().keys().map(|key| key.unwrap().to_vec());
    keys.filter(|key| !key.starts_with(b"\xffmeta/")).collect()
}

/// The keys of pending records; those that were removed too.
fn pending(storage: &TieredStorage) -> Vec<String> {
    let keys = storage.pending.all().into_keys();
    keys.map(|key| String::from_utf8_lossy(&key).replace('\0', "/")).collect()
}

fn keys(storage: &TieredStorage, start: &[u8], end: &[u8], order: Order) -> Vec<String> {
    let mut keys = Vec::new();
    storage
        .scan(start, end, order, &mut |key, value| {
            value.unwrap();
            keys.push(String::from_utf8_lossy(key).replace('\0', "/"));
            ControlFlow::Continue(())
        })
        .unwrap();
    keys
}

/// SC-116: what is over leaves the hot tier, and is read as before, also after a start.
#[test]
fn what_moved_is_read_as_before() {
    let place = Place::new();
    let large = "again and again ".repeat(10_000);
    let changes = [
        put("done\0t-1", "one"),
        put("done\0t-2", &large),
        put("hist\0main\0a", "events"),
        put("task\0t-3", "open"),
    ];
    let storage = place.open();
    commit(&storage, changes.clone());
    let before = all(&storage);

    archive(&storage);
    let (moved, left) = (all(&storage), hot(&storage));
    drop(storage);
    let storage = place.open();

    assert_eq!(left, [b"task\0t-3".to_vec()]);
    assert_eq!(moved, before);
    assert_eq!(all(&storage), before);
    assert_eq!(storage.records(), 4);
    assert_eq!(storage.get(b"done\0t-2").unwrap().unwrap(), large.as_bytes());
    assert_eq!(storage.get(b"done\0t-9").unwrap(), None);
}

/// A former program left records that are over one by one, and damaged ones come with a restore: they move when the store is
/// opened, and a damaged one goes on saying so.
#[test]
fn what_lies_in_sled_one_by_one_moves_at_the_start() {
    let place = Place::new();
    let storage = place.open();
    let large = noise(2, 40_000);
    let left =
        [put("done\0a", "1"), put("done\0b", &large), put("done\0c", "3"), put("task\0d", "4")];
    storage.hot.commit(&Batch::from(left.to_vec())).unwrap();
    storage.hot.database.insert(b"done\0c", b"no envelope").unwrap();
    storage.rest().unwrap();
    drop(storage);

    let storage = place.open();

    assert_eq!(hot(&storage), [b"task\0d".to_vec()]);
    assert_eq!(storage.get(b"done\0a").unwrap(), Some(b"1".to_vec()));
    assert_eq!(storage.get(b"done\0b").unwrap(), Some(large.to_vec()));
    let damage = storage.get(b"done\0c").unwrap_err();
    assert!(damage.to_string().contains("is damaged"), "{damage}");
    assert_eq!(storage.salvage(b"done\0c"), Some(b"lope".to_vec()));
}

/// What changed while it moved is not lost, and what was removed does not come back.
#[test]
fn a_record_that_changes_while_it_moves_stays_as_it_is_now() {
    let place = Place::new();
    let storage = place.open();
    let large = noise(1, 40_000);
    commit(&storage, [put("done\0a", "1"), put("done\0b", "1"), put("done\0c", "1")]);
    commit(&storage, [put("done\0d", &large), put("done\0e", &large)]);

    let taken = storage.take_oldest().unwrap().unwrap();
    commit(&storage, [put("done\0a", "2"), remove("done\0b"), put("done\0d", &large[1..])]);
    commit(&storage, [put("done\0c", "2")]);
    has_moved(&storage, taken);

    let expected: Records = [
        put("done\0a", "2"),
        put("done\0c", "2"),
        put("done\0d", &large[1..]),
        put("done\0e", &large),
    ]
    .map(|(key, value)| (key, value.unwrap()))
    .into();
    assert_eq!(all(&storage), expected);
    assert_eq!(pending(&storage), ["done/a", "done/b", "done/c", "done/d"]);
    archive(&storage);
    assert_eq!((all(&storage), hot(&storage)), (expected, vec![]));
    commit(&storage, [remove("done\0a"), remove("done\0c"), remove("done\0d")]);
    assert_eq!(keys(&storage, b"", b"\xff", Order::Rising), ["done/e"]);
}

/// SC-105: what has moved leaves sled with the next commit: a move costs none of its own.
#[test]
fn what_has_moved_goes_with_the_next_commit() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("done\0a", "1")]);
    while storage.take_next().unwrap() {}
    let moved = (pending(&storage).is_empty(), hot(&storage).len());

    commit(&storage, [put("task\0b", "open")]);

    assert_eq!(moved, (true, 1));
    assert_eq!(hot(&storage), [b"task\0b".to_vec()]);
    assert_eq!(all(&storage).len(), 2);
}

/// One step of a store's life.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Remove(u8),
    Take,
    LetGo,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..40_u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => (0..40_u8).prop_map(Step::Remove),
        2 => Just(Step::Take),
        2 => Just(Step::LetGo),
        1 => Just(Step::Restart),
    ];
    vec(step, 1..60)
}

fn key(number: u8) -> String {
    let kind = ["audit", "done", "edge\0run", "hist", "task"][usize::from(number) % 5];
    format!("{kind}\0{:02}", number / 5)
}

proptest! {
    #![proptest_config(Config::with_cases(24))]

    /// SC-116: both tiers are one store, in every order of what can happen.
    #[test]
    fn two_tiers_are_one_store(steps in steps()) {
        let place = Place::new();
        let mut storage = Some(open(&place.home, Durability::Process, &quiet).unwrap());
        let mut expected = Records::new();
        let mut taken = None;
        for step in steps {
            let present = storage.as_ref().unwrap();
            match step {
                Step::Put(number, value) => {
                    commit(present, [put(&key(number), [value; 9])]);
                    expected.insert(key(number).into_bytes(), vec![value; 9]);
                }
                Step::Remove(number) => {
                    commit(present, [remove(&key(number))]);
                    expected.remove(key(number).as_bytes());
                }
                Step::Take => taken = present.take_oldest().unwrap().or(taken),
                Step::LetGo => {
                    if let Some(archived) = taken.take() {
                        has_moved(present, archived);
                    }
                }
                Step::Restart => {
                    drop(storage.take());
                    storage = Some(open(&place.home, Durability::Process, &quiet).unwrap());
                    taken = None;
                }
            }
            let present = storage.as_ref().unwrap();
            assert_eq!(all(present), expected);
            let mut falling = keys(present, b"done\0", b"hist\x01", Order::Falling);
            falling.reverse();
            assert_eq!(falling, keys(present, b"done\0", b"hist\x01", Order::Rising));
        }
        let storage = storage.unwrap();
        for number in 0..40 {
            let found = storage.get(key(number).as_bytes()).unwrap();
            assert_eq!(found.as_ref(), expected.get(key(number).as_bytes()));
        }
    }
}

/// A scan reads in chunks; those of both tiers meet in order.
#[test]
fn long_ranges_are_whole_and_in_order_over_both_tiers() {
    let place = Place::new();
    let storage = place.open();
    let row = |number: usize| put(&format!("done\0{number:05}"), number.to_string());
    commit(&storage, (0..3_000).step_by(2).map(row).collect::<Vec<_>>());
    archive(&storage);
    commit(&storage, (0..3_000).step_by(3).map(row).collect::<Vec<_>>());

    let rising = keys(&storage, b"done\0", b"done\x01", Order::Rising);
    let mut falling = keys(&storage, b"done\x0000100", b"done\x0002000", Order::Falling);

    let there = |from: usize, to: usize| {
        let numbers = (from..to).filter(|number| number % 2 == 0 || number % 3 == 0);
        numbers.map(|number| format!("done/{number:05}")).collect::<Vec<_>>()
    };
    assert_eq!(rising, there(0, 3_000));
    falling.reverse();
    assert_eq!(falling, there(100, 2_000));
}

/// SC-111: a start with an archive that is missing, foreign or old says so, and changes nothing.
#[test]
fn an_archive_that_is_not_the_stores_own_is_refused() {
    let (place, other) = (Place::new(), Place::new());
    let file = place.path("run/store/history.db");
    drop(other.open());
    commit(&place.open(), [put("done\0a", "1")]);
    fs::copy(&file, place.path("old.db")).unwrap();
    archive(&place.open());
    fs::copy(&file, place.path("own.db")).unwrap();
    let refusal = || place.try_open().unwrap_err().to_string();

    fs::remove_file(&file).unwrap();
    let missing = refusal();
    fs::copy(other.path("run/store/history.db"), &file).unwrap();
    let foreign = refusal();
    fs::copy(place.path("old.db"), &file).unwrap();
    let old = refusal();
    fs::write(&file, "no database").unwrap();
    let broken = refusal();
    fs::copy(place.path("own.db"), &file).unwrap();

    assert!(missing.contains("`history.db`, which holds what is over, is missing"), "{missing}");
    assert!(foreign.contains("is of another store"), "{foreign}");
    assert!(old.contains("is older than the store"), "{old}");
    assert!(broken.contains("`history.db` cannot be read"), "{broken}");
    assert_eq!(all(&place.open()), [(b"done\0a".to_vec(), b"1".to_vec())].into());
}

/// A store that was closed in order is opened in place, once; after anything was written since it is looked at first.
#[test]
fn only_a_store_at_rest_is_opened_in_place() {
    let place = Place::new();
    let note = place.path("run/store/rest");
    let storage = place.open();
    commit(&storage, [put("task\0a", "1")]);
    storage.rest().unwrap();
    assert!(note.exists());
    commit(&storage, [put("task\0b", "1")]);
    assert!(!note.exists());
    storage.rest().unwrap();
    drop(storage);

    let storage = place.open();
    let is_taken = !note.exists();
    storage.rest().unwrap();
    drop(storage);
    fs::write(&note, "something else").unwrap();
    let after = all(&place.open());

    assert!(is_taken);
    assert_eq!(after.len(), 2);
}

/// A commit that removes what is archived is whole, whatever the archive says to it, and after a start as well.
#[test]
fn a_removal_that_the_archive_cannot_take_in_is_a_removal_all_the_same() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("done\0a", "1"), put("task\0found-by", "a")]);
    archive(&storage);
    let database = rusqlite::Connection::open(place.path("run/store/history.db")).unwrap();
    let rename = |from, to| format!("ALTER TABLE {from} RENAME TO {to}");
    database.execute_batch(&rename("done", "elsewhere")).unwrap();

    commit(&storage, [put("edge\0kept", "a line"), remove("done\0a"), remove("task\0found-by")]);

    assert!(storage.take_next().is_err());
    let kept = [(b"edge\0kept".to_vec(), b"a line".to_vec())];
    assert_eq!(storage.get(b"done\0a").unwrap(), None);
    database.execute_batch(&rename("elsewhere", "done")).unwrap();
    assert_eq!(all(&storage), kept.clone().into());
    drop(storage);
    let storage = place.open();
    assert_eq!(all(&storage), kept.clone().into());
    archive(&storage);
    assert_eq!((all(&storage), storage.records()), (kept.into(), 1));
}

/// SC-111: a unit of the log that cannot be read is told of and stays; the others are read.
#[test]
fn damage_in_the_log_of_what_is_over_takes_its_unit_alone() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("done\0a", "1")]);
    commit(&storage, [put("done\0b", "2")]);
    let first = hot(&storage).remove(0);
    storage.hot.database.insert(&first, b"no envelope").unwrap();
    drop(storage);

    let storage = place.open();

    let damage = storage.damage_reports().unwrap().take();
    assert_eq!(damage.iter().map(|damage| &damage.key).collect::<Vec<_>>(), [&first]);
    assert_eq!(keys(&storage, b"", b"\xff", Order::Rising), ["done/b"]);
    archive(&storage);
    assert_eq!(hot(&storage), [first]);
}

/// A file that is much larger than what it holds is written anew at the start, and nothing else changes.
#[test]
fn a_file_that_is_too_large_shrinks_at_the_next_start() {
    let place = Place::new();
    let length = || fs::metadata(place.path("run/store/db")).unwrap().len();
    let storage = open(&place.home, Durability::Process, &quiet).unwrap();
    let large = noise(5, 40_000);
    commit(&storage, [put("task\0a", &large), put("done\0a", "1")]);
    archive(&storage);
    let key = |row: u64| format!("topic\0{row:04}");
    for round in 0..20 {
        let rows = (round * 100..(round + 1) * 100).map(|row| put(&key(row), noise(row, 15_000)));
        commit(&storage, rows.collect::<Vec<_>>());
    }
    commit(&storage, (0..2_000).map(|row| remove(&key(row))).collect::<Vec<_>>());
    // Another program reads an earlier state of the archive: what came since is in the log of SQLite alone.
    let reader = rusqlite::Connection::open(place.path("run/store/history.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM sqlite_master").unwrap();
    commit(&storage, [put("done\0c", "3")]);
    archive(&storage);
    let before = all(&storage);
    drop(storage);
    let grown = length();

    assert_eq!(all(&place.open()), before, "while somebody reads");
    assert!(length() > grown / 2, "{} of {grown}", length());
    drop(reader);
    let storage = place.open();

    assert!(grown > 24 << 20, "{grown}");
    assert!(length() < grown / 4, "{} of {grown}", length());
    assert_eq!(all(&storage), before);
    assert_eq!(place.names(), ["store"]);
    commit(&storage, [put("done\0b", "2")]);
    archive(&storage);
    drop(storage);
    assert_eq!(all(&place.open()).len(), before.len() + 1);
}

/// SC-109: a backup holds both tiers as they were at one moment, and each record once.
#[test]
fn a_backup_holds_both_tiers() {
    let (place, other) = (Place::new(), Place::new());
    let storage = place.open();
    let large = noise(3, 40_000);
    commit(&storage, [put("done\0a", "1"), put("done\0b", &large), put("task\0c", "open")]);
    archive(&storage);
    commit(&storage, [put("done\0d", "1")]);
    // In both tiers, and newer in the hot one.
    storage.take_oldest().unwrap().unwrap();
    commit(&storage, [put("done\0d", "2")]);
    let file = super::super::backup::create(&storage, &place.home, None, &quiet).unwrap().file;

    let restored = super::super::restore::restore(&file, &other.home, false, &quiet).unwrap();

    let found = other.open();
    assert_eq!(all(&found), all(&storage));
    assert_eq!(restored.manifest.records, 4 + 3);
    archive(&found);
    assert_eq!(all(&found), all(&storage));
    assert_eq!(hot(&found), [b"task\0c".to_vec()]);
}

/// SC-111: a damaged archived record is named, and takes no other with it.
#[test]
fn a_damaged_archived_record_is_named_and_left_out() {
    let place = Place::new();
    let storage = place.open();
    commit(&storage, [put("done\0a", "1"), put("done\0b", "1")]);
    archive(&storage);
    drop(storage);
    let database = rusqlite::Connection::open(place.path("run/store/history.db")).unwrap();
    let changed = database.execute("UPDATE done SET value = x'0102030405' WHERE key = x'0061'", []);
    assert_eq!(changed.unwrap(), 1);
    database.close().unwrap();

    let storage = place.open();

    let damaged = storage.get(b"done\0a").unwrap_err().to_string();
    assert_eq!(damaged, r"record done\x00a is damaged: wrong checksum");
    let mut read = Vec::new();
    storage
        .scan(b"done\0", b"done\x01", Order::Rising, &mut |key, value| {
            read.push((key.to_vec(), value.is_ok()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(read, [(b"done\0a".to_vec(), false), (b"done\0b".to_vec(), true)]);
    let left = storage.salvage(b"done\0a");
    assert!(left.is_some());
    // Whoever reads what has moved alone may be the first to report it.
    assert_eq!(storage.archived().salvage(b"done\0a"), left);
}
