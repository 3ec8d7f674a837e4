//! Lock file `plugins.lock`: which packages an operator agreed to, by digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use hivewright_actors::ids::ApprovalId;
use serde::{Deserialize, Serialize};

use super::{capabilities::Capabilities, manifest::Manifest, package::Package};
use crate::{removal::if_there, settings::replace};

/// The file's name, in the folder of installed packages.
pub const LOCK_FILE: &str = "plugins.lock";
/// The form of the file.
const FORMAT: u32 = 1;

/// What was agreed to, by the key of each plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lock {
    format: u32,
    pub plugins: BTreeMap<String, Locked>,
    /// Other versions that ask for more than was agreed to, and wait for a person, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, Held>,
    /// Packages that are worked on and guard calls, by their folders, as each said of itself last: they guard also
    /// while they cannot be loaded. Nobody agreed to them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub development: BTreeMap<PathBuf, Manifest>,
    /// The keys of plugins that an operator took away: they guard nothing any more, also where a team still has one
    /// switched on.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub taken_away: BTreeSet<String>,
}

/// A package that was agreed to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Locked {
    pub version: String,
    /// Where it came from, as the operator said it.
    pub source: String,
    pub digest: String,
    /// The name of the trusted key that has signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The one before it, while one takes the place of the other: whichever is there is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former: Option<String>,
    /// What it may ask for.
    pub capabilities: Capabilities,
    /// What it said of itself: its hooks guard teams also while its files are not those that were agreed to.
    pub manifest: Manifest,
}

/// A package that waits aside for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub version: String,
    pub source: String,
    pub digest: String,
    /// What is asked; none until it is.
    pub approval: Option<ApprovalId>,
}

impl Locked {
    /// What an operator agrees to with a package.
    pub fn of(package: &Package, source: String) -> Self {
        Self {
            version: package.manifest.version.to_string(),
            source,
            digest: package.digest.clone(),
            signer: package.signer.clone(),
            former: None,
            capabilities: Capabilities::of(package),
            manifest: package.manifest.clone(),
        }
    }

    /// Files with this digest were agreed to.
    pub fn allows(&self, digest: &str) -> bool {
        self.digest == digest || self.former.as_deref() == Some(digest)
    }
}

impl Lock {
    /// Reads the file in a folder; none is an empty one. It blocks.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let text = if_there(fs::read_to_string(folder.join(LOCK_FILE)))?;
        let Some(text) = text else { return Ok(Self::default()) };
        let lock: Self = serde_json::from_str(&text)?;
        if lock.format > FORMAT {
            return Err(io::Error::other("is of a newer release"));
        }
        Ok(lock)
    }

    /// Nobody has written it yet.
    pub(super) fn is_new(&self) -> bool {
        self.format == 0
    }

    /// Notes what an operator agreed to.
    pub(super) fn agree(&mut self, key: &str, locked: Locked) {
        self.taken_away.remove(key);
        self.plugins.insert(key.to_owned(), locked);
    }

    /// Writes the file, whole and durable. It blocks.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let lock = Self { format: FORMAT, ..self.clone() };
        let mut text = serde_json::to_string_pretty(&lock)?;
        text.push('\n');
        replace::replace(&folder.join(LOCK_FILE), folder, text)
    }
}
