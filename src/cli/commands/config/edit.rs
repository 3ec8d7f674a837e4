//! `hivewright config edit` and `config set`: a settings file is changed, and put in place if nothing is wrong with it.

use std::{fs, io, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::{
        blocking::blocking,
        context::Context,
        external_editor::open_editor,
        failure::{Exit, Failure},
        screen::complain,
    },
    settings::{
        assign::assign,
        channels::Channels,
        config::Config,
        effective::{Changed, changed, is_declared, needs_restart},
        home::Home,
        load::{self, File, ServiceFile},
        problem::{Problem, Problems},
        replace::{create, replace, text},
        scaffold,
    },
    text::plain,
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
    let home = context.own_home()?;
    let changed = blocking(move || edit(file, &home)).await?;
    tell(file, changed.as_deref(), context)
}

/// Changes one setting.
pub(super) async fn set(path: String, value: String, context: &Context) -> Result<(), Failure> {
    let home = context.own_home()?;
    let file = file_of(&path, &home);
    let changed = blocking(move || {
        let before = present(file, &home)?;
        let after = assign(&before, &path, &value).map_err(|error| {
            Failure::failed(format!("`{path}`: {error}; `hivewright config edit {file}` opens it"))
        })?;
        match check(file, &home, &after) {
            Err(problems) if after != before => {
                let known = check(file, &home, &before).err().unwrap_or_default();
                Err(refused(&path, &problems, &known, &changed(&before, &after)))
            }
            _ => put(file, &home, &before, &after),
        }
    });
    tell(file, changed.await?.as_deref(), context)
}

/// Why one setting is not changed: the value is wrong, or the file has faults already.
fn refused(path: &str, problems: &Problems, known: &Problems, changed: &[Changed]) -> Failure {
    let is_known = |problem: &Problem| {
        let same =
            |other: &Problem| (&other.path, &other.reason) == (&problem.path, &problem.reason);
        known.0.iter().any(same)
    };
    let reason = |problem: &Problem| {
        let place =
            if problem.path == path { String::new() } else { format!("{}: ", problem.path) };
        place + &problem.reason
    };
    let new = problems.0.iter().filter(|problem| !is_known(problem));
    let new: Vec<String> = new.map(reason).collect();
    if new.is_empty() {
        return faulty(problems, "");
    }
    let setting = changed.iter().find(|changed| changed.path == path);
    let value = setting.map_or(String::new(), |changed| format!(": {}", shown(&changed.after)));
    Failure::usage(format!(
        "`{path}{value}` is refused, and nothing was changed: {}",
        new.join("; ")
    ))
}

/// A text with faults is not put in place.
fn faulty(problems: &Problems, again: &str) -> Failure {
    for problem in &problems.0 {
        complain(&problem.to_string());
    }
    Failure::new(Exit::Settings, format!("the settings stay as they were{again}"))
}

/// Says what was changed; nothing was if the text is the same.
fn tell(file: ServiceFile, changed: Option<&[Changed]>, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    if screen.json {
        let fields = changed.unwrap_or_default();
        let data = json!({"file": file, "changed": changed.is_some(), "fields": fields});
        return screen.document(&json!({ "data": data }));
    }
    for Changed { path, before, after } in changed.unwrap_or_default() {
        screen.remark(&format!("{path}: {} → {}", shown(before), shown(after)));
    }
    let Some(changed) = changed else {
        screen.remark("nothing was changed");
        return Ok(());
    };
    let paths = changed.iter().map(|changed| changed.path.as_str());
    let late: Vec<&str> = paths.filter(|path| needs_restart(path, &context.home)).collect();
    let restart = context.command("restart");
    screen.remark(&match late.len() {
        0 => "saved; a running service takes it over".to_owned(),
        all if all == changed.len() => {
            format!("saved; a running service takes it over at its next start: {restart}")
        }
        _ => format!(
            "saved; a running service takes it over, at its next start {}: {restart}",
            late.join(", ")
        ),
    });
    Ok(())
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "(not set)".to_owned(),
        value => plain(value),
    }
}

/// The text of a file. Of `config.yaml` also before it is there: it states what counts without it, as the others would not.
/// Blocks.
fn present(file: ServiceFile, home: &Home) -> Result<String, Failure> {
    let path = file.path(home);
    text(&path).or_else(|error| match (error.kind(), file) {
        (io::ErrorKind::NotFound, ServiceFile::Config) => {
            home.prepare()?;
            Ok(scaffold::CONFIG.to_owned())
        }
        (io::ErrorKind::NotFound, _) => {
            let shown = path.display();
            let message = format!("there is no `{shown}`; `hivewright init` writes it");
            Err(Failure::not_found(message))
        }
        _ => Err(Failure::unreadable(&path)(error)),
    })
}

fn check(file: ServiceFile, home: &Home, text: &str) -> Result<(), Problems> {
    load::validate(home, &File::Service(file), text)
}

/// Puts another text in place. Returns what it says otherwise. Blocks.
fn put(
    file: ServiceFile,
    home: &Home,
    before: &str,
    after: &str,
) -> Result<Option<Vec<Changed>>, Failure> {
    if after == before {
        return Ok(None);
    }
    let path = file.path(home);
    let folder = path.parent().unwrap_or(Path::new("."));
    replace(&path, folder, after).map_err(Failure::unwritable(&path))?;
    Ok(Some(changed(before, after)))
}

/// Whether the first file was not written before the second one: file times are coarse, and what was written in the same
/// moment may have come after it.
fn is_as_new(one: &Path, other: &Path) -> bool {
    let written = |path| fs::metadata(path).and_then(|found| found.modified()).ok();
    written(one).zip(written(other)).is_some_and(|(one, other)| one >= other)
}

/// What was changed in a file, if it was. Blocks.
fn edit(file: ServiceFile, home: &Home) -> Result<Option<Vec<Changed>>, Failure> {
    let path = file.path(home);
    let before = present(file, home)?;
    let draft = path.with_extension("draft.yaml");
    let shown = draft.display();
    let is_new = match create(&draft, before.as_bytes()) {
        Ok(()) => true,
        // It was left because something was wrong with it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if is_as_new(&path, &draft) {
                return Err(Failure::failed(format!(
                    "`{}` was changed after the draft `{shown}` was left, which would undo that: take over what is still \
                     wanted, and delete the draft",
                    path.display()
                )));
            }
            complain(&format!("going on with `{shown}`, which was left; delete it to begin anew"));
            false
        }
        Err(error) => return Err(Failure::unwritable(&draft)(error)),
    };
    if let Err(failure) = open_editor(&draft) {
        if is_new {
            let _kept = fs::remove_file(&draft);
        }
        return Err(failure);
    }
    let after = text(&draft).map_err(Failure::unreadable(&draft))?;
    let again = format!("; `hivewright config edit {file}` goes on with `{shown}`");
    if after != before {
        check(file, home, &after).map_err(|problems| faulty(&problems, &again))?;
    }
    let changed = put(file, home, &before, &after)?;
    // One that stays is offered the next time, and harms nobody.
    let _kept = fs::remove_file(&draft);
    Ok(changed)
}
