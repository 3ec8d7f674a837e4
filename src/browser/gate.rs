//! Gate of a team's browser: what its proxy lets through, and what it did not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Url;

use super::snapshot::cut;
use crate::{
    sandbox::egress::{EgressError, proxy::Gate},
    scrub::Scrubber,
    settings::egress::Egress,
};

/// Failures that are told, and the length of an address in one, in characters.
const MOST_FAILURES: usize = 10;
const LONGEST_URL: usize = 200;

/// Whether a host may be reached that the settings allow; the error says why not.
pub type Admit = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What a team may reach now.
#[derive(Clone)]
pub struct Terms {
    pub egress: Arc<Egress>,
    /// None leaves it as it was.
    pub admit: Option<Admit>,
    /// What must not be seen of the words of pages. What is cut off a text may be the end of a secret, so it is needed here.
    pub scrubber: Scrubber,
}

/// The gate of one browser.
#[derive(Default)]
pub(super) struct TeamGate(Mutex<State>);

#[derive(Default)]
struct State {
    egress: Arc<Egress>,
    admit: Option<Admit>,
    scrubber: Scrubber,
    failures: Vec<(Url, EgressError)>,
    /// Failures that are not kept.
    more: usize,
}

/// What did not get through.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) list: Vec<(Url, EgressError)>,
    more: usize,
}

impl TeamGate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terms of a call, which hold until the next.
    pub(super) fn set(&self, Terms { egress, admit, scrubber }: Terms) {
        let mut state = self.state();
        state.egress = egress;
        state.scrubber = scrubber;
        state.admit = admit.or_else(|| state.admit.take());
    }

    pub(super) fn scrubber(&self) -> Scrubber {
        self.state().scrubber.clone()
    }

    /// What failed since the last time.
    pub(super) fn take_failures(&self) -> Failures {
        let mut state = self.state();
        let list = std::mem::take(&mut state.failures);
        Failures { list, more: std::mem::take(&mut state.more) }
    }
}

impl Gate for TeamGate {
    fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.state().egress)
    }

    fn admit(&self, host: &str) -> Result<(), String> {
        let admit = self.state().admit.clone();
        admit.map_or(Ok(()), |admit| admit(host))
    }

    fn failed(&self, url: &Url, error: EgressError) {
        let mut state = self.state();
        // A browser tries some things twice.
        if state.failures.iter().any(|(known, _)| known == url) {
            return;
        }
        if state.failures.len() < MOST_FAILURES {
            state.failures.push((url.clone(), error));
        } else {
            state.more += 1;
        }
    }
}

impl Failures {
    pub(super) fn lines(&self, scrubber: &Scrubber) -> Vec<String> {
        let line = |(url, error): &(Url, EgressError)| {
            format!("not loaded: {} ({error})", cut(scrubber, url.as_str(), LONGEST_URL))
        };
        let mut lines: Vec<_> = self.list.iter().map(line).collect();
        if self.more > 0 {
            lines.push(format!("not loaded: {} more", self.more));
        }
        lines
    }
}
