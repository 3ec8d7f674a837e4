//! Gate of a team's browser: what its proxy lets through, and what it did not.

use std::sync::Arc;

use hivewright_actors::{ids::TeamName, policy::Subject};
use parking_lot::Mutex;
use reqwest::Url;

use super::snapshot::cut;
use crate::{
    sandbox::egress::{EgressError, gate::Gate},
    scrub::Scrubber,
    settings::egress::Egress,
};

/// Failures that are told, and the length of an address in one, in characters.
const MOST_FAILURES: usize = 10;
const LONGEST_URL: usize = 200;

/// Whether a host may be reached that the settings allow; the error says why not.
pub type Admit = Arc<dyn Fn(&str, &Subject) -> Result<(), String> + Send + Sync>;

/// What a team may reach now.
#[derive(Clone)]
pub struct Terms {
    pub team: TeamName,
    /// On whose behalf.
    pub subject: Subject,
    pub egress: Arc<Egress>,
    /// None leaves it as it was.
    pub admit: Option<Admit>,
    /// What must not be seen of the words of pages. What is cut off a text may be the end of a secret, so it is needed here.
    pub scrubber: Scrubber,
}

/// The gate of one browser.
pub(super) struct TeamGate(Mutex<State>);

struct State {
    terms: Terms,
    /// Bytes that went through since the call began.
    spent: u64,
    failures: Failures,
}

/// What did not get through.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) list: Vec<(Url, EgressError)>,
    /// Those that are not kept.
    more: usize,
}

impl TeamGate {
    pub(super) fn new(terms: Terms) -> Self {
        Self(Mutex::new(State { terms, spent: 0, failures: Failures::default() }))
    }

    /// The terms of a call, which hold until the next.
    pub(super) fn set(&self, mut terms: Terms) {
        let mut state = self.0.lock();
        terms.admit = terms.admit.or_else(|| state.terms.admit.take());
        (state.terms, state.spent) = (terms, 0);
    }

    pub(super) fn scrubber(&self) -> Scrubber {
        self.0.lock().terms.scrubber.clone()
    }

    /// What failed since the last time.
    pub(super) fn take_failures(&self) -> Failures {
        std::mem::take(&mut self.0.lock().failures)
    }
}

impl Gate for TeamGate {
    fn team(&self) -> TeamName {
        self.0.lock().terms.team.clone()
    }

    fn egress(&self) -> Arc<Egress> {
        Arc::clone(&self.0.lock().terms.egress)
    }

    fn admit(&self, host: &str) -> Result<(), String> {
        let Terms { admit, subject, .. } = self.0.lock().terms.clone();
        admit.map_or(Ok(()), |admit| admit(host, &subject))
    }

    fn spend(&self, bytes: u64) -> u64 {
        let mut state = self.0.lock();
        state.spent += bytes;
        state.spent
    }

    fn failed(&self, url: &Url, error: EgressError) {
        let Failures { list, more } = &mut self.0.lock().failures;
        // A browser tries some things twice.
        if list.iter().any(|(known, _)| known == url) {
            return;
        }
        if list.len() < MOST_FAILURES {
            list.push((url.clone(), error));
        } else {
            *more += 1;
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

#[cfg(test)]
mod tests {
    use hivewright_actors::task::{Label, cause::Cause};

    use super::*;

    /// SC-61, TO-28: a rule about hosts sees whoever calls now, and a call has its own share of bytes.
    #[test]
    fn the_terms_of_a_call_are_those_of_whoever_calls() {
        let terms = |label: Label, admit: Option<Admit>| Terms {
            team: "ops".into(),
            subject: Subject::of(&Cause::System, label),
            egress: Arc::default(),
            admit,
            scrubber: Scrubber::default(),
        };
        let trusted_only: Admit =
            Arc::new(
                |_, subject| {
                    if subject.untrusted { Err("a rule says no".to_owned()) } else { Ok(()) }
                },
            );

        let gate = TeamGate::new(terms(Label::Trusted, Some(trusted_only)));
        let opened = (gate.admit("a.example"), gate.spend(7), gate.spend(1));
        gate.set(terms(Label::Untrusted, None));
        let clicked = (gate.admit("a.example"), gate.spend(1));

        assert_eq!(opened, (Ok(()), 7, 8));
        assert_eq!(clicked, (Err("a rule says no".to_owned()), 1));
    }
}
