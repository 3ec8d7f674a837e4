//! Upgrades to a newer schema, also interrupted ones.

use super::*;
use crate::storage::{
    backup,
    migrate::{self, Schema, Step},
    open::open_as,
    parts, restore, swap,
};

/// Version 2 keeps tasks under another prefix, drops drafts, and leaves the rest.
const STEP: Step = |key, value| {
    let text = str::from_utf8(key).ok()?;
    match text.split_once('/') {
        Some(("task", id)) => Some((format!("work/{id}").into(), value.to_ascii_uppercase())),
        Some(("draft", _)) => None,
        _ => Some((key.to_vec(), value.to_vec())),
    }
};
const FIRST: Schema<'_> = Schema { version: 1, steps: &[] };
const SECOND: Schema<'_> = Schema { version: 2, steps: &[STEP] };

fn older() -> Place {
    let place = Place::new();
    let storage = open_first(&place).unwrap();
    let large = vec![b'x'; 3 * parts::WHOLE];
    commit(
        &storage,
        [put("task/1", "one"), put("task/2", large), put("draft/1", "-"), put("other", "same")],
    );
    place
}

fn upgraded() -> Records {
    [
        (b"work/1".to_vec(), b"ONE".to_vec()),
        (b"work/2".to_vec(), vec![b'X'; 3 * parts::WHOLE]),
        (b"other".to_vec(), b"same".to_vec()),
    ]
    .into()
}

fn open_first(place: &Place) -> Result<TieredStorage, OpenError> {
    open_as(&place.home, Durability::Power, &FIRST, &quiet)
}

fn open_second(place: &Place) -> Result<TieredStorage, OpenError> {
    open_as(&place.home, Durability::Power, &SECOND, &quiet)
}

fn kept(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("run")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains("store.before-")).collect()
}

/// SC-113, OP-91
#[test]
fn an_older_store_is_upgraded_after_a_backup_and_kept() {
    let place = older();
    let before = all(&open_first(&place).unwrap());

    let storage = open_second(&place).unwrap();

    assert_eq!(all(&storage), upgraded());
    assert_eq!((storage.schema(), storage.records()), (2, 3));
    drop(storage);
    assert_eq!(place.names(), ["backups", "store", "store.before"]);
    assert_eq!(all(&open_second(&place).unwrap()), upgraded());
    assert_eq!(place.names(), ["backups", "store", "store.before"], "upgraded once");

    let mut old = place.home.clone();
    old.store = kept(&place).remove(0);
    let old = open_as(&old, Durability::Power, &FIRST, &quiet);
    assert_eq!(all(&old.unwrap()), before);
    let backup = backup::list(&place.home.backups).unwrap().remove(0);
    let other = Place::new();
    restore::restore(&backup, &other.home, false, &quiet).unwrap();
    assert_eq!(all(&open_first(&other).unwrap()), before);
}

/// SC-113
#[test]
fn a_newer_store_is_refused_with_exit_code_3() {
    let place = older();
    drop(open_second(&place).unwrap());
    let before = files(&place.home.store);

    let error = open_first(&place).map(drop).unwrap_err();

    assert!(matches!(error, OpenError::Newer { found: 2, known: 1 }), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(before == files(&place.home.store));
}

/// SC-113: each prefix of the steps, as a kill between them leaves it, ends in a usable store.
#[test]
fn an_upgrade_interrupted_anywhere_leaves_a_usable_store() {
    for steps in 0..4 {
        let place = older();
        let before = all(&open_first(&place).unwrap());
        let storage = open_first(&place).unwrap();
        if steps >= 1 {
            backup::create(&storage, &place.home, None, &quiet).unwrap();
        }
        let mut built = None;
        if steps >= 2 {
            built = Some(migrate::rebuild(&storage, &place.home.store, &SECOND, &quiet).unwrap());
        }
        drop(storage);
        if let (true, Some(built)) = (steps >= 3, built) {
            swap::stage(&built, &place.home.store, "before").unwrap();
        }

        assert_eq!(all(&open_first(&place).unwrap()), before, "the older program, after {steps}");
        assert_eq!(all(&open_second(&place).unwrap()), upgraded(), "after {steps}");
        assert!(!place.names().contains(&"store.building".to_owned()), "after {steps}");
    }
}

/// SC-113: a build that was cut short is begun anew.
#[test]
fn a_half_built_store_is_never_used() {
    let place = older();
    let building = swap::beside(&place.home.store, "building");
    fs::create_dir(&building).unwrap();
    fs::write(building.join("db"), "half").unwrap();

    assert_eq!(all(&open_second(&place).unwrap()), upgraded());
}

/// SC-113: without a backup there is no upgrade.
#[test]
fn an_upgrade_whose_backup_fails_changes_nothing() {
    let place = older();
    fs::write(&place.home.backups, "in the way").unwrap();

    let error = open_second(&place).map(drop).unwrap_err();

    assert!(matches!(error, OpenError::Backup(_)), "{error}");
    assert_eq!(place.names(), ["backups", "store"]);
    assert_eq!(open_first(&place).unwrap().schema(), 1);
}

/// SC-113
#[test]
fn a_replaced_store_goes_a_day_after_the_first_good_start() {
    let place = older();
    drop(open_second(&place).unwrap());
    let bad = swap::beside(&place.home.store, "bad-2026");
    fs::create_dir(&bad).unwrap();

    for _ in 0..2 {
        migrate::forget_replaced(&place.home).unwrap();
    }
    assert_eq!(kept(&place).len(), 1);

    let since = fs::File::open(kept(&place)[0].join("started-since")).unwrap();
    let day = std::time::Duration::from_secs(24 * 60 * 60 + 1);
    since.set_modified(std::time::SystemTime::now() - day).unwrap();
    migrate::forget_replaced(&place.home).unwrap();

    assert_eq!(kept(&place), Vec::<PathBuf>::new());
    assert!(bad.exists());
}
