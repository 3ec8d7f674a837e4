//! Forms: what a value looks like when it was encoded on its way.

use std::borrow::Cow;

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
    /// As it is.
    Raw,
    /// Inside a JSON string.
    Json,
    /// Inside a JSON string of ASCII characters alone.
    JsonAscii,
    /// In a URL.
    Percent { upper: bool },
    /// In a form, where a space is a plus.
    Posted,
    /// Two digits for a byte.
    Hex { upper: bool },
    /// In base64, after `shift` bytes of something else.
    Base64 { url: bool, shift: usize },
}

/// How far a text agrees with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// It is the form, over so many bytes.
    Whole(usize),
    /// It ends before one can tell. So many bytes may be all of it.
    Open(Option<usize>),
    /// It is something else.
    None,
}

impl Form {
    pub(super) const ALL: [Self; 14] = [
        Self::Raw,
        Self::Json,
        Self::JsonAscii,
        Self::Percent { upper: true },
        Self::Percent { upper: false },
        Self::Posted,
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

    /// The form begins with these bytes.
    pub(super) fn head(self, value: &[u8], most: usize) -> Vec<u8> {
        self.encode(value).take(most).collect()
    }

    /// Two forms of a value are written alike.
    pub(super) fn equals(self, other: Self, value: &[u8]) -> bool {
        self.encode(value).eq(other.encode(value))
    }

    /// Compares a text with the value in this form.
    pub(super) fn agree(self, value: &[u8], text: &[u8]) -> Agreement {
        let mut length = 0;
        for byte in self.encode(value) {
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
            Self::Percent { upper } => Box::new(value.iter().flat_map(move |byte| {
                let digits = digits(*byte, upper);
                match is_plain(*byte) {
                    true => [Some(*byte), None, None],
                    false => [Some(b'%'), Some(digits[0]), Some(digits[1])],
                }
                .into_iter()
                .flatten()
            })),
            Self::Posted => Box::new(value.iter().flat_map(|byte| {
                let digits = digits(*byte, true);
                match byte {
                    b' ' => [Some(b'+'), None, None],
                    byte if is_plain(*byte) => [Some(*byte), None, None],
                    _ => [Some(b'%'), Some(digits[0]), Some(digits[1])],
                }
                .into_iter()
                .flatten()
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

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn digits(byte: u8, upper: bool) -> [u8; 2] {
    let alphabet = if upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
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
            wide if ascii && !wide.is_ascii() => wide
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect(),
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
    let Some(found) = text.get(length) else {
        return Agreement::Open(Some(length));
    };
    if Some(*found) != last {
        return Agreement::Whole(length);
    }
    let after = length + 1;
    let padding = 3 - bytes % 3;
    let padded = text[after..]
        .iter()
        .take(padding)
        .take_while(|byte| **byte == b'=')
        .count();
    let in_alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    match text.get(after + padded) {
        _ if padded == padding => Agreement::Whole(after + padding),
        None => Agreement::Open(Some(after)),
        Some(next) if padded == 0 && in_alphabet(next) => Agreement::Whole(length),
        Some(_) => Agreement::Whole(after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(form: Form, value: &[u8]) -> String {
        String::from_utf8_lossy(&form.head(value, usize::MAX)).into_owned()
    }

    /// MV-49
    #[test]
    fn a_value_is_known_in_every_form() {
        let value = "kéy/+ \"9\n".as_bytes();

        let forms = [
            Form::Raw,
            Form::Json,
            Form::JsonAscii,
            Form::Percent { upper: true },
            Form::Percent { upper: false },
            Form::Posted,
            Form::Hex { upper: true },
        ]
        .map(|form| written(form, value));

        let expected = [
            "kéy/+ \"9\n",
            "kéy/+ \\\"9\\n",
            "k\\u00e9y/+ \\\"9\\n",
            "k%C3%A9y%2F%2B%20%229%0A",
            "k%c3%a9y%2f%2b%20%229%0a",
            "k%C3%A9y%2F%2B+%229%0A",
            "6BC3A9792F2B2022390A",
        ];
        assert_eq!(forms, expected);
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
