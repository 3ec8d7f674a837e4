//! `hivewright history import`: transcripts of other places become sessions.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use hivewright_actors::{
    history::HistoryEvent,
    ids::{MAIN, TeamKey},
    journal::records::Piece,
    org::tree::Tree,
    retention,
    storage::{Storage, StorageError},
    store::reads::{Range, contains, scan},
    task::{Lane, records::LaneKey},
};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    cli::{
        blocking::interruptible,
        context::Context,
        failure::{Exit, Failure, chain},
        progress::Gauge,
        stopped::Stopped,
    },
    scrub::Scrubber,
    storage::tiers::TieredStorage,
    text::no_such,
    transcript::{
        files,
        reading::{self, pieces},
    },
};

/// A larger file is refused.
const LARGEST: u64 = 256 << 20;

/// Take transcripts over, each as a session of its own, with the service stopped
///
/// Reads what `history export` writes, and session files of Pi (versions 1 to 3), of which the branch with the newest
/// entry counts. The same file is not taken twice. Lines that are damaged or of another kind are left out and counted.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright history import --team research research.jsonl\n  \
    hivewright history import --team main ~/.pi/agent/sessions/--home-ann-shop--/*.jsonl")]
pub(in crate::cli) struct Arguments {
    /// Whose history it becomes
    #[arg(long)]
    team: String,
    /// Transcripts, of at most 256 MiB each
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What came of a file.
#[derive(Debug, Serialize)]
struct Imported {
    file: PathBuf,
    session: String,
    /// It was taken before.
    known: bool,
    messages: usize,
    skipped: usize,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let cloned = context.clone();
    let (imported, _) = interruptible(move |stop| import(&arguments, &cloned, stop)).await;
    let imported = imported?;
    let screen = context.screen;
    if screen.json {
        return screen.document(&json!({ "data": imported }));
    }
    for Imported { file, session, known, messages, skipped } in &imported {
        let file = file.display();
        screen.say(&if *known {
            format!("{file}: was taken before, as session {session}")
        } else {
            let others = match skipped {
                0 => String::new(),
                1 => ", 1 line left out".to_owned(),
                count => format!(", {count} lines left out"),
            };
            format!("{file}: {messages} messages became session {session}{others}")
        });
    }
    Ok(())
}

fn import(
    Arguments { team, files }: &Arguments,
    context: &Context,
    stop: &AtomicBool,
) -> Result<Vec<Imported>, Failure> {
    context.own_home()?;
    // All are looked at before anything is changed.
    let texts: Vec<String> = files.iter().map(|file| text_of(file)).collect::<Result<_, _>>()?;
    let gauge = Gauge::new(context.screen, "import");
    let stopped = Stopped::open(context, &|progress| gauge.storage(progress))
        .map_err(|error| Failure::from(error).if_in_use())?;
    let storage = &stopped.storage;
    let team = team_of(storage, team)?;
    // Nothing that is stored holds what is in the vault.
    let scrubber = Scrubber::with(stopped.vault(context)?.all_secrets());
    let mut imported = Vec::new();
    for (file, text) in files.iter().zip(texts) {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::new(
                Exit::Interrupted,
                "stopped; the same command takes the files that are left",
            ));
        }
        imported.push(take(storage, &team, file, &scrubber.scrub_known(&text), &text)?);
    }
    files::set_incomplete(&context.home.history())
        .map_err(|error| Failure::system("transcripts may lack what was imported", error))?;
    Ok(imported)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let failed = |error: &io::Error| {
        let text = format!("{}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Failure::not_found(text),
            _ => Failure::failed(text),
        }
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    // A file may grow while it is read, and a pipe tells no size.
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Failure::failed(format!(
            "{}: a transcript has at most 256 MiB",
            path.display()
        )));
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn team_of(storage: &TieredStorage, name: &str) -> Result<TeamKey, Failure> {
    if name == MAIN {
        return Ok(TeamKey::first(MAIN));
    }
    let teams = scan(storage, Range::all()).map_err(|error| Failure::failed(chain(&error)))?;
    let tree = Tree::new(teams);
    let names: Vec<&str> = tree.iter().map(|team| team.name.as_str()).collect();
    tree.key(name).ok_or_else(|| Failure::not_found(no_such("team", name, &names)))
}

/// Takes one file over, if it was not before. Its session has its name from what it says.
fn take(
    storage: &dyn Storage,
    team: &TeamKey,
    file: &Path,
    text: &str,
    original: &str,
) -> Result<Imported, Failure> {
    let digest = Sha256::digest(original.as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let lane = Lane { team: team.name.clone(), topic: Some(format!("t-{name}").into()) };
    let lane = LaneKey::new(&lane, team.generation);
    let failed = |error: StorageError| Failure::failed(chain(&error));
    let session = lane.session_id();
    let known = contains::<Piece<'_>>(storage, &(lane.clone(), 1)).map_err(failed)?;
    if known {
        return Ok(Imported { file: file.into(), session, known, messages: 0, skipped: 0 });
    }
    let reading = reading::read(&lane.lane, text).ok_or_else(|| {
        Failure::failed(format!(
            "{}: this is neither a transcript of `hivewright history export` nor a session file of Pi (version 1 to 3)",
            file.display()
        ))
    })?;
    // The first piece comes last: while it is missing, the file was not taken.
    let pieces: Vec<&[HistoryEvent]> = reading.turns.iter().flat_map(|turn| pieces(turn)).collect();
    for events in pieces.into_iter().rev() {
        let batch = retention::look_at_all().events(&lane.lane, lane.generation, events).batch();
        batch.and_then(|batch| storage.commit(&batch)).map_err(failed)?;
    }
    let (messages, skipped) = (reading.messages, reading.skipped);
    Ok(Imported { file: file.into(), session, known, messages, skipped })
}

#[cfg(test)]
mod tests {
    use hivewright_actors::doubles::disk::Disk;

    use super::*;

    /// EN-51, OR-97: what is taken over has no task to go with.
    #[test]
    fn what_is_imported_is_looked_at_by_the_next_night() {
        let line = r#"{"type":"history","agentId":"x","sessionId":"y","timestamp":1794703151000,"role":"user","content":[{"type":"text","text":"one"}]}"#;
        let storage = Disk::default().mount(None);
        let mark = retention::look_at_all().batch().unwrap().changes.remove(0).0;
        storage.put(mark.clone(), Some(b"{}".to_vec()));

        let team = TeamKey::first(MAIN);
        let taken = take(&*storage, &team, Path::new("old.jsonl"), line, line).unwrap();

        assert_eq!((taken.messages, taken.skipped), (1, 0));
        assert_eq!(storage.get(&mark).unwrap(), None);
    }
}
