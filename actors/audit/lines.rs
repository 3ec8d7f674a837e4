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
    let place = |_: &[u8], line: Audit| line.is_wanted(wanted).then_some((line.at, line.id));
    tiered::part(storage, window, place, |archived, window, known| {
        archived.audit(wanted, window, known)
    })
}
