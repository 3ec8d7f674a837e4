use std::{fs, ops::ControlFlow, path::PathBuf, sync::Arc};

use hivewright_actors::{
    archive::Archive as _,
    clock::Timestamp,
    history::{Fact, HistoryEvent},
    store::records::Writes,
    task::{Lane, outcome::Ending},
    usage::Usage,
};
use tempfile::TempDir;

use super::*;
use crate::{
    logging::Secrets,
    settings::config::Durability,
    storage::{Home, open},
};

/// A store with what follows it.
struct Place {
    dir: TempDir,
    storage: Arc<TieredStorage>,
    follower: Arc<Follower>,
}

fn lane(topic: &str) -> Lane {
    Lane { team: "main".into(), topic: Some(topic.into()) }
}

fn open_storage(dir: &TempDir) -> TieredStorage {
    let home = Home::new(&dir.path().join("data"), &dir.path().join("run"));
    fs::create_dir_all(dir.path().join("run")).unwrap();
    let on_progress = |_| ControlFlow::Continue(());
    open::open(&home, Durability::Process, &on_progress).unwrap()
}

fn said(number: u64, more: &str) -> Fact {
    Fact::AssistantText { text: format!("answer {number}{more}"), step: 1 }
}

fn end() -> Fact {
    Fact::TurnEnd {
        outcome: Ending::Done,
        code: None,
        message: None,
        text: String::new(),
        steps: 1,
        usage: Usage::default(),
        duration_ms: 1,
    }
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("history")).unwrap();
        let storage = open_storage(&dir);
        Self::over(dir, storage)
    }

    fn over(dir: TempDir, storage: TieredStorage) -> Self {
        let folder = Folder::new(dir.path().join("history"), Secrets::default());
        let follower = Arc::new(Follower::new(folder));
        let storage = Arc::new(storage.with_observer(follower.clone()));
        follower.catch_up(&storage);
        Self { dir, storage, follower }
    }

    /// A turn with two events, of which the second is its end.
    fn turn(&self, topic: &str, first: u64) {
        self.piece(topic, first, first, [said(first, ""), end()]);
    }

    /// Events of the turn that begins with an event.
    fn piece(&self, topic: &str, turn: u64, first: u64, facts: impl IntoIterator<Item = Fact>) {
        let events: Vec<HistoryEvent> = (first..)
            .zip(facts)
            .map(|(seq, fact)| HistoryEvent {
                seq,
                turn: format!("turn-{turn}").into(),
                timestamp: Timestamp(1_794_703_151_000 + seq),
                fact,
                redacted: false,
            })
            .collect();
        let batch = Writes::new().events(&lane(topic), 1, &events).batch().unwrap();
        self.storage.commit(&batch).unwrap();
    }

    fn remove(&self, topic: &str, first: u64) {
        let key = (LaneKey::new(&lane(topic), 1), first);
        let batch = Writes::new().delete::<Piece<'_>>(&key).batch().unwrap();
        self.storage.commit(&batch).unwrap();
    }

    fn move_all(&self) {
        while self.storage.take_next().unwrap() {}
    }

    fn history(&self) -> PathBuf {
        self.dir.path().join("history")
    }

    /// Each file with its answers.
    fn files(&self) -> Vec<(String, usize)> {
        let mut files: Vec<_> = fs::read_dir(self.history())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().extension().is_some())
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, text.matches("\"answer ").count())
            })
            .collect();
        files.sort();
        files
    }
}

fn names(files: &[(&str, usize)]) -> Vec<(String, usize)> {
    let name = |(topic, count): &(&str, usize)| (format!("main-main-{topic}.jsonl"), *count);
    files.iter().map(name).collect()
}

/// EN-48: turns are written with what moves, and what retention removes goes.
#[test]
fn files_follow_what_moves_to_the_archive() {
    let place = Place::new();
    place.turn("t-1", 1);
    place.turn("t-1", 3);
    place.turn("t-2", 1);

    assert_eq!(place.files(), names(&[]));
    place.move_all();
    let written = place.files();
    place.remove("t-1", 1);
    place.remove("t-2", 1);
    place.move_all();

    assert_eq!(written, names(&[("t-1", 2), ("t-2", 1)]));
    assert_eq!(place.files(), names(&[("t-1", 1)]));
    assert!(place.follower.folder.is_complete());
}

/// EN-48: a process that dies before what it wrote moves leaves it to the next one.
#[test]
fn what_had_not_moved_is_written_after_the_next_start() {
    let place = Place::new();
    place.turn("t-1", 1);
    let Place { dir, storage, follower } = place;
    drop((storage, follower));

    let storage = open_storage(&dir);
    let place = Place::over(dir, storage);
    place.move_all();

    assert_eq!(place.files(), names(&[("t-1", 1)]));
}

/// EN-48, SC-135: a power cut may take back what has not moved, and another try of its turn come instead.
#[test]
fn nothing_is_written_before_it_has_moved() {
    let place = Place::new();
    place.piece("t-1", 1, 1, [said(1, "")]);
    place.move_all();
    // As much as moves at once.
    place.piece("t-1", 1, 2, [said(2, &"long ".repeat(1 << 20)), end()]);
    place.turn("t-1", 4);

    assert!(place.storage.take_next().unwrap());
    let first = place.files();
    fs::remove_file(place.history().join(".complete")).unwrap();
    place.follower.state().caught_up = false;
    place.follower.catch_up(&place.storage);
    let caught_up = place.files();
    place.move_all();

    assert_eq!((first, caught_up), (names(&[("t-1", 1)]), names(&[("t-1", 1)])));
    assert_eq!(place.files(), names(&[("t-1", 2)]));
}

/// EN-48: a file that cannot be written keeps nothing from moving, and is written once it can be, also by the next
/// process.
#[test]
fn a_file_that_could_not_be_written_is_written_later() {
    let place = Place::new();
    let aside = place.dir.path().join("aside");
    fs::rename(place.history(), &aside).unwrap();
    place.turn("t-1", 1);
    place.turn("t-2", 1);
    place.move_all();
    place.turn("t-1", 3);
    place.move_all();
    assert_eq!(place.follower.state().behind.len(), 2);
    fs::rename(&aside, place.history()).unwrap();
    // The mark that it had could not be taken away with the folder gone.
    place.follower.folder.set_incomplete().unwrap();

    place.turn("t-3", 1);
    place.move_all();

    assert_eq!(place.files(), names(&[("t-1", 2), ("t-2", 1), ("t-3", 1)]));
    assert!(place.follower.folder.is_complete());
}

/// EN-48: where files may lack something, a start looks at all sessions.
#[test]
fn files_that_are_not_known_to_be_complete_are_compared_at_the_start() {
    let place = Place::new();
    place.turn("t-1", 1);
    place.turn("t-2", 1);
    place.move_all();
    let Place { dir, storage, follower } = place;
    drop((storage, follower));
    let history = dir.path().join("history");
    fs::remove_file(history.join("main-main-t-1.jsonl")).unwrap();
    crate::transcript::files::set_incomplete(&history).unwrap();

    let storage = open_storage(&dir);
    let place = Place::over(dir, storage);

    assert_eq!(place.files(), names(&[("t-1", 1), ("t-2", 1)]));
    assert!(place.follower.folder.is_complete());
}

/// CH-91: the transcript of what is no more goes also if it could not go when the rest did: while files were not written,
/// or the folder was away. One that does not say whose it is stays.
#[test]
fn files_of_sessions_that_are_no_more_go_at_the_start() {
    let place = Place::new();
    place.turn("t-1", 1);
    place.turn("t-2", 1);
    place.move_all();
    let Place { dir, storage, follower } = place;
    drop((storage, follower));
    let history = dir.path().join("history");
    fs::write(history.join("notes.jsonl"), "mine").unwrap();
    crate::transcript::files::set_incomplete(&history).unwrap();
    let storage = open_storage(&dir);
    let key = (LaneKey::new(&lane("t-1"), 1), 1);
    storage.commit(&Writes::new().delete::<Piece<'_>>(&key).batch().unwrap()).unwrap();
    while storage.take_next().unwrap() {}

    let place = Place::over(dir, storage);

    let mut expected = names(&[("t-2", 1)]);
    expected.push(("notes.jsonl".to_owned(), 0));
    assert_eq!(place.files(), expected);
    assert!(place.follower.folder.is_complete());
}

/// CH-91: a file goes although there is no room for another in its place.
#[test]
fn a_file_of_nothing_goes_without_another_in_its_place() {
    let place = Place::new();
    place.turn("t-1", 1);
    place.move_all();
    let file = place.history().join("main-main-t-1.jsonl");
    // No file can be made where this is.
    fs::create_dir(place.history().join("main-main-t-1.jsonl.new")).unwrap();
    let was_there = file.exists();

    place.remove("t-1", 1);
    place.move_all();

    assert!(was_there && !file.exists());
}
