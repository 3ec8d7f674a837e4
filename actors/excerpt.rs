//! Excerpts: the beginning of a long text, marked with how much is missing and the way to the rest.
//!
//! Whoever shortens a text for a person or a model does it here, so that no cut is silent.

use crate::ids::TaskId;

/// The tool that reads to a model what was left out of a task or a message.
pub const READER: &str = "list_completed_tasks";

/// The first characters of a text, and how many follow them.
pub fn split(text: &str, most: usize) -> (&str, usize) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (&text[..end], text[end..].chars().count()),
        None => (text, 0),
    }
}

/// At most so many characters of a text, and a mark if some are missing: how many, and where they are.
pub fn excerpt(text: &str, most: usize, rest: &str) -> String {
    let (shown, missing) = split(text, most);
    marked(shown, missing, Unit::Character, rest)
}

/// The same for one line of a list, a name or a quoted word: `…` stands for what is missing, since the
/// place that shows the whole is the row itself.
pub fn line(text: &str, most: usize) -> String {
    match split(text, most) {
        (_, 0) => text.to_owned(),
        _ => format!("{}…", split(text, most.saturating_sub(1)).0),
    }
}

/// As much of a text as takes so many bytes in JSON, where escapes count, with the mark of
/// [`excerpt`]. Says whether something is missing.
pub fn framed(text: &str, bytes: usize, rest: &str) -> (String, bool) {
    // No character takes more than six times its bytes.
    if text.len() <= bytes / 6 {
        return (text.to_owned(), false);
    }
    let mut taken = 0;
    for (place, character) in text.char_indices() {
        taken += match character {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            control if control < ' ' => 6,
            other => other.len_utf8(),
        };
        if taken > bytes {
            let missing = text[place..].chars().count();
            return (marked(&text[..place], missing, Unit::Character, rest), true);
        }
    }
    (text.to_owned(), false)
}

/// What a mark counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Where the whole text is at hand.
    Character,
    /// Where only its size is known.
    Byte,
}

/// The beginning of a text with the mark for what is missing.
pub fn marked(shown: &str, missing: usize, unit: Unit, rest: &str) -> String {
    let unit = match unit {
        Unit::Character => "character",
        Unit::Byte => "byte",
    };
    match missing {
        0 => shown.to_owned(),
        1 => format!("{shown} … [1 more {unit}: {rest}]"),
        missing => format!("{shown} … [{missing} more {unit}s: {rest}]"),
    }
}

/// The way to the rest of a task's answer, for people.
pub fn of_task(task: &TaskId) -> String {
    format!("`hivewright tasks show {task}`")
}

/// The way to the rest of a text, for a model: from this character on.
pub fn to_read(id: &str, part: Part, offset: usize) -> String {
    match part {
        Part::Result => format!(r#"{READER} {{"id":"{id}","offset":{offset}}}"#),
        Part::Body => format!(r#"{READER} {{"id":"{id}","part":"body","offset":{offset}}}"#),
    }
}

/// Which text of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What came of it.
    #[default]
    Result,
    /// What was asked.
    Body,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_says_how_much_is_missing_and_where_it_is() {
        assert_eq!(excerpt("abc", 3, "there"), "abc");
        assert_eq!(excerpt("abcé", 3, "there"), "abc … [1 more character: there]");
        assert_eq!(
            excerpt("äbcdé", 2, &of_task(&"task-1".into())),
            "äb … [3 more characters: `hivewright tasks show task-1`]"
        );
        assert_eq!(
            to_read("task-1", Part::Body, 7),
            r#"list_completed_tasks {"id":"task-1","part":"body","offset":7}"#
        );
    }

    #[test]
    fn a_line_is_never_longer_than_it_may_be() {
        assert_eq!(line("abc", 3), "abc");
        assert_eq!(line("abcd", 3), "ab…");
        assert_eq!(line("", 0), "");
    }

    /// CH-60: escapes count as they stand on the wire.
    #[test]
    fn a_framed_text_takes_no_more_bytes_than_it_may() {
        assert_eq!(framed("abc", 3, "x"), ("abc".to_owned(), false));
        assert_eq!(framed("\"\"\"", 5, "x"), ("\"\" … [1 more character: x]".to_owned(), true));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_what_is_shown_and_what_is_counted(text in "[aé漢🐝\n\"]{0,40}", most in 0usize..50) {
            let (shown, missing) = split(&text, most);

            prop_assert!(text.starts_with(shown));
            prop_assert_eq!(shown.chars().count() + missing, text.chars().count());
            prop_assert!(shown.chars().count() <= most);
        }
    }
}
