//! Grant: what one team is given of the tools, and what its calls go by.

use std::{borrow::Cow, sync::Arc};

use hivewright_actors::ids::TeamName;

use super::filter::ToolFilter;
use crate::{
    policy::Policies,
    sandbox::{process::Sandbox, workspace::Workspace},
    settings::team::Team,
    taint::Taint,
    vault::scrubbers::Scrubbers,
};

/// What one team is given.
#[derive(Clone)]
pub struct Grant {
    pub team: TeamName,
    pub workspace: Arc<Workspace>,
    pub allowed: ToolFilter,
    pub sandbox: Arc<Sandbox>,
    /// The secrets it uses and must not see.
    pub secrets: Arc<Scrubbers>,
    /// What the operator allows, denies or wants to be asked for.
    pub rules: Policies,
    /// Which files untrusted turns wrote.
    pub taint: Taint,
    /// What its file says.
    pub file: Arc<Team>,
}

impl Grant {
    /// A text without the secrets that the team must not see. Whoever shortens one does it afterwards: half a secret is
    /// not known as one.
    pub(super) fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.of(&self.team).scrub(text)
    }
}
