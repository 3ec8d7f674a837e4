//! Reads the rule files of a folder, and keeps them until they change.

use std::{
    collections::HashMap,
    fmt::Display,
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use dashmap::DashMap;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

use super::rules::{Rule, Tier};
use crate::settings::file_cache::Stamp;

/// The largest file, in bytes.
pub(super) const MAX_FILE: u64 = 64 * 1024;
/// The largest sum of a tier, in bytes.
pub(super) const MAX_TIER: u64 = 256 * 1024;
/// The most files of a tier.
pub(super) const MAX_FILES: usize = 256;

/// What symbolic links mean in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// The operator put them there: they are followed.
    Followed,
    /// A team could have put them there, to have us read what it cannot: they are left out.
    Refused,
}

impl Links {
    fn open_flags(self) -> OFlags {
        match self {
            Self::Followed => OFlags::empty(),
            Self::Refused => OFlags::NOFOLLOW,
        }
    }

    fn look_flags(self) -> AtFlags {
        match self {
            Self::Followed => AtFlags::empty(),
            Self::Refused => AtFlags::SYMLINK_NOFOLLOW,
        }
    }
}

/// Files as they were when they were read, by name.
type Kept = HashMap<String, (Stamp, Result<Arc<Rule>, String>)>;

/// Rule files that were read, by folder. All calls may block.
#[derive(Debug, Default)]
pub(super) struct RuleFiles(DashMap<PathBuf, Arc<Kept>>);

impl RuleFiles {
    /// The rules in the folder `name` of `parent`. A missing folder is empty.
    pub(super) fn tier(&self, parent: &Path, name: &str, links: Links) -> Tier {
        let path = parent.join(name);
        let before = self.0.get(&path).map(|kept| kept.clone());
        match Folder::open(parent, name, links) {
            Ok((folder, names)) => {
                let (tier, kept) = folder.read(names, &before.unwrap_or_default());
                // Replaced as a whole, so that files which are gone don't fill the memory.
                self.0.insert(path, Arc::new(kept));
                tier
            }
            Err(Errno::NOENT) => Tier::default(),
            Err(error) => Tier {
                warnings: vec![format!("{}: cannot be read: {error}", path.display())],
                ..Tier::default()
            },
        }
    }
}

/// An open folder.
struct Folder {
    handle: OwnedFd,
    path: PathBuf,
    links: Links,
}

impl Folder {
    /// Opens a folder and names the `*.md` files in it.
    fn open(parent: &Path, name: &str, links: Links) -> Result<(Self, Vec<String>), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = openat(CWD, parent, flags, Mode::empty())?;
        let handle = openat(&above, name, flags | links.open_flags(), Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&handle)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name.ends_with(".md")
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        let path = parent.join(name);
        let folder = Self {
            handle,
            path,
            links,
        };
        Ok((folder, names))
    }

    /// Reads the files as far as they changed.
    fn read(&self, mut names: Vec<String>, before: &Kept) -> (Tier, Kept) {
        let (mut tier, mut kept) = (Tier::default(), Kept::new());
        if names.len() > MAX_FILES {
            let (path, more) = (self.path.display(), names.len() - MAX_FILES);
            let warning =
                format!("{path}: has {more} files more than {MAX_FILES}; they are left out");
            tier.warnings.push(warning);
            names.truncate(MAX_FILES);
        }
        let mut total = 0;
        for name in names {
            let Some(found) = self.look(&name, &mut tier) else {
                continue;
            };
            if total + size(&found) > MAX_TIER {
                let reason = "the rules of this level are larger than 256 KiB";
                tier.warnings.push(self.left_out(&name, &reason));
                continue;
            }
            let (stamp, rule) = match before.get(&name) {
                Some((known, rule)) if *known == stamp(&found) => (*known, rule.clone()),
                _ => match self.read_file(&name) {
                    Ok((stamp, source)) => {
                        let file = self.path.join(&name).display().to_string();
                        (stamp, Rule::parse(&file, &source).map(Arc::new))
                    }
                    Err(error) => {
                        tier.warnings.push(self.left_out(&name, &error));
                        continue;
                    }
                },
            };
            match &rule {
                Ok(rule) => {
                    total += size(&found);
                    tier.rules.push(rule.clone());
                }
                Err(warning) => tier.warnings.push(warning.clone()),
            }
            if stamp.is_settled() {
                kept.insert(name, (stamp, rule));
            }
        }
        (tier, kept)
    }

    /// What the name stands for, if it can be a rule.
    fn look(&self, name: &str, tier: &mut Tier) -> Option<Stat> {
        let reason = match statat(&self.handle, name, self.links.look_flags()) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => return Some(found),
                FileType::Directory => return None,
                FileType::Symlink => "is a symbolic link".to_owned(),
                _ => "is not a regular file".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        tier.warnings.push(self.left_out(name, &reason));
        None
    }

    /// Reads a file whole, with the stamp of what was opened.
    fn read_file(&self, name: &str) -> io::Result<(Stamp, String)> {
        // Whatever the file has become since it was looked at, opening it must not wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | self.links.open_flags();
        let file = openat(&self.handle, name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::from(file)
            .take(MAX_FILE + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(io::Error::other("is larger than 64 KiB"));
        }
        let source = String::from_utf8(bytes).map_err(|_| io::Error::other("is not UTF-8"))?;
        Ok((stamp(&found), source))
    }

    fn left_out(&self, name: &str, reason: &dyn Display) -> String {
        format!("{}: {reason}; left out", self.path.join(name).display())
    }
}

fn stamp(found: &Stat) -> Stamp {
    let modified = (found.st_mtime, found.st_mtime_nsec as i64);
    Stamp::new(modified, size(found), found.st_ino)
}

fn size(found: &Stat) -> u64 {
    found.st_size.unsigned_abs()
}
