//! Search in an archive on a real disk.

mod forms;

use std::{fs, path::Path};

use hivewright_actors::{
    clock::Timestamp,
    search::{Place, Query, Search},
    storage::Order,
    store::{keys::key_of, records::Record},
    task::{
        Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};
use tempfile::TempDir;

use super::{FILE, History, Line, Taken};

type Stored = (Vec<u8>, Vec<u8>);

fn done(id: &str, team: &str, at: u64, body: &str, answer: &str) -> Stored {
    let lane = Lane { team: team.into(), topic: None };
    let at = Timestamp(at);
    let outcome = Outcome { text: answer.to_owned(), ..Outcome::new(Ending::Done, at) };
    let task = Task {
        outcome: Some(outcome),
        ..Task::new(id.into(), lane, body.to_owned(), "ann".to_owned(), at)
    };
    let key = key_of(FinishedTask::KIND, &task.id);
    (key, serde_json::to_vec(&FinishedTask::of(&task)).unwrap())
}

fn search(query: &str) -> Search {
    Search {
        query: Query::parse(query).unwrap(),
        teams: None,
        since: None,
        until: None,
        order: Order::Falling,
        after: None,
        skip: 0,
        most: 50,
        counted: 10_000,
    }
}

struct Shelf {
    folder: TempDir,
    history: History,
}

impl Shelf {
    fn with(records: &[Stored]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let history = History::create(folder.path(), 1).unwrap();
        let shelf = Self { folder, history };
        shelf.take(records);
        shelf
    }

    fn take(&self, records: &[Stored]) {
        let taken = records.iter().map(|(key, value)| (key, Taken::Value(value)));
        self.history.take(taken).unwrap();
    }

    /// The ids of tasks that are found.
    fn found(&self, search: &Search) -> Vec<String> {
        let (matches, total) = self.history.search(search).unwrap();
        assert!(total >= matches.len());
        let id = |key: &[u8]| String::from_utf8(key[b"done\0".len()..].to_vec()).unwrap();
        matches.iter().map(|found| id(&found.key)).collect()
    }
}

fn three() -> Shelf {
    Shelf::with(&[
        done("t-1", "main", 10, "Where is the invoice?", "In the café on the corner."),
        done("t-2", "ops", 30, "restart the server", "It runs again."),
        done("t-3", "main", 20, "invoices of May", "There are three invoices."),
    ])
}

#[test]
fn records_are_found_by_words_phrases_and_beginnings_the_newest_first() {
    let shelf = three();
    let found = |query| shelf.found(&search(query));

    assert_eq!(found("invoice"), ["t-1"]);
    assert_eq!(found("INVOICE cafe"), ["t-1"]);
    assert_eq!(found("invoice*"), ["t-3", "t-1"]);
    assert_eq!(found("the"), ["t-2", "t-1"]);
    assert_eq!(found("\"the server\""), ["t-2"]);
    assert_eq!(found("\"server the\""), [] as [&str; 0]);
    assert_eq!(found("invoice server"), [] as [&str; 0]);
}

#[test]
fn a_search_is_narrowed_by_team_and_time_and_read_page_by_page() {
    let shelf = three();
    let everything = search("i* OR");
    let all = search("\"i\"*");
    let narrowed = |change: &dyn Fn(&mut Search)| {
        let mut search = all.clone();
        change(&mut search);
        shelf.found(&search)
    };

    // `OR` is a word as any other.
    assert_eq!(shelf.found(&everything), [] as [&str; 0]);
    assert_eq!(narrowed(&|_| {}), ["t-2", "t-3", "t-1"]);
    assert_eq!(narrowed(&|search| search.order = Order::Rising), ["t-1", "t-3", "t-2"]);
    assert_eq!(narrowed(&|search| search.teams = Some(vec!["ops".into()])), ["t-2"]);
    assert_eq!(narrowed(&|search| search.teams = Some(vec![])), [] as [&str; 0]);
    assert_eq!(narrowed(&|search| search.since = Some(Timestamp(20))), ["t-2", "t-3"]);
    assert_eq!(narrowed(&|search| search.until = Some(Timestamp(20))), ["t-3", "t-1"]);
    assert_eq!(narrowed(&|search| search.skip = 1), ["t-3", "t-1"]);
    let mut page = Search { most: 1, ..all };
    let (first, total) = shelf.history.search(&page).unwrap();
    // One more than is wanted says that there are more.
    assert_eq!((first.len(), total), (2, 3));
    page.after = Some(Place { at: Timestamp(30), id: first[0].place.id });
    assert_eq!(shelf.found(&page), ["t-3", "t-1"]);
    page.teams = Some(vec!["ops".into()]);
    page.after = None;
    assert_eq!(shelf.history.search(&page).unwrap().1, 1);
}

/// Records come late or not in order, and are found in order of time all the same, page by page.
#[test]
fn what_came_in_another_order_is_found_in_the_order_of_time() {
    let moments = |number: u64| match number {
        // One long after the others, one long before them, and those between in disorder.
        100 => 900_000,
        2_500 => 1,
        number => 1_000 + number * 10 + number * 7_919 % 300,
    };
    let records: Vec<Stored> = (0..3_000)
        .map(|number| done(&format!("t-{number:04}"), "main", moments(number), "hay", "stack"))
        .collect();
    let shelf = Shelf::with(&records);
    let mut expected: Vec<(u64, u64)> =
        (0..3_000).map(|number| (moments(number), number)).collect();
    expected.sort_unstable();
    let name = |(_, number): &(u64, u64)| format!("t-{number:04}");
    let rising: Vec<String> = expected.iter().map(name).collect();
    let falling: Vec<String> = rising.iter().rev().cloned().collect();

    for (order, expected) in [(Order::Rising, rising), (Order::Falling, falling)] {
        let page = Search { order, most: 9, ..search("hay") };
        for skip in [0, 20, 1_500, 2_995, 3_000] {
            let end = expected.len().min(skip + 10);
            assert_eq!(shelf.found(&Search { skip, ..page.clone() }), expected[skip..end]);
        }
        let (first, total) = shelf.history.search(&page).unwrap();
        assert_eq!(total, 3_000);
        let after = Some(first[4].place);
        assert_eq!(shelf.found(&Search { after, ..page.clone() }), expected[5..15]);
    }
    let (since, until) = (Some(Timestamp(5_000)), Some(Timestamp(5_100)));
    let within: Vec<String> =
        expected.iter().rev().filter(|(at, _)| (5_000..=5_100).contains(at)).map(name).collect();
    let found = shelf.found(&Search { since, until, ..search("hay") });
    assert!(!within.is_empty() && found == within, "{found:?}");
}

#[test]
fn nothing_that_is_typed_is_an_error() {
    let shelf = three();
    let long = "x".repeat(10_000);
    let many = "a ".repeat(5_000);
    let hostile = [
        "\"",
        "a \"",
        "*",
        "a*",
        "* a",
        "AND",
        "a AND",
        "OR b",
        "NOT a",
        "NEAR(",
        "NEAR(a b, 2)",
        "-x",
        "a -x",
        "col:x",
        "text:a",
        "{text}:a",
        "^a",
        "a + b",
        "a\0b",
        "\"a\0\"",
        "🐝",
        "a 🐝",
        "(",
        ")",
        "((a)",
        "';--",
        "\\",
        "%",
        "words",
        "é",
        "ﬁ",
        "漢字",
        &long,
        &many,
    ];

    for text in hostile {
        if let Some(query) = Query::parse(text) {
            let search = Search { query, ..search("x") };
            assert!(shelf.history.search(&search).is_ok(), "{text}");
        }
    }
}

/// What the file and its log hold.
fn bytes(folder: &Path) -> Vec<u8> {
    let log = folder.join(format!("{FILE}-wal"));
    let mut bytes = fs::read(folder.join(FILE)).unwrap();
    bytes.extend(fs::read(log).unwrap_or_default());
    bytes
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// A value that became a secret is replaced in its record, and nothing of it is left in the file.
#[test]
fn what_was_replaced_or_removed_is_neither_found_nor_left_in_the_file() {
    let secret = "zq81hunterxv";
    let others: Vec<Stored> = (0..200)
        .map(|number| done(&format!("o-{number}"), "main", 5, &format!("word{number} zq81"), "so"))
        .collect();
    let shelf = Shelf::with(&others);
    let kept = done("t-1", "main", 10, &format!("it is {secret} here"), "fine");
    shelf.take(&[kept, done("t-2", "main", 10, secret, "fine")]);
    assert_eq!(shelf.found(&search(secret)).len(), 2);
    assert!(holds(&bytes(shelf.folder.path()), "hunterxv"), "the index holds words as they are");

    shelf.take(&[done("t-1", "main", 10, "it is ${vault:KEY} here", "fine")]);
    let (gone, _) = done("t-2", "main", 10, "", "");
    shelf.history.take([(gone, Taken::Removed)].into_iter()).unwrap();

    assert_eq!(shelf.found(&search(secret)), [] as [&str; 0]);
    assert_eq!(shelf.found(&search("vault")), ["t-1"]);
    assert_eq!(shelf.found(&search("zq81")).len(), 51);
    assert_eq!(shelf.history.records(), 201);
    let bytes = bytes(shelf.folder.path());
    for part in [secret, "hunterxv", "unterxv"] {
        assert!(!holds(&bytes, part), "{part}");
    }
}

#[test]
fn a_record_that_is_taken_in_again_is_found_once() {
    let shelf = three();

    shelf.take(&[done("t-2", "ops", 30, "restart the server", "It runs again.")]);

    assert_eq!(shelf.found(&search("server")), ["t-2"]);
    let (_, total) = shelf.history.search(&search("server")).unwrap();
    assert_eq!(total, 1);
}

#[test]
fn a_damaged_record_is_replaced_and_found_by_what_it_says_now() {
    let shelf = three();
    let damage = rusqlite::Connection::open(shelf.folder.path().join(FILE)).unwrap();
    damage.execute("UPDATE done SET value = x'00'", []).unwrap();

    shelf.take(&[done("t-2", "ops", 30, "restart the engine", "It runs.")]);

    assert_eq!(shelf.found(&search("engine")), ["t-2"]);
}

/// SC-111: SQLite itself is asked whether its tables, their indexes and the index of words hold together.
#[test]
fn a_torn_file_is_told_of() {
    let tears = [
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'done.by_facet'",
        "DELETE FROM words_data WHERE id > 10",
    ];

    for tear in tears {
        let shelf = three();
        let sound = shelf.history.faults().unwrap();
        let connection = rusqlite::Connection::open(shelf.folder.path().join(FILE)).unwrap();
        connection.execute_batch(tear).unwrap();
        drop(connection);

        let torn = shelf.history.faults().unwrap();

        assert_eq!(sound, Vec::<String>::new());
        assert!(torn.iter().all(|fault| fault.starts_with("`history.db`: ")), "{torn:?}");
        assert!(!torn.is_empty(), "{tear}");
    }
}

/// SC-112: an archive that was set aside is read as it is, its log with it.
#[test]
fn an_archive_that_is_looked_at_stays_as_it_is() {
    let shelf = three();
    let aside = tempfile::tempdir().unwrap();
    let names = [FILE.to_owned(), format!("{FILE}-wal")];
    for name in &names {
        fs::copy(shelf.folder.path().join(name), aside.path().join(name)).unwrap();
    }
    let files = || names.each_ref().map(|name| fs::read(aside.path().join(name)).unwrap());
    let before = files();

    let history = History::look(aside.path()).unwrap();
    let found = history.snapshot().unwrap().behind(&[], 10).unwrap();
    let refused = history.take([(b"done\0t-4", Taken::Removed)].into_iter());
    drop(history);

    assert_eq!(found.len(), 3);
    assert!(refused.is_err() && before == files());
    assert!(!before[1].is_empty());
}

/// Memory that only work needs is given back, and the archive works on.
#[test]
fn an_archive_rests_and_works_on() {
    let shelf = three();
    let log = shelf.folder.path().join(format!("{FILE}-wal"));
    let length = || fs::metadata(&log).unwrap().len();
    let written = length();

    shelf.history.empty_log().unwrap();
    let emptied = length();
    shelf.history.shrink().unwrap();
    shelf.take(&[done("t-4", "main", 40, "one more invoice", "It is there.")]);

    assert!(written > 0 && emptied == 0);
    assert_eq!(shelf.found(&search("invoice")), ["t-4", "t-1"]);
}

/// OP-50: two weeks of lines are no part of what a start and a turn touch.
#[test]
fn log_lines_are_archived() {
    let key = key_of(Line::KIND, "000001794703151-0000000001");
    let value = br#"{"at":1794703151,"level":"info","target":"x","message":"ready"}"#.to_vec();

    let shelf = Shelf::with(&[(key.clone(), value.clone())]);

    assert!(shelf.history.holds(&key));
    assert_eq!(shelf.history.get(&key).unwrap(), Some(value));
}
