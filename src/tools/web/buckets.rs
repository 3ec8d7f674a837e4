//! Token buckets: how often the web tools of a team call.

use std::{sync::Arc, time::Duration};

use dashmap::DashMap;
use hivewright_actors::{
    clock::{Timestamp, millis},
    ids::TeamName,
    router::rate::{Bucket, Pace},
    text::quoted,
    tool::ToolFault,
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    settings::egress::Buckets,
    tools::{answer, error::ToolError},
};

/// The buckets of all teams since they were first used, by the names that their files give them. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Limiter(Arc<DashMap<(TeamName, String), (Instant, Bucket)>>);

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
        let Some((name, rate)) = found else { return Ok(()) };
        let pace = Pace::per_second(rate.rps, rate.burst);
        let full = || (Instant::now(), Bucket::new(pace, Timestamp(0)));
        let mut entry = self.0.entry((team.clone(), name.to_owned())).or_insert_with(full);
        let (since, bucket) = &mut *entry;
        // The team's file may have changed meanwhile.
        bucket.set_pace(pace);
        bucket.take(Timestamp(millis(since.elapsed()))).map_err(|wait| empty(name, wait))
    }
}

fn unknown(name: &str, buckets: &Buckets) -> ToolError {
    let known: Vec<_> = buckets.names().collect();
    let known = if known.is_empty() { "none".to_owned() } else { quoted(&known) };
    ToolError::invalid(format!("`rate_limit_key`: there is no bucket `{name}`; there are: {known}"))
}

fn empty(name: &str, wait: Duration) -> ToolError {
    let message = format!("too many calls by bucket `{name}` of this team; this one was not made");
    let refusal =
        answer::refuse_with("rate_limited", message, json!({ "retry_after_ms": millis(wait) }));
    ToolError { fault: ToolFault::RateLimited, ..refusal }
}
