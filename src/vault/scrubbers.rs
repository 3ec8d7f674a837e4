//! Scrubbers: what must not be seen, for each team as it is now.

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
    /// Each with the version of the vault that it is good for.
    kept: DashMap<Audience, (u64, Scrubber)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Audience {
    Team(TeamName),
    /// All teams without secrets.
    AnyTeam,
    People,
    /// Names for people, which are made of the words of texts.
    Names,
}

impl Scrubbers {
    /// Of a vault, and of keys that are not in it.
    pub fn new(vault: Vault, others: impl IntoIterator<Item = Mask>) -> Self {
        Self { vault, others: others.into_iter().collect(), kept: DashMap::new() }
    }

    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    pub fn of(&self, team: &TeamName) -> Scrubber {
        self.kept(Audience::Team(team.clone()), || {
            let is_own = |scope: &Scope| scope.team().is_some_and(|of| of.name == *team);
            let own = self.vault.secrets_of(is_own);
            if own.is_empty() {
                return self.kept(Audience::AnyTeam, || self.build(Vec::new()));
            }
            self.build(own)
        })
    }

    /// For what leaves to people: the secrets of all teams.
    pub fn everything(&self) -> Scrubber {
        self.kept(Audience::People, || Scrubber::with(self.all()))
    }

    /// The same for names, which are made of the words of texts.
    pub fn names(&self) -> Scrubber {
        self.kept(Audience::Names, || {
            let mut masks = self.all();
            masks.extend(masks.clone().iter().flat_map(Mask::words));
            Scrubber::with(masks)
        })
    }

    fn all(&self) -> Vec<Mask> {
        let mut masks = self.vault.all_secrets();
        masks.extend(self.others.iter().cloned());
        masks
    }

    /// Own values first: where the service uses the same value, the team knows it by its key.
    fn build(&self, mut masks: Vec<Mask>) -> Scrubber {
        masks.extend(self.vault.secrets_of(|scope| *scope == Scope::System));
        masks.extend(self.others.iter().cloned());
        Scrubber::with(masks)
    }

    fn kept(&self, of: Audience, build: impl FnOnce() -> Scrubber) -> Scrubber {
        let version = self.vault.version();
        let kept = self.kept.get(&of).map(|kept| kept.clone());
        if let Some((built_at, scrubber)) = kept
            && built_at == version
        {
            return scrubber;
        }
        let scrubber = build();
        self.kept.insert(of, (version, scrubber.clone()));
        scrubber
    }
}
