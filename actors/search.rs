//! Search: what records of the archive are found by, what is asked for, and what is found.

use std::{mem, ops::Range};

use crate::{
    clock::Timestamp,
    excerpt,
    ids::{TaskId, TeamName},
    order::Order,
    words,
};

/// So many bytes of one record are searched: a long result of a tool is found by how it begins.
pub const INDEXED: usize = 64 * 1024;

/// What a search finds a record by.
///
/// The archive takes it from the record again to remove what it has noted, so that the same record leads to the same
/// entry in every version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub team: TeamName,
    /// When it was said.
    pub at: Timestamp,
    /// The task that it belongs to, if that is known.
    pub task: Option<TaskId>,
    /// The session that shows it.
    pub session: Option<String>,
    /// The words, by where they stand.
    pub passages: Vec<Passage>,
}

/// Words of a record that stand in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    pub part: Part,
    /// The event of the session that has them.
    pub seq: Option<u64>,
    pub text: String,
}

words! {
    /// What words are that were found.
    #[schemars(rename = "SearchPart")]
    pub enum Part {
        /// What a task was given for.
        Asked = "asked",
        /// What came of a task.
        Answered = "answered",
        /// What the model said on the way to its answer.
        Said = "said",
        /// A tool call.
        Call = "call",
        /// What a tool returned.
        Result = "result",
        /// What a team told on its own.
        Notification = "notification",
    }
}

impl Passage {
    /// These words, which no event of a session has.
    pub fn new(part: Part, text: impl Into<String>) -> Self {
        Self { part, seq: None, text: text.into() }
    }
}

impl Entry {
    /// With as much of its words as is searched; none if it has none.
    pub fn bounded(mut self) -> Option<Self> {
        let mut left = INDEXED;
        for passage in &mut self.passages {
            passage.text.truncate(passage.text.floor_char_boundary(left));
            left -= passage.text.len();
        }
        self.passages.retain(|passage| !passage.text.trim().is_empty());
        (!self.passages.is_empty()).then_some(self)
    }

    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.passages.iter().map(|passage| passage.text.as_str()).collect();
        texts.join("\n")
    }
}

/// What is searched for: all of these have to be in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query(Vec<Term>);

/// A word, or words that follow one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The words, as they were typed. Case, accents and what stands between words do not count.
    pub text: String,
    /// The last of them may go on.
    pub is_beginning: bool,
}

impl Query {
    /// Reads words, phrases in quotes, and beginnings of words with a `*` behind them. Nothing else has a meaning. None
    /// if there is no word.
    pub fn parse(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        let (mut term, mut in_phrase) = (String::new(), false);
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '"' => {
                    let is_beginning = in_phrase && characters.next_if_eq(&'*').is_some();
                    terms.extend(Term::new(mem::take(&mut term), is_beginning));
                    in_phrase = !in_phrase;
                }
                character if in_phrase && !character.is_control() => term.push(character),
                character if character.is_whitespace() || character.is_control() => {
                    if in_phrase {
                        term.push(' ');
                    } else {
                        terms.extend(Term::word(mem::take(&mut term)));
                    }
                }
                character => term.push(character),
            }
        }
        terms.extend(if in_phrase { Term::new(term, false) } else { Term::word(term) });
        (!terms.is_empty()).then_some(Self(terms))
    }

    pub fn terms(&self) -> &[Term] {
        &self.0
    }
}

impl Term {
    fn word(text: String) -> Option<Self> {
        let is_beginning = text.ends_with('*');
        Self::new(text, is_beginning)
    }

    fn new(text: String, is_beginning: bool) -> Option<Self> {
        text.contains(char::is_alphanumeric).then_some(Self { text, is_beginning })
    }
}

/// Which records are wanted.
#[derive(Clone, Debug)]
pub struct Search {
    pub query: Query,
    /// Only of these teams, if not of all.
    pub teams: Option<Vec<TeamName>>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// By when it was said.
    pub order: Order,
    pub after: Option<Place>,
    /// So many are left out before the first.
    pub skip: usize,
    pub most: usize,
    /// They are counted up to this.
    pub counted: usize,
}

/// Where a record stands among those that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub at: Timestamp,
    /// Tells those of one moment apart.
    pub id: i64,
}

/// Some of the records that hold what is searched for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    /// In the order that was asked for.
    pub hits: Vec<Hit>,
    /// How many there are, as far as they were counted.
    pub total: usize,
    /// The last of these, if there are more behind it.
    pub next: Option<Place>,
}

/// A record that holds what is searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub key: Vec<u8>,
    pub team: TeamName,
    pub at: Timestamp,
    /// The task that it belongs to, if that is known.
    pub task: Option<TaskId>,
    pub session: Option<String>,
    /// What the words are that were found first.
    pub part: Part,
    pub seq: Option<u64>,
    /// The words around them.
    pub excerpt: Excerpt,
}

/// A part of a text with what was found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The part, with `…` for what is left out before and behind.
    pub text: String,
    /// Where in it the words stand that were found, in bytes.
    pub marks: Vec<Range<usize>>,
}

/// So much of a text is shown around what was found, in characters.
const SNIPPET_CHARACTERS: usize = 240;
/// So much of that before it.
const SNIPPET_CHARACTERS_BEFORE: usize = 60;
const LEFT_OUT: &str = "…";

impl Excerpt {
    /// What stands around the first of these places in a text, in bytes.
    pub fn around(text: &str, found: &[Range<usize>]) -> Self {
        let first = found.first().map_or(0, |range| range.start);
        let start = text[..first]
            .char_indices()
            .rev()
            .nth(SNIPPET_CHARACTERS_BEFORE - 1)
            .map_or(0, |(at, _)| at);
        // A word that is cut says nothing.
        let start = match text[start..first].find(char::is_whitespace) {
            Some(space) if start > 0 => start + space + 1,
            _ => start,
        };
        let start = text.ceil_char_boundary(start);
        let (shown, missing) = excerpt::split(&text[start..], SNIPPET_CHARACTERS);
        let end = start + shown.len();
        let before = if start > 0 { LEFT_OUT } else { "" };
        let behind = if missing > 0 { LEFT_OUT } else { "" };
        let place = |at: usize| at - start + before.len();
        let marks = found
            .iter()
            .filter(|range| range.start < end)
            .map(|range| place(range.start)..place(range.end.min(end)))
            .collect();
        Self { text: format!("{before}{shown}{behind}"), marks }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str) -> Vec<(String, bool)> {
        let query = Query::parse(text);
        let terms = query.iter().flat_map(|query| query.terms());
        terms.map(|term| (term.text.clone(), term.is_beginning)).collect()
    }

    #[test]
    fn words_phrases_and_beginnings_are_told_apart() {
        let expected = |terms: &[(&str, bool)]| -> Vec<(String, bool)> {
            terms.iter().map(|(text, beginning)| ((*text).to_owned(), *beginning)).collect()
        };

        assert_eq!(terms("two  words"), expected(&[("two", false), ("words", false)]));
        assert_eq!(terms("\"a phrase\" inv*"), expected(&[("a phrase", false), ("inv*", true)]));
        assert_eq!(terms("\"a phr\"*"), expected(&[("a phr", true)]));
        assert_eq!(terms("open \"to the end"), expected(&[("open", false), ("to the end", false)]));
        assert_eq!(terms("a\0b \"c\0d\""), expected(&[("a", false), ("b", false), ("c d", false)]));
        for nothing in ["", " ", "\"", "\"\"", "*", "- : ( )", "🐝"] {
            assert_eq!(Query::parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_excerpt_shows_what_was_found_and_what_stands_around_it() {
        let text = format!("{} the needle {}", "hay ".repeat(100), "stack ".repeat(100));
        let at = text.find("needle").unwrap();

        let excerpt = Excerpt::around(&text, std::slice::from_ref(&(at..at + 6)));

        assert!(excerpt.text.starts_with("…hay "), "{}", excerpt.text);
        assert!(excerpt.text.ends_with('…'), "{}", excerpt.text);
        assert_eq!(excerpt.text.chars().count(), SNIPPET_CHARACTERS + 2);
        let marked: Vec<&str> =
            excerpt.marks.iter().map(|mark| &excerpt.text[mark.clone()]).collect();
        assert_eq!(marked, ["needle"]);
        let whole = Excerpt::around("a needle", std::slice::from_ref(&(2..8)));
        assert_eq!(
            whole,
            Excerpt { text: "a needle".to_owned(), marks: std::iter::once(2..8).collect() }
        );
    }

    #[test]
    fn a_long_record_is_searched_as_far_as_the_bound() {
        let long = |length| Passage::new(Part::Result, "é".repeat(length));
        let entry = Entry {
            team: "main".into(),
            at: Timestamp(1),
            task: None,
            session: None,
            passages: vec![long(10), long(INDEXED), long(1)],
        };

        let bounded = entry.clone().bounded().unwrap();

        let sizes: Vec<usize> = bounded.passages.iter().map(|passage| passage.text.len()).collect();
        assert_eq!(sizes, [20, INDEXED - 20]);
        let empty = Entry { passages: vec![Passage::new(Part::Asked, " ")], ..entry };
        assert_eq!(empty.bounded(), None);
    }

    proptest! {
        #[test]
        fn every_excerpt_marks_what_was_found(text in "[aé漢🐝 \n]{0,400}a[aé漢🐝 \n]{0,400}") {
            let found: Vec<_> = text.match_indices('a').map(|(at, _)| at..at + 1).collect();

            let excerpt = Excerpt::around(&text, &found);

            prop_assert!(!excerpt.marks.is_empty());
            for mark in excerpt.marks {
                prop_assert_eq!(&excerpt.text[mark], "a");
            }
        }
    }
}
