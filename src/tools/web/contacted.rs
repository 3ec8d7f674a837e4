//! Contacted hosts: where each conversation has been, so that data in an address to a new place is noticed.

use std::{collections::HashSet, sync::Arc};

use dashmap::DashMap;
use hivewright_actors::{
    policy::caution::{Caution, Kind, Risk},
    tool::Caller,
};
use reqwest::Url;

use crate::settings::network::host_name;

/// The longest path and query, in characters, that go to a new host without a question.
const LONGEST: usize = 256;
/// Conversations that are remembered; then all are forgotten, which asks more, not less.
const MOST_CONVERSATIONS: usize = 1_000;
/// Hosts of one that are remembered.
const MOST_HOSTS: usize = 1_000;

/// The hosts of all conversations since the service began. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::tools) struct Contacted(Arc<DashMap<String, HashSet<String>>>);

impl Contacted {
    pub(in crate::tools) fn note(&self, caller: &Caller, host: &str) {
        let name = name(caller);
        if self.0.len() >= MOST_CONVERSATIONS && !self.0.contains_key(&name) {
            self.0.clear();
        }
        let mut hosts = self.0.entry(name).or_default();
        if hosts.len() < MOST_HOSTS {
            hosts.insert(host.to_owned());
        }
    }

    /// What speaks against reading an address: it could carry data to somebody.
    pub(in crate::tools) fn caution(&self, caller: &Caller, url: &Url) -> Option<Caution> {
        let length = url.path().len() + url.query().map_or(0, |query| query.len() + 1);
        let host = host_name(url)?;
        let is_known = || self.0.get(&name(caller)).is_some_and(|hosts| hosts.contains(&host));
        if length <= LONGEST || is_known() {
            return None;
        }
        let why = format!(
            "the address gives {host} {length} characters, this conversation was never there, and this turn has \
             read untrusted content"
        );
        Some(Caution::new(Kind::Tool, Risk::Normal, why))
    }
}

/// A conversation of a team.
fn name(caller: &Caller) -> String {
    caller.lane.session_id(caller.team.generation)
}
