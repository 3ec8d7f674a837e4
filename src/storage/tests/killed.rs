//! A process that is killed while it commits.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use hivewright_actors::archive::Archive;
use rusqlite::Connection;

use super::*;

/// How often the process is killed, unless `HIVEWRIGHT_ROUNDS` says so.
const ROUNDS: usize = 10;
/// So often in one place: all that was ever written there is looked at after each kill.
const IN_ONE_PLACE: usize = 10;
/// Among so many kills, some fall between the archive's commit and that of sled.
const MANY: usize = 100;

const PLACE: &str = "HIVEWRIGHT_TEST_COMMITS_INTO";
const CHILD: &str = "storage::tests::killed::a_child_commits_until_it_is_killed";

fn home_of(folder: &Path) -> Home {
    Home::new(&folder.join("data"), &folder.join("run"))
}

/// What commit `number` writes. Some of it is large, so that groups span several pages and segments.
fn written(number: u64) -> [(Vec<u8>, Option<Vec<u8>>); 4] {
    let length = if number.is_multiple_of(10) { 60_000 } else { 400 };
    [
        put(&format!("a/{number:08}"), noise(number, 100)),
        put(&format!("b/{number:08}"), noise(number, length)),
        put(&format!("done\0{number:08}"), noise(number, 300)),
        put("newest", number.to_be_bytes()),
    ]
}

/// Runs only when another test starts it as a process of its own.
#[test]
fn a_child_commits_until_it_is_killed() {
    let Some(folder) = env::var_os(PLACE) else { return };
    let storage = open(&home_of(Path::new(&folder)), Durability::Process, &quiet).unwrap();
    let newest = storage.get(b"newest").unwrap();
    let next = newest.map_or(1, |newest| u64::from_be_bytes(newest.try_into().unwrap()) + 1);
    let mut out = std::io::stdout();
    for number in next.. {
        commit(&storage, written(number));
        // A kill finds it moving records as well, one half done or the other.
        if number.is_multiple_of(3) {
            storage.take_next().unwrap();
        }
        writeln!(out, "\ncommitted {number}").unwrap();
        out.flush().unwrap();
    }
}

/// What the archive beside a store says that it has taken in. From a copy: whoever closes it tidies its log.
fn taken(place: &Place) -> u64 {
    let copy = tempfile::tempdir().unwrap();
    for name in ["history.db", "history.db-wal"] {
        fs::copy(place.path("run/store").join(name), copy.path().join(name)).unwrap();
    }
    let archive = Connection::open(copy.path().join("history.db")).unwrap();
    let number = archive.query_row("SELECT number FROM standing", [], |row| row.get(0));
    i64::cast_unsigned(number.unwrap())
}

/// SC-104, SC-135
#[test]
fn whatever_was_acknowledged_survives_being_killed() {
    let rounds = env::var("HIVEWRIGHT_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut place = Place::new();
    // After how many kills sled held what had not moved, and after how many what the archive had as well.
    let (mut pending, mut in_both) = (0, 0);
    for round in 0..rounds {
        if round.is_multiple_of(IN_ONE_PLACE) {
            place = Place::new();
        }
        let mut chance = [0; 1];
        getrandom::fill(&mut chance).unwrap();
        let mut child = Command::new("/proc/self/exe")
            .args(["--exact", CHILD, "--nocapture", "--test-threads=1"])
            .env(PLACE, place.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        let mut hear = |line: &str| {
            if let Some(number) = line.strip_prefix("committed ") {
                acknowledged.push(number.parse::<u64>().unwrap());
            }
            acknowledged.len()
        };
        while hear(&lines.next().expect("the child commits").unwrap()) <= usize::from(chance[0]) {}
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            hear(&line);
        }

        let taken = taken(&place);
        let storage = place.open();
        pending += usize::from(!storage.pending.all().is_empty());
        in_both += usize::from(storage.hot.archive().unwrap().number < taken);
        let newest = storage.get(b"newest").unwrap().unwrap();
        let newest = u64::from_be_bytes(newest.try_into().unwrap());

        let last = *acknowledged.last().unwrap();
        assert!(newest >= last, "round {round}: {newest} of {last} are there");
        // The one that was not acknowledged is there whole or not at all.
        assert!(newest <= last + 1, "round {round}");
        let expected: Records =
            (1..=newest).flat_map(written).map(|(key, value)| (key, value.unwrap())).collect();
        assert_eq!(all(&storage), expected, "round {round}");
        // The copy that was looked at is gone.
        assert_eq!(place.names(), ["store"], "round {round}");
    }
    println!(
        "{rounds} kills: {pending} with records that had not moved, {in_both} with some in both"
    );
    assert!(pending >= rounds.div_ceil(2), "{pending} of {rounds}");
    assert!(in_both > 0 || rounds < MANY, "none of {rounds}");
}
