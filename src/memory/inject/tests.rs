//! What goes into a prompt, and in which words.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

struct Shelf {
    candidates: Vec<Candidate>,
    contents: HashMap<MemoryId, String>,
}

impl Shelf {
    fn new() -> Self {
        Self { candidates: Vec::new(), contents: HashMap::new() }
    }

    fn with(mut self, kind: Kind, key: &str, at: u64, pinned: bool, content: &str) -> Self {
        let id: MemoryId = format!("mem-{key}").into();
        self.contents.insert(id.clone(), content.to_owned());
        self.candidates.push(Candidate {
            id,
            key: Key::parse(key).unwrap(),
            version: 1,
            kind,
            characters: set_in(content).chars().count(),
            pinned,
            updated_at: Timestamp(at),
        });
        self
    }

    fn many(mut self, kind: Kind, count: usize, content: &str) -> Self {
        for number in 0..count {
            self = self.with(kind, &format!("{kind}{number:03}"), 1, false, content);
        }
        self
    }

    fn choice(&self) -> Choice {
        choose(self.candidates.clone())
    }

    fn text(&self) -> String {
        lay_out(&self.choice(), |id| self.contents.get(id).map(String::as_str))
    }

    fn of_kind(&self, kind: Kind) -> usize {
        let chosen = self.choice().chosen;
        chosen.iter().filter(|one| one.candidate.kind == kind).count()
    }
}

/// All lines of entries, with their ends.
fn characters(text: &str) -> usize {
    text.lines()
        .filter(|line| line.starts_with('[') || line.starts_with("    "))
        .map(|line| line.chars().count() + 1)
        .sum()
}

/// MV-22, SE-39
#[test]
fn the_blocks_stand_in_their_order_and_within_by_pin_age_and_key() {
    let shelf = Shelf::new()
        .with(Kind::Decision, "db", 5, false, "sled")
        .with(Kind::Lesson, "slow", 1, false, "measure\nfirst")
        .with(Kind::Context, "z", 2, false, "old")
        .with(Kind::Context, "b", 3, false, "new")
        .with(Kind::Context, "a", 3, false, "new too")
        .with(Kind::Context, "p", 1, true, "pinned")
        .with(Kind::Identity, "me", 1, false, "a careful team");

    let expected = "\
--- Memory ---

Identity:
[me]: a careful team

Context:
[p]: pinned
[a]: new too
[b]: new
[z]: old

Lessons:
[slow]: measure
    first

Decisions:
[db]: sled";
    assert_eq!(shelf.text(), expected);
}

#[test]
fn nothing_to_say_is_nothing() {
    assert_eq!(Shelf::new().text(), "");
}

/// MV-21, MV-22
#[test]
fn fifty_entries_are_shown_and_the_rest_is_counted() {
    let shelf = Shelf::new().many(Kind::Context, 53, "x");

    let text = shelf.text();

    assert_eq!(shelf.choice().chosen.len(), 50);
    assert!(text.ends_with("\n\n3 more entries are not shown here; `memory_search` finds them."));
}

/// MV-21
#[test]
fn a_long_entry_is_cut_with_a_mark_that_names_its_key() {
    let shelf = Shelf::new().with(Kind::Identity, "me", 1, false, &"ä".repeat(2_001));

    let expected = format!(
        "[me]: {} … [cut; `memory_list` with the key `me` shows all of it]",
        "ä".repeat(2_000)
    );
    assert_eq!(shelf.text().lines().last(), Some(&*expected));
    let whole = Shelf::new().with(Kind::Identity, "me", 1, false, &"ä".repeat(2_000));
    assert!(!whole.text().contains("cut"));
}

/// MV-21
#[test]
fn identity_may_use_everything_when_it_is_alone() {
    let shelf = Shelf::new().many(Kind::Identity, 20, &"x".repeat(1_000));

    let text = shelf.text();

    assert!(characters(&text) > 11_900, "{}", characters(&text));
    assert!(characters(&text) <= 12_000);
}

/// MV-21
#[test]
fn each_later_type_keeps_a_tenth_of_the_room_however_much_there_is_before_it() {
    let long = "x".repeat(1_900);
    let shelf = Shelf::new()
        .many(Kind::Identity, 60, &long)
        .many(Kind::Lesson, 60, &long)
        .many(Kind::Decision, 60, &long)
        .many(Kind::Context, 60, &long);
    let text = shelf.text();
    for (kind, heading) in SHOWN {
        let block = text.split(&format!("\n{heading}:\n")).nth(1).unwrap();
        let block = block.split("\n\n").next().unwrap();
        let length = block.chars().count() + 1;
        let least = if kind == Kind::Identity { 8_300 } else { 1_150 };
        assert!(length >= least, "{heading}: {length}");
    }
    assert!(characters(&text) <= 12_000);

    let short = Shelf::new().many(Kind::Identity, 60, "x").many(Kind::Lesson, 60, "x").many(
        Kind::Context,
        3,
        "x",
    );
    let counts = [Kind::Identity, Kind::Lesson, Kind::Decision, Kind::Context];
    assert_eq!(counts.map(|kind| short.of_kind(kind)), [42, 5, 0, 3]);
}

proptest! {
    /// MV-21, MV-22: the caps hold, and the order of the rows makes no difference to the bytes.
    #[test]
    fn the_same_entries_give_the_same_bytes_within_the_caps(
        entries in prop::collection::vec((0usize..4, 0u64..5, any::<bool>(), 1usize..4_000), 0..90),
        turn in 0usize..90,
    ) {
        let mut shelf = Shelf::new();
        for (number, (kind, at, pinned, length)) in entries.into_iter().enumerate() {
            let content = "ab\ncd é ".repeat(length / 8 + 1);
            shelf = shelf.with(CHOSEN[kind], &format!("k{number}"), at, pinned, &content);
        }
        let text = shelf.text();
        let total = shelf.candidates.len();
        shelf.candidates.rotate_left(turn % total.max(1));

        prop_assert_eq!(shelf.text(), text.clone());
        prop_assert!(characters(&text) <= MOST_CHARACTERS);
        let choice = shelf.choice();
        prop_assert!(choice.chosen.len() <= MOST_ENTRIES);
        prop_assert_eq!(choice.chosen.len() + choice.left_out, total);
        for kind in CHOSEN {
            let exists = shelf.candidates.iter().any(|one| one.kind == kind);
            prop_assert_eq!(exists, shelf.of_kind(kind) > 0);
        }
    }
}
