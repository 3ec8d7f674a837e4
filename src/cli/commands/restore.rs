//! `hivewright restore`: a backup becomes the store and the folders again.

use std::{
    io::{self, IsTerminal},
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Args;
use serde_json::json;

use crate::{
    api::when::Moment,
    boot::backups::backup_home,
    cli::{
        blocking::{blocking, interruptible},
        context::Context,
        failure::{Exit, Failure, chain},
        progress::Gauge,
        prompt::confirm,
        stopped::{self, Stopped},
        table::{exact, to_the_second},
    },
    settings::load,
    storage::{
        self,
        lost::Lost,
        restore::{RestoreError, Restored, look, restore, restore_newest},
    },
    system::WallClock,
    taint::stored::doubts,
    text::counted,
    time,
    transcript::{
        files,
        recovery::{self, Recovered},
    },
    vault::{Vault, master::KeyFiles},
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
    /// Set a store that cannot be used aside, and rebuild it from the newest good backup and the transcripts
    #[arg(long, conflicts_with = "file")]
    pub(super) newest: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let again = match &arguments.file {
        Some(file) => context.command(&format!("restore {} --force", file.display())),
        None => context.command("restore --newest"),
    };
    let is_newest = arguments.newest;
    context.own_home()?;
    if is_newest {
        confirm_newest(context).await?;
    }
    let cloned = context.clone();
    // Its safe points are where nothing is changed yet, or all is.
    let working = interruptible(move |stop| work(&arguments, &cloned, stop));
    let (restored, key) = match working.await {
        (Err(failure), true) => {
            let message = format!("{}; {again} begins again", failure.message);
            return Err(Failure::new(Exit::Interrupted, message));
        }
        (restored, _) => restored?,
    };
    let recovered = if is_newest { Some(recover(&restored, context).await?) } else { None };
    let screen = context.screen;
    if screen.json {
        return screen.document(&json!({"data": {
            "from": restored.from,
            "created": restored.manifest.created,
            "records": restored.manifest.records,
            "kept": restored.kept,
            "vault": key,
            "lost": restored.lost,
            "recovered": recovered,
        }}));
    }
    screen.say(&format!(
        "restored {} records from {}, made {}",
        restored.manifest.records,
        restored.from.display(),
        exact(made(&restored))
    ));
    for path in &restored.kept {
        screen.remark(&format!("what was there before is in {}", path.display()));
    }
    if let Some(key) = key {
        screen.remark(&key);
    }
    if let Some(lost) = &restored.lost {
        for line in tell_lost(lost, made(&restored)) {
            screen.say(&line);
        }
    }
    for line in recovered.iter().flat_map(tell_recovered) {
        screen.say(&line);
    }
    if is_newest {
        let list = context.command("teams untrusted NAME");
        screen.remark(&format!(
            "files of teams that changed since the backup count as untrusted; with the service started, \
             {list} lists them and `teams accept` accepts them"
        ));
    }
    screen.remark(&format!("next: {}", context.command("serve")));
    Ok(())
}

/// Asks the person at the terminal before a store is set aside that is as it should be.
async fn confirm_newest(context: &Context) -> Result<(), Failure> {
    if context.yes || !io::stdin().is_terminal() || !stopped::has_store(context) {
        return Ok(());
    }
    let cloned = context.clone();
    let opening = blocking(move || Ok(Stopped::open(&cloned, &storage::unwatched).is_ok()));
    if !opening.await? {
        return Ok(());
    }
    let what = "The store can be opened. What was stored since the newest backup is set aside with it, but for \
        turns that are in the transcripts.";
    confirm(context, what, "Set it aside all the same?")
}

/// When the backup was made.
fn made(restored: &Restored) -> Moment {
    Moment(time::parse(&restored.manifest.created).unwrap_or_default())
}

/// Adds what the transcripts hold beyond the backup.
async fn recover(restored: &Restored, context: &Context) -> Result<Recovered, Failure> {
    let Moment(since) = made(restored);
    let cloned = context.clone();
    let recovering = blocking(move || {
        let gauge = Gauge::new(cloned.screen, "restore");
        let stopped = Stopped::open(&cloned, &|progress| gauge.storage(progress))?;
        recovery::recover(&stopped.storage, &cloned.home.history(), since).map_err(|error| {
            let message = "the backup was restored, but not what the transcripts hold beyond it";
            Failure::system(message, chain(&error))
        })
    });
    recovering.await
}

/// What was added from the transcripts, for a person.
fn tell_recovered(recovered: &Recovered) -> Vec<String> {
    let Recovered { turns, tasks, unread } = recovered;
    let mut lines = Vec::new();
    if *turns > 0 {
        let (turns, tasks) = (counted(*turns, "turn"), counted(*tasks, "task"));
        lines.push(format!(
            "recovered from the transcripts: {turns}; {tasks} that ended in them will not be done again"
        ));
    }
    let unread = unread.iter().map(|path| format!("  {} cannot be read", path.display()));
    lines.extend(unread);
    lines
}

/// What was not recovered, for a person.
fn tell_lost(lost: &Lost, since: Moment) -> Vec<String> {
    let Lost { until, commits, records, unread, .. } = lost;
    let until = until.as_deref().and_then(time::parse).map(Moment);
    if until.is_some_and(|until| until <= since)
        && commits.is_none_or(|commits| commits == 0)
        && records.is_empty()
        && unread.is_none()
    {
        return Vec::new();
    }
    let until = until.map_or("the end".to_owned(), to_the_second);
    let since = to_the_second(since);
    let mut lines = vec![format!("not recovered: what was stored after {since}, until {until}")];
    if let Some(reason) = &lost.unread {
        lines.push(format!("  the store that was set aside cannot be read: {reason}"));
    }
    if let Some(commits) = lost.commits {
        lines.push(format!("  {commits} commits cannot be read there either"));
    }
    let kinds = lost.records.iter().map(|(kind, count)| format!("{count} {kind}"));
    let kinds: Vec<String> = kinds.collect();
    if let Some(list) = &lost.list {
        lines.push(format!(
            "  newer records there: {}; {} lists them",
            kinds.join(", "),
            list.display()
        ));
    }
    lines
}

fn work(
    arguments: &Arguments,
    context: &Context,
    is_stopped: &AtomicBool,
) -> Result<(Restored, Option<String>), Failure> {
    let config = load::load_config(&context.home, &context.environment)?.0;
    let home = backup_home(&context.home, &config.backup, &config.limits);
    // A home is not made for what is not there.
    match &arguments.file {
        Some(file) if !file.exists() => {
            return Err(Failure::not_found(format!(
                "there is no file `{}`; `--newest` takes the newest backup of the home",
                file.display()
            )));
        }
        None if !home.backups.exists() => return Err(RestoreError::NoBackup(home.backups).into()),
        _ => {}
    }
    context.home.prepare()?;
    let _lock = context.home.lock().map_err(|error| Failure::from(error).if_in_use())?;
    let gauge = Gauge::new(context.screen, "restore");
    let progress = |progress| {
        if is_stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        gauge.storage(progress)
    };
    let restored = match &arguments.file {
        Some(file) => restore(file, &home, arguments.force, &progress)?,
        None => restore_newest(&home, &doubts, &progress)?,
    };
    files::set_incomplete(&context.home.history()).map_err(|error| {
        Failure::system("transcripts may lack what was restored", error.to_string())
    })?;
    Ok((restored, tell_key(context, &home)))
}

/// Which key opens the restored vault, if that is not the one in use.
fn tell_key(context: &Context, home: &storage::Home) -> Option<String> {
    let storage = look(home).ok()?;
    let files = KeyFiles::new(&context.home.secrets(), &context.environment);
    let vault = Vault::peek(&storage, files, Arc::new(WallClock)).ok()?;
    let health = vault.health();
    match (health.locked, health.replaced_key) {
        _ if health.entries == 0 => None,
        (Some(locked), _) => Some(format!("its vault is locked: {locked}")),
        (None, Some(key)) => Some(format!(
            "its vault is from before a rotation and opens with the replaced key `{key}`"
        )),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// OP-81: nothing is said to be lost where nothing was stored after the backup.
    #[test]
    fn what_was_lost_is_told_with_its_time_if_anything_was() {
        let told = |until: &str, records: &[(&str, u64)]| {
            let records = records.iter().map(|(kind, many)| ((*kind).to_owned(), *many));
            let records: BTreeMap<String, u64> = records.collect();
            let until = Some(until.to_owned());
            let lost = Lost { until, commits: None, records, list: None, unread: None };
            tell_lost(&lost, "20261118T120919.123315Z".parse().unwrap())
        };
        let all = "not recovered: what was stored after 2026-11-18 12:09:19, until ";

        assert_eq!(told("2026-11-18T12:09:19.098415317Z", &[]), [""; 0]);
        let later = told("2026-11-18T12:30:00Z", &[]);
        assert_eq!(later, [format!("{all}2026-11-18 12:30:00")]);
        let older = told("2026-11-18T12:09:00Z", &[("task", 1)]);
        assert_eq!(older, [format!("{all}2026-11-18 12:09:00")]);
    }
}
