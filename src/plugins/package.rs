//! Plugin package: a manifest with the files that it speaks of.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use hivewright_actors::words;

use super::{fault::Fault, manifest::Manifest, schema::Schema};

/// The largest source or schema.
const LARGEST_SOURCE: u64 = 1 << 20;

/// The files of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// In this program, each by its path.
    Embedded(&'static [(&'static str, &'static [u8])]),
    Folder(PathBuf),
}

words! {
    /// Where a package comes from.
    #[schemars(rename = "PluginOrigin")]
    pub enum Origin {
        /// It comes with the release.
        Shipped = "shipped",
        /// An operator installed it.
        Installed = "installed",
        /// A folder that somebody works on: its files may change as they like.
        Development = "development",
    }
}

/// A plugin that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    pub manifest: Manifest,
    pub files: Files,
    pub digest: String,
    pub origin: Origin,
    /// The name of the trusted key that has signed it, of an installed one.
    pub signer: Option<String>,
    /// What a team's settings for it are checked by.
    pub schema: Schema,
    /// It stands for one that cannot be loaded, for this reason: nothing of it is started.
    pub fault: Option<Fault>,
}

impl Files {
    /// The folder; none if the files are in this program.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Embedded(_) => None,
            Self::Folder(folder) => Some(folder),
        }
    }

    /// What is in a file, up to 1 MiB.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match self {
            Self::Embedded(files) => {
                let found = files.iter().find(|(name, _)| *name == path);
                found.map(|(_, content)| content.to_vec()).ok_or(io::ErrorKind::NotFound.into())
            }
            Self::Folder(folder) => {
                let mut content = Vec::new();
                let file = fs::File::open(folder.join(path))?;
                if !file.metadata()?.is_file() {
                    return Err(io::Error::other("is no file"));
                }
                file.take(LARGEST_SOURCE + 1).read_to_end(&mut content)?;
                if content.len() as u64 > LARGEST_SOURCE {
                    return Err(io::Error::other("is larger than 1 MiB"));
                }
                Ok(content)
            }
        }
    }
}
