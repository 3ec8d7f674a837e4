//! What credentials look like, whoever they belong to.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};

use super::REDACTED;

/// A find: the whole of it, and the part that is replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) whole: Range<usize>,
    pub(super) secret: Range<usize>,
}

const STARTS: [&str; 8] = ["sk-", "ghp_", "akia", PEM, "bearer ", "token=", "api_key", "api-key"];
const APIKEY: &str = "apikey";
const PEM: &str = "-----begin ";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const DASHES: &str = "-----";

static START: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(STARTS.iter().chain([&APIKEY]))
        .ok()
});

/// All credentials in the text, in order, none overlapping. `before` is the character before it.
pub(super) fn find(before: Option<char>, text: &str) -> Vec<Shape> {
    let mut found: Vec<Shape> = Vec::new();
    for start in starts(text) {
        if found.last().is_some_and(|last| start.start < last.whole.end) {
            continue;
        }
        if let Reading::Secret(secret) = read(before, text, &start) {
            found.push(Shape { whole: start.start..secret.end, secret });
        }
    }
    found
}

/// Where a credential may begin whose end is not yet in the text; else the end of the text.
pub(super) fn open(before: Option<char>, text: &str) -> usize {
    let begun = starts(text)
        .find(|start| match read(before, text, start) {
            Reading::Secret(secret) => secret.end == text.len(),
            Reading::Unfinished => true,
            Reading::Harmless => false,
        })
        .map_or(text.len(), |start| start.start);
    begun.min(beginning(text))
}

/// A credential may be in the text, or be begun: cheaper to tell than whether it is one.
pub(super) fn suspects(text: &str) -> bool {
    starts(text).next().is_some()
}

/// The first place from which on the text may become what credentials begin with; else its end.
pub(super) fn beginning(text: &str) -> usize {
    let longest = STARTS.iter().map(|start| start.len()).max().unwrap_or(0);
    (text.len().saturating_sub(longest - 1)..text.len())
        .filter(|at| text.is_char_boundary(*at))
        .find(|at| {
            let tail = &text.as_bytes()[*at..];
            STARTS.iter().chain([&APIKEY]).any(|start| {
                start
                    .as_bytes()
                    .get(..tail.len())
                    .is_some_and(|head| head.eq_ignore_ascii_case(tail))
            })
        })
        .unwrap_or(text.len())
}

enum Reading {
    Secret(Range<usize>),
    /// The text ends before it is clear.
    Unfinished,
    Harmless,
}

fn starts(text: &str) -> impl Iterator<Item = Range<usize>> {
    START.iter().flat_map(move |start| start.find_iter(text).map(|found| found.range()))
}

fn read(before: Option<char>, text: &str, start: &Range<usize>) -> Reading {
    let word = &text[start.clone()];
    let previous = text[..start.start].chars().next_back().or(before);
    let inside_word = previous.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let rest = start.end;
    match word.to_ascii_lowercase().as_str() {
        // `task-force` has it too.
        "sk-" if word == "sk-" && !inside_word => {
            long_run(text, start, 16, |c| c.is_ascii_alphanumeric() || "-_".contains(c))
        }
        "ghp_" if !inside_word => long_run(text, start, 16, |c| c.is_ascii_alphanumeric()),
        "akia" if word == "AKIA" && !inside_word => {
            long_run(text, start, 12, |c| c.is_ascii_uppercase() || c.is_ascii_digit())
        }
        PEM => pem(text, start),
        "bearer " => {
            let end = run(text, rest, |c| c.is_ascii_alphanumeric() || "-._~+/=".contains(c));
            let token = &text[rest..end];
            // `Bearer authentication` is prose.
            let credential = token.len() >= 20
                || (token.len() >= 8 && token.chars().any(|c| c.is_ascii_digit()));
            if credential {
                Reading::Secret(rest..end)
            } else if end == text.len() {
                Reading::Unfinished
            } else {
                Reading::Harmless
            }
        }
        "token=" => value(text, rest),
        "api_key" | "api-key" | "apikey" => {
            let quoted = run(text, rest, |c| "\"'".contains(c));
            let assigned = run(text, quoted, |c| c == ' ');
            match text[assigned..].chars().next() {
                Some('=' | ':') => value(text, run(text, assigned + 1, |c| c == ' ')),
                Some(_) => Reading::Harmless,
                None => Reading::Unfinished,
            }
        }
        _ => Reading::Harmless,
    }
}

/// What follows an equals sign or a colon.
fn value(text: &str, from: usize) -> Reading {
    let from = run(text, from, |c| "\"'".contains(c));
    let end = run(text, from, |c| !c.is_whitespace() && !"\"'`&,;<>()".contains(c));
    let value = &text[from..end];
    // References to the vault are what a person or a model is meant to see.
    if value.starts_with("${") || value.starts_with(REDACTED) {
        return Reading::Harmless;
    }
    match (value.is_empty(), end == text.len()) {
        (_, true) if REDACTED.starts_with(value) || "${".starts_with(value) => Reading::Unfinished,
        (true, _) => Reading::Harmless,
        (false, _) => Reading::Secret(from..end),
    }
}

fn pem(text: &str, start: &Range<usize>) -> Reading {
    let label = run(text, start.end, |c| c.is_ascii_uppercase() || c == ' ');
    let (name, rest) = (&text[start.end..label], &text[label..]);
    if !(name.ends_with(PRIVATE_KEY) && rest.starts_with(DASHES)) {
        return if DASHES.starts_with(rest) { Reading::Unfinished } else { Reading::Harmless };
    }
    let end = text[label..]
        .find("-----END ")
        .and_then(|at| {
            let footer = label + at;
            let name = text[footer..].find(PRIVATE_KEY)? + PRIVATE_KEY.len();
            Some(text.len() - text[footer + name..].strip_prefix(DASHES)?.len())
        })
        .unwrap_or(text.len());
    Reading::Secret(start.start..end)
}

fn long_run(
    text: &str,
    start: &Range<usize>,
    shortest: usize,
    accept: impl Fn(char) -> bool,
) -> Reading {
    let end = run(text, start.end, accept);
    if end - start.end >= shortest {
        Reading::Secret(start.start..end)
    } else if end == text.len() {
        Reading::Unfinished
    } else {
        Reading::Harmless
    }
}

fn run(text: &str, from: usize, accept: impl Fn(char) -> bool) -> usize {
    text[from..].find(|c| !accept(c)).map_or(text.len(), |length| from + length)
}

#[cfg(test)]
mod tests {
    use crate::scrub::Scrubber;

    /// MV-51
    #[test]
    fn well_known_shapes_are_replaced() {
        let nothing = Scrubber::new([""; 0]);
        let cases = [
            (concat!("key sk-", "proj_abcdefghij-0123456789!"), "key [REDACTED]!"),
            ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[REDACTED]"),
            ("id=AKIAIOSFODNN7EXAMPLE ok", "id=[REDACTED] ok"),
            ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [REDACTED]"),
            ("https://x/?token=abc&b=1", "https://x/?token=[REDACTED]&b=1"),
            (r#"{"api_key": "abc", "n": 1}"#, r#"{"api_key": "[REDACTED]", "n": 1}"#),
            ("API-KEY=abc def", "API-KEY=[REDACTED] def"),
            ("apikey: abc", "apikey: [REDACTED]"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b",
                "a [REDACTED] b",
            ),
        ];

        for (text, clean) in cases {
            assert_eq!(nothing.scrub(text), clean);
        }
    }

    #[test]
    fn what_only_resembles_a_credential_stays() {
        let nothing = Scrubber::new([""; 0]);
        let harmless = [
            "the task-force-of-the-whole-company",
            "scikit is sk-learn",
            "the bearer of bad news",
            "use Bearer authentication",
            "profile default: missing api_key",
            "token=${vault:KEY}",
            "-----BEGIN CERTIFICATE-----",
        ];

        for text in harmless {
            assert_eq!(nothing.scrub(text), text);
        }
    }
}
