//! Forms: what a value looks like when it was encoded on its way.

use std::{borrow::Cow, ops::Range};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

/// An encoded form shorter than this would match too much innocent text.
const SHORTEST_ENCODED: usize = 8;
/// Bytes that are encoded at a time; a multiple of three, so that base64 goes on without a seam.
const BLOCK: usize = 48;

/// One way to write a value down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Raw,
    /// Inside a JSON string.
    Json,
    /// Inside a JSON string of ASCII characters alone.
    JsonAscii,
    /// In a URL or a form. Which characters stay as they are differs from encoder to encoder, so each
    /// but letters and digits may be written both ways; a space may be a plus.
    Percent,
    /// Two digits for a byte.
    Hex {
        upper: bool,
    },
    /// In base64, after `shift` bytes of something else.
    Base64 {
        url: bool,
        shift: usize,
    },
}

/// How far a text agrees with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// It is the form, over so many bytes.
    Whole(usize),
    /// It ends before one can tell. So many bytes may be all of it.
    Open(Option<usize>),
    None,
}

impl Form {
    pub(super) const ALL: [Self; 12] = [
        Self::Raw,
        Self::Json,
        Self::JsonAscii,
        Self::Percent,
        Self::Hex { upper: false },
        Self::Hex { upper: true },
        Self::base64(false, 0),
        Self::base64(false, 1),
        Self::base64(false, 2),
        Self::base64(true, 0),
        Self::base64(true, 1),
        Self::base64(true, 2),
    ];

    const fn base64(url: bool, shift: usize) -> Self {
        Self::Base64 { url, shift }
    }

    /// How long the value is in this form; none if the form would match too much.
    pub(super) fn length(self, value: &[u8]) -> Option<usize> {
        let length = self.encode(value).count();
        (length > 0 && (self == Self::Raw || length >= SHORTEST_ENCODED)).then_some(length)
    }

    /// The bytes that the form may begin with.
    pub(super) fn heads(self, value: &[u8], most: usize) -> Vec<Vec<u8>> {
        match self {
            Self::Percent => percent_heads(value, most),
            _ => vec![self.encode(value).take(most).collect()],
        }
    }

    /// Two forms of a value are written alike.
    pub(super) fn equals(self, other: Self, value: &[u8]) -> bool {
        self.encode(value).eq(other.encode(value))
    }

    /// The form is often cut into lines.
    fn is_wrapped(self) -> bool {
        matches!(self, Self::Hex { .. } | Self::Base64 { .. })
    }

    /// Compares a text with the value in this form.
    pub(super) fn agree(self, value: &[u8], text: &[u8]) -> Agreement {
        if self == Self::Percent {
            return agree_percent(value, text);
        }
        let mut length = 0;
        for byte in self.encode(value) {
            if text.get(length) != Some(&byte) && self.is_wrapped() && length > 0 {
                match past_break(text, length) {
                    Some(next) => length = next,
                    None => return Agreement::Open(None),
                }
            }
            match text.get(length) {
                None => return Agreement::Open(None),
                Some(found) if *found == byte => length += 1,
                Some(_) => return Agreement::None,
            }
        }
        match self {
            Self::Base64 { url, shift } => ending(value, url, shift, text, length),
            _ => Agreement::Whole(length),
        }
    }

    /// The bytes of the form, made as they are asked for: a long value has many long forms. Of
    /// base64 only the characters that depend on nothing but the value, wherever it starts.
    fn encode(self, value: &[u8]) -> Box<dyn Iterator<Item = u8> + '_> {
        match self {
            Self::Raw => match text(value) {
                Cow::Borrowed(text) => Box::new(text.bytes()),
                Cow::Owned(text) => Box::new(text.into_bytes().into_iter()),
            },
            Self::Json => Box::new(json(value, false)),
            Self::JsonAscii => Box::new(json(value, true)),
            // The longest way to write it.
            Self::Percent => Box::new(value.iter().flat_map(|byte| {
                percent(*byte, false).into_iter().next_back().unwrap_or_default()
            })),
            Self::Hex { upper } => {
                Box::new(value.iter().flat_map(move |byte| digits(*byte, upper)))
            }
            Self::Base64 { url, shift } => {
                let skip = [0, 2, 3][shift];
                let sure = (value.len() + shift) * 8 / 6;
                Box::new(base64(value, url, shift).take(sure).skip(skip))
            }
        }
    }
}

/// Bytes that are no text are looked for as a reader would show them.
fn text(value: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(value)
}

/// The bytes of the value can stand in a text as they are. Of one that is no text, those beyond ASCII cannot: where a
/// text seems to hold them, they are parts of its own characters.
fn stands_in_text(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok()
}

/// The ways in which encoders of URLs and forms write a byte, the longest last. All of them encode
/// the percent sign, and a byte beyond ASCII that is not `of_text`.
fn percent(byte: u8, of_text: bool) -> Vec<Vec<u8>> {
    let encoded = [true, false].map(|upper| {
        let [high, low] = digits(byte, upper);
        vec![b'%', high, low]
    });
    match byte {
        byte if byte.is_ascii_alphanumeric() => vec![vec![byte]],
        b'%' => vec![encoded[0].clone()],
        b' ' => vec![vec![b' '], vec![b'+'], encoded[0].clone()],
        byte => {
            let plain = (byte.is_ascii() || of_text).then(|| vec![byte]);
            let mut ways: Vec<_> = plain.into_iter().collect();
            ways.extend(encoded);
            ways.dedup();
            ways
        }
    }
}

fn percent_heads(value: &[u8], most: usize) -> Vec<Vec<u8>> {
    let of_text = stands_in_text(value);
    let mut heads = vec![Vec::new()];
    // A byte is at least one byte.
    for byte in value.iter().take(most) {
        let ways = percent(*byte, of_text);
        let longer = heads.into_iter().flat_map(|head: Vec<u8>| {
            let room = most - head.len();
            let longer = ways.iter().map(move |way| {
                let way = way.iter().take(room);
                head.iter().chain(way).copied().collect()
            });
            longer.collect::<Vec<Vec<u8>>>()
        });
        heads = longer.collect();
        heads.sort_unstable();
        heads.dedup();
    }
    heads
}

fn agree_percent(value: &[u8], text: &[u8]) -> Agreement {
    let of_text = stands_in_text(value);
    let mut length = 0;
    for byte in value {
        length += match text.get(length) {
            None => return Agreement::Open(None),
            Some(b'%') if !byte.is_ascii_alphanumeric() => {
                let found = text[length + 1..].iter().take(2);
                let is_open = found.len() < 2;
                let expected = digits(*byte, true);
                if !found.zip(expected).all(|(found, digit)| found.to_ascii_uppercase() == digit) {
                    return Agreement::None;
                }
                if is_open {
                    return Agreement::Open(None);
                }
                3
            }
            Some(found) if found == byte && (byte.is_ascii() || of_text) => 1,
            Some(b'+') if *byte == b' ' => 1,
            Some(_) => return Agreement::None,
        };
    }
    Agreement::Whole(length)
}

/// How lines end, also inside a JSON string.
const BREAKS: [&[u8]; 4] = [b"\n", b"\r\n", b"\\n", b"\\r\\n"];

/// Where a text goes on behind the end of a line, if one ends here. None: the text ends within that.
pub(super) fn past_break(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    if let Some(found) = BREAKS.iter().find(|line_end| rest.starts_with(line_end)) {
        return Some(at + found.len());
    }
    let is_begun = !rest.is_empty() && BREAKS.iter().any(|line_end| line_end.starts_with(rest));
    (!is_begun).then_some(at)
}

/// Where lines end inside of what may be base64 or hex: from where to where.
pub(super) fn breaks(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let bytes = text.as_bytes();
    // One character is looked for much faster than two.
    let plain = text.match_indices('\n').map(|(at, _)| (at..at + 1, BREAKS[1]));
    let escaped = text.match_indices('\\').filter(move |(at, _)| bytes.get(at + 1) == Some(&b'n'));
    let escaped = escaped.map(|(at, _)| (at..at + 2, BREAKS[3]));
    let ends = plain.chain(escaped).map(move |(feed, returned)| {
        let start = feed.end.saturating_sub(returned.len());
        if bytes[start..feed.end] == *returned { start..feed.end } else { feed }
    });
    ends.filter(move |at| {
        let before = at.start.checked_sub(1).and_then(|before| bytes.get(before));
        before.is_some_and(is_encoded) && bytes.get(at.end).is_some_and(is_encoded)
    })
}

/// Belongs to the alphabets of base64 and hex.
pub(super) fn is_encoded(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(byte)
}

fn digits(byte: u8, upper: bool) -> [u8; 2] {
    let alphabet = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [byte >> 4, byte & 0x0f].map(|half| alphabet[usize::from(half)])
}

fn json(value: &[u8], ascii: bool) -> impl Iterator<Item = u8> + '_ {
    let characters: Vec<char> = text(value).chars().collect();
    characters.into_iter().flat_map(move |character| {
        let escaped = match character {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            control if control < ' ' => format!("\\u{:04x}", u32::from(control)),
            wide if ascii && !wide.is_ascii() => {
                wide.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
            other => other.to_string(),
        };
        escaped.into_bytes()
    })
}

/// Base64 of `shift` zero bytes and the value, with padding.
fn base64(value: &[u8], url: bool, shift: usize) -> impl Iterator<Item = u8> + '_ {
    let engine = if url { &URL_SAFE } else { &STANDARD };
    let first = value.len().min(BLOCK - shift);
    let mut head = vec![0; shift];
    head.extend_from_slice(&value[..first]);
    let head = engine.encode(head).into_bytes();
    let rest = value[first..].chunks(BLOCK);
    let rest = rest.flat_map(move |chunk| engine.encode(chunk).into_bytes());
    head.into_iter().chain(rest)
}

/// After the sure characters comes one that also holds bits of what follows. If nothing follows,
/// it belongs to the value, and so does the padding.
fn ending(value: &[u8], url: bool, shift: usize, text: &[u8], length: usize) -> Agreement {
    let bytes = value.len() + shift;
    if bytes.is_multiple_of(3) {
        return Agreement::Whole(length);
    }
    let last = base64(value, url, shift).nth(bytes * 8 / 6);
    let Some(found) = text.get(length) else { return Agreement::Open(Some(length)) };
    if Some(*found) != last {
        return Agreement::Whole(length);
    }
    let after = length + 1;
    let padding = 3 - bytes % 3;
    let padded = text[after..].iter().take(padding).take_while(|byte| **byte == b'=').count();
    match text.get(after + padded) {
        _ if padded == padding => Agreement::Whole(after + padding),
        None => Agreement::Open(Some(after)),
        Some(next) if padded == 0 && is_encoded(next) => Agreement::Whole(length),
        Some(_) => Agreement::Whole(after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(form: Form, value: &[u8]) -> String {
        let heads = form.heads(value, usize::MAX);
        String::from_utf8_lossy(&heads[0]).into_owned()
    }

    /// MV-49
    #[test]
    fn a_value_is_known_in_every_form() {
        let value = "kéy/+ \"9\n".as_bytes();

        let forms = [Form::Raw, Form::Json, Form::JsonAscii, Form::Hex { upper: true }]
            .map(|form| written(form, value));

        let expected =
            ["kéy/+ \"9\n", "kéy/+ \\\"9\\n", "k\\u00e9y/+ \\\"9\\n", "6BC3A9792F2B2022390A"];
        assert_eq!(forms, expected);
    }

    /// MV-49: whichever characters an encoder leaves, and however it writes digits.
    #[test]
    fn a_value_is_known_in_every_percent_encoding() {
        let value = b"Pa$$ %/!(w)~.x";
        let encodings = [
            "Pa%24%24%20%25%2F%21%28w%29%7E.x",
            "Pa%24%24%20%25%2f%21%28w%29~.x",
            "Pa%24%24%20%25%2F!(w)~.x",
            "Pa$$%20%25%2F!(w)~.x",
            "Pa$$%20%25/!(w)~.x",
            "Pa%24%24+%25%2F%21%28w%29%7E%2ex",
        ];

        for text in encodings {
            let bytes = text.as_bytes();
            let agreement = Form::Percent.agree(value, bytes);
            assert_eq!(agreement, Agreement::Whole(text.len()), "{text}");
            let heads = Form::Percent.heads(value, 8);
            assert!(heads.iter().any(|head| bytes.starts_with(head)), "{text}");
            for end in 0..text.len() {
                let begun = Form::Percent.agree(value, &bytes[..end]);
                assert_eq!(begun, Agreement::Open(None), "{}", &text[..end]);
            }
        }
        for text in ["Pa%23", "Pa%2", "Pa%2G", "Pa%%24", "P%61$"] {
            let begun = Form::Percent.agree(value, text.as_bytes());
            let expected = match text {
                "Pa%2" => Agreement::Open(None),
                _ => Agreement::None,
            };
            assert_eq!(begun, expected, "{text}");
        }
        assert!(Form::Percent.heads(&[b'!'; 100], 8).len() <= 128);
    }

    /// MV-49
    #[test]
    fn a_value_is_known_over_the_ends_of_lines() {
        let form = Form::base64(false, 0);
        let value = b"secret-value";
        assert_eq!(STANDARD.encode(value), "c2VjcmV0LXZhbHVl");

        for line_end in ["\n", "\r\n", "\\n", "\\r\\n"] {
            let text = format!("c2Vj{line_end}cmV0LXZhbHVl");
            let agree = |end: usize| form.agree(value, &text.as_bytes()[..end]);
            assert_eq!(agree(text.len()), Agreement::Whole(text.len()), "{text}");
            for end in 0..text.len() {
                assert_eq!(agree(end), Agreement::Open(None), "{}", &text[..end]);
            }
        }
        assert_eq!(form.agree(value, b"c2Vj\n\ncmV0"), Agreement::None);
        assert_eq!(Form::Raw.agree(value, b"secret\n-value"), Agreement::None);
    }

    #[test]
    fn the_end_of_base64_belongs_to_the_value_if_nothing_follows_it() {
        let form = Form::base64(false, 1);
        let agree = |text: &str| form.agree(b"secrets", &text.as_bytes()[2..]);
        let whole = STANDARD.encode(":secrets");
        let longer = STANDARD.encode(":secrets more");

        assert_eq!(whole, "OnNlY3JldHM=");
        assert_eq!(agree(&whole), Agreement::Whole(10));
        assert_eq!(agree("OnNlY3JldHM "), Agreement::Whole(9));
        assert_eq!(agree("OnNlY3JldHM"), Agreement::Open(Some(9)));
        assert_eq!(agree("OnNlY3JldH"), Agreement::Open(Some(8)));
        assert_eq!(agree("OnNlY3"), Agreement::Open(None));
        assert_eq!(agree(&longer), Agreement::Whole(8));
        assert_eq!(agree("OnNlY4"), Agreement::None);
    }

    proptest! {
        /// MV-49: base64 at all alignments, whatever stands around the value.
        #[test]
        fn a_value_is_found_in_base64_of_something_longer(
            value in prop::collection::vec(any::<u8>(), 8..200),
            before in prop::collection::vec(any::<u8>(), 0..7),
            after in prop::collection::vec(any::<u8>(), 0..7),
            url in any::<bool>(),
        ) {
            let engine = if url { &URL_SAFE } else { &STANDARD };
            let text = engine.encode([before.clone(), value.clone(), after].concat());
            let form = Form::base64(url, before.len() % 3);
            let start = (before.len() * 8).div_ceil(6);

            let agreement = form.agree(&value, &text.as_bytes()[start..]);

            let length = form.length(&value).unwrap_or_default();
            let found = match agreement {
                Agreement::Whole(found) | Agreement::Open(Some(found)) => found,
                _ => 0,
            };
            prop_assert!(found >= length, "{:?} of {} at {}", agreement, text, start);
        }
    }
}
