//! `hivewright config edit` and `config set`: a settings file is changed, and put in place if nothing is wrong with it.

use std::{fs, io, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::{
        Context,
        blocking::blocking,
        external_editor::open_editor,
        failure::{Exit, Failure},
        screen::{Screen, complain},
    },
    settings::{
        assign::assign,
        channels::Channels,
        config::Config,
        effective::{Changed, changed, is_declared},
        home::Home,
        load::{self, File, ServiceFile},
        replace::{create, replace, text},
    },
};

/// The file that has a setting. One that none has is looked for in the first.
fn file_of(setting: &str, home: &Home) -> ServiceFile {
    if is_declared::<Config>(setting, home) {
        ServiceFile::Config
    } else if is_declared::<Channels>(setting, home) {
        ServiceFile::Channels
    } else if setting.split('.').next() == Some("profiles") {
        ServiceFile::Providers
    } else {
        ServiceFile::Config
    }
}

/// Changes a file in the person's editor.
pub(super) async fn run(file: ServiceFile, context: &Context) -> Result<(), Failure> {
    let home = context.home.clone();
    let changed = blocking(move || edit(file, &home)).await?;
    tell(file, changed.as_deref(), context.screen)
}

/// Changes one setting.
pub(super) async fn set(path: String, value: String, context: &Context) -> Result<(), Failure> {
    let home = context.home.clone();
    let file = file_of(&path, &home);
    let changed = blocking(move || {
        let before = present(&file.path(&home))?;
        let after = assign(&before, &path, &value).map_err(|error| {
            Failure::failed(format!("`{path}`: {error}; `hivewright config edit {file}` opens it"))
        })?;
        put(file, &home, &before, &after, "")
    });
    tell(file, changed.await?.as_deref(), context.screen)
}

/// Says what was changed; nothing was if the text is the same.
fn tell(file: ServiceFile, changed: Option<&[Changed]>, screen: Screen) -> Result<(), Failure> {
    if screen.json {
        let fields = changed.unwrap_or_default();
        let data = json!({"file": file, "changed": changed.is_some(), "fields": fields});
        return screen.document(&json!({ "data": data }));
    }
    let value = |value: &Value| match value {
        Value::Null => "(not set)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for Changed { path, before, after } in changed.unwrap_or_default() {
        screen.remark(&format!("{path}: {} → {}", value(before), value(after)));
    }
    screen.remark(if changed.is_some() {
        "saved; a running service takes it over, and its inbox says what needs a restart"
    } else {
        "nothing was changed"
    });
    Ok(())
}

/// The text of a file that is there. Blocks.
fn present(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    text(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::not_found(format!("there is no `{shown}`; `hivewright init` writes it"))
        }
        _ => Failure::system(format!("`{shown}` cannot be read"), error),
    })
}

/// Puts another text in place, if nothing is wrong with it. Returns what it says otherwise. `again` tells how to go
/// on where something is. Blocks.
fn put(
    file: ServiceFile,
    home: &Home,
    before: &str,
    after: &str,
    again: &str,
) -> Result<Option<Vec<Changed>>, Failure> {
    if after == before {
        return Ok(None);
    }
    let path = file.path(home);
    if let Err(problems) = load::validate(home, &File::Service(file), after) {
        for problem in &problems.0 {
            complain(&problem.to_string());
        }
        let message = format!("the settings stay as they were{again}");
        return Err(Failure::new(Exit::FoundErrors, message));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    replace(&path, folder, after).map_err(|error| {
        Failure::system(format!("`{}` cannot be written", path.display()), error)
    })?;
    Ok(Some(changed(before, after)))
}

/// What was changed in a file, if it was. Blocks.
fn edit(file: ServiceFile, home: &Home) -> Result<Option<Vec<Changed>>, Failure> {
    let path = file.path(home);
    let before = present(&path)?;
    let draft = path.with_extension("draft.yaml");
    let shown = draft.display();
    match create(&draft, before.as_bytes()) {
        // It was left because something was wrong with it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => {
            made.map_err(|error| Failure::system(format!("`{shown}` cannot be written"), error))?
        }
    }
    open_editor(&draft)?;
    let unreadable = |error| Failure::system(format!("`{shown}` cannot be read"), error);
    let after = text(&draft).map_err(unreadable)?;
    let again = format!("; `hivewright config edit {file}` goes on with `{shown}`");
    let changed = put(file, home, &before, &after, &again)?;
    // One that stays is offered the next time, and harms nobody.
    let _kept = fs::remove_file(&draft);
    Ok(changed)
}
