//! Token text of a credential: made at random, kept as a hash only.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::error::AuthError;
use crate::settings::secret::Secret;

/// The operator token begins like this.
pub(super) const OPERATOR: &str = "hwo_";
/// API tokens begin like this.
pub(super) const API: &str = "hwt_";
/// Random characters of every credential: 32 bytes in base64.
const RANDOM: usize = 43;

/// A new credential: the prefix and 43 random characters.
pub(super) fn fresh(prefix: &str) -> Result<Secret, AuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| AuthError::Randomness)?;
    Ok(Secret::new(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

/// A new name for a row: no secret, but unique.
pub(super) fn fresh_id(prefix: &str) -> Result<String, AuthError> {
    let bits = getrandom::u64().map_err(|_| AuthError::Randomness)?;
    Ok(format!("{prefix}-{bits:016x}"))
}

/// The text has the form of a credential with this prefix.
pub(super) fn is_formed(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|random| {
        random.len() == RANDOM
            && random
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

/// The value that requests of a browser session must repeat, known to its pages alone.
pub(super) fn csrf(session: &str) -> String {
    let digest = Sha256::new().chain_update(b"csrf\0").chain_update(session).finalize();
    URL_SAFE_NO_PAD.encode(digest)
}

/// Texts are equal; how long the answer takes does not tell where they differ.
pub(super) fn same(ours: &str, theirs: &str) -> bool {
    ours.as_bytes().ct_eq(theirs.as_bytes()).into()
}

/// What is stored instead of a credential.
#[derive(Clone, Copy)]
pub struct Hash([u8; 32]);

impl Hash {
    pub(super) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

/// Takes the same time wherever the two differ.
impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Hash {}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hash]")
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(D::Error::custom)?;
        let bytes = bytes.try_into().map_err(|_| D::Error::custom("not 32 bytes"))?;
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-10
    #[test]
    fn a_credential_is_a_prefix_and_43_random_characters() {
        let (one, other) = (fresh(OPERATOR).unwrap(), fresh(OPERATOR).unwrap());

        assert!(is_formed(one.expose(), OPERATOR) && !is_formed(one.expose(), API));
        assert_eq!(one.expose().len(), 47);
        assert_ne!(one, other);
        for text in ["", "hwo_", "hwo_short", &format!("hwo_{}", "é".repeat(43))] {
            assert!(!is_formed(text, OPERATOR), "{text}");
        }
    }

    #[test]
    fn a_hash_is_stored_and_read_back() {
        let hash = Hash::of("hwt_something");

        let stored = serde_json::to_string(&hash).unwrap();

        assert_eq!(serde_json::from_str::<Hash>(&stored).unwrap(), hash);
        assert_ne!(Hash::of("hwt_somethinG"), hash);
        assert!(!stored.contains("something"));
        assert!(serde_json::from_str::<Hash>("\"AAAA\"").is_err());
    }

    #[test]
    fn the_csrf_value_differs_from_what_is_stored() {
        let value = csrf("session");

        assert_eq!(value, csrf("session"));
        assert_ne!(value, csrf("other"));
        assert!(!serde_json::to_string(&Hash::of("session")).unwrap().contains(&value));
        assert!(same("a", "a") && !same("a", "b") && !same("a", "aa"));
    }
}
