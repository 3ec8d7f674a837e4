//! Text forms of values that people write: the words of an enum, durations, sizes.
//!
//! Each is declared once, by [`words!`](crate::words) or [`text!`](crate::text!); serde, JSON Schema,
//! `Display` and `FromStr` then know the same texts.

use std::{fmt, str::FromStr, time::Duration};

/// Declares an enum whose variants are words.
///
/// The words are literals instead of a renaming rule, so that searching for one finds it. Doc comments
/// of variants reach the schema, and so do other words for one: `Lesson = "lesson" | "insight"`.
#[macro_export]
macro_rules! words {
    ($(#[$outer:meta])* $vis:vis enum $name:ident {
        $(
            $(#[$inner:meta])* $variant:ident = $word:literal $(| $($alias:literal)|+)?
        ),+ $(,)?
    }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$outer])*
        $vis enum $name {
            $(
                $(#[$inner])*
                #[serde(rename = $word $($(, alias = $alias)+)?)]
                $(#[schemars(extend("x-aliases" = [$($alias),+]))])?
                $variant
            ),+
        }

        #[allow(dead_code, reason = "not every enum is listed or written by hand")]
        impl $name {
            /// All of them, in the order of their declaration.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for it.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::text::Words for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word $($(| $alias)+)? => Ok(Self::$variant),)+
                    _ => Err($crate::text::UnknownWord {
                        words: <Self as $crate::text::Words>::WORDS,
                    }),
                }
            }
        }
    };
}

/// Gives serde and a schema to a type that has `FromStr`, `Display` and [`Text`](crate::text::Text); with `serde` in front,
/// serde alone to one that has the first two.
#[macro_export]
macro_rules! text {
    (serde $type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };

    ($type:ty) => {
        $crate::text!(serde $type);

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            // Attributes of a field, such as a range, then stand beside the format.
            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "format": <$type as $crate::text::Text>::FORMAT,
                    "pattern": <$type as $crate::text::Text>::PATTERN,
                    "examples": <$type as $crate::text::Text>::EXAMPLES,
                })
            }
        }
    };
}

/// An enum made by [`words!`](crate::words).
pub trait Words: Copy + fmt::Display + FromStr<Err = UnknownWord> + Send + Sync + 'static {
    /// The words, in the order of their declaration.
    const WORDS: &'static [&'static str];
}

/// A type whose form is text. Its error says what is expected, without the text that it found: that
/// may be a secret in the wrong place.
pub trait Text: FromStr<Err: fmt::Display> + fmt::Display {
    /// The `format` of its schema.
    const FORMAT: &'static str;
    /// A regular expression that every such text matches.
    const PATTERN: &'static str;
    /// Such texts.
    const EXAMPLES: &'static [&'static str];
}

/// A text that is not of its form. It says what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Expected(pub &'static str);

/// A word that is none of those that there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}", quoted(*words))]
pub struct UnknownWord {
    pub words: &'static [&'static str],
}

/// Characters that nobody sees, and that a model reads all the same: they make two names look the same, turn the text
/// around them, or hide words in it.
pub fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Names in backticks, for a message.
pub fn quoted<N: fmt::Display>(names: impl IntoIterator<Item = N>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// An error as a sentence.
pub fn sentence(error: &str) -> String {
    let mut letters = error.trim().trim_end_matches('.').chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => "Something went wrong.".to_owned(),
    }
}

/// Words of lower-case letters and digits with single hyphens between, in at most so many bytes.
pub fn is_slug(name: &str, longest: usize) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= longest
        && name.split('-').all(|word| !word.is_empty() && word.bytes().all(letter))
}

/// A duration that reads and writes as a whole number and a unit, such as `30s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

text!(Span);

impl Text for Span {
    const FORMAT: &'static str = "span";
    const PATTERN: &'static str = "^[0-9]+(ms|s|m|h|d)$";
    const EXAMPLES: &'static [&'static str] = &["30s", "2h"];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a duration such as 90s, 30m or 2h")]
pub struct NotASpan;

/// Units in milliseconds, the longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl FromStr for Span {
    type Err = NotASpan;

    fn from_str(text: &str) -> Result<Self, NotASpan> {
        let millis = counted(text, &UNITS).ok_or(NotASpan)?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

/// In the largest unit that holds it whole.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_units(self.0.as_millis(), &UNITS))
    }
}

/// A number of bytes that reads and writes as a whole number and a unit, such as `64KiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

text!(Size);

impl Text for Size {
    const FORMAT: &'static str = "size";
    const PATTERN: &'static str = "^[0-9]+(B|KiB|MiB|GiB)$";
    const EXAMPLES: &'static [&'static str] = &["64KiB", "1MiB"];
}

/// Units in bytes, the longest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl FromStr for Size {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        counted(text, &SIZES).map(Self).ok_or(Expected("a size such as 64KiB or 1MiB"))
    }
}

/// In the largest unit that holds it whole.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&in_units(self.0.into(), &SIZES))
    }
}

/// A whole number and a unit, in the smallest unit.
fn counted(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let (_, length) = units.iter().find(|(name, _)| *name == unit)?;
    count.parse::<u64>().ok()?.checked_mul(*length)
}

fn in_units(amount: u128, units: &[(&str, u64)]) -> String {
    let is_whole = |length: u64| amount > 0 && amount.is_multiple_of(length.into());
    let whole = units.iter().find(|(_, length)| is_whole(*length)).or(units.last());
    whole
        .map(|(unit, length)| format!("{}{unit}", amount / u128::from(*length)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    words! {
        /// How something stands.
        enum Standing {
            /// It goes.
            On = "on",
            /// It does not.
            Off = "switched_off" | "off",
        }
    }

    #[test]
    fn a_word_is_the_same_wherever_it_is_read_or_written() {
        let off = Standing::Off;

        assert_eq!(json!(off), json!("switched_off"));
        assert_eq!(serde_json::from_value::<Standing>(json!("switched_off")).unwrap(), off);
        assert_eq!("switched_off".parse(), Ok(off));
        assert_eq!((off.to_string().as_str(), off.as_str()), ("switched_off", "switched_off"));
        assert_eq!(Standing::WORDS, ["on", "switched_off"]);
        assert_eq!(Standing::ALL, [Standing::On, Standing::Off]);
        assert_eq!("off".parse(), Ok(off));
        assert_eq!(serde_json::from_value::<Standing>(json!("off")).unwrap(), off);
        let error = "of".parse::<Standing>().unwrap_err();
        assert_eq!(error.to_string(), "expected one of `on`, `switched_off`");
        let schema = schemars::schema_for!(Standing).to_value();
        assert_eq!(schema["oneOf"][1]["const"], "switched_off");
        assert_eq!(schema["oneOf"][1]["x-aliases"], json!(["off"]));
    }

    #[test]
    fn a_span_is_a_whole_number_and_a_unit() {
        let cases = [
            ("250ms", 250),
            ("10s", 10_000),
            ("90s", 90_000),
            ("30m", 1_800_000),
            ("6h", 21_600_000),
            ("2d", 172_800_000),
            ("0ms", 0),
        ];
        for (text, millis) in cases {
            let span = Span(Duration::from_millis(millis));
            assert_eq!(text.parse(), Ok(span));
            assert_eq!(span.to_string(), text);
            assert_eq!(json!(span), json!(text));
        }
        assert_eq!("0s".parse(), Ok(Span::default()));
        for text in ["", "5", "s", "1.5h", "-1s", "5 m", "5M", "5w", "99999999999999999d"] {
            assert_eq!(text.parse::<Span>(), Err(NotASpan), "{text}");
        }
        assert_eq!(schemars::schema_for!(Span).to_value()["format"], "span");
    }

    #[test]
    fn a_size_is_a_whole_number_and_a_unit() {
        for (text, bytes) in
            [("7B", 7), ("2KiB", 2048), ("3MiB", 3 << 20), ("1GiB", 1 << 30), ("0B", 0)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        for text in ["", "1", "1KB", "1MB", "1G", "1.5GiB", "-1B", "99999999999GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
