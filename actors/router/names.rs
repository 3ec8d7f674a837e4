//! Names of topics.

use std::collections::HashSet;

use super::words::{pieces, readable};
use crate::{excerpt, text::is_unseen};

/// The longest name, in characters.
pub(super) const MAX_CHARS: usize = 40;
/// The longest name that a person gives, in characters.
const MAX_GIVEN_CHARS: usize = 60;
/// Most words of a message that make a name.
const MAX_WORDS: usize = 6;
/// The name of a topic that nothing names.
const NAMELESS: &str = "New topic";

/// A name for a topic: the suggested one, else the first content words of its first message, else how that begins.
///
/// Differs, whatever the case, from all that are taken.
pub(super) fn name<'a>(
    suggested: Option<&str>,
    content: &str,
    taken: impl Iterator<Item = &'a str>,
) -> String {
    let name = suggested
        .and_then(|name| tidy(name, MAX_CHARS))
        .or_else(|| first_words(content))
        .or_else(|| tidy(&content.replace([':', '@'], " "), MAX_CHARS))
        .unwrap_or_else(|| NAMELESS.to_owned());
    unique(name, MAX_CHARS, taken)
}

/// A title that a model made, such as a person may give; none if nothing is left of it.
pub(super) fn title<'a>(made: &str, taken: impl Iterator<Item = &'a str>) -> Option<String> {
    let title = tidy(&made.replace([':', '@'], " "), MAX_GIVEN_CHARS)?;
    Some(unique(title, MAX_GIVEN_CHARS, taken))
}

/// Whether a person may name a topic so.
pub(super) fn is_good(name: &str) -> bool {
    let name = name.trim();
    (1..=MAX_GIVEN_CHARS).contains(&name.chars().count())
        && !name.chars().any(|c| c.is_control() || is_unseen(c) || c == ':' || c == '@')
}

/// A name someone made up, on one line and not longer than that.
fn tidy(name: &str, most: usize) -> Option<String> {
    let visible = |c: &char| !(c.is_control() || is_unseen(*c)) || c.is_whitespace();
    // What is cut off below needs no tidying.
    let text: String = name.chars().take(1_000).filter(visible).collect();
    let tidied = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let tidied = cut(&tidied, most);
    (!tidied.is_empty()).then(|| tidied.to_owned())
}

/// As many whole content words as fit. Only a first word that is too long is cut.
fn first_words(content: &str) -> Option<String> {
    let content = readable(content);
    let mut name = String::new();
    let mut length = 0;
    for piece in pieces(&content).filter(|piece| piece.means_something()).take(MAX_WORDS) {
        if name.is_empty() {
            name.push_str(cut(piece.text, MAX_CHARS));
            length = name.chars().count();
            continue;
        }
        length += 1 + piece.text.chars().count();
        if length > MAX_CHARS {
            break;
        }
        name.push(' ');
        name.push_str(piece.text);
    }
    (!name.is_empty()).then_some(name)
}

fn unique<'a>(name: String, most: usize, taken: impl Iterator<Item = &'a str>) -> String {
    let taken: HashSet<String> = taken.map(str::to_lowercase).collect();
    if !taken.contains(&name.to_lowercase()) {
        return name;
    }
    // One of these is free: there are more of them than names.
    (2..=taken.len() + 2)
        .map(|number| {
            let number = format!(" {number}");
            format!("{}{number}", cut(&name, most - number.len()))
        })
        .find(|numbered| !taken.contains(&numbered.to_lowercase()))
        .unwrap_or(name)
}

/// The first characters of a text, without a space at the end.
fn cut(text: &str, characters: usize) -> &str {
    match excerpt::split(text, characters) {
        (text, 0) => text,
        (shown, _) => shown.trim_end(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(content: &str) -> String {
        name(None, content, std::iter::empty())
    }

    /// CH-135
    #[test]
    fn the_first_content_words_name_a_topic() {
        assert_eq!(
            named("Please fix the Login bug, it's on the export pages of billing today"),
            "fix Login bug export pages billing"
        );
        assert_eq!(named("请帮我修复登录错误，谢谢"), "请帮我修复登录错误 谢谢");
        // Words that say nothing of a subject tell it from others all the same.
        assert_eq!(named("Is it:\nok?"), "Is it ok?");
        assert_eq!(named("🎉🎉"), "🎉🎉");
        assert_eq!(named(" @: "), "New topic");
    }

    /// CH-135
    #[test]
    fn a_name_has_at_most_forty_characters() {
        assert_eq!(
            named("internationalisation configuration documentation"),
            "internationalisation configuration"
        );
        assert_eq!(named(&"ä".repeat(5_000)), "ä".repeat(40));
        assert_eq!(
            name(Some(&"model ".repeat(20)), "", std::iter::empty()),
            "model model model model model model mode"
        );
    }

    /// CH-135
    #[test]
    fn the_name_of_the_model_goes_before_the_words_of_the_message() {
        let suggested = |text| name(Some(text), "export slow", std::iter::empty());

        assert_eq!(suggested(" Billing:\n\u{202e}export\u{0}s\t(v2) "), "Billing: exports (v2)");
        assert_eq!(suggested(" \u{200b}\n"), "export slow");
    }

    #[test]
    fn a_title_of_a_model_is_plain_text_such_as_a_person_may_write() {
        let title = |made: &str| title(made, ["Bees"].into_iter());

        let made = title("\u{1b}[31mHoney:\n\u{202e}made @home ").unwrap();
        assert_eq!(made, "[31mHoney made home");
        assert!(is_good(&made));
        assert_eq!(title("bees").as_deref(), Some("bees 2"));
        assert_eq!(title(&"long ".repeat(40)).unwrap().chars().count(), 59);
        assert_eq!(title(" @\u{200b}"), None);
    }

    /// CH-135
    #[test]
    fn a_taken_name_gets_the_next_number() {
        let taken = ["Export Slow", "export slow 2", "export slow 4"];

        assert_eq!(name(None, "export slow", taken.into_iter()), "export slow 3");
    }

    proptest! {
        /// CH-135
        #[test]
        fn names_are_unique_short_and_visible(
            contents in prop::collection::vec(("\\PC{0,50}|[ab ]{0,4}|[你好]{0,50}", prop::option::of("\\PC{0,50}|a{38,41}| *")), 0..30)
        ) {
            let mut names: Vec<String> = Vec::new();
            for (content, suggested) in &contents {
                let new = name(suggested.as_deref(), content, names.iter().map(String::as_str));

                prop_assert!((1..=MAX_CHARS).contains(&new.chars().count()), "{new:?}");
                prop_assert_eq!(new.trim(), &new);
                prop_assert!(names.iter().all(|name| name.to_lowercase() != new.to_lowercase()));
                names.push(new);
            }
        }
    }
}
