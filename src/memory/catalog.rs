//! Catalog of a team's memory: what is known of its entries without reading them. Made from the rows, kept in step, and
//! thrown away without loss.

use std::{collections::BTreeMap, sync::Arc};

use hivewright_actors::clock::Timestamp;
use parking_lot::RwLock;

use super::{
    chain::Change,
    entry::{Entry, Key},
    inject::{Candidate, Injection, set_in},
    search::Index,
};

/// An active entry without its content.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Card {
    pub(super) entry: Candidate,
    pub(super) expires_at: Option<Timestamp>,
    is_injected: bool,
}

impl Card {
    fn of(entry: &Entry) -> Self {
        Self {
            entry: Candidate {
                id: entry.id.clone(),
                key: entry.key.clone(),
                version: entry.version,
                kind: entry.kind,
                characters: set_in(&entry.content).chars().count(),
                pinned: entry.pinned,
                updated_at: entry.updated_at,
            },
            expires_at: entry.expires_at,
            is_injected: Injection::refused(entry).is_none(),
        }
    }
}

/// All keys of a team, each with its active version.
#[derive(Debug, Default)]
pub(super) struct MemoryCatalog {
    cards: BTreeMap<Key, Option<Card>>,
    /// Made when it is first asked for.
    index: Option<Arc<RwLock<Index>>>,
}

impl MemoryCatalog {
    /// Takes an entry in as its row says.
    pub(super) fn put(&mut self, entry: &Entry) {
        let card = self.cards.entry(entry.key.clone()).or_default();
        if entry.active {
            *card = Some(Card::of(entry));
        } else if card.as_ref().is_some_and(|card| card.entry.id == entry.id) {
            *card = None;
        }
        if let Some(index) = &self.index {
            let mut index = index.write();
            if is_found(entry) { index.put(entry) } else { index.remove(&entry.id) }
        }
    }

    /// Takes a change in. Former versions come before what replaces them.
    pub(super) fn apply(&mut self, change: &Change) {
        for entry in &change.put {
            self.put(entry);
        }
    }

    /// Whether there was ever anything under a key.
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.cards.contains_key(key)
    }

    pub(super) fn active(&self) -> impl Iterator<Item = (&Key, &Card)> {
        self.cards.iter().filter_map(|(key, card)| Some((key, card.as_ref()?)))
    }

    /// What may go into a prompt.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let injected = self.active().filter(|(_, card)| card.is_injected);
        injected.map(|(_, card)| card.entry.clone()).collect()
    }

    /// The keys whose active version is over.
    pub(super) fn over(&self, now: Timestamp) -> Vec<Key> {
        self.active()
            .filter(|(_, card)| card.expires_at.is_some_and(|at| at <= now))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// When the next active version will be over.
    pub(super) fn next_end(&self) -> Option<Timestamp> {
        self.active().filter_map(|(_, card)| card.expires_at).min()
    }

    pub(super) fn index(&self) -> Option<Arc<RwLock<Index>>> {
        self.index.clone()
    }

    pub(super) fn set_index(&mut self, index: Index) -> Arc<RwLock<Index>> {
        let index = Arc::new(RwLock::new(index));
        self.index = Some(index.clone());
        index
    }
}

/// Whether a search finds it without being asked for old versions.
pub(super) fn is_found(entry: &Entry) -> bool {
    entry.active || entry.is_proposal()
}
