//! Tools that teams write: JavaScript that was verified, pinned by digest, and run in the host of its team.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    clock::{Clock, Timestamp},
    ids::{Ids, TeamKey, TeamName},
    notice::{Notice, NoticeKind},
    org::belongings::Belongings,
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan_keyed},
        records::Writes,
    },
    tool::Effect,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod files;
pub mod manage;
pub mod run;
mod scan;
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
    /// What became of it, in order.
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
    #[error("the sources of the team's tools cannot be used: {0}")]
    Files(#[from] io::Error),
    #[error("the tool cannot be stored: {0}")]
    Store(String),
}

/// A tool that a turn can call: it is what was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub tool: Arc<PluginTool>,
    pub source: Arc<str>,
}

/// The tools of a turn, and why others that it needs are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedTools {
    pub tools: Vec<Loaded>,
    /// Names with reasons.
    pub missing: Vec<(String, String)>,
}

/// The tools of all teams. Cheap to clone.
#[derive(Clone)]
pub struct PluginTools(Arc<Inner>);

type Rows = BTreeMap<TeamName, (TeamKey, BTreeMap<String, Arc<PluginTool>>)>;

struct Inner {
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    ids: Ids,
    home: Home,
    hosts: Hosts,
    rows: Mutex<Rows>,
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
        let (rows, changing) = (Mutex::new(rows), tokio::sync::Mutex::default());
        Ok(Self(Arc::new(Inner { store, clock, ids, home, hosts, rows, changing })))
    }

    pub fn hosts(&self) -> &Hosts {
        &self.0.hosts
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn find(&self, team: &TeamName, tool: &str) -> Option<Arc<PluginTool>> {
        self.rows().get(team).and_then(|(_, tools)| tools.get(tool).cloned())
    }

    /// All tools, by team and name.
    pub fn all(&self) -> Vec<(TeamName, Arc<PluginTool>)> {
        let rows = self.rows();
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
        let (this, team, tool) = (self.clone(), team.clone(), tool.to_owned());
        on_files(move || Sources::open(&this.workspace(&team)?)?.read_version(&tool, version)).await
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
        let stored = self.0.store.commit(writes).await;
        stored.map_err(|error| ToolStateError::Store(error.to_string()))?;
        Ok(self.know(team, row))
    }

    fn know(&self, team: &TeamKey, row: PluginTool) -> Arc<PluginTool> {
        let row = Arc::new(row);
        let mut rows = self.rows();
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
        row
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
        let (this, name, text) = (self.clone(), team.name.clone(), source.to_owned());
        let kept = tool.to_owned();
        on_files(move || Sources::open(&this.workspace(&name)?)?.keep(&kept, version, &text))
            .await?;
        let row = self.put(team, row).await?;
        let (this, name, text) = (self.clone(), team.name.clone(), source.to_owned());
        let placed = tool.to_owned();
        on_files(move || Sources::open(&this.workspace(&name)?)?.place(&placed, &text)).await?;
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
            let way = "deprecate it first";
            return Err(ToolStateError::Conflict {
                tool: tool.to_owned(),
                status: row.status,
                way,
            });
        }
        let (this, name, gone, newest) = (self.clone(), team.clone(), tool.to_owned(), row.version);
        let removed =
            PluginTool { source: None, placed: false, ..self.changed(&row, Status::Removed, by) };
        let row = self.put(&key, removed).await?;
        // What a kill leaves of it nobody loads.
        on_files(move || Sources::open(&this.workspace(&name)?)?.remove(&gone, newest)).await?;
        Ok(row)
    }

    /// A tool that is not removed.
    fn known(
        &self,
        team: &TeamName,
        tool: &str,
    ) -> Result<(TeamKey, Arc<PluginTool>), ToolStateError> {
        let rows = self.rows();
        let found =
            rows.get(team).and_then(|(key, tools)| Some((key.clone(), tools.get(tool)?.clone())));
        let found = found.filter(|(_, row)| row.status != Status::Removed);
        found.ok_or_else(|| ToolStateError::Unknown(tool.to_owned()))
    }

    /// The tools of a team by these names, as far as each is what was verified. Blocks.
    pub fn load<'a>(
        &self,
        team: &TeamName,
        workspace: &Workspace,
        names: impl IntoIterator<Item = &'a str>,
    ) -> LoadedTools {
        let mut loaded = LoadedTools::default();
        let mut sources = None;
        for name in names {
            let reason = match self.find(team, name) {
                None => "there is no such tool".to_owned(),
                Some(row) if row.status != Status::Active => match row.reason.as_str() {
                    "" => format!("it is {}", row.status),
                    reason => format!("it is {}: {reason}", row.status),
                },
                Some(tool) => {
                    let sources = sources.get_or_insert_with(|| Sources::open(workspace));
                    match verified(sources, &tool) {
                        Ok(source) => {
                            loaded.tools.push(Loaded { tool, source });
                            continue;
                        }
                        Err(reason) => self.withhold(team, &tool, reason),
                    }
                }
            };
            loaded.missing.push((name.to_owned(), reason));
        }
        loaded
    }

    /// Takes a tool out of use whose source is not what was verified, and tells the operator.
    fn withhold(&self, team: &TeamName, row: &PluginTool, reason: String) -> String {
        let Ok((key, _)) = self.known(team, &row.tool) else { return reason };
        let row = PluginTool {
            reason: reason.clone(),
            ..self.changed(row, Status::FailedVerification, "hivewright")
        };
        let text = format!(
            "The tool `{team}.{}` is withheld: {reason}. Register it anew, or remove it.",
            row.tool
        );
        tracing::warn!(%team, tool = row.tool, reason, "a tool of a team is withheld");
        let notice = Notice {
            id: self.0.ids.notice(),
            kind: NoticeKind::PluginFailed,
            team: Some(team.clone()),
            text,
            refs: Vec::new(),
            at: self.0.clock.now(),
            read: false,
        };
        let writes = Writes::new().put_at(&format!("{key}/{}", row.tool), &row).put(&notice);
        // If it cannot be written, the next look finds the same.
        drop(self.0.store.commit(writes));
        self.know(&key, row);
        reason
    }
}

/// The source of a tool, if it is what was verified; else why not. Blocks.
fn verified(sources: &io::Result<Sources>, tool: &PluginTool) -> Result<Arc<str>, String> {
    let path = files::path(&tool.tool);
    let unreadable = |error: &dyn std::fmt::Display| format!("`{path}` cannot be read: {error}");
    let sources = sources.as_ref().map_err(|error| unreadable(error))?;
    let is_verified = |source: &String| sha256(source.as_bytes()) == tool.sha256;
    let found = sources.read(&tool.tool);
    if !tool.placed && !found.as_ref().is_ok_and(is_verified) {
        // A kill came between the row and the file: the version that was kept is put in its place.
        let kept = sources.read_version(&tool.tool, tool.version);
        let kept = kept.map_err(|error| unreadable(&error))?;
        if is_verified(&kept) {
            sources.place(&tool.tool, &kept).map_err(|error| unreadable(&error))?;
            return Ok(kept.into());
        }
    }
    match found {
        Ok(source) if is_verified(&source) => Ok(source.into()),
        Ok(_) => Err(format!("`{path}` is not what was verified")),
        Err(error) => Err(unreadable(&error)),
    }
}

/// Runs file work away from the async threads.
async fn on_files<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ToolStateError> {
    let done = blocking::run(work).await;
    Ok(done.map_err(|error| io::Error::other(error.to_string()))??)
}

/// The tools of a team that is shut down. Their files go with its folder.
impl Belongings for PluginTools {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let gone = self.rows().remove(&team.name);
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
