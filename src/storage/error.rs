//! Errors of the store: why it cannot be used, and why there is no backup of it.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::archive::ArchiveError;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// What is there is damaged or foreign. Nothing was changed.
    #[error(
        "the store `{}` cannot be used and was left as it is: {reason}; `hivewright restore --newest` \
         sets it aside and rebuilds it from the newest backup", path.display()
    )]
    Unusable { path: PathBuf, reason: String },
    #[error("the store `{0}` is open to others; `chmod 700 {0}` closes it", path.display())]
    Exposed { path: PathBuf },
    /// Some of its folders are of a backup, others are not.
    #[error(
        "the restore of `{0}` was interrupted before it had put everything into use; \
         `hivewright restore {0} --force` does it again", file.display()
    )]
    HalfRestored { file: PathBuf },
    #[error("the store `{}` is in use by another process", path.display())]
    InUse { path: PathBuf },
    #[error("the store has schema version {found}, this program knows versions up to {known}")]
    Newer { found: u16, known: u16 },
    /// The backup that goes before an upgrade failed, so nothing was upgraded.
    #[error("the store was not upgraded: {0}")]
    Backup(#[from] BackupError),
    /// The disk has no room to work in. Nothing is wrong with the store.
    #[error(
        "the disk of the store `{}` is full; the store is sound: make room (64 MiB will do) and start again",
        path.display()
    )]
    Full { path: PathBuf },
    /// The disk cannot be written. Nothing is wrong with the store.
    #[error(
        "the disk of the store `{}` is mounted read-only; the store is sound: make the disk writable and start again",
        path.display()
    )]
    ReadOnly { path: PathBuf },
    #[error("the store `{}` cannot be opened: {error}", path.display())]
    Disk { path: PathBuf, error: io::Error },
}

impl OpenError {
    /// What the system said of the disk of a store.
    pub(super) fn of_disk(store: &Path, error: io::Error) -> Self {
        let path = store.to_path_buf();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Disk { path, error },
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Newer { .. } => 3,
            Self::InUse { .. } => 6,
            _ => 1,
        }
    }
}

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("the backup cannot be written: {0}")]
    Write(#[from] io::Error),
    #[error("the backup was written and is not good: {0}")]
    Verify(#[from] ArchiveError),
    #[error("`{}` is there already, and a backup replaces nothing; give another name", .0.display())]
    Exists(PathBuf),
}
