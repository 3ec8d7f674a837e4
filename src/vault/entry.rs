//! Entries: what is known of a value beside the value.

use hivewright_actors::{clock::Timestamp, wildcard::fits_host};
use serde::{Deserialize, Serialize};

use super::{
    limit::{
        LARGEST_VALUE, LONGEST_KEY, LONGEST_NOTE, LONGEST_PATTERN, Limit, MOST_PATTERNS,
        SHORTEST_SECRET,
    },
    scope::Scope,
    seal::{Plain, Sealed},
};

/// What is known of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(skip)]
    pub key: String,
    /// Models see a reference to it, never the value.
    pub secret: bool,
    /// Tools in whose arguments a reference may be expanded. `bash` only if it is named.
    pub tools: Vec<String>,
    /// Hosts that it may be sent to.
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Rises with each value.
    pub version: u64,
    pub updated_by: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When a reference to it was last expanded.
    #[serde(skip)]
    pub last_used_at: Option<Timestamp>,
}

impl Entry {
    /// One that is not set yet: no secret, for all tools and no host.
    fn new(key: &str, now: Timestamp) -> Self {
        let (key, tools) = (key.to_owned(), vec!["*".to_owned()]);
        Self { key, tools, created_at: now, updated_at: now, ..Self::default() }
    }

    /// Whether it may be sent to a host. What models may see may be sent anywhere.
    pub fn may_go_to(&self, host: &str) -> bool {
        let named = |pattern: &String| fits_host(&pattern.to_ascii_lowercase(), host);
        !self.secret || self.hosts.iter().any(named)
    }

    /// Nothing is known of it but that it was there.
    pub(super) fn damaged(key: &str) -> Self {
        Self { secret: true, tools: Vec::new(), ..Self::new(key, Timestamp(0)) }
    }
}

/// An entry as it is stored. Scope and key are in the record's own key: a record that was moved
/// does not open.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) entry: Entry,
    pub(super) sealed: Sealed,
}

/// A wish to set an entry. What is not given stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The value. Only an entry that exists can do without.
    pub value: Option<Plain>,
    pub secret: Option<bool>,
    /// Tools in whose arguments a reference may be expanded.
    pub tools: Option<Vec<String>>,
    pub hosts: Option<Vec<String>>,
    pub note: Option<String>,
    /// It takes the place of none.
    pub create: bool,
}

impl Put {
    /// A value that models may see.
    pub fn public(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(Plain::new(value)), secret: Some(false), ..Self::default() }
    }

    /// A value that models may not see.
    pub fn secret(value: impl Into<Vec<u8>>) -> Self {
        Self { secret: Some(true), ..Self::public(value) }
    }
}

pub fn most_entries(scope: &Scope) -> usize {
    match scope {
        Scope::System => 1_000,
        Scope::Team(_) => 500,
        Scope::Escrow(_) => 200,
    }
}

pub fn is_key(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(allowed)
}

/// Checks what can be checked without knowing what is there.
pub(super) fn check(key: &str, put: &Put) -> Result<(), Limit> {
    if !is_key(key) {
        return Err(Limit::Key(key.chars().count()));
    }
    match put.value.as_ref().map(|value| value.bytes().len()) {
        Some(0) => return Err(Limit::Empty),
        Some(length) if length > LARGEST_VALUE => return Err(Limit::TooLarge(length)),
        _ => {}
    }
    if let Some(note) = &put.note {
        let length = note.chars().count();
        if length > LONGEST_NOTE {
            return Err(Limit::Note(length));
        }
    }
    for (name, list) in [("`tools`", &put.tools), ("`hosts`", &put.hosts)] {
        let list = list.as_deref().unwrap_or_default();
        let good = |pattern: &String| {
            (1..=LONGEST_PATTERN).contains(&pattern.len())
                && pattern.bytes().all(|byte| byte.is_ascii_graphic())
                && (name == "`tools`" || is_host(pattern))
        };
        if list.len() > MOST_PATTERNS || !list.iter().all(good) {
            return Err(Limit::Patterns(name));
        }
    }
    Ok(())
}

/// A host, or `*.` and what it ends with.
fn is_host(pattern: &str) -> bool {
    let name = pattern.strip_prefix("*.").unwrap_or(pattern);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    !name.is_empty() && name.bytes().all(allowed)
}

/// The entry after a wish. Its value, if it stays, is so long.
pub(super) fn merge(
    key: &str,
    put: &Put,
    before: Option<&Entry>,
    length: usize,
    by: &str,
    now: Timestamp,
) -> Result<Entry, Limit> {
    let mut entry = before.cloned().unwrap_or_else(|| Entry::new(key, now));
    entry.secret = put.secret.unwrap_or(entry.secret);
    entry.tools = put.tools.clone().unwrap_or(entry.tools);
    entry.hosts = put.hosts.clone().unwrap_or(entry.hosts);
    entry.note = put.note.clone().unwrap_or(entry.note);
    entry.version += u64::from(put.value.is_some());
    entry.updated_by = by.to_owned();
    entry.updated_at = now;
    let length = put.value.as_ref().map_or(length, |value| value.bytes().len());
    if entry.secret && length < SHORTEST_SECRET {
        return Err(Limit::TooShort(length));
    }
    Ok(entry)
}

/// The keys that are written most like one that is not there.
pub(super) fn near<'a>(key: &str, keys: impl Iterator<Item = &'a String>) -> Vec<String> {
    let wanted = key.to_lowercase();
    let mut near: Vec<(usize, &String)> = keys
        .map(|other| (strsim::levenshtein(&other.to_lowercase(), &wanted), other))
        .filter(|(distance, other)| *distance <= (other.len() / 3).max(2))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, key)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(wishes: &[(&str, Put)]) -> Vec<Option<&'static str>> {
        let checked = wishes.iter().map(|(key, put)| check(key, put));
        checked.map(|limit| limit.err().map(|limit| limit.code())).collect()
    }

    /// MV-35, MV-80
    #[test]
    fn keys_values_and_notes_have_limits() {
        let long = "k".repeat(LONGEST_KEY + 1);
        let noted = |length| Put { note: Some("ü".repeat(length)), ..Put::default() };
        let hosts = |hosts: &[&str]| Put {
            hosts: Some(hosts.iter().map(|host| (*host).to_owned()).collect()),
            ..Put::default()
        };

        let found = codes(&[
            ("A.b:c_d-9", Put::secret("x")),
            ("", Put::default()),
            ("a b", Put::default()),
            ("a/b", Put::default()),
            ("kéy", Put::default()),
            (&long, Put::default()),
            ("k", Put::public("")),
            ("k", Put::public(vec![7; LARGEST_VALUE])),
            ("k", Put::public(vec![7; LARGEST_VALUE + 1])),
            ("k", noted(LONGEST_NOTE)),
            ("k", noted(LONGEST_NOTE + 1)),
            ("k", hosts(&["*.example.org"])),
            ("k", hosts(&["a b"])),
            ("k", hosts(&["https://example.org/"])),
            ("k", hosts(&["*"])),
        ]);

        let key = Some("invalid_key");
        let input = Some("invalid_input");
        let expected = [
            None,
            key,
            key,
            key,
            key,
            key,
            Some("too_short"),
            None,
            Some("too_large"),
            None,
            input,
            None,
            input,
            input,
            input,
        ];
        assert_eq!(found, expected);
    }

    /// MV-35
    #[test]
    fn a_short_value_cannot_be_a_secret() {
        let merged = |put: &Put, length| merge("k", put, None, length, "by", Timestamp(1));

        assert_eq!(merged(&Put::secret("7 bytes"), 0), Err(Limit::TooShort(7)));
        assert!(merged(&Put::secret("8 bytes."), 0).is_ok());
        assert!(merged(&Put::public("7"), 0).is_ok());
        let raised = Put { secret: Some(true), ..Put::default() };
        assert_eq!(merged(&raised, 3), Err(Limit::TooShort(3)));
    }

    /// MV-80
    #[test]
    fn near_keys_are_few_and_alike() {
        let keys = ["GITHUB_TOKEN", "github_token2", "OTHER", "GITHUB_TOKENS"].map(str::to_owned);

        let found = near("GITHUB_TOKEM", keys.iter());

        assert_eq!(found, ["GITHUB_TOKEN", "GITHUB_TOKENS", "github_token2"]);
        assert_eq!(near("x", keys.iter()), Vec::<String>::new());
    }
}
