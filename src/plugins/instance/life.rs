//! What a child runs in: a process in the sandbox, or a task of this one.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hivewright_actors::plugin::builtin::Builtin;
use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, split},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};
use tokio_util::{either::Either, task::AbortOnDropHandle};

use super::errors::Lines;
use crate::{
    plugins::builtin,
    sandbox::{
        process::{agent, server::ServerProcess},
        quota::Excess,
    },
};

/// What a pipe in memory holds, in bytes: about as much as one between processes.
const PIPE: usize = 64 << 10;

/// A child that was started, and has not said anything yet.
pub(super) struct Spawned {
    pub(super) output: Either<OwnedReadHalf, ReadHalf<DuplexStream>>,
    pub(super) input: Either<OwnedWriteHalf, WriteHalf<DuplexStream>>,
    pub(super) life: Life,
    /// Ends when it wrote more to the disk than it may.
    pub(super) excess: BoxFuture<'static, Excess>,
}

/// Ends what it is of when it is dropped.
pub(super) enum Life {
    Process(Box<agent::Life>),
    Task(AbortOnDropHandle<Option<String>>),
}

impl Spawned {
    /// A process, whose error output is logged.
    pub(super) fn process(process: ServerProcess, lines: &Lines) -> Self {
        let ServerProcess { streams, errors, life, excess } = process;
        hivewright_actors::spawn::anywhere(lines.clone().follow(errors));
        let (output, input) = streams.into_split();
        let (output, input) = (Either::Left(output), Either::Left(input));
        Self { output, input, life: Life::Process(Box::new(life)), excess }
    }

    /// A task, which writes no file.
    pub(super) fn task(builtin: Arc<dyn Builtin>) -> Self {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let task = AbortOnDropHandle::new(hivewright_actors::spawn::anywhere(builtin::serve(
            builtin, theirs,
        )));
        let (output, input) = split(ours);
        let (output, input) = (Either::Right(output), Either::Right(input));
        Self { output, input, life: Life::Task(task), excess: Box::pin(std::future::pending()) }
    }
}

impl Life {
    /// Waits once until nothing of it is left. Says why, if that was not its own doing.
    pub(super) async fn ended(&mut self) -> Option<String> {
        match self {
            Self::Process(life) => life.ended().await,
            Self::Task(task) => task.await.ok().flatten(),
        }
    }

    /// Ends it: a process is asked first, and killed after a moment.
    pub(super) async fn end(self, grace: Duration) {
        match self {
            Self::Process(life) => life.end(grace).await,
            Self::Task(task) if task.is_finished() => {}
            Self::Task(task) => {
                task.abort();
                // That it was ended is what was wanted.
                let _ = task.await;
            }
        }
    }
}
