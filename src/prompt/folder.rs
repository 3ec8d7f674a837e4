//! Reads the Markdown files of a folder, and keeps what was made of them until they change.

use std::{
    collections::HashMap,
    fmt::Display,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use dashmap::DashMap;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};

use crate::{
    settings::{
        file_cache::Stamp,
        problem::{Problem, Problems},
    },
    taint::{Taint, seen::Seen},
};

/// What the files of a folder are read as.
pub(super) trait Text: Clone + Eq {
    /// How much of a folder is read.
    const LIMITS: Limits;
    /// What one of them is called.
    const NOUN: &'static str;
    /// Folders count as well, each by the file of this name in it.
    const INSIDE: Option<&'static str> = None;

    fn parse(place: &Place<'_>, source: &str) -> Result<Self, Problems>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The largest file, in bytes.
    pub(super) file: u64,
    /// The largest sum, in bytes.
    pub(super) total: u64,
    pub(super) files: usize,
    /// All of them together, in words.
    pub(super) all: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The name in its folder: `name.md`, or `name/SKILL.md`.
    pub(super) name: &'a str,
    /// The whole path, for people.
    pub(super) file: &'a str,
}

impl Place<'_> {
    /// Something that is wrong with the file, in a part of it that has no line.
    pub(super) fn problem(&self, part: &str, reason: impl Into<String>) -> Problems {
        let problem = Problem::of_file(Path::new(self.file), reason);
        Problem { path: part.to_owned(), ..problem }.into()
    }
}

/// What is told of a file that cannot be used.
pub(super) fn warning<T: Text>(problems: &Problems) -> String {
    format!("{problems}; the {} is left out", T::NOUN)
}

/// What a folder holds, sorted by file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found<T> {
    pub(super) texts: Vec<Arc<T>>,
    /// Files that were left out, and why.
    pub(super) warnings: Vec<String>,
    /// Files that somebody may have changed who may not, and why.
    pub(super) suspects: Vec<String>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self { texts: Vec::new(), warnings: Vec::new(), suspects: Vec::new() }
    }
}

/// What symbolic links mean in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// The operator put them there: they are followed.
    Followed,
    /// A team could have put them there, to have us read what it cannot: they are left out.
    Refused,
}

impl Links {
    /// For opening, and for looking.
    fn flags(self) -> (OFlags, AtFlags) {
        match self {
            Self::Followed => (OFlags::empty(), AtFlags::empty()),
            Self::Refused => (OFlags::NOFOLLOW, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn stamp(self, path: &Path) -> Result<Stamp, Errno> {
        statat(CWD, path, self.flags().1).map(|seen| stamp(&seen))
    }
}

/// Files as they were when they were read, by name.
type Texts<T> = HashMap<String, (Stamp, Result<Arc<T>, String>)>;

/// What was read of a folder.
#[derive(Debug)]
struct Kept<T> {
    texts: Texts<T>,
    /// Missing if something in the folder is too young to show every change.
    whole: Option<Whole<T>>,
}

/// A folder as a whole, good until it or a file in it looks different.
#[derive(Debug)]
struct Whole<T> {
    folder: Stamp,
    /// Of the labels of files.
    version: u64,
    /// What its files looked like; none could not be seen.
    files: Vec<(PathBuf, Option<Stamp>)>,
    found: Found<T>,
}

impl<T> Whole<T> {
    fn is_current(&self, folder: Stamp, version: u64, links: Links) -> bool {
        let mut files = self.files.iter();
        self.folder == folder
            && self.version == version
            && files.all(|(file, seen)| links.stamp(file).ok() == *seen)
    }
}

/// What was read, by folder. All calls may block.
#[derive(Debug)]
pub(super) struct Files<T> {
    kept: DashMap<PathBuf, Arc<Kept<T>>>,
    taint: Taint,
}

impl<T> Files<T> {
    /// Leaves out what untrusted turns wrote.
    pub(super) fn new(taint: Taint) -> Self {
        Self { kept: DashMap::new(), taint }
    }

    /// Forgets what was read below a folder.
    pub(super) fn forget(&self, folder: &Path) {
        self.kept.retain(|path, _| !path.starts_with(folder));
    }
}

impl<T: Text> Files<T> {
    /// The texts in the folder `name` of `parent`. A missing folder is empty.
    ///
    /// One look at the folder and one at each file tell whether something changed: it is opened and
    /// listed only then.
    pub(super) fn read(&self, parent: &Path, name: &str, links: Links) -> Found<T> {
        let path = parent.join(name);
        let seen = links.stamp(&path);
        let version = self.taint.version();
        let before = self.kept.get(&path).map(|kept| kept.clone());
        let whole = before.as_ref().and_then(|kept| kept.whole.as_ref());
        if let (Some(whole), Ok(seen)) = (whole, seen)
            && whole.is_current(seen, version, links)
        {
            return whole.found.clone();
        }
        let opened = seen.and_then(|seen| {
            let folder = Folder::open(parent, name, links, &self.taint)?;
            let names = folder.names(T::INSIDE)?;
            Ok((seen, folder, names))
        });
        match opened {
            Ok((seen, folder, names)) => {
                // Looked at before they are read: what changes meanwhile looks different later.
                let files = names.iter().map(|name| {
                    let file = path.join(name);
                    let seen = links.stamp(&file).ok();
                    (file, seen)
                });
                let files: Vec<_> = files.collect();
                let stamps = files.iter().filter_map(|(_, seen)| *seen);
                let is_settled = stamps.chain([seen]).all(Stamp::is_settled);
                let known = before.as_ref().map(|kept| &kept.texts);
                let (found, texts) = folder.read(names, known.unwrap_or(&Texts::new()));
                let whole = is_settled.then(|| Whole {
                    folder: seen,
                    version,
                    files,
                    found: found.clone(),
                });
                // Replaced as a whole, so that files which are gone don't fill the memory.
                self.kept.insert(path, Arc::new(Kept { texts, whole }));
                found
            }
            Err(Errno::NOENT) => Found::default(),
            Err(error) => Found {
                warnings: vec![format!("{}: cannot be read: {error}", path.display())],
                ..Found::default()
            },
        }
    }
}

/// The text of one file in the folder `name` of `parent`, as it is now.
pub(super) fn source<T: Text>(
    parent: &Path,
    name: &str,
    links: Links,
    file: &str,
    taint: &Taint,
) -> io::Result<String> {
    let folder = Folder::open(parent, name, links, taint)?;
    let (_, source) = folder.read_file(file, T::LIMITS.file)?;
    Ok(source)
}

pub(super) struct Folder<'a> {
    pub(super) handle: OwnedFd,
    path: PathBuf,
    links: Links,
    taint: &'a Taint,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl<'a> Folder<'a> {
    pub(super) fn open(
        parent: &Path,
        name: &str,
        links: Links,
        taint: &'a Taint,
    ) -> Result<Self, Errno> {
        let above = openat(CWD, parent, FOLDER, Mode::empty())?;
        Ok(Self {
            handle: openat(&above, name, FOLDER | links.flags().0, Mode::empty())?,
            path: parent.join(name),
            links,
            taint,
        })
    }

    /// The `*.md` files in it, and the folders that may hold a file `inside`.
    pub(super) fn names(&self, inside: Option<&str>) -> Result<Vec<String>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name.ends_with(".md") {
                names.push(name.to_owned());
            } else if let Some(inside) = inside
                && entry.file_type() != FileType::RegularFile
                && !name.starts_with('.')
            {
                names.push(format!("{name}/{inside}"));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads the files as far as they changed.
    fn read<T: Text>(&self, mut names: Vec<String>, before: &Texts<T>) -> (Found<T>, Texts<T>) {
        let limits = T::LIMITS;
        let (mut found, mut kept) = (Found::default(), Texts::new());
        if names.len() > limits.files {
            let (path, most) = (self.path.display(), limits.files);
            let more = names.len() - most;
            let warning = format!("{path}: has {more} files more than {most}; they are left out");
            found.warnings.push(warning);
            names.truncate(most);
        }
        let mut total = 0;
        for name in names {
            let seen = match self.look(&name) {
                Ok(Some(seen)) => seen,
                Ok(None) => continue,
                Err(reason) => {
                    found.warnings.push(self.left_out(&name, &reason));
                    continue;
                }
            };
            if let Some(reason) = self.suspicion(&name, &seen) {
                found.suspects.push(self.left_out(&name, &reason));
                continue;
            }
            if total + size(&seen) > limits.total {
                let reason = format!("{} are larger than {}", limits.all, kib(limits.total));
                found.warnings.push(self.left_out(&name, &reason));
                continue;
            }
            let (stamp, text) = match before.get(&name) {
                Some((known, text)) if *known == stamp(&seen) => (*known, text.clone()),
                _ => match self.read_file(&name, limits.file) {
                    Ok((stamp, source)) => {
                        let file = self.path.join(&name).display().to_string();
                        let place = Place { name: &name, file: &file };
                        let read = T::parse(&place, &source).map(Arc::new);
                        (stamp, read.map_err(|problems| warning::<T>(&problems)))
                    }
                    Err(error) => {
                        found.warnings.push(self.left_out(&name, &error));
                        continue;
                    }
                },
            };
            match &text {
                Ok(text) => {
                    total += size(&seen);
                    found.texts.push(text.clone());
                }
                Err(warning) => found.warnings.push(warning.clone()),
            }
            if stamp.is_settled() {
                kept.insert(name, (stamp, text));
            }
        }
        (found, kept)
    }

    /// What the name stands for, if it can be a text; or why it cannot.
    fn look(&self, name: &str) -> Result<Option<Stat>, String> {
        let Some((folder, file)) = name.split_once('/') else {
            return self.look_at(&self.handle, name);
        };
        let seen = self.stat(&self.handle, folder)?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::Directory => {}
            FileType::Symlink => return Err("is in a symbolic link".to_owned()),
            _ => return Ok(None),
        }
        let folder = self.inner(folder).map_err(|error| error.to_string())?;
        self.look_at(&folder, file)
    }

    fn look_at(&self, folder: impl AsFd, name: &str) -> Result<Option<Stat>, String> {
        let seen = self.stat(folder, name)?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => Ok(Some(seen)),
            FileType::Directory => Ok(None),
            FileType::Symlink => Err("is a symbolic link".to_owned()),
            _ => Err("is not a regular file".to_owned()),
        }
    }

    fn stat(&self, folder: impl AsFd, name: &str) -> Result<Stat, String> {
        statat(folder, name, self.links.flags().1).map_err(|error| error.to_string())
    }

    /// Why somebody may have changed a file who may not.
    fn suspicion(&self, name: &str, seen: &Stat) -> Option<&'static str> {
        if self.links == Links::Followed {
            return None;
        }
        if seen.st_nlink > 1 {
            return Some("has more than one hard link; copy it, and put the copy in its place");
        }
        if self.taint.is_quiet() {
            return None;
        }
        let folder = self.path.canonicalize().ok()?;
        let seen = Seen::path(&folder.join(name)).ok()?;
        let is_labelled = self.taint.holds(&folder.join(name), &seen);
        is_labelled
            .then_some("was written or changed by an untrusted turn; accept it, or write it anew")
    }

    fn inner(&self, name: &str) -> Result<OwnedFd, Errno> {
        openat(&self.handle, name, FOLDER | self.links.flags().0, Mode::empty())
    }

    /// Reads a file whole, with the stamp of what was opened.
    pub(super) fn read_file(&self, name: &str, largest: u64) -> io::Result<(Stamp, String)> {
        // Whatever the file has become since it was looked at, opening it must not wait.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | self.links.flags().0;
        let file = match name.split_once('/') {
            Some((folder, file)) => openat(self.inner(folder)?, file, flags, Mode::empty())?,
            None => openat(&self.handle, name, flags, Mode::empty())?,
        };
        let seen = fstat(&file)?;
        if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("is not a regular file"));
        }
        if let Some(reason) = self.suspicion(name, &seen) {
            return Err(io::Error::other(reason));
        }
        let mut bytes = Vec::new();
        File::from(file).take(largest + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > largest {
            let reason = format!("is larger than {}", kib(largest));
            return Err(io::Error::other(reason));
        }
        let source = String::from_utf8(bytes).map_err(|_| io::Error::other("is not UTF-8"))?;
        Ok((stamp(&seen), source))
    }

    fn left_out(&self, name: &str, reason: &dyn Display) -> String {
        format!("{}: {reason}; left out", self.path.join(name).display())
    }
}

fn stamp(seen: &Stat) -> Stamp {
    let modified = (seen.st_mtime, seen.st_mtime_nsec as i64);
    Stamp::new(modified, size(seen), seen.st_ino, seen.st_nlink)
}

fn size(seen: &Stat) -> u64 {
    seen.st_size.unsigned_abs()
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes / 1024)
}

#[cfg(test)]
mod tests {

    use std::{
        fs,
        time::{Duration, SystemTime},
    };

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Words(String);

    impl Text for Words {
        const LIMITS: Limits = Limits { file: 100, total: 1_000, files: 10, all: "the texts" };
        const NOUN: &'static str = "text";
        const INSIDE: Option<&'static str> = Some("TEXT.md");

        fn parse(_: &Place<'_>, source: &str) -> Result<Self, Problems> {
            Ok(Self(source.to_owned()))
        }
    }

    fn age(path: &Path, minutes: u64) {
        let file = File::open(path).unwrap();
        let then = SystemTime::now() - Duration::from_secs(60 * minutes);
        file.set_modified(then).unwrap();
    }

    /// SE-35: what is not opened again is still what the files say.
    #[test]
    fn every_change_in_a_folder_is_seen() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("texts");
        let files = Files::<Words>::new(Taint::default());
        let read = || {
            let found = files.read(home.path(), "texts", Links::Refused);
            let words = found.texts.iter().map(|text| text.0.clone());
            words.chain(found.warnings).collect::<Vec<_>>()
        };
        let is_whole = || files.kept.get(&folder).is_some_and(|kept| kept.whole.is_some());

        assert!(read().is_empty());
        fs::create_dir_all(folder.join("deep")).unwrap();
        fs::write(folder.join("a.md"), "one").unwrap();
        age(&folder.join("a.md"), 9);
        age(&folder, 9);
        assert_eq!(read()[0], "one");
        assert!(is_whole());
        assert_eq!(read()[0], "one");

        // A file changes, and the folder looks the same.
        fs::write(folder.join("a.md"), "two").unwrap();
        assert_eq!(read()[0], "two");
        age(&folder.join("a.md"), 8);
        assert_eq!(read().len(), 2, "the folder inside has no text");

        // A file comes into a folder inside, which the outer one does not show.
        fs::write(folder.join("deep/TEXT.md"), "three").unwrap();
        age(&folder.join("deep/TEXT.md"), 8);
        assert_eq!(read(), ["two", "three"]);
        assert!(is_whole());

        fs::remove_file(folder.join("a.md")).unwrap();
        assert_eq!(read(), ["three"]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(read().is_empty());
    }
}
