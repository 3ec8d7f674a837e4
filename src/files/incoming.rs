//! A file on its way in: written as it comes, counted, and gone again unless it is kept.

use std::{fs, io, path::PathBuf};

use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use super::{FileError, FileStore, sniff};
use crate::system::hex;

/// A file that comes piece by piece.
pub struct Incoming {
    file: tokio::fs::File,
    digest: Sha256,
    /// Its first bytes.
    head: Vec<u8>,
    /// The most that it may have, and that its account may have.
    most: (u64, u64),
    held: Held,
}

/// What a file on its way takes, given back when this is dropped.
struct Held {
    store: FileStore,
    account: String,
    path: PathBuf,
    size: u64,
    is_kept: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_kept {
            self.store.release(&self.account, self.size);
            // Renamed or never made, there is nothing to remove.
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// A file that came whole and is on the disk for good, under a name that is not its own yet.
pub(super) struct Received {
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) mime: &'static str,
    pub(super) path: PathBuf,
    held: Held,
}

impl Incoming {
    pub(super) async fn new(
        store: FileStore,
        account: String,
        path: PathBuf,
        most: (u64, u64),
    ) -> Result<Self, FileError> {
        let file = tokio::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .await?;
        let held = Held { store, account, path, size: 0, is_kept: false };
        Ok(Self { file, digest: Sha256::new(), head: Vec::new(), most, held })
    }

    /// The next piece.
    pub async fn write(&mut self, piece: &[u8]) -> Result<(), FileError> {
        let (most, of_account) = self.most;
        let bytes = piece.len() as u64;
        if self.held.size + bytes > most {
            return Err(FileError::TooLarge(most));
        }
        self.held.store.reserve(&self.held.account, bytes, of_account)?;
        self.held.size += bytes;
        self.digest.update(piece);
        let missing = sniff::HEAD.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..missing]);
        self.file.write_all(piece).await?;
        Ok(())
    }

    /// All of it came: from now on it survives a power cut.
    pub(super) async fn finish(mut self) -> io::Result<Received> {
        self.file.flush().await?;
        self.file.sync_all().await?;
        Ok(Received {
            digest: hex(&self.digest.finalize()),
            size: self.held.size,
            mime: sniff::mime(&self.head),
            path: self.held.path.clone(),
            held: self.held,
        })
    }
}

impl Received {
    /// It is in its place, and written down.
    pub(super) fn kept(mut self) {
        self.held.is_kept = true;
    }
}
