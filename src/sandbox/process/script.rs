//! Script hosts in the sandbox: this program, started anew, with its standard streams and nothing else.
//!
//! The launcher confines it as a tool server that is shown no folder. Then it seals itself: a program that is running needs
//! no file, so from there on it can open none, start no program and make no process.

use std::{collections::BTreeMap, io};

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use tokio::{net::UnixStream, process::ChildStderr};

use super::{
    Sandbox, SandboxError, Scratch,
    agent::{Launched, Life},
    blocking, in_group,
    layers::Missing,
    plan::{Plan, Program, ServerProgram},
    seccomp,
};

/// The first argument that makes the binary a script host.
pub const ARGUMENT: &str = "plugin-host";
/// Its threads: one for each engine, and what the launcher leaves behind.
const THREADS: u64 = 24;

/// A script host that runs.
pub struct ScriptHost {
    /// Its input and its output.
    pub streams: UnixStream,
    pub errors: ChildStderr,
    pub life: Life,
}

impl Sandbox {
    /// Starts a script host that may hold so many bytes in memory.
    pub async fn start_script_host(&self, memory: u64) -> Result<ScriptHost, SandboxError> {
        if let Some((layer, reason)) = self.missing() {
            return Err(SandboxError::Unavailable { layer, reason });
        }
        let (parent, groups) = (self.settings.scratch.clone(), self.groups.clone().ok());
        let made = blocking(move || {
            let group = groups.and_then(|groups| in_group(&groups, memory, THREADS));
            io::Result::Ok((Scratch::make(&parent)?, group))
        });
        let (scratch, group) = made.await?;
        let program = ServerProgram {
            command: self.settings.launcher.clone(),
            args: vec![ARGUMENT.to_owned()],
            shown: vec![self.settings.launcher.clone()],
            network: false,
        };
        let plan = Plan {
            folders: Vec::new(),
            scratch: scratch.path.clone(),
            group: group.as_ref().map(|group| group.path.clone()),
            namespaces: self.layers.namespaces,
            keep_top: false,
            kept: Vec::new(),
            memory,
            processes: THREADS,
            file_size: 0,
            env: BTreeMap::new(),
            program: Program::Server(program),
        };
        let Launched { control, streams, errors, child } = self.launch(&plan).await?;
        Ok(ScriptHost { streams, errors, life: Life::new(control, child, scratch, group) })
    }
}

/// Takes from this process, for good, what it does not need to run scripts. Call it while it has one thread.
pub fn seal() -> io::Result<()> {
    let no_files = || -> Result<_, landlock::RulesetError> {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V3))?;
        rules.create()?.restrict_self()
    };
    rustix::thread::set_no_new_privs(true)?;
    no_files().map_err(io::Error::other)?;
    let why = |missing: Missing| io::Error::other(format!("{}: {}", missing.layer, missing.reason));
    seccomp::seal().map_err(why)
}
