//! The self-test: a confined child tries what it must not be able to do.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    time::Duration,
};

use rustix::{mount::MountFlags, thread::UnshareFlags};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{
    Job, Sandbox, SandboxError, Scratch, blocking, launch, layers::Layer, plan::Program, sys,
};
use crate::sandbox::workspace::governance::GOVERNED_FILE;

/// The child's attempts take milliseconds; an orphan that survived would hold its output for minutes.
const SELF_TEST_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerReport {
    pub layer: Layer,
    /// It is there and did its work.
    pub holds: bool,
    /// What was seen, and the cure if it does not hold.
    pub detail: String,
}

impl Sandbox {
    /// Runs the self-test with a real child.
    pub async fn probe(&self) -> Vec<LayerReport> {
        let attempts = match self.attempts().await {
            Ok(attempts) => attempts,
            Err(SandboxError::Unavailable { layer, reason }) => {
                return vec![failed(layer, &reason)];
            }
            Err(SandboxError::Start(error)) => {
                return vec![failed(Layer::Base, &error.to_string())];
            }
        };
        let mut reports: Vec<_> = [Layer::Landlock, Layer::Seccomp, Layer::Network]
            .into_iter()
            .map(|layer| judge(layer, &attempts))
            .collect();
        reports.push(if self.layers().namespaces {
            held(Layer::Namespaces, "own processes, mounts and network".to_owned())
        } else {
            failed(Layer::Namespaces, "commands run without; the top of a workspace is read-only")
        });
        reports.push(held(Layer::Cleanup, "an orphaned process was ended".to_owned()));
        reports
    }

    /// A layer that is there and let something pass, with what it let pass.
    pub(super) async fn self_test(&self) -> Result<Option<(Layer, String)>, SandboxError> {
        Ok(self.attempts().await?.into_iter().find(|attempt| attempt.succeeded).map(|attempt| {
            let seen = format!("not refused: {}", attempt.what);
            (attempt.layer, seen)
        }))
    }

    /// The attempts of a child whose orphan was gone when its call ended.
    async fn attempts(&self) -> Result<Vec<Attempt>, SandboxError> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let parent = self.settings.scratch.clone();
        let mut forbidden = self.settings.private.clone();
        let (scratch, workspace, targets) = blocking(move || {
            let scratch = Scratch::make(&parent)?;
            let workspace = scratch.workspace()?;
            let secret = scratch.path.join("secret");
            fs::write(&secret, "secret")?;
            forbidden.push(secret);
            let targets = Targets { forbidden, config: workspace.path().join(GOVERNED_FILE), port };
            io::Result::Ok((scratch, workspace, targets))
        })
        .await?;

        let program = Program::SelfTest(targets);
        let job = Job { workspace, program, env: BTreeMap::new(), keeps_self: false };
        let running = self.run(job, CancellationToken::new());
        let finished = tokio::time::timeout(SELF_TEST_TIMEOUT, running).await;
        drop(scratch);
        let Ok(finished) = finished else {
            return Err(SandboxError::Unavailable {
                layer: Layer::Cleanup,
                reason: "an orphaned process outlived its call".to_owned(),
            });
        };
        Ok(serde_json::from_slice(&finished?.stdout.bytes).map_err(io::Error::from)?)
    }
}

fn judge(layer: Layer, attempts: &[Attempt]) -> LayerReport {
    let (mut refused, mut succeeded) = (Vec::new(), Vec::new());
    for attempt in attempts.iter().filter(|attempt| attempt.layer == layer) {
        if attempt.succeeded {
            succeeded.push(attempt.what.as_str());
        } else {
            refused.push(attempt.what.as_str());
        }
    }
    if succeeded.is_empty() {
        held(layer, format!("refused: {}", refused.join(", ")))
    } else {
        failed(layer, &format!("not refused: {}", succeeded.join(", ")))
    }
}

fn held(layer: Layer, detail: String) -> LayerReport {
    LayerReport { layer, holds: true, detail }
}

fn failed(layer: Layer, seen: &str) -> LayerReport {
    LayerReport { layer, holds: false, detail: format!("{seen}; {}", layer.cure()) }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Targets {
    /// Files and folders that must not be readable.
    pub forbidden: Vec<PathBuf>,
    pub config: PathBuf,
    /// A port on this machine where somebody listens.
    pub port: u16,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-56
    #[test]
    fn one_attempt_that_succeeds_breaks_its_layer() {
        let attempt =
            |layer, what: &str, succeeded| Attempt { layer, what: what.to_owned(), succeeded };
        let attempts = [
            attempt(Layer::Seccomp, "ptrace", false),
            attempt(Layer::Seccomp, "mount", true),
            attempt(Layer::Network, "connect", false),
        ];

        let judged = [Layer::Seccomp, Layer::Network].map(|layer| judge(layer, &attempts));

        let expected = [
            failed(Layer::Seccomp, "not refused: mount"),
            held(Layer::Network, "refused: connect".to_owned()),
        ];
        assert_eq!(judged, expected);
    }
}
