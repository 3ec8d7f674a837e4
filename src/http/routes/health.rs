//! `/healthz`, `/readyz`, `/health`: for whoever watches the process.

use std::time::Duration;

use actix::MailboxError;
use actix_web::{HttpResponse, http::header::ContentType};
use hivewright_actors::{channel::CountConnections, queue::Count, room::Space, scheduler::views};

use crate::{
    api::{endpoint::*, monitoring::*, reply::*},
    http::kit::{call::*, error::*},
};

/// All of them answer within 100 ms, if need be with what is not known.
const PROBE_TIMEOUT: Duration = Duration::from_millis(80);

/// A request by anybody, whatever stands in its query.
type Visit = Call<Empty, Empty, Empty, Anyone>;

pub(super) async fn show_alive(_: Visit) -> ApiResult<HttpResponse> {
    Ok(HttpResponse::Ok().content_type(ContentType::plaintext()).body("ok"))
}

pub(super) async fn show_ready(
    Call { state, request, .. }: Visit,
) -> ApiResult<Available<Readiness>> {
    let service = &state.service;
    let (store, draining) = (state.spine.store.is_usable(), service.is_draining());
    let space = state.spine.store.room().space();
    let mut readiness = Readiness {
        ready: store && !draining,
        checks: None,
        disk: (space != Space::Enough).then_some(space),
        vault: None,
    };
    if state.access.principal(&request).is_ok() {
        let word = |good: bool| if good { Condition::Ok } else { Condition::Error };
        let scheduler = state.spine.scheduler.send(views::Count).timeout(PROBE_TIMEOUT);
        readiness.vault = state.vault.locked().map(|locked| locked.to_string());
        readiness.checks = Some(ReadinessChecks {
            store: word(store && state.spine.store.is_archiving()),
            settings: word(service.settings_fault().is_none()),
            vault: match readiness.vault {
                None => Condition::Ok,
                Some(_) => Condition::Locked,
            },
            scheduler: match scheduler.await {
                Ok(_) => Condition::Ok,
                Err(MailboxError::Timeout) => Condition::Slow,
                Err(MailboxError::Closed) => Condition::Error,
            },
            channels: word(service.channels_fault().is_none()),
            providers: match (service.providers_fault(), service.is_demo()) {
                (Some(_), _) => Condition::Error,
                (None, true) => Condition::Demo,
                (None, false) => Condition::Ok,
            },
            drain: word(!draining),
            disk: space,
        });
    }
    Ok(Available { is_available: readiness.ready, document: readiness })
}

/// A count that is not to be had in time is null, not a guess.
pub(super) async fn show_counts(Call { state, .. }: Visit) -> ApiResult<Bare<Health>> {
    let (triggers, queue, channel) = tokio::join!(
        state.spine.scheduler.send(views::Count).timeout(PROBE_TIMEOUT),
        state.spine.queue.send(Count).timeout(PROBE_TIMEOUT),
        state.spine.channel.send(CountConnections).timeout(PROBE_TIMEOUT),
    );
    let bots = state.service.discord().row().map_or(0, |row| row.connected);
    let running = queue.ok().map(|counts| counts.teams.iter().map(|(_, _, running)| running).sum());
    Ok(Bare(Health {
        storage: HealthStorage { ok: state.spine.store.is_usable() },
        sessions: HealthSessions { active: running },
        triggers: HealthTriggers { registered: triggers.ok().map(|counts| counts.total) },
        channels: HealthChannels { connected: channel.ok().map(|clients| clients + bots) },
    }))
}
