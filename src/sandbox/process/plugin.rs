//! Plugins in the sandbox: programs that talk through their standard streams, with a folder of their own and nothing of
//! any team.
//!
//! One reads its package and what the operator agreed to, writes its private folder, and reaches no network.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use super::{
    FILE_SIZE, Sandbox, SandboxError,
    agent::Launched,
    blocking, folder, folders,
    plan::{Executable, Program},
    server::ServerProcess,
    until_excess,
};
use crate::sandbox::{quota::Watch, workspace::Workspace};

/// What is to be started.
#[derive(Debug)]
pub struct PluginJob {
    pub program: Executable,
    /// Where it is started.
    pub folder: PathBuf,
    /// Its private folder, made if it is not there: its home, the only place that outlives it.
    pub data: PathBuf,
    /// Variables beside `PATH`, `HOME`, `TMPDIR` and `LANG`.
    pub env: BTreeMap<String, String>,
    /// Bytes that it may hold in memory, with all it starts.
    pub memory: u64,
    /// Processes and threads at once.
    pub processes: u64,
}

impl Sandbox {
    /// Starts a plugin.
    pub async fn plug(&self, job: PluginJob) -> Result<ServerProcess, SandboxError> {
        let ground = self.ground()?;
        let PluginJob { program, folder: started_in, data, env, memory, processes } = job;
        let program = Program::Plugin { program, folder: started_in };
        let quota = Arc::clone(&self.quota);
        let prepared = blocking(move || {
            folder(&data)?;
            let workspace = Workspace::open(&data, &[]).map_err(io::Error::other)?;
            let workspace = Arc::new(workspace);
            ground.keep_private(&workspace, "plugins")?;
            let mut prepared = ground.prepare(program, env, memory, processes)?;
            let watch = Watch::new(&quota, &workspace, &prepared.scratch.path);
            prepared.plan.folders = folders(&workspace)?;
            prepared.plan.file_size = FILE_SIZE.min(watch.largest_file());
            Ok::<_, SandboxError>((prepared, watch))
        });
        let (prepared, watch) = prepared.await?;
        let Launched { streams, errors, life } = self.launch(prepared).await?;
        Ok(ServerProcess { streams, errors, life, excess: Box::pin(until_excess(watch)) })
    }
}
