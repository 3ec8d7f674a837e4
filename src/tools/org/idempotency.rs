//! Keys by which the same work is recognised, for a day and for one team.

use hivewright_actors::{
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    repeats::is_known,
    scheduler::retention::keeping::Lot,
    store::{
        damage::one,
        records::{EdgeKey, Writes, after_prefix, decode, digest},
    },
};
use serde::{Deserialize, Serialize};

use super::{errand::Sent, office::Parts};
use crate::tools::contract::ToolError;

/// The longest key, in characters.
pub(super) const LONGEST: usize = 128;
/// What the rows are called.
pub(super) const KIND: &str = "idempotency";

/// What is known of a key.
pub(super) enum Known {
    /// Nothing.
    Not,
    /// The same words were given under it.
    Same(TaskId),
    /// Other words were.
    Other(TaskId),
}

#[derive(Serialize, Deserialize)]
struct Row {
    task: TaskId,
    digest: u64,
    at: Timestamp,
}

fn key_of(team: &TeamKey, key: &str) -> EdgeKey {
    EdgeKey::new(KIND, format!("{team}/{key}"))
}

/// Looks a key up.
pub(super) async fn look_up(
    parts: &Parts,
    team: &TeamKey,
    key: &str,
    words: &str,
) -> Result<Known, ToolError> {
    let bytes = key_of(team, key).bytes();
    let row = parts.store.read(move |storage| one::<Row>(storage, &bytes));
    let row = row.await.map_err(|error| ToolError::failed(error.to_string()))?;
    let fresh = row.filter(|row| is_known(row.at, parts.clock.now()));
    Ok(match fresh {
        None => Known::Not,
        Some(row) if row.digest == digest(words) => Known::Same(row.task),
        Some(row) => Known::Other(row.task),
    })
}

/// The keys that are remembered no longer.
pub(crate) fn lot(now: Timestamp) -> Lot {
    let start = EdgeKey::prefix(KIND);
    Lot {
        end: after_prefix(&start),
        start,
        is_old: Box::new(move |key, value| {
            let row = decode::<Row>(key, value);
            row.is_ok_and(|row| !is_known(row.at, now))
        }),
    }
}

/// What remembers a key with the task that it was first used for.
pub(super) fn remember(team: &TeamKey, key: &str, words: &str, sent: &Sent) -> Writes {
    let row = Row { task: sent.task_id.clone(), digest: digest(words), at: sent.at };
    Writes::new().edge(&key_of(team, key), &row)
}
