//! Forms of what an archive holds: values that two records share, and rows of former versions.

use std::slice;

use hivewright_actors::{
    ids::TaskId,
    journal::records::Piece,
    search::Search,
    storage::{ArchiveLists as _, Order},
    store::{
        keys::key_of,
        records::{Record, decode},
    },
    task::{
        Lane,
        query::{TaskQuery, TaskWindow},
        records::LaneKey,
    },
};

use super::{
    super::{FILE, History, Taken},
    Shelf, Stored, bytes, done, holds, search,
};

/// A turn of a task in a session: what it is found by, what was asked, and its answer.
fn turn(id: &str, words: &str) -> [Stored; 2] {
    let task = done(id, "main", 10, words, "so be it");
    let lane = LaneKey::new(&Lane { team: "main".into(), topic: None }, 1);
    let events = serde_json::json!([
        {
            "seq": 1, "turn": "turn-1", "timestamp": 10, "type": "turn_start", "task_ids": [id],
            "team": "main", "topic": null, "source_channel": null, "attempt": 1,
            "redelivered": false, "sdk": "native", "provider": "offline", "model": "demo",
            "prompt_hash": "0", "toolset_hash": "0",
        },
        {"seq": 2, "turn": "turn-1", "timestamp": 10, "type": "assistant_text", "text": words, "step": 1},
    ]);
    let key = key_of(Piece::KIND, &(lane, id.bytes().map(u64::from).sum::<u64>()));
    let value = events.to_string().into_bytes();
    decode::<Piece<'_>>(&key, &value).unwrap();
    [task, (key, value)]
}

impl Shelf {
    fn reopened(self) -> Self {
        let Self { folder, history } = self;
        history.close().unwrap();
        let (history, _) = History::open(folder.path()).unwrap();
        Self { folder, history }
    }

    fn sql<T: rusqlite::types::FromSql>(&self, select: &str) -> T {
        let file = rusqlite::Connection::open(self.folder.path().join(FILE)).unwrap();
        file.query_row(select, [], |row| row.get(0)).unwrap()
    }

    fn sql_batch(&self, sql: &str) {
        let file = rusqlite::Connection::open(self.folder.path().join(FILE)).unwrap();
        file.execute_batch(sql).unwrap();
    }

    /// How many tasks stand in the row of a journal.
    fn guests(&self) -> i64 {
        self.sql("SELECT count(*) FROM done JOIN hist ON hist.rowid = piece WHERE length(done.value) = 0")
    }

    /// Each of these is there as it is here, and nothing else.
    fn holds(&self, records: &[Stored]) {
        for (key, value) in records {
            assert_eq!(self.history.get(key).unwrap().as_ref(), Some(value));
        }
        let mut records = records.to_vec();
        records.sort_unstable();
        let found = self.history.scan(b"", b"\xff", Order::Rising, usize::MAX).unwrap();
        let found: Vec<Stored> = found.into_iter().map(|(key, it)| (key, it.unwrap())).collect();
        assert!(found == records);
    }

    /// How many records a search finds, whatever their kind; each is there.
    fn count(&self, search: &Search) -> usize {
        let (matches, total) = self.history.search(search).unwrap();
        assert!(matches.iter().all(|found| self.history.get(&found.key).unwrap().is_some()));
        total
    }

    fn listed(&self, words: &str) -> usize {
        let wanted = TaskQuery { words: Some(words.to_owned()), ..TaskQuery::default() };
        let window = TaskWindow { counted: 9, ..TaskWindow::newest(9) };
        let page = self.history.tasks(&wanted, &window, &[TaskId::from("t-9")].into()).unwrap();
        assert_eq!(page.places.len(), page.total);
        page.total
    }
}

/// A task and its journal share a value, and each is read, listed, found, changed and removed as if they did not.
#[test]
fn a_task_and_its_journal_share_a_value_until_one_of_them_changes() {
    let [task, piece] = turn("task-183450936ae807b0", "the zq81hunterxv of June");
    let both = [task.clone(), piece.clone()];
    let [hidden, hidden_piece] = turn("task-183450936ae807b0", "the ${vault:KEY} of June");
    let key = |record: &Stored| record.0.clone();
    let removed = |shelf: &Shelf, record| {
        shelf.history.take([(key(record), Taken::Removed)].into_iter()).unwrap();
    };
    let shelf = Shelf::with(&both);
    // Taken in again, as after a crash.
    shelf.take(&both);
    let shelf = shelf.reopened();
    assert_eq!(shelf.guests(), 1);
    shelf.holds(&both);
    assert_eq!((shelf.listed("hunterxv"), shelf.listed("walrus")), (1, 0));
    assert_eq!(shelf.count(&search("zq81hunterxv")), 2);

    for (changed, other) in [(&hidden, &piece), (&hidden_piece, &task)] {
        let shelf = Shelf::with(&both);
        shelf.take(slice::from_ref(changed));
        shelf.holds(&[changed.clone(), other.clone()]);
        assert_eq!(shelf.guests(), 0);
        removed(&shelf, changed);
        shelf.holds(slice::from_ref(other));
    }
    for (gone, other) in [(&task, &piece), (&piece, &task)] {
        let shelf = Shelf::with(&both);
        removed(&shelf, gone);
        shelf.holds(slice::from_ref(other));
    }
    let shelf = Shelf::with(&both);
    shelf.take(&[hidden.clone(), hidden_piece.clone()]);
    assert_eq!(shelf.guests(), 1);
    shelf.holds(&[hidden, hidden_piece]);
    assert_eq!((shelf.listed("hunterxv"), shelf.listed("vault")), (0, 1));
    assert!(!holds(&bytes(shelf.folder.path()), "hunterxv"));
}

/// SC-111: a row that a task does not stand in is not taken for it.
#[test]
fn a_task_whose_row_is_gone_or_of_another_says_so() {
    let [task, piece] = turn("task-1", "one");
    let [other, other_piece] = turn("task-22", "two");
    let change = |sql: &str| {
        let shelf = Shelf::with(&[task.clone(), piece.clone(), other.clone(), other_piece.clone()]);
        shelf.sql_batch(sql);
        shelf
    };
    let of_other = "UPDATE done SET piece = (SELECT max(rowid) FROM hist)";
    for sql in [of_other, "DELETE FROM hist WHERE rowid = 1", "UPDATE hist SET value = x'0000'"] {
        let shelf = change(sql);

        assert!(shelf.history.get(&task.0).is_err(), "{sql}");
        shelf.take(&[task.clone(), piece.clone()]);
        assert_eq!(shelf.history.get(&task.0).unwrap().as_ref(), Some(&task.1), "{sql}");
        assert_eq!(shelf.history.get(&piece.0).unwrap().as_ref(), Some(&piece.1), "{sql}");
    }
    let shelf = change(of_other);
    shelf.take(std::slice::from_ref(&task));
    assert_eq!(shelf.history.get(&other.0).unwrap().as_ref(), Some(&other.1));
}

/// SC-113: an archive of a former program is opened as fast as any, and holds rows of both forms.
#[test]
fn an_archive_of_a_former_program_keeps_its_rows_and_takes_new_ones() {
    let ids = ["task-183450936ae807b0", "task-183450936ae807b1", "task-2"];
    let [old, new, newer] = ids.map(|id| turn(id, &format!("words of {id}")));
    let shelf = Shelf::with(&[]);
    shelf.sql_batch("PRAGMA user_version = 1");
    let shelf = shelf.reopened();
    // Apart, as they were: a task that comes behind its journal stays alone.
    old.iter().rev().for_each(|record| shelf.take(slice::from_ref(record)));
    shelf.sql_batch(
        "DROP VIEW archive; ALTER TABLE standing RENAME TO archive;
        ALTER TABLE done DROP COLUMN piece; PRAGMA user_version = 0;",
    );

    let shelf = shelf.reopened();
    assert_eq!(shelf.guests(), 0);
    shelf.take(&new);
    let shelf = shelf.reopened();
    newer.iter().for_each(|record| shelf.take(slice::from_ref(record)));

    assert_eq!(shelf.guests(), 2);
    let all = [old.clone(), new.clone(), newer].concat();
    shelf.holds(&all);
    assert_eq!(shelf.listed("words of"), 3);
    assert_eq!(shelf.count(&search("words")), 6);
    shelf.take(&old);
    shelf.holds(&all);
    assert_eq!(shelf.guests(), 3);
}

/// SC-113: a program that does not keep the indexes of lists must not write to what has them.
#[test]
fn an_archive_of_a_former_program_is_one_of_this_once_it_was_opened() {
    for (before, after) in [(1, 3), (2, 4), (3, 3), (4, 4)] {
        let shelf = Shelf::with(&[]);
        shelf.sql_batch(&format!("PRAGMA user_version = {before}"));

        let shelf = shelf.reopened();

        let file = rusqlite::Connection::open(shelf.folder.path().join(FILE)).unwrap();
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, after);
    }
}

/// SC-113: an archive of a later form is refused, also by programs that know of no versions.
#[test]
fn an_archive_of_a_later_version_is_refused() {
    let shelf = Shelf::with(&[]);
    let file = rusqlite::Connection::open(shelf.folder.path().join(FILE)).unwrap();
    let asked = file.query_row("SELECT store, number FROM archive", [], |_| Ok(())).unwrap_err();
    assert!(asked.to_string().contains("of a later version of Hivewright"), "{asked}");
    shelf.sql_batch("PRAGMA user_version = 5");

    let refused = History::open(shelf.folder.path()).map(drop).unwrap_err();

    assert_eq!(refused, "`history.db` has version 5, this program knows versions up to 4");
}
