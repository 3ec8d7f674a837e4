//! Settings that count from the next turn: read again when their file changed.

use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use hivewright_actors::ids::TeamName;
use tokio::task::spawn_blocking;

use super::{
    channels::{self, Channels},
    config::Config,
    file_cache::FileCache,
    home::Home,
    load::{read_channels, read_config, read_providers, read_team, read_team_with},
    problem::{Problem, Problems},
    providers::Providers,
    references::Environment,
    team::Team,
};

/// What a file held, or what is wrong with it.
type Read<T> = Result<Arc<T>, Arc<Problems>>;

/// The settings as they are now. Cheap to clone.
///
/// `config.yaml`, `providers.yaml` and `channels.yaml` are one set for a service that runs: a fault in
/// one of them leaves what all of them said before in force.
#[derive(Clone, Debug)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: Home,
    environment: Environment,
    providers: FileCache<Read<Providers>>,
    teams: FileCache<Read<Team>>,
    config: FileCache<Read<Config>>,
    channels: FileCache<Read<Channels>>,
    /// What a service that runs goes by.
    held: RwLock<Option<Held>>,
}

#[derive(Clone, Debug)]
struct Held {
    config: Arc<Config>,
    /// A service may have started without.
    providers: Read<Providers>,
    topic_profile: Option<String>,
}

impl Held {
    /// It was made of these.
    fn is_of(&self, config: &Arc<Config>, providers: &Arc<Providers>, channels: &Channels) -> bool {
        let same = self.providers.as_ref();
        Arc::ptr_eq(&self.config, config)
            && same.is_ok_and(|same| Arc::ptr_eq(same, providers))
            && self.topic_profile == channels.topics.profile
    }
}

/// Settings that hold together.
#[derive(Clone, Debug)]
pub struct Set {
    pub config: Arc<Config>,
    pub providers: Arc<Providers>,
    pub channels: Arc<Channels>,
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
            channels: FileCache::default(),
            held: RwLock::default(),
        }))
    }

    /// From now on a service runs with these, and goes on with them while something is wrong. Blocks.
    pub fn hold(&self, config: Arc<Config>, topic_profile: Option<String>) {
        self.set_held(Held { config, providers: self.providers_file(), topic_profile });
    }

    /// The whole set, if nothing is wrong with it; then it counts. Blocks.
    pub fn set_now(&self) -> Result<Set, Problems> {
        let files = (self.config_file(), self.providers_file(), self.channels_file());
        let (config, providers, channels) = match files {
            (Ok(config), Ok(providers), Ok(channels)) => (config, providers, channels),
            (config, providers, channels) => {
                let found = [config.err(), providers.err(), channels.err()];
                let found = found.into_iter().flatten();
                return Err(Problems(found.flat_map(|found| found.0.clone()).collect()));
            }
        };
        if self.held().is_some_and(|held| !held.is_of(&config, &providers, &channels)) {
            self.set_held(Held {
                config: config.clone(),
                providers: Ok(providers.clone()),
                topic_profile: channels.topics.profile.clone(),
            });
        }
        Ok(Set { config, providers, channels })
    }

    /// What a service that runs goes by; none if none does. Does not look at files.
    pub fn config_held(&self) -> Option<Arc<Config>> {
        self.held().map(|held| held.config)
    }

    /// The profiles that a service that runs goes by; none if none does. Does not look at files.
    pub fn providers_held(&self) -> Option<Read<Providers>> {
        self.held().map(|held| held.providers)
    }

    /// The profile that is asked about topics, as the service that runs was told.
    pub fn topic_profile(&self) -> Option<String> {
        self.held()?.topic_profile
    }

    fn held(&self) -> Option<Held> {
        let held = self.0.held.read();
        held.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_held(&self, held: Held) {
        let mut place = self.0.held.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(held);
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
        match self.held() {
            None => self.config_file(),
            Some(held) => Ok(self.set_now().map_or(held.config, |set| set.config)),
        }
    }

    /// The same, on this thread. Blocks.
    pub fn providers_now(&self) -> Read<Providers> {
        match self.held() {
            None => self.providers_file(),
            Some(held) => match (self.set_now(), held.providers) {
                (Ok(set), _) => Ok(set.providers),
                (Err(_), Ok(before)) => Ok(before),
                // Nothing is in force: what is wrong now is of more use than what was.
                (Err(_), Err(_)) => self.providers_file(),
            },
        }
    }

    fn channels_file(&self) -> Read<Channels> {
        let inner = &self.0;
        let (path, version) = (inner.home.channels_file(), inner.environment.vault_version());
        inner.channels.get_with(&path, version, || {
            let found = read_channels(&inner.home, &inner.environment);
            let found = found.and_then(channels::Read::whole);
            (found.map(|read| Arc::new(read.channels)).map_err(Arc::new), Vec::new())
        })
    }

    fn config_file(&self) -> Read<Config> {
        let inner = &self.0;
        inner.config.get(&inner.home.config_file(), || {
            let found = read_config(&inner.home, &inner.environment);
            let found = found.map(|(config, _)| Arc::new(config));
            (found.map_err(Arc::new), Vec::new())
        })
    }

    fn providers_file(&self) -> Read<Providers> {
        let inner = &self.0;
        let (path, version) = (inner.home.providers_file(), inner.environment.vault_version());
        inner.providers.get_with(&path, version, || {
            let (found, files) = read_providers(&inner.home, &inner.environment);
            (found.map(Arc::new).map_err(Arc::new), files)
        })
    }

    /// The same, on this thread. Blocks.
    pub fn team_now(&self, name: &TeamName) -> Read<Team> {
        let team = self.team_file_now(name)?;
        let fits = |providers: &Providers| {
            let (profile, model) = (&team.provider_profile, team.model.as_deref());
            providers.misnamed(profile, model).is_none()
        };
        // Of a service that runs the profiles are known. Only what they lack is worth a look at the file.
        if let Some(Ok(held)) = self.providers_held()
            && fits(&held)
        {
            return Ok(team);
        }
        match self.providers_now() {
            Ok(providers) if !fits(&providers) => {
                let read = read_team_with(&self.0.home, name.as_str(), Some(&providers));
                read.map(|(team, _)| Arc::new(team)).map_err(Arc::new)
            }
            _ => Ok(team),
        }
    }

    /// What the file of a team says, whatever other files lack. Blocks.
    pub fn team_file_now(&self, name: &TeamName) -> Read<Team> {
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
    let stopped = || Arc::new(Problem::of_file(path, "reading it was cut off").into());
    spawn_blocking(read).await.unwrap_or_else(|_| Err(stopped()))
}
