//! Script hosts in the sandbox: this program, started anew, with its standard streams and nothing else.
//!
//! The launcher confines it as a tool server that is shown no folder. Then it seals itself: a program that is running needs
//! no file, so from there on it can open none, start no program and make no process.

use std::{collections::BTreeMap, io};

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};

use super::{
    Sandbox, SandboxError,
    agent::Launched,
    blocking,
    layers::Missing,
    plan::{Executable, Program},
    seccomp,
};

/// The first argument that makes the binary a script host.
pub const ARGUMENT: &str = "plugin-host";
/// Its threads: one for each engine, and what the launcher leaves behind.
const THREADS: u64 = 24;

impl Sandbox {
    /// Starts a script host that may hold so many bytes in memory.
    pub async fn start_script_host(&self, memory: u64) -> Result<Launched, SandboxError> {
        let ground = self.ground()?;
        let program = Executable {
            command: self.settings.launcher.clone(),
            args: vec![ARGUMENT.to_owned()],
            shown: vec![self.settings.launcher.clone()],
        };
        let program = Program::Server { program, network: false };
        let prepared = blocking(move || ground.prepare(program, BTreeMap::new(), memory, THREADS));
        let mut prepared = prepared.await?;
        prepared.plan.file_size = 0;
        self.launch(prepared).await
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
