//! Seals: what is stored of a value, and what it is bound to.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead, KeyInit, Payload},
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{
    error::{Result, VaultError},
    scope::Scope,
};

/// The format of everything sealed here. Another one gets another number.
const FORMAT: &str = "hivewright-vault-1";
const KEY: usize = 32;
const NONCE: usize = 24;

/// A value in the clear. It is wiped when the last holder lets go of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain(Arc<Zeroizing<Vec<u8>>>);

impl Plain {
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Zeroizing::new(value.into())))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The value, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The value for others to hold.
    pub(super) fn shared(&self) -> Arc<Zeroizing<Vec<u8>>> {
        self.0.clone()
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

/// What a sealed thing is bound to: it opens nowhere else.
pub(super) struct Binding(Vec<u8>);

impl Binding {
    /// A value: so no record can be moved to another team, key or time.
    pub(super) fn value(scope: &Scope, key: &str, version: u64) -> Self {
        Self::new(&["value", &scope.tag(), key, &version.to_string()])
    }

    pub(super) fn data_key(scope: &Scope, version: u32) -> Self {
        Self::new(&["data-key", &scope.tag(), &version.to_string()])
    }

    /// The check value, which only the right master key opens.
    pub(super) fn check() -> Self {
        Self::new(&["check"])
    }

    /// Each part is preceded by its length, so that no two lists give the same bytes. A tag of a
    /// team holds its name and its generation.
    fn new(parts: &[&str]) -> Self {
        let mut bytes = Vec::new();
        for part in [FORMAT].iter().chain(parts) {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        Self(bytes)
    }
}

/// A sealed thing as it is stored: nonce and ciphertext in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Sealed(pub(super) String);

/// A key that seals: the master key, or the data key of a scope.
#[derive(Clone)]
pub(super) struct Key(Arc<Zeroizing<[u8; KEY]>>);

impl Key {
    pub(super) fn random() -> Result<Self> {
        let mut bytes = Zeroizing::new([0; KEY]);
        getrandom::fill(&mut *bytes).map_err(|_| VaultError::Randomness)?;
        Ok(Self(Arc::new(bytes)))
    }

    /// The key of these bytes, if there are enough of them.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; KEY] = bytes.try_into().ok()?;
        Some(Self(Arc::new(Zeroizing::new(bytes))))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY] {
        &self.0
    }

    /// Seals something, bound to its place.
    pub(super) fn seal(&self, binding: &Binding, plain: &[u8]) -> Result<Sealed> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::Randomness)?;
        let payload = Payload { msg: plain, aad: &binding.0 };
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), payload)
            .map_err(|_| VaultError::Randomness)?;
        let mut bytes = nonce.to_vec();
        bytes.extend(sealed);
        Ok(Sealed(STANDARD.encode(bytes)))
    }

    /// Opens something; none if it was changed, moved, or sealed with another key.
    pub(super) fn open(&self, binding: &Binding, sealed: &Sealed) -> Option<Plain> {
        let bytes = STANDARD.decode(&sealed.0).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: sealed, aad: &binding.0 };
        let opened = self.cipher().decrypt(&XNonce::from(*nonce), payload).ok()?;
        Some(Plain::new(opened))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.bytes().into())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {

    use hivewright_actors::ids::TeamKey;

    use super::*;

    fn team(name: &str, generation: u32) -> Scope {
        Scope::Team(TeamKey { name: name.into(), generation })
    }

    /// MV-54, MV-60
    #[test]
    fn a_sealed_value_opens_in_its_own_place_alone() {
        let key = Key::random().unwrap();
        let place = Binding::value(&team("ops", 1), "TOKEN", 3);
        let sealed = key.seal(&place, b"hunter22").unwrap();

        assert_eq!(key.open(&place, &sealed).as_ref().map(Plain::bytes), Some(&b"hunter22"[..]));
        let others = [
            Binding::value(&team("ops", 2), "TOKEN", 3),
            Binding::value(&team("op", 1), "TOKEN", 3),
            Binding::value(&Scope::System, "TOKEN", 3),
            Binding::value(&team("ops", 1), "TOKEN2", 3),
            Binding::value(&team("ops", 1), "TOKEN", 4),
            Binding::data_key(&team("ops", 1), 3),
            Binding::check(),
        ];
        for other in others {
            assert_eq!(key.open(&other, &sealed), None);
        }
        assert_eq!(Key::random().unwrap().open(&place, &sealed), None);
    }

    /// MV-60, MV-75
    #[test]
    fn a_sealed_value_with_any_byte_changed_does_not_open() {
        let key = Key::random().unwrap();
        let sealed = key.seal(&Binding::check(), b"hunter22").unwrap();
        let bytes = STANDARD.decode(&sealed.0).unwrap();

        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let changed = Sealed(STANDARD.encode(changed));
            assert_eq!(key.open(&Binding::check(), &changed), None, "byte {at}");
        }
        for text in ["", "x", "AAAA"] {
            assert_eq!(key.open(&Binding::check(), &Sealed(text.into())), None);
        }
    }

    /// MV-54
    #[test]
    fn the_same_value_is_never_sealed_the_same_way_twice() {
        let key = Key::random().unwrap();

        let [one, other] = [(); 2].map(|()| key.seal(&Binding::check(), b"hunter22").unwrap());

        assert_ne!(one, other);
    }

    #[test]
    fn neither_values_nor_keys_show_themselves() {
        let key = Key::of(&[7; 32]).unwrap();

        assert_eq!(format!("{key:?} {:?}", Plain::new("hunter22")), "[key] [8 bytes]");
    }
}
