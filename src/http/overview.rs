//! `/api/v1/overview`: the state of the service at a glance.

use std::time::Duration;

use actix_web::web;
use hivewright_actors::{
    approvals::{List, ListQuestions},
    channel::CountConnections,
    notice::{Brief, groups},
    queue::Count,
    store::reads,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    arguments::{Caller, Read},
    error::ApiError,
    operation::Operation,
    reply::Data,
    routes::{Resource, at},
};

/// An actor that does not answer in this time is in trouble.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn resources() -> Vec<Resource> {
    vec![at("/api/v1/overview").get(
        Operation::new("Shows the state of the service at a glance."),
        show,
    )]
}

/// The state of the service at a glance.
#[derive(Serialize, ToSchema)]
struct Overview {
    uptime_s: u64,
    version: &'static str,
    store_bytes: u64,
    teams: TeamCounts,
    tasks: TaskCounts,
    channels: Vec<ChannelState>,
    approvals_open: usize,
    questions_open: usize,
    inbox_unread: usize,
    /// It is about to stop.
    drain: bool,
}

#[derive(Serialize, ToSchema)]
struct TeamCounts {
    total: usize,
    /// Those with an actor.
    active: usize,
}

#[derive(Serialize, ToSchema)]
struct TaskCounts {
    queued: usize,
    running: usize,
}

#[derive(Serialize, ToSchema)]
struct ChannelState {
    r#type: &'static str,
    /// `on` or `off`.
    state: &'static str,
    connected: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

async fn show(state: web::Data<State>, caller: Caller<Read>) -> Result<Data<Overview>, ApiError> {
    caller.all_teams()?;
    let counts = state.spine.queue.send(Count).timeout(PATIENCE);
    let counts = counts.await.map_err(ApiError::internal)?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = connected.await.map_err(ApiError::internal)?;
    let waiting = state.spine.approvals.send(List).timeout(PATIENCE).await;
    let waiting = waiting.map_err(ApiError::internal)?.len();
    let asked = state.spine.approvals.send(ListQuestions).timeout(PATIENCE);
    let asked = asked.await.map_err(ApiError::internal)?.len();
    let unread = state.spine.store.read(|storage| {
        let mut briefs = Vec::new();
        reads::each_notice(storage, &mut |notice| {
            // A group with one that is unread is unread.
            if !notice.read {
                briefs.push(Brief::from(&notice));
            }
        })?;
        Ok(groups(briefs).len())
    });
    let unread = unread.await.map_err(ApiError::internal)?;
    let service = state.service.clone();
    let facts = tokio::task::spawn_blocking(move || (service.store_bytes(), service.teams()));
    let (store_bytes, teams) = facts.await.map_err(ApiError::internal)?;
    let sum = |pick: fn(&(_, usize, usize)) -> usize| counts.teams.iter().map(pick).sum::<usize>();
    let channel = ChannelState {
        r#type: "ws",
        state: match state.service.has_websocket() {
            true => "on",
            false => "off",
        },
        connected,
        error: state.service.channels_fault(),
    };
    Ok(Data(Overview {
        uptime_s: state.started.elapsed().as_secs(),
        version: super::VERSION,
        store_bytes,
        teams: TeamCounts {
            total: teams,
            active: state.spine.directory.len(),
        },
        tasks: TaskCounts {
            queued: sum(|(_, waiting, _)| *waiting),
            running: sum(|(_, _, running)| *running),
        },
        channels: vec![channel],
        approvals_open: waiting,
        questions_open: asked,
        inbox_unread: unread,
        drain: state.service.is_draining(),
    }))
}
