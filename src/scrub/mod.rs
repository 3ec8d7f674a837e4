//! Takes secrets out of text before it leaves.

use std::{borrow::Cow, ops::Range, sync::Arc};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD},
};

mod shapes;

/// Stands where a secret was.
pub const REDACTED: &str = "[REDACTED]";

/// An encoded form shorter than this would match too much innocent text.
const SHORTEST_ENCODED: usize = 8;

/// A stream never holds back more than this for the sake of a shape that does not end.
const LONGEST_HELD: usize = 16 * 1024;

/// Replaces known values in all their encodings, and what looks like a credential.
#[derive(Clone, Debug)]
pub struct Scrubber {
    /// None without known values.
    values: Option<AhoCorasick>,
    forms: Arc<[String]>,
    longest: usize,
}

impl Scrubber {
    /// A scrubber of these values.
    pub fn new<V: AsRef<str>>(values: impl IntoIterator<Item = V>) -> Self {
        let mut forms: Vec<String> = values
            .into_iter()
            .flat_map(|value| forms(value.as_ref()))
            .collect();
        forms.sort();
        forms.dedup();
        let values = (!forms.is_empty())
            .then(|| {
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(&forms)
                    .inspect_err(|error| tracing::error!(%error, "secrets cannot be looked for"))
                    .ok()
            })
            .flatten();
        Self {
            longest: forms.iter().map(String::len).max().unwrap_or(0),
            values,
            forms: forms.into(),
        }
    }

    /// The text without secrets.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.scrub_after(None, text)
    }

    /// The text without known values; what only looks like a credential stays.
    pub fn scrub_known<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replace(text, &self.known(text).collect::<Vec<_>>())
    }

    /// The text has a known value in it.
    pub fn knows(&self, text: &str) -> bool {
        self.known(text).next().is_some()
    }

    /// A scrubber for text that arrives in pieces.
    pub fn stream(&self) -> StreamScrubber {
        StreamScrubber {
            scrubber: self.clone(),
            held: String::new(),
            before: None,
        }
    }

    fn scrub_after<'t>(&self, before: Option<char>, text: &'t str) -> Cow<'t, str> {
        let shapes = shapes::find(before, text).into_iter();
        let mut secrets: Vec<Range<usize>> = self
            .known(text)
            .chain(shapes.map(|shape| shape.secret))
            .collect();
        secrets.sort_by_key(|secret| secret.start);
        replace(text, &secrets)
    }

    fn known(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        self.values
            .iter()
            .flat_map(move |values| values.find_iter(text).map(|found| found.range()))
    }

    /// Where `text` can be cut so that no secret lies across the cut, whatever comes after it.
    fn safe_cut(&self, before: Option<char>, text: &str) -> usize {
        let mut cut = self.possible_value(text).min(shapes::open(before, text));
        let shapes = shapes::find(before, text).into_iter();
        let mut spans: Vec<_> = self
            .known(text)
            .chain(shapes.map(|shape| shape.whole))
            .collect();
        spans.sort_by_key(|span| std::cmp::Reverse(span.end));
        for span in spans {
            if span.start < cut && cut < span.end {
                cut = span.start;
            }
        }
        cut
    }

    /// The first place from which on the text is the beginning of a value, or its end.
    fn possible_value(&self, text: &str) -> usize {
        let from = text.len().saturating_sub(self.longest.saturating_sub(1));
        (from..text.len())
            .filter(|at| text.is_char_boundary(*at))
            .find(|at| self.forms.iter().any(|form| form.starts_with(&text[*at..])))
            .unwrap_or(text.len())
    }
}

/// Scrubs text that arrives in pieces. What might be the beginning of a secret is held back until
/// more is known.
#[derive(Clone, Debug)]
pub struct StreamScrubber {
    scrubber: Scrubber,
    held: String,
    before: Option<char>,
}

impl StreamScrubber {
    /// Takes the next piece and gives what can be let out.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let cut = match self.scrubber.safe_cut(self.before, &self.held) {
            cut if self.held.len() - cut > LONGEST_HELD => self.held.len(),
            cut => cut,
        };
        self.release(cut)
    }

    /// Gives what is left at the end of the text, and is ready for another.
    pub fn finish(&mut self) -> String {
        let rest = self.release(self.held.len());
        self.before = None;
        rest
    }

    fn release(&mut self, cut: usize) -> String {
        let rest = self.held.split_off(cut);
        let out = std::mem::replace(&mut self.held, rest);
        let clean = self.scrubber.scrub_after(self.before, &out).into_owned();
        self.before = out.chars().next_back().or(self.before);
        clean
    }
}

/// Puts the mark in place of the secrets, which are in order but may overlap.
fn replace<'t>(text: &'t str, secrets: &[Range<usize>]) -> Cow<'t, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for secret in secrets {
        if secret.start >= end {
            clean.push_str(&text[end..secret.start]);
            clean.push_str(REDACTED);
        }
        end = end.max(secret.end);
    }
    clean.push_str(&text[end..]);
    Cow::Owned(clean)
}

/// A value as it may be found in text.
fn forms(value: &str) -> Vec<String> {
    if value.is_empty() {
        return Vec::new();
    }
    let bytes = value.as_bytes();
    let percent = |upper: bool| {
        bytes
            .iter()
            .map(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    char::from(*byte).to_string()
                }
                _ if upper => format!("%{byte:02X}"),
                _ => format!("%{byte:02x}"),
            })
            .collect::<String>()
    };
    let hex = bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    let json = serde_json::Value::from(value).to_string();
    let mut encoded = vec![
        percent(true),
        percent(false),
        json.trim_matches('"').to_owned(),
        hex.to_uppercase(),
        hex,
        STANDARD.encode(bytes),
        URL_SAFE.encode(bytes),
    ];
    for shift in 0..3 {
        // Only the characters that depend on nothing but the value, wherever it starts.
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(bytes);
        let skip = [0, 2, 3][shift];
        let whole = !shifted.len().is_multiple_of(3);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let text = engine.encode(&shifted);
            let end = text.len() - usize::from(whole);
            encoded.extend(text.get(skip..end).map(str::to_owned));
        }
    }
    encoded.retain(|form| form.len() >= SHORTEST_ENCODED);
    encoded.push(value.to_owned());
    encoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const KEY: &str = "kéy/with+odd chars\"9";

    #[test]
    fn a_known_value_is_replaced_in_every_form() {
        let scrubber = Scrubber::new([KEY]);
        let shifted = STANDARD.encode(format!("x{KEY}yz"));
        let forms = [
            KEY.to_owned(),
            STANDARD.encode(KEY),
            URL_SAFE_NO_PAD.encode(KEY),
            "k%C3%A9y%2Fwith%2Bodd%20chars%229".to_owned(),
            "k%c3%a9y%2fwith%2bodd%20chars%229".to_owned(),
            r#"kéy/with+odd chars\"9"#.to_owned(),
            "6bc3a9792f776974682b6f64642063686172732239".to_owned(),
        ];

        for form in forms {
            let text = format!("a {form} b");
            assert_eq!(scrubber.scrub(&text), "a [REDACTED] b", "{form}");
        }
        assert!(scrubber.scrub(&shifted).contains(REDACTED), "{shifted}");
    }

    #[test]
    fn text_without_secrets_is_not_copied() {
        let text = "nothing to see in this task-force";

        assert!(matches!(
            Scrubber::new([KEY]).scrub(text),
            Cow::Borrowed(same) if same == text
        ));
    }

    #[test]
    fn a_stream_lets_harmless_text_through_at_once() {
        let mut stream = Scrubber::new(["abcdefgh"]).stream();

        assert_eq!(stream.push("hello "), "hello ");
        assert_eq!(stream.push("abc"), "");
        assert_eq!(stream.push("x"), "abcx");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_stream_does_not_hold_back_for_ever() {
        let mut stream = Scrubber::new([""; 0]).stream();

        let out = stream.push(&format!("token={}", "a".repeat(LONGEST_HELD + 1)));

        assert_eq!(out, "token=[REDACTED]");
    }

    proptest! {
        /// MV-50: a value that is split between pieces is caught like a whole one.
        #[test]
        fn however_it_is_split_a_stream_gives_the_scrubbed_text(
            words in prop::collection::vec(prop::sample::select(vec![
                "hello ", "kéy", "secret-value", "secret-", "value", "c2VjcmV0LXZhbHVl", "c2VjcmV0", " ",
                "token=", "abc123", "\n", "Bearer ", "sk-abcdefghijklmnop", "ta", "sk-", "api_key", ": ", "\"",
                "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "AKIAABCDEFGHIJKLMNOP", "ö",
            ]), 0..12),
            sizes in prop::collection::vec(1_usize..9, 1..20),
        ) {
            let text = words.concat();
            let scrubber = Scrubber::new(["secret-value", "value-2"]);
            let mut stream = scrubber.stream();
            let mut out = String::new();
            let chars: Vec<char> = text.chars().collect();
            let (mut at, mut turn) = (0, 0);
            while at < chars.len() {
                let end = (at + sizes[turn % sizes.len()]).min(chars.len());
                out.push_str(&stream.push(&chars[at..end].iter().collect::<String>()));
                (at, turn) = (end, turn + 1);
            }
            out.push_str(&stream.finish());

            prop_assert!(!out.contains("secret-value"));
            prop_assert_eq!(out, scrubber.scrub(&text).into_owned());
        }
    }
}
