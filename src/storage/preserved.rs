//! Values that an export still needs and that a commit would replace.

use std::collections::BTreeMap;

use ::sled::IVec;

/// Values as they stood when an export began, for keys it has not reached.
#[derive(Debug, Default)]
pub(super) struct Preserved {
    pub(super) reached: Vec<u8>,
    old: BTreeMap<Vec<u8>, Option<IVec>>,
}

impl Preserved {
    /// Keeps the value of a key that is about to change.
    pub(super) fn keep(
        &mut self,
        key: &[u8],
        value: impl FnOnce() -> ::sled::Result<Option<IVec>>,
    ) -> ::sled::Result<()> {
        if key > self.reached.as_slice() && !self.old.contains_key(key) {
            self.old.insert(key.to_vec(), value()?);
        }
        Ok(())
    }

    /// Replaces in a round what changed since the export began, and goes past the round.
    /// Without an `end` the round is the last.
    pub(super) fn settle(&mut self, round: &mut BTreeMap<Vec<u8>, IVec>, end: Option<&[u8]>) {
        let later = match end {
            Some(end) => self.old.split_off(&[end, b"\0"].concat()),
            None => BTreeMap::new(),
        };
        for (key, value) in std::mem::replace(&mut self.old, later) {
            match value {
                Some(value) => round.insert(key, value),
                None => round.remove(&key),
            };
        }
        if let Some(end) = end {
            self.reached = end.to_vec();
        }
    }
}
