//! Plugin watch: packages are read at the start, and again when their folders or `plugins.paths` change.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    blocking,
    notice::NoticeKind,
    org::{tree::Tree, view::OrgView},
    store::records::Writes,
};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::{notices::notify, storage::Context};
use crate::{
    plugins::{
        catalogue::{Failed, Loaded, Sources},
        depot::Depot,
        digest::{self, Extent},
        fault::FaultCode,
        package::Files,
    },
    settings::{home::Home, live::Live, watch::FolderWatch},
    tools::REGISTRY,
};

/// A folder that did not change for this long has been written.
const SETTLES_AFTER: Duration = Duration::from_millis(500);

/// The installed packages of a home, and those that its settings name.
///
/// They are read at once: a turn that goes on after a crash must meet the hooks of its team.
pub(super) fn depot(home: &Home, live: &Live, view: &OrgView, teams: &Tree) -> Depot {
    let names = |tree: &Tree| tree.iter().map(|team| team.name.to_string()).collect();
    let recovered: BTreeSet<String> = names(teams);
    let (installed, live, view) = (home.plugins(), live.clone(), view.clone());
    let reserved: BTreeSet<String> =
        REGISTRY.keys().map(|key| key.split('.').next().unwrap_or(key).to_owned()).collect();
    let depot = Depot::new(home.plugins(), move || {
        let settings = live.held().map(|set| set.config.plugins.clone()).unwrap_or_default();
        Sources {
            installed: installed.clone(),
            development: settings.paths,
            signatures: settings.signatures,
            reserved: reserved.clone(),
            // Nobody is in the view before the actors run.
            teams: Some(names(&view.now()))
                .filter(|names| !names.is_empty())
                .unwrap_or_else(|| recovered.clone()),
        }
    });
    if let Err(error) = depot.prepare() {
        tracing::error!(%error, "the folder of plugins cannot be used; plugins in it may be missing until that is mended and the service restarted");
    }
    depot.reload();
    depot
}

/// Looks after the packages; ends when it is dropped.
pub(super) struct PluginWatch {
    nudge: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl PluginWatch {
    pub(super) fn start(depot: Depot, context: Arc<Context>) -> Self {
        let nudge = Arc::new(Notify::new());
        let task = hivewright_actors::spawn::local(watch(depot, context, nudge.clone()));
        Self { nudge, _task: AbortOnDropHandle::new(task) }
    }

    /// The settings were read again.
    pub(super) fn nudge(&self) -> Arc<Notify> {
        self.nudge.clone()
    }
}

async fn watch(depot: Depot, context: Arc<Context>, nudge: Arc<Notify>) {
    let mut known = BTreeSet::new();
    loop {
        let paths =
            context.live.held().map(|set| set.config.plugins.paths.clone()).unwrap_or_default();
        let root = depot.folder().to_owned();
        let Ok(folders) = blocking::run(move || folders(&root, &paths)).await else { return };
        let folder_watch = FolderWatch::at(folders.iter().map(PathBuf::as_path));
        // Only now: what changes while they are read is heard of.
        let reading = depot.clone();
        if blocking::run(move || drop(reading.reload())).await.is_err() {
            return;
        }
        known = report_changed(&depot.catalogue().now(), &known, &context);
        tokio::select! {
            () = folder_watch.changed() => {}
            () = nudge.notified() => {}
        }
        while tokio::time::timeout(SETTLES_AFTER, folder_watch.changed()).await.is_ok() {}
    }
}

/// Tells the operator of plugins whose files are not those that were agreed to, and returns which they are.
fn report_changed(
    loaded: &Loaded,
    known: &BTreeSet<String>,
    context: &Context,
) -> BTreeSet<String> {
    let is_changed = |failed: &&Failed| failed.fault.code == FaultCode::DigestMismatch;
    let changed = loaded.failed.iter().filter(is_changed).map(|failed| failed.name.clone());
    let changed: BTreeSet<String> = changed.collect();
    for name in changed.difference(known) {
        let text = format!(
            "The files of plugin `{name}` are not those that were agreed to, so that it is not loaded. Look at what changed; \
             `hivewright plugin approve {name}` agrees to it as it is."
        );
        notify(&context.store, &context.ids, NoticeKind::PluginFailed, text, Writes::new());
    }
    changed
}

/// The folders in which a change counts. It blocks.
fn folders(installed: &Path, development: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = BTreeSet::from([installed.to_owned()]);
    for folder in development.iter().filter(|folder| folder.is_dir()) {
        found.insert(folder.clone());
        let listed = digest::list(&Files::Folder(folder.clone()), Extent::Sources);
        for file in listed.unwrap_or_default() {
            found.extend(folder.join(&file.path).parent().map(Path::to_owned));
        }
    }
    let packages = std::fs::read_dir(installed).into_iter().flatten().flatten();
    found.extend(packages.map(|entry| entry.path()).filter(|path| path.is_dir()));
    found.into_iter().collect()
}
