//! Deciders: whether anybody but one principal could decide on an approval.

use std::{fmt, sync::Arc};

use crate::ids::{PrincipalId, TeamName};

type Others = dyn Fn(&PrincipalId, &TeamName) -> bool + Send + Sync;

/// Who may decide, as the edges know it. Cheap to clone.
#[derive(Clone)]
pub struct Deciders(Arc<Others>);

impl Deciders {
    /// The lookup tells whether somebody else than this principal may decide on calls of a team.
    pub fn new(others: impl Fn(&PrincipalId, &TeamName) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(others))
    }

    /// Nobody else could decide.
    pub(super) fn is_alone(&self, who: &PrincipalId, team: &TeamName) -> bool {
        !(self.0)(who, team)
    }
}

impl fmt::Debug for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deciders")
    }
}
