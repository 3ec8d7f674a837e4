//! Tools that teams write: JavaScript that was verified, pinned by digest, and run in the host of its team.

use std::{collections::BTreeMap, io, sync::Arc};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    clock::{Clock, Timestamp},
    ids::{Ids, TeamKey, TeamName},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{
        StoreError, StoreHandle,
        reads::{Range, scan_keyed},
        records::Writes,
    },
    tool::Effect,
};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod files;
pub mod loading;
pub mod manage;
pub mod run;
mod scan;
#[cfg(test)]
mod tests;
mod verify;

use files::Sources;

use crate::{
    plugins::{
        host::process::Hosts,
        written::{Status, Verification},
    },
    sandbox::workspace::Workspace,
    settings::home::Home,
    system::sha256,
};

/// Tools that a team may have, and those that it removed and that are remembered.
const MOST_TOOLS: usize = 100;
/// Versions of a tool whose sources are kept.
const MOST_VERSIONS: u32 = 10;
/// Changes of a tool that are remembered.
const MOST_CHANGES: usize = 50;

/// A tool as it is stored, by its team and its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginTool {
    pub tool: String,
    pub status: Status,
    /// Why it is not in use; nothing if it is.
    pub reason: String,
    /// The source, in the team's folder; none if it is gone.
    pub source: Option<String>,
    /// The digest of its source.
    pub sha256: String,
    /// How it stood in the installation that it was imported from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub former_status: String,
    pub created_at: Timestamp,
    /// From 1; none of those that were imported.
    #[serde(default)]
    pub version: u32,
    /// Its source is where calls find it. Until then the kept version is put there.
    #[serde(default)]
    pub placed: bool,
    #[serde(default)]
    pub declared: Declared,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    #[serde(default)]
    pub verified_at: Timestamp,
    /// What became of it lately, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

/// What a tool says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    pub description: String,
    pub input_schema: Value,
    pub effect: Effect,
    /// Where its requests may go.
    pub hosts: Vec<String>,
    pub timeout_ms: u64,
}

impl Default for Declared {
    fn default() -> Self {
        Self {
            description: String::new(),
            input_schema: Value::Null,
            effect: Effect::Irreversible,
            hosts: Vec::new(),
            timeout_ms: 0,
        }
    }
}

/// A change of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: Timestamp,
    /// A team and its task, or the name of an operator's token.
    pub by: String,
    pub to: Status,
    pub version: u32,
}

hivewright_actors::records! {
    PluginTool: "edge\0plugin_tool", String;
}

/// Why a tool cannot be changed so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolStateError {
    #[error("there is no tool `{0}`")]
    Unknown(String),
    #[error("`{tool}` is {status}; {way}")]
    Conflict { tool: String, status: Status, way: &'static str },
    #[error("a team has at most {MOST_TOOLS} tools; deprecate and remove one first")]
    TooMany,
    #[error("the sources of the team's tools cannot be used: {0}")]
    Files(#[from] io::Error),
    #[error("the tool cannot be stored: {0}")]
    Store(#[from] StoreError),
}

/// The tools of all teams. Cheap to clone.
#[derive(Clone)]
pub struct PluginTools(Arc<Inner>);

type Rows = BTreeMap<TeamName, (TeamKey, BTreeMap<String, Arc<PluginTool>>)>;

/// Reasons by team and tool.
type Unreadable = BTreeMap<(TeamName, String), String>;

struct Inner {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    ids: Ids,
    home: Home,
    hosts: Hosts,
    rows: Mutex<Rows>,
    /// Tools whose sources cannot be read, with the reasons that were told.
    unreadable: Mutex<Unreadable>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
}

impl PluginTools {
    pub fn open(
        storage: &dyn Storage,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        ids: Ids,
        home: Home,
        hosts: Hosts,
    ) -> Result<Self, StorageError> {
        let mut rows = Rows::new();
        for (key, row) in scan_keyed(storage, Range::<PluginTool>::all())? {
            let team = key.rsplit_once('/').and_then(|(team, _)| TeamKey::parse(team));
            if let Some(team) = team {
                let tools = rows.entry(team.name.clone()).or_insert((team, BTreeMap::new()));
                tools.1.insert(row.tool.clone(), Arc::new(row));
            }
        }
        let (rows, unreadable) = (Mutex::new(rows), Mutex::default());
        let changing = tokio::sync::Mutex::default();
        Ok(Self(Arc::new(Inner { store, clock, ids, home, hosts, rows, unreadable, changing })))
    }

    pub fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    fn unreadable(&self) -> MutexGuard<'_, Unreadable> {
        self.0.unreadable.lock()
    }

    pub fn find(&self, team: &TeamName, tool: &str) -> Option<Arc<PluginTool>> {
        self.0.rows.lock().get(team).and_then(|(_, tools)| tools.get(tool).cloned())
    }

    /// All tools, by team and name.
    pub fn all(&self) -> Vec<(TeamName, Arc<PluginTool>)> {
        let rows = self.0.rows.lock();
        let of_teams = rows
            .iter()
            .flat_map(|(team, (_, tools))| tools.values().map(|tool| (team.clone(), tool.clone())));
        of_teams.collect()
    }

    fn workspace(&self, team: &TeamName) -> io::Result<Workspace> {
        Workspace::open(&self.0.home.team(team.as_str()), &[]).map_err(io::Error::other)
    }

    /// The source of a version of a tool.
    pub async fn source(
        &self,
        team: &TeamName,
        tool: &str,
        version: u32,
    ) -> Result<String, ToolStateError> {
        let tool = tool.to_owned();
        self.with_sources(team, move |sources| sources.read_version(&tool, version)).await
    }

    /// Works on the sources of a team's tools, away from the async threads.
    async fn with_sources<T: Send + 'static>(
        &self,
        team: &TeamName,
        work: impl FnOnce(&Sources) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ToolStateError> {
        let (this, team) = (self.clone(), team.clone());
        let done = blocking::run(move || work(&Sources::open(&this.workspace(&team)?)?)).await;
        Ok(done.map_err(|error| io::Error::other(error.to_string()))??)
    }

    /// The source that is in use, if it can be read. Blocks for the time of one small file.
    fn source_now(&self, team: &TeamName, row: &PluginTool) -> Option<String> {
        Sources::open(&self.workspace(team).ok()?).ok()?.read(&row.tool).ok()
    }

    /// Stores a row. Others see it once it is durable.
    async fn put(
        &self,
        team: &TeamKey,
        row: PluginTool,
    ) -> Result<Arc<PluginTool>, ToolStateError> {
        let writes = Writes::new().put_at(&format!("{team}/{}", row.tool), &row);
        self.0.store.commit(writes).await?;
        Ok(self.know(team, row))
    }

    fn know(&self, team: &TeamKey, row: PluginTool) -> Arc<PluginTool> {
        let row = Arc::new(row);
        let mut rows = self.0.rows.lock();
        let tools =
            rows.entry(team.name.clone()).or_insert_with(|| (team.clone(), BTreeMap::new()));
        if tools.0 != *team {
            // Nothing of an earlier team of that name counts.
            *tools = (team.clone(), BTreeMap::new());
        }
        tools.1.insert(row.tool.clone(), Arc::clone(&row));
        row
    }

    fn changed(&self, row: &PluginTool, to: Status, by: &str) -> PluginTool {
        let mut row = row.clone();
        row.status = to;
        let (at, by, version) = (self.0.clock.now(), by.to_owned(), row.version);
        row.changes.push(Change { at, by, to, version });
        let forgotten = row.changes.len().saturating_sub(MOST_CHANGES);
        row.changes.drain(..forgotten);
        row
    }

    /// Refuses a tool that would be one too many for its team.
    fn has_room(&self, team: &TeamName, tool: &str) -> Result<(), ToolStateError> {
        let rows = self.0.rows.lock();
        let others = rows.get(team).into_iter().flat_map(|(_, tools)| tools.values());
        let others = others.filter(|row| row.status != Status::Removed && row.tool != tool);
        if others.count() < MOST_TOOLS { Ok(()) } else { Err(ToolStateError::TooMany) }
    }

    /// Forgets the tools of a team that were removed before the last ones.
    async fn forget_removed(&self, team: &TeamKey) -> Result<(), ToolStateError> {
        let mut removed: Vec<_> = {
            let rows = self.0.rows.lock();
            let tools = rows.get(&team.name).into_iter().flat_map(|(_, tools)| tools.values());
            let tools = tools.filter(|row| row.status == Status::Removed);
            tools.map(|row| (row.changes.last().map(|last| last.at), row.tool.clone())).collect()
        };
        removed.sort();
        removed.truncate(removed.len().saturating_sub(MOST_TOOLS));
        if removed.is_empty() {
            return Ok(());
        }
        let writes = removed.iter().fold(Writes::new(), |writes, (_, tool)| {
            writes.delete::<PluginTool>(&format!("{team}/{tool}"))
        });
        self.0.store.commit(writes).await?;
        if let Some((_, tools)) = self.0.rows.lock().get_mut(&team.name) {
            tools.retain(|name, _| removed.iter().all(|(_, gone)| gone != name));
        }
        Ok(())
    }

    /// Puts a verified source into use: first the kept version, then the row, then the file that calls find.
    pub(crate) async fn adopt(
        &self,
        team: &TeamKey,
        tool: &str,
        source: &str,
        declared: Declared,
        mut verification: Verification,
        by: &str,
    ) -> Result<Arc<PluginTool>, ToolStateError> {
        let _one = self.0.changing.lock().await;
        self.has_room(&team.name, tool)?;
        let before = self.find(&team.name, tool);
        let version = before.as_ref().map_or(0, |row| row.version) + 1;
        verification.ok = true;
        let row = PluginTool {
            tool: tool.to_owned(),
            reason: String::new(),
            source: Some(files::path(tool)),
            sha256: sha256(source.as_bytes()),
            version,
            placed: false,
            declared,
            verification: Some(verification),
            verified_at: self.0.clock.now(),
            created_at: before.as_ref().map_or_else(|| self.0.clock.now(), |row| row.created_at),
            ..before.as_deref().cloned().unwrap_or_default()
        };
        let row = self.changed(&row, Status::Active, by);
        let (name, text) = (tool.to_owned(), source.to_owned());
        let keep = move |sources: &Sources| sources.keep(&name, version, &text);
        self.with_sources(&team.name, keep).await?;
        let row = self.put(team, row).await?;
        let (name, text) = (tool.to_owned(), source.to_owned());
        let place = move |sources: &Sources| {
            sources.place(&name, &text)?;
            sources.forget(&name, version.saturating_sub(MOST_VERSIONS))
        };
        self.with_sources(&team.name, place).await?;
        self.put(team, PluginTool { placed: true, ..(*row).clone() }).await
    }

    pub(crate) async fn deprecate(
        &self,
        team: &TeamName,
        tool: &str,
        reason: &str,
        by: &str,
    ) -> Result<Arc<PluginTool>, ToolStateError> {
        let _one = self.0.changing.lock().await;
        let (key, row) = self.known(team, tool)?;
        if row.status == Status::Deprecated && row.reason == reason {
            return Ok(row);
        }
        let row = self.changed(&row, Status::Deprecated, by);
        self.put(&key, PluginTool { reason: reason.to_owned(), ..row }).await
    }

    pub(crate) async fn remove(
        &self,
        team: &TeamName,
        tool: &str,
        by: &str,
    ) -> Result<Arc<PluginTool>, ToolStateError> {
        let _one = self.0.changing.lock().await;
        let (key, row) = self.known(team, tool)?;
        if row.status == Status::Active {
            let (tool, status, way) = (tool.to_owned(), row.status, "deprecate it first");
            return Err(ToolStateError::Conflict { tool, status, way });
        }
        let (gone, newest) = (tool.to_owned(), row.version);
        let removed =
            PluginTool { source: None, placed: false, ..self.changed(&row, Status::Removed, by) };
        let row = self.put(&key, removed).await?;
        self.forget_removed(&key).await?;
        // What a kill leaves of it nobody loads.
        self.with_sources(team, move |sources| sources.remove(&gone, newest)).await?;
        Ok(row)
    }

    /// A tool that is not removed.
    fn known(
        &self,
        team: &TeamName,
        tool: &str,
    ) -> Result<(TeamKey, Arc<PluginTool>), ToolStateError> {
        let rows = self.0.rows.lock();
        let found =
            rows.get(team).and_then(|(key, tools)| Some((key.clone(), tools.get(tool)?.clone())));
        let found = found.filter(|(_, row)| row.status != Status::Removed);
        found.ok_or_else(|| ToolStateError::Unknown(tool.to_owned()))
    }
}

/// The tools of a team that is shut down. Their files go with its folder.
impl Belongings for PluginTools {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let gone = self.0.rows.lock().remove(&team.name);
        let tools = gone.into_iter().flat_map(|(_, tools)| tools.into_keys());
        let writes = tools.fold(Writes::new(), |writes, tool| {
            writes.delete::<PluginTool>(&format!("{team}/{tool}"))
        });
        let hosts = self.0.hosts.forget(team);
        Box::pin(async move {
            hosts.await;
            if writes.is_empty() { Vec::new() } else { vec![writes] }
        })
    }

    fn rest(&self, team: &TeamName, now: bool) -> BoxFuture<'static, ()> {
        self.0.hosts.rest(team, now)
    }
}
