//! What the turns that use a profile share.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    providers::{LeftOut, OptionalField},
    settings::providers::{Profile, Provider},
};

use super::{gate::Gate, line::Line};

/// Who waits for a profile, and what its server refuses.
#[derive(Debug)]
pub(crate) struct ProfileState {
    made_for: Settings,
    pub(in crate::engines) gate: Arc<Gate>,
    left_out: Mutex<LeftOut>,
}

/// The settings that the state depends on: provider, address, concurrency and rate.
type Settings = (Provider, Option<String>, usize, Option<u32>);

fn settings(profile: &Profile) -> Settings {
    let Profile { provider, api_url, max_concurrency, requests_per_minute, .. } = profile;
    (*provider, api_url.clone(), *max_concurrency, *requests_per_minute)
}

impl ProfileState {
    pub(crate) fn new(profile: &Profile) -> Self {
        let line = Line::new(profile.max_concurrency, profile.requests_per_minute);
        Self {
            made_for: settings(profile),
            gate: Arc::new(Gate::new(line)),
            left_out: Mutex::default(),
        }
    }

    /// The profile still is as it was when this state was made.
    pub(crate) fn fits(&self, profile: &Profile) -> bool {
        self.made_for == settings(profile)
    }

    pub(super) fn left_out(&self) -> LeftOut {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn leave_out(&self, field: OptionalField) {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        *left_out = left_out.with(field);
    }
}
