//! Notice of a running service: where it listens, which it leaves in its run dir.

use std::{fs, io, os::unix::fs::MetadataExt};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::Deserialize;

use super::failure::{Exit, Failure};
use crate::settings::home::Home;

/// What a running service says about itself in its run dir.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Notice {
    pub(super) pid: u32,
    pub(super) url: String,
}

/// Where the service leaves its notice.
const NOTICE: &str = "service.json";

/// The notice of the service that runs in a home.
///
/// What a killed service left behind is none: someone else may listen there by now, and would be
/// shown the token.
pub(super) fn notice(home: &Home) -> Result<Option<Notice>, Failure> {
    if !is_locked(home)? {
        return Ok(None);
    }
    match fs::read(home.run().join(NOTICE)) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if is_foreign(&error) => Err(foreign(home)),
        Err(_) => Ok(None),
    }
}

/// Whether a process has the run dir. Nothing is changed to find out.
fn is_locked(home: &Home) -> Result<bool, Failure> {
    match fs::File::open(home.run().join("lock")) {
        Ok(file) => {
            Ok(flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
        }
        Err(error) if is_foreign(&error) => Err(foreign(home)),
        Err(_) => Ok(false),
    }
}

/// Somebody else's folder or file is in the way.
pub(super) fn is_foreign(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The run dir is of another user: whether a service runs there is not ours to know.
pub(super) fn foreign(home: &Home) -> Failure {
    let mut folders = home.run().ancestors();
    let owner = folders.find_map(|folder| fs::metadata(folder).ok());
    let whose = owner.map_or(String::new(), |found| {
        format!(" and belongs to the user with number {}", found.uid())
    });
    Failure::new(
        Exit::NotAllowed,
        format!(
            "the service's folder `{}` is not yours{whose}; run this as that user, \
             or name the service with `--url` and a token with `--token-file`",
            home.run().display()
        ),
    )
}
