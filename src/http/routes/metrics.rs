//! `/metrics`: figures of what happens, in Prometheus text.

use std::time::Duration;

use actix_web::HttpResponse;
use hivewright_actors::{
    approvals::records,
    channel::{CountConnections, CountPending},
    ids::TeamName,
    queue::Count,
    supervisor::CountRestarts,
};

use crate::http::{
    kit::{call::*, error::*},
    metrics::Snapshot,
};

const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn show(Call { state, .. }: Call) -> ApiResult<HttpResponse> {
    let spine = &state.spine;
    let (counts, restarts, connections, pending, approvals) = tokio::join!(
        spine.queue.send(Count).timeout(COUNT_TIMEOUT),
        spine.supervisor.send(CountRestarts).timeout(COUNT_TIMEOUT),
        spine.channel.send(CountConnections).timeout(COUNT_TIMEOUT),
        spine.channel.send(CountPending).timeout(COUNT_TIMEOUT),
        spine.store.read(records::count_pending),
    );
    let snapshot = Snapshot {
        counts: counts?,
        restarts: restarts?,
        connections: connections?,
        pending: pending?,
        approvals: approvals?,
    };
    let is_there = |team: &TeamName| state.service.team(team.as_str()).is_some();
    let text = state.metrics.text(&snapshot, is_there).map_err(ApiError::internal)?;
    Ok(HttpResponse::Ok().content_type(TEXT).body(text))
}
