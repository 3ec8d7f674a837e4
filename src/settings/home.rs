//! The directories: what the operator keeps, and what the service makes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use super::{error::StartError, references::Environment};

/// The settings of a team, in its workspace.
pub const TEAM_FILE: &str = "config.yaml";

/// What the command line says about directories.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Where everything is [default: ~/.hivewright, or HIVEWRIGHT_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Settings, rules and keys [default: data in the home, or HIVEWRIGHT_DATA_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Store, teams and backups [default: run in the home, or HIVEWRIGHT_RUN_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub run_dir: Option<PathBuf>,
}

/// Where everything is. The paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    data: PathBuf,
    run: PathBuf,
}

/// Declares where a file or folder lies.
macro_rules! places {
    ($($(#[$doc:meta])* $name:ident: $dir:ident / $path:literal,)+) => {
        impl Home {$(
            $(#[$doc])*
            pub fn $name(&self) -> PathBuf {
                self.$dir.join($path)
            }
        )+}
    };
}

places! {
    /// How the service runs.
    config_file: data / "config/config.yaml",
    /// Which models there are.
    providers_file: data / "config/providers.yaml",
    /// How people reach the teams.
    channels_file: data / "config/channels.yaml",
    /// Rules of the operator for all teams.
    rules: data / "rules",
    /// Skills of the operator for all teams.
    skills: data / "skills",
    /// Installed plugins.
    plugins: data / "plugins",
    /// Keys and tokens.
    secrets: data / "secrets",
    /// The database.
    store: run / "store",
    /// Backups, where the settings name no other place.
    backups: run / "backups",
    /// Transcripts of all sessions.
    history: run / "history",
    teams: run / "teams",
    /// What is in the files of conversations.
    files: run / "files",
    /// What plugins keep for teams.
    plugin_data: run / "plugins",
    /// What teams left that are gone.
    trash: run / "trash",
    /// Where commands of this machine look up how to reach the service.
    address_file: run / "service.json",
}

impl Home {
    /// Finds the directories: flags first, then the environment, then `~/.hivewright`.
    pub fn new(flags: &Flags, environment: &Environment) -> Result<Self, StartError> {
        let given = |flag: &Option<PathBuf>, name: &str| {
            let path = flag.clone();
            path.or_else(|| environment.get(name).map(PathBuf::from))
        };
        let home = given(&flags.home, "HIVEWRIGHT_HOME").or_else(|| {
            let user = environment.get("HOME").map(PathBuf::from);
            user.map(|user| user.join(".hivewright"))
        });
        let place = |given: Option<PathBuf>, name: &str| {
            let path = match (given, &home) {
                (Some(path), _) => path,
                (None, Some(home)) => home.join(name),
                (None, None) => return Err(StartError::NoHome),
            };
            std::path::absolute(&path).map_err(|source| StartError::Unusable { path, source })
        };
        let found = Self {
            data: place(given(&flags.data_dir, "HIVEWRIGHT_DATA_DIR"), "data")?,
            run: place(given(&flags.run_dir, "HIVEWRIGHT_RUN_DIR"), "run")?,
        };
        found.check_nesting()?;
        Ok(found)
    }

    /// What the operator keeps.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// What the service makes.
    pub fn run(&self) -> &Path {
        &self.run
    }

    pub fn team(&self, name: &str) -> PathBuf {
        self.teams().join(name)
    }

    pub fn team_file(&self, name: &str) -> PathBuf {
        self.team(name).join(TEAM_FILE)
    }

    /// Makes what is missing, for the owner alone, and checks what is there.
    pub fn prepare(&self) -> Result<(), StartError> {
        for folder in [
            self.data.join("config"),
            self.rules(),
            self.skills(),
            self.secrets(),
            self.store(),
            self.teams(),
            self.files(),
            self.backups(),
            self.history(),
            self.trash(),
        ] {
            create_private(&folder)?;
        }
        // Symbolic links count only now that everything is there.
        self.check_nesting()?;
        self.check_secrets()
    }

    fn check_nesting(&self) -> Result<(), StartError> {
        let (data, run) = (resolve(&self.data), resolve(&self.run));
        if data.starts_with(&run) || run.starts_with(&data) {
            return Err(StartError::Nested { data: self.data.clone(), run: self.run.clone() });
        }
        Ok(())
    }

    fn check_secrets(&self) -> Result<(), StartError> {
        let folder = self.secrets();
        let unusable = |source| StartError::Unusable { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(unusable)? {
            let path = entry.map_err(unusable)?.path();
            let found = fs::metadata(&path)
                .map_err(|source| StartError::Unusable { path: path.clone(), source })?;
            if found.permissions().mode() & 0o077 != 0 {
                let wanted = if found.is_dir() { "700" } else { "600" };
                return Err(StartError::OpenSecret { path, wanted });
            }
        }
        Ok(())
    }

    /// Takes the run dir for this process.
    pub fn lock(&self) -> Result<Lock, StartError> {
        let path = self.run.join("lock");
        let unusable = |source: io::Error| StartError::Unusable { path: path.clone(), source };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(unusable)?;
        let patience = Instant::now() + LEFTOVER;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(unusable(error.into())),
            }
            let mut text = String::new();
            file.seek(SeekFrom::Start(0))
                .and_then(|_| file.read_to_string(&mut text))
                .map_err(unusable)?;
            let pid = text.trim().parse().ok();
            // A child of a process that was killed may hold its lock until it runs its own program.
            if pid.is_none_or(is_alive) || Instant::now() > patience {
                let run = self.run.clone();
                return Err(StartError::Running { pid, run });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()))
            .map_err(unusable)?;
        Ok(Lock { _file: file })
    }
}

/// The run dir belongs to this process until this is dropped, or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// How long what is left of a dead process may hold its lock.
const LEFTOVER: Duration = Duration::from_secs(5);

fn is_alive(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

pub(crate) fn create_private(path: &Path) -> Result<(), StartError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| StartError::Unusable { path: path.to_owned(), source })
}

/// The real path, as far as it exists.
pub(crate) fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = fs::canonicalize(ancestor) {
            return match path.strip_prefix(ancestor) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => real,
            };
        }
    }
    path.to_owned()
}
