//! What a confined process tries in vain: the self-test, seen from inside.

use std::{
    fs::{self, OpenOptions},
    io,
    net::TcpStream,
    path::PathBuf,
};

use rustix::{mount::MountFlags, thread::UnshareFlags};
use serde::{Deserialize, Serialize};

use super::{launch, layers::Layer, sys};

/// What to try it on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Targets {
    /// Files and folders that must not be readable.
    pub forbidden: Vec<PathBuf>,
    pub config: PathBuf,
    /// A port on this machine where somebody listens.
    pub port: u16,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// The layer that had to refuse.
    pub layer: Layer,
    pub what: String,
    pub succeeded: bool,
}

/// Tries everything and prints what came of it. Leaves a process behind, which must not survive.
pub(super) fn attempt(targets: &Targets) -> i32 {
    let mut attempts = Vec::new();
    let mut record = |layer, what: String, result: io::Result<()>| {
        attempts.push(Attempt { layer, what, succeeded: result.is_ok() });
    };
    for path in &targets.forbidden {
        let what = format!("read {}", path.display());
        record(Layer::Landlock, what, read(path));
    }
    let written = OpenOptions::new().append(true).open(&targets.config);
    record(Layer::Landlock, "write config.yaml".to_owned(), written.map(drop));
    for address in ["127.0.0.1", "169.254.169.254", "192.0.2.1"] {
        let connected = TcpStream::connect((address, targets.port)).map(drop);
        record(Layer::Network, format!("connect to {address}"), connected);
    }
    record(Layer::Seccomp, "ptrace".to_owned(), sys::trace_me());
    let mounted = rustix::mount::mount("none", "/tmp", "tmpfs", MountFlags::empty(), None);
    record(Layer::Seccomp, "mount".to_owned(), mounted.map_err(Into::into));
    let entered = sys::unshare(UnshareFlags::NEWUSER);
    record(Layer::Seccomp, "new namespace".to_owned(), entered);
    let Ok(line) = serde_json::to_string(&attempts) else {
        return 1;
    };
    println!("{line}");
    match launch::orphan() {
        Ok(_) => 0,
        Err(_) => 1,
    }
}

fn read(path: &PathBuf) -> io::Result<()> {
    if fs::read_dir(path).is_ok() {
        return Ok(());
    }
    fs::File::open(path).map(drop)
}
