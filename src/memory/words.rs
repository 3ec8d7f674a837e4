//! The words of a text, and the pieces that a long one is searched in.

use std::ops::Range;

/// The most words of a chunk.
const CHUNK: usize = 500;
/// How many words a chunk repeats of the one before it.
const REPEATED: usize = 80;

/// A word where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// In lower case.
    pub(super) text: String,
    pub(super) at: Range<usize>,
    /// A blank line stands before it.
    begins_paragraph: bool,
}

/// The words of a text: runs of letters and digits, in lower case.
///
/// An apostrophe between letters belongs to its word. Scripts that put no spaces between words have
/// a word for each character. Names are taken apart (`last_seen` has two words), so that they are
/// found by their parts.
pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut line_breaks = 0;
    let mut rest = text.char_indices().peekable();
    while let Some((start, first)) = rest.next() {
        if !first.is_alphanumeric() {
            match first {
                '\n' => line_breaks += 1,
                other if !other.is_whitespace() => line_breaks = 0,
                _ => {}
            }
            continue;
        }
        let mut end = start + first.len_utf8();
        if !stands_alone(first) {
            while let Some((at, next)) = rest.peek().copied() {
                let joins = continues(next)
                    || (is_apostrophe(next)
                        && text[at + next.len_utf8()..].starts_with(char::is_alphabetic));
                if !joins {
                    break;
                }
                end = at + next.len_utf8();
                rest.next();
            }
        }
        words.push(Word {
            text: spelled(&text[start..end]),
            at: start..end,
            begins_paragraph: line_breaks > 1,
        });
        line_breaks = 0;
    }
    words
}

fn continues(character: char) -> bool {
    (character.is_alphanumeric() && !stands_alone(character)) || is_mark(character)
}

fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '\u{2019}')
}

/// Accents that follow their letter, of the scripts that are often written so.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5bd}'
        | '\u{64b}'..='\u{65f}' | '\u{93c}' | '\u{94d}' | '\u{1ab0}'..='\u{1aff}' | '\u{20d0}'..='\u{20ff}')
}

/// Han, Hiragana, Thai, Lao, Burmese and Khmer: where words end cannot be seen.
fn stands_alone(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{309f}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

fn spelled(word: &str) -> String {
    word.to_lowercase().replace('\u{2019}', "'")
}

/// The pieces of a text, as ranges of its words: at most 500 each, ending at a paragraph's end where
/// there is one, each with the last 80 words of the one before.
pub(super) fn chunks(words: &[Word]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    loop {
        let full = start + CHUNK;
        if full >= words.len() {
            chunks.push(start..words.len());
            return chunks;
        }
        // A border so early that the next chunk would begin no later helps nobody.
        let border = (start + REPEATED + 1..=full).rev().find(|at| words[*at].begins_paragraph);
        let end = border.unwrap_or(full);
        chunks.push(start..end);
        start = end - REPEATED;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled_words(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    /// MV-24
    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        let table: [(&str, &[&str]); 8] = [
            ("", &[]),
            (" -- ?! \n", &[]),
            ("The DEPLOY, the deploy", &["the", "deploy", "the", "deploy"]),
            ("Don’t stop; it's 'quoted'", &["don't", "stop", "it's", "quoted"]),
            ("scout:last_seen/api-v2.1", &["scout", "last", "seen", "api", "v2", "1"]),
            ("Straße ÉCOLE e\u{301}t", &["straße", "école", "e\u{301}t"]),
            ("東京へ go", &["東", "京", "へ", "go"]),
            ("AND (x OR \"y*\")~2", &["and", "x", "or", "y", "2"]),
        ];
        for (text, expected) in table {
            assert_eq!(spelled_words(text), expected, "{text}");
        }
    }

    /// MV-24
    #[test]
    fn a_chunk_ends_at_a_paragraph_and_the_next_repeats_eighty_words() {
        let paragraph = |words: usize| vec!["word"; words].join(" ");
        let text = [paragraph(300), paragraph(150), paragraph(100)].join("\n\n");

        assert_eq!(chunks(&words(&text)), [0..450, 370..550]);
        assert_eq!(chunks(&words(&paragraph(500))), vec![0..500; 1]);
        assert_eq!(chunks(&words(&paragraph(501))), [0..500, 420..501]);
        assert_eq!(chunks(&[]), vec![0..0; 1]);
    }

    proptest! {
        /// MV-24: every word is in a chunk, none is too long, and each begins in the one before.
        #[test]
        fn chunks_cover_a_text(lengths in prop::collection::vec(1usize..700, 1..6)) {
            let paragraphs: Vec<_> = lengths.iter().map(|words| vec!["w"; *words].join(" ")).collect();
            let words = words(&paragraphs.join("\n \n"));

            let chunks = chunks(&words);

            prop_assert_eq!(chunks[0].start, 0);
            prop_assert_eq!(chunks[chunks.len() - 1].end, words.len());
            prop_assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK));
            for pair in chunks.windows(2) {
                prop_assert_eq!(pair[1].start, pair[0].end - REPEATED);
                prop_assert!(pair[1].start > pair[0].start);
            }
        }
    }
}
