//! Indexes of the archive that do not agree with its records: each fault is found and named, and a restore mends it.

use hivewright_actors::{
    archive::Archive,
    audit::Audit,
    clock::Timestamp,
    storage::Tiers,
    store::records::Writes,
    task::{
        Lane, Task,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
};
use rusqlite::Connection;

use super::{
    sessions::{lane, piece},
    waits::{approval, question},
    *,
};
use crate::storage::{backup, history::FILE, restore};

fn finished(id: &str, body: &str) -> Task {
    let lane = Lane { team: "main".into(), topic: None };
    Task {
        outcome: Some(Outcome {
            text: "done".to_owned(),
            ..Outcome::new(Ending::Done, Timestamp(20))
        }),
        ..Task::new(id.into(), lane, body.to_owned(), "ann".to_owned(), Timestamp(10))
    }
}

fn line(id: &str, action: &str) -> Audit {
    Audit {
        id: id.to_owned(),
        at: Timestamp(1),
        actor: "ann".into(),
        action: action.to_owned(),
        target: String::new(),
        from: "api".to_owned(),
        outcome: "ok".to_owned(),
        call: None,
    }
}

/// A store whose archive holds two tasks, two lines of the audit, an approval, a question and a session.
fn filled(place: &Place) -> TieredStorage {
    let storage = place.open();
    let writes = Writes::new()
        .put(&FinishedTask::of(&finished("task-0000000000000001", "water the garden")))
        .put(&FinishedTask::of(&finished("task-0000000000000002", "mow the lawn")))
        .put(&line("a", "pause"))
        .put(&line("b", "resume"))
        .put(&approval(1))
        .put(&question(1));
    storage.commit(&writes.batch().unwrap()).unwrap();
    storage.commit(&piece(&lane(0), 1, 10).batch().unwrap()).unwrap();
    while storage.take_next().unwrap() {}
    storage
}

/// SC-111: what an index lacks, has as something else or names in vain is found and named.
#[test]
fn a_damaged_index_of_the_archive_is_found_and_named() {
    let of_task = "index of tasks lacks `task-0000000000000001`";
    let first = "(SELECT min(key) FROM done)";
    let said = "the full-text index";
    let cases = [
        (format!("UPDATE done SET facet = NULL WHERE key = {first}"), of_task),
        (format!("UPDATE done SET created_at = 11 WHERE key = {first}"), of_task),
        (format!("UPDATE done SET root = 'task-9' WHERE key = {first}"), of_task),
        (format!("UPDATE done SET ended = 21 WHERE key = {first}"), of_task),
        ("DELETE FROM \"done.facet\"".to_owned(), of_task),
        (
            "UPDATE audit SET facet = (SELECT max(facet) FROM audit)".to_owned(),
            "index of the audit",
        ),
        (
            "UPDATE audit SET facet = 0 WHERE key = (SELECT min(key) FROM audit)".to_owned(),
            "index of the audit",
        ),
        ("UPDATE apr SET facet = 0".to_owned(), "index of lists"),
        ("UPDATE apr SET expires_at = 1".to_owned(), "index of lists"),
        ("DELETE FROM \"qst.facet\"".to_owned(), "index of lists"),
        (r#"DELETE FROM "hist.session""#.to_owned(), "index of sessions lacks `main:main`"),
        (r#"UPDATE "hist.session" SET used_at = 11"#.to_owned(), "index of sessions lacks"),
        (r#"UPDATE "hist.session" SET last = 3"#.to_owned(), "index of sessions lacks"),
        (
            r#"INSERT INTO "hist.session" VALUES (x'07', 'ops', 1, NULL, 1, 10)"#.to_owned(),
            "index of sessions names 2, and there are 1",
        ),
        (format!("DELETE FROM said WHERE key = {first}"), said),
        ("UPDATE said SET team = 'ops'".to_owned(), said),
        (
            "INSERT INTO said (kind, key, at, team) VALUES ('done', x'07', 1, 'main')".to_owned(),
            "which is not there",
        ),
        ("INSERT INTO words (words) VALUES ('delete-all')".to_owned(), "lacks words of"),
    ];
    for (damage, named) in cases {
        let place = Place::new();
        let storage = filled(&place);
        assert_eq!(storage.faults().unwrap(), [] as [&str; 0]);

        Connection::open(place.home.store.join(FILE)).unwrap().execute_batch(&damage).unwrap();

        let faults = storage.faults().unwrap();
        assert!(faults.iter().any(|fault| fault.contains(named)), "{damage}: {faults:?}");
    }
}

/// The way out that the doctor names.
#[test]
fn a_restore_makes_the_indexes_of_the_archive_anew() {
    let place = Place::new();
    let storage = filled(&place);
    let damage = "UPDATE done SET facet = NULL; UPDATE audit SET facet = 0; DELETE FROM said";
    Connection::open(place.home.store.join(FILE)).unwrap().execute_batch(damage).unwrap();
    let before = all(&storage);
    assert!(storage.faults().unwrap().len() >= 5);

    let made = backup::create(&storage, &place.home, None, &quiet).unwrap();
    drop(storage);
    restore::restore(&made.file, &place.home, true, &quiet).unwrap();
    let storage = place.open();

    assert_eq!(storage.faults().unwrap(), [] as [&str; 0]);
    assert_eq!(all(&storage), before);
}
