//! Organisation: the actor that makes teams and shuts them down, step by step, so that a crash in between is
//! finished or undone at the next start.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Message, Recipient, ResponseActFuture, WrapFuture,
};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};

use crate::{
    channel::Deliver,
    clock::Clock,
    ids::{Ids, MAIN, TaskId, TeamKey, TeamName},
    queue::causes::Giver,
    store::{
        StoreHandle,
        records::{Alongside, Writes},
    },
    task::Task,
};

pub mod belongings;
pub mod error;
pub mod folders;
pub mod names;
pub mod record;
pub mod roster;
pub mod tree;
pub mod view;
pub mod work;

mod bootstrap;
mod rest;
mod shutdown;
mod spawn;
#[cfg(test)]
mod tests;
mod update;

use belongings::Belongings;
use error::OrgError;
use folders::{FolderPlan, Folders};
use record::{Capability, TeamRecord};
use tree::{By, Limits, Tree};
use view::OrgView;
use work::Work;

/// What must become durable together with a new team, once its key is known.
pub type Beside = Box<dyn FnOnce(TeamKey) -> BoxFuture<'static, Result<Alongside, String>> + Send>;

/// Makes a team: its record, its folder and its first work, all or nothing.
#[derive(Message)]
#[rtype(result = "Result<TeamKey, OrgError>")]
pub struct Spawn {
    pub name: String,
    pub parent: TeamName,
    pub by: By,
    pub scope: Vec<String>,
    pub limits: Limits,
    pub plan: FolderPlan,
    /// Its first work. The generation is filled in.
    pub bootstrap: Task,
    /// Whose turn makes it, for limits on what one cause leads to.
    pub giver: Option<Giver>,
    /// What else belongs into the same commit.
    pub writes: Writes,
    /// The same, for what depends on the new team's key.
    pub beside: Option<Beside>,
}

/// What a shutdown did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "TeamsRemoved")]
pub struct Removed {
    /// The teams that are gone, in the order in which they went.
    pub removed: Vec<TeamName>,
    /// How many of their tasks were cancelled.
    pub cancelled_tasks: u64,
    /// Where the folder of the team is now.
    pub trash: Option<String>,
}

/// Lets a team go, with all below it if told so. Answered when they are gone.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Removed, OrgError>")]
pub struct Shutdown {
    pub name: TeamName,
    pub cascade: bool,
    pub by: By,
    /// The tool call behind it: its answer is stored with the last step.
    pub call: Option<String>,
}

/// Changes what a team takes on, or how it is described.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<TeamRecord, OrgError>")]
pub struct Update {
    pub name: TeamName,
    pub by: By,
    pub add: Vec<String>,
    pub remove: Vec<String>,
    pub description: Option<String>,
    /// What it may do beyond its tools from now on. Only operators say so.
    pub capabilities: Option<BTreeSet<Capability>>,
    /// The tool call behind it: its answer, the record, is stored with the change.
    pub call: Option<String>,
}

/// Lets a team rest, or work again. The main team and all others if none is named.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Vec<TeamName>, OrgError>")]
pub struct Pause {
    pub team: Option<TeamName>,
    pub paused: bool,
    /// Also stop what runs. A team that is to work begins that again.
    pub now: bool,
    pub by: By,
}

/// A team keeps dying and rests.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Degrade {
    pub team: TeamName,
    /// How often it died …
    pub deaths: usize,
    /// … within this time. It rests for as long.
    pub within: std::time::Duration,
}

/// Gives a team its first work again. Answers the task; none if the team is ready.
#[derive(Debug, Message)]
#[rtype(result = "Result<Option<TaskId>, OrgError>")]
pub struct Bootstrap {
    /// The task, for the team that does it.
    pub task: Task,
}

/// What the organisation works with.
#[derive(Clone)]
pub struct Parts {
    pub store: StoreHandle,
    pub work: Arc<dyn Work>,
    /// Where people are told that a team is ready.
    pub channel: Recipient<Deliver>,
    pub folders: Arc<dyn Folders>,
    pub clock: Arc<dyn Clock>,
    pub ids: Ids,
    /// What everyone else sees of it.
    pub view: OrgView,
    /// What goes with a team when it is shut down.
    pub belongings: Arc<[Arc<dyn Belongings>]>,
}

/// The organisation. Asked by tools and HTTP; waits for nobody itself: each change is a task.
pub struct Org {
    parts: Parts,
    tree: Tree,
    /// Teams being made, with their parents.
    making: HashMap<TeamName, TeamName>,
    /// Shutdowns under way by the team at the top, with those who wait for them.
    closing: HashMap<TeamName, Vec<oneshot::Sender<Result<Removed, OrgError>>>>,
    /// Nothing is changed before what was left half-done is settled.
    settled: watch::Sender<bool>,
}

impl Org {
    /// The organisation of these records, as a former process left them.
    pub fn new(parts: Parts, records: Vec<TeamRecord>) -> Self {
        let mut tree = Tree::new(records);
        if tree.get(MAIN).is_none() {
            let main = TeamRecord::main(parts.clock.now());
            drop(parts.store.commit(Writes::new().put(&main)));
            tree.put(main);
        }
        parts.view.show(tree.clone());
        Self {
            parts,
            tree,
            making: HashMap::new(),
            closing: HashMap::new(),
            settled: watch::Sender::new(false),
        }
    }

    /// A team that is new or has changed, and is durable.
    fn put(&mut self, record: TeamRecord) {
        self.tree.put(record);
        self.parts.view.show(self.tree.clone());
    }

    /// Ends when what was left half-done is settled.
    fn is_settled(&self) -> impl Future<Output = ()> + use<> {
        let mut settled = self.settled.subscribe();
        async move {
            // An error means that the organisation is gone, and with it the caller.
            let _gone = settled.wait_for(|settled| *settled).await;
        }
    }

    /// Commits a change of one record that the tree holds already, then shows the tree.
    ///
    /// By then the tree may hold a later change of it, which is not to be undone.
    fn store(&self, record: TeamRecord, writes: Writes) -> Answered<TeamRecord> {
        let committed = self.parts.store.commit(writes.put(&record));
        Box::pin(committed.into_actor(self).map(move |result, org, _| {
            let frames = result.map_err(|_| OrgError::Stopping)?;
            if !frames.is_empty() {
                org.parts.channel.do_send(Deliver { frames });
            }
            org.parts.view.show(org.tree.clone());
            Ok(record)
        }))
    }
}

/// An answer that may take its time.
type Answered<T> = ResponseActFuture<Org, Result<T, OrgError>>;

/// An answer that is known.
fn answered<T: 'static>(answer: Result<T, OrgError>) -> Answered<T> {
    Box::pin(actix::fut::ready(answer))
}

impl Actor for Org {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        for team in self.tree.iter() {
            self.wake_when_rested(team, ctx);
        }
        // What a former process left half-done is finished or undone.
        let living = self.tree.iter().map(|team| team.name.clone()).collect();
        let settled = self.parts.folders.settle(living);
        ctx.spawn(settled.into_actor(self).map(|(), org, ctx| {
            org.settled.send_replace(true);
            org.go_on_closing(ctx);
            org.look_at_bootstraps(ctx);
        }));
    }
}
