//! Stores as this and earlier versions of the program left them, in `tests/fixtures/stores/`.

use std::{collections::BTreeSet, ops::RangeInclusive};

use hivewright_actors::{
    approvals::{question::Question, record::Approval, records},
    channel::records::{self as outboxes, ChannelRow},
    clock::Timestamp,
    notice::Notice,
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

/// The versions that there are fixtures of: all earlier ones, and this one if it has them already.
fn versions() -> RangeInclusive<u16> {
    let current = Schema::CURRENT.version;
    let last = if fixture(current, "home").exists() { current } else { current - 1 };
    1..=last
}

/// How much of each kind a fixture holds.
struct Held {
    open: usize,
    ended: usize,
    approvals: usize,
    questions: usize,
    notices: usize,
    /// Kinds that the first fixture has no record of.
    more: &'static [&'static str],
}

impl Held {
    fn by(version: u16) -> Self {
        match version {
            1 => Self { open: 2, ended: 9, approvals: 2, questions: 1, notices: 0, more: &[] },
            _ => Self {
                open: 3,
                ended: 46,
                approvals: 3,
                questions: 2,
                notices: 2,
                more: &[
                    "began", "call", "cause", "cost", "inbox", "log", "notice", "spend", "summary",
                    "use", "use-task",
                ],
            },
        }
    }
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
fn read_all(storage: &TieredStorage, held: &Held) -> Vec<Damage> {
    let recovered = spine::recover(storage).unwrap();
    assert!(recovered.lost.is_empty());
    assert_eq!(recovered.teams.len(), 2);
    assert_eq!(recovered.tasks.len(), held.open);
    let done = tasks::ended(storage, Default::default(), 100, |_| true, |_| true).unwrap();
    assert_eq!(done.len(), held.ended);
    assert!(done.iter().any(|task| {
        let outcome = task.outcome.as_ref().unwrap();
        task.lane.team.as_str() == "research" && outcome.text == "Forty-two."
    }));
    for (id, _) in scan_keyed::<ChannelRow>(storage, Range::all()).unwrap() {
        conversations::channel(storage, &id, Timestamp::default()).unwrap().unwrap();
        outboxes::outbox(storage, &id).unwrap();
    }
    assert_eq!(records::all::<Approval>(storage).unwrap().len(), held.approvals);
    assert_eq!(records::all::<Question>(storage).unwrap().len(), held.questions);
    let notices = scan_keyed::<Notice>(storage, Range::all()).unwrap();
    assert_eq!(notices.len(), held.notices);
    let tokens = Registry::load(storage).unwrap().grants();
    let names: BTreeSet<_> = tokens.iter().map(|grant| &*grant.name).collect();
    assert!(names.contains("alice"), "{names:?}");
    assert!(tokens.iter().any(|grant| grant.kind == TokenKind::Operator));
    assert_eq!(policy::unreadable_in(storage).unwrap(), [""; 0]);
    storage.damage_reports().unwrap().take()
}

/// OP-91: whatever a version stored is there and can be read.
#[test]
fn a_store_of_every_version_is_opened_whole() {
    for version in versions() {
        let (place, held) = (home(version), Held::by(version));
        let before = as_written(version);

        let storage = place.open();

        assert_eq!(storage.schema(), Schema::CURRENT.version);
        let after = all(&storage);
        assert_eq!(after.len(), before.len(), "version {version}");
        let values =
            |records: &Records| -> BTreeSet<Vec<u8>> { records.values().cloned().collect() };
        assert_eq!(values(&after), values(&before), "version {version}");
        let first = [
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
        ];
        for kind in first.iter().chain(held.more) {
            assert!(kinds(&after).contains(*kind), "version {version}: {kind}");
        }
        assert_eq!(read_all(&storage, &held), [], "version {version}");
    }
}

/// OP-91, SC-110
#[test]
fn a_backup_of_every_version_is_restored_whole() {
    for version in versions() {
        let place = Place::new();

        restore::restore(&fixture(version, "backup"), &place.home, false, &quiet).unwrap();

        let storage = place.open();
        assert_eq!(storage.schema(), Schema::CURRENT.version);
        assert_eq!(read_all(&storage, &Held::by(version)), [], "version {version}");
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
