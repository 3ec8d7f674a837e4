//! The vault tools: what a team keeps for itself, and references to its secrets.

use std::time::Duration;

use super::{
    contract::{Limits, ToolContext},
    host::Toolbox,
    registry::Registered,
    secrets,
};
use crate::vault::{audit::Actor, scope::Scope};

mod credentials;
mod delete;
mod get;
mod list;
mod set;

pub(super) const TOOLS: &[Registered] = &[
    Registered::of::<delete::VaultDelete>(),
    Registered::of::<get::VaultGet>(),
    Registered::of::<list::VaultList>(),
    Registered::of::<set::VaultSet>(),
];

/// A look or a change takes one commit.
const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));

/// The tools that exist, and those of the vault.
pub fn add(toolbox: Toolbox) -> Toolbox {
    toolbox.with(delete::VaultDelete).with(get::VaultGet).with(list::VaultList).with(set::VaultSet)
}

/// The calling team's own entries, and the team as their user.
fn own(cx: &ToolContext) -> (Scope, Actor) {
    (Scope::Team(cx.caller.team.clone()), secrets::actor(&cx.caller))
}
