//! `/api/v1/overview`: the state of the service at a glance.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{
    approvals::{List, ListQuestions},
    channel::CountConnections,
    notice::gather,
    queue::Count,
    scheduler::manage,
    store::reads,
};
use serde_json::json;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json,
    routes::{self, Methods},
};

/// An actor that does not answer in this time is in trouble.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/overview", Methods::new().get(show))
}

async fn show(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let counts = state.spine.queue.send(Count).timeout(PATIENCE);
    let counts = counts.await.map_err(ApiError::internal)?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = connected.await.map_err(ApiError::internal)?;
    let triggers = state.spine.scheduler.send(manage::Count).timeout(PATIENCE);
    let triggers = triggers.await.map_err(ApiError::internal)?;
    let waiting = state.spine.approvals.send(List).timeout(PATIENCE).await;
    let waiting = waiting.map_err(ApiError::internal)?.len();
    let asked = state.spine.approvals.send(ListQuestions).timeout(PATIENCE);
    let asked = asked.await.map_err(ApiError::internal)?.len();
    let notices = state.spine.store.read(reads::notices).await;
    let notices = gather(notices.map_err(ApiError::internal)?);
    let unread = notices.iter().filter(|notice| !notice.read).count();
    let service = state.service.clone();
    let facts = tokio::task::spawn_blocking(move || (service.store_bytes(), service.teams()));
    let (store_bytes, teams) = facts.await.map_err(ApiError::internal)?;
    let sum = |pick: fn(&(_, usize, usize)) -> usize| counts.teams.iter().map(pick).sum::<usize>();
    let websocket = if state.service.has_websocket() {
        "on"
    } else {
        "off"
    };
    let mut channel = json!({"type": "ws", "state": websocket, "connected": connected});
    if let Some(fault) = state.service.channels_fault() {
        channel["error"] = json!(fault);
    }
    Ok(json::data(
        StatusCode::OK,
        json!({
            "uptime_s": state.started.elapsed().as_secs(),
            "version": super::VERSION,
            "store_bytes": store_bytes,
            "teams": {"total": teams, "active": state.spine.directory.len()},
            "tasks": {
                "queued": sum(|(_, waiting, _)| *waiting),
                "running": sum(|(_, _, running)| *running),
            },
            "triggers": {
                "total": triggers.total,
                "active": triggers.active,
                "disabled": triggers.disabled,
            },
            "channels": [channel],
            "approvals_open": waiting,
            "questions_open": asked,
            "inbox_unread": unread,
            "drain": state.service.is_draining(),
        }),
    ))
}
