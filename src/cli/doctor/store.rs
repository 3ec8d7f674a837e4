//! The store: whether it opens, and with `--deep` whether every record reads.

use std::ops::ControlFlow;

use hivewright_actors::storage::{Order, Storage};

use super::{Finding, service::Running};
use crate::{
    cli::{
        Context,
        backup::blocking,
        failure::{Exit, Failure},
        progress::Gauge,
        stopped::{self, Stopped},
    },
    storage::sled::SledStorage,
};

const ID: &str = "store";

pub(super) async fn check(context: &Context, running: &Running, deep: bool) -> Vec<Finding> {
    if !matches!(running, Running::No) {
        let message = "is in use by the running service, which checked it at its start";
        return vec![Finding::ok(ID, message)];
    }
    if !stopped::has_store(context) {
        return vec![Finding::ok(
            ID,
            "there is none yet; the first start makes it",
        )];
    }
    let cloned = context.clone();
    let looked = blocking(move || look(&cloned, deep)).await;
    match looked {
        Ok(findings) => findings,
        // The settings were looked at before.
        Err(failure) if failure.exit == Exit::Settings && failure.message.contains(".yaml") => {
            vec![Finding::warn(
                ID,
                "was not looked at, since the settings are wrong",
                "mend the settings first",
            )]
        }
        Err(failure) => vec![Finding::error(
            ID,
            failure.message,
            format!(
                "{} rebuilds it from the newest backup and keeps what is there",
                context.command("restore --newest")
            ),
        )],
    }
}

fn look(context: &Context, deep: bool) -> Result<Vec<Finding>, Failure> {
    let gauge = Gauge::new(context.screen, "store");
    let stopped = Stopped::open(context, &|progress| gauge.storage(progress))?;
    let records = stopped.storage.records();
    let opened = Finding::ok(ID, format!("opens, with {records} records"));
    if !deep {
        return Ok(vec![opened]);
    }
    let damaged = read_all(&stopped.storage, &gauge)?;
    if damaged.is_empty() {
        let message = format!("opens, and all {records} records are readable");
        return Ok(vec![Finding::ok(ID, message)]);
    }
    let mut findings = vec![opened];
    findings.extend(damaged.into_iter().map(|record| {
        let fix = "what depends on it ends visibly; a backup may hold it whole";
        Finding::error(ID, record, fix)
    }));
    Ok(findings)
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
