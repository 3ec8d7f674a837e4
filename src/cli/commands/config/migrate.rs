//! `hivewright config migrate`: settings files of an earlier version are brought to their present form.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::edit::shown;
use crate::{
    cli::{
        blocking::blocking,
        context::Context,
        failure::{Exit, Failure, chain},
        prompt::confirm,
        screen::{Screen, Tone},
    },
    settings::{
        effective::Changed,
        home::Home,
        migrate::{Plan, Step, plan},
        problem::Problem,
    },
    text::counted,
    time,
};

pub(super) async fn run(dry_run: bool, context: &Context) -> Result<(), Failure> {
    let (home, screen) = (context.own_home()?, context.screen);
    let found = looked(&home).await?;
    let Plan { steps, left, .. } = &found;
    if !screen.json {
        screen.write(&difference(steps, screen));
    }
    if dry_run || steps.is_empty() {
        return conclude(steps, left, None, screen);
    }
    let backup = home.backups().join(format!("settings-{}", time::compact_now()));
    let many = counted(steps.len(), "setting");
    let what = format!("{many} in {}", counted(found.rewrites.len(), "file"));
    confirm(
        context,
        &format!("{what}; the old files are kept in {}", backup.display()),
        "Change?",
    )?;
    let steps = steps.clone();
    let kept = apply(found, home.clone(), backup).await?;
    // Lines may have moved.
    let left = looked(&home).await?.left;
    conclude(&steps, &left, Some(&kept), screen)
}

async fn looked(home: &Home) -> Result<Plan, Failure> {
    let home = home.clone();
    blocking(move || Ok(plan(&home))).await
}

async fn apply(plan: Plan, home: Home, backup: PathBuf) -> Result<PathBuf, Failure> {
    blocking(move || match plan.apply(&home, &backup) {
        Ok(()) => Ok(backup),
        Err(error) => Err(Failure::failed(chain(&error))),
    })
    .await
}

/// What each file says before and after, and why.
fn difference(steps: &[Step], screen: Screen) -> String {
    let mut text = String::new();
    let mut last = None;
    for Step { file, fields, why, .. } in steps {
        if last != Some(file) {
            text += &format!("{}\n", file.display());
            last = Some(file);
        }
        let line = |mark: char, tone, path: &str, value: &Value| match value {
            Value::Null => String::new(),
            value => {
                format!("{}\n", screen.paint(tone, &format!("  {mark} {path}: {}", shown(value))))
            }
        };
        for Changed { path, before, .. } in fields {
            text += &line('-', Tone::Bad, path, before);
        }
        for Changed { path, after, .. } in fields {
            text += &line('+', Tone::Good, path, after);
        }
        text += &format!("    {why}\n");
    }
    text
}

/// Says what was done, if a place for the old files is named, and what is left to do.
fn conclude(
    steps: &[Step],
    left: &[Problem],
    backup: Option<&Path>,
    screen: Screen,
) -> Result<(), Failure> {
    if screen.json {
        let data =
            json!({"changed": backup.is_some(), "steps": steps, "left": left, "backup": backup});
        screen.document(&json!({ "data": data }))?;
    } else {
        for problem in left {
            screen.say(&format!("{} {problem}", screen.paint(Tone::Bad, "by hand")));
        }
        screen.remark(&match (backup, steps.len()) {
            (Some(backup), _) => format!(
                "saved; a running service takes it over. The old files are in {}",
                backup.display()
            ),
            (None, 0) => "nothing is in the form of an earlier version".to_owned(),
            (None, many) => {
                format!("{} would change; nothing was changed", counted(many, "setting"))
            }
        });
    }
    if left.is_empty() {
        return Ok(());
    }
    let message = format!("{} left to mend by hand", counted(left.len(), "fault"));
    Err(screen.failure(Exit::FoundErrors, message))
}
