//! Folders that are given to teams and to MCP servers.

use std::path::{Path, PathBuf};

use hivewright_actors::words;

use super::home::{Home, resolve};

words! {
    /// What a team may do in a folder.
    pub enum Access {
        /// Look only.
        ReadOnly = "ro",
        /// Look and change.
        ReadWrite = "rw",
    }
}

/// A folder that holds the settings, the store or the teams, or lies in them, is never given away.
pub(super) fn check_dir(path: &Path, home: Option<&Home>) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err("expected an absolute path".into());
    }
    let Some(home) = home else {
        return Err("cannot be compared with the folders of the service".into());
    };
    let real = resolve(path);
    for (what, own) in [("data", home.data()), ("run", home.run())] {
        let own = resolve(own);
        if real.starts_with(&own) || own.starts_with(&real) {
            return Err(format!("overlaps the {what} dir, which no team may be given"));
        }
    }
    Ok(real)
}
