//! Lists of approvals and questions, wherever they lie: in the hot half, in the archive, or in both.

use hivewright_actors::{
    approvals::{
        lists::list,
        query::{WaitPage, WaitPlace, WaitQuery, WaitRank, WaitWindow},
        question::{Question, QuestionStatus},
        record::{Approval, Status},
        records::Waits,
    },
    archive::Archive,
    clock::Timestamp,
    doubles::disk::{Disk, MemoryStorage},
    store::{keys::key_of, records::Writes},
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use rusqlite::Connection;
use serde::Serialize;
use serde_json::json;

use super::*;
use crate::storage::history::FILE;

const TEAMS: [&str; 3] = ["main", "ops", "billing"];

/// Approvals that differ in all that lists filter by; several began in the same moment.
pub(super) fn approval(number: usize) -> Approval {
    let noise = noise(number as u64, 3);
    let of = |place: usize, most: usize| usize::from(noise[place]) % most;
    let created = 1_000 + (number as u64 * 7_919 % 100) / 3;
    serde_json::from_value(json!({
        "id": id(number), "short_id": format!("s{number:05}"), "kind": (["tool", "spawn", "config"][of(0, 3)]),
        "team": {"name": TEAMS[of(1, 3)], "generation": 1}, "requester": {"kind": "system"}, "arguments": {},
        "summary": "", "risk": "normal", "label": "trusted", "digest": "", "nonce": "",
        "status": Status::ALL[of(2, Status::ALL.len())], "created_at": created,
        "expires_at": 2_000 - created / 2, "execution": "none",
    }))
    .unwrap()
}

pub(super) fn question(number: usize) -> Question {
    let noise = noise(number as u64, 2);
    let of = |place: usize, most: usize| usize::from(noise[place]) % most;
    let lane = json!({"team": "main", "topic": null});
    serde_json::from_value(json!({
        "id": id(number), "team": {"name": TEAMS[of(0, 3)], "generation": 1}, "lane": lane, "task": "task-1",
        "question": "", "kind": "text", "status": QuestionStatus::ALL[of(1, QuestionStatus::ALL.len())],
        "lineage": {"root": "task-1", "path": []}, "cause": {"kind": "system"},
        "created_at": 1_000 + number % 30, "expires_at": 1_500 - number % 30,
    }))
    .unwrap()
}

fn id(number: usize) -> String {
    format!("apr-{number:04}")
}

fn written<R: Waits + Serialize>(rows: &[R]) -> Batch {
    let records = rows.iter().fold(Writes::new(), |writes, row| writes.put(row)).batch().unwrap();
    let own = key_of(R::KIND, &String::new());
    // Without the marks, which are no part of this.
    Batch::from(
        records.changes.into_iter().filter(|(key, _)| key.starts_with(&own)).collect::<Vec<_>>(),
    )
}

fn archive(storage: &TieredStorage) {
    while storage.take_next().unwrap() {}
}

/// The same rows in two tiers and in one: archived ones, some that were removed since, some that are in both, and
/// some that have not moved yet.
fn stores<R: Waits + Serialize>(
    row: impl Fn(usize) -> R,
) -> (Place, TieredStorage, Arc<MemoryStorage>) {
    let place = Place::new();
    let (tiers, plain) = (place.open(), Disk::default().mount(None));
    let rows = |range: std::ops::Range<usize>| range.map(&row).collect::<Vec<_>>();
    let removed = written(&rows(7..12)).changes.into_iter().map(|(key, _)| (key, None));
    let removed = Batch::from(removed.collect::<Vec<_>>());
    tiers.commit(&written(&rows(0..60))).unwrap();
    archive(&tiers);
    tiers.commit(&removed).unwrap();
    tiers.commit(&written(&rows(60..80))).unwrap();
    tiers.take_oldest().unwrap();
    tiers.commit(&written(&rows(80..100))).unwrap();
    plain.commit(&written(&rows(0..100))).unwrap();
    plain.commit(&removed).unwrap();
    (place, tiers, plain)
}

fn queries() -> impl Strategy<Value = WaitQuery> {
    let teams = vec(select(TEAMS.to_vec()).prop_map(Into::into), 0..3);
    (
        option::weighted(0.4, teams),
        option::weighted(0.4, select(vec!["pending", "approved", "open", "answered", "nothing"])),
        option::weighted(0.3, select(vec!["tool", "spawn", "text"])),
        select(vec![WaitRank::Created, WaitRank::Expires]),
    )
        .prop_map(|(teams, status, kind, rank)| WaitQuery { teams, status, kind, rank })
}

fn windows() -> impl Strategy<Value = WaitWindow> {
    let order = select(vec![Order::Rising, Order::Falling]);
    let after = option::of((995..1_500_u64, 0..100_usize));
    let skip = option::weighted(0.5, 0..50_usize).prop_map(Option::unwrap_or_default);
    (order, after, skip, 0..40_usize, 0..60_usize).prop_map(
        |(order, after, skip, most, counted)| {
            let after = after.map(|(at, number)| (Timestamp(at), id(number)));
            WaitWindow { order, after, skip, most: skip + most, counted }
        },
    )
}

/// What there is behind the first, which are wanted only as a number, and how many there are in all.
fn behind(mut page: WaitPage, skip: usize) -> (Vec<WaitPlace>, usize) {
    let skip = skip - page.skipped;
    (page.places.split_off(skip.min(page.places.len())), page.total)
}

fn everything() -> WaitWindow {
    WaitWindow { order: Order::Falling, after: None, skip: 0, most: 1_000, counted: 1_000 }
}

fn compare<R: Waits<Key: ToString> + Serialize>(row: impl Fn(usize) -> R) {
    let (_place, tiers, plain) = stores(row);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });

    let compared = runner.run(&(queries(), windows()), |(wanted, window)| {
        let found = list::<R>(&tiers, &wanted, &window).unwrap();
        prop_assert!(found.skipped <= window.skip);
        let expected = list::<R>(&*plain, &wanted, &window).unwrap();
        prop_assert_eq!(behind(found, window.skip), behind(expected, window.skip));
        Ok(())
    });

    compared.unwrap();
    let found = list::<R>(&tiers, &WaitQuery::default(), &everything()).unwrap();
    assert_eq!((found.places.len(), found.total), (95, 95));
}

/// OP-02: whatever is filtered by and wherever they lie, a list is the one that a walk over all of them makes.
#[test]
fn lists_of_approvals_and_questions_are_those_of_a_walk() {
    compare(approval);
    compare(question);
}

/// Approvals are decided on in the archive, too: what they were before is in no list.
#[test]
fn an_approval_that_is_decided_changes_its_place_in_lists() {
    let place = Place::new();
    let storage = place.open();
    let pending = Approval { status: Status::Pending, ..approval(1) };
    let of_status = |status| {
        let wanted = WaitQuery { status: Some(status), ..WaitQuery::default() };
        list::<Approval>(&storage, &wanted, &everything()).unwrap().total
    };
    storage.commit(&written(std::slice::from_ref(&pending))).unwrap();
    archive(&storage);
    assert_eq!((of_status("pending"), of_status("denied")), (1, 0));

    storage.commit(&written(&[Approval { status: Status::Denied, ..pending }])).unwrap();
    let waiting = (of_status("pending"), of_status("denied"));
    archive(&storage);

    assert_eq!(waiting, (0, 1));
    assert_eq!((of_status("pending"), of_status("denied")), (0, 1));
}

/// SC-104: an archive without the index is filled once.
#[test]
fn approvals_of_a_former_program_are_listed() {
    let place = Place::new();
    let storage = place.open();
    storage.commit(&written(&(0..50).map(approval).collect::<Vec<_>>())).unwrap();
    archive(&storage);
    storage.rest().unwrap();
    drop(storage);
    let file = Connection::open(place.home.store.join(FILE)).unwrap();
    file.execute_batch(
        r#"DROP INDEX "apr.by_created_at"; DROP INDEX "apr.by_expires_at"; DROP TABLE "apr.facet";
        ALTER TABLE apr DROP COLUMN facet; ALTER TABLE apr DROP COLUMN created_at;
        ALTER TABLE apr DROP COLUMN expires_at; PRAGMA wal_checkpoint(TRUNCATE);"#,
    )
    .unwrap();
    drop(file);

    let storage = place.open();

    let found = list::<Approval>(&storage, &WaitQuery::default(), &everything()).unwrap();
    assert_eq!((found.places.len(), found.total), (50, 50));
    let of_ops = WaitQuery { teams: Some(vec!["ops".into()]), ..WaitQuery::default() };
    let expected = (0..50).map(approval).filter(|row| row.team.name.as_str() == "ops").count();
    assert_eq!(list::<Approval>(&storage, &of_ops, &everything()).unwrap().total, expected);
}
