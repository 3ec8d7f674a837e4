//! Recovery of turns from transcript files, after the store was rebuilt from a backup that is older than they are.

use std::{
    collections::HashMap,
    fs, io,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use hivewright_actors::{
    clock::Timestamp,
    history::{Fact, HistoryEvent},
    ids::{ChannelId, TaskId, TurnId},
    journal::sessions,
    retention,
    storage::{Order, Storage, StorageError},
    task::{
        Task,
        cause::Cause,
        ending,
        outcome::{Ending, Outcome},
        records::{self as tasks, LaneKey},
    },
};
use serde::Serialize;

use super::{
    files::{CLOCK_SLACK, lane_of},
    reading::{self, pieces},
};
use crate::removal::if_there;

/// What the files held beyond the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Turns that were added to the history.
    pub turns: usize,
    /// Tasks that were open in the store and ended in these turns: they are not done again.
    pub tasks: usize,
    /// Files that cannot be read.
    pub unread: Vec<PathBuf>,
}

/// Why what the files hold was not added, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    #[error("the folder of transcripts cannot be read: {0}")]
    Folder(#[from] io::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Adds every turn of the files in a folder that ended after a moment and that the store does not know: what it does not know of
/// before has been removed. Blocks. Done again, it adds what is left.
pub fn recover(
    storage: &dyn Storage,
    folder: &Path,
    since: Timestamp,
) -> Result<Recovered, RecoveryError> {
    let mut recovered = Recovered::default();
    let Some(files) = if_there(fs::read_dir(folder))? else { return Ok(recovered) };
    let files = files.collect::<Result<Vec<_>, _>>()?;
    let paths = files.into_iter().map(|file| file.path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")) {
        let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match text.ok().and_then(|text| Some((lane_of(&text)?, text))) {
            Some((lane, text)) => {
                recover_session(storage, &lane, &text, since, &mut recovered)?;
            }
            None => recovered.unread.push(path),
        }
    }
    Ok(recovered)
}

/// What the journal of a session says already.
#[derive(Default)]
struct Known {
    last_seq: u64,
    /// When the last event of each turn was, and whether that is its end.
    turns: HashMap<TurnId, (Timestamp, bool)>,
    /// Where the last turn belongs.
    last: Option<Place>,
}

/// The conversation that a turn belongs to. Lines don't say it.
#[derive(Clone, Default)]
struct Place {
    cause: Option<Cause>,
    channel: Option<ChannelId>,
    root: Option<TaskId>,
}

impl Place {
    fn of(task: &Task) -> Self {
        Self {
            cause: Some(task.caused_by()),
            channel: task.source.as_ref().map(|source| source.channel.clone()),
            root: Some(task.root().clone()),
        }
    }
}

impl Known {
    fn read(storage: &dyn Storage, lane: &LaneKey) -> Result<Self, StorageError> {
        let mut known = Self::default();
        let all = (0, u64::MAX);
        sessions::journal(storage, lane, all, Order::Rising, &mut |events| {
            for HistoryEvent { seq, turn, timestamp, fact, .. } in events {
                known.last_seq = seq;
                let ends = matches!(fact, Fact::TurnEnd { .. });
                known.turns.insert(turn, (timestamp, ends));
                // A topic is one person's; in the lane of a team without topics each turn has its own root.
                if let Fact::TurnStart { topic: Some(_), cause, source_channel, .. } = fact {
                    known.last = Some(Place { cause, channel: source_channel, root: None });
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(known)
    }
}

fn recover_session(
    storage: &dyn Storage,
    lane: &LaneKey,
    text: &str,
    since: Timestamp,
    recovered: &mut Recovered,
) -> Result<(), StorageError> {
    let Some(reading) = reading::read_own(&lane.lane, text) else { return Ok(()) };
    let mut known = Known::read(storage, lane)?;
    for mut turn in reading.turns {
        let Some(HistoryEvent { turn: id, timestamp, fact: Fact::TurnEnd { .. }, .. }) =
            turn.last()
        else {
            // It was under way when the file was written.
            continue;
        };
        let before = known.turns.get(id).copied();
        if *timestamp + CLOCK_SLACK < since || before.is_some_and(|(_, ended)| ended) {
            continue;
        }
        let (task, joined) = tasks_of(storage, &turn)?;
        let place = match &task {
            Some(task) => Place::of(task),
            None => known.last.clone().unwrap_or_default(),
        };
        for task in task.into_iter().chain(joined).filter(|task| task.outcome.is_none()) {
            end(storage, task, &turn)?;
            recovered.tasks += 1;
        }
        // Of a turn that had begun before the backup the store has the first part, without those that joined since.
        turn.retain(|event| {
            let is_kept = match &event.fact {
                Fact::TurnEnd { .. } => true,
                Fact::TurnStart { task_ids, .. } => task_ids.len() > 1,
                _ => false,
            };
            is_kept || before.is_none_or(|(last, _)| event.timestamp > last)
        });
        for event in &mut turn {
            known.last_seq += 1;
            event.seq = known.last_seq;
            if let Fact::TurnStart { cause, source_channel, root, .. } = &mut event.fact {
                cause.clone_from(&place.cause);
                source_channel.clone_from(&place.channel);
                root.clone_from(&place.root);
            }
        }
        for events in pieces(&turn) {
            // Its tasks may be unknown.
            let writes = retention::look_at_all().events(&lane.lane, lane.generation, events);
            storage.commit(&writes.batch()?)?;
        }
        recovered.turns += 1;
    }
    Ok(())
}

/// The task of a turn, if the store knows it, and those of messages that joined it, if it answered them: without an answer,
/// they have turns of their own.
fn tasks_of(
    storage: &dyn Storage,
    turn: &[HistoryEvent],
) -> Result<(Option<Task>, Vec<Task>), StorageError> {
    let ids = turn.iter().find_map(|event| match &event.fact {
        Fact::TurnStart { task_ids, .. } => Some(task_ids.as_slice()),
        _ => None,
    });
    let Some((first, joined)) = ids.and_then(<[TaskId]>::split_first) else {
        return Ok((None, Vec::new()));
    };
    let is_answered = turn.last().is_some_and(
        |event| matches!(&event.fact, Fact::TurnEnd { outcome, .. } if *outcome == Ending::Done),
    );
    let joined = joined.iter().filter(|_| is_answered);
    let joined = joined.filter_map(|id| tasks::find(storage, id).transpose());
    Ok((tasks::find(storage, first)?, joined.collect::<Result<_, _>>()?))
}

fn end(storage: &dyn Storage, mut task: Task, turn: &[HistoryEvent]) -> Result<(), StorageError> {
    let Some(HistoryEvent { timestamp, fact, .. }) = turn.last() else { return Ok(()) };
    let Fact::TurnEnd { outcome, code, message, steps, usage, .. } = fact else { return Ok(()) };
    let texts = turn.iter().filter_map(|event| match &event.fact {
        Fact::AssistantText { text, step } if step == steps => Some(text.as_str()),
        _ => None,
    });
    let outcome = Outcome {
        code: *code,
        message: message.clone(),
        text: texts.collect::<Vec<_>>().join("\n"),
        usage: *usage,
        ..Outcome::new(*outcome, *timestamp)
    };
    let writes = ending::recovered(&mut task, outcome);
    storage.commit(&writes.batch()?)
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        doubles::disk::Disk, journal::sessions::session, task::Lane, usage::Usage,
    };

    use super::*;
    use crate::transcript::lines::{Writer, file_name};

    /// The file of a session with one turn, which has ended.
    fn file_of(lane: &LaneKey) -> String {
        let end = Fact::TurnEnd {
            outcome: Ending::Done,
            code: None,
            message: None,
            text: String::new(),
            steps: 1,
            usage: Usage::default(),
            duration_ms: 1,
        };
        let mut lines = Writer::new(lane);
        for (seq, fact) in (1..).zip([Fact::AssistantText { text: "1".into(), step: 1 }, end]) {
            let timestamp = Timestamp(1_794_703_151_000 + seq);
            lines.push(HistoryEvent {
                seq,
                turn: "turn-1".into(),
                timestamp,
                fact,
                redacted: false,
            });
        }
        lines.finish()
    }

    /// SC-112, OR-97: what is brought back may have no task to go with.
    #[test]
    fn what_is_brought_back_is_looked_at_by_the_next_night() {
        let lane = LaneKey::new(&Lane { team: "main".into(), topic: Some("t-1".into()) }, 1);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file_name(&lane)), file_of(&lane)).unwrap();
        let storage = Disk::default().mount(None);
        let mark = retention::look_at_all().batch().unwrap().changes.remove(0).0;
        storage.put(mark.clone(), Some(b"{}".to_vec()));

        let recovered = recover(&*storage, folder.path(), Timestamp(0)).unwrap();

        assert_eq!((recovered.turns, recovered.unread), (1, Vec::new()));
        assert!(session(&*storage, &lane).unwrap().is_some());
        assert_eq!(storage.get(&mark).unwrap(), None);
    }
}
