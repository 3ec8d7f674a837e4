//! The store: whether it opens, and with `--deep` whether every record reads and agrees with the others.

use hivewright_actors::quarantine::{Quarantined, quarantined};

use super::service::{Running, examined};
use crate::{
    api::doctor::{Examination, Finding},
    boot::error::ServiceError,
    cli::{
        blocking::blocking,
        context::Context,
        failure::Failure,
        progress::Gauge,
        stopped::{self, Stopped},
    },
    doctor::store,
    policy,
    storage::{error::OpenError, tiers::TieredStorage},
};

const ID: &str = "store";

pub(super) async fn check(context: &Context, running: &Running, deep: bool) -> Vec<Finding> {
    if !matches!(running, Running::No) {
        if deep {
            return ask(context).await;
        }
        let message = "is in use by the running service, which checked it at its start";
        return vec![Finding::ok(ID, message)];
    }
    if !stopped::has_store(context) {
        return vec![Finding::ok(ID, "there is none yet; the first start makes it")];
    }
    let cloned = context.clone();
    let looked = blocking(move || {
        let gauge = Gauge::new(cloned.screen, ID);
        match Stopped::open(&cloned, &|progress| gauge.storage(progress)) {
            Ok(stopped) => look(&stopped, deep, &gauge),
            Err(error) => Ok(vec![judge(error, &cloned)]),
        }
    });
    looked.await.unwrap_or_else(|failure| {
        vec![Finding::error(ID, failure.message, "see the log of the service, and the file system")]
    })
}

/// Has the running service read its own store.
async fn ask(context: &Context) -> Vec<Finding> {
    let wanted = Examination { store: true, ..Examination::default() };
    examined(ID, wanted, context).await.unwrap_or_else(|failure| {
        let message = format!("the running service did not read it: {failure}");
        vec![Finding::warn(ID, message, "see its log, or stop it and look again")]
    })
}

fn judge(error: ServiceError, context: &Context) -> Finding {
    let is_damaged = matches!(error, ServiceError::Store(OpenError::Unusable { .. }));
    let is_of_disk = matches!(
        error,
        ServiceError::Store(
            OpenError::Full { .. } | OpenError::ReadOnly { .. } | OpenError::Disk { .. }
        )
    );
    let failure = Failure::from(error);
    if is_of_disk {
        let fix = "see to the disk; the store was left as it is and needs no restore";
        return Finding::error(ID, failure.message, fix);
    }
    if is_damaged {
        let restore = context.command("restore --newest");
        let fix = format!("{restore} rebuilds it from the newest backup and keeps what is there");
        return Finding::error(ID, failure.message, fix);
    }
    // Settings, modes and other versions: the way out is in the message, and not a restore.
    let reason = failure.message.lines().next().unwrap_or_default();
    Finding::warn(ID, format!("was not looked at: {reason}"), "mend that first, then look again")
}

fn look(stopped: &Stopped, deep: bool, gauge: &Gauge) -> Result<Vec<Finding>, Failure> {
    let records = stopped.storage.records();
    let opened = Finding::ok(ID, format!("opens, with {records} records"));
    let rules = [rules(&stopped.storage)?, quarantine(&stopped.storage)?].concat();
    if !deep {
        return Ok([vec![opened], rules].concat());
    }
    let read = |done: u64| gauge.set(done, records.max(done), "records");
    let found = store::read_all(&stopped.storage, &read)
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok([vec![opened], found, rules].concat())
}

/// Rules that keep every team from every tool, since nobody can read what they forbade.
fn rules(storage: &TieredStorage) -> Result<Vec<Finding>, Failure> {
    let unreadable =
        policy::unreadable_in(storage).map_err(|error| Failure::failed(error.to_string()))?;
    let finding = |id: String| {
        let message = format!("the stored rule `{id}` cannot be read: no team may use any tool");
        let fix = format!("start the service, then remove it: `hivewright policy remove {id}`");
        Finding::error(ID, message, fix)
    };
    Ok(unreadable.into_iter().map(finding).collect())
}

/// Copies of damaged records, with what can still be read of them.
fn quarantine(storage: &TieredStorage) -> Result<Vec<Finding>, Failure> {
    let kept = quarantined(storage).map_err(|error| Failure::failed(error.to_string()))?;
    let finding = |kept: Quarantined| {
        let record = kept.record;
        let message = format!("the record `{record}` was found damaged: {}", kept.reason);
        Finding::warn(ID, message, "a copy is kept in quarantine; a backup may hold it whole")
    };
    Ok(kept.into_iter().map(finding).collect())
}
