//! Entries that come and go with a team, in the commit that makes or removes it.

use hivewright_actors::{ids::TeamKey, store::records::Writes};

use super::{
    Turn, Vault,
    audit::{self, Action, Actor},
    entry::Put,
    error::VaultError,
    plan::{self, Plan},
    scope::Scope,
    state::Effect,
};

/// Changes of the vault that someone else makes durable. Until this is dropped, nothing else in the
/// vault changes.
#[must_use = "the changes count once they are committed and `committed` was called"]
pub struct Pending {
    vault: Vault,
    writes: Writes,
    effects: Vec<Effect>,
    turn: Turn,
}

impl Pending {
    /// What is to be committed, all of it, with whatever else belongs to it. Empty at the second
    /// call.
    pub fn take_writes(&mut self) -> Writes {
        std::mem::take(&mut self.writes)
    }

    /// It is durable: from now on it counts. Dropped without this call, nothing has changed.
    pub async fn committed(self) {
        self.vault.realise(self.turn, self.effects).await;
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl Vault {
    /// The credentials of a team that is being made, as its secrets.
    pub async fn new_team(
        &self,
        team: &TeamKey,
        credentials: impl IntoIterator<Item = (String, String)>,
        actor: &Actor,
    ) -> Result<Pending, VaultError> {
        let scope = Scope::Team(team.clone());
        let turn = self.turn().await;
        let mut plan = Plan::default();
        let mut state = self.state().emptied();
        for (key, value) in credentials {
            let mut put = Put::secret(value);
            let value = put.value.clone();
            put.note = Some("given when the team was made".to_owned());
            let (step, _) = plan::set(&state, &scope, &key, &put, value, actor, self.now())?;
            plan.change.extend(step.change);
            for effect in step.effects {
                state.apply(effect.clone());
                plan.effects.push(effect);
            }
            let row = self.row(&scope, Some(&key), Action::Set, actor);
            plan.change.audit(audit::name(row.at), &row);
        }
        Ok(self.pending(turn, plan))
    }

    /// Removes all entries of a team, its data key first.
    pub async fn forget_team(&self, team: &TeamKey, actor: &Actor) -> Pending {
        let scope = Scope::Team(team.clone());
        let turn = self.turn().await;
        let mut plan = Plan::default();
        plan.change.drop_data_key(&scope);
        for item in self.state().entries(&scope) {
            plan.change.drop_entry(&scope, &item.entry.key);
        }
        let row = self.row(&scope, None, Action::Forget, actor);
        plan.change.audit(audit::name(row.at), &row);
        plan.effects.push(Effect::Forget(scope));
        self.pending(turn, plan)
    }

    fn pending(&self, turn: Turn, plan: Plan) -> Pending {
        Pending {
            vault: self.clone(),
            writes: plan.change.writes(),
            effects: plan.effects,
            turn,
        }
    }
}
