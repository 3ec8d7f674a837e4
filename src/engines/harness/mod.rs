//! Harness: engines that are command-line agents. Each turn has a process of its own, in the sandbox.
//!
//! The agent runs its own loop; what it calls are our tools. To the turn that is a series of steps like any other: a
//! step ends when the agent calls something, the turn runs that on the one path of all tools, and the agent hears the
//! result when the next step begins. The process lives from the first step to the end of the turn.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    engine::{Engine, EngineEvent, EngineFailure, EngineReply, EventSink, Paid, StepRequest},
    ids::TurnId,
    task::outcome::Code,
    usage::Usage,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    installed::Installed,
    native::{Link, retry::RetryPolicy},
    pictures,
    relay::{self, Pass},
    scrubbed_sink::ScrubbedSink,
};
use crate::{
    files::FileStore,
    providers::fault::Remedy,
    sandbox::process::{
        PROCESSES, Sandbox, SandboxError,
        agent::AgentJob,
        layout::{FILES, HOME, PORT, SOCKET, WORK},
        plan::Executable,
    },
    settings::config::Sdk,
    system::hex,
    vault::scrubbers::Scrubbers,
};

pub mod bridge;
pub mod lines;
mod message;
mod notes;
pub mod program;
mod running;
pub mod wake;

use program::{Order, Program};
use running::{Running, Sight, Stopped};

/// An agent whose turn is over has this long to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// What all agents share.
pub struct Harness {
    sandbox: Arc<Sandbox>,
    http: reqwest::Client,
    retry: Arc<RetryPolicy>,
    /// This program, which is also the bridge to our tools.
    bridge: PathBuf,
    /// Where pictures of results are.
    files: Option<FileStore>,
    /// Agents between two steps.
    resting: Mutex<HashMap<TurnId, Running>>,
}

impl Harness {
    pub fn new(
        sandbox: Arc<Sandbox>,
        http: reqwest::Client,
        retry: Arc<RetryPolicy>,
        bridge: PathBuf,
        files: Option<FileStore>,
    ) -> Self {
        Self { sandbox, http, retry, bridge, files, resting: Mutex::default() }
    }
}

/// An engine that is a command-line agent.
#[derive(Clone)]
pub struct AgentEngine {
    pub harness: Arc<Harness>,
    pub program: Arc<dyn Program>,
    pub installed: Installed,
    pub sdk: Sdk,
    /// The profile that its model calls are paid from, and its fallbacks.
    pub(super) links: Arc<[Link]>,
    pub scrubbers: Arc<Scrubbers>,
    /// Answers what is asked outside of a conversation.
    pub native: Arc<dyn Engine>,
}

impl Engine for AgentEngine {
    fn run(&self, request: StepRequest, events: EventSink) -> BoxFuture<'static, EngineReply> {
        let engine = self.clone();
        async move {
            let cancel = request.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    Err(EngineFailure::new(Code::Cancelled, "the agent was stopped"))
                }
                reply = engine.step(request, events) => reply,
            }
        }
        .boxed()
    }

    fn ask(&self, request: StepRequest, events: EventSink) -> BoxFuture<'static, EngineReply> {
        self.native.ask(request, events)
    }
}

impl AgentEngine {
    async fn step(&self, request: StepRequest, events: EventSink) -> EngineReply {
        let rests = self.harness.resting.lock().remove(&request.turn);
        // A conversation that was made smaller is another one: it is told from the beginning.
        let mut rests = rests.filter(|running| running.knows(&request));
        let mut sink = ScrubbedSink::new(events, self.scrubbers.of(&request.team));
        let mut retries = 0;
        loop {
            let stopped = match self.started(rests.take(), &request).await {
                Err(stopped) => stopped,
                Ok(mut running) => {
                    let stepped = running.step(&mut sink, &request).await;
                    let mut bill = request.unbooked.take();
                    // The reply is of the model that answered last.
                    let answered = if stepped.is_ok() { bill.pop() } else { None };
                    bill.into_iter().for_each(|paid| sink.say(EngineEvent::Spent(paid)));
                    match stepped {
                        Ok(reply) => {
                            sink.end();
                            self.harness.rest(request.turn, running, request.cancel);
                            return Ok(reply.paid(answered.unwrap_or_else(|| self.nothing_paid())));
                        }
                        Err(stopped) => {
                            hivewright_actors::spawn::anywhere(running.end());
                            stopped
                        }
                    }
                }
            };
            let (failure, remedy) = match stopped {
                Stopped::Broke(failure) => (failure, Remedy::Retry(None)),
                Stopped::Failed(failure) => (failure, Remedy::None),
            };
            let message = sink.scrub(&failure.message);
            let Some(pause) = self.harness.retry.again(retries, remedy) else {
                sink.end();
                return Err(EngineFailure { message, ..failure });
            };
            // Another process is told all that was done, and asks again.
            retries += 1;
            sink.reset();
            sink.say(EngineEvent::Retry(message));
            tokio::time::sleep(pause).await;
        }
    }

    /// An agent that is at this step: the one that rests, or a new one.
    async fn started(
        &self,
        rests: Option<Running>,
        request: &StepRequest,
    ) -> Result<Running, Stopped> {
        match rests {
            Some(mut running) => {
                running.go_on(request);
                Ok(running)
            }
            None => self.start(request).await,
        }
    }

    /// A step that cost nothing, of the profile and the model of the turn.
    fn nothing_paid(&self) -> Paid {
        let first = self.links.first();
        let names = first.map(|link| (link.profile.name.clone(), link.model.clone()));
        let (profile, model) = names.unwrap_or_default();
        Paid { profile, model, usage: Usage::default() }
    }

    async fn start(&self, request: &StepRequest) -> Result<Running, Stopped> {
        let order = self.order(request)?;
        let sight = match self.harness.files.clone().filter(|_| order.sees) {
            Some(files) => {
                let attached = pictures::attached(&files, request).await;
                Sight { files: Some(files), attached }
            }
            None => Sight::default(),
        };
        let launch = self.program.launch(&order);
        let Installed { binary, mut shown, path, .. } = self.installed.clone();
        shown.push(self.harness.bridge.clone());
        let job = AgentJob {
            program: Executable { command: binary, args: launch.args, shown },
            path,
            env: launch.env,
            files: launch.files,
            processes: PROCESSES,
        };
        let agent = self.harness.sandbox.start(job).await.map_err(unstarted)?;
        // The same in all steps of the turn, as long as the agent lives.
        let (unbooked, limited) = (request.unbooked.clone(), request.unbooked.clone());
        let (told, heard) = mpsc::unbounded_channel();
        let pass = Pass {
            token: order.token.clone(),
            team: request.team.clone(),
            links: Arc::clone(&self.links),
            retry: Arc::clone(&self.harness.retry),
            told,
            spent: Arc::new(move |paid| unbooked.add(paid)),
            affords: Box::new(move || limited.affords_another().map_err(|why| why.to_string())),
        };
        let http = self.harness.http.clone();
        let relay = |listener, ends| relay::serve(listener, pass, http, ends);
        let dialogue = self.program.dialogue(&order);
        let running = Running::new(agent, dialogue, request, &order.token, sight, heard, relay);
        tracing::debug!(team = %request.team, sdk = self.sdk.as_str(), "an agent was started");
        Ok(running)
    }

    fn order(&self, request: &StepRequest) -> Result<Order, EngineFailure> {
        let system = &request.system;
        let parts = [&*system.shared, &system.team, &system.turn];
        let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
        Ok(Order {
            model: self.links.first().map(|link| link.model.clone()).unwrap_or_default(),
            sees: self.links.first().is_some_and(|link| link.profile.pictures),
            thinking: request.thinking,
            system: parts.collect::<Vec<_>>().join("\n\n"),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            workspace: WORK.into(),
            home: HOME.into(),
            files: FILES.into(),
            relay: format!("http://127.0.0.1:{PORT}"),
            token: token()?,
            bridge: self.harness.bridge.clone(),
            socket: SOCKET.into(),
        })
    }
}

impl Harness {
    /// Keeps an agent until the next step, at most until its turn is over or it holds too much on the disk.
    fn rest(self: &Arc<Self>, turn: TurnId, running: Running, over: CancellationToken) {
        let is_full = running.is_full.clone();
        self.resting.lock().insert(turn.clone(), running);
        let harness = self.clone();
        hivewright_actors::spawn::anywhere(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = is_full.cancelled() => {}
            }
            // It may be at its next step, which ends it by itself.
            let rested = harness.resting.lock().remove(&turn);
            if let Some(running) = rested {
                running.end().await;
            }
        });
    }
}

/// 256 bits that nobody can guess, in hex.
fn token() -> Result<String, EngineFailure> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits)
        .map_err(|error| EngineFailure::new(Code::Internal, format!("no random bits: {error}")))?;
    Ok(hex(&bits))
}

fn unstarted(error: SandboxError) -> Stopped {
    let failure = |code| EngineFailure::new(code, format!("the agent cannot be started: {error}"));
    match &error {
        SandboxError::Unavailable { .. } => Stopped::Failed(failure(Code::ConfigError)),
        SandboxError::Start(cause) => {
            let mut failure = failure(Code::Crash);
            failure.message = format!("{}: {cause}", failure.message);
            Stopped::Broke(failure)
        }
    }
}
