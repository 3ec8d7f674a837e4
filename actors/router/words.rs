//! Word set of a text, as topics are compared by it.

use std::{borrow::Cow, ops::Range};

use serde::{Deserialize, Serialize};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfkc_quick,
};

/// A long paste says at its beginning what it is about. Reading no further bounds the work of a
/// message and the size of a topic's row.
const MAX_READ: usize = 1_000;

/// The distinct words of a text: sorted, with a space between them.
///
/// One string and not a list, since a topic keeps ten of these in its row, and since two sorted
/// runs are compared in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Words(String);

impl Words {
    /// The words of the first thousand characters of a text.
    ///
    /// Compatible forms are one (NFKC), case is gone, so are stop words, single letters and the
    /// plural `s`. Chinese, Japanese and Korean have pairs of neighbouring characters for words.
    pub fn of(text: &str) -> Self {
        let text = readable(text);
        let mut spelled = String::with_capacity(text.len());
        let mut found: Vec<Range<usize>> = Vec::with_capacity(text.len() / 6 + 1);
        for piece in pieces(&text) {
            if piece.pairs {
                pair(piece.text, &mut spelled, &mut found);
                continue;
            }
            let start = spelled.len();
            push_lower_case(piece.text, &mut spelled);
            let word = &spelled[start..];
            if means_something(word) {
                found.push(start..start + singular(word).len());
            } else {
                spelled.truncate(start);
            }
        }
        found.sort_unstable_by(|a, b| spelled[a.clone()].cmp(&spelled[b.clone()]));
        found.dedup_by(|a, b| spelled[a.clone()] == spelled[b.clone()]);

        let mut words = String::with_capacity(found.iter().map(|word| word.len() + 1).sum());
        for word in found {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&spelled[word]);
        }
        Self(words)
    }

    /// The words, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(' ')
    }

    /// Shows the position, among these words, of each that the others have too.
    pub fn shared_with(&self, others: &Self, mut show: impl FnMut(usize)) {
        let mut others = others.iter().peekable();
        for (position, word) in self.iter().enumerate() {
            while others.next_if(|other| *other < word).is_some() {}
            if others.peek() == Some(&word) {
                show(position);
            }
        }
    }
}

/// A run of characters that belong together.
pub(super) struct Piece<'a> {
    /// As written.
    pub(super) text: &'a str,
    /// Its script puts no spaces between words.
    pairs: bool,
}

impl Piece<'_> {
    /// It is neither a stop word nor a single letter.
    pub(super) fn means_something(&self) -> bool {
        let mut word = String::with_capacity(self.text.len());
        push_lower_case(self.text, &mut word);
        self.pairs || means_something(&word)
    }
}

/// The beginning of a text, with compatible forms made one.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let head = match text.char_indices().nth(MAX_READ) {
        Some((end, _)) => &text[..end],
        None => text,
    };
    match is_nfkc_quick(head.chars()) {
        IsNormalized::Yes => Cow::Borrowed(head),
        // One character can become eighteen.
        IsNormalized::No | IsNormalized::Maybe => Cow::Owned(head.nfkc().take(MAX_READ).collect()),
    }
}

/// The runs of letters and digits of a text.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let text = &rest[rest.find(char::is_alphanumeric)?..];
        let pairs = text.starts_with(is_paired);
        let end = text.find(|c| !belongs_to_word(c) || is_paired(c) != pairs).unwrap_or(text.len());
        rest = &text[end..];
        Some(Piece { text: &text[..end], pairs })
    })
}

/// Letters, digits, and the marks that many scripts put on their letters.
fn belongs_to_word(c: char) -> bool {
    c.is_alphanumeric() || (!c.is_ascii() && is_combining_mark(c))
}

/// Han, Hiragana, Katakana, Hangul.
fn is_paired(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}'
        | '\u{3130}'..='\u{318f}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Adds each two neighbours of a run; of a run of one that one, which may well be a whole word.
fn pair(run: &str, spelled: &mut String, found: &mut Vec<Range<usize>>) {
    let start = spelled.len();
    spelled.push_str(run);
    let starts = || run.char_indices().map(|(at, _)| start + at);
    let ends = starts().skip(2).chain([spelled.len()]);
    found.extend(starts().zip(ends).map(|(from, to)| from..to));
}

fn push_lower_case(word: &str, to: &mut String) {
    for c in word.chars() {
        if c.is_ascii() {
            to.push(c.to_ascii_lowercase());
        } else {
            to.extend(c.to_lowercase());
        }
    }
}

fn means_something(word: &str) -> bool {
    let mut characters = word.chars();
    let single_letter =
        characters.next().is_some_and(char::is_alphabetic) && characters.next().is_none();
    !single_letter && STOP_WORDS.binary_search(&word).is_err()
}

fn singular(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.chars().nth(2).is_some() => stem,
        _ => word,
    }
}

/// English words that say nothing about a subject, and what an apostrophe leaves of some. Sorted.
const STOP_WORDS: &[&str] = &[
    "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "aren", "as", "at",
    "be", "because", "been", "before", "being", "both", "but", "by", "can", "cannot", "could",
    "couldn", "did", "didn", "do", "does", "doesn", "doing", "don", "down", "each", "few", "for",
    "from", "further", "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "hello",
    "her", "here", "hers", "hey", "hi", "him", "his", "how", "if", "in", "into", "is", "isn", "it",
    "its", "just", "let", "ll", "may", "me", "might", "more", "most", "must", "my", "no", "nor",
    "not", "now", "of", "off", "ok", "okay", "on", "once", "only", "or", "other", "our", "ours",
    "out", "over", "own", "please", "re", "same", "shall", "she", "should", "shouldn", "so",
    "some", "such", "than", "thank", "thanks", "that", "the", "their", "theirs", "them", "then",
    "there", "these", "they", "this", "those", "to", "too", "under", "until", "up", "us", "ve",
    "very", "was", "wasn", "we", "were", "weren", "what", "when", "where", "which", "while", "who",
    "whom", "why", "will", "with", "won", "would", "wouldn", "yes", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        Words::of(text).iter().map(str::to_owned).collect()
    }

    #[test]
    fn the_stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
    }

    /// CH-136
    #[test]
    fn words_are_lower_case_distinct_and_without_filler() {
        assert_eq!(
            words("Why is the Export of INVOICES slow? I don't know: export an invoice, v2."),
            ["export", "invoice", "know", "slow", "v2"]
        );
        assert_eq!(words("is it a the ?! …"), [""; 0]);
    }

    /// CH-136
    #[test]
    fn only_words_over_three_letters_lose_their_plural() {
        assert_eq!(words("bus gas cars été étés"), ["bus", "car", "gas", "été"]);
    }

    /// CH-136
    #[test]
    fn compatible_forms_are_the_same_word() {
        assert_eq!(words("ﬁnance Ｃａｆｅ\u{301}"), words("finance café"));
        assert_eq!(words("한국"), words("\u{1112}\u{1161}\u{11ab}국"));
    }

    /// CH-136
    #[test]
    fn runs_without_spaces_become_pairs() {
        assert_eq!(words("登录错误 API"), ["api", "录错", "登录", "错误"]);
        assert_eq!(words("猫"), ["猫"]);
        assert_eq!(words("データbaseを"), ["base", "を", "デー", "ータ"]);
    }

    #[test]
    fn marks_stay_on_their_letters() {
        assert_eq!(words("हिन्दी"), ["हिन्दी"]);
        assert_eq!(words("\u{fe0f}\u{301}"), [""; 0]);
    }

    #[test]
    fn digits_count_and_single_letters_do_not() {
        assert_eq!(words("step 2 b"), ["2", "step"]);
    }

    #[test]
    fn only_the_beginning_of_a_long_text_is_read() {
        let long = format!("alpha {}omega", "x ".repeat(500_000));

        assert_eq!(words(&long), ["alpha"]);
        assert!(Words::of(&"\u{fdfa}".repeat(10_000)).iter().count() <= MAX_READ);
    }

    #[test]
    fn shared_words_are_shown_by_position() {
        let mut shared = Vec::new();

        Words::of("alpha beta delta gamma")
            .shared_with(&Words::of("zeta beta gamma aardvark"), |at| shared.push(at));

        assert_eq!(shared, [1, 3]);
    }

    proptest! {
        #[test]
        fn any_text_gives_sorted_distinct_words(text in "\\PC{0,60}|[a-z你好世界가나のカ ’\u{301}\u{fdfa}]{0,60}") {
            let words = words(&text);

            prop_assert!(words.is_sorted_by(|a, b| a < b));
            prop_assert!(words.iter().all(|word| !word.is_empty() && !word.contains(' ')));
        }

        #[test]
        fn sharing_agrees_with_a_plain_search(a in "[a-c ]{0,30}", b in "[a-c ]{0,30}") {
            let (a, b) = (Words::of(&a), Words::of(&b));
            let mut shared = Vec::new();
            a.shared_with(&b, |at| shared.push(at));

            let plain: Vec<usize> = a
                .iter()
                .enumerate()
                .filter(|(_, word)| b.iter().any(|other| other == *word))
                .map(|(at, _)| at)
                .collect();
            prop_assert_eq!(shared, plain);
        }
    }
}
