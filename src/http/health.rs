//! `/healthz`, `/readyz`, `/health`: for whoever watches the process.

use std::time::Duration;

use actix::MailboxError;
use actix_web::{Either, HttpRequest, HttpResponse, http::header::ContentType, web};
use hivewright_actors::{channel::CountConnections, queue::Count, room::Space, scheduler::views};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    State,
    error::ApiError,
    operation::Operation,
    reply::{Bare, Content, Unavailable},
    routes::{Resource, at},
};

/// All of them answer within 100 ms, if need be with what is not known.
const PATIENCE: Duration = Duration::from_millis(80);

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/healthz").get(
            Operation::new("Says `ok` while the process answers."),
            show_alive,
        ),
        at("/readyz").get(
            Operation::new("Says whether the service can serve.")
                .description(
                    "It can, unless a commit to the store failed or it is about to stop. With a login the \
                     answer also says how its parts are: `ok`, `error`, `locked` (the vault), `demo` (no \
                     model is configured) or `slow` (no answer in time). `disk` is told to everyone when there \
                     is little room (`low`) or too little for new work (`full`): what was accepted goes on, so \
                     the service stays ready.",
                ),
            show_ready,
        ),
        at("/health").get(
            Operation::new("Counts what there is, for simple monitors.")
                .description("A count that is not to be had in time is null, not a guess."),
            show_counts,
        ),
    ]
}

/// Whether the service can serve.
#[derive(Serialize, JsonSchema)]
struct Readiness {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<Checks>,
    /// Room on the disk, if there is not enough: `low`, or `full`, where no new work is taken in.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<&'static str>,
    /// Why the vault is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    vault: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReadinessChecks")]
struct Checks {
    store: &'static str,
    settings: &'static str,
    vault: &'static str,
    scheduler: &'static str,
    channels: &'static str,
    providers: &'static str,
    drain: &'static str,
    disk: &'static str,
}

/// Counts for monitors.
#[derive(Serialize, JsonSchema)]
struct Health {
    storage: HealthStorage,
    sessions: HealthSessions,
    triggers: HealthTriggers,
    channels: HealthChannels,
}

#[derive(Serialize, JsonSchema)]
struct HealthStorage {
    ok: bool,
}

#[derive(Serialize, JsonSchema)]
struct HealthSessions {
    active: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct HealthTriggers {
    registered: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct HealthChannels {
    connected: Option<usize>,
}

async fn show_alive() -> Result<Content, ApiError> {
    let mut response = HttpResponse::Ok();
    Ok(Content(response.content_type(ContentType::plaintext()).body("ok")))
}

async fn show_ready(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<Either<Bare<Readiness>, Unavailable<Readiness>>, ApiError> {
    let service = &state.service;
    let (store, draining) = (state.spine.store.is_usable(), service.is_draining());
    let space = state.spine.store.room().space();
    let mut readiness = Readiness {
        ready: store && !draining,
        checks: None,
        disk: (space != Space::Enough).then_some(space.as_str()),
        vault: None,
    };
    if state.access.principal(&request).is_ok() {
        let word = |good: bool| if good { "ok" } else { "error" };
        let scheduler = state.spine.scheduler.send(views::Count).timeout(PATIENCE);
        readiness.vault = state.vault.locked().map(|locked| locked.to_string());
        readiness.checks = Some(Checks {
            store: word(store),
            settings: word(service.settings_fault().is_none()),
            vault: match readiness.vault {
                None => "ok",
                Some(_) => "locked",
            },
            scheduler: match scheduler.await {
                Ok(_) => "ok",
                Err(MailboxError::Timeout) => "slow",
                Err(MailboxError::Closed) => "error",
            },
            channels: word(service.channels_fault().is_none()),
            providers: match (service.providers_fault(), service.is_demo()) {
                (Some(_), _) => "error",
                (None, true) => "demo",
                (None, false) => "ok",
            },
            drain: word(!draining),
            disk: space.as_str(),
        });
    }
    Ok(if readiness.ready {
        Either::Left(Bare(readiness))
    } else {
        Either::Right(Unavailable(readiness))
    })
}

/// A count that is not to be had in time is null, not a guess.
async fn show_counts(state: web::Data<State>) -> Result<Bare<Health>, ApiError> {
    let (triggers, queue, channel) = tokio::join!(
        state.spine.scheduler.send(views::Count).timeout(PATIENCE),
        state.spine.queue.send(Count).timeout(PATIENCE),
        state.spine.channel.send(CountConnections).timeout(PATIENCE),
    );
    let running = queue.ok().map(|counts| {
        let running = counts.teams.iter().map(|(_, _, running)| running);
        running.sum::<usize>()
    });
    Ok(Bare(Health {
        storage: HealthStorage { ok: state.spine.store.is_usable() },
        sessions: HealthSessions { active: running },
        triggers: HealthTriggers { registered: triggers.ok().map(|counts| counts.total) },
        channels: HealthChannels { connected: channel.ok() },
    }))
}
