//! Lists of sessions, wherever their journals lie: in the hot half, in the archive, or in both.

use hivewright_actors::{
    archive::Archive,
    clock::Timestamp,
    doubles::disk::{Disk, MemoryStorage},
    history::{Fact, HistoryEvent},
    journal::{
        query::{SessionPage, SessionPlace, SessionQuery, SessionWindow},
        records::Piece,
        sessions::listed,
    },
    store::{
        keys::key_of,
        records::{Record, Writes},
    },
    task::{Lane, records::LaneKey},
};
use proptest::{option, prelude::*, sample::select};
use rusqlite::Connection;

use super::*;
use crate::storage::history::FILE;

const TEAMS: [&str; 3] = ["main", "ops", "billing"];
const TOPICS: [Option<&str>; 3] = [None, Some("roses"), Some("weeds")];
const MOMENTS: std::ops::Range<u64> = 995..1_040;

/// Sessions that differ in all that lists filter by; several were used last in the same moment.
pub(super) fn lane(number: usize) -> LaneKey {
    let topic = match TOPICS.get(number / 6) {
        Some(topic) => topic.map(Into::into),
        None => Some(format!("topic-{}", number / 6).as_str().into()),
    };
    let lane = Lane { team: TEAMS[number % 3].into(), topic };
    LaneKey::new(&lane, 1 + (number / 3 % 2) as u32)
}

/// A piece of a journal: two events, the later of which says when the session was used.
pub(super) fn piece(lane: &LaneKey, first: u64, at: u64) -> Writes {
    let event = |seq, at| HistoryEvent {
        seq,
        turn: "turn-1".into(),
        timestamp: Timestamp(at),
        fact: Fact::AssistantText { text: "Roses are red.".to_owned(), step: 1 },
        redacted: false,
    };
    Writes::new().events(&lane.lane, lane.generation, &[event(first, at - 1), event(first + 1, at)])
}

fn key(lane: &LaneKey, first: u64) -> Vec<u8> {
    key_of(Piece::KIND, &(lane.clone(), first))
}

fn archive(storage: &TieredStorage) {
    while storage.take_next().unwrap() {}
}

fn used_at(number: usize) -> u64 {
    1_000 + (number as u64 * 7_919 % 100) / 3
}

/// What happens to both stores, in order; and what has moved to the archive by then.
fn happen(commit: &dyn Fn(Batch), moved: &dyn Fn()) {
    let write = |writes: Writes| commit(writes.batch().unwrap());
    let remove = |lane: &LaneKey, first| commit(Batch::from(vec![(key(lane, first), None)]));
    for number in 0..80 {
        write(piece(&lane(number), 1, used_at(number)));
        write(piece(&lane(number), 3, used_at(number + 1)));
    }
    // The last piece goes, the first one, both.
    for number in 0..6 {
        remove(&lane(number), 3);
        remove(&lane(number + 6), 1);
        remove(&lane(number + 12), 1);
        remove(&lane(number + 12), 3);
    }
    moved();
    // The same again of what is archived; some go on, and some come back.
    for number in 20..26 {
        remove(&lane(number), 3);
        remove(&lane(number + 6), 1);
        remove(&lane(number + 12), 1);
        remove(&lane(number + 12), 3);
        write(piece(&lane(number + 18), 5, used_at(number + 2)));
        write(piece(&lane(number - 8), 7, used_at(number)));
    }
    moved();
    for number in 40..46 {
        remove(&lane(number), 3);
        remove(&lane(number + 6), 1);
        remove(&lane(number + 6), 3);
        write(piece(&lane(number + 12), 5, used_at(number + 3)));
        write(piece(&lane(number + 40), 1, used_at(number)));
    }
}

/// The same sessions in two tiers and in one.
fn stores() -> (Place, TieredStorage, Arc<MemoryStorage>) {
    let place = Place::new();
    let (tiers, plain) = (place.open(), Disk::default().mount(None));
    happen(&|batch| tiers.commit(&batch).unwrap(), &|| archive(&tiers));
    happen(&|batch| plain.commit(&batch).unwrap(), &|| {});
    (place, tiers, plain)
}

fn queries() -> impl Strategy<Value = SessionQuery> {
    let teams = option::weighted(
        0.5,
        select(vec![
            vec!["main"],
            vec!["ops", "billing"],
            vec!["main", "main"],
            vec!["nobody"],
            vec![],
        ]),
    );
    let of = (
        teams,
        option::weighted(0.3, 1..4_u32),
        option::weighted(0.3, select(vec!["roses", "weeds", "topic-5", "nothing"])),
        option::weighted(0.4, MOMENTS),
    );
    of.prop_map(|(teams, generation, topic, since)| SessionQuery {
        teams: teams.map(|teams| teams.into_iter().map(Into::into).collect()),
        generation,
        topic: topic.map(Into::into),
        since: Timestamp(since.unwrap_or_default()),
    })
}

fn windows() -> impl Strategy<Value = SessionWindow> {
    let order = select(vec![Order::Rising, Order::Falling]);
    let after = option::of((MOMENTS, 0..100_usize));
    let skip = option::weighted(0.5, 0..40_usize).prop_map(Option::unwrap_or_default);
    (order, after, skip, 0..30_usize, 0..60_usize).prop_map(
        |(order, after, skip, most, counted)| {
            let place = |(at, number)| (Timestamp(at), lane(number).session_id());
            SessionWindow { order, after: after.map(place), skip, most: skip + most, counted }
        },
    )
}

/// What there is behind the first, which are wanted only as a number, and how many there are in all.
fn behind(mut page: SessionPage, skip: usize) -> (Vec<SessionPlace>, usize) {
    let skip = skip - page.skipped;
    (page.places.split_off(skip.min(page.places.len())), page.total)
}

fn everything(storage: &dyn Storage) -> Vec<SessionPlace> {
    let window =
        SessionWindow { order: Order::Falling, after: None, skip: 0, most: 5_000, counted: 5_000 };
    listed(storage, &SessionQuery::default(), &window).unwrap().places
}

/// OP-02: whatever is filtered by and wherever journals lie, a list is the one that a walk over all of them makes.
#[test]
fn lists_of_sessions_are_those_of_a_walk() {
    let (_place, tiers, plain) = stores();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });

    let compared = runner.run(&(queries(), windows()), |(wanted, window)| {
        let found = listed(&tiers, &wanted, &window).unwrap();
        prop_assert!(found.skipped <= window.skip);
        let expected = listed(&*plain, &wanted, &window).unwrap();
        prop_assert_eq!(behind(found, window.skip), behind(expected, window.skip));
        Ok(())
    });

    compared.unwrap();
    assert_eq!(everything(&tiers).len(), 74);
    archive(&tiers);
    assert_eq!(everything(&tiers), everything(&*plain));
    assert_eq!(tiers.cold.faults().unwrap(), [] as [&str; 0]);
}

/// SC-104: an archive without the index gets it when it is opened.
#[test]
fn an_archive_of_a_former_program_gets_its_index_of_sessions() {
    let (place, tiers, plain) = stores();
    archive(&tiers);
    tiers.rest().unwrap();
    drop(tiers);
    let file = Connection::open(place.home.store.join(FILE)).unwrap();
    file.execute_batch(r#"DROP TABLE "hist.session"; PRAGMA wal_checkpoint(TRUNCATE);"#).unwrap();
    drop(file);

    let tiers = place.open();

    assert_eq!(everything(&tiers), everything(&*plain));
    assert_eq!(tiers.cold.faults().unwrap(), [] as [&str; 0]);
}

/// SC-111: a session whose last piece cannot be read is listed by the one before it.
#[test]
fn a_session_is_listed_by_what_can_be_read_of_it() {
    let place = Place::new();
    let storage = place.open();
    let (first, second) = (lane(0), lane(1));
    for writes in [piece(&first, 1, 10), piece(&first, 3, 20), piece(&second, 1, 15)] {
        storage.hot.commit(&writes.batch().unwrap()).unwrap();
    }
    for damaged in [key(&first, 3), key(&second, 1)] {
        let mut sealed = storage.hot.database.get(&damaged).unwrap().unwrap().to_vec();
        // In the checksum, which stands before the content.
        sealed[6] ^= 1;
        storage.hot.database.insert(&damaged, sealed).unwrap();
    }
    storage.rest().unwrap();
    drop(storage);

    let storage = place.open();
    let read = everything(&storage);
    archive(&storage);

    let expected = [(Timestamp(10), first.session_id())];
    assert_eq!(read, expected);
    assert_eq!(everything(&storage), expected);
    assert_eq!(storage.cold.faults().unwrap(), [] as [&str; 0]);
}

/// SC-111: a piece that went bad in the archive is a fault of its own, and none of the index of sessions.
#[test]
fn a_piece_that_goes_bad_in_the_archive_is_no_fault_of_an_index() {
    let place = Place::new();
    let storage = place.open();
    let (first, second) = (lane(0), lane(1));
    for writes in [piece(&first, 1, 10), piece(&first, 3, 20), piece(&second, 1, 15)] {
        storage.commit(&writes.batch().unwrap()).unwrap();
    }
    archive(&storage);
    storage.rest().unwrap();
    drop(storage);
    let file = Connection::open(place.home.store.join(FILE)).unwrap();
    let mut rest = file.prepare("UPDATE hist SET value = zeroblob(40) WHERE key = ?1").unwrap();
    for bad in [key(&first, 3), key(&second, 1)] {
        assert_eq!(rest.execute([&bad[Piece::KIND.len() + 1..]]).unwrap(), 1);
    }
    drop(rest);
    file.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").unwrap();
    drop(file);

    let storage = place.open();

    let faults = storage.cold.faults().unwrap();
    assert!(faults.iter().all(|fault| !fault.contains("index of sessions")), "{faults:?}");
}
