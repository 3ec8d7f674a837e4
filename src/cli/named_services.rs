//! Services that commands are for, by name: the contexts that a home keeps.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::failure::Failure;
use crate::settings::{home::Home, replace::replace};

/// Where they are kept, in the data dir.
pub(super) const FILE: &str = "contexts.json";
/// The service of the home, which needs no entry.
pub(super) const LOCAL: &str = "local";

/// The way to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Way {
    pub(super) url: String,
    pub(super) token_file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cacert: Option<PathBuf>,
}

/// All that have a name, and the one that commands are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Contexts {
    pub(super) current: Option<String>,
    pub(super) services: BTreeMap<String, Way>,
}

/// The way to the service of a name, or else to the one that is in use; none is that of the home.
pub(super) fn way_to(home: &Home, name: Option<&str>) -> Result<Option<Way>, Failure> {
    if name == Some(LOCAL) {
        return Ok(None);
    }
    let mut contexts = read(home)?;
    match name.map(str::to_owned).or(contexts.current.take()) {
        Some(name) => contexts.services.remove(&name).map(Some).ok_or_else(|| unknown(&name)),
        None => Ok(None),
    }
}

/// The services that have a name, and where each is.
pub(super) fn names(home: &Home) -> Result<Vec<(String, String)>, Failure> {
    let local = (LOCAL.to_owned(), "the service of the home".to_owned());
    let others = read(home)?.services.into_iter().map(|(name, way)| (name, way.url));
    Ok([local].into_iter().chain(others).collect())
}

pub(super) fn unknown(name: &str) -> Failure {
    Failure::not_found(format!(
        "there is no context `{name}`; `hivewright context list` shows those there are"
    ))
}

pub(super) fn read(home: &Home) -> Result<Contexts, Failure> {
    let path = home.data().join(FILE);
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::system(format!("`{}` cannot be read", path.display()), error)
    };
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| unreadable(&error)),
        // Whose folder it is, commands say that need it.
        Err(error) if is_absent(&error) => Ok(Contexts::default()),
        Err(error) => Err(unreadable(&error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

pub(super) fn write(home: &Home, contexts: &Contexts) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(contexts)?;
    DirBuilder::new().recursive(true).mode(0o700).create(home.data())?;
    replace(&home.data().join(FILE), home.data(), text)
}
