//! Restores: an archive becomes the store and the folders again.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use hivewright_actors::{
    channel::renumber::Renumbering,
    clock::{Clock, Timestamp},
};

use super::{
    Home, OnProgress, TEAMS,
    archive::{self, ArchiveError, Manifest, Member, RECORDS},
    backup,
    build::{self, Builder},
    database,
    error::OpenError,
    export, folder,
    lost::{self, Lost},
    migrate::Schema,
    swap,
    tiers::TieredStorage,
};
use crate::{removal::if_there, settings::config::Durability, system::WallClock, time};

/// So many zeros in a row become a hole.
const HOLE: usize = 64 * 1024;

/// Records that say of a folder of teams that nobody knows who changed it since a moment.
pub type Doubts<'a> = &'a dyn Fn(&Path, Timestamp) -> serde_json::Result<Vec<(Vec<u8>, Vec<u8>)>>;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("nothing was changed: {0}")]
    Archive(#[from] ArchiveError),
    #[error("the backup cannot be restored: {0}")]
    Write(#[from] io::Error),
    #[error("the store is in use; stop the service first: `hivewright stop`")]
    InUse,
    #[error("there is a store already; `--force` replaces it and keeps it beside the new one")]
    NotEmpty,
    #[error("there is no good backup in `{}`, so the store stays as it is", .0.display())]
    NoBackup(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    pub from: PathBuf,
    pub manifest: Manifest,
    /// Where the replaced store and folders are kept.
    pub kept: Vec<PathBuf>,
    /// What the store lacks of the one that was set aside.
    pub lost: Option<Lost>,
}

/// Restores the store and all folders from an archive.
///
/// Every sum is checked before anything is touched; all is built beside what is in use, then put into use
/// folder by folder, the store last. What was there is kept as `….before-<time>`. An interrupted restore can be
/// repeated; one that is stopped has changed nothing.
pub fn restore(
    file: &Path,
    home: &Home,
    force: bool,
    progress: OnProgress<'_>,
) -> Result<Restored, RestoreError> {
    let _lock = lock(&home.store)?;
    if !force && home.store.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(RestoreError::NotEmpty);
    }
    archive::verify(file, progress)?;
    rebuild(file, Building::new(home, &home.folders)?, "before", progress)
}

/// Sets a store that cannot be used aside as `store.bad-<time>`, and rebuilds it from the newest good backup. If it
/// is stopped, nothing was changed.
///
/// Folders stay as they are: they are newer than any backup. What changed in those of teams since then is not to be believed: who
/// changed it is lost.
pub fn restore_newest(
    home: &Home,
    doubts: Doubts<'_>,
    progress: OnProgress<'_>,
) -> Result<Restored, RestoreError> {
    let _lock = lock(&home.store)?;
    let newest = backup::newest_verified(&home.backups, progress)?;
    let (file, manifest) = newest.ok_or_else(|| RestoreError::NoBackup(home.backups.clone()))?;
    let mut building = Building::new(home, &[])?;
    building.doubt(&manifest, doubts).map_err(io::Error::from)?;
    let mut restored = rebuild(&file, building, "bad", progress)?;
    if let [aside] = restored.kept.as_slice() {
        restored.lost = Some(lost::between(aside, &home.store)?);
    }
    Ok(restored)
}

/// The store as it was restored, of whatever version, to look at. Blocks.
pub fn look(home: &Home) -> Result<TieredStorage, OpenError> {
    TieredStorage::attach(&home.store, Durability::Power)
}

/// Keeps others out. A store without a database file is in nobody's use.
fn lock(store: &Path) -> Result<Option<File>, RestoreError> {
    match database::lock(store) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(RestoreError::InUse),
        Err(_) => Ok(None),
    }
}

fn rebuild(
    file: &Path,
    mut building: Building<'_>,
    kept_as: &str,
    progress: OnProgress<'_>,
) -> Result<Restored, RestoreError> {
    let read = archive::read(file, progress, &mut |path, member| building.add(path, member));
    let manifest = read.inspect_err(|_| building.abandon())?;
    let kept = building.put_into_use(file, kept_as)?;
    Ok(Restored { from: file.to_path_buf(), manifest, kept, lost: None })
}

/// Folders that are being built beside those in use.
struct Building<'a> {
    home: &'a Home,
    /// By name in the archive: the folder in use, and whether the archive holds it.
    folders: BTreeMap<&'static str, (&'a Path, bool)>,
    store: Option<PathBuf>,
    /// Records for the store beyond those of the archive.
    added: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<'a> Building<'a> {
    fn new(home: &'a Home, folders: &'a [(&'static str, PathBuf)]) -> io::Result<Self> {
        for (_, path) in folders {
            build::remove(&beside(path))?;
        }
        let folders = folders.iter().map(|(name, path)| (*name, (path.as_path(), false))).collect();
        Ok(Self { home, folders, store: None, added: Vec::new() })
    }

    /// Adds that nobody knows who changed the folders of teams since the backup was made.
    fn doubt(&mut self, manifest: &Manifest, doubts: Doubts<'_>) -> serde_json::Result<()> {
        // A clock that went wrong says nothing about when a file was changed.
        let made = time::parse(&manifest.created).filter(|made| *made <= WallClock.now());
        for (_, teams) in self.home.folders.iter().filter(|(name, _)| *name == TEAMS) {
            self.added.extend(doubts(teams, made.unwrap_or_default())?);
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, member: Member<'_>) -> io::Result<()> {
        match member {
            Member::File { content, .. } if path == Path::new(RECORDS) => {
                self.store = Some(import(&self.home.store, content, &self.added)?);
                Ok(())
            }
            member => self.add_to_folder(path, member),
        }
    }

    fn add_to_folder(&mut self, path: &Path, member: Member<'_>) -> io::Result<()> {
        let mut components = path.components();
        let name = components.next().and_then(|first| match first {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        // What nobody asked for, or this version doesn't know, is passed over.
        let Some((folder, held)) = name.and_then(|name| self.folders.get_mut(name)) else {
            return Ok(());
        };
        *held = true;
        let target = beside(folder).join(components.as_path());
        place(&target, member).map_err(|error| folder::at(&target, &error))
    }

    fn abandon(&self) {
        let folders = self.folders.values().map(|(folder, _)| *folder);
        for folder in folders.chain([self.home.store.as_path()]) {
            if let Err(error) = build::remove(&beside(folder)) {
                tracing::warn!(%error, "what a restore has built stays until the next one");
            }
        }
    }

    fn put_into_use(self, file: &Path, kept_as: &str) -> io::Result<Vec<PathBuf>> {
        let Some(store) = self.store else {
            let reason = "the archive holds no records";
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        };
        let mut kept = Vec::new();
        let marker = (!self.folders.is_empty()).then(|| Interrupted::begin(&self.home.store, file));
        let marker = marker.transpose()?;
        for (folder, _) in self.folders.into_values().filter(|(_, held)| *held) {
            let built = beside(folder);
            rustix::fs::syncfs(File::open(&built)?)?;
            kept.extend(swap::swap(&built, folder, kept_as)?);
        }
        kept.extend(swap::swap(&store, &self.home.store, kept_as)?);
        if let Some(marker) = marker {
            marker.end()?;
        }
        Ok(kept)
    }
}

/// Stands beside a store from the first to the last of the renames that put a backup into use. One that is found says that
/// some folders are of the backup and others are not.
#[derive(Debug)]
pub(super) struct Interrupted {
    marker: PathBuf,
    pub(super) file: PathBuf,
}

impl Interrupted {
    pub(super) fn begin(store: &Path, file: &Path) -> io::Result<Self> {
        let (marker, file) = (Self::marker(store), std::path::absolute(file)?);
        let mut noted = File::create(&marker)?;
        noted.write_all(file.as_os_str().as_bytes())?;
        noted.sync_all()?;
        sync_folder_of(&marker)?;
        Ok(Self { marker, file })
    }

    /// The restore of a store that has not come to its end.
    pub(super) fn find(store: &Path) -> io::Result<Option<Self>> {
        let marker = Self::marker(store);
        let file = if_there(fs::read(&marker))?;
        Ok(file.map(|file| Self { marker, file: OsString::from_vec(file).into() }))
    }

    fn end(self) -> io::Result<()> {
        fs::remove_file(&self.marker)?;
        sync_folder_of(&self.marker)
    }

    fn marker(store: &Path) -> PathBuf {
        swap::beside(store, "restoring")
    }
}

fn sync_folder_of(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Where a folder is built before it is put into use.
fn beside(folder: &Path) -> PathBuf {
    swap::beside(folder, "building")
}

/// Builds a store from the records of an archive.
fn import(
    store: &Path,
    mut content: &mut dyn Read,
    added: &[(Vec<u8>, Vec<u8>)],
) -> io::Result<PathBuf> {
    let schema = export::begin(&mut content)?;
    let known = Schema::CURRENT.version;
    if schema > known {
        let reason = format!(
            "the archive has schema version {schema}, this program knows versions up to {known}"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut builder = Builder::new(beside(store), schema)?;
    let mut numbers = Renumbering::default();
    export::records(&mut content, &mut |key, sealed| {
        numbers.saw(&key);
        builder.put_sealed(key, sealed)
    })?;
    for record in numbers.records(WallClock.now()) {
        let (key, frame) = record?;
        builder.put(&key, &frame)?;
    }
    for (key, value) in added {
        builder.put(key, value)?;
    }
    builder.finish()
}

fn place(path: &Path, member: Member<'_>) -> io::Result<()> {
    match member {
        Member::Folder => fs::DirBuilder::new().mode(0o700).create(path),
        Member::Link(target) => symlink(target, path),
        Member::File { mode, changed, content } => {
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            copy_with_holes(content, &mut file)?;
            file.set_permissions(Permissions::from_mode(mode))?;
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(changed))
        }
    }
}

/// Copies to a new file. Where only zeros stand it gets a hole, which takes no room.
fn copy_with_holes(content: &mut dyn Read, file: &mut File) -> io::Result<()> {
    let mut block = Vec::with_capacity(HOLE);
    let mut length = 0;
    loop {
        block.clear();
        let read = (&mut *content).take(HOLE as u64).read_to_end(&mut block)?;
        if read == 0 {
            return file.set_len(length);
        }
        length += read as u64;
        if block.iter().all(|byte| *byte == 0) {
            file.seek(io::SeekFrom::Start(length))?;
        } else {
            file.write_all(&block)?;
        }
    }
}
