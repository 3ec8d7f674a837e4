//! Hears of changes in a folder.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};

/// What may be left of changes that were heard of is read in pieces of this size.
const PIECE: usize = 4096;

/// Hears of files that are written, come or go.
pub(super) struct Ear(Option<AsyncFd<OwnedFd>>);

impl Ear {
    /// Listens to folders. Where that is not to be had, it hears nothing.
    pub(super) fn at<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let listening = listen(folders).inspect_err(|error| {
            tracing::warn!(%error, "changes in folders are noticed late");
        });
        Self(listening.ok())
    }

    /// Waits until something changed.
    pub(super) async fn hears(&self) {
        let Some(listening) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut ready) = listening.readable().await else {
                return std::future::pending().await;
            };
            match drain(listening.get_ref()) {
                Ok(true) => return,
                Ok(false) => ready.clear_ready(),
                Err(error) => {
                    tracing::warn!(%error, "changes in a folder are noticed late");
                    return std::future::pending().await;
                }
            }
        }
    }
}

fn listen<'a>(folders: impl IntoIterator<Item = &'a Path>) -> io::Result<AsyncFd<OwnedFd>> {
    let listening = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let changes = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO;
    for folder in folders {
        if let Err(error) = inotify::add_watch(&listening, folder, changes | WatchFlags::ONLYDIR) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "changes in this folder are noticed late");
        }
    }
    // SAFETY: an `OwnedFd` stays the same open file for as long as it lives, which is within the `AsyncFd`.
    #[expect(unsafe_code, reason = "tokio asks for this promise")]
    let listening = unsafe { AsyncFd::register_with_interest(listening, Interest::READABLE) };
    Ok(listening?)
}

/// Forgets what was heard, and tells whether there was anything.
fn drain(listening: impl AsFd) -> io::Result<bool> {
    let mut any = false;
    loop {
        let mut piece = [0; PIECE];
        match rustix::io::read(&listening, &mut piece) {
            Ok(_) => any = true,
            Err(Errno::AGAIN) => return Ok(any),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
