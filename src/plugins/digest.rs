//! Digest of a package: SHA-256 over the sorted list of its files, each by path, mode and SHA-256.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use sha2::{Digest as _, Sha256};

use super::package::Files;
use crate::system::hex;

/// The file of a package with its signature, in base64. The digest leaves it out.
pub const SIGNATURE: &str = "plugin.sig";
/// The most files of a package.
pub const MOST_FILES: usize = 2_000;
/// The most bytes of a package.
pub const MOST_BYTES: u64 = 50 << 20;
/// How deep folders lie at most.
const DEEPEST: usize = 16;

/// A file of a package, by its path from the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub path: String,
    /// The permission bits.
    pub mode: u32,
    pub bytes: u64,
}

/// Which files of a folder count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All. A link, a device or a name that is no text is an error.
    Whole,
    /// What is not hidden and not made by a build. A link or a device is an error.
    Packed,
    /// The same without what was fetched from elsewhere, of a folder that is worked on. Links are passed over.
    Sources,
}

impl Extent {
    fn takes(self, name: &str) -> bool {
        let is_built = matches!(name, "target" | "__pycache__");
        match self {
            Self::Whole => true,
            Self::Packed => !name.starts_with('.') && !is_built,
            Self::Sources => !name.starts_with('.') && !is_built && name != "node_modules",
        }
    }
}

/// The digest of a package, in hexadecimal.
pub fn of(files: &Files, extent: Extent) -> io::Result<String> {
    let mut sum = Sha256::new();
    let listed = list(files, extent)?;
    for listed in listed.iter().filter(|listed| listed.path != SIGNATURE) {
        let mut own = Sha256::new();
        match files {
            Files::Embedded(_) => own.update(files.read(&listed.path)?),
            Files::Folder(folder) => {
                let file = File::open(folder.join(&listed.path))?;
                let mut file = file.take(MOST_BYTES + 1);
                let mut piece = vec![0; 64 << 10];
                loop {
                    match file.read(&mut piece)? {
                        0 => break,
                        length => own.update(&piece[..length]),
                    }
                }
            }
        }
        let line = format!("{}\0{:o}\0{}\n", listed.path, listed.mode, hex(&own.finalize()));
        sum.update(line);
    }
    Ok(hex(&sum.finalize()))
}

/// The files of a package, sorted by path.
pub fn list(files: &Files, extent: Extent) -> io::Result<Vec<Listed>> {
    let mut found = Vec::new();
    match files {
        Files::Embedded(embedded) => {
            found.extend(embedded.iter().map(|(path, content)| Listed {
                path: (*path).to_owned(),
                mode: 0o644,
                bytes: content.len() as u64,
            }));
        }
        Files::Folder(folder) => gather(folder, "", extent, 0, &mut found)?,
    }
    found.sort();
    Ok(found)
}

fn gather(
    folder: &Path,
    above: &str,
    extent: Extent,
    depth: usize,
    found: &mut Vec<Listed>,
) -> io::Result<()> {
    let refused = |path: &str, reason: &str| {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("`{path}` {reason}")))
    };
    if depth > DEEPEST {
        return refused(above, "lies too deep");
    }
    for entry in fs::read_dir(folder.join(above))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            return refused(above, "holds a file whose name is no text");
        };
        if !extent.takes(&name) {
            continue;
        }
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        let about = fs::symlink_metadata(entry.path())?;
        if about.is_dir() {
            gather(folder, &path, extent, depth + 1, found)?;
        } else if about.is_file() {
            let mode = about.permissions().mode() & 0o777;
            // As it is unpacked.
            let packed = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
            let mode = if extent == Extent::Packed { packed } else { mode };
            found.push(Listed { path, mode, bytes: about.len() });
        } else if extent != Extent::Sources {
            return refused(&path, "is neither a file nor a folder");
        }
        let bytes: u64 = found.iter().map(|listed| listed.bytes).sum();
        if found.len() > MOST_FILES || bytes > MOST_BYTES {
            return refused(above, "takes the package over 2,000 files or 50 MiB");
        }
    }
    Ok(())
}
