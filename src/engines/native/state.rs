//! What the turns that use a profile share.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    providers::{LeftOut, OptionalField},
    settings::{
        providers::{Profile, Provider},
        secret::Secret,
    },
};

use super::{fair_queue::FairQueue, gate::Gate};

/// Who waits for a profile, until when its provider wants no requests, and what its server refuses.
#[derive(Debug)]
pub(crate) struct ProfileState {
    made_for: Settings,
    pub(in crate::engines) gate: Arc<Gate>,
    left_out: Mutex<LeftOut>,
    /// Nobody asks before: its provider said so, whoever was told.
    limited_until: Mutex<Option<Instant>>,
}

/// The settings that the state depends on: provider, address, key, concurrency and rate.
type Settings = (Provider, Option<String>, Option<Secret>, usize, Option<u32>);

fn settings(profile: &Profile) -> Settings {
    let Profile { provider, api_url, api_key, max_concurrency, requests_per_minute, .. } = profile;
    (*provider, api_url.clone(), api_key.clone(), *max_concurrency, *requests_per_minute)
}

impl ProfileState {
    pub(crate) fn new(profile: &Profile) -> Self {
        let queue = FairQueue::new(profile.max_concurrency, profile.requests_per_minute);
        Self {
            made_for: settings(profile),
            gate: Arc::new(Gate::new(queue)),
            left_out: Mutex::default(),
            limited_until: Mutex::default(),
        }
    }

    /// The profile still is as it was when this state was made.
    pub(crate) fn fits(&self, profile: &Profile) -> bool {
        self.made_for == settings(profile)
    }

    pub(super) fn left_out(&self) -> LeftOut {
        *self.left_out.lock()
    }

    pub(super) fn leave_out(&self, field: OptionalField) {
        let mut left_out = self.left_out.lock();
        *left_out = left_out.with(field);
    }

    /// How long nobody is to ask.
    pub(super) fn limited_for(&self) -> Option<Duration> {
        let until = *self.limited_until.lock();
        let rest = until?.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }

    /// Nobody asks for so long.
    pub(super) fn limit(&self, pause: Duration) {
        let mut until = self.limited_until.lock();
        *until = until.max(Some(Instant::now() + pause));
    }
}
