//! Records of the trust gate: grants by grantee, decisions by time.

use std::ops::ControlFlow;

use super::{
    damage::{report, row},
    records::{Writes, after_prefix, decode, finished_prefix, join, prefix, task_prefix},
    scan_prefix,
};
use crate::{
    clock::Timestamp,
    router::{
        audit::{AuditRow, Trace},
        grants::{Grantee, Grants, SenderGrant},
    },
    storage::{Order, Storage, StorageError},
};

impl Writes {
    /// A grant, in place of the one that its grantee had.
    pub fn grant(self, grant: &SenderGrant) -> Self {
        self.put(grant_key(&grant.grantee), grant)
    }

    /// Removes the grant of a grantee.
    pub fn drop_grant(self, grantee: &Grantee) -> Self {
        self.drop_keys([grant_key(grantee)])
    }

    /// A decision of the trust gate that no task stands for.
    pub fn trust_decision(self, row: &AuditRow) -> Self {
        let mut key = audit_prefix();
        key.extend(row.at.0.to_be_bytes());
        key.extend(row.id.bytes());
        self.put(key, row)
    }
}

/// All grants. One that is damaged is kept as such: its sender is not let in.
pub fn grants(storage: &dyn Storage) -> Result<Grants, StorageError> {
    let prefix = grants_prefix();
    let mut grants = Grants::default();
    let mut lost = None;
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        match value.and_then(|value| decode(key, value)) {
            Ok(grant) => grants.put(grant),
            Err(error) => {
                report(storage, key, &error);
                tracing::error!(%error, "a grant cannot be read: its sender is not let in; revoke it or grant it anew");
                match grantee(&key[prefix.len()..]) {
                    Some(grantee) => grants.put_damaged(grantee),
                    None => lost = Some(error),
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    match lost {
        Some(error) => Err(error),
        None => Ok(grants),
    }
}

/// Which decisions are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Not before.
    pub since: Timestamp,
    /// Only those that let in, or only those that did not.
    pub allowed: Option<bool>,
    /// Only of this sender.
    pub sender: Option<String>,
}

impl AuditFilter {
    fn fits(&self, row: &AuditRow) -> bool {
        row.at >= self.since
            && self.allowed.is_none_or(|allowed| row.decision.allowed == allowed)
            && self.sender.as_ref().is_none_or(|sender| row.sender == *sender)
    }
}

/// Shows decisions of the trust gate, in no order: those with rows of their own, and those that tasks
/// stand for. Looks through all tasks, which an operator's question may take the time for.
pub fn each_decision(
    storage: &dyn Storage,
    filter: &AuditFilter,
    visit: &mut dyn FnMut(AuditRow),
) -> Result<(), StorageError> {
    let mut start = audit_prefix();
    let end = after_prefix(&start);
    start.extend(filter.since.0.to_be_bytes());
    let mut show = |row: Option<AuditRow>| {
        if let Some(row) = row.filter(|row| filter.fits(row)) {
            visit(row);
        }
        ControlFlow::Continue(())
    };
    storage.scan(&start, &end, Order::Rising, &mut |key, value| show(row(storage, key, value)))?;
    if filter.allowed != Some(false) {
        for prefix in [task_prefix(), finished_prefix()] {
            scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
                let trace = row::<Trace>(storage, key, value);
                show(trace.and_then(Trace::into_row))
            })?;
        }
    }
    Ok(())
}

/// All of them, newest first.
pub fn audit(storage: &dyn Storage, filter: &AuditFilter) -> Result<Vec<AuditRow>, StorageError> {
    let mut rows = Vec::new();
    each_decision(storage, filter, &mut |row| rows.push(row))?;
    rows.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
    Ok(rows)
}

fn grants_prefix() -> Vec<u8> {
    prefix(&["trust", "grant"])
}

pub(crate) fn audit_prefix() -> Vec<u8> {
    prefix(&["trust", "audit"])
}

fn grant_key(grantee: &Grantee) -> Vec<u8> {
    let channel = grantee.channel.as_ref().map_or("", |channel| channel.as_str());
    let channel_type = grantee.channel_type.to_string();
    join(&["trust", "grant", &channel_type, &grantee.sender, channel])
}

/// Whom the end of a key names.
fn grantee(key: &[u8]) -> Option<Grantee> {
    let mut parts = std::str::from_utf8(key).ok()?.split('\0');
    let (channel_type, sender) = (parts.next()?, parts.next()?);
    let channel = parts.next().filter(|channel| !channel.is_empty());
    Grantee::read(channel_type, sender, channel).ok()
}
