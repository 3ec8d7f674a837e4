//! Settings that count from the next turn: read again when their file changed.

use std::{path::PathBuf, sync::Arc};

use hivewright_actors::{blocking, ids::TeamName};
use parking_lot::RwLock;

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
pub type Read<T> = Result<Arc<T>, Arc<Problems>>;

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
    held: RwLock<Option<Set>>,
}

/// Settings that hold together.
#[derive(Clone, Debug)]
pub struct Set {
    pub config: Arc<Config>,
    /// A service may have started without.
    pub providers: Read<Providers>,
    pub channels: Arc<Channels>,
}

impl Live {
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
    pub fn hold(&self, config: Arc<Config>, channels: Arc<Channels>) {
        self.set_held(Set { config, providers: self.providers_file(), channels });
    }

    /// The whole set, if nothing is wrong with it; then it counts. Blocks.
    pub fn set_now(&self) -> Result<Set, Problems> {
        let files = (self.config_file(), self.providers_file(), self.channels_file());
        let set = match files {
            (Ok(config), Ok(providers), Ok(channels)) => {
                Set { config, providers: Ok(providers), channels }
            }
            (config, providers, channels) => {
                let found = [config.err(), providers.err(), channels.err()];
                let found = found.into_iter().flatten();
                return Err(Problems(found.flat_map(|found| found.0.clone()).collect()));
            }
        };
        if self.held().is_some() {
            self.set_held(set.clone());
        }
        Ok(set)
    }

    /// What a service that runs goes by; none if none does. Does not look at files.
    pub fn held(&self) -> Option<Set> {
        self.0.held.read().clone()
    }

    fn set_held(&self, held: Set) {
        let mut place = self.0.held.write();
        *place = Some(held);
    }

    /// The profiles. There is none while the file is wrong.
    pub async fn providers(&self) -> Read<Providers> {
        self.off_thread(self.0.home.providers_file(), Self::providers_now).await
    }

    /// The file of a team. What is wrong with it concerns this team alone.
    pub async fn team(&self, name: &TeamName) -> Read<Team> {
        let (path, name) = (self.0.home.team_file(name.as_str()), name.clone());
        self.off_thread(path, move |live| live.team_now(&name)).await
    }

    /// How the service runs, as far as that may change while it does.
    pub async fn config(&self) -> Read<Config> {
        self.off_thread(self.0.home.config_file(), Self::config_now).await
    }

    async fn off_thread<T: Send + Sync + 'static>(
        &self,
        path: PathBuf,
        read: impl FnOnce(&Self) -> Read<T> + Send + 'static,
    ) -> Read<T> {
        let live = self.clone();
        let stopped = || Arc::new(Problem::of_file(&path, "reading it was cut off").into());
        blocking::run(move || read(&live)).await.unwrap_or_else(|_| Err(stopped()))
    }

    /// The same, on this thread. Blocks.
    pub fn config_now(&self) -> Read<Config> {
        if self.held().is_none() { self.config_file() } else { self.both_now().1 }
    }

    /// The same, on this thread. Blocks.
    pub fn providers_now(&self) -> Read<Providers> {
        if self.held().is_none() { self.providers_file() } else { self.both_now().0 }
    }

    /// The profiles, and how the service runs, by one look at the files. Blocks.
    pub fn both_now(&self) -> (Read<Providers>, Read<Config>) {
        let Some(held) = self.held() else {
            return (self.providers_file(), self.config_file());
        };
        match self.set_now() {
            Ok(set) => (set.providers, Ok(set.config)),
            // If nothing is in force, what is wrong now is of more use than what was.
            Err(_) => (held.providers.or_else(|_| self.providers_file()), Ok(held.config)),
        }
    }

    fn channels_file(&self) -> Read<Channels> {
        let Inner { home, environment, channels, .. } = &*self.0;
        channels.get(&home.channels_file(), environment.vault_version(), || {
            let found = read_channels(home, environment).and_then(channels::Read::whole);
            (found.map(|read| Arc::new(read.channels)).map_err(Arc::new), Vec::new())
        })
    }

    fn config_file(&self) -> Read<Config> {
        let Inner { home, environment, config, .. } = &*self.0;
        config.get(&home.config_file(), 0, || {
            let found = read_config(home, environment);
            (found.map(|(config, _)| Arc::new(config)).map_err(Arc::new), Vec::new())
        })
    }

    fn providers_file(&self) -> Read<Providers> {
        let Inner { home, environment, providers, .. } = &*self.0;
        providers.get(&home.providers_file(), environment.vault_version(), || {
            let (found, files) = read_providers(home, environment);
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
        if let Some(Set { providers: Ok(held), .. }) = self.held()
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
        let Inner { home, teams, .. } = &*self.0;
        teams.get(&home.team_file(name.as_str()), 0, || {
            let found = read_team(home, name.as_str());
            (found.map(Arc::new).map_err(Arc::new), Vec::new())
        })
    }
}
