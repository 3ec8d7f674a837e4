//! `hivewright plugin sign`: the author's signature goes into a plugin in a folder.

use std::{fs, path::PathBuf};

use clap::Args;

use crate::{
    cli::{
        context::Context,
        failure::{Exit, Failure},
    },
    plugins::{
        digest::{self, Extent, SIGNATURE},
        package::{Files, Origin, Package},
        signature,
    },
};

#[derive(Debug, PartialEq, Args)]
pub(in crate::cli) struct Sign {
    /// A folder with a `plugin.toml`
    folder: PathBuf,
    /// A private Ed25519 key in PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

pub(super) fn run(Sign { folder, key }: Sign, context: &Context) -> Result<(), Failure> {
    if !folder.is_dir() {
        return Err(Failure::not_found(format!("there is no folder `{}`", folder.display())));
    }
    let files = Files::Folder(folder.clone());
    Package::load(files.clone(), Origin::Development)
        .map_err(|fault| Failure::new(Exit::FoundErrors, fault.to_string()))?;
    let text = fs::read(&key).map_err(Failure::unreadable(&key))?;
    // As it is when it is installed.
    let digest = digest::of(&files, Extent::Packed).map_err(Failure::unreadable(&folder))?;
    let signature = signature::sign(&digest, &text)
        .map_err(|error| Failure::usage(format!("`{}`: {error}", key.display())))?;
    let path = folder.join(SIGNATURE);
    fs::write(&path, signature + "\n").map_err(Failure::unwritable(&path))?;
    context.screen.remark(&format!("wrote {}; sign again when a file changes", path.display()));
    Ok(())
}
