//! The decision table of `open.rs`: what is damaged is refused, and not a byte of it changes.

use std::{
    fs::Permissions,
    os::unix::fs::{FileExt, PermissionsExt},
    sync::Arc,
};

use actix::Arbiter;
use hivewright_actors::{
    ids::Ids,
    store::{Store, StoreParts, keys::key_of},
};

use super::*;
use crate::{
    storage::{build, database::Database, swap},
    system::{Randomness, WallClock},
    teams::self_changes::Changes,
};

const RECORDS: u64 = 60;

/// A store with some history: two starts, so that sled has a snapshot, and replaced records.
fn used() -> Place {
    let place = Place::new();
    for round in 0..2 {
        let storage = place.open();
        for number in 0..RECORDS {
            commit(&storage, [put(&key(number), noise(number + round, 5000))]);
        }
    }
    place
}

/// What that store holds. To open it would write a snapshot, and so change what damage does.
fn held() -> Records {
    (0..RECORDS).map(|number| (key(number).into(), noise(number + 1, 5000))).collect()
}

fn key(number: u64) -> String {
    format!("k/{number}")
}

/// Damages a store and asserts that it is refused, left alone, and spoken of helpfully.
fn assert_refused(place: &Place, what: &str) {
    let store = &place.home.store;
    let before = files(store);

    let error = place.try_open().map(drop).expect_err(what);

    assert_eq!(error.exit_code(), 1, "{what}");
    let said = error.to_string();
    assert!(said.contains("`hivewright restore --newest`"), "{what}: {said}");
    assert!(before == files(store), "{what}: files were changed");
    assert!(!place.names().contains(&"store.check".to_owned()), "{what}");
}

fn edit(place: &Place, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let path = place.home.store.join(file);
    let mut content = fs::read(&path).unwrap();
    change(&mut content);
    fs::write(path, content).unwrap();
}

fn snapshot(place: &Place) -> String {
    let names = fs::read_dir(&place.home.store).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find(|name| name.starts_with("snap.")).unwrap()
}

#[test]
fn without_a_folder_or_in_an_empty_one_a_store_begins() {
    for make_folder in [false, true] {
        let place = Place::new();
        if make_folder {
            fs::create_dir(&place.home.store).unwrap();
        }

        let storage = place.open();
        commit(&storage, [put("a", "1")]);
        drop(storage);

        assert_eq!(all(&place.open()).len(), 1);
        assert_eq!(place.names(), ["store"]);
    }
}

/// SC-65
#[test]
fn a_store_is_private() {
    let place = used();
    for (path, _) in files(&place.home.store) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }

    fs::set_permissions(&place.home.store, Permissions::from_mode(0o755)).unwrap();

    let error = place.try_open().map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Exposed { .. }), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn a_store_that_is_in_use_is_refused() {
    let place = used();
    let _storage = place.open();

    let error = place.try_open().map(drop).unwrap_err();

    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert_eq!(error.exit_code(), 6);
}

/// SC-112
#[test]
fn missing_and_foreign_files_are_refused() {
    for missing in ["db", "conf"] {
        let place = used();
        fs::remove_file(place.home.store.join(missing)).unwrap();
        assert_refused(&place, missing);
    }
    for conf in ["", "x", "garbage that is longer than eight bytes"] {
        let place = used();
        edit(&place, "conf", |content| *content = conf.into());
        assert_refused(&place, conf);
    }
    let place = Place::new();
    fs::create_dir(&place.home.store).unwrap();
    fs::set_permissions(&place.home.store, Permissions::from_mode(0o700)).unwrap();
    fs::write(place.home.store.join("notes.txt"), "not a store").unwrap();
    assert_refused(&place, "another folder");
}

/// SC-112: sled alone would take this for a new database, or for a good one.
#[test]
fn an_empty_or_overwritten_database_is_refused() {
    for (what, change) in [
        ("emptied", (|content| content.clear()) as fn(&mut Vec<u8>)),
        ("zeroed", |content| content.fill(0)),
        ("garbage", |content| *content = noise(3, content.len())),
    ] {
        let place = used();
        edit(&place, "db", change);
        assert_refused(&place, what);
    }
}

/// SC-112
#[test]
fn a_database_without_our_records_is_refused() {
    let place = used();
    let database = Database::open(&place.home.store).unwrap();
    database.remove(build::schema_key()).unwrap();
    drop(database);

    assert_refused(&place, "foreign");
}

/// SC-135: wherever the file is cut, nothing acknowledged goes missing in silence.
#[test]
fn a_truncated_database_is_refused() {
    let place = used();
    let whole = fs::read(place.home.store.join("db")).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for twelfth in 1..12 {
        edit(&place, "db", |content| {
            content.clone_from(&whole);
            content.truncate(used * twelfth / 12);
        });
        assert_refused(&place, &format!("{twelfth} twelfths"));
    }
}

/// SC-135: a flipped byte is either without meaning, and then everything is there, or it is noticed.
#[test]
fn flipped_bytes_lose_nothing_in_silence() {
    let place = used();
    let untouched = files(&place.home.store);
    let mut refused = 0;
    for file in ["db".to_owned(), snapshot(&place)] {
        let content = &untouched[&place.home.store.join(&file)];
        let used = content.iter().rposition(|byte| *byte != 0).unwrap();
        for sample in 0..40 {
            for (path, content) in &untouched {
                fs::write(path, content).unwrap();
            }
            let at = used * sample / 40;
            edit(&place, &file, |content| content[at] ^= 0x55);
            let what = format!("byte {at} of {file}");
            match place.try_open() {
                Ok(storage) => assert!(all(&storage) == held(), "{what}"),
                Err(_) => {
                    assert_refused(&place, &what);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

/// SC-105: what a crash cut off was never acknowledged.
#[test]
fn a_torn_end_that_nobody_was_told_of_is_no_damage() {
    let place = used();
    let file = fs::File::options().write(true).open(place.home.store.join("db")).unwrap();
    let content = fs::read(place.home.store.join("db")).unwrap();
    let used = content.iter().rposition(|byte| *byte != 0).unwrap() as u64;

    file.write_all_at(&noise(5, 300), used + 1).unwrap();

    assert!(all(&place.open()) == held());
}

/// SC-112
#[test]
fn an_unreadable_folder_is_left_alone() {
    let place = used();
    let aside = swap::beside(&place.home.store, "aside");
    fs::rename(&place.home.store, &aside).unwrap();
    // A file where the folder should be can't be read as one, whoever asks.
    fs::write(&place.home.store, "in the way").unwrap();

    let error = place.try_open().map(drop).unwrap_err();

    assert!(matches!(error, OpenError::Disk { .. }), "{error}");
    assert_eq!(fs::read(&place.home.store).unwrap(), b"in the way");
}

/// SC-112: a change of a team's own files that cannot be read is reported.
#[actix::test]
async fn a_damaged_change_is_reported() {
    let place = Place::new();
    let storage = Arc::new(place.open());
    let key = key_of("edge\0self-change", "c1");
    commit(&storage, [(key, Some(b"{".to_vec()))]);
    let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
    let home = crate::settings::tests::place();
    let ids = Ids::new(Arc::new(Randomness));
    let changes = Changes::new(home.home.clone(), Arc::new(WallClock), ids, store);

    let listed = changes.list().await.unwrap();

    assert!(listed.is_empty());
    assert_eq!(storage.damage_reports().unwrap().take().len(), 1);
}
