//! Limits: how many requests one token may make, and how many at once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dashmap::DashMap;
use hivewright_actors::{
    clock::Timestamp,
    ids::CredentialId,
    router::rate::{Bucket, Rate},
};

use super::error::{ApiError, ApiResult};

const RATE: Rate = Rate { per_minute: 3_000, burst: 3_000 };
/// Requests of one token that are answered at the same time.
const AT_ONCE: usize = 64;
/// Streams of one token that are open at the same time, beside its requests.
const STREAMS: usize = 64;
/// Tokens that are remembered; those that are idle go when there are more.
const MOST_TOKENS: usize = 2_048;

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
pub(super) struct Running(Arc<AtomicUsize>);

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
    pub(super) fn admit(&self, token: &CredentialId, now: Timestamp) -> ApiResult<Running> {
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
    pub(super) fn open_stream(&self, token: &CredentialId, now: Timestamp) -> ApiResult<Running> {
        let usage = self.0.entry(token.clone()).or_insert_with(|| Usage::new(now));
        let reason = "64 streams of this token are open; close one";
        Running::among(&usage.streams, STREAMS).ok_or_else(|| ApiError::rate_limited(reason))
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
