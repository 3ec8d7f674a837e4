//! What teams keep in their vaults.

use super::{names, settings::SHORTEST_SECRET};
use crate::settings::secret::Secret;

/// The most that one entry holds.
const MOST_BYTES: usize = 64 * 1024;

/// An entry to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Secret,
    pub(super) secret: bool,
    pub(super) changes: Vec<String>,
}

/// A journal of the learning and reflection cycles, which is no secret and no setting.
pub(super) fn is_journal(key: &str) -> bool {
    key.starts_with("learning:") || key.starts_with("reflection:")
}

/// An entry, or why the vault does not take it.
pub(super) fn convert(former: &str, value: &Secret, secret: bool) -> Result<Entry, String> {
    let length = value.expose().len();
    if length == 0 {
        return Err("it is empty".into());
    }
    if length > MOST_BYTES {
        return Err(format!("it has {length} bytes, and the vault takes {MOST_BYTES}"));
    }
    if secret && length < SHORTEST_SECRET {
        return Err("a secret needs at least 8 bytes, or it could not be kept out of texts; \
                    set a longer one with `hivewright vault set`"
            .into());
    }
    let key = names::vault_key(former);
    let changes = if key == former { Vec::new() } else { vec![format!("its key is `{key}`")] };
    Ok(Entry { key, value: value.clone(), secret, changes })
}

/// Takes secret values out of texts: their references stand in their places.
#[derive(Clone, Debug, Default)]
pub(super) struct Redactor {
    /// Values with their keys, longest first.
    values: Vec<(Secret, String)>,
}

impl Redactor {
    /// A redactor of these secrets.
    pub(super) fn new<'a>(secrets: impl IntoIterator<Item = (&'a Secret, &'a str)>) -> Self {
        let mut values: Vec<_> = secrets
            .into_iter()
            .filter(|(value, _)| value.expose().len() >= SHORTEST_SECRET)
            .map(|(value, key)| (value.clone(), key.to_owned()))
            .collect();
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.expose().len()));
        Self { values }
    }

    /// The text without secrets, if there are any in it.
    pub(super) fn redact(&self, text: &str) -> Option<String> {
        let mut text = std::borrow::Cow::Borrowed(text);
        for (value, key) in &self.values {
            if text.contains(value.expose()) {
                let reference = format!("${{vault:{key}}}");
                text = text.replace(value.expose(), &reference).into();
            }
        }
        match text {
            std::borrow::Cow::Owned(text) => Some(text),
            std::borrow::Cow::Borrowed(_) => None,
        }
    }

    /// Takes secrets out of a text, and tells that it did.
    pub(super) fn clean(&self, text: &mut String, changes: &mut Vec<String>) {
        if let Some(clean) = self.redact(text) {
            *text = clean;
            changes.push("secret values in it became references".into());
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    /// OR-29, MV-35
    #[test]
    fn what_the_vault_does_not_take_is_told_without_its_value() {
        let short = convert("PIN", &secret("s3cr3t!"), true).unwrap_err();
        let large = convert("BLOB", &secret(&"x".repeat(70_000)), true).unwrap_err();

        assert!(short.contains("8 bytes") && !short.contains("s3cr3t"), "{short}");
        assert!(large.contains("65536"), "{large}");
        assert!(convert("count", &secret("7"), false).is_ok());
        assert_eq!(convert("a b", &secret("12345678"), true).unwrap().key, "a-b");
    }

    /// MV-07
    #[test]
    fn secrets_in_texts_become_references() {
        let (long, short) = (secret("hunter2-hunter2"), secret("hunter2-"));
        let redactor = Redactor::new([(&short, "SHORT"), (&long, "LONG")]);

        assert_eq!(
            redactor.redact("a hunter2-hunter2 b hunter2- c").unwrap(),
            "a ${vault:LONG} b ${vault:SHORT} c"
        );
        assert_eq!(redactor.redact("nothing"), None);
    }
}
