//! Plugin depot: the folder of installed packages, with what puts one there, takes it away, or agrees to it as it is.
//!
//! A package is unpacked aside, checked whole, and takes its place in one step. Nothing of it is run.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hivewright_actors::ids::ApprovalId;
use parking_lot::Mutex;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    archive::{self, ArchiveError},
    capabilities::Capabilities,
    catalogue::{Catalogue, Loaded, Sources},
    fault::Fault,
    lock::{Held, Lock, Locked},
    package::{Files, Origin, Package},
};
use crate::settings::home::create_private;

/// What begins the names of folders that are being put together or taken away.
const ASIDE: &str = ".aside-";
/// What begins the names of folders with packages that wait for a person.
const HELD: &str = ".held-";

/// Why a package was not installed, taken away or agreed to.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("there is no installed plugin `{0}`")]
    Unknown(String),
    #[error("plugin `{0}` comes with the release or from `plugins.paths`, and is not installed")]
    NotInstalled(String),
    #[error("another version of `{0}` waits for a decision; decide on that first")]
    Waits(String),
    /// What came is not what was agreed to.
    #[error("its digest is {0}, which is not what was agreed to")]
    OtherDigest(String),
    #[error("the folder of plugins cannot be used: {0}")]
    Folder(#[from] io::Error),
}

/// The installed packages. Cheap to clone.
#[derive(Clone)]
pub struct Depot(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    catalogue: Catalogue,
    sources: Box<dyn Fn() -> Sources + Send + Sync>,
    /// Held by whoever changes the folder or reads it: one after the other.
    turn: Mutex<()>,
    /// Held by whoever carries out what was decided: nothing is carried out twice.
    settling: tokio::sync::Mutex<()>,
}

/// A package that was unpacked aside. What is not installed goes with it.
pub struct Staged {
    package: Package,
    /// Where it was unpacked, with the folder around it.
    aside: Aside,
}

impl Staged {
    pub fn package(&self) -> &Package {
        &self.package
    }
}

struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        // What is left is swept at the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Depot {
    /// The packages in a folder and from elsewhere, as `sources` says whenever it is asked.
    pub fn new(folder: PathBuf, sources: impl Fn() -> Sources + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            folder,
            catalogue: Catalogue::default(),
            sources: Box::new(sources),
            turn: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }))
    }

    pub fn catalogue(&self) -> &Catalogue {
        &self.0.catalogue
    }

    pub(super) async fn settling(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.settling.lock().await
    }

    /// Makes the folder, and removes what an end in the middle left. It blocks.
    pub fn prepare(&self) -> io::Result<()> {
        create_private(&self.0.folder).map_err(|error| io::Error::other(error.to_string()))?;
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(ASIDE) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Reads all packages anew. It blocks.
    pub fn reload(&self) -> Arc<Loaded> {
        let _turn = self.0.turn.lock();
        self.read()
    }

    fn read(&self) -> Arc<Loaded> {
        let known = self.0.catalogue.now();
        let lock = Lock::read(&self.0.folder).and_then(|lock| {
            // Whoever takes the last one away leaves the file.
            let is_lost = lock.is_new() && known.has_installed();
            if is_lost { Err(io::ErrorKind::NotFound.into()) } else { Ok(lock) }
        });
        let loaded = match lock {
            Ok(lock) => Loaded::read(&(self.0.sources)(), &lock),
            Err(error) if !known.packages.is_empty() => {
                tracing::error!(%error, "`plugins.lock` cannot be read: plugins stay as they were");
                return known;
            }
            Err(error) => {
                tracing::error!(%error, "`plugins.lock` cannot be read: no installed plugin counts as agreed to until it can");
                Loaded::read(&(self.0.sources)(), &Lock::default())
            }
        };
        if let Err(error) = self.remember(&loaded) {
            tracing::error!(%error, "`plugins.lock` cannot be written: a plugin in development that is lost later refuses no calls");
        }
        self.0.catalogue.set(loaded);
        self.0.catalogue.now()
    }

    /// Keeps what packages that are worked on guard, for when they cannot be loaded.
    fn remember(&self, loaded: &Loaded) -> io::Result<()> {
        let mut lock = Lock::read(&self.0.folder)?;
        let guards = loaded.guards_at_work();
        if lock.development == guards {
            return Ok(());
        }
        lock.development = guards;
        lock.write(&self.0.folder)
    }

    fn aside(&self) -> io::Result<Aside> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        create_private(&self.0.folder).map_err(|error| io::Error::other(error.to_string()))?;
        let path = self.0.folder.join(format!("{ASIDE}{number:016x}"));
        fs::create_dir(&path)?;
        Ok(Aside(path))
    }

    /// Unpacks an archive aside and looks it over. It blocks.
    pub fn stage(&self, packed: &[u8]) -> Result<Staged, DepotError> {
        let aside = self.aside()?;
        let folder = archive::unpack(packed, &aside.0)?;
        let package = self.load(folder)?;
        self.0.catalogue.now().fits_beside_others(&package, &(self.0.sources)())?;
        Ok(Staged { package, aside })
    }

    /// Looks over a package that is or would be installed. It blocks.
    fn load(&self, folder: PathBuf) -> Result<Package, DepotError> {
        let mut package = Package::load(Files::Folder(folder), Origin::Installed)?;
        package.signer = (self.0.sources)().signer(&package)?;
        Ok(package)
    }

    /// What a staged package asks for beyond what was agreed to before; none if it is new.
    pub fn beyond(&self, staged: &Staged) -> Result<Option<Vec<String>>, DepotError> {
        let lock = Lock::read(&self.0.folder)?;
        let before = lock.plugins.get(staged.package.manifest.key.as_str());
        Ok(before.map(|before| Capabilities::of(&staged.package).beyond(&before.capabilities)))
    }

    /// Puts a staged package in its place; what it asks for is agreed to. It blocks.
    pub fn install(&self, staged: Staged, source: &str) -> Result<Arc<Loaded>, DepotError> {
        let _turn = self.0.turn.lock();
        let Staged { package, aside } = staged;
        let (folder, key) = (&self.0.folder, package.manifest.key.as_str());
        let Files::Folder(unpacked) = &package.files else {
            return Err(DepotError::NotInstalled(key.to_owned()));
        };
        let mut lock = Lock::read(folder)?;
        let former = lock.plugins.get(key).and_then(|before| {
            // One that was agreed to, and not put in place before the process ended, has not replaced what is there.
            if before.digest == package.digest {
                before.former.clone()
            } else {
                Some(before.digest.clone())
            }
        });
        let locked = Locked { former, ..Locked::of(&package, source.to_owned()) };
        // Whichever of the two is there after a crash was agreed to.
        lock.agree(key, locked);
        lock.write(folder)?;
        let place = folder.join(key);
        let flags = if place.exists() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        renameat_with(CWD, unpacked, CWD, &place, flags).map_err(io::Error::from)?;
        File::open(folder)?.sync_all()?;
        if let Some(locked) = lock.plugins.get_mut(key) {
            locked.former = None;
        }
        lock.write(folder)?;
        drop(aside);
        Ok(self.read())
    }

    /// Keeps a staged package aside until a person has agreed to what it asks for. It blocks.
    pub fn hold(&self, staged: Staged, source: &str) -> Result<(), DepotError> {
        let _turn = self.0.turn.lock();
        let Staged { package, aside } = staged;
        let key = package.manifest.key.as_str();
        let mut lock = Lock::read(&self.0.folder)?;
        if lock.held.contains_key(key) {
            return Err(DepotError::Waits(key.to_owned()));
        }
        let place = self.held(key);
        if let Some(unpacked) = package.files.folder() {
            let _ = fs::remove_dir_all(&place);
            fs::rename(unpacked, &place)?;
        }
        let held = Held {
            version: package.manifest.version.to_string(),
            source: source.to_owned(),
            digest: package.digest.clone(),
            approval: None,
        };
        lock.held.insert(key.to_owned(), held);
        lock.write(&self.0.folder)?;
        drop(aside);
        Ok(())
    }

    /// A person is asked about what is held. It blocks.
    pub fn asked(&self, key: &str, approval: &ApprovalId) -> Result<(), DepotError> {
        let _turn = self.0.turn.lock();
        let mut lock = Lock::read(&self.0.folder)?;
        if let Some(held) = lock.held.get_mut(key) {
            held.approval = Some(approval.clone());
            lock.write(&self.0.folder)?;
        }
        Ok(())
    }

    /// Puts what was held in its place: a person agreed to exactly that. It blocks.
    pub fn accept(&self, key: &str, held: &Held) -> Result<Arc<Loaded>, DepotError> {
        if self.was_put_in_place(key, held)? {
            return Ok(self.reload());
        }
        let place = self.held(key);
        let package = self.load(place.clone())?;
        if package.digest != held.digest {
            return Err(DepotError::OtherDigest(package.digest));
        }
        self.0.catalogue.now().fits_beside_others(&package, &(self.0.sources)())?;
        self.install(Staged { package, aside: Aside(place) }, &held.source)
    }

    /// Whether a process put it in its place and ended before that was noted. It is noted now.
    fn was_put_in_place(&self, key: &str, held: &Held) -> Result<bool, DepotError> {
        let _turn = self.0.turn.lock();
        let mut lock = Lock::read(&self.0.folder)?;
        let is_same = |digest: &String| *digest == held.digest;
        let Some(locked) = lock.plugins.get_mut(key).filter(|locked| is_same(&locked.digest))
        else {
            return Ok(false);
        };
        if !self.installed(key).is_ok_and(|package| is_same(&package.digest)) {
            return Ok(false);
        }
        locked.former = None;
        lock.write(&self.0.folder)?;
        Ok(true)
    }

    /// Lets go of what is held, and tells what was asked. It blocks.
    pub fn dismiss(&self, key: &str) -> Result<Option<ApprovalId>, DepotError> {
        let _turn = self.0.turn.lock();
        let mut lock = Lock::read(&self.0.folder)?;
        let Some(held) = lock.held.remove(key) else { return Ok(None) };
        lock.write(&self.0.folder)?;
        drop(Aside(self.held(key)));
        Ok(held.approval)
    }

    fn held(&self, key: &str) -> PathBuf {
        self.0.folder.join(format!("{HELD}{key}"))
    }

    /// Agrees to an installed package as it is now. It blocks.
    pub fn approve(&self, key: &str, digest: Option<&str>) -> Result<Arc<Loaded>, DepotError> {
        let _turn = self.0.turn.lock();
        let package = self.installed(key)?;
        if digest.is_some_and(|digest| digest != package.digest) {
            return Err(DepotError::OtherDigest(package.digest));
        }
        let mut lock = Lock::read(&self.0.folder)?;
        let source = lock.plugins.get(key).map(|before| before.source.clone());
        let source = source.unwrap_or_else(|| "put there by hand".to_owned());
        lock.agree(key, Locked::of(&package, source));
        lock.write(&self.0.folder)?;
        Ok(self.read())
    }

    /// The package of an installed plugin as it is now, agreed to or not. It blocks.
    pub fn installed(&self, key: &str) -> Result<Package, DepotError> {
        self.load(self.place(key)?)
    }

    fn place(&self, key: &str) -> Result<PathBuf, DepotError> {
        super::check::check_key(key).map_err(|_| DepotError::Unknown(key.to_owned()))?;
        let place = self.0.folder.join(key);
        if place.is_dir() {
            return Ok(place);
        }
        match self.0.catalogue.get(key) {
            Some(_) => Err(DepotError::NotInstalled(key.to_owned())),
            None => Err(DepotError::Unknown(key.to_owned())),
        }
    }

    /// Takes an installed package away, also one whose folder is gone. It blocks.
    pub fn uninstall(&self, key: &str) -> Result<Arc<Loaded>, DepotError> {
        let _turn = self.0.turn.lock();
        let mut lock = Lock::read(&self.0.folder)?;
        let aside = self.aside()?;
        match (self.place(key), lock.plugins.remove(key)) {
            (Ok(place), _) => fs::rename(&place, aside.0.join(key))?,
            (Err(_), Some(_)) => {}
            (Err(error), None) => return Err(error),
        }
        File::open(&self.0.folder)?.sync_all()?;
        lock.taken_away.insert(key.to_owned());
        lock.write(&self.0.folder)?;
        drop(aside);
        Ok(self.read())
    }

    /// What was agreed to, by key. It blocks.
    pub fn lock(&self) -> io::Result<Lock> {
        Lock::read(&self.0.folder)
    }

    /// The folder of installed packages.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }
}
