//! Servers that are programs: started in the sandbox, watched for what they write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use hivewright_actors::excerpt;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::{
    io::AsyncReadExt,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    process::ChildStderr,
};

use super::{
    definition::shown,
    fault::Faults,
    lines::{Bounded, LARGEST},
    site::Site,
};
use crate::{
    sandbox::{
        process::{agent::Life, plan::ServerProgram, server::ServerJob},
        quota::Excess,
    },
    settings::mcp_servers::{FolderAccess, McpServer, ServerNetwork},
    taint::{Worker, window::Window},
};

/// What is kept of the end of its error output, in bytes.
const REMARK: usize = 2 << 10;
/// What is shown of it, in characters.
const SHOWN: usize = 300;

pub(super) type Streams =
    AsyncRwTransport<rmcp::RoleClient, Bounded<OwnedReadHalf>, OwnedWriteHalf>;

/// A program that runs.
pub(super) struct Running {
    pub(super) life: Life,
    /// Ends when it wrote more to the disk than it may.
    pub(super) excess: BoxFuture<'static, Excess>,
    /// What it changes is not believed.
    pub(super) window: Option<Window>,
}

/// The end of an error output, as it grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Remark(Arc<Mutex<Vec<u8>>>);

impl Remark {
    /// The last line.
    pub(super) fn last(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = shown(&String::from_utf8_lossy(&kept));
        text.lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .map(|line| excerpt::line(line.trim(), SHOWN))
    }

    async fn follow(self, mut errors: ChildStderr) {
        let mut chunk = [0; 1 << 10];
        // One that can be read no more says nothing more.
        while let Ok(length @ 1..) = errors.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&chunk[..length]);
            let excess = kept.len().saturating_sub(REMARK);
            kept.drain(..excess);
        }
    }
}

/// Starts the program of a server. An error is in words for the operator.
pub(super) async fn start(
    site: &Site,
    command: &str,
    env: BTreeMap<String, String>,
    faults: &Faults,
    remark: &Remark,
) -> Result<(Running, Streams), String> {
    let McpServer { args, workspace, network, read_dirs, trusted, .. } = site.config();
    let window = match workspace {
        FolderAccess::ReadWrite if !trusted => {
            let worker =
                Worker { team: site.team().name.clone(), task: "mcp".into(), tool: site.key() };
            let window = site.grounds.taint.begin_for_command(worker, &site.workspace);
            Some(window.await.map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    let job = ServerJob {
        workspace: Arc::clone(&site.workspace),
        access: workspace.access(),
        program: ServerProgram {
            command: command.into(),
            args: args.clone(),
            shown: read_dirs.clone(),
            network: *network == ServerNetwork::On,
        },
        env,
    };
    let process = site.grounds.sandbox.serve(job).await.map_err(|error| match error {
        crate::sandbox::process::SandboxError::Start(cause) => {
            format!("it cannot be started: {cause}")
        }
        error => error.to_string(),
    })?;
    tokio::spawn(remark.clone().follow(process.errors));
    let (output, input) = process.streams.into_split();
    let streams = AsyncRwTransport::new(Bounded::new(output, faults.clone(), LARGEST), input);
    let running = Running { life: process.life, excess: process.excess, window };
    Ok((running, streams.with_max_line_length(LARGEST)))
}
