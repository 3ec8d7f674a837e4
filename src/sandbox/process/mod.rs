//! The process sandbox: a command runs with its team's folders and nothing else, or it does not run.

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{blocking, policy::caution::SELF_FILE};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};
use tokio_util::sync::CancellationToken;

use self::{
    capture::{Captured, capture},
    cgroup::{Group, Groups},
    layers::{Layer, Layers, Missing},
    plan::{Ended, Folder, Plan, Program, Report, TERMINATE},
};
use super::{
    quota::{Excess, FIRST_LOOK, Quota, Watch},
    workspace::{
        Workspace,
        governance::{GOVERNED_DIR, GOVERNED_FILE, SELF},
    },
};
use crate::{
    logging::throttle::Throttle,
    removal::{if_there, remove_tree},
    settings::{config::Limits, folder_access::Access},
};

pub mod agent;
mod attempt;
pub mod capture;
mod cgroup;
mod confine;
pub mod launch;
pub mod layers;
pub mod layout;
mod mounts;
pub mod plan;
pub mod plugin;
pub mod probe;
pub mod script;
mod seccomp;
pub mod server;
mod supervise;
mod sys;

/// Processes and threads that one command may have at once.
pub const PROCESSES: u64 = 256;
const FILE_SIZE: u64 = 10 << 30;
/// What is kept of each output stream.
const KEPT: usize = 10 << 20;
/// How long a command has between being asked to end and being killed.
const GRACE: Duration = Duration::from_millis(1200);

/// What every process in the sandbox can read.
pub const SYSTEM_FOLDERS: &[&str] = confine::SYSTEM;

/// Nothing of a command that was cut off lives longer.
pub const SETTLED: Duration = Duration::from_secs(10);

/// How the folders of calls begin.
const CALL: &str = "call-";

/// What the sandbox needs to know of its machine.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// The binary that becomes the launcher: this program's own.
    pub launcher: PathBuf,
    /// Memory of one command with all it starts, in bytes.
    pub memory: u64,
    /// A folder for the private home and temporary files of each call. Leftovers are removed at the start.
    pub scratch: PathBuf,
    /// What no command may ever read: store, keys, other teams. The self-test tries it.
    pub private: Vec<PathBuf>,
}

#[derive(Debug)]
pub struct Job {
    pub workspace: Arc<Workspace>,
    pub program: Program,
    /// Variables beside the fixed ones.
    pub env: BTreeMap<String, String>,
    /// What tells the team what it is stays as it is: the command comes from a turn that is not believed.
    pub keeps_self: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended; `None` if it was stopped.
    pub ended: Option<Ended>,
    pub stdout: Captured,
    pub stderr: Captured,
    /// It was killed with all it started, since it wrote too much.
    pub excess: Option<Excess>,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("sandbox layer `{layer}` is missing ({reason}); to cure it, {}", layer.cure())]
    Unavailable { layer: Layer, reason: String },
    #[error("sandbox cannot be started")]
    Start(#[from] io::Error),
}

/// Runs commands, each in a box of its own.
#[derive(Debug)]
pub struct Sandbox {
    settings: SandboxSettings,
    layers: Layers,
    /// A layer that is there and did not do its work in the self-test, and what was seen.
    broken: Option<(Layer, String)>,
    /// Where commands get control groups, or why they get none.
    groups: Result<Groups, String>,
    memory: AtomicU64,
    quota: Arc<Quota>,
}

impl Sandbox {
    /// Finds out what this machine offers, with a first confined process.
    pub async fn new(settings: SandboxSettings) -> Self {
        let scratch = settings.scratch.clone();
        if let Err(error) = blocking(move || clear(&scratch)).await {
            tracing::warn!(%error, "the scratch folder cannot be made; commands will fail");
        }
        let mut sandbox = Self::with_layers(settings, Layers::ask());
        let found = blocking::run(Groups::find).await;
        sandbox.groups = found.unwrap_or_else(|error| Err(error.to_string()));
        if sandbox.layers.missing().is_some() {
            return sandbox;
        }
        let mut tried = sandbox.self_test().await;
        // What it decides holds until the service ends, so one try that went wrong by chance must not decide it.
        if tried.is_err() {
            tried = sandbox.self_test().await;
        }
        if let Err(error @ SandboxError::Unavailable { .. }) = &tried {
            tracing::warn!(%error, "commands run without namespaces");
            sandbox.layers.namespaces = false;
            tried = match sandbox.layers.missing() {
                Some(_) => return sandbox,
                None => sandbox.self_test().await,
            };
        }
        match tried {
            Ok(broken) => sandbox.broken = broken,
            // A command would meet the same, and tell.
            Err(error) => {
                let cause = error.source().map(ToString::to_string);
                tracing::warn!(%error, cause, "the sandbox could not be tried; `hivewright doctor` tries it again");
            }
        }
        sandbox
    }

    /// A sandbox on a machine that is said to have these layers.
    pub fn with_layers(settings: SandboxSettings, layers: Layers) -> Self {
        Self {
            memory: AtomicU64::new(settings.memory),
            quota: Arc::new(Quota::new(&Limits::default())),
            settings,
            layers,
            broken: None,
            groups: Err("was not looked for".to_owned()),
        }
    }

    /// A sandbox for a test in which nobody runs a command.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        let nowhere = PathBuf::from("/nonexistent");
        let settings = SandboxSettings {
            launcher: nowhere.clone(),
            memory: 1 << 30,
            scratch: nowhere,
            private: Vec::new(),
        };
        Self::with_layers(settings, Layers { landlock: 0, seccomp: false, namespaces: false })
    }

    /// The next command and those after it may hold so many bytes.
    pub fn set_memory(&self, memory: u64) {
        self.memory.store(memory, Ordering::Relaxed);
    }

    /// What teams may keep on the disk.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    pub fn layers(&self) -> Layers {
        self.layers
    }

    /// The layer without which nothing runs here, and what was seen: the kernel lacks it, or it does not hold.
    pub fn missing(&self) -> Option<(Layer, String)> {
        match self.layers.missing() {
            Some(layer) => Some((layer, format!("{:?}", self.layers))),
            None => self.broken.clone(),
        }
    }

    /// What control groups do for commands here; `Err` is why there are none.
    pub fn groups(&self) -> Result<String, &str> {
        self.groups.as_ref().map(Groups::bounds).map_err(String::as_str)
    }

    /// What programs begin with, unless a layer is missing without which nothing runs here.
    fn ground(&self) -> Result<Ground, SandboxError> {
        if let Some((layer, reason)) = self.missing() {
            return Err(SandboxError::Unavailable { layer, reason });
        }
        Ok(Ground {
            scratch: self.settings.scratch.clone(),
            private: self.settings.private.clone(),
            groups: self.groups.clone().ok(),
            namespaces: self.layers.namespaces,
        })
    }

    /// Runs a command to its end. Stopping asks it to end and kills what is left after a moment.
    ///
    /// Whatever the end, nothing it started lives on. Dropping the future kills at once.
    pub async fn run(&self, job: Job, stop: CancellationToken) -> Result<Finished, SandboxError> {
        let (prepared, watch) = self.prepare(job).await?;
        let result = self.supervise(&prepared.plan, watch, stop).await;
        drop(prepared);
        result
    }

    async fn prepare(&self, job: Job) -> Result<(Prepared, Watch), SandboxError> {
        let ground = self.ground()?;
        let Job { workspace, program, env, keeps_self } = job;
        let kept: &[&str] = if keeps_self { &SELF } else { &[] };
        let memory = self.memory.load(Ordering::Relaxed);
        let quota = Arc::clone(&self.quota);
        blocking(move || {
            ground.keep_private(&workspace, "commands")?;
            let governed = protect(&workspace, kept)?;
            let mut prepared = ground.prepare(program, env, memory, PROCESSES)?;
            let watch = Watch::new(&quota, &workspace, &prepared.scratch.path);
            let plan = &mut prepared.plan;
            plan.folders = folders(&workspace)?;
            plan.keep_top = !(plan.namespaces && governed);
            plan.kept = kept.iter().copied().map(str::to_owned).collect();
            plan.file_size = FILE_SIZE.min(watch.largest_file());
            Ok::<_, SandboxError>((prepared, watch))
        })
        .await
    }

    async fn supervise(
        &self,
        plan: &Plan,
        watch: Watch,
        stop: CancellationToken,
    ) -> Result<Finished, SandboxError> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = self.spawn(theirs, Stdio::piped())?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("no output streams").into());
        };
        let (mut reports, mut orders) = ours.into_split();
        orders.write_all(&plan.to_bytes()?).await?;

        let (mut out, mut err, mut said) = (Captured::default(), Captured::default(), Vec::new());
        let end = async {
            tokio::join!(
                capture(stdout, KEPT, &mut out),
                capture(stderr, KEPT, &mut err),
                reports.read_to_end(&mut said),
                child.wait(),
            )
        };
        let too_much = OnceLock::new();
        let stopping = async {
            tokio::select! {
                () = stop.cancelled() => {
                    // A launcher that is gone already needs no order.
                    let _ = orders.write_all(&[TERMINATE]).await;
                    tokio::time::sleep(GRACE).await;
                }
                excess = until_excess(watch) => drop(too_much.set(excess)),
            }
            drop(orders);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = end => {}
            () = stopping => {}
        }
        let excess = too_much.into_inner();
        let stopped = stop.is_cancelled() || excess.is_some();
        Ok(Finished { ended: ended(&said, stopped)?, stdout: out, stderr: err, excess })
    }
}

/// How a command ended, by what its launcher said; none was stopped.
fn ended(said: &[u8], stopped: bool) -> Result<Option<Ended>, SandboxError> {
    let first = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(first) {
        Ok(Report::Refused(Missing { layer, reason })) => {
            Err(SandboxError::Unavailable { layer, reason })
        }
        Ok(Report::Ended(ended)) if !stopped => Ok(Some(ended)),
        _ if stopped => Ok(None),
        _ => Err(io::Error::other("the launcher fell silent").into()),
    }
}

/// What programs in the sandbox begin with.
struct Ground {
    /// Where the private folders of calls are made.
    scratch: PathBuf,
    /// What no program may ever read.
    private: Vec<PathBuf>,
    groups: Option<Groups>,
    namespaces: bool,
}

impl Ground {
    /// Refuses folders in which something lies that no program may read.
    fn keep_private(&self, workspace: &Workspace, who: &str) -> Result<(), SandboxError> {
        match exposed(&self.private, workspace) {
            Some(path) => Err(SandboxError::Unavailable {
                layer: Layer::Landlock,
                reason: format!("{} lies in a folder that {who} can read", path.display()),
            }),
            None => Ok(()),
        }
    }

    /// Makes room for a program that sees no folder. Blocks.
    fn prepare(
        &self,
        program: Program,
        env: BTreeMap<String, String>,
        memory: u64,
        processes: u64,
    ) -> io::Result<Prepared> {
        let scratch = Scratch::make(&self.scratch)?;
        let group = self.groups.as_ref().and_then(|groups| in_group(groups, memory, processes));
        let plan = Plan {
            folders: Vec::new(),
            scratch: scratch.path.clone(),
            group: group.as_ref().map(|group| group.path.clone()),
            namespaces: self.namespaces,
            keep_top: false,
            kept: Vec::new(),
            memory,
            processes,
            file_size: FILE_SIZE,
            env,
            program,
        };
        Ok(Prepared { plan, scratch, group })
    }
}

/// A program that can be started, and what ends with it.
struct Prepared {
    plan: Plan,
    scratch: Scratch,
    group: Option<Group>,
}

/// A control group for a command. Without one the other bounds hold alone.
fn in_group(groups: &Groups, memory: u64, processes: u64) -> Option<Group> {
    groups
        .make(memory, processes)
        .inspect_err(|error| {
            static TOLD: Throttle = Throttle::new();
            if let Some(times) = TOLD.due() {
                tracing::warn!(%error, times, "a command runs without a control group; the other bounds hold");
            }
        })
        .ok()
}

/// Looks at what a command writes, until it is too much.
async fn until_excess(watch: Watch) -> Excess {
    let watch = Arc::new(watch);
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        let looking = Arc::clone(&watch);
        // A look that failed is made again.
        match blocking::run(move || looking.look()).await {
            Ok((Some(excess), _)) => return excess,
            Ok((None, next)) => pause = next,
            Err(_) => {}
        }
    }
}

/// Runs file work away from the async threads.
async fn blocking<T, E, F>(work: F) -> Result<T, SandboxError>
where
    T: Send + 'static,
    E: Into<SandboxError> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    let done = blocking::run(work).await;
    done.map_err(io::Error::other)?.map_err(Into::into)
}

/// Makes the scratch folder, without what a killed process left in it. One folder that stays keeps no other.
fn clear(scratch: &Path) -> io::Result<()> {
    folder(scratch)?;
    for entry in fs::read_dir(scratch)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(CALL.as_bytes()) {
            remove(&entry.path());
        }
    }
    Ok(())
}

/// A private path that lies in what every command can read.
fn exposed(private: &[PathBuf], workspace: &Workspace) -> Option<PathBuf> {
    let system = confine::SYSTEM.iter().map(Path::new);
    let readable: Vec<_> = system
        .chain(workspace.roots().map(|(path, ..)| path))
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    let is_readable = |path: &Path| readable.iter().any(|folder| path.starts_with(folder));
    private.iter().find(|path| fs::canonicalize(path).is_ok_and(|path| is_readable(&path))).cloned()
}

/// Makes what tells a team what it is, as far as it is missing, so that it can be kept from commands. Blocks.
pub fn protect_self(workspace: &Workspace) -> Result<(), SandboxError> {
    Ok(protect(workspace, &SELF).map(drop)?)
}

/// Makes sure that the governed names at the top of the workspace can be held by mounts.
fn protect(workspace: &Workspace, kept: &[&str]) -> io::Result<bool> {
    let Some((_, handle, _)) = workspace.roots().next() else { return Ok(false) };
    for name in [GOVERNED_DIR].iter().chain(kept) {
        let made = match *name {
            SELF_FILE => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(handle, *name, flags, Mode::RUSR | Mode::WUSR).map(drop)
            }
            folder => rustix::fs::mkdirat(handle, folder, Mode::RWXU),
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    match rustix::fs::statat(handle, GOVERNED_FILE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn folders(workspace: &Workspace) -> io::Result<Vec<Folder>> {
    workspace
        .roots()
        .map(|(path, handle, access)| {
            let stat = rustix::fs::fstat(handle)?;
            Ok(Folder {
                path: path.to_owned(),
                device: stat.st_dev,
                inode: stat.st_ino,
                writable: access == Access::ReadWrite,
            })
        })
        .collect()
}

#[derive(Debug)]
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn make(parent: &Path) -> io::Result<Self> {
        let bits = getrandom::u64().map_err(io::Error::other)?;
        let scratch = Self { path: parent.join(format!("{CALL}{bits:016x}")) };
        for name in ["home", "tmp", "root"] {
            folder(&scratch.path.join(name))?;
        }
        Ok(scratch)
    }

    /// An empty workspace, for a process that only shows what the sandbox does.
    fn workspace(&self) -> io::Result<Arc<Workspace>> {
        let path = self.path.join("workspace");
        folder(&path)?;
        fs::write(path.join(GOVERNED_FILE), "")?;
        Workspace::open(&path, &[]).map(Arc::new).map_err(io::Error::other)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.path);
        blocking::clean_up(move || remove(&path));
    }
}

fn remove(scratch: &Path) {
    if let Err(error) = if_there(remove_tree(scratch)) {
        tracing::warn!(path = %scratch.display(), %error, "the scratch folder of a command stays until the next start");
    }
}

fn folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
