//! A redactor that knows one secret.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    ids::TeamName,
    storage::{Storage, StorageError},
    store::redact::Redactor,
};

/// Takes one value out of what some teams wrote, once it is a secret.
pub(crate) struct Knows {
    value: &'static str,
    teams: &'static [&'static str],
    is_secret: AtomicBool,
}

impl Knows {
    pub(crate) fn later(value: &'static str, teams: &'static [&'static str]) -> Self {
        Self { value, teams, is_secret: AtomicBool::new(false) }
    }

    /// From now on it is one.
    pub(crate) fn learn_secret(&self) {
        self.is_secret.store(true, Ordering::SeqCst);
    }
}

impl Redactor for Knows {
    fn learn(&self, _: &dyn Storage) -> Result<(), StorageError> {
        Ok(())
    }

    fn suspects(&self, text: &str) -> bool {
        self.is_secret.load(Ordering::SeqCst) && text.contains(self.value)
    }

    fn clean(&self, team: &TeamName, text: &str) -> Option<String> {
        let concerns = self.teams.contains(&team.as_str()) && text.contains(self.value);
        concerns.then(|| text.replace(self.value, "${vault:K}"))
    }

    fn clean_name(&self, team: &TeamName, name: &str) -> Option<String> {
        self.clean(team, name)
    }
}
