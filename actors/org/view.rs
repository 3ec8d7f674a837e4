//! Snapshot of the tree of teams: what of it is durable, for everyone else.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::tree::Tree;

/// A team that is not shown by then is not there.
const SHOWN_TIMEOUT: Duration = Duration::from_secs(60);

/// The present tree. Cheap to clone; all clones show the same.
#[derive(Clone, Debug, Default)]
pub struct OrgView(watch::Sender<Arc<Tree>>);

impl OrgView {
    pub fn new(tree: Tree) -> Self {
        Self(watch::Sender::new(Arc::new(tree)))
    }

    /// The tree at this moment. It does not change under the reader.
    pub fn now(&self) -> Arc<Tree> {
        self.0.borrow().clone()
    }

    /// The tree once it has this team, whose first work may begin before the news that it is there.
    pub async fn once_it_has(&self, name: &str) -> Arc<Tree> {
        let mut changes = self.changes();
        let shown = changes.wait_for(|tree| tree.get(name).is_some());
        match timeout(SHOWN_TIMEOUT, shown).await {
            Ok(Ok(tree)) => tree.clone(),
            _ => self.now(),
        }
    }

    /// Hears of every change from now on; of several at once as one.
    pub fn changes(&self) -> watch::Receiver<Arc<Tree>> {
        self.0.subscribe()
    }

    pub(super) fn show(&self, tree: Tree) {
        self.0.send_replace(Arc::new(tree));
    }
}
