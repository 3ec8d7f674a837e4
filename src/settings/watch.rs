//! Folder watch: tells of changed files in folders, by inotify.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::inotify::{self, CreateFlags, Reader, WatchFlags},
    io::Errno,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Changes are read in pieces of this size. The longest name fits.
const PIECE: usize = 4096;

/// Hears of files that are written, come or go.
pub(crate) struct FolderWatch {
    listening: Option<AsyncFd<OwnedFd>>,
    /// Only files of this name count.
    file: Option<&'static str>,
}

impl FolderWatch {
    /// Watches folders. Where that is not to be had, no change is told.
    pub(crate) fn at<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Self {
        let listening = listen(folders).inspect_err(|error| {
            tracing::warn!(%error, "changes in folders are noticed late");
        });
        Self { listening: listening.ok(), file: None }
    }

    pub(crate) fn for_file(self, name: &'static str) -> Self {
        Self { file: Some(name), ..self }
    }

    pub(crate) async fn changed(&self) {
        let Some(listening) = &self.listening else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut ready) = listening.readable().await else {
                return std::future::pending().await;
            };
            match drain(listening.get_ref(), self.file) {
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
            let path = folder.display();
            tracing::warn!(%path, %error, "changes in this folder are noticed late");
        }
    }
    // SAFETY: an `OwnedFd` stays the same open file for as long as it lives, which is within the `AsyncFd`.
    #[expect(unsafe_code, reason = "tokio asks for this promise")]
    let listening = unsafe { AsyncFd::register_with_interest(listening, Interest::READABLE) };
    Ok(listening?)
}

/// Reads what changed, and tells whether any of it counts.
fn drain(listening: impl AsFd, file: Option<&str>) -> io::Result<bool> {
    let mut any = false;
    let mut piece = [MaybeUninit::uninit(); PIECE];
    let mut heard = Reader::new(listening, &mut piece);
    loop {
        match heard.next() {
            Ok(event) => {
                // Without a name it is about the folder itself, or too much has happened to tell.
                let name = event.file_name().map(std::ffi::CStr::to_bytes);
                any |= match (file, name) {
                    (Some(file), Some(name)) => file.as_bytes() == name,
                    _ => true,
                };
            }
            Err(Errno::AGAIN) => return Ok(any),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {

    use std::{fs, time::Duration};

    use super::*;

    #[tokio::test]
    async fn only_the_file_that_counts_is_told_of_in_any_folder() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [one.path(), other.path(), Path::new("/nowhere/at/all")];
        let watch = FolderWatch::at(folders).for_file("config.yaml");

        fs::write(one.path().join("notes.md"), "a").unwrap();
        let deaf = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
        fs::write(other.path().join("config.yaml"), "a").unwrap();
        let heard = tokio::time::timeout(Duration::from_secs(30), watch.changed()).await;

        assert!(deaf.is_err() && heard.is_ok());
    }
}
