//! What goes into a prompt by itself: which entries, how much of each, in which words.
//!
//! The same entries give the same bytes, so that a provider's prompt cache holds.

use std::{cmp::Reverse, collections::HashMap, fmt::Write};

use hivewright_actors::{clock::Timestamp, excerpt, ids::MemoryId};
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Key, Kind};

/// The most entries of a prompt.
const MOST_ENTRIES: usize = 50;
/// The most characters of all their lines.
const MOST_CHARACTERS: usize = 12_000;
/// The most characters of one content.
const LONGEST: usize = 2_000;
/// What of an entry would be shorter than this is left out.
const SHORTEST: usize = 100;
/// A type that has entries gets at least the tenth part.
const SHARE: usize = 10;

/// The types in the order in which room is given out.
const CHOSEN: [Kind; 4] = [Kind::Identity, Kind::Lesson, Kind::Decision, Kind::Context];
/// The types in the order in which they stand, with their headings.
const SHOWN: [(Kind, &str); 4] = [
    (Kind::Identity, "Identity"),
    (Kind::Context, "Context"),
    (Kind::Lesson, "Lessons"),
    (Kind::Decision, "Decisions"),
];

/// An entry that may go into a prompt, without its content.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: MemoryId,
    pub(super) key: Key,
    pub(super) version: u32,
    pub(super) kind: Kind,
    /// How long its content is as it would be shown.
    pub(super) characters: usize,
    pub(super) pinned: bool,
    pub(super) updated_at: Timestamp,
}

/// An entry that goes into a prompt, and how many characters of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) candidate: Candidate,
    pub(super) characters: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choice {
    pub(super) chosen: Vec<Chosen>,
    pub(super) left_out: usize,
}

/// Whether an entry is in prompts, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Injection {
    /// All of it is.
    Whole,
    /// Its beginning is.
    Cut {
        /// So many characters.
        shown: usize,
        /// Of so many.
        of: usize,
    },
    /// No: others of its type that are pinned or newer, and other types, take the room.
    NoRoom,
    /// No: entries of its type are only searched for.
    Type,
    /// No: it waits for a person, or was rejected.
    Review,
    /// No: it is not the version in use.
    Inactive,
}

impl Injection {
    /// Why an entry never goes into prompts by itself as it is; none if it may.
    pub(super) fn refused(entry: &Entry) -> Option<Self> {
        match entry {
            _ if !entry.active => Some(Self::Inactive),
            _ if entry.is_untrusted() => Some(Self::Review),
            _ if !entry.kind.is_injected() => Some(Self::Type),
            _ => None,
        }
    }
}

/// What prompts hold of a team's entries.
#[derive(Clone, Debug, Default)]
pub struct Injections(HashMap<MemoryId, Injection>);

impl Injections {
    pub(super) fn of_choice(choice: &Choice) -> Self {
        let shown = choice.chosen.iter().map(|chosen| {
            let (shown, of) = (chosen.characters, chosen.candidate.characters);
            let injection =
                if shown < of { Injection::Cut { shown, of } } else { Injection::Whole };
            (chosen.candidate.id.clone(), injection)
        });
        Self(shown.collect())
    }

    /// Whether this entry is among it.
    pub fn of(&self, entry: &Entry) -> Injection {
        let chosen = || self.0.get(&entry.id).copied();
        Injection::refused(entry).or_else(chosen).unwrap_or(Injection::NoRoom)
    }
}

/// Room for entries and their characters.
#[derive(Clone, Copy, Debug)]
struct Room {
    entries: usize,
    characters: usize,
}

impl Room {
    const ALL: Self = Self { entries: MOST_ENTRIES, characters: MOST_CHARACTERS };

    fn without(self, other: Self) -> Self {
        Self {
            entries: self.entries.saturating_sub(other.entries),
            characters: self.characters.saturating_sub(other.characters),
        }
    }
}

/// Chooses: type by type, within a type pinned ones first, then the newest, then by key.
pub(super) fn choose(mut candidates: Vec<Candidate>) -> Choice {
    candidates.sort_by(|a, b| {
        let order = |one: &Candidate| (one.kind, Reverse(one.pinned), Reverse(one.updated_at));
        order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key))
    });
    let total = candidates.len();
    let by_type = CHOSEN
        .map(|kind| candidates.iter().filter(|one| one.kind == kind).cloned().collect::<Vec<_>>());
    let mut room = Room::ALL;
    let mut chosen = Vec::new();
    for (place, of_kind) in by_type.iter().enumerate() {
        let kept = by_type[place + 1..].iter().map(|later| guaranteed(later));
        let mut free = kept.fold(room, Room::without);
        for candidate in of_kind {
            let Some(characters) = fitting(candidate, free) else { break };
            let taken = Room { entries: 1, characters: cost(candidate, characters) };
            (room, free) = (room.without(taken), free.without(taken));
            chosen.push(Chosen { candidate: candidate.clone(), characters });
        }
    }
    Choice { left_out: total - chosen.len(), chosen }
}

/// What the types before must leave for this one: its share, or less if that is all it needs.
fn guaranteed(of_kind: &[Candidate]) -> Room {
    let needed = of_kind.iter().map(|one| cost(one, one.characters.min(LONGEST))).sum();
    Room {
        entries: of_kind.len().min(MOST_ENTRIES / SHARE),
        characters: Ord::min(needed, MOST_CHARACTERS / SHARE),
    }
}

/// How many characters of an entry's content fit; none if too few do.
fn fitting(candidate: &Candidate, room: Room) -> Option<usize> {
    if room.entries == 0 {
        return None;
    }
    let wanted = candidate.characters.min(LONGEST);
    if cost(candidate, wanted) <= room.characters {
        return Some(wanted);
    }
    let fit = room.characters.checked_sub(cut_cost(candidate))?;
    (fit >= SHORTEST).then_some(fit.min(wanted))
}

/// How long the line of an entry is.
fn cost(candidate: &Candidate, characters: usize) -> usize {
    if characters < candidate.characters {
        return cut_cost(candidate) + characters;
    }
    frame(candidate) + characters
}

/// What stands around a content that is cut.
fn cut_cost(candidate: &Candidate) -> usize {
    frame(candidate) + mark(&candidate.key).chars().count()
}

/// `[key]: ` and the end of the line.
fn frame(candidate: &Candidate) -> usize {
    candidate.key.as_str().len() + 5
}

fn mark(key: &Key) -> String {
    format!(" … [cut; `memory_list` with the key `{key}` shows all of it]")
}

/// A content as it is shown: what goes on in a new line is set in, so that no line of it can pass
/// for another entry.
pub(super) fn set_in(content: &str) -> String {
    let breaks =
        |c: char| matches!(c, '\n' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let content = content.trim().replace("\r\n", "\n").replace('\r', "\n");
    content.split(breaks).collect::<Vec<_>>().join("\n    ")
}

/// The text for the prompt; empty if there is nothing to say. `content` gives an entry's content.
pub(super) fn lay_out<'a>(
    choice: &Choice,
    content: impl Fn(&MemoryId) -> Option<&'a str>,
) -> String {
    let mut text = String::new();
    for (kind, heading) in SHOWN {
        let mut of_kind = choice.chosen.iter().filter(|one| one.candidate.kind == kind).peekable();
        if of_kind.peek().is_none() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{heading}:");
        for Chosen { candidate, characters } in of_kind {
            let key = &candidate.key;
            let whole = set_in(content(&candidate.id).unwrap_or_default());
            let (shown, _) = excerpt::split(&whole, *characters);
            let _ = if shown.len() < whole.len() {
                writeln!(text, "[{key}]: {shown}{}", mark(key))
            } else {
                writeln!(text, "[{key}]: {shown}")
            };
        }
    }
    match choice.left_out {
        0 => {}
        1 => text.push_str("\n1 more entry is not shown here; `memory_search` finds it.\n"),
        more => {
            let _ = writeln!(
                text,
                "\n{more} more entries are not shown here; `memory_search` finds them."
            );
        }
    }
    if text.is_empty() { text } else { format!("--- Memory ---\n{}", text.trim_end()) }
}

#[cfg(test)]
mod tests;
