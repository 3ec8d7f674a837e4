//! Redaction: what was written down before a value became a secret.
//!
//! The commit that makes a value a secret also marks it. The store then takes it out of all it writes,
//! and is made to look through all it has written. The mark goes last, so what a crash cuts off is done
//! after the next start. With years in the archive that takes its time, which whoever made the secret does
//! not wait for.

use std::{borrow::Cow, sync::Arc, time::Duration};

use dashmap::DashMap;
use hivewright_actors::{
    ids::{MAIN, TeamName},
    org::tree::Tree,
    spine,
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan},
        redact::{Redaction, Redactor, Texts},
    },
};
use parking_lot::RwLock;

use super::{
    Vault,
    change::Change,
    error::Result,
    rows::{self, RedactedRow},
    scope::Scope,
    scrubbers::Scrubbers,
};
use crate::scrub::{Mask, Scrubber};

/// Whoever makes a value a secret waits so long for what was written before. Most have it taken out by then.
const WAITED_FOR: Duration = Duration::from_secs(2);

impl Vault {
    /// Takes values that have just become secrets out of what was written before. Returns when that is done, or
    /// goes on without being waited for.
    pub async fn redact_soon(&self) {
        let vault = self.clone();
        let redacted = hivewright_actors::spawn::anywhere(async move { vault.redact().await });
        if tokio::time::timeout(WAITED_FOR, redacted).await.is_err() {
            tracing::info!(
                "values that are secrets now are still being taken out of what was written"
            );
        }
    }

    /// Takes values that have become secrets out of what was written before. A failure is told to the
    /// log: it is tried again with the next secret, and after the next start.
    pub async fn redact(&self) {
        if let Err(error) = self.try_redact().await {
            tracing::error!(%error, "what was written before a value became a secret may still hold it; the next secret or start tries again");
        }
    }

    async fn try_redact(&self) -> Result<()> {
        let store = self.store()?;
        // One after another: the next one may find that nothing is left to be done.
        let _alone = self.shared.redacting.lock().await;
        // Whoever makes a secret now is waited for: a mark counts once its value is known here.
        let turn = self.turn().await;
        let marked = store.read(rows::to_redact).await?;
        drop(turn);
        // What nobody knows cannot be looked for.
        if self.locked().is_some() {
            return Ok(());
        }
        let (mut noted, mut done) = (Change::default(), Change::default());
        if !marked.is_empty() {
            noted.redaction(self.last_redaction(store, true).await?);
            let records = store.redact(noted.writes).await?;
            if records > 0 {
                tracing::info!(
                    records,
                    "values that are secrets now were taken out of what was written"
                );
            }
        }
        // Backups that were made meanwhile may hold them as well, also if a former try was cut off: when all was clean, or
        // before its value was removed.
        if store.read(rows::last_redaction).await?.is_some_and(|last| last.is_under_way) {
            done.redaction(self.last_redaction(store, false).await?);
        } else if marked.is_empty() {
            return Ok(());
        }
        // A value that was set meanwhile has been looked for in a part at most: its mark is another one, and stays.
        let _turn = self.turn().await;
        let present = store.read(rows::to_redact).await?;
        for (entry, mark) in &marked {
            if present.get(entry) == Some(mark) {
                done.redacted(entry);
            }
        }
        store.commit(done.writes).await?;
        Ok(())
    }

    /// What is noted of a redaction now. A clock that was set back takes no backup out.
    async fn last_redaction(&self, store: &StoreHandle, is_under_way: bool) -> Result<RedactedRow> {
        let before = store.read(rows::last_redaction).await?.map(|last| last.at);
        Ok(RedactedRow { at: self.now().max(before.unwrap_or_default()), is_under_way })
    }

    /// What a store leaves out of what it writes: the secrets of this vault, in records of the spine and where those
    /// of the edges hold words.
    pub fn redaction(&self, edges: &[&'static [Texts]]) -> Redaction {
        let texts = spine::TEXTS.iter().chain(edges).copied();
        Redaction::new(Arc::new(Lineages::new(self)), texts)
    }
}

/// The secrets of a team, of those above and below it, and of the service: what its records must not
/// hold. Teams beside it are none of its business, and it is none of theirs.
struct Lineages {
    vault: Vault,
    everyone: Scrubbers,
    tree: RwLock<Arc<Tree>>,
    teams: DashMap<TeamName, Kept>,
}

/// Good for one version of the vault and one tree.
#[derive(Clone)]
struct Kept {
    version: u64,
    tree: Arc<Tree>,
    texts: Scrubber,
    names: Scrubber,
}

impl Lineages {
    fn new(vault: &Vault) -> Self {
        Self {
            vault: vault.clone(),
            everyone: Scrubbers::new(vault.clone(), []),
            tree: RwLock::default(),
            teams: DashMap::new(),
        }
    }

    fn of(&self, team: &TeamName) -> Kept {
        let version = self.vault.version();
        let tree = self.tree.read().clone();
        let kept = self.teams.get(team).map(|kept| kept.clone());
        if let Some(kept) = kept
            && kept.version == version
            && Arc::ptr_eq(&kept.tree, &tree)
        {
            return kept;
        }
        let mut masks = self.masks(team, &tree);
        let texts = Scrubber::with(masks.clone());
        masks.extend(masks.clone().iter().flat_map(Mask::words));
        let kept = Kept { version, tree, texts, names: Scrubber::with(masks) };
        self.teams.insert(team.clone(), kept.clone());
        kept
    }

    /// Own values first: where another team has the same value, this one knows it by its own key.
    fn masks(&self, team: &TeamName, tree: &Tree) -> Vec<Mask> {
        let mut line = vec![team.clone()];
        line.extend(tree.ancestors(team.as_str()));
        match team.as_str() {
            // All teams are below it, also one that is just being made.
            MAIN => line.extend(self.vault.state().scopes().filter_map(|scope| match scope {
                Scope::Team(team) => Some(team.name.clone()),
                Scope::System | Scope::Escrow(_) => None,
            })),
            name => {
                line.push(MAIN.into());
                let below = tree.subtree(name).into_iter().skip(1);
                line.extend(below.map(|record| record.name.clone()));
            }
        }
        let mut masks = Vec::new();
        for (place, name) in line.iter().enumerate() {
            if !line[..place].contains(name) {
                masks.extend(self.vault.secrets_of_team(name));
            }
        }
        masks.extend(self.vault.secrets_of(|scope| *scope == Scope::System));
        masks
    }
}

fn owned(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

impl Redactor for Lineages {
    fn learn(&self, storage: &dyn Storage) -> Result<(), StorageError> {
        let tree = Tree::new(scan(storage, Range::all())?);
        let mut known = self.tree.write();
        *known = Arc::new(tree);
        Ok(())
    }

    fn suspects(&self, text: &str) -> bool {
        let scrubber = self.everyone.names();
        if scrubber.is_empty() {
            return false;
        }
        // JSON inside JSON is escaped twice, and looks like none of the forms.
        scrubber.suspects(text)
            || (text.contains("\\\\")
                && scrubber.suspects(&text.replace("\\\"", "\"").replace("\\\\", "\\")))
    }

    fn clean(&self, team: &TeamName, text: &str) -> Option<String> {
        owned(self.of(team).texts.scrub_known(text))
    }

    fn clean_name(&self, team: &TeamName, name: &str) -> Option<String> {
        owned(self.of(team).names.scrub_known(name))
    }
}
