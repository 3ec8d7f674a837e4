//! Deciders: whether anybody but one principal could decide on an approval.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::ids::{PrincipalId, TeamName};

type Others = dyn Fn(&PrincipalId, &TeamName) -> bool + Send + Sync;

/// Who may decide, as the edges know it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Deciders(Arc<OnceLock<Box<Others>>>);

impl Deciders {
    /// Takes the lookup that tells whether somebody else than this principal may decide on calls of a
    /// team. The first one counts.
    pub fn connect(
        &self,
        others: impl Fn(&PrincipalId, &TeamName) -> bool + Send + Sync + 'static,
    ) {
        self.0.get_or_init(|| Box::new(others));
    }

    /// Nobody else could decide. As long as that is not known, somebody could.
    pub(super) fn is_alone(&self, who: &PrincipalId, team: &TeamName) -> bool {
        self.0.get().is_some_and(|others| !others(who, team))
    }
}

impl fmt::Debug for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deciders")
    }
}
