//! `hivewright config edit`: a settings file in the person's editor, put in place once nothing is wrong with it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use hivewright_actors::words;

use crate::{
    cli::{
        Context,
        blocking::blocking,
        failure::{Exit, Failure},
        screen::complain,
    },
    settings::{
        home::Home,
        load::{self, File},
        replace::{create, replace, text},
    },
};

/// Where no other editor is named.
const USUAL_EDITOR: &str = "vi";

words! {
    /// A settings file of the service.
    pub(in crate::cli) enum SettingsFile {
        Config = "config",
        Providers = "providers",
        Channels = "channels",
    }
}

impl SettingsFile {
    fn place(self, home: &Home) -> (File, PathBuf) {
        match self {
            Self::Config => (File::Config, home.config_file()),
            Self::Providers => (File::Providers, home.providers_file()),
            Self::Channels => (File::Channels, home.channels_file()),
        }
    }
}

pub(super) async fn run(file: SettingsFile, context: &Context) -> Result<(), Failure> {
    let (screen, home) = (context.screen, context.home.clone());
    let changed = blocking(move || edit(file, &home)).await?;
    if screen.json {
        return screen.document(&serde_json::json!({"data": {"file": file, "changed": changed}}));
    }
    screen.remark(if changed {
        "saved; a running service takes it over, and its inbox says what needs a restart"
    } else {
        "nothing was changed"
    });
    Ok(())
}

/// Whether the file was changed. Blocks.
fn edit(file: SettingsFile, home: &Home) -> Result<bool, Failure> {
    let (kind, path) = file.place(home);
    let of = |path: &Path| path.display().to_string();
    let before = text(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::not_found(format!("there is no `{}`; `hivewright init` writes it", of(&path)))
        }
        _ => Failure::system(format!("`{}` cannot be read", of(&path)), error),
    })?;
    let draft = path.with_extension("draft.yaml");
    match create(&draft, before.as_bytes()) {
        // It was left because something was wrong with it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(|error| {
            Failure::system(format!("`{}` cannot be written", of(&draft)), error)
        })?,
    }
    open_editor(&draft)?;
    let unreadable = |error| Failure::system(format!("`{}` cannot be read", of(&draft)), error);
    let after = text(&draft).map_err(unreadable)?;
    if after != before {
        if let Err(problems) = load::validate(home, &kind, &after) {
            for problem in &problems.0 {
                complain(&problem.to_string());
            }
            let message = format!(
                "the settings stay as they were; `hivewright config edit {file}` goes on with `{}`",
                of(&draft)
            );
            return Err(Failure::new(Exit::FoundErrors, message));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        replace(&path, folder, &after).map_err(|error| {
            Failure::system(format!("`{}` cannot be written", of(&path)), error)
        })?;
    }
    // One that stays is offered the next time, and harms nobody.
    let _kept = fs::remove_file(&draft);
    Ok(after != before)
}

fn open_editor(draft: &Path) -> Result<(), Failure> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = named.filter(|name| !name.trim().is_empty());
    let editor = editor.unwrap_or_else(|| USUAL_EDITOR.to_owned());
    // It may have arguments of its own, as for other programs.
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(draft);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::failed(format!(
            "the editor `{editor}` ended with {status}; nothing was changed"
        ))),
        Err(error) => {
            Err(Failure::system(format!("the editor `{editor}` cannot be started"), error))
        }
    }
}
