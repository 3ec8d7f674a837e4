//! What the daemon tells the launcher, and what it hears back.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use super::layers::Missing;

/// The largest plan a launcher reads.
const LARGEST: u32 = 8 << 20;

/// Asks the launcher to end the tree politely. Closing the connection ends it at once.
pub(super) const TERMINATE: u8 = b't';

/// What a process ends with that did not become the program.
pub(super) const FAILED: u8 = 125;

/// All that a launcher needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The team's folders, the workspace first.
    pub folders: Vec<Folder>,
    /// Private to this call: holds `home`, `tmp` and `root`.
    pub scratch: PathBuf,
    pub group: Option<PathBuf>,
    pub namespaces: bool,
    /// Keep the top of the workspace as it is: the governed names there cannot be held by mounts.
    pub keep_top: bool,
    /// More names at the top of the workspace that stay as they are.
    pub kept: Vec<String>,
    /// Bytes that the tree may hold in memory.
    pub memory: u64,
    /// Processes and threads at once.
    pub processes: u64,
    pub file_size: u64,
    pub env: BTreeMap<String, String>,
    pub program: Program,
}

/// Where the program lives inside.
pub(super) struct Home {
    pub home: PathBuf,
    pub tmp: PathBuf,
}

/// A folder of the team, named by path and recognised by what it is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Folder {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    pub writable: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Program {
    Bash(String),
    /// A command-line agent, which also talks to one port. It finds programs in `path`, before those of the system.
    Agent {
        program: Executable,
        path: Vec<PathBuf>,
    },
    /// A tool server, which may have the network of the machine instead of none.
    Server {
        program: Executable,
        network: bool,
    },
    /// A plugin, which is started in its package.
    Plugin {
        program: Executable,
        folder: PathBuf,
    },
    /// The attempts of the self-test.
    SelfTest(Targets),
}

/// A program that talks through its standard streams.
#[derive(Debug, Serialize, Deserialize)]
pub struct Executable {
    /// A path, or the name of a program of the system.
    pub command: PathBuf,
    pub args: Vec<String>,
    /// What it may read and run besides the system, at the same place inside.
    pub shown: Vec<PathBuf>,
}

/// What the self-test tries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Targets {
    /// Files and folders that must not be readable.
    pub forbidden: Vec<PathBuf>,
    pub config: PathBuf,
    /// A port on this machine where somebody listens.
    pub port: u16,
}

/// What a launcher reports: how it ended, at last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// A socket goes with it, where the agent will knock.
    Listening,
    /// It could not confine the program, so it did not run it.
    Refused(Missing),
    Ended(Ended),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Killed with all it started: together they held too much memory.
    OverMemory,
    /// Killed with all it started: there were too many of them.
    OverProcesses,
}

/// Variables may hold secrets.
impl Drop for Plan {
    fn drop(&mut self) {
        self.env.values_mut().for_each(Zeroize::zeroize);
    }
}

impl Plan {
    pub(super) fn is_agent(&self) -> bool {
        matches!(self.program, Program::Agent { .. })
    }

    /// What the program may read and run besides.
    pub(super) fn shown(&self) -> &[PathBuf] {
        match &self.program {
            Program::Agent { program, .. }
            | Program::Server { program, .. }
            | Program::Plugin { program, .. } => &program.shown,
            Program::Bash(_) | Program::SelfTest(_) => &[],
        }
    }

    /// Its first folder is a team's, with what governs the team in it.
    pub(super) fn is_governed(&self) -> bool {
        !matches!(self.program, Program::Plugin { .. })
    }

    /// The program has the network of the machine.
    pub(super) fn has_network(&self) -> bool {
        matches!(self.program, Program::Server { network: true, .. })
    }

    /// Length and JSON.
    pub(super) fn to_bytes(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        let body = Zeroizing::new(serde_json::to_vec(self)?);
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        let mut bytes = Zeroizing::new(Vec::with_capacity(4 + body.len()));
        bytes.extend(length.to_le_bytes());
        bytes.extend(&*body);
        Ok(bytes)
    }

    pub(super) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > LARGEST {
            return Err(io::Error::other("the plan is too large"));
        }
        let mut body = vec![0; length as usize];
        from.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}
