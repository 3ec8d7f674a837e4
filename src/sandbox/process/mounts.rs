//! The file tree of a sandbox: system programs, the team's folders, and nothing else.

use std::{
    fs::{self, DirBuilder, File},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{DirBuilderExt, symlink},
    },
    path::{Path, PathBuf},
};

use hivewright_actors::policy::caution::SELF_FOLDERS;
use rustix::{
    fs::{Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags, UnmountFlags},
    thread::UnshareFlags,
};

use super::{
    confine::{self, DEVICES, SYSTEM},
    layers::{Layer, Missing},
    layout::{FILES, FILES_FOLDER, HOME},
    plan::Plan,
    sys,
};
use crate::sandbox::workspace::governance::{GOVERNED_DIR, GOVERNED_FILE};

const LAYER: Layer = Layer::Namespaces;

const DEVICE: u64 = sys::NOSUID;
const WRITABLE: u64 = DEVICE | sys::NODEV;
const READ_ONLY: u64 = WRITABLE | sys::RDONLY;

/// Builds the tree and makes it this process's root.
pub(super) fn enter(plan: &Plan) -> Result<(), Missing> {
    sys::unshare(UnshareFlags::NEWNS).map_err(Missing::of(LAYER, "unshare mounts"))?;
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(Missing::of(LAYER, "private mounts"))?;
    let tree = Tree { root: plan.scratch.join("root") };
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("tmpfs", &tree.root, "tmpfs", flags, c"size=1m,mode=755")
        .map_err(Missing::of(LAYER, "root"))?;
    for path in SYSTEM {
        tree.show(Path::new(path))?;
    }
    tree.devices()?;
    tree.processes(plan)?;
    tree.bind(&plan.scratch.join("tmp"), Path::new("/tmp"), WRITABLE)?;
    tree.bind(&plan.scratch.join("home"), Path::new(HOME), WRITABLE)?;
    if plan.is_agent() {
        tree.bind(&plan.scratch.join(FILES_FOLDER), Path::new(FILES), READ_ONLY)?;
    }
    for path in plan.shown() {
        tree.bind(path, path, READ_ONLY)?;
    }
    if plan.has_network() {
        tree.resolver()?;
    }
    tree.folders(plan)?;
    tree.become_root()
}

struct Tree {
    root: PathBuf,
}

impl Tree {
    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Shows a system path as it is outside, if it is there.
    fn show(&self, path: &Path) -> Result<(), Missing> {
        let Ok(kind) = fs::symlink_metadata(path) else { return Ok(()) };
        if !kind.is_symlink() {
            return self.bind(path, path, READ_ONLY);
        }
        let failed = Missing::of(LAYER, "link");
        let target = fs::read_link(path).map_err(&failed)?;
        make_parent(&self.inside(path))?;
        symlink(target, self.inside(path)).map_err(failed)
    }

    fn devices(&self) -> Result<(), Missing> {
        for (path, _) in DEVICES {
            let path = Path::new(path);
            if path.exists() {
                self.bind(path, path, DEVICE)?;
            }
        }
        let links = [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
        ];
        for (target, link) in links {
            symlink(target, self.inside(Path::new(link))).map_err(Missing::of(LAYER, "link"))?;
        }
        Ok(())
    }

    /// Where names are looked up. The file is a link to elsewhere on many machines.
    fn resolver(&self) -> Result<(), Missing> {
        let path = Path::new(confine::RESOLVER);
        match fs::canonicalize(path) {
            Ok(real) => self.bind(&real, path, READ_ONLY),
            Err(_) => Ok(()),
        }
    }

    fn processes(&self, plan: &Plan) -> Result<(), Missing> {
        let proc = self.inside(Path::new("/proc"));
        make_dir(&proc)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("proc", &proc, "proc", flags, None)
            .map_err(Missing::of(LAYER, "/proc"))?;
        confine::bound_process_numbers(&proc, plan.processes);
        Ok(())
    }

    fn folders(&self, plan: &Plan) -> Result<(), Missing> {
        for (position, folder) in plan.folders.iter().enumerate() {
            let keep_top = position == 0 && plan.keep_top;
            let limits = if folder.writable && !keep_top { WRITABLE } else { READ_ONLY };
            let handle = confine::open_folder(folder)?;
            self.bind_handle(&handle, &folder.path, limits)?;
            if keep_top {
                for (name, below) in confine::folders_below(&handle, &plan.kept)? {
                    self.bind_handle(&below, &folder.path.join(name), WRITABLE)?;
                }
            } else if position == 0 && plan.is_governed() {
                self.govern(&folder.path, &plan.kept)?;
                self.part(&folder.path, &plan.kept)?;
            }
        }
        Ok(())
    }

    fn govern(&self, workspace: &Path, kept: &[String]) -> Result<(), Missing> {
        let kept = kept.iter().map(String::as_str);
        for name in [GOVERNED_FILE, GOVERNED_DIR].into_iter().chain(kept) {
            let path = workspace.join(name);
            let kind =
                fs::symlink_metadata(&path).map_err(Missing::of(LAYER, "a governed path"))?;
            if kind.is_symlink() {
                return Err(Missing::new(LAYER, format!("`{name}` is a link")));
            }
            self.bind(&path, &path, READ_ONLY)?;
        }
        Ok(())
    }

    /// Makes each folder that tells the team what it is a mount of its own: no hard link leads out of it, so
    /// nothing that is written elsewhere changes it.
    fn part(&self, workspace: &Path, kept: &[String]) -> Result<(), Missing> {
        for name in SELF_FOLDERS {
            let path = workspace.join(name);
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|kind| kind.is_dir());
            if is_folder && !kept.iter().any(|kept| kept == name) {
                self.bind(&path, &path, WRITABLE)?;
            }
        }
        Ok(())
    }

    fn bind(&self, from: &Path, to: &Path, limits: u64) -> Result<(), Missing> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let handle = rustix::fs::open(from, flags, Mode::empty())
            .map_err(|errno| Missing::new(LAYER, format!("{}: {errno}", from.display())))?;
        self.bind_handle(&handle, to, limits)
    }

    fn bind_handle(&self, handle: &OwnedFd, to: &Path, limits: u64) -> Result<(), Missing> {
        let target = self.inside(to);
        let failed = |error: std::io::Error| {
            Missing::new(LAYER, format!("mounting {}: {error}", to.display()))
        };
        let from = format!("/proc/self/fd/{}", handle.as_raw_fd());
        if fs::metadata(&from).map_err(failed)?.is_dir() {
            make_dir(&target)?;
        } else {
            make_parent(&target)?;
            // An entry of a folder that is mounted already stands there and stays as it is.
            if !target.exists() {
                File::create(&target).map_err(failed)?;
            }
        }
        rustix::mount::mount_bind_recursive(&*from, &target)
            .map_err(|errno| failed(errno.into()))?;
        sys::limit_mount(&target, limits, true).map_err(failed)
    }

    fn become_root(&self) -> Result<(), Missing> {
        let failed = Missing::of(LAYER, "new root");
        rustix::process::chdir(&self.root).map_err(&failed)?;
        rustix::process::pivot_root(".", ".").map_err(&failed)?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(&failed)?;
        rustix::process::chdir("/").map_err(&failed)?;
        sys::limit_mount(Path::new("/"), READ_ONLY, false).map_err(Missing::of(LAYER, "root"))
    }
}

fn make_parent(path: &Path) -> Result<(), Missing> {
    path.parent().map_or(Ok(()), make_dir)
}

fn make_dir(path: &Path) -> Result<(), Missing> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|error| Missing::new(LAYER, format!("{}: {error}", path.display())))
}
