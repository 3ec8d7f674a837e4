//! Lists of approvals and questions.

use super::{
    query::{WaitPage, WaitQuery, WaitRank, WaitWindow},
    records::Waits,
};
use crate::{
    storage::{Storage, StorageError},
    store::tiered,
};

/// The wanted part of what waits for a person, or did. Blocks.
pub fn list<R: Waits<Key: ToString>>(
    storage: &dyn Storage,
    wanted: &WaitQuery,
    window: &WaitWindow,
) -> Result<WaitPage, StorageError> {
    let place = |_: &[u8], row: R| {
        let at = match wanted.rank {
            WaitRank::Created => row.created_at(),
            WaitRank::Expires => row.expires_at(),
        };
        wanted.wants(row.facet()).then(|| (at, row.key().to_string()))
    };
    tiered::part(storage, window, place, |archived, window, known| {
        archived.waits(R::KIND, wanted, window, known)
    })
}
