//! Token buckets: how often the web tools of a team call.

use std::sync::Arc;

use dashmap::DashMap;
use hivewright_actors::{ids::TeamName, tool::ToolFault};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    settings::egress::{Bucket, Buckets},
    tools::{answer, error::ToolError},
};

/// The buckets of all teams, by the names that their files give them. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Limiter(Arc<DashMap<(TeamName, String), Level>>);

/// What is left in a bucket.
#[derive(Clone, Copy, Debug)]
struct Level {
    tokens: f64,
    at: Instant,
}

impl Level {
    /// Takes a token, or tells how many milliseconds it takes until there is one.
    fn take(&mut self, Bucket { rps, burst }: Bucket, now: Instant) -> Result<(), u64> {
        let refill = now.saturating_duration_since(self.at).as_secs_f64() * rps;
        (self.tokens, self.at) = ((self.tokens + refill).min(f64::from(burst)), now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(((1.0 - self.tokens) / rps * 1_000.0).ceil() as u64)
    }
}

impl Limiter {
    /// Takes a token for a call to a host: from the bucket that the call names, or from that of the host.
    pub(super) fn take(
        &self,
        team: &TeamName,
        buckets: &Buckets,
        named: Option<&str>,
        host: &str,
    ) -> Result<(), ToolError> {
        let found = match named {
            Some(name) => Some(buckets.named(name).ok_or_else(|| unknown(name, buckets))?),
            None => buckets.of_host(host),
        };
        let Some((name, bucket)) = found else { return Ok(()) };
        let now = Instant::now();
        let full = Level { tokens: f64::from(bucket.burst), at: now };
        let mut level = self.0.entry((team.clone(), name.to_owned())).or_insert(full);
        level.take(bucket, now).map_err(|wait| empty(name, wait))
    }
}

fn unknown(name: &str, buckets: &Buckets) -> ToolError {
    let known: Vec<_> = buckets.names().collect();
    let known =
        if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) };
    ToolError::invalid(format!("`rate_limit_key`: there is no bucket `{name}`; there are: {known}"))
}

fn empty(name: &str, wait: u64) -> ToolError {
    let message = format!("too many calls by bucket `{name}` of this team; this one was not made");
    let refusal = answer::refuse_with("rate_limited", message, json!({ "retry_after_ms": wait }));
    ToolError { fault: ToolFault::RateLimited, ..refusal }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// TO-79
    #[tokio::test(start_paused = true)]
    async fn a_bucket_fills_again_and_never_above_its_burst() {
        let bucket = Bucket { rps: 4.0, burst: 2 };
        let start = Instant::now();
        let mut level = Level { tokens: 2.0, at: start };
        let at = |millis| start + Duration::from_millis(millis);

        let taken =
            [0, 0, 0, 100, 250, 251, 60_000, 60_000, 60_000].map(|ms| level.take(bucket, at(ms)));

        assert_eq!(
            taken,
            [Ok(()), Ok(()), Err(250), Err(150), Ok(()), Err(249), Ok(()), Ok(()), Err(250)]
        );
    }
}
