//! Tool servers in the sandbox: programs that talk through their standard streams for as long as they are wanted.
//!
//! One sees system programs, what the operator shows it, and as much of the team's folders as it is given. What tells
//! the team what it is, it can never change.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use tokio::{net::UnixStream, process::ChildStderr};

use super::{
    Job, Sandbox, SandboxError,
    agent::{Launched, Life},
    plan::{Executable, Program},
    until_excess,
};
use crate::{
    sandbox::{quota::Excess, workspace::Workspace},
    settings::folder_access::Access,
};

/// What is to be started.
#[derive(Debug)]
pub struct ServerJob {
    pub workspace: Arc<Workspace>,
    /// What it may do in the folders of the team; without any it sees none of them.
    pub access: Option<Access>,
    pub program: Executable,
    /// It has the network of the machine instead of none.
    pub network: bool,
    pub env: BTreeMap<String, String>,
}

/// A server that runs.
pub struct ServerProcess {
    /// Its input and its output.
    pub streams: UnixStream,
    pub errors: ChildStderr,
    pub life: Life,
    /// Ends when it wrote more to the disk than it may.
    pub excess: BoxFuture<'static, Excess>,
}

impl Sandbox {
    /// Starts a server.
    pub async fn serve(&self, job: ServerJob) -> Result<ServerProcess, SandboxError> {
        let ServerJob { workspace, access, program, network, env } = job;
        let program = Program::Server { program, network };
        let job = Job { workspace, program, env, keeps_self: access.is_some() };
        let (mut prepared, watch) = self.prepare(job).await?;
        let plan = &mut prepared.plan;
        match access {
            Some(Access::ReadWrite) => {}
            Some(Access::ReadOnly) => {
                plan.keep_top = false;
                plan.folders.iter_mut().for_each(|folder| folder.writable = false);
            }
            None => plan.folders.clear(),
        }
        let Launched { streams, errors, life } = self.launch(prepared).await?;
        Ok(ServerProcess { streams, errors, life, excess: Box::pin(until_excess(watch)) })
    }
}
