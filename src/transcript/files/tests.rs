use std::{borrow::Cow, os::unix::fs::PermissionsExt as _};

use hivewright_actors::{
    doubles::disk::{Disk, MemoryStorage},
    history::Origin,
    journal::records::Piece,
    store::{
        keys::key_of,
        records::{Record as _, Writes},
    },
    task::{Label, Lane, outcome::Ending},
    usage::Usage,
};
use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Place {
    dir: TempDir,
    folder: Folder,
    secrets: Secrets,
    storage: std::sync::Arc<MemoryStorage>,
    seq: u64,
}

fn lane() -> LaneKey {
    LaneKey::new(&Lane { team: "ops".into(), topic: None }, 1)
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::default();
        let folder = Folder::new(dir.path().to_owned(), secrets.clone());
        Self { dir, folder, secrets, storage: Disk::default().mount(None), seq: 0 }
    }

    fn piece(&mut self, turn: &str, facts: Vec<Fact>) {
        let first = self.seq + 1;
        let events: Vec<HistoryEvent> = (first..)
            .zip(facts)
            .map(|(seq, fact)| HistoryEvent {
                seq,
                turn: turn.into(),
                timestamp: Timestamp(1_794_703_151_000 + seq),
                fact,
                redacted: false,
            })
            .collect();
        self.seq += events.len() as u64;
        let writes = Writes::new().put_at(&(lane(), first), &Piece(Cow::Owned(events)));
        self.storage.commit(&writes.batch().unwrap()).unwrap();
    }

    /// A turn of four events, which become three lines.
    fn turn(&mut self, words: &str) {
        self.piece(words, vec![start(), said(words), answer(&format!("re: {words}")), end()]);
    }

    fn append(&self) {
        self.folder.append(&*self.storage, &lane(), None, &[], None).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ops-ops-main.jsonl")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// As the export has it.
    fn expected(&self) -> String {
        let mut lines = Writer::new(&lane());
        let all = (0, u64::MAX);
        sessions::journal(&*self.storage, &lane(), all, Order::Rising, &mut |piece| {
            piece.into_iter().for_each(|event| lines.push(event));
            ControlFlow::Continue(())
        })
        .unwrap();
        lines.finish()
    }
}

fn start() -> Fact {
    let start = json!({
        "type": "turn_start", "task_ids": ["task"], "team": "ops", "topic": null, "source_channel": null,
        "attempt": 1, "redelivered": false, "sdk": "native", "provider": "p", "model": "m",
        "prompt_hash": "", "toolset_hash": "",
    });
    serde_json::from_value(start).unwrap()
}

fn said(text: &str) -> Fact {
    Fact::User {
        text: text.to_owned(),
        from: "ann".to_owned(),
        origin: Origin::Person,
        label: Label::Trusted,
        task_id: "task".into(),
        files: Vec::new(),
    }
}

fn answer(text: &str) -> Fact {
    Fact::AssistantText { text: text.to_owned(), step: 1 }
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

/// EN-48
#[test]
fn a_file_goes_on_with_each_turn_and_is_the_export() {
    let mut place = Place::new();

    for words in ["one", "two", "three"] {
        place.turn(words);
        place.append();
        assert_eq!(place.text(), place.expected());
    }
    place.append();

    assert_eq!(place.text(), place.expected());
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o600);
}

/// EN-48: where the end of a file is known it is not looked for, unless somebody changed the file.
#[test]
fn a_file_goes_on_from_where_it_is_known_to_end() {
    let mut place = Place::new();
    place.turn("one");
    let end = place.folder.append(&*place.storage, &lane(), None, &[], None).unwrap();
    place.turn("two");
    let end = place.folder.append(&*place.storage, &lane(), Some(end), &[], None).unwrap();
    assert_eq!(place.text(), place.expected());

    fs::write(place.path(), "").unwrap();
    place.folder.append(&*place.storage, &lane(), Some(end), &[], None).unwrap();

    assert_eq!(place.text(), place.expected());
}

/// EN-48: a turn that goes on is written at its end; one that waits meanwhile stands where it was.
#[test]
fn a_turn_is_written_when_it_ends() {
    let mut place = Place::new();
    place.turn("one");
    place.append();
    let before = place.text();

    place.piece("two", vec![start(), said("two"), answer("hm")]);
    place.append();
    assert_eq!(place.text(), before);
    place.turn("three");
    place.append();
    assert_eq!(place.text().lines().count(), 3 + 2 + 3);
    place.piece("two", vec![start(), answer("there"), end()]);
    place.append();

    assert_eq!(place.text(), place.expected());
}

/// EN-48: wherever a write was cut off, what is missing is added, and nothing comes twice.
#[test]
fn a_file_that_was_cut_off_anywhere_becomes_whole() {
    let mut place = Place::new();
    place.turn("one");
    place.append();
    let before = place.text().len();
    place.turn("two");
    place.turn(&"long ".repeat(3_000));
    place.append();
    let whole = place.text();

    let ends = (0..200).chain(before - 50..before + 50).chain(whole.len() - 300..whole.len());
    for length in ends {
        fs::write(place.path(), &whole[..length]).unwrap();
        place.append();
        assert_eq!(place.text(), whole, "{length}");
    }
    fs::write(place.path(), format!("{whole}\0\0\0{{\"type\":\n")).unwrap();
    place.append();
    assert_eq!(place.text(), whole);
}

/// EN-48, SC-112: turns that only the file has stay, and what comes later is added.
#[test]
fn a_file_outlives_the_store() {
    let mut place = Place::new();
    place.turn("one");
    place.turn("two");
    place.append();
    let whole = place.text();

    place.storage = Disk::default().mount(None);
    place.seq = 0;
    place.turn("one");
    place.append();
    assert_eq!(place.text(), whole);
    // Numbers go on from those of the store, moments from those of the file.
    place.seq = 10;
    place.turn("three");
    place.append();

    let text = place.text();
    let added = text.strip_prefix(&whole).unwrap();
    assert_eq!(added.lines().count(), 3);
    assert!(added.contains("re: three"), "{added}");
}

/// EN-48: what is gone from the journal goes from the file.
#[test]
fn turns_that_were_removed_go() {
    let mut place = Place::new();
    place.turn("one");
    place.turn("two");
    place.append();

    let remove = |seq: u64| {
        let writes = Writes::new().delete::<Piece<'_>>(&(lane(), seq));
        place.storage.commit(&writes.batch().unwrap()).unwrap();
        place.folder.rewrite(&*place.storage, &lane()).unwrap();
    };
    remove(1);
    let text = place.text();
    remove(5);

    assert_eq!(text.lines().count(), 3);
    assert!(text.contains("re: two") && !text.contains("re: one"), "{text}");
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

/// EN-48: what is seen as it moves is written without being read again, if it goes on where the file ends.
#[test]
fn pieces_that_are_seen_are_written_where_they_join() {
    let mut place = Place::new();
    place.turn("one");
    let end = place.folder.append(&*place.storage, &lane(), None, &[], None).unwrap();
    place.turn("two");
    place.turn("three");
    let piece = |seq: u64| {
        let key = key_of(Piece::KIND, &(lane(), seq));
        let value = place.storage.get(&key).unwrap().unwrap();
        (key, value)
    };
    let (two, three) = (piece(5), piece(9));
    let (two, three): (Seen<'_>, Seen<'_>) = ((&two.0, &two.1), (&three.0, &three.1));
    let nothing = Disk::default().mount(None);

    let joined = joined_from(&[two, three], 5);
    let apart = [joined_from(&[three], 5), joined_from(&[three, two], 9), joined_from(&[], 5)];
    let end = place.folder.append(&*nothing, &lane(), Some(end), &[two, three], None).unwrap();

    assert_eq!((joined, apart), (Some(2), [None, None, None]));
    assert_eq!(place.text(), place.expected());
    place.folder.append(&*place.storage, &lane(), Some(end), &[three], None).unwrap();
    assert_eq!(place.text(), place.expected());
}

fn joined_from(seen: &[Seen<'_>], next: u64) -> Option<usize> {
    joined(seen, next).map(|pieces| pieces.len())
}

/// EN-48: when the oldest turns go, the rest of a long file is not made anew from the journal.
#[test]
fn a_file_whose_oldest_turns_go_keeps_the_rest_as_it_is() {
    let mut place = Place::new();
    for words in ["one", "two", "three", "four"] {
        place.turn(words);
    }
    place.append();
    // Nobody would write that again.
    fs::write(place.path(), place.text().replace("re: four", "RE: FOUR")).unwrap();
    let shorten = |place: &Place, seqs: &[u64]| {
        let gone = seqs
            .iter()
            .fold(Writes::new(), |writes, seq| writes.delete::<Piece<'_>>(&(lane(), *seq)));
        place.storage.commit(&gone.batch().unwrap()).unwrap();
        let last = *seqs.last().unwrap();
        place.folder.shorten(&*place.storage, &lane(), None, last).unwrap()
    };

    let end = shorten(&place, &[1, 5]);
    let copied = place.text();
    place.turn("five");
    place.folder.append(&*place.storage, &lane(), Some(end), &[], None).unwrap();
    let gone_on = place.text();
    // Not the oldest: all is made anew.
    shorten(&place, &[13]);

    let expected = place.expected();
    assert!(copied.contains("re: three") && copied.contains("RE: FOUR"), "{copied}");
    assert!(gone_on.starts_with(&copied) && gone_on.contains("re: five"), "{gone_on}");
    assert_eq!(place.text(), expected);
}

/// EN-48: a turn of which a part went is written as the journal has it now.
#[test]
fn a_file_that_begins_otherwise_than_the_journal_is_made_anew() {
    let mut place = Place::new();
    place.piece("one", vec![start(), said("one"), answer("hm")]);
    place.piece("one", vec![answer("yes"), end()]);
    place.turn("two");
    place.append();

    let gone = Writes::new().delete::<Piece<'_>>(&(lane(), 1));
    place.storage.commit(&gone.batch().unwrap()).unwrap();
    place.folder.shorten(&*place.storage, &lane(), None, 1).unwrap();

    assert_eq!(place.text(), place.expected());
}

/// EN-48: a value that became a secret goes from the file, and the file goes on.
#[test]
fn a_value_that_became_a_secret_goes() {
    let mut place = Place::new();
    place.turn("the word is hunter2-hunter2");
    place.append();

    place.secrets.learn(["hunter2-hunter2".to_owned()]);
    place.folder.append(&*place.storage, &lane(), None, &[], Some(1)).unwrap();
    let text = place.text();
    place.turn("two");
    place.append();

    assert!(!text.contains("hunter2") && text.contains("the word is"), "{text}");
    assert!(place.text().starts_with(&text), "{}", place.text());
    assert_eq!(place.text().lines().count(), 6);
}
