//! Cutting a long answer to what a model should read: its beginning and its end.

use std::borrow::Cow;

use crate::scrub::Scrubber;

/// The most text that a model gets from one call, in bytes.
pub(super) const MOST: usize = 65_536;
/// Longer lines of files are cut, in characters.
pub(super) const WIDTH: usize = 2000;
/// Room for the line that says what is missing.
const NOTE: usize = 64;

/// The text if it is short enough, else three quarters of it from the head and one from the tail.
/// Says whether something is missing.
pub(super) fn cap(text: String) -> (String, bool) {
    if text.len() <= MOST {
        return (text, false);
    }
    let room = MOST - NOTE;
    let head = text.floor_char_boundary(room / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - room / 4);
    let missing = tail - head;
    let cut =
        format!("{}\n[… {missing} bytes are missing here …]\n{}", &text[..head], &text[tail..]);
    (cut, true)
}

/// A line of a file, cut if it is too long. What the cut may have split ends before it: of half a secret nobody knows
/// that it is one.
pub(super) fn line<'t>(line: &'t str, scrubber: &Scrubber) -> Cow<'t, str> {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => {
            let whole = scrubber.stream().push(&line[..end]);
            format!("{whole}… [line cut]").into()
        }
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// TO-15
    #[test]
    fn a_long_text_keeps_three_quarters_head_and_a_quarter_tail() {
        let (cut, truncated) = cap("h".repeat(100_000) + &"t".repeat(100_000));

        let head = "h".repeat(49_104);
        let tail = "t".repeat(16_368);
        assert!(truncated);
        assert_eq!(cut, format!("{head}\n[… 134528 bytes are missing here …]\n{tail}"));
    }

    #[test]
    fn a_text_of_exactly_the_limit_stays() {
        let text = "x".repeat(MOST);

        assert_eq!(cap(text.clone()), (text, false));
    }

    proptest! {
        /// TO-15: characters of several bytes are not split, and the limit holds.
        #[test]
        fn a_cut_keeps_whole_characters(unit in "[aé漢🐝]{1,7}", extra in 0usize..50) {
            let text = unit.repeat(MOST / unit.len() + 1 + extra);

            let (cut, truncated) = cap(text.clone());

            let (head, rest) = cut.split_once("\n[… ").unwrap_or_default();
            let (missing, tail) = rest.split_once(" bytes are missing here …]\n").unwrap_or_default();
            prop_assert!(truncated && cut.len() <= MOST);
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            prop_assert_eq!(missing.parse().ok(), Some(text.len() - head.len() - tail.len()));
        }
    }
}
