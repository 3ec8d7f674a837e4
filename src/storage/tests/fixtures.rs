//! Stores as earlier versions of the program left them, in `tests/fixtures/stores/`.

use std::collections::BTreeSet;

use hivewright_actors::{
    approvals::{question::Question, record::Approval, records},
    channel::records::{self as outboxes, ChannelRow},
    router::records as conversations,
    spine,
    storage::Damage,
    store::reads::{Range, scan_keyed},
    task::records as tasks,
};

use super::*;
use crate::{
    api::tokens::TokenKind,
    http::auth::registry::Registry,
    policy,
    storage::{migrate::Schema, open::open_as, restore},
};

fn fixture(version: u16, what: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores");
    fixtures.join(format!("version-{version}-{what}.tar.zst"))
}

/// A home as a service of that version left it when it was killed.
fn home(version: u16) -> Place {
    let place = Place::new();
    let file = fixture(version, "home");
    let packed = fs::File::open(&file).unwrap_or_else(|error| {
        panic!("version {version} has no fixture `{}`: {error}", file.display())
    });
    let plain = zstd::Decoder::new(packed).unwrap();
    let mut archive = tar::Archive::new(plain);
    archive.set_preserve_permissions(true);
    archive.unpack(place.folder.path()).unwrap();
    place
}

/// All records of a fixture, in the form of its own version.
fn as_written(version: u16) -> Records {
    let place = home(version);
    let schema = Schema { version, steps: &[] };
    all(&open_as(&place.home, Durability::Process, &schema, &quiet).unwrap())
}

/// The first parts of keys.
fn kinds(records: &Records) -> BTreeSet<String> {
    let kind = |key: &Vec<u8>| {
        let key = hivewright_actors::store::keys::printable(key);
        let parts: Vec<_> = key.split('/').collect();
        match parts[0] {
            "edge" => format!("edge/{}", parts[1]),
            other => other.to_owned(),
        }
    };
    records.keys().map(kind).collect()
}

/// Reads everything by its type. Returns what could not be read.
fn read_all(storage: &SledStorage) -> Vec<Damage> {
    let recovered = spine::recover(storage).unwrap();
    assert!(recovered.lost.is_empty());
    assert_eq!(recovered.teams.len(), 2);
    assert_eq!(recovered.tasks.len(), 2);
    let done = tasks::ended(storage, Default::default(), 100, |_| true, |_| true).unwrap();
    assert!(done.len() >= 8, "{}", done.len());
    assert!(done.iter().any(|task| {
        let outcome = task.outcome.as_ref().unwrap();
        task.lane.team.as_str() == "research" && outcome.text == "Forty-two."
    }));
    for (id, _) in scan_keyed::<ChannelRow>(storage, Range::all()).unwrap() {
        conversations::channel(storage, &id).unwrap().unwrap();
        outboxes::outbox(storage, &id).unwrap();
    }
    assert_eq!(records::all::<Approval>(storage).unwrap().len(), 2);
    assert_eq!(records::all::<Question>(storage).unwrap().len(), 1);
    let tokens = Registry::load(storage).unwrap().grants();
    let names: BTreeSet<_> = tokens.iter().map(|grant| &*grant.name).collect();
    assert!(names.contains("alice"), "{names:?}");
    assert!(tokens.iter().any(|grant| grant.kind == TokenKind::Operator));
    assert_eq!(policy::unreadable_in(storage).unwrap(), [""; 0]);
    storage.damage_reports().unwrap().take()
}

/// OP-91: whatever an earlier version stored is there and can be read.
#[test]
fn a_store_of_every_earlier_version_is_upgraded_whole() {
    for version in 1..Schema::CURRENT.version {
        let place = home(version);
        let before = as_written(version);

        let storage = place.open();

        assert_eq!(storage.schema(), Schema::CURRENT.version);
        let after = all(&storage);
        assert_eq!(after.len(), before.len(), "version {version}");
        let values =
            |records: &Records| -> BTreeSet<Vec<u8>> { records.values().cloned().collect() };
        assert_eq!(values(&after), values(&before), "version {version}");
        for kind in [
            "task",
            "done",
            "hist",
            "msg",
            "chan",
            "topic",
            "out",
            "team",
            "apr",
            "qst",
            "edge/run",
            "edge/trigger",
            "edge/memory",
            "edge/vault",
            "edge/token",
            "edge/policy",
            "edge/identity",
            "trust",
            "audit",
        ] {
            assert!(kinds(&after).contains(kind), "version {version}: {kind}");
        }
        assert_eq!(read_all(&storage), [], "version {version}");
    }
}

/// OP-91, SC-110
#[test]
fn a_backup_of_every_earlier_version_is_restored_whole() {
    for version in 1..Schema::CURRENT.version {
        let place = Place::new();

        restore::restore(&fixture(version, "backup"), &place.home, false, &quiet).unwrap();

        let storage = place.open();
        assert_eq!(storage.schema(), Schema::CURRENT.version);
        assert_eq!(read_all(&storage), [], "version {version}");
    }
}

/// OP-91: the program of each earlier version refuses what this one wrote.
#[test]
fn every_earlier_version_refuses_this_one() {
    let place = Place::new();
    drop(place.open());
    for version in 1..Schema::CURRENT.version {
        let schema = Schema { version, steps: &[] };

        let error = open_as(&place.home, Durability::Power, &schema, &quiet);

        let error = error.map(drop).unwrap_err();
        assert!(matches!(error, OpenError::Newer { .. }), "{error}");
        assert_eq!(error.exit_code(), 3);
    }
}
