//! Lists of the audit.

use super::{
    Audit,
    query::{AuditPage, AuditQuery, AuditWindow},
};
use crate::{
    storage::{Storage, StorageError},
    store::tiered,
};

/// The wanted part of the audit. Blocks.
pub fn lines(
    storage: &dyn Storage,
    wanted: &AuditQuery,
    window: &AuditWindow,
) -> Result<AuditPage, StorageError> {
    let place = |key: &[u8], line: Audit| line.is_wanted(wanted).then(|| key.to_vec());
    tiered::part(storage, window, place, |tiers, window, known| tiers.audit(wanted, window, known))
}
