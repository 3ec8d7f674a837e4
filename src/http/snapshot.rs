//! `/api/v1/snapshot`: all that a watcher needs to begin with, and where it goes on from there.

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use hivewright_actors::{channel::CountConnections, live::turns::ActiveTurn};
use serde::Serialize;
use serde_json::json;

use super::{
    State,
    approvals::{self, PATIENCE, ask},
    auth::scope::Scope,
    channels::{self, Channel},
    error::ApiError,
    jobs::Job,
    json,
    overview::{self, Overview, Stored},
    questions,
    routes::{self, Methods},
    teams::{self, Node},
    topics::{self, Topic},
};

/// A snapshot during which something changed is taken again, so often.
const TRIES: usize = 4;
/// Topics in it, those with the newest activity.
const TOPICS: usize = 200;

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/snapshot", Methods::new().get(show))
}

/// Everything at one place in the order of events.
#[derive(Serialize)]
struct Snapshot {
    boot: u64,
    /// All events up to here are in it.
    seq: u64,
    overview: Overview,
    org: Option<Node>,
    running: Vec<Running>,
    approvals: Vec<approvals::Row>,
    questions: Vec<questions::Row>,
    inbox_unread: usize,
    topics: Vec<Topic>,
    channels: Vec<Channel>,
    jobs: Vec<Job>,
}

/// A turn under way, and which process its number is of.
#[derive(Serialize)]
pub(super) struct Running {
    boot: u64,
    #[serde(flatten)]
    turn: ActiveTurn,
}

impl Running {
    pub(super) fn new(boot: u64, turn: ActiveTurn) -> Self {
        Self { boot, turn }
    }
}

/// What is read after the place is at least as new as the place. If nothing but passing words came
/// meanwhile it is exactly that; otherwise it is taken again, and at last given as it is: events
/// tell what is, not what is added, so that one which is in it already changes nothing.
async fn show(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let mut tries = 1;
    let snapshot = loop {
        let snapshot = take(&state).await?;
        if tries == TRIES || state.spine.live.is_quiet_since(snapshot.seq) {
            break snapshot;
        }
        tries += 1;
    };
    Ok(json::clean(&state.secrets, &json!({ "data": snapshot })))
}

async fn take(state: &web::Data<State>) -> Result<Snapshot, ApiError> {
    let (mark, running) = state.spine.live.running();
    let stored = state.spine.store.read(Stored::read).await;
    let stored = stored.map_err(ApiError::internal)?;
    let topics = topics::newest(state, &stored.open, TOPICS).await?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(connected.await)?;
    let overview = overview::gathered(state, &stored).await?;
    let open = overview::open_tasks(&stored, state);
    let now = state.access.auth.now();
    let Stored {
        tree,
        approvals,
        questions,
        ..
    } = stored;
    Ok(Snapshot {
        boot: mark.boot,
        seq: mark.seq,
        inbox_unread: overview.inbox_unread,
        overview,
        org: teams::tree_of(state, tree, open).await?,
        running: running
            .into_iter()
            .map(|turn| Running::new(mark.boot, turn))
            .collect(),
        approvals: approvals
            .into_iter()
            .map(|approval| approvals::Row::new(approval, now))
            .collect(),
        questions: questions.into_iter().map(questions::Row::from).collect(),
        topics,
        channels: channels::all(state, connected),
        jobs: state.jobs.all(),
    })
}
