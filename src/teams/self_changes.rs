//! Self-changes of teams, with rollback: what they changed about themselves after a person agreed, and the text before.

use std::{io::Read, path::Path, sync::Arc};

use hivewright_actors::{
    approvals::{record::Approval, records},
    audit::Audit,
    blocking::{self, CutOff},
    clock::{Clock, Timestamp},
    ids::{Ids, PrincipalId, TaskId, TeamKey},
    retention::terms::Lot,
    storage::StorageError,
    store::{
        StoreHandle,
        reads::{Range, get, scan},
        records::{Record, Writes},
        redact::{Owner, Texts},
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    sandbox::workspace::{Workspace, WorkspaceError},
    settings::home::Home,
    system::sha256,
};

/// The tool by which teams propose changes.
pub const PROPOSE: &str = "propose_change";
/// The largest file that a change may be about, in bytes.
pub const LARGEST: u64 = 100 * 1024;

/// A change of a file by which a team is what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its name: the same for every try of the call that made it.
    pub id: String,
    pub team: TeamKey,
    /// The file, from the team's folder.
    pub file: String,
    pub reason: String,
    pub before: String,
    pub after: String,
    /// The work that proposed it.
    pub task: TaskId,
    pub at: Timestamp,
    /// Who took it back, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<(String, Timestamp)>,
}

/// What a team proposed before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The file of its last proposal.
    pub file: Option<String>,
    /// The work that this came of.
    pub task: Option<TaskId>,
}

/// Why a change is not made or not taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    #[error("there is no change `{0}`")]
    Unknown(String),
    #[error("the change was taken back already")]
    Again,
    #[error(
        "`{0}` was changed since; look at it, and put the old text back by hand if it is still wanted"
    )]
    MovedOn(String),
    /// No change can be about this file.
    #[error("{0}")]
    Unfit(String),
    #[error(transparent)]
    File(#[from] WorkspaceError),
    #[error("the change cannot be stored: {0}")]
    Store(String),
}

impl From<StorageError> for ChangeError {
    fn from(error: StorageError) -> Self {
        Self::Store(error.to_string())
    }
}

struct Inner {
    home: Home,
    clock: Arc<dyn Clock>,
    ids: Ids,
    store: StoreHandle,
}

/// All changes. Cheap to clone.
#[derive(Clone)]
pub struct Changes(Arc<Inner>);

pub(crate) const TEXTS: &[Texts] =
    &[Texts::of(Change::KIND, Owner::At("/team/name"), &["reason", "before", "after"])];

hivewright_actors::records! {
    Change: "edge\0self-change", String, |row| row.id.clone();
}

/// Changes from before a moment: nobody takes them back any more.
pub(crate) fn before(cut: Timestamp) -> Lot {
    Lot::old(move |_, change: &Change| change.at < cut)
}

impl Changes {
    pub fn new(home: Home, clock: Arc<dyn Clock>, ids: Ids, store: StoreHandle) -> Self {
        Self(Arc::new(Inner { home, clock, ids, store }))
    }

    /// What a team proposed last, whatever became of it.
    pub async fn earlier(&self, team: &TeamKey) -> Result<Earlier, ChangeError> {
        let team = team.clone();
        let read = self.0.store.read(records::all::<Approval>).await?;
        let mut newest_first = read.into_iter().rev();
        let last =
            newest_first.find(|row| row.team == team && row.tool.as_deref() == Some(PROPOSE));
        Ok(last.map_or_else(Earlier::default, |row| Earlier {
            file: row.arguments["file_path"].as_str().map(str::to_owned),
            task: row.task,
        }))
    }

    /// The change that a call made, if it came so far.
    pub async fn find(&self, team: &TeamKey, call: &str) -> Result<Option<Change>, ChangeError> {
        self.row(&name(team, call)).await
    }

    /// Keeps the text before a change and the one after it. This comes before [`Changes::apply`].
    pub async fn keep(&self, proposal: Proposal) -> Result<Change, ChangeError> {
        let change = Change {
            id: name(&proposal.team, &proposal.call),
            team: proposal.team,
            file: proposal.file,
            reason: proposal.reason,
            before: proposal.before,
            after: proposal.after,
            task: proposal.task,
            at: self.0.clock.now(),
            rolled_back: None,
        };
        self.commit(&change, Writes::new()).await?;
        Ok(change)
    }

    /// Makes the file what the change says. To do it again is to do nothing.
    ///
    /// A person who rolls the change back meanwhile finds the old text, and has nothing to do: so it is looked
    /// at once more afterwards.
    pub async fn apply(
        &self,
        workspace: Arc<Workspace>,
        change: &Change,
    ) -> Result<(), ChangeError> {
        if change.rolled_back.is_some() {
            return Ok(());
        }
        let Change { file, after, .. } = change.clone();
        off_thread(move || write(&workspace, &file, &after)).await?;
        match self.row(&change.id).await? {
            Some(row) if row.rolled_back.is_some() => self.put_back(&row).await,
            _ => Ok(()),
        }
    }

    pub async fn list(&self) -> Result<Vec<Change>, ChangeError> {
        let read = self.0.store.read(|storage| scan::<Change>(storage, Range::all()));
        let mut rows = read.await?;
        rows.sort_by(|a, b| (b.at, &b.id).cmp(&(a.at, &a.id)));
        Ok(rows)
    }

    /// Puts the text before a change back, if nobody went on from it. `from`: where the order comes from, for the audit.
    pub async fn roll_back(
        &self,
        id: &str,
        by: &PrincipalId,
        from: &str,
    ) -> Result<Change, ChangeError> {
        let mut change = self.row(id).await?.ok_or_else(|| ChangeError::Unknown(id.to_owned()))?;
        if change.rolled_back.is_some() {
            return Err(ChangeError::Again);
        }
        self.put_back(&change).await?;
        let now = self.0.clock.now();
        change.rolled_back = Some((by.to_string(), now));
        let audit = Audit::new(&self.0.ids, now, by, "change.rollback", id, from, "ok");
        self.commit(&change, Writes::new().put(&audit)).await?;
        // The change may have been applied just before the row said that it is taken back.
        self.put_back(&change).await?;
        Ok(change)
    }

    /// Puts the text before a change where the text after it stands. An earlier try may have done it.
    async fn put_back(&self, change: &Change) -> Result<(), ChangeError> {
        let folder = self.0.home.team(change.team.name.as_str());
        let Change { file, before, after, .. } = change.clone();
        off_thread(move || {
            let workspace = Workspace::open(&folder, &[])?;
            let now = text_of(&workspace, &file)?;
            if now == before {
                return Ok(());
            }
            if now != after {
                return Err(ChangeError::MovedOn(file));
            }
            write(&workspace, &file, &before)
        })
        .await
    }

    async fn row(&self, id: &str) -> Result<Option<Change>, ChangeError> {
        let id = id.to_owned();
        Ok(self.0.store.read(move |storage| get(storage, &id)).await?)
    }

    async fn commit(&self, change: &Change, beside: Writes) -> Result<(), ChangeError> {
        let writes = beside.put(change);
        let kept = self.0.store.commit(writes).await;
        kept.map(drop).map_err(|error| ChangeError::Store(error.to_string()))
    }
}

/// A change that a person agreed to, as [`Change`] keeps it.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub team: TeamKey,
    pub task: TaskId,
    /// The same for every try of the call.
    pub call: String,
    pub file: String,
    pub reason: String,
    pub before: String,
    pub after: String,
}

/// The whole text of a file that a change may be about. Blocks.
pub fn text_of(workspace: &Workspace, path: &str) -> Result<String, ChangeError> {
    let broken = |reason: String| ChangeError::Unfit(format!("{path} {reason}"));
    let opened = workspace.open_file(path, &|place| as_named(workspace, path, place))?;
    let mut text = String::new();
    opened
        .file
        .take(LARGEST + 1)
        .read_to_string(&mut text)
        .map_err(|error| broken(format!("cannot be read: {error}")))?;
    if text.len() as u64 > LARGEST {
        Err(broken(format!("is larger than {LARGEST} bytes")))
    } else {
        Ok(text)
    }
}

/// Makes the file what the text says. Blocks.
pub fn write(workspace: &Workspace, path: &str, text: &str) -> Result<(), ChangeError> {
    workspace.write(path, text.as_bytes(), &|place| as_named(workspace, path, place))?;
    Ok(())
}

/// A person agreed to a change of the file at this path: no link leads elsewhere.
fn as_named(workspace: &Workspace, path: &str, place: &Path) -> Result<(), WorkspaceError> {
    if workspace.named_place(path).as_deref() == Some(place) {
        Ok(())
    } else {
        Err(WorkspaceError::Unsettled(path.to_owned()))
    }
}

fn name(team: &TeamKey, call: &str) -> String {
    format!("chg-{:.16}", sha256(format!("{team}\0{call}").as_bytes()))
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ChangeError> + Send + 'static,
) -> Result<T, ChangeError> {
    let cut_off = |error: CutOff| ChangeError::Store(error.to_string());
    blocking::run(work).await.map_err(cut_off)?
}
