//! Concurrency limits: how many calls of a team run at once, by what they do.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use hivewright_actors::{ids::TeamName, tool::ToolFault};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{about::Pool, answer, error::ToolError};

/// So many everyday calls of a team run at once …
pub const DAILY: usize = 5;
/// … and so many that change what teams and triggers there are.
const ORG: usize = 1;
/// How long a call waits for its turn.
const SLOT_TIMEOUT: Duration = Duration::from_secs(5);

/// The calls of all teams. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ConcurrencyLimits(Arc<DashMap<TeamName, Places>>);

#[derive(Clone, Debug)]
struct Places {
    daily: Arc<Semaphore>,
    org: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { daily: Arc::new(Semaphore::new(DAILY)), org: Arc::new(Semaphore::new(ORG)) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    pub daily: usize,
    pub org: usize,
}

/// A place in a pool, until it is dropped. A call that is bounded otherwise has none.
pub type Slot = Option<OwnedSemaphorePermit>;

impl ConcurrencyLimits {
    pub fn busy(&self, team: &TeamName) -> Busy {
        let places = self.0.get(team).map(|places| places.clone());
        places.map_or_else(Busy::default, |places| Busy {
            daily: DAILY - places.daily.available_permits(),
            org: ORG - places.org.available_permits(),
        })
    }

    /// Waits for a place, in the order of asking. Without one the call does not run.
    pub async fn enter(
        &self,
        team: &TeamName,
        pool: Pool,
        cancel: &CancellationToken,
    ) -> Result<Slot, ToolError> {
        let places = || self.0.entry(team.clone()).or_default().clone();
        let places = match pool {
            Pool::Daily => places().daily,
            Pool::Structural => places().org,
            Pool::Unbounded => return Ok(None),
        };
        tokio::select! {
            biased;
            permit = places.acquire_owned() => Ok(permit.ok()),
            () = tokio::time::sleep(SLOT_TIMEOUT) => Err(busy()),
            () = cancel.cancelled() => Err(ToolError::new(ToolFault::Cancelled, "Cancelled.")),
        }
    }
}

fn busy() -> ToolError {
    let wait = json!({ "retry_after_ms": 5_000 });
    let message = "too many calls of this team are under way, so this one did not run; try again";
    answer::refuse_with("busy", message, wait)
}

#[cfg(test)]
mod tests {

    use super::*;

    async fn enter(limits: &ConcurrencyLimits, team: &str, pool: Pool) -> Result<Slot, ToolError> {
        let cancel = CancellationToken::new();
        limits.enter(&team.into(), pool, &cancel).await
    }

    /// TO-132, TO-133, TO-135
    #[tokio::test(start_paused = true)]
    async fn a_full_pool_lets_nobody_in_until_somebody_leaves() {
        let limits = ConcurrencyLimits::default();
        let mut inside = Vec::new();
        for _ in 0..DAILY {
            inside.push(enter(&limits, "news", Pool::Daily).await.unwrap());
        }
        let structural = enter(&limits, "news", Pool::Structural).await.unwrap();

        let refused = enter(&limits, "news", Pool::Daily).await.unwrap_err();
        let second = enter(&limits, "news", Pool::Structural).await;

        assert!(refused.message.contains("\"retry_after_ms\":5000"), "{refused}");
        assert!(second.is_err());
        assert_eq!(limits.busy(&"news".into()), Busy { daily: 5, org: 1 });
        assert_eq!(limits.busy(&"other".into()), Busy::default());
        enter(&limits, "other", Pool::Daily).await.unwrap();
        enter(&limits, "news", Pool::Unbounded).await.unwrap();
        drop((inside.pop(), structural));
        enter(&limits, "news", Pool::Daily).await.unwrap();
        assert_eq!(limits.busy(&"news".into()), Busy { daily: 4, org: 0 });
    }

    /// TO-135: whoever waits gets the next place, in order.
    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_its_turn() {
        let limits = ConcurrencyLimits::default();
        let first = enter(&limits, "news", Pool::Structural).await.unwrap();
        let waiting = tokio::spawn({
            let limits = limits.clone();
            async move { enter(&limits, "news", Pool::Structural).await.is_ok() }
        });
        tokio::time::sleep(SLOT_TIMEOUT / 2).await;

        drop(first);

        assert!(waiting.await.unwrap());
    }
}
