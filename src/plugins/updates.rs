//! Updates that wait for a person: versions that ask for more than was agreed to are put in place once somebody agrees.

use hivewright_actors::{
    approvals::record::{Approval, Execution, Status},
    blocking,
    live::{
        Publisher,
        event::{Data, Kind},
        watch::Filter,
    },
    policy::caution,
    store::{StoreHandle, reads::get, records::Writes},
};

use super::{
    depot::{Depot, DepotError},
    lock::Held,
};

/// Carries out what is decided, until the service ends.
pub async fn follow(depot: Depot, store: StoreHandle, live: Publisher) {
    let filter = Filter { kinds: vec![Kind::ApprovalChanged], ..Filter::default() };
    let mut watch = live.watch(None, filter);
    let abandoned = depot.clone();
    // Nobody was asked about these before the last process ended.
    let dropped = blocking::run(move || {
        let held = abandoned.lock()?.held;
        let mut unasked = held.iter().filter(|(_, held)| held.approval.is_none());
        unasked.try_for_each(|(key, _)| abandoned.dismiss(key).map(drop))
    });
    if let Ok(Err(error)) = dropped.await {
        tracing::error!(%error, "updates of plugins that nobody was asked about stay");
    }
    settle(&depot, &store).await;
    while let Some(batch) = watch.next().await {
        let is_meant = batch.events.iter().any(|told| match &told.event.data {
            Data::Json(data) => data["kind"] == caution::Kind::Plugin.as_str(),
            _ => false,
        });
        if is_meant {
            settle(&depot, &store).await;
        }
    }
}

/// Puts in place what was agreed to, and lets go of what was not.
pub async fn settle(depot: &Depot, store: &StoreHandle) {
    let _turn = depot.settling().await;
    let reading = depot.clone();
    let held = match blocking::run(move || reading.lock()).await {
        Ok(Ok(lock)) => lock.held,
        Ok(Err(error)) => {
            return tracing::error!(%error, "`plugins.lock` cannot be read: what was decided on plugins waits");
        }
        Err(_) => return,
    };
    for (key, held) in held {
        let Some(id) = held.approval.clone() else { continue };
        match store.read(move |storage| get::<Approval>(storage, &id)).await {
            Ok(Some(approval)) if approval.status == Status::Pending => {}
            Ok(approval) => end(depot, store, key, held, approval).await,
            Err(error) => {
                tracing::error!(plugin = key, %error, "the decision on a plugin cannot be read; the plugin stays as it is")
            }
        }
    }
}

async fn end(
    depot: &Depot,
    store: &StoreHandle,
    key: String,
    held: Held,
    approval: Option<Approval>,
) {
    // What was decided on is exactly these files.
    let approved = approval.filter(|approval| {
        approval.status == Status::Approved && approval.arguments["digest"] == held.digest.as_str()
    });
    let (depot, plugin, accepts) = (depot.clone(), key.clone(), approved.is_some());
    let ended = blocking::run(move || {
        let accepted = if accepts { depot.accept(&key, &held).map(drop) } else { Ok(()) };
        depot.dismiss(&key)?;
        accepted
    });
    let ended =
        ended.await.unwrap_or_else(|error| Err(DepotError::Folder(std::io::Error::other(error))));
    match &ended {
        Ok(()) => {
            tracing::info!(plugin, installed = accepts, "a decision on a plugin is carried out")
        }
        Err(error) => {
            tracing::error!(plugin, %error, "a plugin that was agreed to is not installed")
        }
    }
    if let Some(mut approval) = approved {
        approval.execution = if ended.is_ok() { Execution::Done } else { Execution::Failed };
        // What is lost of this is only how it is shown.
        drop(store.commit(Writes::new().put(&approval)));
    }
}
