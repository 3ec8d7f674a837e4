//! Plugin instance: one plugin of one team, with its child. A leaf: turns and hooks ask it for the child that takes
//! calls now.
//!
//! What is done when is decided by [`lifecycle`]; what a child is, and how one is started, is behind [`PluginPort`].

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture,
    SpawnHandle, WrapFuture,
};
use futures_util::future::{BoxFuture, join_all};
use tokio::{sync::oneshot, task::AbortHandle, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

pub mod builtin;
pub mod lifecycle;
pub mod records;
#[cfg(test)]
mod tests;

use lifecycle::{Effect, Input, Lifecycle, Run, Status, Terms};

/// How long the calls of a child that is to end have to finish.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A child of tools alone that nobody has used for so long is let go.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Port: starts the children of an instance, as the instance is described now.
pub trait PluginPort: Send + Sync + 'static {
    type Child: PluginChild;

    /// Starts a child and brings it so far that it takes calls. Dropping the future ends what was begun.
    fn start(&self) -> BoxFuture<'static, Result<Begun<Self::Child>, StartFault>>;

    /// How the instance stands has changed: to be kept and told. Nothing waits for it.
    fn stands(&self, standing: &InstanceStatus);

    fn gave_up(&self, reason: &str);
}

/// A child that runs. Dropping it ends it at once.
pub trait PluginChild: Send + Sync + 'static {
    /// Ends when the child has, with the reason in words for an operator.
    fn ended(&self) -> BoxFuture<'static, String>;

    /// Asks it to end, and ends it if it does not.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

/// A child that takes calls.
pub struct Begun<C> {
    pub child: C,
    /// There must not be a second one beside it.
    pub exclusive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StartFault {
    /// In words for an operator.
    pub reason: String,
    pub for_good: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    pub status: Status,
    /// What went wrong last, until a child runs again.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin unavailable")]
pub struct Unavailable {
    pub reason: String,
}

/// Describes the instance anew: it is switched on, has changed, or is to be restarted.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Renew<P> {
    /// Starts children from now on.
    pub port: Arc<P>,
    /// What holds for the instance.
    pub terms: Terms,
}

/// Switches it off. Answered when nothing of it is left.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Disable;

/// Asks for the child that takes calls. One that is being started is waited for, until the asker gives up.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Use<P: PluginPort> {
    pub answer: oneshot::Sender<Result<Lease<P>, Unavailable>>,
}

/// The right to use a child. It is not ended in order while somebody has it.
pub struct Lease<P: PluginPort> {
    pub child: Arc<P::Child>,
    instance: Addr<Instance<P>>,
    _used: TaskTrackerToken,
}

impl<P: PluginPort> Drop for Lease<P> {
    fn drop(&mut self) {
        self.instance.do_send(Released);
    }
}

/// Asks an instance for its child, and waits as long as said for one that is being started.
pub async fn lease<P: PluginPort>(
    instance: &Addr<Instance<P>>,
    patience: Duration,
) -> Result<Lease<P>, Unavailable> {
    let (answer, answered) = oneshot::channel();
    instance.do_send(Use { answer });
    match tokio::time::timeout(patience, answered).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Unavailable { reason: "it is not there any more".to_owned() }),
        Err(_) => Err(Unavailable { reason: "it did not start in time".to_owned() }),
    }
}

/// Somebody used a child, and does not any more.
#[derive(Message)]
#[rtype(result = "()")]
struct Released;

/// A child of an instance, until nothing of it is left.
struct Held<C> {
    stage: Stage<C>,
    over: CancellationToken,
}

enum Stage<C> {
    Starting(AbortHandle),
    Alive { child: Arc<C>, users: TaskTracker },
    Ending,
}

/// One plugin of one team.
pub struct Instance<P: PluginPort> {
    life: Lifecycle,
    port: Option<Arc<P>>,
    children: HashMap<Run, Held<P::Child>>,
    waiting: Vec<oneshot::Sender<Result<Lease<P>, Unavailable>>>,
    error: Option<String>,
    told: Option<InstanceStatus>,
    /// Fires when nobody has used it for long.
    unused: Option<SpawnHandle>,
}

impl<P: PluginPort> Default for Instance<P> {
    fn default() -> Self {
        Self {
            life: Lifecycle::default(),
            port: None,
            children: HashMap::new(),
            waiting: Vec::new(),
            error: None,
            told: None,
            unused: None,
        }
    }
}

impl<P: PluginPort> Instance<P> {
    /// Takes in what happened, and does what follows from it.
    fn hear(&mut self, input: Input, ctx: &mut Context<Self>) {
        for effect in self.life.on(input, Instant::now()) {
            match effect {
                Effect::Start { run, after } => self.start(run, after, ctx),
                Effect::Stop(run) => self.stop(run, ctx),
                Effect::Retry(pause) => {
                    ctx.run_later(pause, |instance, ctx| instance.hear(Input::RetryDue, ctx));
                }
                Effect::Grant(run) => self.grant(run, ctx),
                Effect::Refuse => self.refuse(),
                Effect::GiveUp => {
                    if let (Some(port), Some(error)) = (&self.port, &self.error) {
                        port.gave_up(error);
                    }
                }
            }
        }
        self.tell();
    }

    fn tell(&mut self) {
        let ends = |held: &Held<_>| matches!(held.stage, Stage::Ending);
        let status = match self.life.status() {
            Status::Disabled if self.children.values().any(ends) => Status::Stopping,
            status => status,
        };
        let standing = InstanceStatus { status, error: self.error.clone() };
        if let Some(port) = &self.port
            && self.told.as_ref() != Some(&standing)
        {
            port.stands(&standing);
            self.told = Some(standing);
        }
    }

    fn start(&mut self, run: Run, after: Option<Run>, ctx: &mut Context<Self>) {
        let Some(port) = self.port.clone() else { return };
        let before = after.and_then(|run| self.children.get(&run)).map(|held| held.over.clone());
        let task = crate::spawn::local(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            port.start().await
        });
        let stage = Stage::Starting(task.abort_handle());
        self.children.insert(run, Held { stage, over: CancellationToken::new() });
        let begun = task.into_actor(self).map(move |joined, instance, ctx| {
            let begun = joined.unwrap_or_else(|error| {
                let reason = if error.is_cancelled() {
                    "it was stopped"
                } else {
                    "starting it failed unexpectedly"
                };
                Err(StartFault { reason: reason.to_owned(), for_good: false })
            });
            instance.begun(run, begun, ctx);
        });
        ctx.spawn(begun);
    }

    fn begun(
        &mut self,
        run: Run,
        begun: Result<Begun<P::Child>, StartFault>,
        ctx: &mut Context<Self>,
    ) {
        let Some(held) = self.children.get_mut(&run) else { return };
        if !matches!(held.stage, Stage::Starting(_)) {
            // It was stopped meanwhile: dropping it ends it.
            self.gone(run);
            return;
        }
        match begun {
            Ok(Begun { child, exclusive }) => {
                let ended = child.ended();
                held.stage = Stage::Alive { child: Arc::new(child), users: TaskTracker::new() };
                let exited = ended.into_actor(self).map(move |reason, instance, ctx| {
                    instance.exited(run, reason, ctx);
                });
                ctx.spawn(exited);
                self.error = None;
                self.hear(Input::Started { run, exclusive }, ctx);
                self.rest_later(ctx);
            }
            Err(StartFault { reason, for_good }) => {
                self.gone(run);
                self.error = Some(reason);
                self.hear(Input::StartFailed { run, for_good }, ctx);
            }
        }
    }

    /// A child ended. One that was told to is over when it is stopped.
    fn exited(&mut self, run: Run, reason: String, ctx: &mut Context<Self>) {
        let alive = |held: &Held<_>| matches!(held.stage, Stage::Alive { .. });
        if self.children.get(&run).is_some_and(alive) {
            self.gone(run);
            self.error = Some(reason);
            self.hear(Input::Exited(run), ctx);
        }
    }

    fn stop(&mut self, run: Run, ctx: &mut Context<Self>) {
        let Some(held) = self.children.get_mut(&run) else { return };
        match std::mem::replace(&mut held.stage, Stage::Ending) {
            Stage::Starting(task) => {
                task.abort();
                self.gone(run);
            }
            Stage::Alive { child, users } => {
                let stopping = async move {
                    users.close();
                    // What has not finished by then ends with the child.
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, users.wait()).await;
                    child.stop().await;
                };
                let stopped =
                    crate::spawn::local(stopping).into_actor(self).map(move |_, instance, _| {
                        instance.gone(run);
                        instance.tell();
                    });
                ctx.spawn(stopped);
            }
            Stage::Ending => {}
        }
    }

    /// Nothing of a child is left.
    fn gone(&mut self, run: Run) {
        if let Some(held) = self.children.remove(&run) {
            held.over.cancel();
        }
    }

    fn grant(&mut self, run: Run, ctx: &mut Context<Self>) {
        let Some(Held { stage: Stage::Alive { child, users }, .. }) = self.children.get(&run)
        else {
            return;
        };
        for waiting in self.waiting.drain(..) {
            let lease =
                Lease { child: Arc::clone(child), instance: ctx.address(), _used: users.token() };
            // Whoever does not wait any more has no use for it.
            let _ = waiting.send(Ok(lease));
        }
    }

    fn refuse(&mut self) {
        let reason = self.error.clone().unwrap_or_else(|| self.life.status().to_string());
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(Err(Unavailable { reason: reason.clone() }));
        }
    }

    /// Lets a child of tools alone go if nobody uses it for long from now on.
    fn rest_later(&mut self, ctx: &mut Context<Self>) {
        if !self.life.rests() {
            return;
        }
        if let Some(earlier) = self.unused.take() {
            ctx.cancel_future(earlier);
        }
        self.unused = Some(ctx.run_later(IDLE_TIMEOUT, |instance, ctx| {
            let run = instance.life.running().and_then(|run| instance.children.get(&run));
            match run {
                Some(Held { stage: Stage::Alive { users, .. }, .. }) if !users.is_empty() => {
                    instance.rest_later(ctx);
                }
                _ => instance.hear(Input::Unused, ctx),
            }
        }));
    }
}

impl<P: PluginPort> Actor for Instance<P> {
    type Context = Context<Self>;
}

impl<P: PluginPort> Handler<Renew<P>> for Instance<P> {
    type Result = ();

    fn handle(&mut self, Renew { port, terms }: Renew<P>, ctx: &mut Self::Context) {
        self.port = Some(port);
        // Whoever keeps it may have been told by another port.
        self.told = None;
        self.hear(Input::Renew(terms), ctx);
    }
}

impl<P: PluginPort> Handler<Disable> for Instance<P> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Disable: Disable, ctx: &mut Self::Context) -> Self::Result {
        self.error = None;
        let over: Vec<_> = self.children.values().map(|held| held.over.clone()).collect();
        self.hear(Input::Disable, ctx);
        Box::pin(async move {
            join_all(over.iter().map(CancellationToken::cancelled)).await;
        })
    }
}

impl<P: PluginPort> Handler<Use<P>> for Instance<P> {
    type Result = ();

    fn handle(&mut self, Use { answer }: Use<P>, ctx: &mut Self::Context) {
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(answer);
        self.hear(Input::Use, ctx);
    }
}

impl<P: PluginPort> Handler<Released> for Instance<P> {
    type Result = ();

    fn handle(&mut self, Released: Released, ctx: &mut Self::Context) {
        self.rest_later(ctx);
    }
}
