//! Aside: credentials in a call, kept from the moment it is looked at until it runs.
//!
//! A call that makes a team holds credentials in the clear. They leave it before it is journalled,
//! and become secrets of the new team when that is made, be it at once or days later when a person
//! has allowed it.

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{clock::Timestamp, ids::TeamKey, store::records::Writes};
use sha2::{Digest, Sha256};

use super::{
    Vault,
    audit::{self, Action, Actor},
    entry::{self, Entry, Put},
    error::VaultError,
    plan::{self, Plan},
    scope::Scope,
    seal::Plain,
    state::{Content, Effect},
    teams::Pending,
};

/// Nobody decides on a call any more that is older.
const FORGOTTEN: Duration = Duration::from_secs(31 * 24 * 60 * 60);

impl Vault {
    /// Keeps values under a name until a team is made that they belong to. They are scrubbed from
    /// now on. Returns what must be durable with the word that they were taken out. Does not wait.
    pub fn put_aside(
        &self,
        name: &str,
        values: &BTreeMap<String, String>,
        actor: &Actor,
    ) -> Result<Writes, VaultError> {
        let mut state = self.state().only(&Scope::Aside);
        let mut plan = Plan::default();
        for (key, value) in values {
            let put = Put::secret(value.as_str());
            entry::check(key, &put)?;
            let key = key_of(name, key);
            let value = put.value.clone();
            let (step, _) = plan::set(&state, &Scope::Aside, &key, &put, value, actor, self.now())?;
            plan.follow(&mut state, step);
        }
        if self.apply(plan.effects) {
            self.tell();
        }
        Ok(plan.change.writes())
    }

    /// Makes the values under a name secrets of a team that is being made.
    pub async fn hand_over(
        &self,
        name: &str,
        keys: &[String],
        team: &TeamKey,
        actor: &Actor,
    ) -> Result<Pending, VaultError> {
        let scope = Scope::Team(team.clone());
        let turn = self.turn().await;
        let mut plan = Plan::default();
        // A team of this key that was not made in the end has left nothing that counts.
        plan.effects.push(Effect::Forget(scope.clone()));
        let mut state = self.state().only(&scope);
        state.apply(Effect::Forget(scope.clone()));
        for key in keys {
            let kept = key_of(name, key);
            let value = self.kept(&kept, key)?;
            let put = Put {
                value: Some(value.clone()),
                secret: Some(true),
                note: Some("given when the team was made".to_owned()),
                ..Put::default()
            };
            let (step, _) = plan::set(&state, &scope, key, &put, Some(value), actor, self.now())?;
            plan.follow(&mut state, step);
            plan.change.drop_entry(&Scope::Aside, &kept);
            plan.effects.push(Effect::Drop(Scope::Aside, kept));
            let row = self.row(&scope, Some(key), Action::Set, actor);
            plan.change.audit(audit::name(row.at), &row);
        }
        Ok(self.pending(turn, plan))
    }

    fn kept(&self, kept: &str, key: &str) -> Result<Plain, VaultError> {
        let state = self.state();
        state.unlocked()?;
        match state.find(&Scope::Aside, kept).map(|item| &item.content) {
            Some(Content::Secret(value)) => Ok(value.clone()),
            _ => Err(VaultError::NotFound {
                key: key.to_owned(),
                near: Vec::new(),
            }),
        }
    }
}

/// Names hold what models wrote, so they are not used as they are.
fn key_of(name: &str, key: &str) -> String {
    let digest = Sha256::digest(format!("{name}\0{key}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value that nobody will come for.
pub(super) fn is_forgotten(scope: &Scope, entry: &Entry, now: Timestamp) -> bool {
    *scope == Scope::Aside && entry.created_at + FORGOTTEN < now
}
