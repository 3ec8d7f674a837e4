//! Settings that count from the next turn: read again when their file changed.

use std::{path::Path, sync::Arc};

use hivewright_actors::ids::TeamName;
use tokio::task::spawn_blocking;

use super::{
    config::Config,
    file_cache::FileCache,
    home::Home,
    load::{read_config, read_providers, read_team, whole},
    problem::Problems,
    providers::Providers,
    references::Environment,
    team::Team,
};

/// What a file held, or what is wrong with it.
type Read<T> = Result<Arc<T>, Arc<Problems>>;

/// The providers and the team files as they are now. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: Home,
    environment: Environment,
    providers: FileCache<Read<Providers>>,
    teams: FileCache<Read<Team>>,
    config: FileCache<Read<Config>>,
}

impl Live {
    /// The settings of this home.
    pub fn new(home: Home, environment: Environment) -> Self {
        Self(Arc::new(Inner {
            home,
            environment,
            providers: FileCache::default(),
            teams: FileCache::default(),
            config: FileCache::default(),
        }))
    }

    /// The profiles. There is none while the file is wrong.
    pub async fn providers(&self) -> Read<Providers> {
        let this = self.clone();
        let path = this.0.home.providers_file();
        off_thread(&path, move || this.providers_now()).await
    }

    /// The file of a team. What is wrong with it concerns this team alone.
    pub async fn team(&self, name: &TeamName) -> Read<Team> {
        let (this, name) = (self.clone(), name.clone());
        let path = this.0.home.team_file(name.as_str());
        off_thread(&path, move || this.team_now(&name)).await
    }

    /// How the service runs, as far as that may change while it does.
    pub async fn config(&self) -> Read<Config> {
        let this = self.clone();
        let path = this.0.home.config_file();
        off_thread(&path, move || this.config_now()).await
    }

    /// The same, on this thread. Blocks.
    pub fn config_now(&self) -> Read<Config> {
        let inner = &self.0;
        inner.config.get(&inner.home.config_file(), || {
            let found = read_config(&inner.home, &inner.environment);
            let found = found.map(|(config, _)| Arc::new(config));
            (found.map_err(Arc::new), Vec::new())
        })
    }

    /// The same, on this thread. Blocks.
    pub fn providers_now(&self) -> Read<Providers> {
        let inner = &self.0;
        let (path, version) = (
            inner.home.providers_file(),
            inner.environment.vault_version(),
        );
        inner.providers.get_with(&path, version, || {
            let (found, files) = read_providers(&inner.home, &inner.environment);
            (found.map(Arc::new).map_err(Arc::new), files)
        })
    }

    /// The same, on this thread. Blocks.
    pub fn team_now(&self, name: &TeamName) -> Read<Team> {
        let inner = &self.0;
        let path = inner.home.team_file(name.as_str());
        inner.teams.get(&path, || {
            let found = read_team(&inner.home, name.as_str());
            (found.map(Arc::new).map_err(Arc::new), Vec::new())
        })
    }
}

async fn off_thread<T: Send + Sync + 'static>(
    path: &Path,
    read: impl FnOnce() -> Read<T> + Send + 'static,
) -> Read<T> {
    let stopped = || Arc::new(Problems(vec![whole(path, "reading it was cut off")]));
    spawn_blocking(read)
        .await
        .unwrap_or_else(|_| Err(stopped()))
}
