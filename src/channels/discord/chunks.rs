//! Chunks: a long text in messages that Discord takes, cut where it reads well and with whole code fences.

use unicode_segmentation::UnicodeSegmentation;

/// The longest message, in UTF-16 units, as Discord counts.
pub(super) const LONGEST: usize = 2_000;
const FENCE: &str = "```";
/// What closes a fence that is cut, in units.
const CLOSING: usize = FENCE.len() + 1;
/// A longer word behind a fence names no language.
const LONGEST_INFO: usize = 20;

/// The messages of a text, none of them blank.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut chunks = Vec::new();
    let mut fence: Option<&str> = None;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let opening = fence.map_or(String::new(), |info| format!("{FENCE}{info}\n"));
        let room = LONGEST - units(&opening);
        if units(rest) <= room {
            push(&mut chunks, format!("{opening}{rest}"));
            break;
        }
        let reserved = if fence.is_some() || rest.contains(FENCE) { CLOSING } else { 0 };
        let piece = cut(rest, room - reserved);
        let (before, behind) = (piece, &rest[piece.len()..]);
        let open = fence_after(fence, before);
        let end = if open.is_some() { format!("\n{FENCE}") } else { String::new() };
        // Spaces at a cut are not shown, except the indentation of code.
        let shown = before.trim_end();
        if !shown.is_empty() {
            push(&mut chunks, format!("{opening}{shown}{end}"));
        }
        rest = match open {
            Some(_) => behind.trim_start_matches('\n').trim_end(),
            None => behind.trim(),
        };
        fence = open;
    }
    chunks
}

fn push(chunks: &mut Vec<String>, chunk: String) {
    if !chunk.trim().is_empty() {
        chunks.push(chunk);
    }
}

/// The length of a text as Discord counts.
pub(super) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The beginning of a text that is longer than this many units, up to the best place to cut.
fn cut(text: &str, most: usize) -> &str {
    let window = window(text, most);
    // What follows decides whether a place at the very end is one.
    let seen = &text[..text.ceil_char_boundary(window.len() + 1)];
    let places = [
        seen.rfind("\n\n"),
        seen.rfind('\n'),
        [". ", "! ", "? "].iter().filter_map(|end| seen.rfind(end)).max().map(|place| place + 1),
        seen.rfind(' '),
    ];
    let good = |place: &usize| *place <= window.len() && !text[..*place].trim().is_empty();
    if let Some(place) = places.into_iter().flatten().find(good) {
        return &text[..place];
    }
    let starts = window.grapheme_indices(true).rev().map(|(place, _)| place);
    let whole = |place: &usize| *place > 0 && is_boundary(text, *place);
    let place = [window.len()].into_iter().chain(starts).find(whole).unwrap_or(window.len());
    before_fence(text, place).map_or(&text[..place], |place| &text[..place])
}

/// No cluster of characters goes over this place.
fn is_boundary(text: &str, place: usize) -> bool {
    let from = text[..place].grapheme_indices(true).next_back().map_or(0, |(place, _)| place);
    let behind = text[from..].graphemes(true).next().map_or(0, str::len);
    from + behind == place
}

/// The place before the backticks of a fence that this place would part.
fn before_fence(text: &str, place: usize) -> Option<usize> {
    let start = text[..place].trim_end_matches('`').len();
    let ticks = text[start..].len() - text[start..].trim_start_matches('`').len();
    let parted = start < place && start + ticks > place && ticks >= FENCE.len();
    (parted && start > 0).then_some(start)
}

/// The longest beginning of a text with at most this many units. It has at least one character.
fn window(text: &str, most: usize) -> &str {
    let mut taken = 0;
    for (place, letter) in text.char_indices() {
        taken += letter.len_utf16();
        if taken > most && place > 0 {
            return &text[..place];
        }
    }
    text
}

/// The language of the fence that is open behind a text, if one is.
fn fence_after<'a>(before: Option<&'a str>, text: &'a str) -> Option<&'a str> {
    let mut open = before;
    let mut rest = text;
    while let Some(place) = rest.find(FENCE) {
        rest = &rest[place + FENCE.len()..];
        open = match open {
            Some(_) => None,
            None => Some(info(rest)),
        };
    }
    open
}

/// The name of a language that stands alone in the line of an opening fence.
fn info(behind: &str) -> &str {
    let line = behind.split('\n').next().unwrap_or_default().trim_end();
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "_+-.#".contains(letter);
    if line.len() <= LONGEST_INFO && line.chars().all(of_name) { line } else { "" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(count: usize) -> String {
        (0..count).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ")
    }

    /// CH-99
    #[test]
    fn a_short_text_is_one_message_and_a_blank_one_none() {
        assert_eq!(split(" Hello.\n"), ["Hello."]);
        assert_eq!(split("x".repeat(LONGEST).as_str()).len(), 1);
        assert!(split(" \n\t ").is_empty());
    }

    /// CH-99
    #[test]
    fn a_long_text_is_cut_at_the_best_place_that_there_is() {
        let filler = words(150);
        let cases = [
            format!("{filler}\n\n{filler}\n{filler}"),
            format!("{filler}\n{filler}. {filler}"),
            format!("{filler}. {filler} {filler}"),
            format!("{filler} {filler}"),
        ];
        let firsts = cases.each_ref().map(|text| split(text)[0].clone());

        assert_eq!(firsts[0], filler);
        assert_eq!(firsts[1], filler);
        assert_eq!(firsts[2], format!("{filler}."));
        assert!(firsts[3].len() > LONGEST - 10 && cases[3].starts_with(&firsts[3]));
    }

    /// CH-99
    #[test]
    fn a_fence_that_is_cut_is_closed_and_opened_again_with_its_language() {
        let code = (0..300).map(|number| format!("    let line = {number};")).collect::<Vec<_>>();
        let text = format!("Look:\n```rust\n{}\n```\nThat is all.", code.join("\n"));

        let chunks = split(&text);

        assert!(chunks.len() >= 3, "{}", chunks.len());
        for chunk in &chunks {
            assert!(units(chunk) <= LONGEST);
            assert_eq!(chunk.matches(FENCE).count() % 2, 0, "{chunk}");
        }
        for chunk in &chunks[1..] {
            assert!(chunk.starts_with("```rust\n    let line"), "{chunk}");
        }
        assert!(chunks.last().unwrap().ends_with("```\nThat is all."));
    }

    /// CH-99
    #[test]
    fn a_text_without_spaces_is_cut_between_what_is_read_as_one_character() {
        let family = "👨‍👩‍👧‍👦";
        let text = family.repeat(400);

        let chunks = split(&text);

        assert_eq!(chunks.concat(), text);
        for chunk in chunks {
            assert!(units(&chunk) <= LONGEST);
            assert_eq!(chunk.len() % family.len(), 0);
        }
    }

    #[test]
    fn one_character_that_is_longer_than_a_message_ends_all_the_same() {
        let text = format!("a{}", "\u{301}".repeat(5_000));

        let chunks = split(&text);

        assert_eq!(chunks.concat(), text);
        assert!(chunks.iter().all(|chunk| units(chunk) <= LONGEST));
    }

    proptest! {
        /// CH-99
        #[test]
        fn nothing_is_lost_and_no_message_is_blank_or_too_long(
            parts in prop::collection::vec(
                prop_oneof!["[a-z .!\n]{0,400}", "```[a-z]{0,8}\n?", "\\PC{0,300}", "`{1,7}", " {1,50}"],
                0..60,
            )
        ) {
            let text = parts.concat();

            let chunks = split(&text);

            let letters = |text: &str| -> String {
                text.chars().filter(|letter| !letter.is_whitespace() && *letter != '`').collect()
            };
            prop_assert!(chunks.iter().all(|chunk| !chunk.trim().is_empty()));
            prop_assert!(chunks.iter().all(|chunk| units(chunk) <= LONGEST));
            if !text.contains(FENCE) {
                prop_assert_eq!(letters(&chunks.concat()), letters(&text));
            } else {
                // The name of a language may be there once more for each cut.
                prop_assert!(letters(&chunks.concat()).len() >= letters(&text).len());
            }
        }
    }
}
