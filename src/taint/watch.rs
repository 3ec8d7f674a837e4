//! Watch: whether a command of a trusted turn read a labelled file.
//!
//! Linux keeps the time of the last read. It is set back before the command, so that the next read shows also where
//! it is only kept roughly (`relatime`); setting it back hides nothing, since that is a change. Where the file system
//! keeps no such time, or a whole folder is labelled, the command counts as having read it.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use hivewright_actors::blocking;
use rustix::fs::{Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, futimens, open};

use super::{
    Taint, TaintError,
    label::{Extent, WindowRow, Worker},
    seen::{self, Moment, Seen},
    window::Window,
};

/// What is watched while a command runs.
#[derive(Debug)]
pub struct Watch {
    taint: Taint,
    worker: Worker,
    roots: Vec<PathBuf>,
    since: Moment,
    /// Labelled files, as they were when the watch began.
    files: Vec<(PathBuf, Seen)>,
    /// It could not be seen if one was read.
    blind: bool,
    /// Kept while there is something to read.
    window: Option<Window>,
}

impl Taint {
    /// Begins to watch a command of a trusted turn that may read what is below these real paths.
    pub async fn watch(&self, worker: Worker, roots: Vec<PathBuf>) -> Result<Watch, TaintError> {
        let mut watch = Watch {
            taint: self.clone(),
            worker,
            roots,
            since: seen::now(),
            files: Vec::new(),
            blind: false,
            window: None,
        };
        if self.is_quiet() {
            return Ok(watch);
        }
        let begun = blocking::run(move || {
            watch.look();
            watch
        });
        watch = begun.await.map_err(TaintError::store)?;
        if watch.blind || !watch.files.is_empty() {
            let (worker, roots) = (watch.worker.clone(), watch.roots.clone());
            let window = self.begin_at(worker, roots, watch.since, false);
            watch.window = Some(window.await?);
        }
        Ok(watch)
    }
}

impl Watch {
    /// Sets back when labelled files were last read. Blocks.
    fn look(&mut self) {
        let labels: Vec<_> = {
            let state = self.taint.state();
            let is_open = |window: &WindowRow| {
                let mut roots = self.roots.iter();
                window.sure && roots.any(|root| meets(&window.roots, root))
            };
            self.blind = state.windows.values().any(is_open) || state.damaged.is_below(&self.roots);
            state.below(&self.roots).cloned().collect()
        };
        if labels.is_empty() || self.blind {
            return;
        }
        let mut devices = HashSet::new();
        for label in labels {
            let path = PathBuf::from(&label.path);
            let is_known = |seen: Seen| devices.contains(&seen.id.0);
            let seen = Seen::path(&path);
            if label.extent != Extent::File
                || seen.is_ok_and(|seen| !is_known(seen)) && !tells_reads(&path).unwrap_or(false)
            {
                self.blind = true;
                return;
            }
            match set_back(&path) {
                Ok(seen) => {
                    devices.insert(seen.id.0);
                    self.files.push((path, seen));
                }
                // There is nothing to read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => {
                    self.blind = true;
                    return;
                }
            }
        }
    }

    /// Ends it after the command did: whether the command may have read a labelled file. What it changed is labelled
    /// then.
    pub async fn end(mut self) -> Result<bool, TaintError> {
        let window = self.window.take();
        if window.is_none() && self.taint.is_quiet() {
            return Ok(false);
        }
        let looked = blocking::run(move || {
            let touched = self.was_read();
            (self, touched)
        });
        let (this, touched) = looked.await.map_err(TaintError::store)?;
        if touched {
            let window = match window {
                Some(window) => window,
                None => {
                    let (worker, roots) = (this.worker.clone(), this.roots.clone());
                    this.taint.begin_at(worker, roots, this.since, true).await?
                }
            };
            window.label_changes().await?;
            return Ok(true);
        }
        if let Some(window) = window {
            window.dismiss().await?;
        }
        Ok(false)
    }

    /// Blocks.
    fn was_read(&self) -> bool {
        if self.blind {
            return true;
        }
        {
            // What somebody else labelled meanwhile, or writes now, may have been read before anyone looked.
            let state = self.taint.state();
            let is_known = |path: &str| {
                let mut files = self.files.iter();
                files.any(|(file, _)| file == Path::new(path))
            };
            let mut others = state.windows.values().filter(|window| window.sure);
            let mut labels = state.below(&self.roots);
            if others.any(|window| self.roots.iter().any(|root| meets(&window.roots, root)))
                || labels.any(|label| !is_known(&label.path) && Path::new(&label.path).exists())
            {
                return true;
            }
        }
        self.files.iter().any(|(path, before)| match Seen::path(path) {
            Ok(now) => now.read != before.read || now.changed != before.changed,
            // It was moved, and perhaps read: who moves it may read it.
            Err(_) => true,
        })
    }
}

fn meets(roots: &[PathBuf], other: &Path) -> bool {
    let mut roots = roots.iter();
    roots.any(|root| root.starts_with(other) || other.starts_with(root))
}

/// Makes the next read of a file show.
fn set_back(path: &Path) -> std::io::Result<Seen> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    let file = reader(path)?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: 0 },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    futimens(&file, &times)?;
    Ok(Seen::of(&file)?)
}

/// Whether the file system of a labelled file tells that it was read.
fn tells_reads(path: &Path) -> std::io::Result<bool> {
    let before = set_back(path)?;
    let mut byte = [0];
    // How much there is to read does not matter.
    let _amount = reader(path)?.read(&mut byte)?;
    Ok(Seen::path(path)?.read != before.read)
}

/// Opens a file. Whatever it has become since it was looked at, opening it must not wait.
fn reader(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?.into())
}
