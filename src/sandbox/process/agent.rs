//! Command-line agents in the sandbox, and browsers: each has a home of its own, its files, its standard streams, and one port to
//! talk to. All of that is gone when it ends.
//!
//! It is shown no folder of the team: what it does there it does through our tools.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    net::TcpListener,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{fs::OpenOptionsExt, net::UnixListener},
    },
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{Child, ChildStderr, Command},
};

use super::{
    Prepared, Sandbox, SandboxError, Scratch, blocking,
    cgroup::Group,
    folder, launch,
    layers::{Layer, Missing},
    layout::{FILES, FILES_FOLDER, HOME},
    plan::{Ended, Executable, Program, Report, TERMINATE},
};
use crate::sandbox::quota;

/// It may hold so many bytes in memory, with all it starts.
const MEMORY: u64 = 4 << 30;
/// A process that was killed is gone by then.
const KILLED: Duration = Duration::from_secs(10);

/// What is to be started.
#[derive(Debug)]
pub struct AgentJob {
    pub program: Executable,
    /// Where it finds programs, before those of the system.
    pub path: Vec<PathBuf>,
    pub env: BTreeMap<String, String>,
    /// What it reads, by its path inside: below [`FILES`] or [`HOME`].
    pub files: Vec<(PathBuf, String)>,
    /// Processes and threads that it may have at once.
    pub processes: u64,
}

/// An agent that runs.
#[derive(Debug)]
pub struct Agent {
    /// Its input and its output.
    pub streams: UnixStream,
    pub errors: ChildStderr,
    /// Where it asks the model.
    pub relay: tokio::net::TcpListener,
    /// Where it asks for our tools.
    pub bridge: tokio::net::UnixListener,
    pub life: Life,
}

/// A program that runs and talks through its standard streams.
pub struct Launched {
    /// Its input and its output.
    pub streams: UnixStream,
    pub errors: ChildStderr,
    pub life: Life,
}

/// The life of an agent or a tool server. Dropping it kills the program with all it started.
#[derive(Debug)]
pub struct Life {
    orders: Option<OwnedWriteHalf>,
    reports: OwnedReadHalf,
    /// The launcher, until it is waited for elsewhere.
    child: Option<Child>,
    /// What is removed when nothing of it runs any more.
    left: Option<(Scratch, Option<Group>)>,
}

impl Drop for Life {
    fn drop(&mut self) {
        let (child, left) = (self.child.take(), self.left.take());
        if let (Some(mut child), Ok(runtime)) = (child, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                // Without a status there is nothing left to wait for.
                let _ = child.wait().await;
                drop(left);
            });
        }
    }
}

impl Life {
    /// Waits until nothing of it is left. Says why, if that was not its own doing.
    pub async fn ended(&mut self) -> Option<String> {
        let mut said = Vec::new();
        // What can be read no more says nothing; without a status there is nothing left to wait for.
        let _ = self.reports.read_to_end(&mut said).await;
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
        }
        said.split(|byte| *byte == b'\n').find_map(|line| {
            match serde_json::from_slice(line).ok()? {
                Report::Refused(Missing { layer, reason }) => {
                    Some(format!("sandbox layer `{layer}`: {reason}"))
                }
                Report::Ended(Ended::OverMemory) => Some("it held too much memory".to_owned()),
                Report::Ended(Ended::OverProcesses) => Some("it had too many processes".to_owned()),
                Report::Ended(Ended::Exited(code @ 1..=128)) => {
                    Some(format!("it ended with code {code}"))
                }
                Report::Ended(Ended::Exited(code @ 129..)) => {
                    Some(format!("it was ended by signal {}", code - 128))
                }
                Report::Ended(_) | Report::Listening => None,
            }
        })
    }

    /// Ends when its private files take more than so many bytes of the disk.
    pub fn holds_more_than(&self, bytes: u64) -> impl Future<Output = ()> + Send + use<> {
        let folder = self.left.as_ref().map(|(scratch, _)| scratch.path.clone());
        async move {
            match folder {
                Some(folder) => quota::grows_beyond(&folder, bytes).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Ends it with all it started: asked first, then killed after a moment.
    pub async fn end(mut self, grace: Duration) {
        if let Some(orders) = &mut self.orders {
            // A launcher that is gone already needs no order.
            let _ = orders.write_all(&[TERMINATE]).await;
        }
        if tokio::time::timeout(grace, self.ended()).await.is_err() {
            self.orders = None;
            if tokio::time::timeout(KILLED, self.ended()).await.is_err() {
                tracing::error!(
                    "processes that the service started do not end although they were killed"
                );
            }
        }
    }
}

impl Sandbox {
    /// Starts an agent.
    pub async fn start(&self, job: AgentJob) -> Result<Agent, SandboxError> {
        let ground = self.ground()?;
        if !ground.namespaces {
            let reason = "the program needs a network of its own".to_owned();
            return Err(SandboxError::Unavailable { layer: Layer::Namespaces, reason });
        }
        let AgentJob { program, path, env, files, processes } = job;
        let program = Program::Agent { program, path };
        let (prepared, bridge) = blocking(move || {
            let prepared = ground.prepare(program, env, MEMORY, processes)?;
            let scratch = &prepared.scratch.path;
            let inside = scratch.join(FILES_FOLDER);
            folder(&inside.join("work"))?;
            for (name, text) in files {
                write_private(&inside, &scratch.join("home"), &name, &text)?;
            }
            let bridge = listen(&inside)?;
            io::Result::Ok((prepared, bridge))
        })
        .await?;
        let Launched { streams, errors, life } = self.launch(prepared).await?;
        let relay = receive(life.reports.as_ref()).await?;
        let bridge = tokio::net::UnixListener::from_std(bridge)?;
        Ok(Agent { streams, errors, relay, bridge, life })
    }

    /// Starts a launcher whose program talks through its standard streams.
    pub(super) async fn launch(&self, prepared: Prepared) -> Result<Launched, SandboxError> {
        let Prepared { plan, scratch, group } = prepared;
        let (mut control, their_control) = UnixStream::pair()?;
        let (streams, their_streams) = UnixStream::pair()?;
        let mut child = self.spawn(their_control, inherited(their_streams)?.into())?;
        let errors = child.stderr.take().ok_or_else(|| io::Error::other("no output streams"))?;
        control.write_all(&plan.to_bytes()?).await?;
        let (reports, orders) = control.into_split();
        let life = Life {
            orders: Some(orders),
            reports,
            child: Some(child),
            left: Some((scratch, group)),
        };
        Ok(Launched { streams, errors, life })
    }

    /// Starts a launcher that takes its orders from here.
    pub(super) fn spawn(&self, orders: UnixStream, output: Stdio) -> io::Result<Child> {
        Command::new(&self.settings.launcher)
            .arg(launch::ARGUMENT)
            .env_clear()
            .stdin(inherited(orders)?)
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
    }
}

fn inherited(stream: UnixStream) -> io::Result<OwnedFd> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream.into())
}

/// Writes a file as the agent finds it below [`FILES`] or [`HOME`].
fn write_private(files: &Path, home: &Path, name: &Path, text: &str) -> io::Result<()> {
    let outside = match (name.strip_prefix(FILES), name.strip_prefix(HOME)) {
        (Ok(below), _) => files.join(below),
        (_, Ok(below)) => home.join(below),
        _ => return Err(io::Error::other(format!("{} is not the agent's", name.display()))),
    };
    if let Some(parent) = outside.parent() {
        folder(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(outside)?;
    file.write_all(text.as_bytes())
}

/// A socket in a folder, whose path may be longer than one that a socket takes.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let handle = fs::File::open(folder)?;
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/socket", handle.as_raw_fd()))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Takes the socket that the launcher hands over, or why there is none.
async fn receive(control: &UnixStream) -> Result<tokio::net::TcpListener, SandboxError> {
    let mut bytes = [0; 4096];
    let (read, handle) = control
        .async_io(Interest::READABLE, || {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [io::IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let message = rustix::net::recvmsg(control, &mut parts, &mut ancillary, flags)?;
            let handle = ancillary.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
                _ => None,
            });
            Ok((message.bytes, handle))
        })
        .await?;
    if let Some(handle) = handle {
        let listener = TcpListener::from(handle);
        listener.set_nonblocking(true)?;
        return Ok(tokio::net::TcpListener::from_std(listener)?);
    }
    let line = bytes[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice(line) {
        // All layers were there when the service started, so another try may do better.
        Ok(Report::Refused(Missing { layer, reason })) => {
            Err(io::Error::other(format!("sandbox layer `{layer}`: {reason}")).into())
        }
        _ => Err(io::Error::other("the launcher fell silent").into()),
    }
}
