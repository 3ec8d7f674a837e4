//! Texts for people: names that were probably meant, endings of turns, causes, sizes in round numbers.

use std::error::Error;

use hivewright_actors::{
    excerpt,
    text::{quoted, sentence},
};
use serde_json::Value;

/// Names at this distance are taken for slips.
const SLIP: usize = 2;

/// The known name that a misspelt one was probably meant to be.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|known| (strsim::levenshtein(known, name), known))
        .filter(|(distance, known)| *distance <= SLIP && !known.is_empty())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Says that there is no such thing, and which was probably meant, or else which there are.
pub(crate) fn no_such(what: &str, name: &str, known: &[&str]) -> String {
    /// So many are named.
    const MOST: usize = 10;
    let hint = match did_you_mean(name, known.iter().copied()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None if known.is_empty() => String::new(),
        None if known.len() > MOST => {
            format!("; there are {} and {} more", quoted(&known[..MOST]), known.len() - MOST)
        }
        None => format!("; there are {}", quoted(known)),
    };
    format!("there is no {what} `{name}`{hint}")
}

/// The complaint about a field that nobody knows.
pub(crate) fn unknown_field(name: &str, known: &[&str]) -> String {
    match did_you_mean(name, known.iter().copied()) {
        Some(near) => format!("unknown field (did you mean `{near}`?)"),
        None if known.is_empty() => "unknown field; there are none here".to_owned(),
        None => format!("unknown field; there are {}", quoted(known)),
    }
}

/// A value of JSON as people write it: a text without its quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a person reads at the end of a turn, of which this much is still to be said; none if nothing.
pub(crate) fn ending(rest: &str, status: &str) -> Option<String> {
    match (rest.trim(), status) {
        ("", "cancelled") => Some("Stopped.".to_owned()),
        ("", _) => None,
        (rest, _) => Some(rest.to_owned()),
    }
}

/// What a person reads of a failure, behind what is still to be said.
pub(crate) fn failure(rest: &str, error: &str) -> String {
    match rest.trim() {
        "" => sentence(error),
        rest => format!("{rest}\n\n{}", sentence(error)),
    }
}

/// A text of somebody else's choice within so many characters, without what could end the line or the brackets around it.
pub(crate) fn in_brackets(text: &str, longest: usize) -> String {
    let ends = |letter: char| matches!(letter, '[' | ']') || letter.is_control();
    excerpt::line(&text.replace(ends, "_"), longest)
}

/// The first cause of an error.
pub(crate) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root
}

/// A size for people, in the largest unit that fits.
pub(crate) fn rough_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut shown = format!("{bytes} bytes");
    let mut value = bytes as f64;
    for unit in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        shown = format!("{value:.1} {unit}");
    }
    shown
}
/// A number of things, such as `1 error` or `2 errors`.
pub(crate) fn counted(many: usize, what: &str) -> String {
    let end = if many == 1 { "" } else { "s" };
    format!("{many} {what}{end}")
}
