//! The quota of workspaces: how much a team may keep on the disk, and how much of the disk no team may take.

use std::{
    collections::{HashMap, HashSet},
    ffi::CStr,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hivewright_actors::{blocking, text::Size};
use parking_lot::Mutex;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::workspace::Workspace;
use crate::settings::config::Limits;

/// What an entry counts for at least: a million empty files are not nothing.
const ENTRY: u64 = 1024;
/// Deeper folders are not looked into, and not allowed: each level holds a descriptor.
const DEPTH: usize = 128;
/// What a command may add that finds its workspace full, so that it can make room.
const SLACK: u64 = 1 << 20;
/// How long a command runs before its workspace is first measured …
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(100);
/// How often the private files of a program that lives long are measured …
const SELDOM: Duration = Duration::from_secs(1);
/// … and measuring takes at most this part of the time.
const SHARE: u32 = 10;

/// Why nothing more may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error(
        "the workspace may hold {} (`limits.workspace`); remove what is not needed",
        Size(*.0)
    )]
    Quota(u64),
    #[error(
        "the workspace holds a folder that cannot be measured: it lies more than {DEPTH} folders deep or cannot be \
         read; remove it, or make it readable with `chmod`"
    )]
    Hidden,
    #[error("the disk is nearly full; remove what is not needed, or tell the operator")]
    Disk,
}

/// How much each workspace holds, and may hold.
#[derive(Debug)]
pub struct Quota {
    workspace: AtomicU64,
    free_space: AtomicU64,
    known: Mutex<HashMap<PathBuf, Measured>>,
}

/// What is known of a workspace.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// What it held, with what tools wrote to it since.
    used: Taken,
    at: Instant,
    /// How long it took to find out.
    took: Duration,
    /// A command has run since, and may have written anything.
    outdated: bool,
}

/// What a folder takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    bytes: u64,
    /// There is a folder in it into which nobody can look.
    hides: bool,
}

impl Taken {
    fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.hides |= other.hides;
    }
}

impl Quota {
    pub fn new(allowed: &Limits) -> Self {
        Self {
            workspace: AtomicU64::new(allowed.workspace.0),
            free_space: AtomicU64::new(allowed.free_space.0),
            known: Mutex::default(),
        }
    }

    /// Counts from the next look on.
    pub fn set(&self, allowed: &Limits) {
        self.workspace.store(allowed.workspace.0, Ordering::Relaxed);
        self.free_space.store(allowed.free_space.0, Ordering::Relaxed);
    }

    /// Bytes that a workspace may hold.
    fn workspace(&self) -> u64 {
        self.workspace.load(Ordering::Relaxed)
    }

    fn free_space(&self) -> u64 {
        self.free_space.load(Ordering::Relaxed)
    }

    /// Lets a tool write so many bytes, or says why not. Blocks.
    pub fn admit(&self, workspace: &Workspace, path: &str, bytes: u64) -> Result<(), Excess> {
        let (most, reserve) = (self.workspace(), self.free_space());
        if free(workspace.path()).is_ok_and(|free| free < reserve + bytes) {
            return Err(Excess::Disk);
        }
        if !workspace.is_own(path) {
            return Ok(());
        }
        let fits = |used: Taken| match used {
            Taken { hides: true, .. } => Err(Excess::Hidden),
            Taken { bytes: used, .. } if used + bytes > most => Err(Excess::Quota(most)),
            _ => Ok(()),
        };
        // What was replaced or removed is not known, so a full one is measured again.
        fits(self.used(workspace)).or_else(|_| fits(self.measure(workspace)))?;
        if let Some(measured) = self.known.lock().get_mut(workspace.path()) {
            measured.used.bytes += bytes;
        }
        Ok(())
    }

    /// What a workspace holds, as far as that can be known without measuring it all the time. Blocks.
    fn used(&self, workspace: &Workspace) -> Taken {
        let known = self.known.lock().get(workspace.path()).copied();
        match known {
            Some(known) if !known.outdated || known.at.elapsed() < known.took * SHARE => known.used,
            _ => self.measure(workspace),
        }
    }

    /// Blocks.
    fn measure(&self, workspace: &Workspace) -> Taken {
        let at = Instant::now();
        let used = workspace.roots().next().map_or(Taken::default(), |(_, root, _)| used(root));
        let measured = Measured { used, at, took: at.elapsed(), outdated: false };
        self.known.lock().insert(workspace.path().to_owned(), measured);
        used
    }
}

/// Watches what one command writes, from its start to its end.
#[derive(Debug)]
pub(super) struct Watch {
    quota: Arc<Quota>,
    workspace: Arc<Workspace>,
    before: Taken,
    /// What was free on the disk then.
    free_before: u64,
    /// The private files of the call.
    scratch: PathBuf,
}

impl Watch {
    /// Begins with what the workspace holds now. Blocks.
    pub(super) fn new(quota: &Arc<Quota>, workspace: &Arc<Workspace>, scratch: &Path) -> Self {
        Self {
            before: quota.used(workspace),
            free_before: free(workspace.path()).unwrap_or(u64::MAX),
            quota: Arc::clone(quota),
            workspace: Arc::clone(workspace),
            scratch: scratch.to_owned(),
        }
    }

    /// The largest file that the command may make.
    pub(super) fn largest_file(&self) -> u64 {
        self.quota.workspace().saturating_sub(self.before.bytes).max(SLACK)
    }

    /// Whether the command has written too much so far, and when to look again. Blocks.
    pub(super) fn look(&self) -> (Option<Excess>, Duration) {
        let began = Instant::now();
        let mut used = self.quota.measure(&self.workspace);
        used.add(taken_by(&self.scratch));
        let free = free(self.workspace.path()).unwrap_or(u64::MAX);
        (self.excess(used, free), FIRST_LOOK.max(began.elapsed() * SHARE))
    }

    /// What speaks against going on, with so much in the workspace and so much free on the disk.
    fn excess(&self, used: Taken, free: u64) -> Option<Excess> {
        let most = self.quota.workspace();
        let wrote = used.bytes > self.before.bytes + SLACK;
        // The disk also tells of what nobody can look into; but others write too.
        let takes = free.saturating_add(SLACK) < self.free_before;
        if used.bytes > most.max(self.before.bytes + SLACK) {
            Some(Excess::Quota(most))
        } else if used.hides && (takes || !self.before.hides) {
            Some(Excess::Hidden)
        } else if wrote && free < self.quota.free_space() {
            Some(Excess::Disk)
        } else {
            None
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(measured) = self.quota.known.lock().get_mut(self.workspace.path()) {
            measured.outdated = true;
        }
    }
}

/// Ends when a folder takes more than so many bytes of the disk.
pub(super) async fn grows_beyond(folder: &Path, most: u64) {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        let folder = folder.to_owned();
        let look = blocking::run(move || {
            let began = Instant::now();
            let taken = taken_by(&folder);
            (taken.hides || taken.bytes > most, began.elapsed())
        });
        // A look that failed is made again.
        match look.await {
            Ok((true, _)) => return,
            Ok((false, took)) => pause = SELDOM.max(took * SHARE),
            Err(_) => {}
        }
    }
}

/// Bytes that are free where a path lies.
pub fn free(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn open(path: &Path) -> Option<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

/// What a folder takes that may not be there.
fn taken_by(folder: &Path) -> Taken {
    open(folder).map_or(Taken::default(), |folder| used(folder.as_fd()))
}

/// What a folder takes on the disk with all below it. A file with several names counts once.
fn used(folder: BorrowedFd<'_>) -> Taken {
    let mut seen = HashSet::new();
    below(folder, DEPTH, &mut seen).unwrap_or(Taken { bytes: 0, hides: true })
}

fn below(
    folder: BorrowedFd<'_>,
    depth: usize,
    seen: &mut HashSet<(u64, u64)>,
) -> rustix::io::Result<Taken> {
    let mut taken = Taken::default();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match one(folder, name, depth, seen) {
            Ok(more) => taken.add(more),
            // It has vanished, or something else stands there by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => taken.hides = true,
        }
    }
    Ok(taken)
}

/// What stands under a name, with all below it.
fn one(
    folder: BorrowedFd<'_>,
    name: &CStr,
    depth: usize,
    seen: &mut HashSet<(u64, u64)>,
) -> rustix::io::Result<Taken> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if stat.st_nlink > 1 && !is_folder && !seen.insert((stat.st_dev, stat.st_ino)) {
        return Ok(Taken::default());
    }
    let bytes = (u64::try_from(stat.st_blocks).unwrap_or_default() * 512).max(ENTRY);
    let mut taken = Taken { bytes, hides: is_folder && depth == 0 };
    if is_folder && depth > 0 {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entered = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        taken.add(below(entered.as_fd(), depth - 1, seen)?);
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn workspace(folder: &Path) -> Workspace {
        Workspace::open(folder, &[]).unwrap()
    }

    fn limits(workspace: u64, free_space: u64) -> Limits {
        let (workspace, free_space) = (Size(workspace), Size(free_space));
        Limits { workspace, free_space, ..Limits::default() }
    }

    fn of(workspace: u64) -> Quota {
        Quota::new(&limits(workspace, 0))
    }

    /// SC-115
    #[test]
    fn what_does_not_fit_is_refused_until_something_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, quota) = (workspace(folder.path()), of(2 * MIB));
        fs::write(folder.path().join("large"), vec![1; 3 << 19]).unwrap();

        let small = quota.admit(&workspace, "a", MIB / 4);
        let large = quota.admit(&workspace, "b", MIB);
        fs::remove_file(folder.path().join("large")).unwrap();
        let again = quota.admit(&workspace, "b", MIB);

        assert_eq!([small, large, again], [Ok(()), Err(Excess::Quota(2 * MIB)), Ok(())]);
    }

    /// SC-115: also where the quota would allow it.
    #[test]
    fn no_tool_takes_the_last_of_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let quota = Quota::new(&limits(u64::MAX / 2, u64::MAX / 2));

        let refused = quota.admit(&workspace(folder.path()), "a", 1);

        assert_eq!(refused, Err(Excess::Disk));
    }

    /// SC-115: names of one file, holes, and what lies elsewhere are no reason to refuse.
    #[test]
    fn only_what_is_on_the_disk_counts_and_once() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| folder.path().join(name);
        fs::write(path("one"), vec![1; MIB as usize]).unwrap();
        fs::hard_link(path("one"), path("other")).unwrap();
        fs::File::create(path("sparse")).unwrap().set_len(1 << 30).unwrap();
        fs::write(elsewhere.path().join("far"), vec![1; 8 << 20]).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/two"), vec![1; MIB as usize]).unwrap();

        let used = of(0).measure(&workspace(folder.path()));

        assert!((2 * MIB..3 * MIB).contains(&used.bytes) && !used.hides, "{used:?}");
    }

    /// SC-115: whoever is over the quota must be able to make room.
    #[test]
    fn a_command_in_a_full_workspace_is_ended_only_if_it_adds_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, quota) = (Arc::new(workspace(folder.path())), Arc::new(of(MIB)));
        fs::write(folder.path().join("old"), vec![1; 2 << 20]).unwrap();
        let watch = Watch::new(&quota, &workspace, &folder.path().join("none"));

        let (idle, _) = watch.look();
        fs::write(folder.path().join("new"), vec![1; 2 << 20]).unwrap();
        let (adding, _) = watch.look();

        assert_eq!((idle, adding), (None, Some(Excess::Quota(MIB))));
    }

    /// SC-115: what cannot be measured is not allowed, and whoever has it must be able to remove it.
    #[test]
    fn a_folder_into_which_nobody_can_look_is_over_the_quota() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, quota) = (Arc::new(workspace(folder.path())), Arc::new(of(64 * MIB)));
        let before = Watch::new(&quota, &workspace, &folder.path().join("none"));
        let fine: PathBuf = std::iter::repeat_n("d", DEPTH).collect();
        fs::create_dir_all(folder.path().join(&fine)).unwrap();
        let (deep, _) = before.look();
        fs::create_dir(folder.path().join(fine).join("d")).unwrap();
        let (deeper, _) = before.look();
        let refused = quota.admit(&workspace, "a", 1);
        let mut removing = Watch::new(&quota, &workspace, folder.path());
        removing.free_before = 9 * MIB;
        let [removes, adds] =
            [9 * MIB, 7 * MIB].map(|free| removing.excess(quota.measure(&workspace), free));
        fs::remove_dir_all(folder.path().join("d")).unwrap();

        assert_eq!([deep, deeper], [None, Some(Excess::Hidden)]);
        assert_eq!([removes, adds], [None, Some(Excess::Hidden)]);
        assert_eq!([refused, quota.admit(&workspace, "a", 1)], [Err(Excess::Hidden), Ok(())]);
        if rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: nothing is hidden from root");
            return;
        }
        let locked = folder.path().join("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(before.look().0, Some(Excess::Hidden));
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
