//! Reload: `config.yaml`, `providers.yaml` and `channels.yaml` are read again when one of them changes, and
//! count at once if nothing is wrong with any of them. The files of `server.tls` are read again with them.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hivewright_actors::{
    approvals::{SetTtl, ShowIn},
    blocking,
    live::event::{Event, Kind},
    notice::NoticeKind,
    queue::Allow,
    router::Reconfigure,
    scheduler::alarm::SetZone,
    spine::Spine,
    store::records::Writes,
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    backups::RegularBackups, disk::DiskWatch, notices::notify, public_url, router_settings,
    starting::write_address, storage::Context,
};
use crate::{
    channels::discord::Discord,
    http::{self, kit::origin::Gate},
    settings::{
        channels::{Channels, WebSocket},
        config::{self, Config, Tls},
        file_cache::Stamp,
        home::Home,
        load,
        network::Origin,
        problem::{Problem, Problems},
        watch::FolderWatch,
        zone::Zone,
    },
};

/// What is one set: all of it counts, or nothing.
const FILES: [&str; 3] = ["config.yaml", "providers.yaml", "channels.yaml"];
/// A file that did not change for this long has been written.
const SETTLES_AFTER: Duration = Duration::from_millis(500);
/// Files that lie elsewhere, behind a link or on another machine, change without a sound. They are
/// looked at this often.
const LOOKS_ANYWAY: Duration = Duration::from_secs(10);

/// How the settings stand, for those who ask.
#[derive(Clone, Debug, Default)]
pub(super) struct SettingsStatus {
    pub(super) websocket: WebSocket,
    /// A topic without work for this long is idle.
    pub(super) idle_after: Duration,
    /// What is wrong with `channels.yaml`, until it is cured.
    pub(super) channels_fault: Option<String>,
    /// What is wrong with any of the settings files, until it is cured.
    fault: Option<String>,
    /// What is wrong with the files of `server.tls`, until they are renewed.
    certificate_fault: Option<String>,
}

impl SettingsStatus {
    fn of(channels: &Channels) -> Self {
        Self {
            websocket: channels.ws,
            idle_after: channels.topics.idle_after,
            channels_fault: None,
            fault: channels.disabled().next().map(ToString::to_string),
            certificate_fault: None,
        }
    }

    /// What is wrong with any of the files.
    pub(super) fn faults(&self) -> Option<String> {
        let faults: Vec<&str> = [&self.fault, &self.certificate_fault]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        (!faults.is_empty()).then(|| faults.join("\n"))
    }
}

/// The status that everybody sees. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct SharedSettingsStatus(Arc<Mutex<SettingsStatus>>);

impl SharedSettingsStatus {
    pub(super) fn now(&self) -> SettingsStatus {
        self.0.lock().clone()
    }

    /// The settings were read anew; the certificate is read by itself.
    fn replace(&self, status: SettingsStatus) {
        let mut present = self.0.lock();
        let certificate_fault = present.certificate_fault.take();
        *present = SettingsStatus { certificate_fault, ..status };
    }
}

/// Someone wants the files to be read now, and to know what came of it.
type Order = oneshot::Sender<Result<(), Problems>>;

/// Looks after the settings files; ends when it is dropped.
pub(super) struct Reload {
    pub(super) status: SharedSettingsStatus,
    /// Is told of its settings.
    pub(super) discord: Arc<Discord>,
    orders: mpsc::UnboundedSender<Order>,
    _task: AbortOnDropHandle<()>,
}

impl Reload {
    /// Looks after the files of a service, which may have been wrong from the start.
    pub(super) fn start(context: &Arc<Context>, spine: &Spine, gate: &Gate, told: Told) -> Self {
        let status =
            SharedSettingsStatus(Arc::new(Mutex::new(SettingsStatus::of(&context.channels))));
        let secrets = Arc::new(Notify::new());
        let changed = secrets.clone();
        context.vault.on_change(move |_| changed.notify_one());
        let server = &context.in_file.server;
        let files = files(&context.home, server.tls.as_ref());
        let mut watch = Watch {
            folder_watch: FolderWatch::at(files.iter().filter_map(|file| file.parent())),
            secrets,
            context: context.clone(),
            spine: spine.clone(),
            gate: gate.clone(),
            told,
            public_url: server.public_url.clone(),
            applied: stamps(&context.home, server.tls.as_ref()),
            vault: context.environment.vault_version(),
            status: status.clone(),
            pending: Vec::new(),
        };
        if let Some(fault) = &context.fault {
            watch.complain(fault);
        }
        let (orders, ordered) = mpsc::unbounded_channel();
        let discord = watch.told.discord.clone();
        let task = hivewright_actors::spawn::local(watch.run(ordered));
        Self { status, discord, orders, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn order(&self) -> Arc<http::ports::Reload> {
        let orders = self.orders.clone();
        Arc::new(move || {
            let (order, outcome) = oneshot::channel();
            let _gone = orders.send(order);
            // Whoever looks after them is gone only when the service stops.
            Box::pin(async move { outcome.await.unwrap_or(Ok(())) })
        })
    }
}

/// The states of the files that are looked after.
type Stamps = Vec<Option<Stamp>>;

fn files(home: &Home, tls: Option<&Tls>) -> Vec<PathBuf> {
    let mut files = vec![home.config_file(), home.providers_file(), home.channels_file()];
    if let Some(Tls { cert, key }) = tls {
        files.extend([cert.clone(), key.clone()]);
    }
    files
}

fn stamps(home: &Home, tls: Option<&Tls>) -> Stamps {
    let files = files(home, tls);
    files.iter().map(|file| Stamp::at(file)).collect()
}

/// Who does not look for themselves, and is told of new settings.
pub(super) struct Told {
    pub(super) discord: Arc<Discord>,
    pub(super) disk: DiskWatch,
    pub(super) backups: RegularBackups,
    pub(super) packages: Arc<Notify>,
}

struct Watch {
    folder_watch: FolderWatch,
    /// Is told when a secret changes.
    secrets: Arc<Notify>,
    context: Arc<Context>,
    spine: Spine,
    gate: Gate,
    told: Told,
    public_url: Option<Origin>,
    status: SharedSettingsStatus,
    /// The state of the files that counts, or that was refused.
    applied: Stamps,
    /// The version of the vault that they were read with.
    vault: u64,
    /// What the operator was told to restart for.
    pending: Vec<String>,
}

impl Watch {
    async fn run(mut self, mut ordered: mpsc::UnboundedReceiver<Order>) {
        let mut hangup = signal(SignalKind::hangup()).ok();
        let mut seen = self.applied.clone();
        let mut due = Instant::now() + LOOKS_ANYWAY;
        let mut was_heard = false;
        loop {
            let (mut told, mut order) = (false, None);
            tokio::select! {
                () = self.folder_watch.changed() => {
                    was_heard = true;
                    due = Instant::now() + SETTLES_AFTER;
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
                () = self.secrets.notified() => {}
                () = heard(&mut hangup) => told = true,
                Some(wanted) = ordered.recv() => {
                    order = Some(wanted);
                    told = true;
                }
            }
            let is_quiet = was_heard && Instant::now() >= due;
            let vault = self.context.environment.vault_version();
            let (now, uses_vault) = self.look(vault != self.vault).await;
            self.vault = vault;
            let has_settled = is_quiet || now == seen;
            seen.clone_from(&now);
            let is_new = now != self.applied;
            was_heard &= !is_quiet;
            due = Instant::now()
                + if was_heard || (is_new && !has_settled) { SETTLES_AFTER } else { LOOKS_ANYWAY };
            if told || uses_vault || (has_settled && is_new) {
                self.applied = now;
                let outcome = self.reread().await;
                if let Some(order) = order {
                    let _gone = order.send(outcome);
                }
            }
        }
    }

    /// The state of the files, and whether one names a secret that may have changed.
    async fn look(&self, has_other_secrets: bool) -> (Stamps, bool) {
        let (home, tls) = (self.context.home.clone(), self.context.in_file.server.tls.clone());
        let look = blocking::run(move || {
            let uses = has_other_secrets && load::channels_use_vault(&home);
            (stamps(&home, tls.as_ref()), uses)
        });
        let as_before = || (self.applied.clone(), false);
        look.await.unwrap_or_else(|_| as_before())
    }

    async fn reread(&mut self) -> Result<(), Problems> {
        let renewed = self.renew_certificate().await;
        self.status.0.lock().certificate_fault = renewed.as_ref().err().map(ToString::to_string);
        if let Err(problems) = &renewed {
            tracing::error!(%problems, "the certificate is refused; the former one still counts");
            self.tell(problems);
        }
        self.reread_settings().await.and(renewed)
    }

    async fn renew_certificate(&self) -> Result<(), Problems> {
        let Some(certificate) = self.context.certificate.clone() else {
            return Ok(());
        };
        let renewed = blocking::run(move || certificate.read_again());
        match renewed.await {
            Ok(renewed) => renewed.map_err(Problems::from),
            Err(_) => Ok(()),
        }
    }

    async fn reread_settings(&mut self) -> Result<(), Problems> {
        let live = self.context.live.clone();
        match blocking::run(move || live.set_now()).await {
            Ok(Ok(set)) => {
                let settings = router_settings(&set.channels, set.config.retention);
                self.spine.router.do_send(Reconfigure(settings));
                let status = SettingsStatus::of(&set.channels);
                if let Some(fault) = &status.fault {
                    tracing::warn!(error = fault, "some settings of channels are not in use");
                }
                self.status.replace(status);
                self.spine.approvals.do_send(ShowIn(set.channels.discord.operator_places()));
                self.told.discord.set(&set.channels.discord);
                self.apply(&set.config);
                if let Ok(providers) = self.context.live.providers().await {
                    self.context.secrets.learn(providers.keys().map(ToOwned::to_owned));
                    self.context.demo.store(providers.demo, Ordering::Relaxed);
                }
                let told = json!({ "file": FILES.join(", ") });
                self.spine.live.publish(Event::new(Kind::ConfigReloaded, told));
                tracing::info!("the settings were read again and count from now on");
                Ok(())
            }
            Ok(Err(problems)) => {
                tracing::error!(%problems, "the settings are refused; what they said before still counts");
                self.complain(&problems);
                Err(problems)
            }
            Err(error) => {
                tracing::error!(%error, "the settings could not be read; what they said before still counts");
                Err(Problem::of_file(&self.context.home.config_file(), "could not be read").into())
            }
        }
    }

    /// Tells all who do not look for themselves. What only a restart changes is told to the operator.
    fn apply(&mut self, config: &Config) {
        let zone = config.timezone.clone();
        let zone = zone.unwrap_or_else(|| Zone::of_machine(&self.context.environment).0);
        if zone != self.context.local.zone() {
            let timezone = zone.name().to_owned();
            self.context.local.set(zone);
            self.spine.retention.do_send(SetZone { timezone: timezone.clone() });
            self.spine.scheduler.do_send(SetZone { timezone });
        }
        self.spine.approvals.do_send(SetTtl(config.approvals.ttl));
        self.spine.queue.do_send(Allow { running: config.runtime.max_running_turns });
        self.context.log.set(config.log.level.as_str());
        self.gate.rename(&config.server);
        self.context.sandbox.set_memory(config.sandbox.memory.0);
        self.context.sandbox.quota().set(&config.limits);
        self.told.disk.set_floor(config.limits.free_space.0);
        self.told.backups.set(config);
        self.told.packages.notify_one();
        self.tell_name(config);
        let pending = self.context.in_file.needs_restart(config);
        if pending != self.pending && !pending.is_empty() {
            let text = format!(
                "`config.yaml`: {} changed and counts only after a restart.",
                pending.join(", ")
            );
            tracing::warn!("{text}");
            self.notify(NoticeKind::Report, text, Writes::new());
        }
        self.pending = pending;
    }

    /// Commands of this machine are told under which name the service is reached.
    fn tell_name(&mut self, config: &Config) {
        if config.server.public_url == self.public_url {
            return;
        }
        self.public_url.clone_from(&config.server.public_url);
        let server = config::Server {
            public_url: self.public_url.clone(),
            ..self.context.in_file.server.clone()
        };
        let (home, url) = (self.context.home.clone(), public_url(&server, self.context.address));
        blocking::begin(move || {
            if let Err(error) = write_address(&home, &url) {
                tracing::error!(%error, "the address file cannot be written; commands may look for the service where it was before");
            }
        });
    }

    /// Holds against the settings files what is wrong with them, and tells of it.
    fn complain(&mut self, problems: &Problems) {
        let file = self.context.home.channels_file().display().to_string();
        let of_channels = problems.0.iter().any(|problem| problem.file == file);
        let mut status = self.status.0.lock();
        status.channels_fault = of_channels.then(|| problems.to_string());
        status.fault = Some(problems.to_string());
        drop(status);
        self.tell(problems);
    }

    /// Tells whoever looks, and puts it into the operator's inbox.
    fn tell(&self, problems: &Problems) {
        let mut files: Vec<&str> = problems.0.iter().map(|problem| &*problem.file).collect();
        files.dedup();
        let told = json!({ "file": files.join(", "), "problems": problems.to_string() });
        let told = Event::new(Kind::ConfigInvalid, told);
        let writes = Writes::new().tell(told);
        self.notify(NoticeKind::ConfigInvalid, problems.to_string(), writes);
    }

    fn notify(&self, kind: NoticeKind, text: String, writes: Writes) {
        notify(&self.spine.store, &self.context.ids, kind, text, writes);
    }
}

async fn heard(hangup: &mut Option<Signal>) {
    match hangup {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-17: good settings do not hide a certificate that was refused.
    #[test]
    fn a_refused_certificate_is_told_of_until_it_is_renewed() {
        let status = SharedSettingsStatus(Arc::default());
        status.0.lock().certificate_fault = Some("cert.pem: no certificate".to_owned());

        let wrong = SettingsStatus {
            fault: Some("config.yaml: no".to_owned()),
            ..SettingsStatus::default()
        };
        status.replace(wrong);
        let both = status.now().faults();
        status.replace(SettingsStatus::default());
        let one = status.now().faults();
        status.0.lock().certificate_fault = None;

        assert_eq!(both.as_deref(), Some("config.yaml: no\ncert.pem: no certificate"));
        assert_eq!(one.as_deref(), Some("cert.pem: no certificate"));
        assert_eq!(status.now().faults(), None);
    }
}
