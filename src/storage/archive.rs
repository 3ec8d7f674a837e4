//! The file of a backup: a compressed tar whose last member lists what came before, with sums.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{File, Metadata},
    io::{self, BufReader, Read, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Component, Path, PathBuf},
};

use rustix::{fs::SeekFrom, io::Errno};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

use super::{OnProgress, Unit, folder::Found, report};
use crate::system::hex;

/// The member that holds the records of the store.
pub(super) const RECORDS: &str = "store.records";
const MANIFEST: &str = "manifest.json";
const FORMAT: u32 = 1;
const LEVEL: i32 = 3;
/// What a manifest takes beside its parts, at most: mainly what was left out.
const BESIDE_PARTS: u64 = 16 << 20;
/// What a part takes there beside its path, at most.
const BESIDE_PATH: u64 = 256;
/// How many bytes a byte of a path becomes there, at most.
const ESCAPED: u64 = 6;
/// So much of what is left out is listed.
const MOST_LISTED: usize = 100;
/// Bytes of holes that a backup takes of a team.
const MOST_HOLES: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub created: String,
    /// How many records of the store it holds, the parts of large values counted singly.
    pub records: u64,
    pub parts: Vec<Part>,
    /// What of the folders it lacks, and why: a line for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub path: String,
    pub bytes: u64,
    /// The sum of its content. A link's content is where it leads; a folder has none.
    pub sha256: String,
}

/// Why an archive cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    #[error("the archive cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    #[error("the archive holds `{path}`, {reason}")]
    Refused { path: String, reason: &'static str },
    #[error("the archive has format {0}, this program knows formats up to {FORMAT}")]
    Newer(u32),
}

pub(super) struct Writer<Out: Write> {
    tar: tar::Builder<zstd::Encoder<'static, Out>>,
    parts: Vec<Part>,
    left_out: Vec<String>,
    /// How many more were left out than are listed.
    unlisted: usize,
    /// Bytes of holes in the files so far of what stands in a folder, such as a team.
    holes: HashMap<PathBuf, u64>,
}

impl<Out: Write> Writer<Out> {
    pub(super) fn new(out: Out) -> io::Result<Self> {
        let mut encoder = zstd::Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Self {
            tar: tar::Builder::new(encoder),
            parts: Vec::new(),
            left_out: Vec::new(),
            unlisted: 0,
            holes: HashMap::new(),
        })
    }

    /// Adds the records of the store, so many bytes.
    pub(super) fn add_records(&mut self, size: u64, content: impl Read) -> io::Result<()> {
        self.add_content(Path::new(RECORDS), size, 0o600, 0, content)
    }

    /// Adds something of a folder. What cannot be read, or would fill the disk of whoever restores it, is listed instead.
    pub(super) fn add(&mut self, path: &Path, found: Found) -> io::Result<()> {
        match found {
            Found::Unread(error) => self.leave_out(path, &error.to_string()),
            Found::Folder => {
                let mut header = header(EntryType::Directory, 0, 0o700, 0);
                self.tar.append_data(&mut header, path, io::empty())?;
                self.part(path, 0, Sha256::new());
            }
            Found::Link(target) => {
                let mut header = header(EntryType::Symlink, 0, 0o777, 0);
                self.tar.append_link(&mut header, path, &target)?;
                self.part(path, 0, link_sum(&target));
            }
            Found::File(file) => {
                let about = file.metadata()?;
                if !self.admits_holes(path, &file, &about) {
                    self.leave_out(path, "it consists of holes, more than a backup takes");
                    return Ok(());
                }
                let changed = u64::try_from(about.mtime()).unwrap_or(0);
                self.add_content(path, about.len(), about.mode() & 0o777, changed, file)?;
            }
        }
        Ok(())
    }

    fn add_content(
        &mut self,
        path: &Path,
        size: u64,
        mode: u32,
        changed: u64,
        content: impl Read,
    ) -> io::Result<()> {
        let mut header = header(EntryType::Regular, size, mode, changed);
        // A file that is cut while it is read keeps the size that was announced.
        let mut content = Summed::new(content.chain(io::repeat(0)).take(size));
        self.tar.append_data(&mut header, path, &mut content)?;
        self.part(path, size, content.sum);
        Ok(())
    }

    fn leave_out(&mut self, path: &Path, reason: &str) {
        if self.left_out.len() < MOST_LISTED {
            let path = path.to_string_lossy();
            self.left_out.push(format!("{}: {reason}", path.escape_debug()));
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether the holes of a file are few enough, with those of its team so far. They take no room where they are, and all of
    /// their length to be read and summed.
    fn admits_holes(&mut self, path: &Path, file: &File, about: &Metadata) -> bool {
        let length = about.len();
        if about.blocks() * 512 >= length {
            return true;
        }
        let known = self.holes.entry(path.components().take(2).collect()).or_default();
        let holes = holes(file, length, MOST_HOLES.saturating_sub(*known));
        *known += holes.unwrap_or_default();
        holes.is_some()
    }

    pub(super) fn finish(mut self, created: String, records: u64) -> io::Result<Out> {
        if self.unlisted > 0 {
            self.left_out.push(format!("and {} more", self.unlisted));
        }
        let manifest = serde_json::to_vec_pretty(&Manifest {
            format: FORMAT,
            created,
            records,
            parts: self.parts,
            left_out: self.left_out,
        })?;
        let mut header = header(EntryType::Regular, manifest.len() as u64, 0o600, 0);
        self.tar.append_data(&mut header, MANIFEST, manifest.as_slice())?;
        self.tar.into_inner()?.finish()
    }

    fn part(&mut self, path: &Path, bytes: u64, sum: Sha256) {
        self.parts.push(part(path, bytes, sum));
    }
}

pub(super) enum Member<'a> {
    Folder,
    File {
        mode: u32,
        /// When it was changed, in seconds since 1970.
        changed: u64,
        content: &'a mut dyn Read,
    },
    /// A link and where it leads.
    Link(PathBuf),
}

/// Reads an archive to its end, shows each member, and checks all sums. What was shown is good only
/// if this returns well.
pub(super) fn read(
    file: &Path,
    progress: OnProgress<'_>,
    show: &mut dyn FnMut(&Path, Member<'_>) -> io::Result<()>,
) -> Result<Manifest, ArchiveError> {
    let file = File::open(file)?;
    let total = file.metadata()?.len();
    let counted = Counted { inner: file, done: 0, total, progress };
    let decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(1 << 20, counted))?;
    let mut tar = tar::Archive::new(decoder);
    let mut parts = Vec::new();
    let mut manifest: Option<Manifest> = None;
    let mut links = BTreeSet::new();
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if manifest.is_some() {
            return Err(refused(&path, "after its end"));
        }
        if path == Path::new(MANIFEST) {
            let content = (&mut entry).take(largest_manifest(&parts));
            manifest = Some(serde_json::from_reader(content).map_err(io::Error::from)?);
            continue;
        }
        check_path(&path, &links)?;
        let (kind, size) = (entry.header().entry_type(), entry.size());
        let alone = path.components().count() == 1 && path != Path::new(RECORDS);
        if alone && kind != EntryType::Directory {
            return Err(refused(&path, "which should be a folder"));
        }
        match kind {
            EntryType::Directory => {
                show(&path, Member::Folder)?;
                parts.push(part(&path, 0, Sha256::new()));
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.unwrap_or_default().into_owned();
                parts.push(part(&path, 0, link_sum(&target)));
                links.insert(path.clone());
                show(&path, Member::Link(target))?;
            }
            EntryType::Regular => {
                let mode = entry.header().mode()? & 0o777;
                let changed = entry.header().mtime()?;
                let mut summed = Summed::new(&mut entry);
                let content = &mut summed;
                show(&path, Member::File { mode, changed, content })?;
                io::copy(&mut summed, &mut io::sink())?;
                parts.push(part(&path, size, summed.sum));
            }
            _ => return Err(refused(&path, "which is neither file, folder nor link")),
        }
    }
    // The checksum of the whole stands at the very end.
    io::copy(&mut tar.into_inner(), &mut io::sink())?;
    let Some(manifest) = manifest else {
        return Err(ArchiveError::Damaged("it has no manifest".to_owned()));
    };
    if manifest.format > FORMAT {
        return Err(ArchiveError::Newer(manifest.format));
    }
    if manifest.parts != parts {
        let differs = manifest.parts.iter().zip(&parts).find(|(a, b)| a != b);
        return Err(ArchiveError::Damaged(match differs {
            Some((part, _)) => format!("`{}` does not match its sum", part.path),
            None => "members are missing or were added".to_owned(),
        }));
    }
    Ok(manifest)
}

/// Reads an archive whole and checks it.
pub fn verify(file: &Path, progress: OnProgress<'_>) -> Result<Manifest, ArchiveError> {
    read(file, progress, &mut |_, _| Ok(()))
}

/// A member lies where its path says only if the path has no way up and leads through no link.
fn check_path(path: &Path, links: &BTreeSet<PathBuf>) -> Result<(), ArchiveError> {
    if !path.components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(refused(path, "which is outside"));
    }
    if path.ancestors().any(|above| links.contains(above)) {
        return Err(refused(path, "which lies behind a link"));
    }
    Ok(())
}

/// How large a manifest of these parts can be. It is read into memory, so it has a bound.
fn largest_manifest(parts: &[Part]) -> u64 {
    let bytes = parts.iter().map(|part| part.path.len() as u64 * ESCAPED + BESIDE_PATH);
    BESIDE_PARTS + bytes.sum::<u64>()
}

fn refused(path: &Path, reason: &'static str) -> ArchiveError {
    ArchiveError::Refused { path: path.display().to_string(), reason }
}

fn part(path: &Path, bytes: u64, sum: Sha256) -> Part {
    Part { path: path.to_string_lossy().into_owned(), bytes, sha256: hex(&sum.finalize()) }
}

fn link_sum(target: &Path) -> Sha256 {
    Sha256::new_with_prefix(target.as_os_str().as_bytes())
}

/// How many bytes of a file are holes; none if more than so many. A file system that does not tell has none.
fn holes(file: &File, length: u64, most: u64) -> Option<u64> {
    let (mut holes, mut place) = (0, 0);
    while place < length {
        let data = match rustix::fs::seek(file, SeekFrom::Data(place)) {
            Ok(data) => data,
            Err(Errno::NXIO) => length,
            Err(_) => break,
        };
        holes += data.saturating_sub(place);
        if holes > most {
            return None;
        }
        place = rustix::fs::seek(file, SeekFrom::Hole(data)).unwrap_or(length);
    }
    // It is read from its beginning.
    rustix::fs::seek(file, SeekFrom::Start(0)).ok()?;
    Some(holes)
}

fn header(kind: EntryType, size: u64, mode: u32, changed: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(changed);
    header
}

/// Sums what is read through it.
struct Summed<Inner> {
    inner: Inner,
    sum: Sha256,
}

impl<Inner> Summed<Inner> {
    fn new(inner: Inner) -> Self {
        Self { inner, sum: Sha256::new() }
    }
}

impl<Inner: Read> Read for Summed<Inner> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.sum.update(&buffer[..length]);
        Ok(length)
    }
}

/// Tells how much was read through it.
struct Counted<'a> {
    inner: File,
    done: u64,
    total: u64,
    progress: OnProgress<'a>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.done += length as u64;
        report(self.progress, self.done, self.total, Unit::Bytes)?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-109: however many files there are, and whatever their names, the manifest of a backup can be read.
    #[test]
    fn the_bound_of_a_manifest_grows_with_its_parts() {
        let names = ["plain.md", "\u{1}\u{1f}\u{7f}", "\"\\", "\u{fffd}ü", ""];
        let parts = names.iter().cycle().take(50_000).map(|name| Part {
            path: (*name).to_owned(),
            bytes: u64::MAX,
            sha256: "0".repeat(64),
        });
        let manifest = Manifest {
            format: FORMAT,
            created: String::new(),
            records: u64::MAX,
            parts: parts.collect(),
            left_out: Vec::new(),
        };

        let written = serde_json::to_vec_pretty(&manifest).unwrap().len() as u64;

        assert!(written + BESIDE_PARTS <= largest_manifest(&manifest.parts) + 1_000);
    }
}
