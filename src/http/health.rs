//! `/healthz`, `/readyz`, `/health`: for whoever watches the process.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, Resource, http::header::ContentType, web};
use hivewright_actors::{
    channel::CountConnections, queue::Count, scheduler::manage, store::records::EdgeKey,
};
use serde_json::{Value, json};

use super::{
    State,
    error::ApiError,
    routes::{self, Methods},
};

/// All of them answer within 100 ms, if need be with what is not known.
const PATIENCE: Duration = Duration::from_millis(80);

pub(super) fn alive() -> Resource {
    routes::resource("/healthz", Methods::new().get(show_alive))
}

pub(super) fn ready() -> Resource {
    routes::resource("/readyz", Methods::new().get(show_ready))
}

pub(super) fn counts() -> Resource {
    routes::resource("/health", Methods::new().get(show_counts))
}

async fn show_alive() -> Result<HttpResponse, ApiError> {
    let mut response = HttpResponse::Ok();
    Ok(response.content_type(ContentType::plaintext()).body("ok"))
}

async fn show_ready(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let (store, draining) = (can_read(&state).await, state.service.is_draining());
    let ready = store && !draining;
    let mut body = json!({ "ready": ready });
    if state.access.principal(&request).is_ok() {
        let word = |good: bool| if good { "ok" } else { "error" };
        body["checks"] = json!({"store": word(store), "drain": word(!draining)});
        let vault = state.vault.locked().map(|locked| locked.to_string());
        body["checks"]["vault"] = json!(vault.as_deref().map_or("ok", |_| "locked"));
        if let Some(reason) = vault {
            body["vault"] = json!(reason);
        }
    }
    let mut response = match ready {
        true => HttpResponse::Ok(),
        false => HttpResponse::ServiceUnavailable(),
    };
    Ok(response.json(body))
}

/// A count that is not to be had in time is null, not a guess.
async fn show_counts(state: web::Data<State>) -> Result<HttpResponse, ApiError> {
    let (store, triggers, queue, channel) = tokio::join!(
        can_read(&state),
        state.spine.scheduler.send(manage::Count).timeout(PATIENCE),
        state.spine.queue.send(Count).timeout(PATIENCE),
        state.spine.channel.send(CountConnections).timeout(PATIENCE),
    );
    let running = queue.ok().map(|counts| {
        let running = counts.teams.iter().map(|(_, _, running)| running);
        running.sum::<usize>()
    });
    Ok(HttpResponse::Ok().json(json!({
        "storage": {"ok": store},
        "sessions": {"active": or_null(running)},
        "triggers": {"registered": or_null(triggers.ok().map(|counts| counts.total))},
        "channels": {"connected": or_null(channel.ok())},
    })))
}

fn or_null(count: Option<usize>) -> Value {
    count.map_or(Value::Null, Value::from)
}

async fn can_read(state: &State) -> bool {
    let key = EdgeKey::new("health", "probe").bytes();
    let read = state.spine.store.read(move |storage| storage.get(&key));
    matches!(tokio::time::timeout(PATIENCE, read).await, Ok(Ok(_)))
}
