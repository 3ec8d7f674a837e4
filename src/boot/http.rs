//! Last phase of the start: what HTTP and WebSockets are served from.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Instant,
};

use hivewright_actors::{router::gate::Identify, spine::Spine};

use super::{
    error::{ServiceError, machine},
    health::{Archive, Facts},
    reload::Reload,
    storage::Context,
    turns::Services,
};
use crate::{
    channels::websocket::Door,
    http::{
        self,
        access::Access,
        auth::{authenticator::Authenticator, identities::Identities},
        jobs::Jobs,
        origin::Gate,
        webhooks::Callers,
    },
    system::WallClock,
    vault::scrubbers::Scrubbers,
};

pub(super) struct Served {
    pub(super) state: http::State,
    pub(super) door: Door,
    /// Logs the operator's browser in, once.
    pub(super) login_code: String,
}

impl Served {
    pub(super) async fn open(
        context: &Arc<Context>,
        services: Services,
        spine: &Spine,
        auth: Authenticator,
        reload: &Reload,
        gate: Gate,
        draining: &Arc<AtomicBool>,
    ) -> Result<Self, ServiceError> {
        let clock = Arc::new(WallClock);
        let login_code =
            auth.operator_link().map_err(|error| machine("a login code cannot be made", error))?;
        let identities = Identities::open(auth.clone(), spine.store.clone(), clock.clone())
            .await
            .map_err(|error| machine("identities cannot be opened", error))?;
        spine.router.do_send(Identify(Arc::new(identities.clone())));
        let (explained, equipped) = (services.turns.clone(), services.turns);
        let state = http::State {
            limits: http::limits::Limits::default(),
            strangers: http::record::Strangers::default(),
            repeats: http::idempotency::Repeats::default(),
            access: Access { auth, gate },
            identities,
            spine: spine.clone(),
            memory: services.memory,
            changes: services.changes,
            taint: services.taint,
            office: services.office,
            rules: services.rules,
            explainer: Arc::new(move |team, tool, args, subject| {
                explained.explain(team, tool, args, subject)
            }),
            equipment: Arc::new(move |team, ancestors| equipped.equipment(team, ancestors)),
            vault: context.vault.clone(),
            desk: services.desk,
            callers: Callers::default(),
            service: Arc::new(Facts {
                context: context.clone(),
                draining: draining.clone(),
                standing: reload.standing.clone(),
                organisation: spine.view.clone(),
            }),
            metrics: context.metrics.clone(),
            jobs: Jobs::new(clock, spine.live.clone()),
            secrets: context.secrets.clone(),
            files: http::config::Files {
                home: context.home.clone(),
                environment: context.environment.clone(),
                reload: reload.order(),
            },
            days: Arc::new(context.local.clone()),
            backups: Arc::new(Archive(context.clone())),
            started: Instant::now(),
        };
        let door = Door {
            router: spine.router.clone(),
            ids: context.ids.clone(),
            connections: AtomicU64::new(0),
            secrets: Arc::new(Scrubbers::new(context.vault.clone(), [])),
        };
        Ok(Self { state, door, login_code: login_code.expose().to_owned() })
    }
}
