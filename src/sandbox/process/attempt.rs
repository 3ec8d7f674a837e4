//! Attempts of the self-test: what a confined child tries, and must not be able to do.

use std::{
    fs::{self, OpenOptions},
    io,
    net::TcpStream,
    path::PathBuf,
    time::Duration,
};

use rustix::{mount::MountFlags, process::Pid, thread::UnshareFlags};
use serde::{Deserialize, Serialize};

use super::{
    layers::Layer,
    plan::Targets,
    sys::{self, Fork},
};

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
    let Ok(line) = serde_json::to_string(&attempts) else { return 1 };
    println!("{line}");
    match orphan() {
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

/// A process that does nothing for a while, away from its parent.
fn orphan() -> io::Result<Option<Pid>> {
    match sys::fork()? {
        Fork::Parent(pid) => Ok(Some(pid)),
        Fork::Child => {
            let _ = rustix::process::setsid();
            std::thread::sleep(Duration::from_secs(600));
            std::process::exit(0)
        }
    }
}
