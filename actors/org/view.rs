//! The tree as everyone else sees it: a snapshot of what is durable.

use std::sync::Arc;

use tokio::sync::watch;

use super::{record::TeamState, tree::Tree};
use crate::{
    ids::TeamKey,
    scheduler::{fire::Roster, firing::Standing},
};

/// The present tree. Cheap to clone; all clones show the same.
#[derive(Clone, Debug, Default)]
pub struct OrgView(watch::Sender<Arc<Tree>>);

impl OrgView {
    /// A view of this tree.
    pub fn new(tree: Tree) -> Self {
        Self(watch::Sender::new(Arc::new(tree)))
    }

    /// The tree at this moment. It does not change under the reader.
    pub fn now(&self) -> Arc<Tree> {
        self.0.borrow().clone()
    }

    /// Hears of every change from now on; of several at once as one.
    pub fn changes(&self) -> watch::Receiver<Arc<Tree>> {
        self.0.subscribe()
    }

    /// Shows another tree from now on.
    pub(super) fn show(&self, tree: Tree) {
        self.0.send_replace(Arc::new(tree));
    }
}

impl Roster for OrgView {
    fn standing(&self, team: &TeamKey) -> Standing {
        let tree = self.now();
        let record = tree.get(team.name.as_str());
        match record.filter(|record| record.generation == team.generation) {
            Some(record) => match record.state {
                TeamState::Active => Standing::Active,
                TeamState::Paused | TeamState::Degraded => Standing::Paused,
                TeamState::Draining | TeamState::Removed => Standing::Gone,
            },
            None => Standing::Gone,
        }
    }
}
