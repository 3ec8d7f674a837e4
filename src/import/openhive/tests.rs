//! An import that is broken off.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hivewright_actors::{
    clock::Clock,
    ids::Ids,
    retention,
    storage::{Batch, Order},
    store::keys::printable,
};
use tempfile::TempDir;

use super::*;
use crate::{
    settings::{config::Durability, home::Flags},
    storage::{self, open::open, tiers::TieredStorage},
    system::{Randomness, WallClock},
    vault::{Vault, master::KeyFiles},
};

const SCHEMA: &str = include_str!("../../../tests/fixtures/openhive/schema.sql");
const ROWS: &str = include_str!("../../../tests/fixtures/openhive/rows.sql");

/// A small installation.
fn installation() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let old = "2026-01-15T08:30:00.000Z";
    for (path, text) in [
        ("data/config/config.yaml", "log_level: debug\n"),
        (
            "data/config/providers.yaml",
            "profiles: {default: {type: api, api_key: key-0123456789}}\n",
        ),
        ("data/rules/house.md", "# House\n"),
        ("run/teams/main/config.yaml", "name: main\n"),
        ("run/teams/research/config.yaml", "name: research\nallowed_tools: [Read]\n"),
        ("run/teams/research/notes.txt", "one\n"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let database = folder.path().join("run/openhive.db");
    let database = rusqlite::Connection::open(database).unwrap();
    let now = WallClock.now().date();
    let rows = ROWS.replace("{now}", &now).replace("{old}", old);
    database.execute_batch(&format!("{SCHEMA}{rows}")).unwrap();
    folder
}

/// A home with a store.
struct Place {
    home: Home,
    storage: TieredStorage,
    environment: Environment,
    _folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::fixed([]);
        let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
        let home = Home::new(&flags, &environment).unwrap();
        home.prepare().unwrap();
        let store = storage::Home::new(home.data(), home.run());
        Self {
            storage: open(&store, Durability::Process, &storage::unwatched).unwrap(),
            home,
            environment,
            _folder: folder,
        }
    }

    /// Imports until so many things were taken. Returns whether it was all.
    fn import(&self, source: &Path, things: u64) -> bool {
        let source = Source::new(&source.join("data"), &source.join("run")).unwrap();
        let import = Import::read(source, Options::default()).unwrap();
        let now = WallClock.now();
        let plan = import
            .plan(&Goal {
                home: &self.home,
                storage: Some(&self.storage),
                environment: &self.environment,
                idle_after: Duration::from_secs(1800),
                zone: "UTC".into(),
                ids: Ids::new(Arc::new(Randomness)),
                now,
            })
            .unwrap();
        let stop = AtomicBool::new(false);
        let files = KeyFiles::new(&self.home.secrets(), &self.environment);
        let vault = Vault::open(&self.storage, files.read(), Arc::new(WallClock)).unwrap();
        let done = import.apply(
            &plan,
            &Site {
                home: &self.home,
                backups: &self.home.backups(),
                storage: &self.storage,
                vault,
                now,
                stop: &stop,
                progress: &|done, _| stop.store(done >= things, Ordering::Relaxed),
            },
        );
        match done {
            Ok(_) => true,
            Err(ApplyError::Stopped) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Keys of records that hold a text.
    fn holding(&self, text: &str) -> Vec<String> {
        let mut holding = Vec::new();
        self.storage
            .scan(&[], &[u8::MAX], Order::Rising, &mut |key, value| {
                if String::from_utf8_lossy(value.unwrap()).contains(text) {
                    holding.push(printable(key));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        holding
    }

    /// How many records there are of each kind.
    fn records(&self) -> BTreeMap<String, usize> {
        let mut records = BTreeMap::new();
        self.storage
            .scan(&[], &[u8::MAX], Order::Rising, &mut |key, _| {
                let key = String::from_utf8_lossy(key).into_owned();
                let kind: Vec<&str> = key.split('\0').take(2).collect();
                let kind = match kind[..] {
                    ["edge", kind] => kind,
                    _ => kind[0],
                };
                *records.entry(kind.to_owned()).or_default() += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        records
    }
}

/// OR-26
#[test]
fn an_import_that_is_broken_off_again_and_again_makes_the_same_as_one_that_is_not() {
    let source = installation();
    let (whole, pieces) = (Place::new(), Place::new());

    assert!(whole.import(source.path(), u64::MAX));
    let mut runs = 1;
    while !pieces.import(source.path(), 1) {
        runs += 1;
        assert!(runs < 200, "it does not come to an end");
    }

    assert!(runs > 10, "{runs}");
    assert_eq!(pieces.records(), whole.records());
    // What was kept in a vault by an earlier run is still known to be a secret (MV-07).
    let token = "ghp_research_0123456789";
    assert_eq!(pieces.holding(token), Vec::<String>::new());
    assert!(!pieces.holding("The token is ${vault:GITHUB_TOKEN}").is_empty());
    for path in ["teams/research/notes.txt", "teams/research/config.yaml"] {
        let text = |place: &Place| fs::read_to_string(place.home.run().join(path)).unwrap();
        assert_eq!(text(&pieces), text(&whole), "{path}");
    }
}

/// OR-26, OR-97: the journals of conversations that are taken over have no tasks to go with.
#[test]
fn what_is_imported_is_looked_at_by_the_next_night() {
    let (source, place) = (installation(), Place::new());
    let mark = retention::look_at_all().batch().unwrap().changes.remove(0).0;
    let changes = vec![(mark.clone(), Some(b"{}".to_vec()))];
    place.storage.commit(&Batch { changes }).unwrap();

    assert!(place.import(source.path(), u64::MAX));

    assert!(place.records().contains_key("hist"), "{:?}", place.records());
    assert_eq!(place.storage.get(&mark).unwrap(), None);
}
