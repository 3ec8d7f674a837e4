//! Changes of a vault whose storage no store is running on.

use hivewright_actors::store::records::Writes;

use super::{
    Vault,
    audit::{self, Action, Actor},
    entry::Put,
    error::VaultError,
    plan::{self, Plan},
    scope::Scope,
};

impl Vault {
    /// Sets entries of a scope. Returns what is to be committed, with whatever else belongs to it.
    ///
    /// Here they count from this call on, so a vault whose commit failed is not to be used further.
    pub fn set_at_rest(
        &self,
        scope: &Scope,
        puts: impl IntoIterator<Item = (String, Put)>,
        actor: &Actor,
    ) -> Result<Writes, VaultError> {
        let mut change = Plan::default().change;
        for (key, put) in puts {
            let value = put.value.clone();
            let planned = plan::set(&self.state(), scope, &key, &put, value, actor, self.now());
            let (plan, _) = planned?;
            change.extend(plan.change);
            self.apply(plan.effects);
            let row = self.row(scope, Some(&key), Action::Set, actor);
            change.audit(audit::name(row.at), &row);
        }
        Ok(change.writes())
    }
}
