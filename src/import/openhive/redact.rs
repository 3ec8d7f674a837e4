//! Redaction: references in the place of secret values that stand in texts.

use std::borrow::Cow;

use crate::{settings::secret::Secret, vault::limit::SHORTEST_SECRET};

/// The secrets of the source that are in a vault here, or will be.
#[derive(Clone, Debug, Default)]
pub(super) struct Redactor {
    /// Values with their keys, longest first: a value may hold another.
    values: Vec<(Secret, String)>,
}

impl Redactor {
    /// From now on the value is taken out. Shorter ones could not be told from ordinary text.
    pub(super) fn add(&mut self, value: &Secret, key: &str) {
        let length = value.expose().len();
        if length >= SHORTEST_SECRET {
            let place = self.values.partition_point(|(known, _)| known.expose().len() >= length);
            self.values.insert(place, (value.clone(), key.to_owned()));
        }
    }

    /// The text without secrets, if there are any in it.
    fn redact(&self, text: &str) -> Option<String> {
        let mut text = Cow::Borrowed(text);
        for (value, key) in &self.values {
            if text.contains(value.expose()) {
                text = text.replace(value.expose(), &format!("${{vault:{key}}}")).into();
            }
        }
        match text {
            Cow::Owned(text) => Some(text),
            Cow::Borrowed(_) => None,
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

    /// MV-07
    #[test]
    fn secrets_in_texts_become_references() {
        let mut redactor = Redactor::default();
        redactor.add(&Secret::new("hunter2-".into()), "SHORT");
        redactor.add(&Secret::new("hunter2-hunter2".into()), "LONG");

        assert_eq!(
            redactor.redact("a hunter2-hunter2 b hunter2- c").unwrap(),
            "a ${vault:LONG} b ${vault:SHORT} c"
        );
        assert_eq!(redactor.redact("nothing"), None);
    }
}
