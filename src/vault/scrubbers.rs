//! Scrubbers: what must not be seen, for each team as it is now.

use std::sync::{Mutex, PoisonError};

use dashmap::DashMap;
use hivewright_actors::ids::TeamName;

use super::{Vault, scope::Scope};
use crate::scrub::{Mask, Scrubber};

/// Gives each team the scrubber of its own secrets, of those it has given to teams that are not made
/// yet, and of the service's. A team without secrets shares
/// one with all others, and nothing is built anew until a secret changes.
#[derive(Debug)]
pub struct Scrubbers {
    vault: Vault,
    /// Beside the vault's: keys of providers.
    others: Vec<Mask>,
    common: Mutex<Option<Kept>>,
    everything: Mutex<Option<Kept>>,
    names: Mutex<Option<Kept>>,
    teams: DashMap<TeamName, Kept>,
}

/// A scrubber, good for one version of the vault.
#[derive(Clone, Debug)]
struct Kept {
    version: u64,
    scrubber: Scrubber,
}

impl Scrubbers {
    /// Of a vault, and of keys that are not in it.
    pub fn new(vault: Vault, others: impl IntoIterator<Item = Mask>) -> Self {
        Self {
            vault,
            others: others.into_iter().collect(),
            common: Mutex::default(),
            everything: Mutex::default(),
            names: Mutex::default(),
            teams: DashMap::new(),
        }
    }

    /// The vault behind it.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// For what a team does.
    pub fn of(&self, team: &TeamName) -> Scrubber {
        let version = self.vault.version();
        let kept = self.teams.get(team).map(|kept| kept.clone());
        if let Some(kept) = kept
            && kept.version == version
        {
            return kept.scrubber;
        }
        let mut own = self.vault.secrets_of_team(team);
        own.extend(self.vault.secrets_aside_of(team));
        let scrubber = if own.is_empty() { self.common() } else { self.build(own) };
        let kept = Kept { version, scrubber: scrubber.clone() };
        self.teams.insert(team.clone(), kept);
        scrubber
    }

    /// For what leaves to people: the secrets of all teams.
    pub fn everything(&self) -> Scrubber {
        self.kept(&self.everything, || {
            let mut masks = self.vault.all_secrets();
            masks.extend(self.others.iter().cloned());
            Scrubber::with(masks)
        })
    }

    /// The same for names, which are made of the words of texts.
    pub fn names(&self) -> Scrubber {
        self.kept(&self.names, || {
            let mut masks = self.vault.all_secrets();
            masks.extend(self.others.iter().cloned());
            masks.extend(masks.clone().iter().flat_map(Mask::words));
            Scrubber::with(masks)
        })
    }

    /// For a team without secrets.
    fn common(&self) -> Scrubber {
        self.kept(&self.common, || self.build(Vec::new()))
    }

    /// Own values first: where the service uses the same value, the team knows it by its key.
    fn build(&self, mut masks: Vec<Mask>) -> Scrubber {
        masks.extend(self.vault.secrets_of([&Scope::System]));
        masks.extend(self.others.iter().cloned());
        Scrubber::with(masks)
    }

    fn kept(&self, place: &Mutex<Option<Kept>>, build: impl FnOnce() -> Scrubber) -> Scrubber {
        let version = self.vault.version();
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*place
            && kept.version == version
        {
            return kept.scrubber.clone();
        }
        let scrubber = build();
        *place = Some(Kept { version, scrubber: scrubber.clone() });
        scrubber
    }
}
