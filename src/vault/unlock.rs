//! Unlocking: the master key that fits what is stored.

use super::{
    error::VaultError,
    master::{KeyFiles, Locked, Place},
    rows::{CheckRow, Stored},
    seal::{Binding, Key},
};

/// What the check value is of. It says nothing; opening it does.
const CHECK: &[u8] = b"hivewright";

/// What came of looking for the key.
pub(super) struct Unlocked {
    pub(super) master: Result<Key, Locked>,
    /// Where it is.
    pub(super) place: Place,
    /// Keys that are there and do not fit.
    pub(super) others: Vec<Key>,
    /// The check value is yet to be stored.
    pub(super) check: Option<CheckRow>,
}

/// Finds the key, or makes the first one, and ends a rotation that was cut off. A key is never made
/// where something is stored that it would not open. Blocks.
pub(super) fn unlock(files: &KeyFiles, stored: &Stored) -> Result<Unlocked, VaultError> {
    let mut candidates = files.candidates();
    if stored.check.is_none() && stored.data_keys.is_empty() {
        candidates.retain(|(place, _)| matches!(place, Place::Credential | Place::Current));
        let (place, master) = match candidates.into_iter().next() {
            Some(found) => found,
            None => (Place::Current, Ok(files.create()?)),
        };
        let check = match &master {
            Ok(key) => Some(check_row(key)?),
            Err(_) => None,
        };
        return Ok(Unlocked {
            master,
            place,
            others: Vec::new(),
            check,
        });
    }
    let fits =
        |(_, key): &(Place, Result<Key, Locked>)| key.as_ref().is_ok_and(|key| fits(key, stored));
    let Some(at) = candidates.iter().position(fits) else {
        return Ok(Unlocked {
            master: Err(missing(files, candidates)),
            place: Place::Current,
            others: Vec::new(),
            check: None,
        });
    };
    let (place, key) = candidates.swap_remove(at);
    match place {
        Place::Credential => {}
        // A rotation that got no further than writing its key.
        Place::Current => drop(files.remove(Place::New)?),
        Place::New => {
            tracing::warn!("a rotation of the master key was cut off; it is finished now");
            if candidates.iter().any(|(place, _)| *place == Place::Current) {
                files.set_aside()?;
            }
            files.put_in_use()?;
        }
        Place::Old => tracing::warn!(
            "the store is from before the last rotation of the master key; the replaced key is used"
        ),
    }
    let check = match &key {
        Ok(key) if stored.check.is_none() => Some(check_row(key)?),
        _ => None,
    };
    Ok(Unlocked {
        master: key,
        place,
        others: candidates
            .into_iter()
            .filter_map(|(_, key)| key.ok())
            .collect(),
        check,
    })
}

/// The check value of a key.
pub(super) fn check_row(key: &Key) -> Result<CheckRow, VaultError> {
    let check = key.seal(&Binding::check(), CHECK)?;
    Ok(CheckRow { check })
}

/// The key opens what is stored: the check value, or without one a data key.
fn fits(key: &Key, stored: &Stored) -> bool {
    match &stored.check {
        Some(row) => key.open(&Binding::check(), &row.check).is_some(),
        None => stored.data_keys.iter().any(|(scope, row)| {
            let binding = Binding::data_key(scope, row.version);
            key.open(&binding, &row.wrapped).is_some()
        }),
    }
}

fn missing(files: &KeyFiles, candidates: Vec<(Place, Result<Key, Locked>)>) -> Locked {
    let places = files.places();
    let broken = candidates.iter().find_map(|(_, key)| key.as_ref().err());
    match (candidates.is_empty(), broken) {
        (true, _) => Locked::new(format!(
            "there is no master key in {places}; put the key file back that this store was made with"
        )),
        (false, Some(broken)) => Locked::new(format!(
            "{broken}; put the key file back that this store was made with"
        )),
        (false, None) => Locked::new(format!(
            "the master key in {places} does not fit this store; put the key file back that it was made with"
        )),
    }
}
