//! Keys by which the same work is recognised, for a day and for one team.

use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    repeats::is_known,
    retention::terms::Lot,
    store::{
        reads::get,
        records::{Writes, digest},
    },
};
use serde::{Deserialize, Serialize};

use super::outgoing_task::Sent;
use crate::{teams::service::Parts, tools::error::ToolError};

/// What is known of a key.
pub(super) enum Known {
    Not,
    /// The same words were given under it.
    Same(TaskId),
    /// Other words were.
    Other(TaskId),
}

#[derive(Serialize, Deserialize)]
pub(super) struct KeyRow {
    task: TaskId,
    digest: u64,
    at: Timestamp,
}

hivewright_actors::records! {
    KeyRow: "edge\0idempotency", String;
}

fn key_of(team: &TeamKey, key: &str) -> String {
    format!("{team}/{key}")
}

pub(super) async fn look_up(
    parts: &Parts,
    team: &TeamKey,
    key: &str,
    words: &str,
) -> Result<Known, ToolError> {
    let key = key_of(team, key);
    let row = parts.store.read(move |storage| get::<KeyRow>(storage, &key)).await?;
    let fresh = row.filter(|row| is_known(row.at, parts.clock.now()));
    Ok(match fresh {
        None => Known::Not,
        Some(row) if row.digest == digest(words) => Known::Same(row.task),
        Some(row) => Known::Other(row.task),
    })
}

/// The keys that are remembered no longer.
pub(crate) fn lot(now: Timestamp) -> Lot {
    Lot::old(move |_, row: &KeyRow| !is_known(row.at, now))
}

/// What remembers a key with the task that it was first used for.
pub(super) fn remember(team: &TeamKey, key: &str, words: &str, sent: &Sent) -> Writes {
    let row = KeyRow { task: sent.task_id.clone(), digest: digest(words), at: sent.at };
    Writes::new().put_at(&key_of(team, key), &row)
}
