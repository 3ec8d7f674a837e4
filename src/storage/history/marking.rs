//! Marking of what was found: where in the words of a record the words of a query stand.

use std::ops::Range;

use hivewright_actors::{
    search::{Entry, Excerpt, Passage, Query},
    storage::StorageError,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    unread,
    words::{TOKENIZER, expression},
};

/// Around what is found. Texts are stripped of them first.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';

/// An index of one record after the other, in memory, that also tells where words stand. It takes texts apart as the
/// index of the archive does, so that what is marked is what was found.
pub(in crate::storage) struct Marker {
    connection: Connection,
    /// All of the query, or some of it.
    expressions: [String; 2],
}

impl Marker {
    pub(in crate::storage) fn new(query: &Query) -> Result<Self, StorageError> {
        let connection = Connection::open_in_memory().map_err(unread)?;
        let create =
            format!("CREATE VIRTUAL TABLE passages USING fts5(text, tokenize='{TOKENIZER}')");
        connection.execute_batch(&create).map_err(unread)?;
        Ok(Self { connection, expressions: [" AND ", " OR "].map(|by| expression(query, by)) })
    }

    /// The passage that holds the query, or the first that holds some of it; none if the record does not hold all.
    pub(in crate::storage) fn mark<'a>(
        &self,
        entry: &'a Entry,
    ) -> Result<Option<(&'a Passage, Excerpt)>, StorageError> {
        self.find(entry).map_err(unread)
    }

    fn find<'a>(&self, entry: &'a Entry) -> rusqlite::Result<Option<(&'a Passage, Excerpt)>> {
        let texts: Vec<String> = entry
            .passages
            .iter()
            .map(|passage| passage.text.replace([BEGIN, END, '\0'], " "))
            .collect();
        if !self.holds_all(&texts.join("\n"))? {
            return Ok(None);
        }
        self.fill(texts.iter().map(String::as_str))?;
        for expression in &self.expressions {
            if let Some((place, marked)) = self.first(expression)?
                && let Some(passage) = entry.passages.get(place)
            {
                let (text, found) = unmarked(&marked);
                return Ok(Some((passage, Excerpt::around(&text, &found))));
            }
        }
        Ok(None)
    }

    fn holds_all(&self, text: &str) -> rusqlite::Result<bool> {
        self.fill([text].into_iter())?;
        Ok(self.first(&self.expressions[0])?.is_some())
    }

    fn fill<'a>(&self, texts: impl Iterator<Item = &'a str>) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM passages", [])?;
        let mut insert =
            self.connection.prepare_cached("INSERT INTO passages (rowid, text) VALUES (?1, ?2)")?;
        for (place, text) in (0_i64..).zip(texts) {
            insert.execute(params![place, text])?;
        }
        Ok(())
    }

    fn first(&self, expression: &str) -> rusqlite::Result<Option<(usize, String)>> {
        let mut select = self.connection.prepare_cached(
            "SELECT rowid, highlight(passages, 0, ?2, ?3) FROM passages
                 WHERE passages MATCH ?1 ORDER BY rowid LIMIT 1",
        )?;
        let first = select
            .query_row(params![expression, BEGIN.to_string(), END.to_string()], |row| {
                Ok((row.get::<_, i64>(0)?, row.get(1)?))
            });
        let first = first.optional()?;
        Ok(first.and_then(|(place, marked)| Some((usize::try_from(place).ok()?, marked))))
    }
}

/// A text without its marks, and where they stood.
fn unmarked(marked: &str) -> (String, Vec<Range<usize>>) {
    let (mut text, mut found, mut start) = (String::with_capacity(marked.len()), Vec::new(), 0);
    for character in marked.chars() {
        match character {
            BEGIN => start = text.len(),
            END => found.push(start..text.len()),
            character => text.push(character),
        }
    }
    (text, found)
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        clock::Timestamp,
        search::{Part, Passage},
    };

    use super::*;

    fn marked(query: &str, passages: &[&str]) -> Option<(usize, Vec<String>)> {
        let entry = Entry {
            team: "main".into(),
            at: Timestamp(1),
            task: None,
            session: None,
            passages: passages.iter().map(|text| Passage::new(Part::Said, *text)).collect(),
        };
        let marker = Marker::new(&Query::parse(query).unwrap()).unwrap();
        let (passage, Excerpt { text, marks }) = marker.mark(&entry).unwrap()?;
        let place = passages.iter().position(|text| *text == passage.text).unwrap();
        Some((place, marks.into_iter().map(|mark| text[mark].to_owned()).collect()))
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_are_marked_whatever_their_case_and_accents() {
        assert_eq!(marked("cafe", &["In the CAFÉ, late"]), Some((0, words(&["CAFÉ"]))));
        assert_eq!(marked("inv*", &["An invoice"]), Some((0, words(&["invoice"]))));
        assert_eq!(marked("\"two words\"", &["words two words"]), Some((0, words(&["two words"]))));
    }

    #[test]
    fn the_passage_that_holds_all_words_comes_before_one_that_holds_some() {
        let passages = ["red only", "blue only", "red and blue"];

        assert_eq!(marked("blue red", &passages), Some((2, words(&["red", "blue"]))));
        assert_eq!(marked("blue red", &passages[..2]), Some((0, words(&["red"]))));
        assert_eq!(marked("blue red", &passages[..1]), None);
    }

    #[test]
    fn marks_in_a_text_are_no_marks() {
        assert_eq!(marked("b", &["\u{1}a\u{2} b \0c"]), Some((0, words(&["b"]))));
    }
}
