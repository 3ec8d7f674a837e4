//! Rate limits: requests of one token, calls of one webhook, and lines that strangers make in the audit log.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::DashMap;
use hivewright_actors::{
    clock::Timestamp,
    ids::{CredentialId, PrincipalId},
    router::rate::{Bucket, Rate},
};
use parking_lot::Mutex;

use super::error::{ApiError, ApiResult};

const RATE: Rate = Rate { per_minute: 3_000, burst: 3_000 };
/// Requests of one token that are answered at the same time.
const AT_ONCE: usize = 64;
/// Streams of one token that are open at the same time, beside its requests.
const STREAMS: usize = 64;
/// Tokens that are remembered; those that are idle go when there are more.
const MOST_TOKENS: usize = 2_048;

/// Whoever has not logged in makes no more lines than this, nor does a principal whose reads are denied.
const STRANGERS_RATE: Rate = Rate { per_minute: 30, burst: 30 };

/// What each token asked for lately. Sessions count as the token that opened them.
#[derive(Debug, Default)]
pub struct Limits(DashMap<CredentialId, Usage>);

#[derive(Debug)]
struct Usage {
    bucket: Bucket,
    running: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
}

impl Usage {
    fn new(now: Timestamp) -> Self {
        Self { bucket: Bucket::new(RATE, now), running: Arc::default(), streams: Arc::default() }
    }

    fn is_idle(&self, now: Timestamp) -> bool {
        let none = |count: &AtomicUsize| count.load(Ordering::Acquire) == 0;
        none(&self.running) && none(&self.streams) && self.bucket.is_full(now)
    }
}

/// A request that is being answered, or a stream that is open, until this is dropped.
#[derive(Debug)]
pub(in crate::http) struct Running(Arc<AtomicUsize>);

impl Running {
    /// One more, if there are not too many.
    fn among(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let running = Self(count.clone());
        (count.fetch_add(1, Ordering::AcqRel) < most).then_some(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Limits {
    /// Lets a request of a token in, or says that there are too many.
    pub(in crate::http) fn admit(
        &self,
        token: &CredentialId,
        now: Timestamp,
    ) -> ApiResult<Running> {
        if self.0.len() >= MOST_TOKENS && !self.0.contains_key(token) {
            self.0.retain(|_, usage| !usage.is_idle(now));
        }
        let mut usage = self.0.entry(token.clone()).or_insert_with(|| Usage::new(now));
        if usage.bucket.take(now).is_err() {
            let reason = "this token has made 3,000 requests in a minute; slow down";
            return Err(ApiError::rate_limited(reason));
        }
        let reason = "64 requests of this token are under way; wait for one to end";
        Running::among(&usage.running, AT_ONCE).ok_or_else(|| ApiError::rate_limited(reason))
    }

    /// Lets a stream of a token be open, or says that there are too many. The request that asks for it
    /// ends when it begins.
    pub(in crate::http) fn open_stream(
        &self,
        token: &CredentialId,
        now: Timestamp,
    ) -> ApiResult<Running> {
        let usage = self.0.entry(token.clone()).or_insert_with(|| Usage::new(now));
        let reason = "64 streams of this token are open; close one";
        Running::among(&usage.streams, STREAMS).ok_or_else(|| ApiError::rate_limited(reason))
    }
}

/// How often each webhook was called lately.
#[derive(Default)]
pub struct Callers(DashMap<String, (u32, Bucket)>);

impl Callers {
    /// Lets one call in of those that a webhook takes in a minute.
    pub(in crate::http) fn admit(&self, hook: &str, most: u32, now: Timestamp) -> ApiResult<()> {
        let rate = Rate { per_minute: most, burst: most };
        let fresh = || (most, Bucket::new(rate, now));
        let mut caller = self.0.entry(hook.to_owned()).or_insert_with(fresh);
        if caller.0 != most {
            *caller = fresh();
        }
        caller.1.take(now).map_err(|_| ApiError::rate_limited("too many calls; slow down"))
    }
}

/// Keeps strangers, and those who only look, from filling the store.
#[derive(Debug, Default)]
pub struct Strangers(Mutex<HashMap<Option<PrincipalId>, Bucket>>);

impl Strangers {
    /// There is room for a line of somebody; none is all strangers together.
    pub(in crate::http) fn admit(&self, who: Option<&PrincipalId>, now: Timestamp) -> bool {
        let mut buckets = self.0.lock();
        let bucket = buckets.entry(who.cloned());
        let bucket = bucket.or_insert_with(|| Bucket::new(STRANGERS_RATE, now));
        bucket.take(now).is_ok()
    }
}

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);

    fn token(name: &str) -> CredentialId {
        CredentialId::from(name.to_owned())
    }

    /// OP-08
    #[test]
    fn a_token_has_3000_requests_a_minute_and_others_have_their_own() {
        let limits = Limits::default();

        let admitted = (0..4_000).filter(|_| limits.admit(&token("a"), NOW).is_ok());

        assert_eq!(admitted.count(), 3_000);
        assert!(limits.admit(&token("b"), NOW).is_ok());
        let later = NOW + Duration::from_secs(1);
        let again = (0..4_000).filter(|_| limits.admit(&token("a"), later).is_ok());
        assert_eq!(again.count(), 50);
    }

    /// OP-08
    #[test]
    fn a_token_has_64_requests_at_once() {
        let limits = Limits::default();
        let mut held: Vec<Running> =
            (0..64).map(|_| limits.admit(&token("a"), NOW).unwrap()).collect();

        assert!(limits.admit(&token("a"), NOW).is_err());
        assert!(limits.admit(&token("a"), NOW).is_err());
        assert!(limits.admit(&token("b"), NOW).is_ok());
        held.pop();
        assert!(limits.admit(&token("a"), NOW).is_ok());
    }
}
