//! Files of conversations: what is in them by its digest, beside the store; whose they are, in it.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read as _},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    blocking,
    channel::records::ChannelRow,
    clock::{Clock, Timestamp},
    file::{
        FileRef, MOST_FILES, harmless_name,
        records::{FileRow, UNNAMED_KEPT},
    },
    identities::Owner,
    ids::{FileId, Ids},
    retention::terms::Terms,
    storage::{Storage, StorageError},
    store::{
        StoreError, StoreHandle,
        reads::{Range, get, get_readable, scan},
        records::Writes,
    },
    text::Size,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt as _;

use crate::{
    removal::if_there,
    settings::{config::Limits, live::Live},
};

pub mod incoming;
pub mod sniff;
#[cfg(test)]
mod tests;

use incoming::{Incoming, Received};

/// What was put here this lately may belong to a file that is not written down yet.
const SETTLING: Duration = Duration::from_secs(60 * 60);
/// Rows that are removed at once.
const REMOVED_AT_ONCE: usize = 100;

/// Why a file is not taken, given or found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error("there is no file `{0}` of yours; a file that no message named is kept for a day")]
    Unknown(String),
    #[error("a message names at most {} files", MOST_FILES)]
    TooMany,
    #[error("a file may have {} (`limits.file`)", Size(*.0))]
    TooLarge(u64),
    #[error(
        "files may take {} (`limits.files`) of whoever brings them; those that are old go by themselves",
        Size(*.0)
    )]
    Quota(u64),
    #[error("{}", hivewright_actors::room::DISK_FULL)]
    DiskFull,
    /// The row is there, the content is not.
    #[error("what was in the file `{0}` is gone")]
    Gone(FileId),
    #[error("the file cannot be kept: {0}")]
    Io(#[source] io::Error),
    #[error("the file cannot be written down: {0}")]
    Store(#[from] StoreError),
    #[error("files cannot be looked up: {0}")]
    Storage(#[from] StorageError),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io(error),
        }
    }
}

/// The files of all conversations. Cheap to clone.
#[derive(Clone)]
pub struct FileStore(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    store: StoreHandle,
    clock: Arc<dyn Clock>,
    ids: Ids,
    /// How much may be kept, and for how long, as it is set then.
    live: Live,
    /// Bytes by account, those on their way included.
    used: Mutex<HashMap<String, u64>>,
    /// Held while a content is put into its place or removed from it.
    places: Mutex<()>,
}

impl FileStore {
    /// The files in a folder, whose rows are in this store. What an earlier process had begun to take in is removed.
    /// Blocks.
    pub fn open(
        folder: PathBuf,
        storage: &dyn Storage,
        store: StoreHandle,
        clock: Arc<dyn Clock>,
        ids: Ids,
        live: Live,
    ) -> Result<Self, FileError> {
        let incoming = incoming_folder(&folder);
        if_there(fs::remove_dir_all(&incoming))?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&incoming)?;
        let mut used = HashMap::new();
        for row in scan::<FileRow>(storage, Range::all())? {
            *used.entry(row.account()).or_default() += row.file.size;
        }
        let (used, places) = (Mutex::new(used), Mutex::default());
        Ok(Self(Arc::new(Inner { folder, store, clock, ids, live, used, places })))
    }

    fn limits(&self) -> Limits {
        self.0.live.held().map_or_else(Limits::default, |held| held.config.limits.clone())
    }

    fn kept(&self) -> Duration {
        let terms = self.0.live.held().map_or_else(Terms::default, |held| held.config.retention);
        terms.tasks
    }

    fn used(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.used.lock()
    }

    fn place(&self, digest: &str) -> PathBuf {
        self.0.folder.join(digest)
    }

    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The most bytes of one file.
    pub fn largest(&self) -> u64 {
        self.limits().file.0
    }

    /// A new row of a file that is to come, of nobody yet.
    pub fn blank(&self, name: &str) -> FileRow {
        FileRow {
            file: FileRef {
                id: self.0.ids.file(),
                name: harmless_name(name),
                mime: String::new(),
                size: 0,
                digest: String::new(),
                path: None,
            },
            at: self.now(),
            owner: None,
            channel: None,
            team: None,
            label: Default::default(),
            named_at: None,
        }
    }

    /// Begins to take in a file of an account that says how long it is, if it does.
    pub async fn begin(&self, account: &str, declared: Option<u64>) -> Result<Incoming, FileError> {
        if self.0.store.room().is_full() {
            return Err(FileError::DiskFull);
        }
        let Limits { file, files, .. } = self.limits();
        let declared = declared.unwrap_or_default();
        if declared > file.0 {
            return Err(FileError::TooLarge(file.0));
        }
        if self.used().get(account).copied().unwrap_or_default() + declared > files.0 {
            return Err(FileError::Quota(files.0));
        }
        let name = format!("{:016x}", self.0.ids.bits());
        let path = incoming_folder(&self.0.folder).join(name);
        Incoming::new(self.clone(), account.to_owned(), path, (file.0, files.0)).await
    }

    /// Counts bytes that come, if they may.
    fn reserve(&self, account: &str, bytes: u64, most: u64) -> Result<(), FileError> {
        let mut used = self.used();
        let held = used.entry(account.to_owned()).or_default();
        if *held + bytes > most {
            return Err(FileError::Quota(most));
        }
        *held += bytes;
        Ok(())
    }

    fn release(&self, account: &str, bytes: u64) {
        let mut used = self.used();
        if let Some(held) = used.get_mut(account) {
            *held = held.saturating_sub(bytes);
        }
    }

    /// Keeps a file that came whole: once this answers, it is there after a power cut too.
    pub async fn keep(&self, incoming: Incoming, row: FileRow) -> Result<FileRow, FileError> {
        let received = incoming.finish().await?;
        let Received { digest, size, mime, .. } = &received;
        let file =
            FileRef { mime: (*mime).to_owned(), size: *size, digest: digest.clone(), ..row.file };
        let row = FileRow { file, ..row };
        let (this, temporary, place) = (self.clone(), received.path.clone(), self.place(digest));
        let placed = blocking::run(move || {
            let _held = this.0.places.lock();
            fs::rename(&temporary, &place)?;
            fs::File::open(&this.0.folder)?.sync_all()
        });
        placed.await.map_err(io::Error::other)??;
        self.0.store.commit(Writes::new().put(&row)).await?;
        received.kept();
        Ok(row)
    }

    /// The row of a file, if somebody brought it or it was said in a channel of theirs.
    pub async fn of(&self, owner: &Owner, id: &FileId) -> Result<Option<FileRow>, FileError> {
        let (owner, id) = (owner.clone(), id.clone());
        let found = self.0.store.read(move |storage| {
            let row = get_readable::<FileRow>(storage, &id)?;
            match row {
                Some(row) if is_of(storage, &row, &owner)? => Ok(Some(row)),
                _ => Ok(None),
            }
        });
        Ok(found.await?)
    }

    /// The row of a file, whosever it is.
    pub async fn find(&self, id: &FileId) -> Result<Option<FileRow>, FileError> {
        let id = id.clone();
        Ok(self.0.store.read(move |storage| get_readable::<FileRow>(storage, &id)).await?)
    }

    /// The files that a message of somebody names, each once. All are theirs to name, or none is taken.
    pub async fn named(&self, owner: &Owner, ids: &[String]) -> Result<Vec<FileRow>, FileError> {
        if ids.len() > MOST_FILES {
            return Err(FileError::TooMany);
        }
        let mut rows: Vec<FileRow> = Vec::new();
        for id in ids {
            let unknown = || FileError::Unknown(id.chars().take(80).collect());
            let of = FileId::named(id).ok_or_else(unknown)?;
            if rows.iter().any(|row| row.file.id == of) {
                continue;
            }
            let row = self.of(owner, &of).await?;
            let (now, kept) = (self.now(), self.kept());
            rows.push(row.filter(|row| row.can_be_named(now, kept)).ok_or_else(unknown)?);
        }
        Ok(rows)
    }

    /// The content of a file, open.
    pub async fn content(&self, file: &FileRef) -> Result<tokio::fs::File, FileError> {
        let opened = if_there(tokio::fs::File::open(self.place(&file.digest)).await)?;
        opened.ok_or_else(|| FileError::Gone(file.id.clone()))
    }

    /// The whole content of a file, never more than it was when it was taken in.
    pub async fn bytes(&self, file: &FileRef) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        self.content(file).await?.take(file.size).read_to_end(&mut bytes).await?;
        Ok(bytes)
    }

    /// The same. Blocks.
    pub fn read(&self, file: &FileRef) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        let opened = if_there(fs::File::open(self.place(&file.digest)))?;
        let opened = opened.ok_or_else(|| FileError::Gone(file.id.clone()))?;
        // Never more than it was when it was taken in.
        opened.take(file.size).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Removes files whose time is over, and contents that no file has.
    pub async fn tidy(&self) -> Result<usize, FileError> {
        let (now, kept) = (self.now(), self.kept());
        let rows = self.0.store.read(|storage| scan::<FileRow>(storage, Range::all())).await?;
        let (over, left): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| row.is_over(now, kept));
        for some in over.chunks(REMOVED_AT_ONCE) {
            let writes = some
                .iter()
                .fold(Writes::new(), |writes, row| writes.delete::<FileRow>(&row.file.id));
            self.0.store.commit(writes).await?;
            some.iter().for_each(|row| self.release(&row.account(), row.file.size));
        }
        let held: HashSet<String> = left.into_iter().map(|row| row.file.digest).collect();
        let this = self.clone();
        let removed = blocking::run(move || this.remove_but(&held));
        removed.await.map_err(io::Error::other)??;
        Ok(over.len())
    }

    /// Removes contents that are not held. Blocks.
    fn remove_but(&self, held: &HashSet<String>) -> io::Result<()> {
        for entry in fs::read_dir(&self.0.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if held.contains(&name) || !is_digest(&name) {
                continue;
            }
            // What comes again meanwhile is put in its place anew, which makes it young.
            let _held = self.0.places.lock();
            let age = entry.path().metadata().and_then(|found| found.modified());
            if age?.elapsed().is_ok_and(|age| age > SETTLING) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Tidies from time to time, for as long as it is not dropped.
    pub async fn keep_tidy(self) {
        // An unnamed file goes about an hour after its day.
        let mut due = tokio::time::interval(UNNAMED_KEPT / 24);
        loop {
            due.tick().await;
            match self.tidy().await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "old files are removed"),
                Err(error) => {
                    tracing::warn!(%error, "old files are not all removed; it is tried again within the hour")
                }
            }
        }
    }
}

fn incoming_folder(folder: &Path) -> PathBuf {
    folder.join("incoming")
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Somebody brought a file, or it was said in a channel of theirs.
fn is_of(storage: &dyn Storage, row: &FileRow, owner: &Owner) -> Result<bool, StorageError> {
    if row.belongs_to(owner) {
        return Ok(true);
    }
    let Some(channel) = &row.channel else {
        return Ok(false);
    };
    let channel = get::<ChannelRow>(storage, channel)?;
    Ok(channel.is_some_and(|channel| channel.belongs_to(owner)))
}

/// The words of a message: those of files that come without any are their names.
pub fn words(content: String, files: &[FileRow]) -> String {
    if !content.trim().is_empty() || files.is_empty() {
        return content;
    }
    files.iter().map(|row| row.file.name.as_str()).collect::<Vec<_>>().join(", ")
}
