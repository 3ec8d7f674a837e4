//! What was read from files, kept until one of them changes.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use dashmap::DashMap;

/// File systems count time in steps: a file changed this recently may change again and look the
/// same.
const SETTLES_AFTER: Duration = Duration::from_secs(2);

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    modified: (i64, i64),
    size: u64,
    inode: u64,
    links: u64,
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self::new((found.mtime(), found.mtime_nsec()), found.size(), found.ino(), found.nlink())
    }

    /// Of a file's time in seconds and nanoseconds, its size, its inode and how many names it has.
    pub(crate) fn new(modified: (i64, i64), size: u64, inode: u64, links: u64) -> Self {
        Self { modified, size, inode, links }
    }

    /// The file at this path; none if it cannot be seen.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::of(&found))
    }

    /// Any later change shows.
    pub(crate) fn is_settled(self) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let modified = Duration::from_secs(u64::try_from(self.modified.0).unwrap_or_default());
        modified + SETTLES_AFTER < now
    }
}

/// A value with the files it was made from.
#[derive(Debug)]
struct Kept<T> {
    value: T,
    version: u64,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
}

impl<T> Kept<T> {
    fn is_current(&self) -> bool {
        self.stamps.iter().all(|(path, stamp)| Stamp::at(path) == *stamp)
    }
}

/// What was read, by path. All calls read files and may block.
#[derive(Debug)]
pub(crate) struct FileCache<T>(DashMap<PathBuf, Arc<Kept<T>>>);

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self(DashMap::new())
    }
}

impl<T: Clone> FileCache<T> {
    /// What the file holds now. `load` also names further files that the value was made from; `version`
    /// is that of whatever else it was made from.
    pub(crate) fn get(
        &self,
        path: &Path,
        version: u64,
        load: impl FnOnce() -> (T, Vec<PathBuf>),
    ) -> T {
        let kept = self.0.get(path).map(|kept| kept.clone());
        if let Some(kept) = kept
            && kept.version == version
            && kept.is_current()
        {
            return kept.value.clone();
        }
        let stamp = Stamp::at(path);
        let (value, others) = load();
        let mut stamps = vec![(path.to_owned(), stamp)];
        stamps.extend(others.into_iter().map(|other| {
            let stamp = Stamp::at(&other);
            (other, stamp)
        }));
        if stamps.iter().all(|(_, stamp)| stamp.is_none_or(Stamp::is_settled)) {
            let value = value.clone();
            let kept = Arc::new(Kept { value, version, stamps });
            self.0.insert(path.to_owned(), kept);
        } else {
            self.0.remove(path);
        }
        value
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn age(path: &Path, by: Duration) {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    }

    fn read(cache: &FileCache<String>, path: &Path, loads: &mut usize) -> String {
        cache.get(path, 0, || {
            *loads += 1;
            (fs::read_to_string(path).unwrap_or_default(), Vec::new())
        })
    }

    #[test]
    fn an_unchanged_file_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cache, mut loads) = (folder.path().join("a"), FileCache::default(), 0);
        fs::write(&path, "one").unwrap();
        age(&path, Duration::from_secs(60));

        let first = read(&cache, &path, &mut loads);
        let second = read(&cache, &path, &mut loads);

        assert_eq!((first.as_str(), second.as_str(), loads), ("one", "one", 1));
    }

    #[test]
    fn a_file_that_changed_just_now_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cache, mut loads) = (folder.path().join("a"), FileCache::default(), 0);
        fs::write(&path, "one").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();

        let first = read(&cache, &path, &mut loads);
        fs::write(&path, "two").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
        let second = read(&cache, &path, &mut loads);

        assert_eq!((first.as_str(), second.as_str(), loads), ("one", "two", 2));
    }

    #[test]
    fn a_change_a_removal_and_a_return_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cache, mut loads) = (folder.path().join("a"), FileCache::default(), 0);
        let mut seen = vec![read(&cache, &path, &mut loads)];

        for (text, minutes) in [("one", 9), ("two", 8)] {
            fs::write(&path, text).unwrap();
            age(&path, Duration::from_secs(60 * minutes));
            seen.push(read(&cache, &path, &mut loads));
        }
        fs::remove_file(&path).unwrap();
        seen.push(read(&cache, &path, &mut loads));

        assert_eq!(seen, ["", "one", "two", ""]);
    }

    #[test]
    fn another_version_of_what_it_was_made_from_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (path, cache) = (folder.path().join("a"), FileCache::default());
        fs::write(&path, "").unwrap();
        age(&path, Duration::from_secs(600));
        let read = |version| cache.get(&path, version, || (version, Vec::new()));

        assert_eq!([read(1), read(1), read(2)], [1, 1, 2]);
    }

    #[test]
    fn a_change_of_another_file_it_was_made_from_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let cache = FileCache::default();
        let read = || {
            let load = || (fs::read_to_string(&other).unwrap(), vec![other.clone()]);
            cache.get(&path, 0, load)
        };
        fs::write(&path, "").unwrap();
        fs::write(&other, "one").unwrap();
        age(&path, Duration::from_secs(600));
        age(&other, Duration::from_secs(600));

        let first = read();
        fs::write(&other, "two").unwrap();

        assert_eq!((first.as_str(), read().as_str()), ("one", "two"));
    }
}
