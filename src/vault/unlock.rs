//! Unlocking: the master key that fits what is stored.

use super::{
    error::{Locked, Result},
    master::{KeyFiles, MasterKeys, Place},
    rows::Stored,
    seal::{Binding, Key},
};

pub(super) struct Unlocked {
    pub(super) master: Result<Key, Locked>,
    pub(super) place: Place,
    /// Keys that are there and do not fit.
    pub(super) others: Vec<Key>,
}

/// Finds the key, or makes the first one, and ends a rotation that was cut off. A key is never made
/// where something is stored that it would not open. Blocks.
pub(super) fn unlock(keys: MasterKeys, stored: &Stored) -> Result<Unlocked> {
    let files = keys.files.clone();
    let mut unlocked = look(keys, stored);
    if is_fresh(stored)
        && files.path(&Place::Current).is_some_and(|path| !path.exists())
        && unlocked.place == Place::Current
    {
        unlocked.master = Ok(files.create()?);
    }
    if unlocked.master.is_err() {
        return Ok(unlocked);
    }
    match &unlocked.place {
        Place::Credential => {}
        // A rotation that got no further than writing its key.
        Place::Current => drop(files.remove(&Place::New)?),
        Place::New => {
            tracing::warn!("a rotation of the master key was cut off; it is finished now");
            files.finish()?;
            unlocked.place = Place::Current;
        }
        Place::Old | Place::Older(_) => tracing::warn!(
            key = files.name(&unlocked.place),
            "the store is from before a rotation of the master key; the replaced key is used"
        ),
    }
    Ok(unlocked)
}

/// Finds the key, and changes nothing. Blocks.
pub(super) fn look(keys: MasterKeys, stored: &Stored) -> Unlocked {
    let MasterKeys { files, mut candidates } = keys;
    let fitting = if is_fresh(stored) {
        // Every key fits, so the first counts, and what is left of rotations doesn't.
        candidates.retain(|(place, _)| matches!(place, Place::Credential | Place::Current));
        (!candidates.is_empty()).then_some(0)
    } else {
        candidates.iter().position(|(_, key)| key.as_ref().is_ok_and(|key| fits(key, stored)))
    };
    let Some(fitting) = fitting else {
        return Unlocked {
            master: Err(missing(&files, &candidates)),
            place: Place::Current,
            others: Vec::new(),
        };
    };
    let (place, master) = candidates.swap_remove(fitting);
    let others = candidates.into_iter().filter_map(|(_, key)| key.ok());
    Unlocked { master, place, others: others.collect() }
}

/// Nothing was ever sealed.
fn is_fresh(stored: &Stored) -> bool {
    stored.check.is_none() && stored.data_keys.is_empty()
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

fn missing(files: &KeyFiles, candidates: &[(Place, Result<Key, Locked>)]) -> Locked {
    let places = files.places();
    let broken = candidates.iter().find_map(|(_, key)| key.as_ref().err());
    match (candidates.is_empty(), broken) {
        (true, _) => Locked(format!(
            "there is no master key in {places}; put the key file back that this store was made with"
        )),
        (false, Some(broken)) => {
            Locked(format!("{broken}; put the key file back that this store was made with"))
        }
        (false, None) => Locked(format!(
            "the master key in {places} does not fit this store{}; put the key file back that it was made with",
            match candidates.iter().filter(|(place, _)| place.is_replaced()).count() {
                0 => String::new(),
                1 => ", and neither does the replaced one beside it".to_owned(),
                many => format!(", and neither does any of the {many} replaced ones beside it"),
            }
        )),
    }
}
