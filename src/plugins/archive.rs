//! Plugin archive: `.tar.gz` or `.zip`, unpacked into an empty folder within bounds.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Cursor, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use tar::EntryType;
use zip::ZipArchive;

use super::{
    digest::{self, Extent, MOST_BYTES, MOST_FILES},
    manifest::MANIFEST,
    package::Files,
};

/// The most entries, folders among them.
const MOST_ENTRIES: usize = 2 * MOST_FILES;
/// What each entry in the directory of a ZIP archive begins with.
const ZIP_ENTRY: &[u8] = b"PK\x01\x02";
/// Where the mode of a file is in such an entry.
const ZIP_MODE: usize = 40;
/// The most such entries in a ZIP archive. Archives within it have some too.
const MOST_ZIP_ENTRIES: usize = 16 * MOST_ENTRIES;
/// Bits that give a file the rights of another.
const SET_ID: u32 = 0o6000;
/// Bits of the kind of a file, in a ZIP archive.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

/// Why an archive is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("it is neither a .tar.gz nor a .zip archive")]
    Unknown,
    #[error("`{path}` in the archive {reason}")]
    Refused { path: String, reason: &'static str },
    #[error("it unpacks to more than 2,000 files or 50 MiB")]
    TooLarge,
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Unpacks an archive into an empty folder, and returns where the manifest is: there, or in the only folder.
pub fn unpack(archive: &[u8], into: &Path) -> Result<PathBuf, ArchiveError> {
    let mut unpacking = Unpacking { into, entries: 0, files: 0, bytes: 0 };
    match archive {
        [0x1f, 0x8b, ..] => unpacking.tar(archive)?,
        [b'P', b'K', ..] => unpacking.zip(archive)?,
        _ => return Err(ArchiveError::Unknown),
    }
    if into.join(MANIFEST).exists() {
        return Ok(into.to_owned());
    }
    let mut entries = fs::read_dir(into)?;
    match (entries.next().transpose()?, entries.next()) {
        (Some(only), None) if only.file_type()?.is_dir() => Ok(only.path()),
        _ => Ok(into.to_owned()),
    }
}

struct Unpacking<'a> {
    into: &'a Path,
    entries: usize,
    files: usize,
    bytes: u64,
}

impl Unpacking<'_> {
    fn tar(&mut self, archive: &[u8]) -> Result<(), ArchiveError> {
        // What a decoder gives is bounded too: headers of a tar take bytes that are no file's.
        let bound = MOST_BYTES + (MOST_ENTRIES as u64 + 2) * 2048;
        let mut tar = tar::Archive::new(GzDecoder::new(archive).take(bound));
        for entry in tar.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let mode = entry.header().mode()?;
            match entry.header().entry_type() {
                EntryType::Directory => self.folder(&path)?,
                EntryType::Regular => self.file(&path, mode, &mut entry)?,
                EntryType::XGlobalHeader => self.count(&path)?,
                _ => return Err(refused(&path, "is neither a file nor a folder")),
            }
        }
        Ok(())
    }

    fn zip(&mut self, archive: &[u8]) -> Result<(), ArchiveError> {
        let damaged = |error: zip::result::ZipError| io::Error::other(error.to_string());
        // The whole directory is read before anything of it can be counted, however long it is.
        let entries = archive.windows(ZIP_ENTRY.len()).filter(|bytes| *bytes == ZIP_ENTRY);
        if entries.take(MOST_ZIP_ENTRIES + 1).count() > MOST_ZIP_ENTRIES {
            return Err(ArchiveError::TooLarge);
        }
        let mut zip = ZipArchive::new(Cursor::new(archive)).map_err(damaged)?;
        if zip.len() > MOST_ENTRIES {
            return Err(ArchiveError::TooLarge);
        }
        for index in 0..zip.len() {
            let mut entry = zip.by_index(index).map_err(damaged)?;
            let path = PathBuf::from(entry.name().map_err(damaged)?.into_owned());
            let hidden = set_id(archive, entry.central_header_start())
                .ok_or_else(|| refused(&path, "is not in the archive's directory"))?;
            let mode = entry.unix_mode().unwrap_or(0o644) | hidden;
            match mode & KIND {
                0 | REGULAR | FOLDER if entry.is_dir() => self.folder(&path)?,
                0 | REGULAR => self.file(&path, mode, &mut entry)?,
                _ => return Err(refused(&path, "is neither a file nor a folder")),
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &Path) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            return Err(ArchiveError::TooLarge);
        }
        let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !path.components().all(is_plain) {
            return Err(refused(path, "lies outside"));
        }
        if path.to_str().is_none_or(|path| path.contains(['\\', '\0'])) {
            return Err(refused(path, "has a name that is not taken"));
        }
        Ok(())
    }

    fn folder(&mut self, path: &Path) -> Result<(), ArchiveError> {
        self.count(path)?;
        make_folder(&self.into.join(path))?;
        Ok(())
    }

    fn file(&mut self, path: &Path, mode: u32, content: &mut dyn Read) -> Result<(), ArchiveError> {
        self.count(path)?;
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(ArchiveError::TooLarge);
        }
        if mode & SET_ID != 0 {
            return Err(refused(path, "would run with the rights of another"));
        }
        let target = self.into.join(path);
        if let Some(folder) = target.parent() {
            make_folder(folder)?;
        }
        let mode = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
        let mut options = OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(mode).open(&target);
        let mut file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => refused(path, "is there twice"),
            _ => error.into(),
        })?;
        let room = MOST_BYTES - self.bytes;
        let written = io::copy(&mut content.take(room + 1), &mut file)?;
        if written > room {
            return Err(ArchiveError::TooLarge);
        }
        self.bytes += written;
        // Whatever mask this process has, the digest is the same.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        Ok(())
    }
}

/// The bits that give a file the rights of another, in the directory of a ZIP archive: its reader hides them.
fn set_id(archive: &[u8], entry: u64) -> Option<u32> {
    let at = usize::try_from(entry).ok()?.checked_add(ZIP_MODE)?;
    let mode = archive.get(at..)?.first_chunk()?;
    Some(u32::from(u16::from_le_bytes(*mode)) & SET_ID)
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn refused(path: &Path, reason: &'static str) -> ArchiveError {
    let path = path.to_string_lossy().chars().take(200).collect();
    ArchiveError::Refused { path, reason }
}

/// Packs a folder. What is hidden or was made by a build is left out.
pub fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let files = Files::Folder(folder.to_owned());
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for listed in digest::list(&files, Extent::Packed)? {
        let mut file = fs::File::open(folder.join(&listed.path))?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(listed.mode);
        header.set_entry_type(EntryType::Regular);
        tar.append_data(&mut header, &listed.path, &mut file)?;
    }
    tar.into_inner()?.finish()
}

/// Packs one text as a manifest.
pub fn pack_manifest(text: &str) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    tar.append_data(&mut header, MANIFEST, text.as_bytes())?;
    tar.into_inner()?.finish()
}
