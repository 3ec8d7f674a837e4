//! The self-test: a confined child tries what it must not be able to do.

use std::{collections::BTreeMap, fs, io, net::TcpListener, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Job, Sandbox, SandboxError, Scratch,
    attempt::Attempt,
    blocking,
    layers::Layer,
    plan::{Program, Targets},
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
