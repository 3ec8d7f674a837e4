//! Lists of the audit, wherever its lines lie: in the hot half, in the archive, or in both.

use std::cell::RefCell;

use hivewright_actors::{
    archive::Archive,
    audit::{
        Audit, CallAudit, Decision,
        lines::lines,
        query::{AuditPage, AuditPlace, AuditQuery, AuditWindow},
    },
    clock::Timestamp,
    doubles::disk::{Disk, MemoryStorage},
    store::{
        keys::key_of,
        records::{Record, Writes},
    },
};
use proptest::{option, prelude::*, sample::select};
use rusqlite::Connection;

use super::*;
use crate::storage::{Progress, history::FILE};

const ACTORS: [&str; 3] = ["operator", "ann", "team:ops"];
const ACTIONS: [&str; 3] = ["tokens.create", "tokens", "pause"];
const TEAMS: [&str; 2] = ["main", "ops"];
const TOOLS: [&str; 3] = ["bash", "read", "write"];
const MOMENTS: std::ops::Range<u64> = 995..1_040;

/// Lines that differ in all that lists filter by; several are of the same moment.
fn line(number: usize) -> Audit {
    let noise = noise(number as u64, 8);
    let of = |place: usize, most: usize| usize::from(noise[place]) % most;
    let call = (of(0, 2) > 0).then(|| {
        Box::new(CallAudit {
            team: TEAMS[of(1, 2)].into(),
            task: "task-1".into(),
            turn: "turn-1".into(),
            tool: TOOLS[of(2, 3)].to_owned(),
            decision: Decision::ALL[of(3, Decision::ALL.len())],
            rule: None,
            duration_ms: 5,
            ok: true,
            arguments: "{}".to_owned(),
            result: "fine".to_owned(),
        })
    });
    Audit {
        id: format!("{number:016x}"),
        at: Timestamp(1_000 + (number as u64 * 7_919 % 100) / 3),
        actor: ACTORS[of(4, 3)].into(),
        action: if call.is_some() { "tool.call" } else { ACTIONS[of(5, 3)] }.to_owned(),
        target: ["the Garden", "roses"][of(6, 2)].to_owned(),
        from: "api".to_owned(),
        outcome: ["ok", "404"][of(7, 2)].to_owned(),
        call,
    }
}

fn written(lines: &[Audit]) -> Batch {
    lines.iter().fold(Writes::new(), |writes, line| writes.put(line)).batch().unwrap()
}

fn key(line: &Audit) -> Vec<u8> {
    key_of(Audit::KIND, &(line.at, line.id.clone()))
}

fn removed(lines: &[Audit]) -> Batch {
    Batch::from(lines.iter().map(|line| (key(line), None)).collect::<Vec<_>>())
}

fn archive(storage: &TieredStorage) {
    while storage.take_next().unwrap() {}
}

/// The same lines in two tiers and in one: archived ones, some that were changed or removed since, some that are in both,
/// and some that have not moved yet.
fn stores() -> (Place, TieredStorage, Arc<MemoryStorage>) {
    let place = Place::new();
    let (tiers, plain) = (place.open(), Disk::default().mount(None));
    let lines: Vec<Audit> = (0..160).map(line).collect();
    let changed = |line: &Audit| Audit { actor: "eve".into(), ..line.clone() };
    let changed: Vec<Audit> = lines[..7].iter().map(changed).collect();
    tiers.commit(&written(&lines[..100])).unwrap();
    archive(&tiers);
    tiers.commit(&written(&changed)).unwrap();
    tiers.commit(&removed(&lines[7..12])).unwrap();
    tiers.commit(&written(&lines[100..130])).unwrap();
    tiers.take_oldest().unwrap();
    tiers.commit(&written(&lines[130..])).unwrap();
    tiers.commit(&removed(&lines[105..108])).unwrap();
    plain.commit(&written(&lines)).unwrap();
    plain.commit(&written(&changed)).unwrap();
    plain.commit(&removed(&lines[7..12])).unwrap();
    plain.commit(&removed(&lines[105..108])).unwrap();
    (place, tiers, plain)
}

fn queries() -> impl Strategy<Value = AuditQuery> {
    let some = |names: &[&'static str]| option::weighted(0.3, select(names.to_vec()));
    let of = (
        some(&["operator", "ann", "eve", "nobody"]),
        some(&["tokens", "tokens.create", "tool", "tool.call", "token"]),
        some(&["main", "ops", "billing"]),
        some(&TOOLS),
        option::weighted(0.3, select(Decision::ALL.to_vec())),
    );
    let more = (
        option::weighted(0.3, MOMENTS),
        option::weighted(0.3, MOMENTS),
        some(&["garden", "team:", "404", "nowhere"]),
    );
    (of, more).prop_map(|((actor, action, team, tool, decision), (since, until, words))| {
        AuditQuery {
            actor: actor.map(str::to_owned),
            action: action.map(str::to_owned),
            team: team.map(str::to_owned),
            tool: tool.map(str::to_owned),
            decision: decision.map(|decision| decision.as_str()),
            since: Timestamp(since.unwrap_or_default()),
            until: until.map(Timestamp),
            words: words.map(str::to_owned),
        }
    })
}

fn windows() -> impl Strategy<Value = AuditWindow> {
    let order = select(vec![Order::Rising, Order::Falling]);
    let after = option::of((MOMENTS, 0..160_usize));
    let skip = option::weighted(0.5, 0..50_usize).prop_map(Option::unwrap_or_default);
    (order, after, skip, 0..40_usize, 0..60_usize).prop_map(
        |(order, after, skip, most, counted)| {
            let place = |(at, number)| (Timestamp(at), format!("{number:016x}"));
            AuditWindow { order, after: after.map(place), skip, most: skip + most, counted }
        },
    )
}

/// What there is behind the first, which are wanted only as a number, and how many there are in all.
fn behind(mut page: AuditPage, skip: usize) -> (Vec<AuditPlace>, usize) {
    let skip = skip - page.skipped;
    (page.places.split_off(skip.min(page.places.len())), page.total)
}

fn everything() -> AuditWindow {
    AuditWindow { order: Order::Falling, after: None, skip: 0, most: 5_000, counted: 5_000 }
}

/// OP-02, TO-17: whatever is filtered by and wherever lines lie, a list is the one that a walk over all of them makes.
#[test]
fn lists_of_the_audit_are_those_of_a_walk() {
    let (_place, tiers, plain) = stores();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });

    let compared = runner.run(&(queries(), windows()), |(wanted, window)| {
        let found = lines(&tiers, &wanted, &window).unwrap();
        prop_assert!(found.skipped <= window.skip);
        let expected = lines(&*plain, &wanted, &window).unwrap();
        prop_assert_eq!(behind(found, window.skip), behind(expected, window.skip));
        Ok(())
    });

    compared.unwrap();
    let found = lines(&tiers, &AuditQuery::default(), &everything()).unwrap();
    assert_eq!((found.places.len(), found.total), (152, 152));
}

/// Makes of an archive what a former program left: without an index of the audit.
fn without_index(place: &Place) {
    let file = Connection::open(place.home.store.join(FILE)).unwrap();
    file.execute_batch(
        r#"DROP INDEX "audit.by_facet"; DROP TABLE "audit.facet";
        ALTER TABLE audit DROP COLUMN facet; PRAGMA wal_checkpoint(TRUNCATE);"#,
    )
    .unwrap();
}

/// What a start tells of its progress, and whether it goes on behind so many lines.
fn opened(place: &Place, most: u64) -> (Result<TieredStorage, OpenError>, Vec<(u64, u64)>) {
    let told = RefCell::new(Vec::new());
    let progress = |Progress { done, total, .. }: Progress| {
        told.borrow_mut().push((done, total));
        if done < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let opened = open(&place.home, Durability::Power, &progress);
    (opened, told.into_inner())
}

/// SC-104: an archive without the index is filled once, from where a start was broken off.
#[test]
fn an_archive_of_a_former_program_gets_its_index_step_by_step() {
    let place = Place::new();
    let storage = place.open();
    let all: Vec<Audit> = (0..2_500).map(line).collect();
    storage.commit(&written(&all)).unwrap();
    commit(&storage, [(key_of(Audit::KIND, &(Timestamp(1), "?".to_owned())), Some(b"?".to_vec()))]);
    archive(&storage);
    storage.rest().unwrap();
    drop(storage);
    without_index(&place);

    let (broken_off, first) = opened(&place, 1_000);
    let (storage, rest) = opened(&place, u64::MAX);
    let storage = storage.unwrap();
    let rare = AuditQuery {
        tool: Some("bash".to_owned()),
        actor: Some("ann".to_owned()),
        ..AuditQuery::default()
    };
    let found = lines(&storage, &rare, &everything()).unwrap();
    let total = lines(&storage, &AuditQuery::default(), &everything()).unwrap().total;
    drop(storage);
    let (again, told) = opened(&place, u64::MAX);

    assert!(broken_off.is_err());
    assert_eq!(first, [(0, 2_501), (1_000, 2_501)]);
    assert_eq!(rest, [(0, 1_501), (1_000, 1_501), (1_501, 1_501)]);
    let is_rare = |line: &&Audit| line.actor.as_str() == "ann" && line.facet().tool == Some("bash");
    assert_eq!(found.total, all.iter().filter(is_rare).count());
    assert_eq!(total, 2_500);
    assert!(again.is_ok() && told.is_empty(), "{told:?}");
}

/// SC-111: a line whose checksum is wrong is in no list, also if its content is whole, and not counted.
#[test]
fn a_line_that_moves_damaged_is_not_counted() {
    let place = Place::new();
    let storage = place.open();
    let [damaged, sound] = [line(1), line(2)];
    storage.hot.commit(&written(&[damaged.clone(), sound.clone()])).unwrap();
    let mut sealed = storage.hot.database.get(key(&damaged)).unwrap().unwrap().to_vec();
    // In the checksum, which stands before the content.
    sealed[6] ^= 1;
    storage.hot.database.insert(key(&damaged), sealed).unwrap();
    storage.rest().unwrap();
    drop(storage);

    let storage = place.open();

    assert!(storage.get(&key(&damaged)).is_err());
    let found = lines(&storage, &AuditQuery::default(), &everything()).unwrap();
    assert_eq!((found.places, found.total), (vec![(sound.at, sound.id)], 1));
}

/// Whatever removes or changes a line: what was only said of it is not left in the index.
#[test]
fn the_last_line_of_an_actor_takes_the_name_with_it() {
    let place = Place::new();
    let storage = place.open();
    let by = |number: usize, actor: &str, action: &str| Audit {
        actor: actor.into(),
        action: action.to_owned(),
        call: None,
        ..line(number)
    };
    let all = [by(1, "ann", "pause"), by(2, "ann", "pause"), by(3, "bob", "pause")];
    storage.commit(&written(&all)).unwrap();
    archive(&storage);
    assert_eq!(storage.cold.facets(), ["ann pause", "bob pause"]);

    storage.commit(&removed(&all[..1])).unwrap();
    storage.commit(&written(&[by(3, "somebody", "pause")])).unwrap();
    archive(&storage);
    assert_eq!(storage.cold.facets(), ["ann pause", "somebody pause"]);
    storage.commit(&removed(&all)).unwrap();
    archive(&storage);

    assert_eq!(storage.cold.facets(), [] as [&str; 0]);
}
