//! The stash: credentials in a call, kept from the moment it is looked at until it runs.
//!
//! A call that makes a team holds credentials in the clear. They leave it before it is journalled,
//! as secrets of the calling team under names of their own, and move on when the team is made, be
//! that at once or days later when a person has allowed it.

use std::time::Duration;

use hivewright_actors::{clock::Timestamp, ids::TeamKey, store::records::Writes};

use super::{
    Vault,
    audit::{self, Action, Actor},
    entry::{Entry, Put},
    error::VaultError,
    expand::BEGIN,
    plan::{self, Plan},
    scope::Scope,
    seal::Plain,
    state::{Content, State},
};

/// What keys of the stash begin with.
const PREFIX: &str = "stash.";
/// Nobody decides on a call any more that is older.
const FORGOTTEN: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// Credentials that were taken out of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Stashed {
    /// What stands in their place, in the same order.
    pub references: Vec<String>,
    /// What must be durable with the journal's word of the call.
    pub writes: Writes,
}

impl Vault {
    /// Takes credentials out of a call. They are scrubbed from now on. Does not wait.
    pub fn stash<'a>(
        &self,
        team: &TeamKey,
        credentials: impl IntoIterator<Item = (&'a str, &'a str)>,
        actor: &Actor,
    ) -> Result<Stashed, VaultError> {
        let scope = Scope::Team(team.clone());
        let mark = getrandom::u64().map_err(|_| VaultError::Randomness)?;
        let mut state = self.scratch(&scope);
        let mut plan = Plan::default();
        let mut references = Vec::new();
        for (name, value) in credentials {
            let key = format!("{PREFIX}{mark:016x}.{name}");
            let put = Put {
                tools: Some(Vec::new()),
                note: Some("waits for the team that it is meant for".to_owned()),
                ..Put::secret(value)
            };
            let value = put.value.clone();
            let step = plan::set(&state, &scope, &key, &put, value, actor, self.now())?;
            plan.follow(&mut state, step.0);
            let row = self.row(&scope, Some(&key), Action::Set, actor);
            plan.change.audit(audit::name(row.at), &row);
            references.push(format!("{BEGIN}{key}}}"));
        }
        if self.apply(plan.effects) {
            self.tell();
        }
        Ok(Stashed {
            references,
            writes: plan.change.writes(),
        })
    }

    /// A copy of what is known of a scope, to plan several steps on.
    pub(super) fn scratch(&self, scope: &Scope) -> State {
        self.state().only(scope)
    }
}

/// The value that a reference to the stash of a scope stands for, and its key. None if the text is
/// no such reference.
pub(super) fn find<'t>(
    state: &State,
    scope: &Scope,
    text: &'t str,
) -> Option<Result<(&'t str, Plain), VaultError>> {
    let key = text.strip_prefix(BEGIN)?.strip_suffix('}')?;
    if !key.starts_with(PREFIX) {
        return None;
    }
    Some(state.get(scope, key).and_then(|item| match &item.content {
        Content::Secret(value) => Ok((key, value.clone())),
        _ => Err(plan::corrupt(scope, key)),
    }))
}

/// An entry that nobody will come for.
pub(super) fn is_forgotten(entry: &Entry, now: Timestamp) -> bool {
    entry.key.starts_with(PREFIX) && entry.created_at + FORGOTTEN < now
}
