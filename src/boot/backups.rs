//! Backups that the service makes by itself.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hivewright_actors::blocking;
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    settings::{
        config::{self, Config},
        home::Home,
    },
    storage::{self, tiers::TieredStorage},
};

/// A service that has just started has other things to do.
const FIRST_AFTER: Duration = Duration::from_secs(5 * 60);
/// One that failed is tried again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);

/// What of the settings backups follow.
#[derive(Clone, PartialEq)]
struct Plan {
    backup: config::Backup,
    limits: config::Limits,
}

impl Plan {
    fn of(config: &Config) -> Self {
        Self { backup: config.backup.clone(), limits: config.limits.clone() }
    }
}

/// Where backups go, and how often they are made. Ends when it is dropped.
pub(super) struct RegularBackups {
    settings: watch::Sender<Plan>,
    _task: AbortOnDropHandle<()>,
}

impl RegularBackups {
    /// Makes them as these settings say, and tells of each that could not be made.
    pub(super) fn start(
        storage: Arc<TieredStorage>,
        home: Home,
        config: &Config,
        on_failure: impl Fn(String) + 'static,
    ) -> Self {
        let (settings, heard) = watch::channel(Plan::of(config));
        let task = hivewright_actors::spawn::local(keep(storage, home, heard, on_failure));
        Self { settings, _task: AbortOnDropHandle::new(task) }
    }

    pub(super) fn set(&self, config: &Config) {
        let plan = Plan::of(config);
        self.settings.send_if_modified(|present| {
            let differs = *present != plan;
            *present = plan;
            differs
        });
    }
}

async fn keep(
    storage: Arc<TieredStorage>,
    home: Home,
    mut settings: watch::Receiver<Plan>,
    on_failure: impl Fn(String),
) {
    let mut not_before = Instant::now() + FIRST_AFTER;
    loop {
        let Plan { backup: now, limits } = settings.borrow_and_update().clone();
        let layout = backup_home(&home, &now, &limits);
        let due = async {
            let Some(every) = now.every.0 else {
                return std::future::pending().await;
            };
            let age = newest_age(layout.clone()).await;
            let left = age.map_or(Duration::ZERO, |age| every.saturating_sub(age));
            tokio::time::sleep_until((Instant::now() + left).max(not_before)).await;
        };
        tokio::select! {
            () = due => {}
            changed = settings.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        }
        let (archived, layout) = (storage.clone(), layout.clone());
        let create = move || {
            let made = storage::backup::create(&archived, &layout, None, &storage::unwatched);
            made.map(|made| made.file).map_err(|error| error.to_string())
        };
        if !attempt(create, &on_failure).await {
            not_before = Instant::now() + AGAIN_AFTER;
        }
    }
}

/// Makes a backup. Tells if it could not be made, be it that it failed or that it was cut off, and returns
/// whether it was.
async fn attempt(
    create: impl FnOnce() -> Result<PathBuf, String> + Send + 'static,
    on_failure: &impl Fn(String),
) -> bool {
    match blocking::run(create).await.unwrap_or_else(|cut_off| Err(cut_off.to_string())) {
        Ok(file) => {
            tracing::info!(path = %file.display(), "backup made");
            true
        }
        Err(error) => {
            tracing::error!(error, "the regular backup failed, and is tried again");
            on_failure(error);
            false
        }
    }
}

/// The folders of the store and its backups.
pub(crate) fn backup_home(
    home: &Home,
    settings: &config::Backup,
    limits: &config::Limits,
) -> storage::Home {
    let mut layout = storage::Home::new(home.data(), home.run());
    layout.free_space = limits.free_space.0;
    if let Some(folder) = &settings.dir {
        layout.backups.clone_from(folder);
    }
    layout
}

/// How long ago the newest regular backup was made. None if there is none, or nobody can tell: the clock was set back since.
async fn newest_age(layout: storage::Home) -> Option<Duration> {
    let look = blocking::run(move || {
        let newest = storage::backup::list(&layout.backups).ok()?;
        let made = newest.first()?.metadata().ok()?.modified().ok()?;
        SystemTime::now().duration_since(made).ok()
    });
    look.await.ok().flatten()
}

#[cfg(test)]
mod tests {

    use std::{
        cell::{Cell, RefCell},
        path::Path,
        rc::Rc,
    };

    use super::*;
    use crate::settings::{
        config::Durability, home::Flags, references::Environment, setting::Interval,
    };

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn every(every: Option<Duration>, dir: &Path) -> Config {
        let backup = config::Backup { every: Interval(every), dir: Some(dir.to_owned()) };
        Config { backup, ..Config::default() }
    }

    /// The backup that is made next, taken away. With the time that passed until it was there.
    async fn next(folder: &Path) -> Duration {
        let began = Instant::now();
        loop {
            if let Some(made) = storage::backup::list(folder).unwrap().first() {
                std::fs::remove_file(made).unwrap();
                return began.elapsed();
            }
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
    }

    /// SC-109, OR-12 `backup.every`, `backup.dir`
    #[actix::test]
    async fn backups_are_made_in_time_where_the_settings_say() {
        let place = tempfile::tempdir().unwrap();
        let flags = Flags { home: Some(place.path().to_owned()), ..Flags::default() };
        let home = Home::new(&flags, &Environment::fixed([])).unwrap();
        home.prepare().unwrap();
        let layout = backup_home(&home, &config::Backup::default(), &config::Limits::default());
        let storage =
            storage::open::open(&layout, Durability::Process, &storage::unwatched).unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("two"));
        let failures = Rc::new(Cell::new(0));
        let count = failures.clone();
        tokio::time::pause();
        let backups =
            RegularBackups::start(Arc::new(storage), home, &every(Some(DAY), &one), move |_| {
                count.set(count.get() + 1)
            });

        let first = next(&one).await;
        assert!((FIRST_AFTER..DAY).contains(&first), "{first:?}");

        backups.set(&every(None, &two));
        tokio::time::sleep(3 * DAY).await;
        assert_eq!(storage::backup::list(&two).unwrap(), Vec::<std::path::PathBuf>::new());

        backups.set(&every(Some(DAY), &two));
        next(&two).await;

        std::fs::write(place.path().join("file"), "").unwrap();
        backups.set(&every(Some(DAY), &place.path().join("file/below")));
        tokio::time::sleep(2 * AGAIN_AFTER).await;
        assert!((1..=3).contains(&failures.get()), "{}", failures.get());
    }

    /// SC-109: a backup that was made while the clock ran ahead keeps no other from being made.
    #[actix::test]
    async fn a_backup_of_tomorrow_has_no_age() {
        let place = tempfile::tempdir().unwrap();
        let mut layout = storage::Home::new(place.path(), place.path());
        layout.backups = place.path().to_owned();
        let file = std::fs::File::create(place.path().join("hivewright-1.tar.zst")).unwrap();
        let age = async |at: SystemTime| {
            file.set_modified(at).unwrap();
            newest_age(layout.clone()).await
        };

        let earlier = age(SystemTime::now() - DAY).await;
        let tomorrow = age(SystemTime::now() + DAY).await;

        assert!(earlier.is_some_and(|age| age >= DAY));
        assert_eq!(tomorrow, None);
    }

    /// SC-109: whoever is to hear of backups that could not be made hears of it however one ends.
    #[actix::test]
    async fn a_backup_that_fails_or_panics_is_told_of() {
        let told = RefCell::new(Vec::new());
        let tell = |error| told.borrow_mut().push(error);

        let made = attempt(|| Ok("/backups/1.tar.zst".into()), &tell).await;
        let failed = attempt(|| Err("the disk is full".to_owned()), &tell).await;
        let panicked = attempt(|| panic!("on purpose"), &tell).await;

        assert_eq!([made, failed, panicked], [true, false, false]);
        assert_eq!(*told.borrow(), ["the disk is full", "the work was cut off"]);
    }
}
