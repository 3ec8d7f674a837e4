//! The store: whether it opens, and with `--deep` whether every record reads and agrees with the others.

use std::ops::ControlFlow;

use hivewright_actors::{
    storage::{Order, Storage},
    store::{
        check,
        damage::{Quarantined, quarantined},
    },
};

use super::service::Running;
use crate::{
    cli::{
        Context,
        backup::blocking,
        failure::{Exit, Failure},
        progress::Gauge,
        stopped::{self, Stopped},
    },
    doctor::Finding,
    rulebook,
    storage::sled::SledStorage,
};

const ID: &str = "store";

pub(super) async fn check(context: &Context, running: &Running, deep: bool) -> Vec<Finding> {
    if !matches!(running, Running::No) {
        let message = "is in use by the running service, which checked it at its start";
        return vec![Finding::ok(ID, message)];
    }
    if !stopped::has_store(context) {
        let message = "there is none yet; the first start makes it";
        return vec![Finding::ok(ID, message)];
    }
    let cloned = context.clone();
    match blocking(move || look(&cloned, deep)).await {
        Ok(findings) => findings,
        Err(failure) => vec![judge(&failure, context)],
    }
}

fn judge(failure: &Failure, context: &Context) -> Finding {
    if failure.exit == Exit::Failed {
        let restore = context.command("restore --newest");
        let fix = format!("{restore} rebuilds it from the newest backup and keeps what is there");
        return Finding::error(ID, failure.message.clone(), fix);
    }
    // Settings, modes and other versions: the way out is in the message, and not a restore.
    let reason = failure.message.lines().next().unwrap_or_default();
    let message = format!("was not looked at: {reason}");
    Finding::warn(ID, message, "mend that first, then look again")
}

fn look(context: &Context, deep: bool) -> Result<Vec<Finding>, Failure> {
    let gauge = Gauge::new(context.screen, "store");
    let stopped = Stopped::open(context, &|progress| gauge.storage(progress))?;
    let records = stopped.storage.records();
    let opened = Finding::ok(ID, format!("opens, with {records} records"));
    let rules = [rules(&stopped.storage)?, quarantine(&stopped.storage)?].concat();
    if !deep {
        return Ok([vec![opened], rules].concat());
    }
    let mut damaged = read_all(&stopped.storage, &gauge)?;
    let faults = check::faults(&stopped.storage);
    damaged.extend(faults.map_err(|error| Failure::failed(error.to_string()))?);
    if damaged.is_empty() {
        let message = format!("opens, and all {records} records are readable");
        return Ok([vec![Finding::ok(ID, message)], rules].concat());
    }
    let mut findings = [vec![opened], rules].concat();
    findings.extend(damaged.into_iter().map(|record| {
        let fix = "what depends on it ends visibly; a backup may hold it whole";
        Finding::error(ID, record, fix)
    }));
    Ok(findings)
}

/// Rules that keep every team from every tool, since nobody can read what they forbade.
fn rules(storage: &SledStorage) -> Result<Vec<Finding>, Failure> {
    let unreadable = rulebook::unreadable_in(storage);
    let unreadable = unreadable.map_err(|error| Failure::failed(error.to_string()))?;
    let finding = |id: String| {
        let message = format!("the stored rule `{id}` cannot be read: no team may use any tool");
        let fix = format!("start the service, then remove it: `hivewright policy remove {id}`");
        Finding::error(ID, message, fix)
    };
    Ok(unreadable.into_iter().map(finding).collect())
}

/// Copies of damaged records, with what can still be read of them.
fn quarantine(storage: &SledStorage) -> Result<Vec<Finding>, Failure> {
    let kept = quarantined(storage).map_err(|error| Failure::failed(error.to_string()))?;
    let finding = |kept: Quarantined| {
        let record = kept.record;
        let message = format!("the record `{record}` was found damaged: {}", kept.reason);
        let fix = "a copy is kept in quarantine; a backup may hold it whole";
        Finding::warn(ID, message, fix)
    };
    Ok(kept.into_iter().map(finding).collect())
}

/// What is wrong with records, one line each.
fn read_all(storage: &SledStorage, gauge: &Gauge) -> Result<Vec<String>, Failure> {
    let total = storage.records();
    let mut damaged = Vec::new();
    let mut done = 0;
    storage
        .scan(&[], &[0xff; 16], Order::Rising, &mut |_, value| {
            done += 1;
            gauge.set(done, total.max(done), "records");
            if let Err(error) = value {
                damaged.push(error.to_string());
            }
            ControlFlow::Continue(())
        })
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok(damaged)
}
