//! The front: what the HTTP side and WebSockets are served from.

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
    facts::{Archive, Facts},
    ground::Ground,
    reload::Reload,
    workshop::Workshop,
};
use crate::{
    api::scope::Scope,
    channels::websocket::Door,
    http::{
        self,
        access::Access,
        auth::{authenticator::Authenticator, identities::Identities},
        jobs::Jobs,
        origin::Gate,
        webhooks::Callers,
    },
    machine::WallClock,
    vault::scrubbers::Scrubbers,
};

/// What is served from.
pub(super) struct Front {
    pub(super) state: http::State,
    pub(super) door: Door,
    /// Logs the operator's browser in, once.
    pub(super) login_code: String,
}

impl Front {
    pub(super) async fn open(
        ground: &Ground,
        workshop: Workshop,
        spine: &Spine,
        reload: &Reload,
        gate: Gate,
        draining: &Arc<AtomicBool>,
    ) -> Result<Self, ServiceError> {
        let clock = Arc::new(WallClock);
        let auth = Authenticator::open(spine.store.clone(), clock.clone(), &ground.home.secrets())
            .await
            .map_err(|error| machine("credentials cannot be opened", error))?;
        spine.deciders.connect({
            let auth = auth.clone();
            move |who, team| auth.others_may(Scope::Approve, who, team.as_str())
        });
        let login_code =
            auth.operator_link().map_err(|error| machine("a login code cannot be made", error))?;
        let identities = Identities::open(auth.clone(), spine.store.clone(), clock.clone())
            .await
            .map_err(|error| machine("identities cannot be opened", error))?;
        spine.router.do_send(Identify(Arc::new(identities.clone())));
        let (explained, equipped) = (workshop.turns.clone(), workshop.turns);
        let state = http::State {
            limits: http::limits::Limits::default(),
            strangers: http::record::Strangers::default(),
            repeats: http::idempotency::Repeats::default(),
            access: Access { auth, gate },
            identities,
            spine: spine.clone(),
            memory: workshop.memory,
            changes: workshop.changes,
            taint: workshop.taint,
            office: workshop.office,
            rules: workshop.rules,
            explainer: Arc::new(move |team, tool, args, subject| {
                explained.explain(team, tool, args, subject)
            }),
            equipment: Arc::new(move |team, ancestors| equipped.equipment(team, ancestors)),
            vault: ground.vault.clone(),
            desk: workshop.desk,
            callers: Callers::default(),
            service: Arc::new(Facts {
                demo: ground.demo.clone(),
                draining: draining.clone(),
                channels: reload.channels(),
                live: ground.live.clone(),
                home: ground.home.clone(),
                organisation: workshop.view,
            }),
            metrics: workshop.metrics,
            jobs: Jobs::new(clock, workshop.publisher),
            secrets: ground.secrets.clone(),
            files: http::config::Files {
                home: ground.home.clone(),
                environment: ground.environment.clone(),
                reload: reload.order(),
            },
            days: Arc::new(ground.local.clone()),
            backups: Arc::new(Archive {
                storage: ground.storage.clone(),
                home: ground.home.clone(),
                live: ground.live.clone(),
            }),
            started: Instant::now(),
        };
        let door = Door {
            router: spine.router.clone(),
            ids: workshop.ids,
            connections: AtomicU64::new(0),
            secrets: Arc::new(Scrubbers::new(ground.vault.clone(), [])),
        };
        Ok(Self { state, door, login_code: login_code.expose().to_owned() })
    }
}
