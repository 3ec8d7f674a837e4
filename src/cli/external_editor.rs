//! The person's editor: a text is changed in the program that they named for it.

use std::{path::Path, process::Command};

use super::failure::Failure;

/// Where no other editor is named.
const USUAL_EDITOR: &str = "vi";

/// Opens a file, and waits until the editor has ended. Blocks.
pub(super) fn open_editor(draft: &Path) -> Result<(), Failure> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = named.filter(|name| !name.trim().is_empty());
    let editor = editor.unwrap_or_else(|| USUAL_EDITOR.to_owned());
    // It may have arguments of its own, as for other programs.
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(draft);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format!(
            "the editor `{editor}` ended with {status}; nothing was changed. `EDITOR` names another"
        ))),
        Err(error) => {
            Err(Failure::system(format!("the editor `{editor}` cannot be started"), error))
        }
    }
}
