//! Plugins in the sandbox: programs that talk through their standard streams, with a folder of their own and nothing of
//! any team.
//!
//! One reads its package and what the operator agreed to, writes its private folder, and reaches no network.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use super::{
    FILE_SIZE, Sandbox, SandboxError, Scratch,
    agent::{Launched, Life},
    blocking, exposed, folder, folders, in_group,
    layers::Layer,
    plan::{Plan, PluginProgram, Program},
    server::ServerProcess,
    until_excess,
};
use crate::sandbox::{quota::Watch, workspace::Workspace};

/// What is to be started.
#[derive(Debug)]
pub struct PluginJob {
    pub program: PluginProgram,
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
        if let Some((layer, reason)) = self.missing() {
            return Err(SandboxError::Unavailable { layer, reason });
        }
        let PluginJob { program, data, env, memory, processes } = job;
        let (settings, groups) = (self.settings.clone(), self.groups.clone().ok());
        let (quota, namespaces) = (Arc::clone(&self.quota), self.layers.namespaces);
        let prepared = blocking(move || {
            folder(&data)?;
            let workspace = Workspace::open(&data, &[]).map_err(io::Error::other)?;
            let workspace = Arc::new(workspace);
            if let Some(path) = exposed(&settings.private, &workspace) {
                return Err(SandboxError::Unavailable {
                    layer: Layer::Landlock,
                    reason: format!("{} lies in a folder that plugins can read", path.display()),
                });
            }
            let scratch = Scratch::make(&settings.scratch)?;
            let watch = Watch::new(&quota, &workspace, &scratch.path);
            let group = groups.and_then(|groups| in_group(&groups, memory, processes));
            let plan = Plan {
                folders: folders(&workspace)?,
                scratch: scratch.path.clone(),
                group: group.as_ref().map(|group| group.path.clone()),
                namespaces,
                keep_top: false,
                kept: Vec::new(),
                memory,
                processes,
                file_size: FILE_SIZE.min(watch.largest_file()),
                env,
                program: Program::Plugin(program),
            };
            Ok((plan, watch, scratch, group))
        });
        let (plan, watch, scratch, group) = prepared.await?;
        let Launched { control, streams, errors, child } = self.launch(&plan).await?;
        let life = Life::new(control, child, scratch, group);
        Ok(ServerProcess { streams, errors, life, excess: Box::pin(until_excess(watch)) })
    }
}
