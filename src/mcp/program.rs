//! Servers that are programs: started in the sandbox, watched for what they write.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use hivewright_actors::excerpt;
use parking_lot::Mutex;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::{
    io::AsyncReadExt,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    process::ChildStderr,
};

use super::{
    context::ServerContext,
    definition::shown,
    fault::Faults,
    lines::{Bounded, LARGEST},
};
use crate::{
    sandbox::{
        process::{agent::Life, plan::Executable, server::ServerJob},
        quota::Excess,
    },
    scrub::Scrubber,
    settings::mcp_servers::{FolderAccess, McpServer, ServerNetwork},
    taint::{label::Worker, window::Window},
};

/// What is kept of a line of its error output, in bytes.
const KEPT: usize = 4 << 10;
/// What is shown of it, in characters.
const SHOWN: usize = 300;

pub(super) type Streams =
    AsyncRwTransport<rmcp::RoleClient, Bounded<OwnedReadHalf>, OwnedWriteHalf>;

pub(super) struct Running {
    pub(super) life: Life,
    /// Ends when it wrote more to the disk than it may.
    pub(super) excess: BoxFuture<'static, Excess>,
    /// What it changes is not believed.
    pub(super) window: Option<Window>,
}

/// The last words of an error output, as it grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Remark(Arc<Mutex<LastLine>>);

#[derive(Debug, Default)]
struct LastLine {
    /// The last one that says something and has ended.
    whole: Vec<u8>,
    begun: Vec<u8>,
}

impl LastLine {
    fn hear(&mut self, written: &[u8]) {
        for byte in written {
            match byte {
                b'\n' => {
                    let line = std::mem::take(&mut self.begun);
                    if !line.trim_ascii().is_empty() {
                        self.whole = line;
                    }
                }
                byte if self.begun.len() < KEPT => self.begun.push(*byte),
                _ => {}
            }
        }
    }
}

impl Remark {
    /// The last line, first without secrets, then shortened.
    pub(super) fn last(&self, scrubber: &Scrubber) -> Option<String> {
        let LastLine { whole, begun } = &*self.0.lock();
        let line = [begun, whole].map(|line| shown(&String::from_utf8_lossy(line)));
        let line = line.into_iter().find(|line| !line.is_empty())?;
        Some(excerpt::line(&scrubber.scrub(&line), SHOWN))
    }

    async fn follow(self, mut errors: ChildStderr) {
        let mut chunk = [0; 1 << 10];
        // One that can be read no more says nothing more.
        while let Ok(length @ 1..) = errors.read(&mut chunk).await {
            self.0.lock().hear(&chunk[..length]);
        }
    }
}

/// Starts the program of a server. An error is in words for the operator.
pub(super) async fn start(
    context: &ServerContext,
    command: &str,
    env: BTreeMap<String, String>,
    faults: &Faults,
    remark: &Remark,
) -> Result<(Running, Streams), String> {
    let McpServer { args, workspace, network, read_dirs, trusted, .. } = context.config();
    let window = match workspace {
        FolderAccess::ReadWrite if !trusted => {
            let worker = Worker {
                team: context.team().name.clone(),
                task: "mcp".into(),
                tool: context.key(),
            };
            let window = context.grounds.taint.begin_for_command(worker, &context.workspace);
            Some(window.await.map_err(|error| error.to_string())?)
        }
        _ => None,
    };
    let job = ServerJob {
        workspace: Arc::clone(&context.workspace),
        access: workspace.access(),
        program: Executable {
            command: command.into(),
            args: args.clone(),
            shown: read_dirs.clone(),
        },
        network: *network == ServerNetwork::On,
        env,
    };
    let process = context.grounds.sandbox.serve(job).await.map_err(|error| match error {
        crate::sandbox::process::SandboxError::Start(cause) => {
            format!("it cannot be started: {cause}")
        }
        error => error.to_string(),
    })?;
    hivewright_actors::spawn::anywhere(remark.clone().follow(process.errors));
    let (output, input) = process.streams.into_split();
    let streams = AsyncRwTransport::new(Bounded::new(output, faults.clone(), LARGEST), input);
    let running = Running { life: process.life, excess: process.excess, window };
    Ok((running, streams.with_max_line_length(LARGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a secret that a cut would go through nothing is left, and lines without words do not count.
    #[test]
    fn the_last_words_hold_no_part_of_a_secret() {
        let scrubber = Scrubber::new(["geheimnis-4711"]);
        let remark = Remark::default();
        let hear = |text: &str| remark.0.lock().hear(text.as_bytes());

        hear("first\nsecond geh");
        hear("eimnis-4711\n \n");
        let short = remark.last(&scrubber);
        hear(&format!("{}geheimnis-4711 and so on", "x".repeat(SHOWN - 8)));
        let long = remark.last(&scrubber).unwrap();

        assert_eq!(short.as_deref(), Some("second [REDACTED]"));
        assert!(long.ends_with("x[REDACT…") && long.chars().count() == SHOWN, "{long}");
    }
}
