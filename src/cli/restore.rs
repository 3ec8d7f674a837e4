//! `hivewright restore`: a backup becomes the store and the folders again.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{
    Context,
    backup::blocking,
    failure::{Exit, Failure},
    progress::Gauge,
};
use crate::{
    service::backup_home,
    settings::load,
    storage::restore::{Restored, restore, restore_newest},
};

/// Put a backup back into use, with the service stopped
///
/// Every checksum is compared before anything is touched. What was there is kept beside.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright restore /mnt/usb/hive.tar.zst\n  \
    hivewright restore --newest")]
pub(super) struct Arguments {
    /// The backup
    #[arg(required_unless_present = "newest")]
    pub(super) file: Option<PathBuf>,
    /// Replace a store that holds something
    #[arg(long, conflicts_with = "newest")]
    pub(super) force: bool,
    /// Set a store that cannot be used aside, and rebuild it from the newest good backup
    #[arg(long, conflicts_with = "file")]
    pub(super) newest: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let again = match &arguments.file {
        Some(file) => context.command(&format!("restore {} --force", file.display())),
        None => context.command("restore --newest"),
    };
    let cloned = context.clone();
    let restored = tokio::select! {
        restored = blocking(move || work(&arguments, &cloned)) => restored?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(
            Exit::Interrupted,
            format!("stopped before it was finished; {again} begins again"),
        )),
    };
    let screen = context.screen;
    if screen.json {
        return screen.document(&json!({"data": {
            "from": restored.from,
            "created": restored.manifest.created,
            "records": restored.manifest.records,
            "kept": restored.kept,
        }}));
    }
    screen.say(&format!(
        "restored {} records from {}, made {}",
        restored.manifest.records,
        restored.from.display(),
        restored.manifest.created
    ));
    for path in &restored.kept {
        screen.remark(&format!("what was there before is in {}", path.display()));
    }
    screen.remark(&format!("next: {}", context.command("serve")));
    Ok(())
}

fn work(arguments: &Arguments, context: &Context) -> Result<Restored, Failure> {
    context.home.prepare()?;
    let _lock = context.home.lock().map_err(|error| {
        let mut failure = Failure::from(error);
        if failure.exit == Exit::Conflict {
            failure.message.push_str("; stop the service first");
        }
        failure
    })?;
    let config = load::load_config(&context.home, &context.environment)?.0;
    let home = backup_home(&context.home, &config);
    let gauge = Gauge::new(context.screen, "restore");
    let progress = |progress| gauge.storage(progress);
    match &arguments.file {
        Some(file) if !file.exists() => Err(Failure::new(
            Exit::NotFound,
            format!("there is no file `{}`", file.display()),
        )),
        Some(file) => Ok(restore(file, &home, arguments.force, &progress)?),
        None => Ok(restore_newest(&home, &progress)?),
    }
}
