//! Last phase of the start: what HTTP and WebSockets are served from, and what HTTP asks of the service.

use std::{
    io,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use hivewright_actors::{
    clock::{Timestamp, millis},
    ids::TeamKey,
    org::view::OrgView,
    router::gate::Identify,
    spine::Spine,
};

use super::{
    backups::backup_home,
    error::{ServiceError, machine},
    reload::{Reload, SharedSettingsStatus},
    storage::Context,
    turns::Services,
};
use crate::{
    api::{backups::BackupRow, jobs::JobProgress, profiles::ProfileRow, when::date},
    channels::{
        discord::{Discord, connection_state::ConnectionState},
        websocket::Door,
    },
    engines::installed::Installations,
    http::{
        self,
        auth::{access::Access, authenticator::Authenticator, identities::Identities},
        jobs::{self, Jobs},
        kit::{limits::Callers, origin::Gate},
        ports::Backups,
    },
    sandbox::{egress::Guard, quota},
    settings::{channels::WebSocket, home::Home},
    storage::{self, backup::BackupName},
    system::WallClock,
    vault::{rows::last_redaction, scrubbers::Scrubbers},
};

pub(super) struct Served {
    pub(super) state: http::state::State,
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
        let state = http::state::State {
            limits: http::kit::limits::Limits::default(),
            strangers: http::kit::limits::Strangers::default(),
            repeats: http::kit::repeats::Repeats::default(),
            access: Access { auth, gate },
            identities,
            spine: spine.clone(),
            memory: services.memory,
            changes: services.changes,
            taint: services.taint,
            servers: services.servers,
            depot: services.depot,
            egress: Guard::default(),
            plugins: services.plugins,
            plugin_tools: services.plugin_tools,
            team_service: services.team_service,
            rules: services.rules,
            explainer: Arc::new(move |team, tool, args, subject| {
                explained.explain(team, tool, args, subject)
            }),
            equipment: Arc::new(move |team, ancestors| equipped.equipment(team, ancestors)),
            vault: context.vault.clone(),
            triggers: services.triggers,
            callers: Callers::default(),
            service: Arc::new(Facts {
                context: context.clone(),
                draining: draining.clone(),
                status: reload.status.clone(),
                discord: reload.discord.clone(),
                organisation: spine.view.clone(),
            }),
            metrics: context.metrics.clone(),
            jobs: Jobs::new(clock, spine.live.clone()),
            secrets: context.secrets.clone(),
            files: http::ports::Files {
                home: context.home.clone(),
                environment: context.environment.clone(),
                reload: reload.order(),
            },
            file_store: context.files.clone(),
            installations: Installations::default(),
            days: Arc::new(context.local.clone()),
            backups: Arc::new(Archive(context.clone())),
            started: Instant::now(),
        };
        let door = Door {
            router: spine.router.clone(),
            undelivered: spine.channel.clone().recipient(),
            ids: context.ids.clone(),
            connections: AtomicU64::new(0),
            secrets: Scrubbers::new(context.vault.clone(), []),
            files: context.files.clone(),
        };
        Ok(Self { state, door, login_code: login_code.expose().to_owned() })
    }
}

/// How large the store is on the disk.
pub(super) fn store_bytes(home: &Home) -> u64 {
    let files = std::fs::read_dir(home.store()).into_iter().flatten();
    let sizes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len()));
    sizes.sum()
}

/// What the HTTP side asks about the service.
pub(super) struct Facts {
    pub(super) context: Arc<Context>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) status: SharedSettingsStatus,
    pub(super) discord: Arc<Discord>,
    pub(super) organisation: OrgView,
}

impl http::ports::Service for Facts {
    fn is_demo(&self) -> bool {
        self.context.demo.load(Ordering::Relaxed)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn websocket(&self) -> WebSocket {
        self.status.now().websocket
    }

    fn discord(&self) -> ConnectionState {
        self.discord.state()
    }

    fn reconnect_discord(&self) {
        self.discord.reconnect();
    }

    fn channels_fault(&self) -> Option<String> {
        self.status.now().channels_fault
    }

    fn settings_fault(&self) -> Option<String> {
        self.status.now().faults()
    }

    fn providers_fault(&self) -> Option<String> {
        Some(self.context.live.held()?.providers.err()?.to_string())
    }

    fn profiles(&self) -> Vec<ProfileRow> {
        let held = self.context.live.held();
        let providers = held.and_then(|held| held.providers.ok());
        let profiles = providers.iter().flat_map(|providers| providers.profiles.values());
        profiles.map(ProfileRow::from).collect()
    }

    fn topics_idle_after(&self) -> Duration {
        self.status.now().idle_after
    }

    fn store_bytes(&self) -> u64 {
        store_bytes(&self.context.home)
    }

    fn free_bytes(&self) -> Option<u64> {
        quota::free(self.context.home.run()).ok()
    }

    fn team(&self, name: &str) -> Option<TeamKey> {
        self.organisation.now().key(name)
    }
}

/// Makes and lists backups, for the HTTP side.
pub(super) struct Archive(pub(super) Arc<Context>);

impl Archive {
    fn layout(&self) -> storage::Home {
        let held = self.0.live.held();
        let config = held.as_ref().map_or(&self.0.config, |held| &*held.config);
        backup_home(&self.0.home, &config.backup, &config.limits)
    }
}

impl Backups for Archive {
    fn make(&self, name: Option<BackupName>, work: &jobs::Work) -> Result<PathBuf, String> {
        let layout = self.layout();
        let file = name.map(|name| name.file(&layout.backups));
        let report = |step: storage::Progress| {
            work.report(JobProgress {
                done: step.done,
                total: step.total,
                unit: step.unit.as_str().to_owned(),
            });
            if work.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let made = storage::backup::create(&self.0.storage, &layout, file.as_deref(), &report);
        let made = made.map_err(|error| error.to_string())?;
        work.remark(made.left_out);
        Ok(made.file)
    }

    fn list(&self) -> io::Result<Vec<BackupRow>> {
        let files = storage::backup::list_all(&self.layout().backups)?;
        let redacted = last_redaction(&*self.0.storage).map_err(io::Error::other)?;
        let known = files.into_iter().filter_map(|(file, bytes, made)| {
            let made = Timestamp(millis(made.duration_since(UNIX_EPOCH).ok()?));
            let holds_redacted = redacted.is_some_and(|last| last.is_behind(made));
            let file = file.display().to_string();
            Some(BackupRow { file, bytes, created_at: date(made), holds_redacted })
        });
        Ok(known.collect())
    }
}
